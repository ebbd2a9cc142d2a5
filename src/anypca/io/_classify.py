"""What a column of a data frame holds: numbers, answers, dates, names or text."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from anypca._optional import optional
from anypca._words import is_date
from anypca.columns.labels import Labels, order_of
from anypca.io._numbers import NumberColumn, Spelling, are_padded, own_decimal, read_numbers, say_spoilt

_TRUE = frozenset({"yes", "true", "y", "t"})
_ANSWERS = frozenset({"yes", "no", "true", "false"})
#: Single letters are answers only as a pair: a column of T alone is more likely a kind than a truth.
_LETTERS = (frozenset({"y", "n"}), frozenset({"t", "f"}))
_SHORT = frozenset().union(*_LETTERS)
#: Signs for a missing cell besides the empty one and pandas' own (NA, N/A, NaN, null, ...).
MISSING = ("?", ".", "-")
#: Cells of a text file that are missing in columns of any kind: pandas' own without None, which may be an answer.
EMPTY = (
    *(
        "",
        "#N/A",
        "#N/A N/A",
        "#NA",
        "-1.#IND",
        "-1.#QNAN",
        "-NaN",
        "-nan",
        "1.#IND",
        "1.#QNAN",
        "<NA>",
        "N/A",
        "NA",
    ),
    *("NULL", "NaN", "n/a", "nan", "null"),
    *MISSING,
)
#: Words for a missing cell that blanks kept pandas from seeing, and what spreadsheets write into cells that failed.
_MISSING_WORDS = frozenset(
    {
        "",
        "na",
        "n/a",
        "nan",
        "null",
        "none",
        "#n/a",
        "#na",
        "#value!",
        "#div/0!",
        "#ref!",
        "#num!",
        "#null!",
        "#name?",
        *MISSING,
    }
)
#: What `read_numbers` says of words.
_TEXT = "it holds text"
#: Different cells of a column from which the habits of a file are learned; more would only cost time.
_PEEK = 2000


@dataclass(frozen=True, eq=False)
class Column:
    """One column after classification: numbers, or the reason why there are none."""

    name: str
    values: Any = None
    """(n_rows,) float64, or ``None`` when the column is not numeric."""
    note: str | None = None
    """What was done to get the numbers."""
    reason: str = ""
    """Why a column without numbers is left out."""
    labels: tuple[str, ...] | None = None
    """The cells as text, where they are complete and unique and so could name rows."""
    numbers: NumberColumn | None = None
    """How the numbers of a column of text were read, or why they could not be."""
    categories: Labels | None = None
    """What the numbers of a column of labels stand for."""
    is_padded: bool = False
    """Whether its numbers have zeros before them, so that each has as many digits."""


def import_pandas() -> Any:
    """Pandas, or a sentence on how to get it.

    Returns
    -------
    pandas : module
    """
    with optional("reading this kind of file", "pandas", "io"):
        import pandas
    return pandas


def find_spelling(table: Any, spelling: Spelling) -> Spelling:
    """What the columns of text that can be read in one way only say of the decimal sign.

    Parameters
    ----------
    table : pandas.DataFrame
    spelling : Spelling
        What is known besides.

    Returns
    -------
    spelling : Spelling
    """
    found = set(spelling.found)
    for j in np.flatnonzero([kind.kind == "O" for kind in table.dtypes]):
        cells = {cell for cell in table.iloc[:, j].unique() if isinstance(cell, str)}
        kept = itertools.islice((cell for cell in cells if not is_missing(cell)), _PEEK)
        own = own_decimal(kept)
        if own is not None:
            found.add(own)
    return replace(spelling, found=frozenset(found))


def is_missing(cell: str) -> bool:
    """Whether a cell stands for a missing value."""
    return cell.strip().lower() in _MISSING_WORDS


def classify(cells: Any, name: str, spelling: Spelling) -> Column:
    """Numbers of a column, or why there are none.

    Parameters
    ----------
    cells : pandas.Series
    name : str
    spelling : Spelling
        How the other columns write numbers.

    Returns
    -------
    column : Column
    """
    pandas = import_pandas()
    present = cells.dropna()
    if present.empty:
        return Column(name, reason="it is empty")
    labels = tuple(str(cell) for cell in cells) if len(present) == len(cells) and cells.is_unique else None
    if pandas.api.types.is_bool_dtype(cells.dtype):
        return Column(name, cells.to_numpy(dtype=float, na_value=np.nan), note="read as 1 and 0 (true/false)")
    if pandas.api.types.is_numeric_dtype(cells.dtype) and cells.dtype.kind != "c":
        # Plain conversion also serves pandas' own integer types, whose missing value is not NaN.
        return Column(name, cells.to_numpy(dtype=float, na_value=np.nan), labels=labels)
    if pandas.api.types.is_timedelta64_dtype(cells.dtype):
        return Column(name, cells.dt.total_seconds().to_numpy(dtype=float), note="read as seconds")
    if pandas.api.types.is_datetime64_any_dtype(cells.dtype):
        return Column(name, reason="it holds dates", labels=labels)
    return _classify_text(cells, name, labels, spelling)


def _classify_text(cells: Any, name: str, labels: tuple[str, ...] | None, spelling: Spelling) -> Column:
    """A column of text: yes/no answers, dates, names, or numbers in some notation."""
    cells = cells.astype(object)
    stripped = cells.map(_strip, na_action="ignore")
    # What cells are is asked of each different one once.
    kinds = {cell: cell.lower() for cell in stripped.dropna().unique()}
    if not kinds:
        return Column(name, reason="it is empty")
    lower = frozenset(kinds.values())
    if lower <= _ANSWERS or lower in _LETTERS or (lower <= _ANSWERS | _SHORT and lower & _ANSWERS):
        values = stripped.map({cell: float(kind in _TRUE) for cell, kind in kinds.items()})
        return Column(name, values.to_numpy(dtype=float), note=f"read as 1 and 0 ({'/'.join(sorted(lower))})")
    if all(map(is_date, kinds)):
        return Column(name, reason="it holds dates", labels=labels)
    # Cells that a workbook holds as numbers have no notation that could be mistaken.
    known = cells.map(_as_number, na_action="ignore").to_numpy(dtype=float, na_value=np.nan)
    return _classify_words(stripped.where(np.isnan(known)), known, name, labels, spelling)


def is_text_reason(reason: str) -> bool:
    """Whether a column is left out since it holds words, and not dates or numbers that cannot be read."""
    return reason == _TEXT


def strip_cells(cells: Any) -> Any:
    """The cells of a column of text without blanks around them, NaN where missing.

    The word none is an answer where it belongs to a scale of the others, or is written in small letters.
    """
    text = cells.astype(object).map(lambda cell: str(cell).strip(), na_action="ignore")
    stripped = cells.astype(object).map(_strip, na_action="ignore")
    is_none = text.str.lower() == "none"
    words = {*stripped.dropna().unique(), "none"}
    return stripped.mask(is_none & ((text == "none") | (order_of(words) is not None)), text)


def _strip(cell: Any) -> Any:
    """A cell as text without blanks around it; NaN if it stands for a missing value."""
    text = str(cell).strip()
    return np.nan if text.lower() in _MISSING_WORDS else text


def _as_number(cell: Any) -> float:
    # Text first: nearly all cells are, and it is asked for faster than numbers are.
    is_number = not isinstance(cell, str | bool) and isinstance(cell, Real | Decimal)
    return float(cell) if is_number else np.nan


def _classify_words(
    stripped: Any, known: Any, name: str, labels: tuple[str, ...] | None, spelling: Spelling
) -> Column:
    """Text that is neither answers nor dates, beside the numbers that are already known."""
    counts: dict[str, int] = stripped.dropna().value_counts(sort=False).to_dict()
    n_known = int(np.count_nonzero(~np.isnan(known)))
    column = read_numbers(counts, spelling, n_known)
    if column.reason:
        unread = None if is_text_reason(column.reason) else column
        return Column(name, reason=column.reason, labels=labels, numbers=unread)
    values = stripped.map(column.values).to_numpy(dtype=float, na_value=np.nan)
    values = np.where(np.isnan(known), values, known)
    is_padded = are_padded(counts) and not n_known
    return Column(name, values, _say(column, counts), labels=labels, numbers=column, is_padded=is_padded)


def _say(column: NumberColumn, counts: Mapping[str, int]) -> str | None:
    said = []
    if column.spoilt:
        said.append(say_spoilt(column.spoilt, counts, "is no number|are no numbers"))
    if column.limits:
        said.append(say_spoilt(column.limits, counts, "is a limit and no value|are limits and no values"))
    return "; ".join(said) or None

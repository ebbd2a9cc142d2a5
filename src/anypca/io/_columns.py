"""From columns of any kind to a numeric table with names."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from anypca.io._frame import Frame, numbered, quoted

#: Column names that mark row names rather than a quantity. The empty one is a saved index.
_ID_NAMES = frozenset({"", "id", "name", "sample", "index", "rowname", "row_names", "unnamed: 0"})
_TRUE = frozenset({"yes", "true", "y", "t"})
_ANSWERS = frozenset({"yes", "no", "true", "false"})
#: Single letters are answers only as a pair: a column of T alone is more likely a kind than a truth.
_LETTERS = (frozenset({"y", "n"}), frozenset({"t", "f"}))
#: Signs for a missing cell besides the empty one and pandas' own (NA, N/A, NaN, null, ...).
MISSING = ("?", ".", "-")
#: Words for a missing cell that blanks kept pandas from seeing.
_MISSING_WORDS = frozenset({"", "na", "n/a", "nan", "null", "none", *MISSING})
#: Numbers with thousands separators or a percent sign: too many readings to choose one.
_NUMBER_LIKE = re.compile(r"[+-]?[\d.,' ]*\d[\d.,' ]*%?")
_DATE = re.compile(r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})([ T].*)?")


@dataclass(frozen=True, eq=False)
class _Column:
    """One column after classification: numbers, or the reason why there are none."""

    name: str
    values: Any = None
    """(n_rows,) float64, or ``None`` when the column is not numeric."""
    note: str | None = None
    reason: str = ""
    """Why a column without numbers is left out."""
    labels: tuple[str, ...] | None = None
    """The cells as text, where they are complete and unique and so could name rows."""


def import_pandas() -> Any:
    """Pandas, or a sentence on how to get it.

    Returns
    -------
    pandas : module
    """
    try:
        import pandas
    except ImportError as error:
        raise ImportError(
            "reading this kind of file needs pandas; install it with pip install 'anypca[io]'."
        ) from error
    return pandas


def check_unique(names: list[str], path: Path) -> None:
    """Refuse column names that occur twice.

    Parameters
    ----------
    names : list of str
    path : Path
        For the message.
    """
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(
            f"{path}: column names must be unique; {quoted(repeated)} occur more than once. "
            "Rename these columns."
        )


def frame_from_pandas(table: Any, path: Path, notes: tuple[str, ...] = ()) -> Frame:
    """Pick the numeric columns of a data frame and the one that names the rows.

    Parameters
    ----------
    table : pandas.DataFrame
        With string column names.
    path : Path
        For messages.
    notes : tuple of str
        What was said before.

    Returns
    -------
    frame : Frame
    """
    check_unique(list(table.columns), path)
    if len(table) == 0:
        raise ValueError(f"{path}: expected rows of data; there are only column names. Add the data.")
    columns = [_classify(table.iloc[:, j], str(name)) for j, name in enumerate(table.columns)]
    namer, set_aside = _row_namer(columns)
    used = [column for column in columns if column.values is not None and column.name not in set_aside]
    if not used:
        raise ValueError(
            f"{path}: expected at least one column of numbers; found {quoted([c.name for c in columns])}, "
            "none numeric. Check the delimiter and the decimal sign."
        )
    rows = numbered("", len(table)) if namer is None or namer.labels is None else namer.labels
    values, rows, empty = _drop_empty_rows(np.column_stack([column.values for column in used]), rows)
    said = [*notes, *_notes(columns, namer, set_aside), *empty]
    return Frame(values, tuple(column.name for column in used), rows, tuple(said))


def _classify(cells: Any, name: str) -> _Column:
    """Numbers of a column, or why there are none."""
    pandas = import_pandas()
    present = cells.dropna()
    if present.empty:
        return _Column(name, reason="it is empty")
    labels = tuple(str(cell) for cell in cells) if len(present) == len(cells) and cells.is_unique else None
    if pandas.api.types.is_bool_dtype(cells.dtype):
        return _Column(name, cells.to_numpy(dtype=float, na_value=np.nan), note="true/false")
    if pandas.api.types.is_numeric_dtype(cells.dtype) and cells.dtype.kind != "c":
        # Plain conversion also serves pandas' own integer types, whose missing value is not NaN.
        return _Column(name, cells.to_numpy(dtype=float, na_value=np.nan), labels=labels)
    if pandas.api.types.is_datetime64_any_dtype(cells.dtype):
        return _Column(name, reason="it holds dates", labels=labels)
    return _classify_text(cells, name, labels)


def _classify_text(cells: Any, name: str, labels: tuple[str, ...] | None) -> _Column:
    """A column of text: yes/no answers, dates, names, or numbers spoilt by a few cells."""
    stripped = cells.astype(object).where(cells.isna(), cells.astype(str).str.strip())
    stripped = stripped.mask(stripped.astype(str).str.lower().isin(_MISSING_WORDS))
    present = stripped.dropna()
    if present.empty:
        return _Column(name, reason="it is empty")
    lower = present.str.lower()
    kinds = frozenset(lower.unique())
    if kinds <= _ANSWERS or kinds in _LETTERS:
        values = np.full(len(cells), np.nan)
        values[stripped.notna().to_numpy()] = lower.isin(_TRUE).to_numpy()
        return _Column(name, values, note="/".join(sorted(kinds)))
    if present.str.fullmatch(_DATE).all():
        return _Column(name, reason="it holds dates", labels=labels)
    return _classify_words(stripped, present, name, labels)


def _classify_words(stripped: Any, present: Any, name: str, labels: tuple[str, ...] | None) -> _Column:
    """Text that is neither answers nor dates."""
    numbers = import_pandas().to_numeric(stripped, errors="coerce")
    bad = present[numbers[present.index].isna()]
    if bad.empty:
        return _Column(name, numbers.to_numpy(dtype=float))
    example = f"the first is {bad.iloc[0]!r}"
    if bad.str.fullmatch(_NUMBER_LIKE).all():
        return _Column(name, reason=f"its numbers are not in plain notation, {example}")
    if 2 * len(bad) < len(present):
        return _Column(name, reason=f"{len(bad)} of its {len(present)} cells are not numbers, {example}")
    return _Column(name, reason="it holds text", labels=labels)


def _row_namer(columns: list[_Column]) -> tuple[_Column | None, set[str]]:
    """The column that names the rows, and all columns that are names and not quantities."""
    marked = [column for column in columns if column.name.strip().lower() in _ID_NAMES]
    first = columns[0]
    candidates = [first] if first.values is None and first not in marked else []
    namer = next((column for column in candidates + marked if column.labels is not None), None)
    # A column called id is never a quantity, even if its values repeat and cannot name the rows.
    aside = {column.name for column in marked}
    return namer, aside | ({namer.name} if namer is not None else set())


def _drop_empty_rows(values: Any, rows: tuple[str, ...]) -> tuple[Any, tuple[str, ...], list[str]]:
    """Rows without a single number say nothing and stop every model; leave them out."""
    empty = np.isnan(values).all(axis=1)
    if not empty.any() or empty.all():
        return values, rows, []
    names = [name for name, drop in zip(rows, empty, strict=True) if drop]
    kept = tuple(name for name, drop in zip(rows, empty, strict=True) if not drop)
    return values[~empty], kept, [f"{_count(len(names), 'row')} without any number left out: {quoted(names)}"]


def _notes(columns: list[_Column], namer: _Column | None, set_aside: set[str]) -> list[str]:
    notes = []
    if namer is not None:
        what = f"column {namer.name!r}" if namer.name else "the column without a name"
        notes.append(f"{what} taken as row names")
    for column in columns:
        if column is namer:
            continue
        if column.name in set_aside:
            notes.append(f"column {column.name!r} left out: its name says that it names rows, not a quantity")
        elif column.note is not None:
            notes.append(f"column {column.name!r} read as 1 and 0 ({column.note})")
    by_reason: dict[str, list[str]] = {}
    for column in columns:
        if column.values is None and column.name not in set_aside:
            by_reason.setdefault(column.reason, []).append(column.name)
    for reason, names in by_reason.items():
        plural = reason.replace("it ", "they ").replace("holds", "hold").replace(" is empty", " are empty")
        said = reason if len(names) == 1 else plural
        notes.append(f"{_count(len(names), 'column')} left out: {quoted(names)} ({said})")
    return notes


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"

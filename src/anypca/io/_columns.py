"""From data frames with columns of any kind to a numeric table with names."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fnmatch import fnmatchcase
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from anypca._optional import optional
from anypca._words import counted, is_date, listed, numbered, quoted, suggest
from anypca.columns import are_names
from anypca.columns.encoding import labels_of, number_cells, read_cells
from anypca.columns.labels import Labels, order_of
from anypca.io._identifiers import find_codes, is_category, is_identifier, may_identify, why_no_amount
from anypca.io._numbers import NumberColumn, Spelling, are_padded, own_decimal, read_numbers, say_spoilt
from anypca.io._shape import FEATURES, find_totals, turn
from anypca.io._source import ReadOptions
from anypca.io.frame import Frame, describe_missing

#: Column names that mark row names rather than a quantity. The empty one is a saved index.
_ID_NAMES = frozenset({"", "id", "name", "sample", "index", "rowname", "row_names", "unnamed: 0"})
_TRUE = frozenset({"yes", "true", "y", "t"})
_ANSWERS = frozenset({"yes", "no", "true", "false"})
#: Single letters are answers only as a pair: a column of T alone is more likely a kind than a truth.
_LETTERS = (frozenset("yn"), frozenset("tf"))
#: Signs for a missing cell besides the empty one and the names that pandas knows.
MISSING = ("?", ".", "-")
#: Cells that are missing in columns of any kind: the list of pandas without None, which may be an answer.
EMPTY = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>"),
    *("N/A", "NA", "NULL", "NaN", "n/a", "nan", "null"),
    *MISSING,
)
#: The same in small letters, and what spreadsheets write into cells that failed.
_MISSING_WORDS = frozenset(
    {"", "na", "n/a", "nan", "null", "none", "#n/a", "#na"}
    | {"#value!", "#div/0!", "#ref!", "#num!", "#null!", "#name?", *MISSING}
)
#: The reason why a column of words is not numeric.
_TEXT = "it holds text"
#: ``1 - not at all``, ``2. bad`` or ``3``: a whole number, with or without words.
_ANSWER = re.compile(r"\s*[(\[]?(-?\d{1,2})(?:[)\]]?\s*\Z|(?:[)\]]|\s*[-–—:=.)]+)\s*[^\W\d].*)", re.DOTALL)
#: Different cells of a column from which the notation of a file is learned.
_PEEK = 2000


@dataclass(frozen=True, eq=False)
class Column:
    """One column after classification: numbers, or the reason why there are none."""

    name: str
    values: Any = None
    """(n_rows,) float64, or ``None`` if the column is not numeric."""
    note: str | None = None
    """How the numbers were obtained."""
    reason: str = ""
    """Why a column without numbers is left out."""
    numbers: NumberColumn | None = None
    """How the numbers of a column of text were read, or why they could not be."""
    categories: Labels | None = None
    """The labels that the numbers represent."""
    answers: Labels | None = None
    """Its cells, if they are answers that begin with a number, in the order of the numbers."""
    is_padded: bool = False
    """Whether leading zeros give all of its numbers as many digits."""


def import_pandas() -> Any:
    """Pandas, or an error that says how to install it."""
    with optional("reading this kind of file", "pandas", "io"):
        import pandas
    return pandas


def names_rows(name: str) -> bool:
    """Whether the name of a column says that it names rows."""
    return name.strip().lower() in _ID_NAMES


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether a name is one of several, or fits one of several patterns."""
    return name in patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def is_missing(cell: str) -> bool:
    """Whether a cell means a missing value."""
    return cell.strip().lower() in _MISSING_WORDS


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


def frame_from_pandas(
    table: Any,
    path: Path,
    options: ReadOptions,
    notes: tuple[str, ...] = (),
    spelling: Spelling | None = None,
) -> Frame:
    """Pick the numeric columns of a data frame and the one that names the rows.

    Parameters
    ----------
    table : pandas.DataFrame
        With string column names.
    path : Path
        For messages.
    options : ReadOptions
    notes : tuple of str
        Notes so far.
    spelling : Spelling, optional
        Known notation of numbers.

    Returns
    -------
    frame : Frame
    """
    check_unique(list(table.columns), path)
    if len(table) == 0:
        raise ValueError(f"{path}: expected rows of data; there are only column names. Add the data.")
    table = table[chosen_names(list(table.columns), options, path)]
    table, masked = _mask_missing(table, options)
    columns = _classify_all(table, _find_spelling(table, spelling or Spelling(options.decimal)))
    namer, set_aside = _row_namer(table, columns, options)
    is_other_way = options.transpose is None and namer is not None and _names_features(namer)
    if options.categories and not (options.transpose or is_other_way):
        columns = [
            column if column.name in set_aside else _with_categories(column, table, options)
            for column in columns
        ]
    used = [column for column in columns if column.values is not None and column.name not in set_aside]
    if not used:
        raise ValueError(
            f"{path}: expected at least one column of numbers; found {quoted([c.name for c in columns])}, "
            f"none numeric{_why_not(columns)}. Check the delimiter and the decimal sign."
        )
    end, totals = find_totals(table, [column.values for column in used if column.categories is None])
    if totals:
        return frame_from_pandas(table.iloc[:end], path, options, (*notes, totals), spelling)
    said = [*notes, *masked, *_repairs(used, options)]
    said += _notes(columns, namer, set_aside - set(options.aside), options)
    if options.transpose:
        # The columns are samples: their numbers contain no labels or codes.
        return _assemble(table, columns, used, namer, options, said)
    if is_other_way and namer is not None:
        flat = _assemble(table, columns, used, namer, options, said)
        return turn(flat, f" ({namer.name!r} names features)")
    used, found, more = _amounts(used, options)
    frame = _assemble(table, columns, used, namer, options, [*said, *more])
    return replace(frame, **found)


def _why_not(columns: list[Column]) -> str:
    """What keeps columns that look like numbers from being read, in parentheses."""
    reasons = [f"{c.name!r}: {c.reason}" for c in columns if c.reason not in ("", _TEXT)]
    return f" ({listed(reasons, most=3)})" if reasons else ""


def _assemble(
    table: Any,
    columns: list[Column],
    used: list[Column],
    namer: Column | None,
    options: ReadOptions,
    notes: list[str],
) -> Frame:
    """The frame of the columns that are used; rows without any number are left out."""
    values = np.column_stack([column.values for column in used])
    rows = numbered("", len(table)) if namer is None else _labels(table[namer.name]) or ()
    names = tuple(column.name for column in used)
    extras = _extras(table, columns, {*names, "" if namer is None else namer.name}, options)
    empty = np.isnan(values).all(axis=1)
    if empty.any() and not empty.all():
        lost = [rows[i] for i in np.flatnonzero(empty)]
        notes = [*notes, f"{counted(len(lost), 'row')} without any number left out: {quoted(lost)}"]
        rows = tuple(rows[i] for i in np.flatnonzero(~empty))
        values, extras = values[~empty], {name: cells[~empty] for name, cells in extras.items()}
    labels = {column.name: column.categories for column in used if column.categories is not None}
    return Frame(values, names, rows, (*notes, *describe_missing(values, names)), extras, labels=labels)


def chosen_names(names: list[str], options: ReadOptions, path: Path) -> list[str]:
    """The columns that a user wants to read, in the order of the file.

    Parameters
    ----------
    names : list of str
        Columns of the file.
    options : ReadOptions
        With patterns such as ``Q*``; columns asked for by name stay.
    path : Path
        For the message.

    Returns
    -------
    names : list of str

    Raises
    ------
    ValueError
        If a requested column does not exist.
    """
    asked = [*([] if options.id_column is None else [options.id_column]), *options.aside]
    for name in asked:
        if name not in names:
            hint = suggest(name, names, f"It has {quoted(names, most=8)}.", cutoff=0.6)
            raise ValueError(f"{path}: there is no column {name!r}. {hint}")
    if options.id_column is not None and options.id_column in options.aside:
        raise ValueError(
            f"column {options.id_column!r} cannot both name the rows and be an offset or covariate. Choose one."
        )
    # With the codes of a fit, the columns to keep come from the fit, and a new table may lack some.
    asked_to_keep = options.keep if options.codes is None else ()
    for pattern in (*options.columns, *options.drop, *asked_to_keep):
        if not any(matches(name, (pattern,)) for name in names):
            raise ValueError(f"{path}: no column is called {pattern!r}. It has {quoted(names, most=8)}.")
    if not (options.columns or options.drop):
        return names
    is_row_name = {name for name in names[:1] if options.columns and name not in options.drop}
    kept = [name for name in names if not options.columns or matches(name, options.columns)]
    chosen = {*(name for name in kept if not matches(name, options.drop)), *asked, *is_row_name}
    return [name for name in names if name in chosen]


def _mask_missing(table: Any, options: ReadOptions) -> tuple[Any, list[str]]:
    """The table without the cells that mean a missing value, and a note on their number."""
    if not options.missing:
        return table, []
    pandas = import_pandas()
    columns, count = {}, 0
    for name in table.columns:
        cells = table[name]
        if name != options.id_column and cells.dtype.kind != "M":
            is_number = pandas.api.types.is_numeric_dtype(cells.dtype)
            text = cells if is_number else cells.astype(str).str.strip()
            same = text.isin(options.missing_numbers if is_number else options.missing) & cells.notna()
            count += int(same.sum())
            cells = cells.mask(same)
        columns[name] = cells
    what = " or ".join(repr(sign) for sign in options.missing)
    return pandas.DataFrame(columns), [f"{counted(count, 'cell')} equal to {what} taken as missing"]


def _extras(table: Any, columns: list[Column], used: set[str], options: ReadOptions) -> dict[str, Any]:
    """The columns that are neither part of the table nor row names: numbers, or text; no empty ones unasked."""
    extras = {}
    for column in columns:
        if column.name in used or (table[column.name].isna().all() and column.name not in options.aside):
            continue
        text = table[column.name].astype(object)
        words = [
            None if is_empty else str(cell).strip() for cell, is_empty in zip(text, text.isna(), strict=True)
        ]
        extras[column.name] = np.array(words, dtype=object) if column.values is None else column.values
    return extras


def _labels(cells: Any) -> tuple[str, ...] | None:
    """The cells of a column as text if they are complete and unique."""
    return tuple(map(str, cells)) if cells.is_unique and not cells.isna().any() else None


def _names_features(column: Column) -> bool:
    """Whether a column of row names says that the rows are features and the columns samples."""
    found = FEATURES.fullmatch(column.name.strip())
    return found is not None and (column.values is None or found["id"] is not None)


def _row_namer(table: Any, columns: list[Column], options: ReadOptions) -> tuple[Column | None, set[str]]:
    """The column that names the rows, and all columns that are names and not quantities."""
    marked = [c for c in columns if names_rows(c.name) and not matches(c.name, options.keep)]
    first = columns[0]
    # Numbers that cannot be read are no names, unless the column is called so.
    is_text = first.values is None and first.numbers is None
    candidates = [first] if (is_text or _names_features(first)) and first not in marked else []
    identifying = [
        c
        for c in columns
        if is_identifier(c.name)
        and not matches(c.name, (*options.keep, *options.aside))
        and (c.values is None or why_no_amount(c.name, c.values))
    ]
    chosen = [column for column in columns if column.name == options.id_column]
    offered = chosen or [*candidates, *marked, *identifying]
    namer = next((column for column in offered if _labels(table[column.name]) is not None), None)
    # A column called id is never a quantity, even if its values repeat and cannot name the rows.
    aside = {column.name for column in [*marked, *chosen]} | set(options.aside)
    return namer, aside | ({namer.name} if namer is not None else set())


def _repairs(columns: list[Column], options: ReadOptions) -> list[str]:
    """A note on each way in which numbers of some columns were not written plainly."""
    found = {column.name: column.numbers for column in columns if column.numbers is not None}
    notes = []
    if options.decimal is None and any(numbers.decimal == "," for numbers in found.values()):
        notes.append("commas within numbers read as decimal signs")
    repairs: dict[str, list[str]] = {}
    for name, numbers in found.items():
        if numbers.repair:
            repairs.setdefault(numbers.repair, []).append(name)
    for repair, names in repairs.items():
        what = f"column {names[0]!r}" if len(names) == 1 else f"{len(names)} columns"
        which = "" if len(names) == 1 else f" ({quoted(names)})"
        notes.append(f"{what} read {repair}{which}: {found[names[0]].example}")
    return notes


def _notes(
    columns: list[Column], namer: Column | None, set_aside: set[str], options: ReadOptions
) -> list[str]:
    notes = []
    if namer is not None and options.id_column is None:
        what = f"column {namer.name!r}" if namer.name else "the column without a name"
        keep = " (keep it to use it as an amount)" if namer.values is not None and namer.name else ""
        notes.append(f"{what} taken as row names{keep}")
    by_reason: dict[str, list[str]] = {}
    by_note: dict[str, list[str]] = {}
    for column in columns:
        if column is namer or column.name in options.aside:
            continue
        if column.name == options.id_column:
            notes.append(
                f"column {column.name!r} cannot name rows: cells repeat or are empty; rows are numbered"
            )
        elif column.name in set_aside:
            notes.append(f"column {column.name!r} left out: its name says that it names rows, not a quantity")
        elif column.note is not None:
            by_note.setdefault(column.note, []).append(column.name)
        if column.values is None and column.name not in set_aside:
            by_reason.setdefault(column.reason, []).append(column.name)
    for note, names in by_note.items():
        what = f"column {names[0]!r}" if len(names) == 1 else f"{len(names)} columns ({quoted(names)})"
        notes.append(f"{what} {note}")
    for reason, names in by_reason.items():
        plural = reason.replace("it ", "they ").replace("holds", "hold").replace(" is empty", " are empty")
        said = reason if len(names) == 1 else plural
        notes.append(f"{counted(len(names), 'column')} left out: {quoted(names)} ({said})")
    return notes


def _find_spelling(table: Any, spelling: Spelling) -> Spelling:
    """The decimal signs of the columns of text that can be read in one way only."""
    found = set(spelling.found)
    for j in np.flatnonzero([kind.kind == "O" for kind in table.dtypes]):
        cells = {cell for cell in table.iloc[:, j].unique() if isinstance(cell, str)}
        kept = itertools.islice((cell for cell in cells if not is_missing(cell)), _PEEK)
        own = own_decimal(kept)
        if own is not None:
            found.add(own)
    return replace(spelling, found=frozenset(found))


def _classify_all(table: Any, spelling: Spelling) -> list[Column]:
    """Numbers of each column, or why there are none; columns of numbers are converted all at once."""
    is_number = np.array([kind.kind in "iuf" for kind in table.dtypes])
    block = table.iloc[:, np.flatnonzero(is_number)].to_numpy(dtype=float, na_value=np.nan)
    plain = iter(np.ascontiguousarray(block.T))
    columns = []
    for j, name in enumerate(table.columns):
        if not is_number[j]:
            columns.append(_classify(table.iloc[:, j], name, spelling))
            continue
        values = next(plain)
        columns.append(Column(name, reason="it is empty") if np.isnan(values).all() else Column(name, values))
    return columns


def _classify(cells: Any, name: str, spelling: Spelling) -> Column:
    """The numbers of a column of answers, durations, dates or text, or why there are none."""
    kind = cells.dtype.kind
    if cells.isna().all():
        return Column(name, reason="it is empty")
    if kind == "b":
        values = cells.to_numpy(dtype=float, na_value=np.nan)
        return Column(name, values, note="read as 1 and 0 (true/false)")
    if kind == "m":
        return Column(name, cells.dt.total_seconds().to_numpy(dtype=float), note="read as seconds")
    if kind == "M":
        return Column(name, reason="it holds dates")
    stripped = cells.astype(object).map(_strip, na_action="ignore")
    # Each different cell is examined once.
    kinds = {cell: cell.lower() for cell in stripped.dropna().unique()}
    if not kinds:
        return Column(name, reason="it is empty")
    lower = frozenset(kinds.values())
    if lower <= _ANSWERS or lower in _LETTERS or (lower & _ANSWERS and lower <= _ANSWERS.union(*_LETTERS)):
        values = stripped.map({cell: float(kind in _TRUE) for cell, kind in kinds.items()})
        return Column(name, values.to_numpy(dtype=float), note=f"read as 1 and 0 ({'/'.join(sorted(lower))})")
    if all(map(is_date, kinds)):
        return Column(name, reason="it holds dates")
    return _classify_words(cells, stripped, name, spelling)


def _classify_words(cells: Any, stripped: Any, name: str, spelling: Spelling) -> Column:
    """Text that is neither answers nor dates: numbers in some notation, or words."""
    # Cells that a workbook holds as numbers have no notation that could be mistaken.
    known = cells.astype(object).map(_as_number, na_action="ignore").to_numpy(dtype=float, na_value=np.nan)
    stripped = stripped.where(np.isnan(known))
    counts: dict[str, int] = stripped.dropna().value_counts(sort=False).to_dict()
    n_known = int(np.count_nonzero(~np.isnan(known)))
    if (answers := None if n_known else _numbered_answers(counts)) is not None:
        numbers = {cell: _answer_number(cell) for cell in answers.levels}
        note = f"read as the numbers of its answers, as in {answers.levels[0]!r}"
        return Column(name, stripped.map(numbers).to_numpy(dtype=float), note, answers=answers)
    column = read_numbers(counts, spelling, n_known)
    if column.reason:
        return Column(name, reason=column.reason, numbers=None if column.reason == _TEXT else column)
    values = stripped.map(column.values).to_numpy(dtype=float, na_value=np.nan)
    values = np.where(np.isnan(known), values, known)
    said = []
    if column.spoilt:
        said.append(say_spoilt(column.spoilt, counts, "is no number|are no numbers"))
    if column.limits:
        said.append(say_spoilt(column.limits, counts, "is a limit and no value|are limits and no values"))
    is_padded = are_padded(counts) and not n_known
    return Column(name, values, "; ".join(said) or None, numbers=column, is_padded=is_padded)


def _strip(cell: Any) -> Any:
    """A cell as text without blanks around it; NaN if it means a missing value."""
    text = str(cell).strip()
    return np.nan if text.lower() in _MISSING_WORDS else text


def _as_number(cell: Any) -> float:
    is_number = not isinstance(cell, str | bool) and isinstance(cell, Real | Decimal)
    return float(cell) if is_number else np.nan


def _strip_labels(cells: Any) -> Any:
    """The cells of a column of text without blanks around them, NaN where missing.

    The word none is an answer if it belongs to a scale of the others, or is written in small letters.
    """
    text = cells.astype(object).map(lambda cell: str(cell).strip(), na_action="ignore")
    stripped = text.map(_strip, na_action="ignore")
    is_none = text.str.lower() == "none"
    words = {*stripped.dropna().unique(), "none"}
    return stripped.mask(is_none & ((text == "none") | (order_of(words) is not None)), text)


def _with_categories(column: Column, table: Any, options: ReadOptions) -> Column:
    """The column with the numbers of its labels, if it holds text of few kinds, answers or categories."""
    cells, is_kept = table[column.name], matches(column.name, options.keep)
    is_declared = hasattr(cells.dtype, "categories")
    if not (is_declared or column.answers is not None or column.reason == _TEXT):
        return column
    text = cells if is_declared else _strip_labels(cells)
    labels = labels_of(text) if column.answers is None else column.answers
    if labels is None:
        return column
    count = len(labels.levels)
    if count == 1 and not is_kept:
        return replace(column, values=None, reason="it has one value only")
    if are_names(labels, int(text.notna().sum())) and not is_kept:
        return replace(column, values=None, reason=f"it holds {count} different texts: names or free text")
    found = number_cells(read_cells(text.to_frame(), 0), labels, column.name)
    return replace(column, values=found, categories=labels, note=_say_labels(labels), numbers=None)


def _numbered_answers(cells: Iterable[str]) -> Labels | None:
    """Answers such as ``1 - not at all``, ``2``, ..., ``6 - completely`` in the order of their numbers."""
    numbers = {cell: _answer_number(cell) for cell in cells}
    is_numbered = not any(map(np.isnan, numbers.values())) and len(set(numbers.values())) == len(numbers) > 2
    if not is_numbered or not any(cell[-1:].isalpha() for cell in numbers):
        return None
    return Labels(tuple(sorted(numbers, key=lambda cell: numbers[cell])), is_ordered=True)


def _answer_number(cell: str) -> float:
    match = _ANSWER.fullmatch(cell)
    return np.nan if match is None else float(match[1])


def _say_labels(labels: Labels) -> str:
    if labels.is_ordered:
        return f"read as ordered labels: {labels}"
    if len(labels.levels) == 2:
        return f"read as two labels: {labels.text(0)} = 0, {labels.text(1)} = 1"
    return f"read as {counted(len(labels.levels), 'label')}: {labels}"


def _amounts(used: list[Column], options: ReadOptions) -> tuple[list[Column], dict[str, Any], list[str]]:
    """The columns that are amounts or categories, codes replaced, with ``codes`` and ``hints``, and notes."""
    numbers = [c for c in used if c.categories is None and not matches(c.name, options.keep)]
    reasons = {c.name: why_no_amount(c.name, c.values, is_padded=c.is_padded) for c in numbers}
    kept = [column for column in used if not reasons.get(column.name)]
    if not kept:
        # A table of identifiers alone: the user means them.
        return used, {}, []
    said = [
        f"column {name!r} left out: {reason} (keep it to use it as an amount)"
        for name, reason in reasons.items()
        if reason
    ]
    open_columns = [c for c in numbers if not reasons[c.name]]
    hints = {c.name: "nominal" for c in open_columns if is_category(c.name, c.values)}
    doubtful = [c.name for c in open_columns if c.name not in hints and may_identify(c.values)]
    codes, masked = _codes_by_column([c for c in kept if c.categories is None], options)
    if options.codes is not None:
        said, doubtful = [], []  # the fit has said this of its columns, and others are not used
    if doubtful:
        said.append(
            f"{counted(len(doubtful), 'column')} with another whole number in every row read as amounts: "
            f"{quoted(doubtful)} (drop {'it if it identifies' if len(doubtful) == 1 else 'those that identify'} rows)"
        )
    if hints and options.categories:
        said.append(
            f"{counted(len(hints), 'column')} named as a code read as categories: {quoted(list(hints))} "
            "(--family COL=auto reads the numbers)"
        )
    return [_without_codes(c, codes) for c in kept], {"codes": codes, "hints": hints}, [*said, *masked]


def _codes_by_column(
    columns: list[Column], options: ReadOptions
) -> tuple[dict[str, tuple[float, ...]], list[str]]:
    """Numbers that mean missing cells, and notes on them, one for all columns that have the same."""
    codes: dict[str, tuple[float, ...]] = {}
    masked: dict[tuple[float, ...], dict[str, int]] = {}
    for column in columns:
        if options.codes is not None:
            known = tuple(options.codes.get(column.name, ()))
        else:
            known = () if matches(column.name, options.keep) else find_codes(column.values)
        count = int(np.isin(column.values, known).sum()) if known else 0
        if count:
            codes[column.name] = known
            masked.setdefault(known, {})[column.name] = count
    notes = []
    for known, found in masked.items():
        names, signs = list(found), " or ".join(f"{code:g}" for code in known)
        is_one = len(names) == 1
        what = f"column {names[0]!r}" if is_one else f"{len(names)} columns ({quoted(names, most=30)})"
        notes.append(
            f"{what}: {counted(sum(found.values()), 'cell')} equal to {signs} taken as missing, far from all others "
            f"(keep {'it' if is_one else 'them'} to use them)"
        )
    return codes, notes


def _without_codes(column: Column, codes: Mapping[str, tuple[float, ...]]) -> Column:
    if column.name not in codes:
        return column
    same = np.isin(column.values, codes[column.name])
    return replace(column, values=np.where(same, np.nan, column.values))

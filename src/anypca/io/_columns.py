"""From data frames and columns of any kind to a numeric table with names; readers of parquet files and workbooks."""

from __future__ import annotations

import difflib
import re
import zipfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from anypca._optional import optional
from anypca._words import counted, numbered, quoted
from anypca.io._source import ReadOptions, reading
from anypca.io.frame import Frame, describe_missing

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
#: At most this share of cells that are not numbers is taken as missing; a column with more is not a quantity with some
#: spoilt cells, and is left out.
_MOST_SPOILT = 0.1
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
    """What was done to get the numbers."""
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
    with optional("reading this kind of file", "pandas", "io"):
        import pandas
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


def frame_from_pandas(table: Any, path: Path, options: ReadOptions, notes: tuple[str, ...] = ()) -> Frame:
    """Pick the numeric columns of a data frame and the one that names the rows.

    Parameters
    ----------
    table : pandas.DataFrame
        With string column names.
    path : Path
        For messages.
    options : ReadOptions
    notes : tuple of str
        What was said before.

    Returns
    -------
    frame : Frame
    """
    check_unique(list(table.columns), path)
    if len(table) == 0:
        raise ValueError(f"{path}: expected rows of data; there are only column names. Add the data.")
    check_asked(list(table.columns), options, path)
    table, masked = _mask_missing(table, options)
    columns = [_classify(table.iloc[:, j], str(name)) for j, name in enumerate(table.columns)]
    namer, set_aside = _row_namer(columns, options.id_column)
    set_aside |= set(options.aside)
    used = [column for column in columns if column.values is not None and column.name not in set_aside]
    if not used:
        raise ValueError(
            f"{path}: expected at least one column of numbers; found {quoted([c.name for c in columns])}, "
            "none numeric. Check the delimiter and the decimal sign."
        )
    values = np.column_stack([column.values for column in used])
    rows = numbered("", len(table)) if namer is None or namer.labels is None else namer.labels
    names = tuple(column.name for column in used)
    extras = _extras(table, columns, {*names, "" if namer is None else namer.name}, options)
    values, rows, extras, empty = _drop_empty_rows(values, rows, extras)
    aside = set_aside - set(options.aside)
    said = [
        *notes,
        *masked,
        *_notes(columns, namer, aside, options),
        *empty,
        *describe_missing(values, names),
    ]
    return Frame(values, names, rows, tuple(said), extras)


def check_asked(names: list[str], options: ReadOptions, path: Path) -> None:
    """Refuse columns asked for by name that a file does not have.

    Parameters
    ----------
    names : list of str
        Those of the file.
    options : ReadOptions
    path : Path
        For the message.
    """
    asked = [*([] if options.id_column is None else [options.id_column]), *options.aside]
    for name in asked:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
            hint = f"Did you mean {near[0]!r}?" if near else f"It has {quoted(names, most=8)}."
            raise ValueError(f"{path}: there is no column {name!r}. {hint}")
    if options.id_column is not None and options.id_column in options.aside:
        raise ValueError(
            f"column {options.id_column!r} cannot both name the rows and be an offset or covariate. Choose one."
        )


def _mask_missing(table: Any, options: ReadOptions) -> tuple[Any, list[str]]:
    """The table without the cells that stand for a missing value, and how many there were."""
    if not options.missing:
        return table, []
    pandas = import_pandas()
    columns, count = {}, 0
    for name in table.columns:
        cells = table[name]
        if name != options.id_column and not pandas.api.types.is_datetime64_any_dtype(cells.dtype):
            is_number = pandas.api.types.is_numeric_dtype(cells.dtype)
            same = (
                cells.isin(options.missing_numbers)
                if is_number
                else cells.astype(str).str.strip().isin(options.missing)
            ) & cells.notna()
            count += int(same.sum())
            cells = cells.mask(same)
        columns[name] = cells
    what = " or ".join(repr(sign) for sign in options.missing)
    return pandas.DataFrame(columns), [f"{counted(count, 'cell')} equal to {what} taken as missing"]


def _extras(table: Any, columns: list[_Column], used: set[str], options: ReadOptions) -> dict[str, Any]:
    """The columns that are neither part of the table nor row names: numbers, or text; no empty ones unasked."""
    extras = {}
    for column in columns:
        cells = table[column.name]
        if column.name in used or (cells.isna().all() and column.name not in options.aside):
            continue
        text = cells.astype(object).where(cells.notna(), None)
        extras[column.name] = (
            np.array([None if cell is None else str(cell).strip() for cell in text], dtype=object)
            if column.values is None
            else column.values
        )
    return extras


def _classify(cells: Any, name: str) -> _Column:
    """Numbers of a column, or why there are none."""
    pandas = import_pandas()
    present = cells.dropna()
    if present.empty:
        return _Column(name, reason="it is empty")
    labels = tuple(str(cell) for cell in cells) if len(present) == len(cells) and cells.is_unique else None
    if pandas.api.types.is_bool_dtype(cells.dtype):
        return _Column(
            name, cells.to_numpy(dtype=float, na_value=np.nan), note="read as 1 and 0 (true/false)"
        )
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
        return _Column(name, values, note=f"read as 1 and 0 ({'/'.join(sorted(kinds))})")
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
    if len(bad) <= _MOST_SPOILT * len(present):
        cells = f"{counted(len(bad), 'cell')} that {'is no number' if len(bad) == 1 else 'are no numbers'}"
        return _Column(
            name, numbers.to_numpy(dtype=float), note=f"has {cells}, taken as missing: {_kinds(bad)}"
        )
    if 2 * len(bad) < len(present):
        return _Column(name, reason=f"{len(bad)} of its {len(present)} cells are not numbers, {example}")
    return _Column(name, reason="it holds text", labels=labels)


def _kinds(cells: Any) -> str:
    """The different cells of a column of text, for a message."""
    return quoted(list(dict.fromkeys(cells)), most=3)


def _row_namer(columns: list[_Column], given: str | None) -> tuple[_Column | None, set[str]]:
    """The column that names the rows, and all columns that are names and not quantities."""
    marked = [column for column in columns if column.name.strip().lower() in _ID_NAMES]
    first = columns[0]
    candidates = [first] if first.values is None and first not in marked else []
    chosen = [column for column in columns if column.name == given]
    namer = next((column for column in chosen or candidates + marked if column.labels is not None), None)
    # A column called id is never a quantity, even if its values repeat and cannot name the rows.
    aside = {column.name for column in [*marked, *chosen]}
    return namer, aside | ({namer.name} if namer is not None else set())


def _drop_empty_rows(
    values: Any, rows: tuple[str, ...], extras: dict[str, Any]
) -> tuple[Any, tuple[str, ...], dict[str, Any], list[str]]:
    """Rows without a single number say nothing and stop every model; leave them out."""
    empty = np.isnan(values).all(axis=1)
    if not empty.any() or empty.all():
        return values, rows, extras, []
    names = [name for name, drop in zip(rows, empty, strict=True) if drop]
    kept = tuple(name for name, drop in zip(rows, empty, strict=True) if not drop)
    note = f"{counted(len(names), 'row')} without any number left out: {quoted(names)}"
    return values[~empty], kept, {name: cells[~empty] for name, cells in extras.items()}, [note]


def _notes(
    columns: list[_Column], namer: _Column | None, set_aside: set[str], options: ReadOptions
) -> list[str]:
    notes = []
    if namer is not None and options.id_column is None:
        what = f"column {namer.name!r}" if namer.name else "the column without a name"
        notes.append(f"{what} taken as row names")
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
            notes.append(f"column {column.name!r} {column.note}")
    by_reason: dict[str, list[str]] = {}
    for column in columns:
        if column.values is None and column.name not in {*set_aside, *options.aside}:
            by_reason.setdefault(column.reason, []).append(column.name)
    for reason, names in by_reason.items():
        plural = reason.replace("it ", "they ").replace("holds", "hold").replace(" is empty", " are empty")
        said = reason if len(names) == 1 else plural
        notes.append(f"{counted(len(names), 'column')} left out: {quoted(names)} ({said})")
    return notes


def read_parquet(path: Path, options: ReadOptions) -> Frame:
    """Read a parquet file; a named or textual index gives the row names.

    Parameters
    ----------
    path : Path
    options : ReadOptions

    Returns
    -------
    frame : Frame
    """
    pandas = import_pandas()
    # pyarrow's errors derive from ValueError.
    with (
        reading(path, "pandas' to_parquet", ValueError) as stream,
        optional("reading parquet", "pyarrow", "io"),
    ):
        table = pandas.read_parquet(stream)
    if not isinstance(table.index, pandas.RangeIndex):
        table = table.reset_index(names=table.index.name or "index")
    table.columns = [str(name) for name in table.columns]
    return frame_from_pandas(table, path, options)


def read_xlsx(path: Path, options: ReadOptions) -> Frame:
    """Read a sheet of a workbook, the first unless ``options.part`` names another.

    Parameters
    ----------
    path : Path
    options : ReadOptions

    Returns
    -------
    frame : Frame
    """
    pandas = import_pandas()
    errors = (zipfile.BadZipFile, KeyError, OSError)
    with (
        reading(path, "a spreadsheet program, as xlsx or CSV", *errors) as stream,
        optional("reading xlsx", "openpyxl", "io"),
        pandas.ExcelFile(stream, engine="openpyxl") as book,
    ):
        sheet = _choose_sheet(book.sheet_names, options, path)
        has_header = options.header is not False
        table = book.parse(sheet, header=0 if has_header else None)
        others = [name for name in book.sheet_names if name != sheet]
    table.columns = _sheet_names(table, has_header=has_header)
    notes = (f"sheet {sheet!r} read; left out: {quoted(others)}",) if others else ()
    # A sheet's used range often ends in formatted but empty rows and columns.
    table = table.dropna(how="all").reset_index(drop=True)
    empty = [name for name in table.columns if name.startswith("Unnamed: ") and table[name].isna().all()]
    return frame_from_pandas(table.drop(columns=empty), path, options, notes)


def _sheet_names(table: Any, *, has_header: bool) -> list[str]:
    if not has_header:
        return list(numbered("x", table.shape[1]))
    return [" ".join(str(name).split()) for name in table.columns]


def _choose_sheet(sheets: list[str], options: ReadOptions, path: Path) -> str:
    if options.part is None:
        return sheets[0]
    if options.part not in sheets:
        raise ValueError(f"{path}: there is no sheet {options.part!r}; it has {quoted(sheets)}.")
    return options.part

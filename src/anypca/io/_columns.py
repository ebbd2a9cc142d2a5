"""From data frames with columns of any kind to a numeric table with names."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from anypca._words import counted, listed, numbered, quoted, suggest
from anypca.io._amounts import find_amounts, matches
from anypca.io._categories import with_categories
from anypca.io._classify import Column, classify, find_spelling, import_pandas, is_text_reason
from anypca.io._numbers import Spelling
from anypca.io._shape import find_totals, is_turned, turn
from anypca.io._source import ReadOptions
from anypca.io.frame import Frame, describe_missing

#: Column names that mark row names rather than a quantity. The empty one is a saved index.
_ID_NAMES = frozenset({"", "id", "name", "sample", "index", "rowname", "row_names", "unnamed: 0"})


def names_rows(name: str) -> bool:
    """Whether the name of a column says that it names rows."""
    return name.strip().lower() in _ID_NAMES


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
        What was said before.
    spelling : Spelling, optional
        What is known of the notation of numbers.

    Returns
    -------
    frame : Frame
    """
    check_unique(list(table.columns), path)
    if len(table) == 0:
        raise ValueError(f"{path}: expected rows of data; there are only column names. Add the data.")
    check_asked(list(table.columns), options, path)
    table = table[chosen_names(list(table.columns), options, path)]
    table, masked = _mask_missing(table, options)
    habits = find_spelling(table, Spelling(options.decimal) if spelling is None else spelling)
    columns = [classify(table.iloc[:, j], str(name), habits) for j, name in enumerate(table.columns)]
    namer, set_aside = _row_namer(columns, options)
    set_aside |= set(options.aside)
    is_other_way = options.transpose is None and namer is not None and is_turned(namer)
    if options.categories and not (options.transpose or is_other_way):
        columns = _categorised(table, columns, set_aside, options)
    used = [column for column in columns if column.values is not None and column.name not in set_aside]
    if not used:
        raise ValueError(
            f"{path}: expected at least one column of numbers; found {quoted([c.name for c in columns])}, "
            f"none numeric{_why_not(columns)}. Check the delimiter and the decimal sign."
        )
    end, totals = find_totals(table, [column for column in used if column.categories is None])
    if totals:
        return frame_from_pandas(table.iloc[:end], path, options, (*notes, totals), spelling)
    said = [*notes, *masked, *_repairs(used, options)]
    said += _notes(columns, namer, set_aside - set(options.aside), options)
    if options.transpose:
        # Columns are samples: what their numbers look like says nothing of labels or codes.
        return _assemble(table, columns, used, namer, options, said)
    if is_other_way and namer is not None:
        return turn(
            _assemble(table, columns, used, namer, options, said), f" ({namer.name!r} names features)"
        )
    amounts = find_amounts(used, options)
    frame = _assemble(table, columns, amounts.columns, namer, options, [*said, *amounts.notes])
    return replace(frame, codes=amounts.codes, insisted=amounts.insisted)


def _why_not(columns: list[Column]) -> str:
    """What keeps columns that look like numbers from being read, in parentheses."""
    reasons = [f"{c.name!r}: {c.reason}" for c in columns if c.reason and not is_text_reason(c.reason)]
    return f" ({listed(reasons, most=3)})" if reasons else ""


def _categorised(
    table: Any, columns: list[Column], set_aside: set[str], options: ReadOptions
) -> list[Column]:
    """The columns with numbers for labels, where they hold few; not those that are set aside."""
    return [
        column
        if column.name in set_aside
        else with_categories(column, table[column.name], is_kept=matches(column.name, options.keep))
        for column in columns
    ]


def _assemble(
    table: Any,
    columns: list[Column],
    used: list[Column],
    namer: Column | None,
    options: ReadOptions,
    notes: list[str],
) -> Frame:
    """The frame of the columns that are used."""
    values = np.column_stack([column.values for column in used])
    rows = numbered("", len(table)) if namer is None or namer.labels is None else namer.labels
    names = tuple(column.name for column in used)
    extras = _extras(table, columns, {*names, "" if namer is None else namer.name}, options)
    values, rows, extras, empty = _drop_empty_rows(values, rows, extras)
    labels = {column.name: column.categories for column in used if column.categories is not None}
    said = (*notes, *empty, *describe_missing(values, names))
    return Frame(values, names, rows, said, extras, labels=labels)


def chosen_names(names: list[str], options: ReadOptions, path: Path) -> list[str]:
    """The columns that a user wants to read, in the order of the file.

    Parameters
    ----------
    names : list of str
    options : ReadOptions
        With patterns such as ``Q*``; columns asked for by name stay.
    path : Path
        For the message.

    Returns
    -------
    names : list of str
    """
    # With the codes of a fit, the columns to keep are those of the fit, and a new table may lack some.
    asked_to_keep = options.keep if options.codes is None else ()
    for pattern in (*options.columns, *options.drop, *asked_to_keep):
        if not any(matches(name, (pattern,)) for name in names):
            raise ValueError(f"{path}: no column is called {pattern!r}. It has {quoted(names, most=8)}.")
    asked = {options.id_column, *options.aside}
    is_row_name = {name for name in names[:1] if options.columns and name not in options.drop}
    kept = [name for name in names if not options.columns or matches(name, options.columns)]
    kept = [name for name in kept if not matches(name, options.drop)]
    chosen = {*kept, *asked, *is_row_name}
    return [name for name in names if name in chosen]


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
            hint = suggest(name, names, f"It has {quoted(names, most=8)}.", cutoff=0.6)
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


def _extras(table: Any, columns: list[Column], used: set[str], options: ReadOptions) -> dict[str, Any]:
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


def _row_namer(columns: list[Column], options: ReadOptions) -> tuple[Column | None, set[str]]:
    """The column that names the rows, and all columns that are names and not quantities."""
    marked = [c for c in columns if names_rows(c.name) and not matches(c.name, options.keep)]
    first = columns[0]
    # Numbers that cannot be read are no names, unless the column is called so.
    is_text = first.values is None and first.numbers is None
    candidates = [first] if (is_text or is_turned(first)) and first not in marked else []
    chosen = [column for column in columns if column.name == options.id_column]
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


def _repairs(columns: list[Column], options: ReadOptions) -> list[str]:
    """A note on each way in which numbers of some columns were not written plainly."""
    found = [(column.name, column.numbers) for column in columns if column.numbers is not None]
    notes = []
    if options.decimal is None and any(numbers.decimal == "," for _, numbers in found):
        notes.append("commas within numbers read as decimal signs")
    repairs: dict[str, list[str]] = {}
    for name, numbers in found:
        if numbers.repair:
            repairs.setdefault(numbers.repair, []).append(name)
    examples = dict(found)
    for repair, names in repairs.items():
        what = f"column {names[0]!r}" if len(names) == 1 else f"{len(names)} columns"
        which = "" if len(names) == 1 else f" ({quoted(names)})"
        notes.append(f"{what} read {repair}{which}: {examples[names[0]].example}")
    return notes


def _notes(
    columns: list[Column], namer: Column | None, set_aside: set[str], options: ReadOptions
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

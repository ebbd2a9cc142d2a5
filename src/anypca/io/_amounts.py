"""Which columns of numbers are amounts, with the codes for missing cells among them replaced."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

import numpy as np

from anypca._typing import Floats
from anypca._words import counted, quoted
from anypca.io._classify import Column
from anypca.io._guards import find_codes, say_no_amount
from anypca.io._source import ReadOptions
from anypca.io._spread import find_labels, is_distinct

#: Columns that a note names; of more it says how many.
_MOST_NAMES = 30
#: Different numbers with zeros before them that may be parts of dates and times: days of a month and less.
_MOST_HOURS = 31


@dataclass(frozen=True, eq=False)
class Amounts:
    """The columns that are amounts, and what was found out on the way."""

    columns: list[Column]
    codes: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """Numbers that stand for missing cells, by column."""
    insisted: tuple[str, ...] = ()
    """Columns that name or order the rows and are kept because the user says so."""
    notes: list[str] = field(default_factory=list)


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether a name is one of some, or fits one of some patterns."""
    return name in patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def find_amounts(used: list[Column], options: ReadOptions) -> Amounts:
    """Tell amounts from labels of rows, and values from codes.

    Parameters
    ----------
    used : list of Column
        Columns with numbers.
    options : ReadOptions

    Returns
    -------
    Amounts
    """
    numbers = [column for column in used if column.categories is None]
    named = {column.name: _say_no_amount(column) for column in numbers}
    insisted = [name for name, reason in named.items() if reason and matches(name, options.keep)]
    open_columns = [column for column in numbers if not named[column.name]]
    by_spread, doubtful = _judge_spread(open_columns, options)
    reasons = {
        name: reason for name, reason in {**named, **by_spread}.items() if reason and name not in insisted
    }
    kept = [column for column in used if column.name not in reasons]
    if not kept:
        # A table of nothing but labels: the user means them.
        return Amounts(used)
    codes, masked = _codes_by_column(kept, options)
    said = [
        f"column {name!r} left out: {reason} (keep it to use it as an amount)"
        for name, reason in reasons.items()
    ]
    if options.codes is not None:
        said, doubtful = [], []  # what the columns of a fit are has been said then, and others are not used
    said += [*_say_doubtful(doubtful), *masked]
    return Amounts([_without_codes(column, codes) for column in kept], codes, tuple(insisted), said)


def _say_no_amount(column: Column) -> str:
    """Why a column is no amount by its name and the look of its numbers."""
    # Months and hours have zeros before them, too; they are few.
    if column.is_padded and len(np.unique(column.values[np.isfinite(column.values)])) > _MOST_HOURS:
        return "its numbers have zeros before them, as labels have"
    return say_no_amount(column.name, column.values)


def _judge_spread(columns: list[Column], options: ReadOptions) -> tuple[dict[str, str], list[str]]:
    """Columns that are labels by their spread, and those that may be; none of those that a user keeps."""
    distinct: dict[str, Floats] = {}
    others: dict[str, Floats] = {}
    for column in columns:
        is_open = is_distinct(column.values) and not matches(column.name, options.keep)
        (distinct if is_open else others)[column.name] = column.values
    return find_labels(distinct, others)


def _codes_by_column(
    columns: list[Column], options: ReadOptions
) -> tuple[dict[str, tuple[float, ...]], list[str]]:
    """Numbers that stand for missing cells, and notes on them."""
    codes: dict[str, tuple[float, ...]] = {}
    masked: dict[tuple[float, ...], list[tuple[str, int]]] = {}
    for column in columns:
        known = () if column.categories is not None else _codes_of(column, options)
        count = int(np.isin(column.values, known).sum()) if known else 0
        if count:
            codes[column.name] = known
            masked.setdefault(known, []).append((column.name, count))
    return codes, [_say_codes(*found) for found in masked.items()]


def _codes_of(column: Column, options: ReadOptions) -> tuple[float, ...]:
    if options.codes is not None:
        return tuple(options.codes.get(column.name, ()))
    return () if matches(column.name, options.keep) else find_codes(column.values)


def _without_codes(column: Column, codes: dict[str, tuple[float, ...]]) -> Column:
    if column.name not in codes:
        return column
    same = np.isin(column.values, codes[column.name])
    return replace(column, values=np.where(same, np.nan, column.values))


def _say_doubtful(names: list[str]) -> list[str]:
    """A note on columns that may label rows and are read as amounts."""
    if not names:
        return []
    remedy = "drop it if it labels rows" if len(names) == 1 else "drop them if they label rows"
    return [
        f"{counted(len(names), 'column')} with another whole number in every row, too few to tell labels from amounts, "
        f"read as amounts: {quoted(names)} ({remedy})"
    ]


def _say_codes(codes: tuple[float, ...], found: list[tuple[str, int]]) -> str:
    """A note on numbers that stand for missing cells, in all columns that have the same."""
    names = [name for name, _ in found]
    signs = " or ".join(f"{code:g}" for code in codes)
    what = (
        f"column {names[0]!r}"
        if len(names) == 1
        else f"{len(names)} columns ({quoted(names, most=_MOST_NAMES)})"
    )
    cells = counted(sum(count for _, count in found), "cell")
    return (
        f"{what}: {cells} equal to {signs} taken as missing, far from all others "
        f"(keep {'it' if len(names) == 1 else 'them'} to use them)"
    )

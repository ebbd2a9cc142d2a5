"""What stands above the data: titles, comments, one or more rows of column names."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from anypca._words import counted, numbered, quoted
from anypca.io._columns import is_missing
from anypca.io._numbers import tokenise
from anypca.io._source import ReadOptions

Rows = Sequence[Sequence[str]]

#: Rows, and columns, that the guesses look at: formats do not change half way.
PEEK, _PEEK_COLUMNS = 200, 500
#: Lines that begin with this sign are comments unless there are more of them than rarely occur.
_SIGN, _MOST_COMMENTS = "#", 0.05
#: Rows above the column names; more of them are no titles but another table.
_MOST_TITLES = 8
#: Share of a column's cells that must be numbers for it to decide where the data begin.
_MOSTLY = 0.9


@dataclass(frozen=True)
class Head:
    """The rows above the data."""

    n_titles: int
    n_header: int
    notes: tuple[str, ...] = ()

    @property
    def n_rows(self) -> int:
        """Rows that are no data."""
        return self.n_titles + self.n_header


def find_head(rows: Rows, given: ReadOptions, path: Path) -> Head:
    """Find titles and column names in the first rows of a table.

    Parameters
    ----------
    rows : sequence of sequences of str
        Not blank.
    given : ReadOptions
    path : Path
        For the message.

    Returns
    -------
    head : Head
    """
    rows = [row[:_PEEK_COLUMNS] for row in rows]
    n_titles, n_header = _find_names(rows) if given.skip is None else (0, _count_names(rows[0]))
    if given.header is not None:
        if given.header > len(rows):
            raise ValueError(
                f"{path}: {given.header} rows of column names were asked for, and the file begins with {len(rows)} "
                "rows. Give a smaller number."
            )
        n_titles, n_header = max(n_titles + n_header - int(given.header), 0), int(given.header)
    notes = []
    if n_titles:
        said = [" ".join(cell for cell in row if cell.strip()) for row in rows[:n_titles]]
        what = f"{counted(n_titles, 'row')} above the column names left out"
        notes.append(f"{what}: {quoted([text for text in said if text], most=3)}")
    if given.header is None and n_header == 0:
        notes.append(
            "the first line holds numbers: columns are called x1, x2, ... (header=True reads it as names)"
        )
    return Head(n_titles, n_header, tuple(notes))


def _find_names(rows: Rows) -> tuple[int, int]:
    """Numbers of title rows and of rows with column names."""
    names = {h: _names_below(rows, h) for h in range(min(_MOST_TITLES + 2, len(rows)))}
    for h in range(1, len(names) - 1):
        if not names[h] or names[h + 1]:
            continue
        is_title = [_is_title(row, rows[h]) for row in rows[:h]]
        if all(is_title):
            return h, 1
        # Above two rows of names there may be titles; one word in a column of numbers is a spoilt cell, unless it
        # stands alone in a row without a name: a unit.
        is_lonely = not rows[h][0].strip() and sum(cell.strip() != "" for cell in rows[h]) == 1
        if all(is_title[:-1]) and (names[h] > 1 or is_lonely):
            return h - 1, 2
        break
    # A sentence above numbers without names.
    width = Counter(map(len, rows)).most_common(1)[0][0]
    n_titles = next((h for h, row in enumerate(rows) if len(row) >= width - 1 or is_data(row)), 0)
    return n_titles, _count_names(rows[n_titles])


def _count_names(row: Sequence[str]) -> int:
    return 0 if is_data(row) else 1


def _names_below(rows: Rows, h: int) -> int:
    """Cells of a row that have words where the rows below it have numbers; 0 if some have numbers too."""
    cells = [rows[h][j] for j in _number_columns(rows[h + 1 :]) if j < len(rows[h])]
    words = [cell for cell in cells if not is_missing(cell)]
    return 0 if any(map(_is_number, words)) else len(words)


def _is_title(row: Sequence[str], names: Sequence[str]) -> bool:
    """Whether a row above the column names is a sentence and no row of names."""
    n_filled = sum(cell.strip() != "" for cell in row)
    return len(row) < len(names) or n_filled == 0 or (n_filled == 1 and row[0].strip() != "")


def _is_number(cell: str) -> bool:
    return tokenise(cell) is not None


def _number_columns(rows: Rows) -> list[int]:
    """The columns that hold numbers."""
    found = []
    for j in range(max(map(len, rows), default=0)):
        cells = [row[j] for row in rows if j < len(row) and not is_missing(row[j])]
        if cells and sum(map(_is_number, cells)) >= _MOSTLY * len(cells):
            found.append(j)
    return found


def is_data(row: Sequence[str]) -> bool:
    """Whether a first line holds numbers rather than names; an empty first cell heads an index column."""
    cells = [cell.strip() for cell in row]
    tokens = [tokenise(cell) for cell in cells if cell]
    # A number with a unit may be a name that begins with digits.
    return cells[0] != "" and all(token is not None and not token.affix.isalpha() for token in tokens)


def join_names(rows: Rows, width: int) -> tuple[list[str], list[str]]:
    """Column names from the rows that hold them, and a note if there are several.

    Parameters
    ----------
    rows : sequence of sequences of str
        If there are none, names are made up.
    width : int
        Number of columns.

    Returns
    -------
    names : list of str
        As many as the longest row has cells.
    notes : list of str
    """
    if not rows:
        return list(numbered("x", width)), []
    clean = [[" ".join(cell.split()) for cell in row] for row in rows]
    if len(clean) == 1:
        return clean[0], []
    longest = max(map(len, clean))
    *upper, lowest = [[*row, *[""] * (longest - len(row))] for row in clean]
    stacked = zip(*map(_fill, upper), lowest, strict=True)
    words = [list(dict.fromkeys(part for part in parts if part)) for parts in stacked]
    names = [" ".join(found) for found in words]
    example = next((" ".join(found) for found in reversed(words) if len(found) > 1), names[-1])
    return names, [f"{len(rows)} rows of column names joined, as in {example!r}"]


def _fill(row: list[str]) -> list[str]:
    """A row in which a name over several columns, which stands in the first of them, is repeated."""
    filled: list[str] = []
    for cell in row:
        filled.append(cell or (filled[-1] if filled else ""))
    return filled


def blank_comments(
    text: str, given: ReadOptions, first_cells: Callable[[str], list[str]]
) -> tuple[str, list[str]]:
    """A text in which skipped and comment lines are empty, so that the others keep their numbers, and a note.

    Parameters
    ----------
    text : str
    given : ReadOptions
    first_cells : callable
        From a text to the cells of its first row.

    Returns
    -------
    text : str
    notes : list of str
    """
    lines = list(io.StringIO(text, newline=""))
    skip, sign = given.skip or 0, _SIGN if given.comment is None else given.comment
    lines[:skip] = ["\n"] * len(lines[:skip])
    found = [i for i, line in enumerate(lines) if sign and line.startswith(sign)]
    top = len(found)
    if given.comment is None and found:
        above = set(found)
        first = next((i for i, line in enumerate(lines) if line.strip() and i not in above), len(lines))
        top = sum(i < first for i in found)
        # Many comments below the first row are data.
        found = found if len(found) - top <= _MOST_COMMENTS * len(lines) else found[:top]
    kept = [line if i not in set(found) else "\n" for i, line in enumerate(lines)] if found else lines
    if given.comment is None and top:
        last = found[top - 1]
        names, below = first_cells(lines[last][1:] + "".join(lines[last + 1 :])), first_cells("".join(kept))
        # The last comment above the data may name the columns, as in ``#OTU ID``.
        if len(below) > 1 and len(names) in (len(below), len(below) - 1) and any(map(_is_number, below)):
            kept[last] = " " + lines[last][1:]
            found.remove(last)
    notes = [f"{counted(len(found), 'comment line')} left out (beginning with {sign!r})"] if found else []
    return "".join(kept), notes

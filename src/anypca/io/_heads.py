"""What stands above the data: titles, comments, one or more rows of column names."""

from __future__ import annotations

import io
import itertools
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from anypca._words import counted, numbered, quoted
from anypca.io._classify import is_missing
from anypca.io._numbers import tokenise
from anypca.io._source import ReadOptions

Rows = Sequence[Sequence[str]]

#: Lines that the guesses look at. More would only cost time: formats do not change half way.
PEEK = 200
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


def find_head(rows: Rows, given: ReadOptions) -> Head:
    """Find titles and column names in the first rows of a table.

    Parameters
    ----------
    rows : sequence of sequences of str
        Not blank.
    given : ReadOptions
        What a user says of them.

    Returns
    -------
    head : Head
    """
    n_titles, n_header = _find_names(rows) if given.skip is None else (0, _count_names(rows[0]))
    if given.header is not None:
        n_titles, n_header = max(n_titles + n_header - int(given.header), 0), int(given.header)
    notes = []
    if n_titles:
        said = [" ".join(cell for cell in row if cell.strip()) for row in rows[:n_titles]]
        what = "1 row above the column names" if n_titles == 1 else f"{n_titles} rows above the column names"
        notes.append(f"{what} left out: {quoted([text for text in said if text], most=3)}")
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
    return cells[0] != "" and all(cell == "" or _is_plain(cell) for cell in cells)


def _is_plain(cell: str) -> bool:
    """Whether a cell is a number without a unit: names may begin with digits."""
    token = tokenise(cell)
    return token is not None and not token.affix.isalpha()


def join_names(rows: Rows, width: int) -> tuple[list[str], list[str]]:
    """Column names from the rows that hold them, and a note if there are several.

    Parameters
    ----------
    rows : sequence of sequences of str
        None: names are made up.
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
    """A name over several columns stands in the first of them only."""
    filled: list[str] = []
    for cell in row:
        filled.append(cell or (filled[-1] if filled else ""))
    return filled


def blank_lines(text: str, count: int) -> str:
    """A text whose first lines are empty, so that the others keep their numbers.

    Parameters
    ----------
    text : str
    count : int

    Returns
    -------
    text : str
    """
    lines = io.StringIO(text, newline="")
    skipped = sum(1 for _ in itertools.islice(lines, count))
    return "\n" * skipped + lines.read()


def blank_comments(
    text: str, given: str | None, first_cells: Callable[[str], list[str]]
) -> tuple[str, list[str]]:
    """A text in which comment lines are empty, and a note on them.

    Parameters
    ----------
    text : str
    given : str or None
        The sign that a user says comments begin with; empty: there are none; None: found out.
    first_cells : callable
        From a text to the cells of its first row.

    Returns
    -------
    text : str
    notes : list of str
    """
    sign = _SIGN if given is None else given
    if not sign:
        return text, []
    found = _comments(text, sign)
    if given is None:
        found = _plausible(text, found)
    if not found:
        return text, []
    blanked = _without(text, found)
    if given is None and _names_columns(text, blanked, found, first_cells):
        start, _ = found.pop()
        blanked = _without(text[:start] + " " + text[start + 1 :], found)
    what = counted(len(found), "comment line")
    return blanked, [f"{what} left out (beginning with {sign!r})"] if found else []


def _comments(text: str, sign: str) -> list[tuple[int, int]]:
    """Where lines that begin with a sign start and end; not within quotation marks."""
    found, quotes, place = [], 0, 0
    for match in re.finditer(rf"(?m)^{re.escape(sign)}[^\r\n]*", text):
        quotes += text.count('"', place, match.start())
        place = match.start()
        if quotes % 2 == 0:
            found.append(match.span())
            quotes, place = 0, match.end()
    return found


def _plausible(text: str, found: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The lines at the top, and those further down if they are few: many are data."""
    top: list[tuple[int, int]] = []
    for start, end in found:
        if text[(top[-1][1] if top else 0) : start].strip():
            break
        top.append((start, end))
    rest = found[len(top) :]
    return found if len(rest) <= _MOST_COMMENTS * text.count("\n") else top


def _without(text: str, spans: list[tuple[int, int]]) -> str:
    parts, place = [], 0
    for start, end in spans:
        parts.append(text[place:start])
        place = end
    return "".join([*parts, text[place:]])


def _names_columns(
    text: str, blanked: str, found: list[tuple[int, int]], first_cells: Callable[[str], list[str]]
) -> bool:
    """Whether the last comment above the data names the columns, as in ``#OTU ID``."""
    start, end = found[-1]
    below = text[end:].lstrip()
    if _without(text[:start], found[:-1]).strip() or not below:
        return False
    data, names = first_cells(blanked), first_cells(text[start + 1 : end] + "\n" + below)
    return len(data) > 1 and len(names) in (len(data), len(data) - 1) and any(map(_is_number, data))

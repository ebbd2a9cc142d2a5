"""Reader of delimited text."""

from __future__ import annotations

import csv
import io
import itertools
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from anypca._words import counted
from anypca.io._columns import (
    EMPTY,
    check_unique,
    frame_from_pandas,
    import_pandas,
    is_missing,
    names_rows,
)
from anypca.io._heads import PEEK, Head, blank_comments, find_head, is_data, join_names
from anypca.io._numbers import Spelling, are_padded
from anypca.io._source import ReadOptions, open_source
from anypca.io.frame import Frame

#: In order of preference where several part all lines alike: commas may be decimal signs, blanks part words.
_DELIMITERS = {"\t": "tab", ";": "semicolon", ",": "comma", "|": "vertical bar", " ": "blank"}
#: How many rows may lack their last cells: fewer than half, and at most this share or number of them. More of them
#: mean another delimiter than the one found.
_MOST_SHORT, _FEW_SHORT = 0.05, 3
#: A line that stands after the last one: if it ends up in a cell with others, a quotation mark was not closed.
_END = "\x03"
#: Whole numbers, some of them perhaps with points between thousands.
_MAYBE_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})?|0?")


@dataclass(frozen=True)
class _Layout:
    """A text file's format, found or given."""

    delimiter: str
    names: list[str]
    last_line: int
    """Number of the last line above the data."""
    whole: list[str]
    """Columns that hold whole numbers if points separate thousands."""
    padded: list[str]
    """Columns that can be numbers of one length with leading zeros."""


#: What begins like this is something else, whatever the file is called.
_OTHERS = {
    **dict.fromkeys(("<html", "<!doctype", "<table", "<head"), "a web page (HTML)"),
    **dict.fromkeys(("<?xml", "<workbook"), "XML"),
    **dict.fromkeys(('{"', "[{"), "JSON"),
    "%pdf-": "a PDF",
    "{\\rtf": "formatted text (RTF)",
}


class _OpenQuote(ValueError):
    """A quotation mark that is not closed; the argument is its line."""


def read_text(path: Path, given: ReadOptions) -> Frame:
    """Read csv, tsv or txt.

    Parameters
    ----------
    path : Path
    given : ReadOptions

    Returns
    -------
    frame : Frame
    """
    _check_format(given)
    text, notes = _decode(path)
    start = text[:100].lstrip().lower()
    if kind := next((kind for sign, kind in _OTHERS.items() if start.startswith(sign)), ""):
        raise ValueError(
            f"{path} holds {kind} and no rows of cells. Open it with a program that knows it, and save it as CSV."
        )
    text, said = blank_comments(text, given, lambda part: _first_cells(part, given))
    if not text.strip():
        raise ValueError(f"{path}: expected rows of data; all lines are comments or skipped.")
    delimiter = given.delimiter or _find_delimiter(text)
    try:
        layout, more = _lay_out(text, delimiter, given, path)
    except csv.Error as error:
        raise ValueError(f"{path} cannot be read as text cells: {error}. Save it again as CSV.") from error
    except _OpenQuote as error:
        raise ValueError(
            f"{path}, line {error}: a quotation mark opens a cell there and is not closed. Close it, or remove it."
        ) from error
    check_unique(layout.names, path)
    promised = "," if ".csv" in path.name.lower() else "\t"
    if given.delimiter is None and layout.delimiter != promised and len(layout.names) > 1:
        notes.append(f"cells are separated by {_DELIMITERS[layout.delimiter]}s")
    table = _read_cells(text, layout, given, path)
    return frame_from_pandas(table, path, given, (*notes, *said, *more), _spelling(table, layout, given))


def _check_format(given: ReadOptions) -> None:
    if given.delimiter is not None and len(given.delimiter) != 1:
        raise ValueError(f"the delimiter must be a single character; got {given.delimiter!r}.")
    if given.decimal not in {None, ".", ","}:
        raise ValueError(f"the decimal sign must be '.' or ','; got {given.decimal!r}.")
    if given.header is not None and (not isinstance(given.header, int) or given.header < 0):
        raise ValueError(
            f"header must be True, False or None (found out), or a number of rows; got {given.header!r}."
        )
    if given.skip is not None and (not isinstance(given.skip, int) or given.skip < 0):
        raise ValueError(f"skip must be a number of lines; got {given.skip!r}.")


def _decode(path: Path) -> tuple[str, list[str]]:
    """The file's text, with a note when it is not in UTF-8."""
    with open_source(path) as stream:
        raw = stream.read()
    if not raw.strip():
        raise ValueError(f"{path} is empty. Expected a line of column names and lines of numbers.")
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            return raw.decode("utf-16"), []
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not whole UTF-16 text: {error}. Save it again as UTF-8.") from error
    if b"\0" in raw[:65536]:
        raise ValueError(
            f"{path} is not a text file (it holds zero bytes). Save the table as CSV or rename the file."
        )
    with suppress(UnicodeDecodeError):
        return raw.decode("utf-8-sig"), []
    # Every byte string is valid Latin-1; what lies between its letters are signs of Windows, such as the euro.
    text, name = raw.decode("latin-1"), "Latin-1"
    with suppress(UnicodeDecodeError):
        if (windows := raw.decode("cp1252")) != text:
            text, name = windows, "Windows-1252"
    return text, [f"the file is not in UTF-8; read as {name}, so check names with accents"]


def _rows(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of each row that is not blank."""
    taken: list[str] = []
    lines = itertools.chain(io.StringIO(text, newline=""), ["\n", _END])
    noted = (taken.append(line) or line for line in lines)  # type: ignore[func-returns-value]
    reader = csv.reader(noted, delimiter=delimiter, skipinitialspace=True)
    before = 0
    while True:
        try:
            row = next(reader)
        except csv.Error as error:
            if "field limit" in str(error):
                raise _OpenQuote(before + 1) from error
            raise
        if row == [_END]:
            return
        if row and row[-1].endswith(_END):
            # Line breaks in cells before the open one are closed.
            raise _OpenQuote(before + 1 + sum(cell.count("\n") for cell in row[:-1]))
        if len(taken) > 1 and not _is_closed(taken, delimiter):
            raise _OpenQuote(before + 1)
        taken.clear()
        before = reader.line_num
        if delimiter == " " and row and row[-1] == "":
            row = row[:-1]
        if len(row) > 1 or (row and row[0].strip()):
            yield before, row


def _is_closed(lines: list[str], delimiter: str) -> bool:
    """Whether the cell that spans some lines ends with its quotation mark, and not with one that opens another."""
    with suppress(csv.Error):
        for _ in csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True):
            pass
        return True
    return False


def _peek(text: str, delimiter: str) -> list[tuple[int, list[str]]]:
    """The first rows, up to one with an open quotation mark."""
    found: list[tuple[int, list[str]]] = []
    with suppress(_OpenQuote):
        found.extend(itertools.islice(_rows(text, delimiter), PEEK))
    return found


def _first_cells(text: str, given: ReadOptions) -> list[str]:
    found = _peek(text, given.delimiter or _find_delimiter(text))
    return found[0][1] if found else []


def _find_delimiter(text: str) -> str:
    """The delimiter under which most rows have as many cells as the first, or, below titles, as most have."""
    scores = {}
    for delimiter in _DELIMITERS:
        try:
            rows = [row for _, row in _peek(text, delimiter)]
        except csv.Error:
            continue
        agree = _agreement(rows, delimiter)
        if agree is not None and (delimiter != " " or agree == len(rows) - 1):
            scores[delimiter] = agree
    # A single column: a tab occurs in no cell of it, and leaves the comma free as a decimal sign.
    return max(scores, key=lambda delimiter: scores[delimiter]) if scores else "\t"


def _agreement(rows: list[list[str]], delimiter: str) -> float | None:
    """How many rows have as many cells as the first; None if this is no way to part them."""
    widths = [len(row) for row in rows]
    if not widths:
        return None
    if widths[0] > 1:
        # One cell more than names is what R writes: the row names have no header.
        return max(sum(width == widths[0] + extra for width in widths[1:]) for extra in (0, 1))
    width, count = Counter(widths).most_common(1)[0]
    if width < 2 or 2 * count <= len(rows):
        return None
    # Below a title; a comma that parts numbers only, and no names above them, is a decimal sign. A header that fits
    # counts more than a title.
    first = rows[widths.index(width)]
    return None if delimiter == "," and is_data(first) else count - 1.5


def _lay_out(text: str, delimiter: str, given: ReadOptions, path: Path) -> tuple[_Layout, list[str]]:
    """Column names, and where the data begin."""
    peeked = _peek(text, delimiter)
    rows = [row for _, row in peeked]
    if not rows:
        # The quotation mark is in the first row; this says where.
        rows = [row for _, row in _rows(text, delimiter)]
    head = find_head(rows, given, path)
    width = len(rows[min(head.n_titles, len(rows) - 1)])
    header, joined = join_names(rows[head.n_titles : head.n_rows], width)
    names, short = _check_widths(text, delimiter, header, head, path)
    last_line = peeked[head.n_rows - 1][0] if head.n_rows else 0
    notes = [*head.notes, *joined]
    named = _name_the_nameless(names, notes)
    data = rows[head.n_rows :]
    layout = _Layout(delimiter, named, last_line, _maybe_whole(data, named), _maybe_padded(data, named))
    return layout, [*notes, *short]


def _maybe_whole(rows: Sequence[Sequence[str]], names: list[str]) -> list[str]:
    """Columns that hold whole numbers if points part thousands."""
    found = []
    for j, name in enumerate(names):
        cells = [row[j].strip() for row in rows if j < len(row)]
        if all(_MAYBE_THOUSANDS.fullmatch(cell) or is_missing(cell) for cell in cells):
            found.append(name)
    return found


def _maybe_padded(rows: Sequence[Sequence[str]], names: list[str]) -> list[str]:
    """Columns in which each number may have as many digits, some by zeros before them."""
    cells = {name: {row[j].strip() for row in rows if j < len(row)} for j, name in enumerate(names)}
    return [name for name, found in cells.items() if are_padded({c for c in found if not is_missing(c)})]


def _check_widths(
    text: str, delimiter: str, header: list[str], head: Head, path: Path
) -> tuple[list[str], list[str]]:
    """The column names, one for each cell of a row, and a note on rows that lack their last cells."""
    lines: dict[int, list[int]] = {}
    last_is_empty: Counter[int] = Counter()
    firsts: set[str] = set()
    for number, row in itertools.islice(_rows(text, delimiter), head.n_rows, None):
        lines.setdefault(len(row), []).append(number)
        last_is_empty[len(row)] += row[-1].strip() == ""
        firsts.add(row[0])
    names, width = header, len(header)
    # One cell more than names: row names without a head, as R writes them, or a delimiter after the last cell. Row
    # names differ; what repeats may be a number before a decimal comma.
    if head.n_header and max(lines, default=width) == width + 1 and width not in lines:
        is_ended = last_is_empty[width + 1] == len(lines[width + 1])
        if is_ended or len(firsts) == sum(map(len, lines.values())):
            width += 1
            names = [*names, ""] if is_ended else ["", *names]
    return names, _check_ragged(lines, width, delimiter, path)


def _check_ragged(lines: dict[int, list[int]], width: int, delimiter: str, path: Path) -> list[str]:
    """A note on a few rows that are too short; many of them, or one that is too long, are refused."""
    short = sorted(line for length, numbers in lines.items() if length < width for line in numbers)
    n_rows = sum(map(len, lines.values()))
    is_few = 2 * len(short) < n_rows and len(short) <= max(_FEW_SHORT, _MOST_SHORT * n_rows)
    ragged = {length: numbers[0] for length, numbers in lines.items() if length != width}
    if short and is_few and max(ragged) < width:
        where = ", ".join(map(str, short[:5])) + (", ..." if len(short) > 5 else "")
        what = (
            f"{counted(len(short), 'row')} with too few cells (line{'s' if len(short) > 1 else ''} {where})"
        )
        return [f"{what}: the cells lacking at the end are taken as missing"]
    if ragged:
        length, line = min(ragged.items(), key=lambda item: item[1])
        raise ValueError(
            f"{path}, line {line}: expected {width} cells as in the first line, found {length} (delimiter "
            f"{_DELIMITERS.get(delimiter, delimiter)}). Mend that line, quote cells that hold the delimiter, "
            "or give the delimiter."
        )
    return []


def _name_the_nameless(names: list[str], notes: list[str]) -> list[str]:
    """Name columns that have no name by their place; if the first has none it is a saved index, and stays so."""
    unnamed = [j for j, name in enumerate(names) if name == "" and j > 0]
    if unnamed:
        places = ", ".join(f"column {j + 1}" for j in unnamed)
        notes.append(f"columns without a name are called by their place: {places}")
    return [f"column {j + 1}" if j in unnamed else name for j, name in enumerate(names)]


def _read_cells(text: str, layout: _Layout, given: ReadOptions, path: Path) -> Any:
    """Cells to numbers where a whole column is in plain notation; text elsewhere, and where points are in doubt."""
    if given.decimal == ",":
        return _parse(text, layout, layout.names, path)
    # As a number 007 would lose its zeros, and 1.10 be 1.1.
    naming = [name for name in layout.names if names_rows(name) or name == given.id_column]
    naming += [name for name in layout.padded if name not in naming]
    table = _parse(text, layout, naming, path)
    if given.decimal == ".":
        return table
    doubtful = [name for name in layout.whole if name not in naming and _has_thousandths(table[name])]
    return _parse(text, layout, [*naming, *doubtful], path) if doubtful else table


def _has_thousandths(cells: Any) -> bool:
    """Whether some numbers have fractions, and all such fractions could be a group of three digits."""
    if cells.dtype.kind != "f":
        return False
    thousands = 1000.0 * cells[cells != np.floor(cells)].dropna().to_numpy()
    # Three digits are stored to within rounding, which is far below a millionth.
    return thousands.size > 0 and bool(np.all(np.abs(thousands - np.round(thousands)) < 1e-6))


def _parse(text: str, layout: _Layout, as_text: list[str], path: Path) -> Any:
    """The table, some columns as text."""
    pandas = import_pandas()
    body = io.StringIO(text, newline="")
    for _ in range(layout.last_line):
        body.readline()
    try:
        return _read_csv(
            body,
            sep=r"\s+" if layout.delimiter == " " else layout.delimiter,
            header=None,
            names=layout.names,
            dtype=dict.fromkeys(as_text, object),
            index_col=False,
            skipinitialspace=True,
            keep_default_na=False,
            na_values=list(EMPTY),
            low_memory=False,
        )
    except pandas.errors.EmptyDataError:
        return pandas.DataFrame(columns=layout.names)
    except (pandas.errors.ParserError, pandas.errors.ParserWarning, OverflowError, ValueError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise ValueError(f"{path} cannot be parsed: {reason}. Save it again as CSV.") from error


def _read_csv(body: Any, **options: Any) -> Any:
    """The table, or an error where pandas would warn that it loses cells."""
    pandas = import_pandas()
    with warnings.catch_warnings():
        warnings.simplefilter("error", pandas.errors.ParserWarning)
        return pandas.read_csv(body, **options)


def _spelling(table: Any, layout: _Layout, given: ReadOptions) -> Spelling:
    """The known decimal signs: columns that are numbers already have points."""
    floats = (table[name].to_numpy() for name in table.select_dtypes("float"))
    has_points = any(np.any(np.isfinite(values) & (values != np.floor(values))) for values in floats)
    found = frozenset("." if has_points else "")
    return Spelling(given.decimal, found, "." if layout.delimiter == "," else ",")

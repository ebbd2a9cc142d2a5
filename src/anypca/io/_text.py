"""Reader of delimited text."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anypca._words import counted, numbered
from anypca.io._columns import MISSING, check_unique, frame_from_pandas, import_pandas
from anypca.io._source import ReadOptions, open_source
from anypca.io.frame import Frame

#: In order of preference where several part all lines alike: commas may be decimal signs, blanks part words.
_DELIMITERS = {"\t": "tab", ";": "semicolon", ",": "comma", " ": "blank"}
#: How many rows may lack their last cells: fewer than half, and at most this share or number of them. More of them
#: mean another delimiter than the one found.
_MOST_SHORT, _FEW_SHORT = 0.05, 3
#: Lines that the guesses look at. More would only cost time: formats do not change half way.
_PEEK = 200
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
_DECIMAL_POINT = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")


@dataclass(frozen=True)
class _Layout:
    """A text file's format, found or given."""

    delimiter: str
    decimal: str
    has_header: bool
    names: list[str]


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
    delimiter = given.delimiter or _find_delimiter(text)
    try:
        layout, more = _lay_out(text, delimiter, given, path)
    except csv.Error as error:
        raise ValueError(f"{path} cannot be read as text cells: {error}. Save it again as CSV.") from error
    check_unique(layout.names, path)
    if given.delimiter is None and layout.delimiter != _usual(path) and len(layout.names) > 1:
        notes.append(f"cells are separated by {_DELIMITERS[layout.delimiter]}s")
    return frame_from_pandas(_parse(text, layout, path), path, given, (*notes, *more))


def _usual(path: Path) -> str:
    """The delimiter that a file's extension promises."""
    return "," if ".csv" in path.name.lower() else "\t"


def _check_format(given: ReadOptions) -> None:
    if given.delimiter is not None and len(given.delimiter) != 1:
        raise ValueError(f"the delimiter must be a single character; got {given.delimiter!r}.")
    if given.decimal not in {None, ".", ","}:
        raise ValueError(f"the decimal sign must be '.' or ','; got {given.decimal!r}.")
    if given.header not in {None, True, False}:
        raise ValueError(f"header must be True, False or None (found out); got {given.header!r}.")


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
    try:
        return raw.decode("utf-8-sig"), []
    except UnicodeDecodeError:
        # Every byte string is valid here, so this reading cannot fail; names may be off, numbers are not.
        return raw.decode("latin-1"), [
            "the file is not in UTF-8; read as Latin-1, so check names with accents"
        ]


def _rows(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of each row that is not blank."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    for row in reader:
        if delimiter == " " and row and row[-1] == "":
            row = row[:-1]
        if len(row) > 1 or (row and row[0].strip()):
            yield reader.line_num, row


def _find_delimiter(text: str) -> str:
    """The delimiter under which most rows have as many cells as the first."""
    scores = {}
    for delimiter in _DELIMITERS:
        try:
            widths = [len(row) for _, row in itertools.islice(_rows(text, delimiter), _PEEK)]
        except csv.Error:
            continue
        if not widths or widths[0] < 2:
            continue
        # One cell more than names is what R writes: the row names have no header.
        agree = max(sum(width == widths[0] + extra for width in widths[1:]) for extra in (0, 1))
        if delimiter != " " or agree == len(widths) - 1:
            scores[delimiter] = agree
    # A single column: a tab occurs in no cell of it, and leaves the comma free as a decimal sign.
    return max(scores, key=lambda delimiter: scores[delimiter]) if scores else "\t"


def _lay_out(text: str, delimiter: str, given: ReadOptions, path: Path) -> tuple[_Layout, list[str]]:
    """Column names, decimal sign and whether there is a header."""
    notes = []
    head = [row for _, row in itertools.islice(_rows(text, delimiter), _PEEK)]
    decimal = given.decimal or _find_decimal(head, delimiter)
    if given.decimal is None and decimal == ",":
        notes.append("commas within numbers read as decimal signs")
    has_header = not _is_data(head[0]) if given.header is None else given.header
    if given.header is None and not has_header:
        notes.append(
            "the first line holds numbers: columns are called x1, x2, ... (header=True reads it as names)"
        )
    header = [" ".join(c.split()) for c in head[0]] if has_header else None
    names, short = _check_widths(text, delimiter, header, path)
    return _Layout(delimiter, decimal, has_header, _name_the_nameless(names, notes)), [*notes, *short]


def _is_data(row: list[str]) -> bool:
    """Whether a first line holds numbers rather than names; an empty first cell heads an index column."""
    cells = [cell.strip() for cell in row]
    return cells[0] != "" and all(cell == "" or _NUMBER.fullmatch(cell) for cell in cells)


def _find_decimal(rows: list[list[str]], delimiter: str) -> str:
    """A comma if numbers hold commas and none holds a point.

    Where commas part the cells, numbers with commas are thousands more often than decimals: left alone.
    """
    cells = [cell.strip() for row in rows for cell in row]
    if any(_DECIMAL_POINT.fullmatch(cell) for cell in cells):
        return "."
    has_comma = any(_DECIMAL_COMMA.fullmatch(cell) for cell in cells)
    return "," if has_comma and delimiter != "," else "."


def _check_widths(
    text: str, delimiter: str, header: list[str] | None, path: Path
) -> tuple[list[str], list[str]]:
    """The column names, one for each cell of a row, and a note on rows that lack their last cells."""
    rows = _rows(text, delimiter)
    _, first = next(rows)
    lines: dict[int, list[int]] = {}
    last_is_empty: Counter[int] = Counter()
    for number, row in rows:
        lines.setdefault(len(row), []).append(number)
        last_is_empty[len(row)] += row[-1].strip() == ""
    names, width = header if header is not None else list(numbered("x", len(first))), len(first)
    # One cell more than names: row names without a head, as R writes them, or a delimiter after the last cell.
    if header is not None and max(lines, default=width) == width + 1 and width not in lines:
        width += 1
        names = [*names, ""] if last_is_empty[width] == len(lines[width]) else ["", *names]
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


def _parse(text: str, layout: _Layout, path: Path) -> Any:
    """Cells to numbers where a whole column allows it."""
    pandas = import_pandas()
    try:
        table = pandas.read_csv(
            io.StringIO(text),
            sep=r"\s+" if layout.delimiter == " " else layout.delimiter,
            decimal=layout.decimal,
            header=0 if layout.has_header else None,
            names=layout.names,
            index_col=False,
            skipinitialspace=True,
            na_values=list(MISSING),
            low_memory=False,
        )
    except (pandas.errors.ParserError, pandas.errors.EmptyDataError, OverflowError) as error:
        raise ValueError(f"{path} cannot be parsed: {error}. Save it again as CSV.") from error
    return _point_decimals(table) if layout.decimal == "," else table


def _point_decimals(table: Any) -> Any:
    """Decimal points in columns that pandas left as text because of some other cell."""
    for name in table.columns[[kind.kind == "O" for kind in table.dtypes]]:
        cells = table[name].astype(str)
        is_number = table[name].notna() & cells.str.strip().str.fullmatch(_DECIMAL_COMMA)
        table[name] = table[name].mask(is_number, cells.str.replace(",", ".", regex=False))
    return table

"""Readers of parquet files and workbooks."""

from __future__ import annotations

from itertools import chain, islice
from numbers import Real
from pathlib import Path
from typing import IO, Any

import numpy as np

from anypca._optional import optional
from anypca._words import counted, quoted
from anypca.io._columns import frame_from_pandas, import_pandas
from anypca.io._heads import PEEK, find_head, join_names
from anypca.io._numbers import tokenise
from anypca.io._source import ReadOptions, Refused, check_archive, check_size, reading
from anypca.io.frame import Frame

#: How much larger the cells of a sheet are as Python objects than as text.
_SWELLING = 8.0
#: Share of empty cells from which on a column is searched for formulas that were never computed.
_MOSTLY_EMPTY = 0.5


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
    with optional("reading parquet", "pyarrow", "io"):
        from pyarrow.lib import ArrowException
        from pyarrow.parquet import read_metadata
    with reading(path, "pandas' to_parquet", ArrowException) as stream:
        found = read_metadata(stream)
        # Repeated cells take no room in the file and 8 bytes each in memory.
        check_size(path, 8.0 * found.num_rows * found.num_columns)
        stream.seek(0)
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
    with optional("reading xlsx", "openpyxl", "io"):
        import openpyxl  # noqa: F401
    with reading(path, "a spreadsheet program, as xlsx or CSV") as stream:
        check_archive(path, stream, _SWELLING)
        book = pandas.ExcelFile(stream, engine="openpyxl")
        sheet, cells = _choose_sheet(book, options, path)
        others = [name for name in book.sheet_names if name != sheet]
        formulas = _say_formulas(stream, sheet, cells)
    notes = [*([f"sheet {sheet!r} read; left out: {quoted(others)}"] if others else []), *formulas]
    # A sheet's used range often ends in formatted but empty rows and columns.
    cells = cells.iloc[options.skip or 0 :].dropna(how="all").dropna(how="all", axis=1)
    if cells.empty:
        raise ValueError(f"{path}: sheet {sheet!r} is empty. Expected column names and rows of numbers.")
    table, said = _behead(cells, options, path)
    return frame_from_pandas(table, path, options, (*notes, *said))


def _say_formulas(stream: IO[bytes], sheet: str, cells: Any) -> list[str]:
    """A note on formulas without values, which programs other than spreadsheets write; looked for in empty columns."""
    empty = np.flatnonzero(cells.isna().to_numpy().mean(axis=0) > _MOSTLY_EMPTY)
    if not empty.size:
        return []
    import openpyxl

    stream.seek(0)
    # Plain mode would hold all cells; this one reads them row by row.
    book = openpyxl.load_workbook(stream, read_only=True)
    rows = book[sheet].iter_rows(max_row=len(cells), max_col=cells.shape[1], values_only=True)
    wanted = set(empty.tolist())
    found = sum(str(row[j]).startswith("=") for row in rows for j in wanted if j < len(row))
    if not found:
        return []
    return [
        f"{counted(found, 'cell')} with formulas that have no values, taken as missing: open the file in a spreadsheet "
        "program and save it"
    ]


def _behead(cells: Any, options: ReadOptions, path: Path) -> tuple[Any, list[str]]:
    """The data below titles and column names, each column of its own type, and notes."""
    rows = [["" if cell is None else str(cell) for cell in row] for row in _peek(cells)]
    head = find_head(rows, options, path)
    names, joined = join_names(rows[head.n_titles : head.n_rows], cells.shape[1])
    table = cells.iloc[head.n_rows :].reset_index(drop=True).infer_objects()
    table.columns = [name or (f"column {j + 1}" if j else "") for j, name in enumerate(names)]
    return table, [*head.notes, *joined]


def _peek(cells: Any) -> Any:
    """The first rows, with None in empty cells."""
    top = cells.iloc[:PEEK].astype(object)
    return top.where(top.notna(), None).to_numpy()


def _choose_sheet(book: Any, options: ReadOptions, path: Path) -> tuple[str, Any]:
    """The requested sheet, or the first with numbers, and its cells."""
    sheets = [options.part] if options.part is not None else book.sheet_names
    if options.part is not None and options.part not in book.sheet_names:
        raise Refused(f"{path}: there is no sheet {options.part!r}; it has {quoted(book.sheet_names)}.")
    if not sheets:
        raise ValueError("it has no sheet")
    parsed = ((sheet, book.parse(sheet, header=None, dtype=object)) for sheet in sheets)
    first = next(parsed)
    return next((found for found in chain([first], parsed) if _has_numbers(found[1])), first)


def _has_numbers(cells: Any) -> bool:
    """Whether at least two cells of a sheet are numbers, or text that is one."""
    found = (
        cell for cell in cells.to_numpy().ravel() if isinstance(cell, Real) or tokenise(str(cell)) is not None
    )
    return sum(1 for _ in islice((cell for cell in found if cell == cell), 2)) == 2

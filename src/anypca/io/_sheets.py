"""Readers of parquet files and workbooks."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

from anypca._optional import optional
from anypca._words import numbered, quoted
from anypca.io._columns import frame_from_pandas, import_pandas
from anypca.io._options import ReadOptions
from anypca.io._source import reading
from anypca.io.frame import Frame


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
    table.columns = _names(table, has_header=has_header)
    notes = (f"sheet {sheet!r} read; left out: {quoted(others)}",) if others else ()
    # A sheet's used range often ends in formatted but empty rows and columns.
    table = table.dropna(how="all").reset_index(drop=True)
    empty = [name for name in table.columns if name.startswith("Unnamed: ") and table[name].isna().all()]
    return frame_from_pandas(table.drop(columns=empty), path, options, notes)


def _names(table: Any, *, has_header: bool) -> list[str]:
    if not has_header:
        return list(numbered("x", table.shape[1]))
    return [" ".join(str(name).split()) for name in table.columns]


def _choose_sheet(sheets: list[str], options: ReadOptions, path: Path) -> str:
    if options.part is None:
        return sheets[0]
    if options.part not in sheets:
        raise ValueError(f"{path}: there is no sheet {options.part!r}; it has {quoted(sheets)}.")
    return options.part

"""Output of the commands: text on the terminal, or one JSON document with stable keys.

Every document has ``schema`` (the number below), ``anypca`` (the version) and ``command``. Keys may be added within a
schema; a key that is removed, renamed or given another meaning raises the number. The keys of each command are listed
in ``docs/command_line.md`` and tested in ``tests/cli``.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

import anypca
from anypca._words import percent
from anypca.cli._input_table import InputTable
from anypca.io import Frame

#: Raised when a key is removed, renamed or given another meaning.
SCHEMA = 1


def dump(command: str, content: Mapping[str, Any]) -> str:
    """Format a document with its header as valid JSON; non-finite numbers become null.

    Parameters
    ----------
    command : str
    content : mapping

    Returns
    -------
    text : str
    """
    document = {"schema": SCHEMA, "anypca": anypca.__version__, "command": command, **content}
    return json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def emit(command: str, content: Mapping[str, Any]) -> None:
    """Print a document.

    Parameters
    ----------
    command : str
    content : mapping
    """
    sys.stdout.write(dump(command, content))


def plain(value: Any) -> Any:
    """Convert a value to JSON types.

    Parameters
    ----------
    value : object

    Returns
    -------
    value : dict, list, str, int, float, bool or None
    """
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, np.generic | np.ndarray):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else repr(value)


def make_console() -> Console:
    """The terminal, without colours that rich finds by itself."""
    return Console(highlight=False)


def print_input(table: InputTable, console: Console, model: str | None = None) -> None:
    """Print the names of table and model, the size of the table, and notes on ignored or repaired cells.

    Parameters
    ----------
    table : InputTable
    console : rich.console.Console
    model : str, optional
        Name of the model.
    """
    frame = table.frame
    console.print()
    console.print(Text(table.source, style="bold"), *([] if model is None else [Text(f"with {model}")]))
    console.print(Text(f"{frame.n_rows} rows, {frame.n_columns} columns, {missing(frame)}"))
    for note in frame.notes:
        console.print(Text(f"note: {note}", style="dim"), soft_wrap=True)


def print_warnings(warnings: Sequence[str], console: Console) -> None:
    """Print warnings, a line each.

    Parameters
    ----------
    warnings : sequence of str
    console : rich.console.Console
    """
    for warning in warnings:
        console.print(Text(f"warning: {warning}", style="yellow"), soft_wrap=True)


def print_files(place: Path, files: Sequence[str], console: Console) -> None:
    """Print the written files on one line.

    Parameters
    ----------
    place : Path
        The folder, or the only file.
    files : sequence of str
        Names in the folder; empty for a single file.
    console : rich.console.Console
    """
    listing = f": {', '.join(files)}" if files else ""
    console.print(Text(f"written to {place}{listing}"), soft_wrap=True)


def missing(frame: Frame) -> str:
    """The share of missing cells in words.

    Parameters
    ----------
    frame : Frame

    Returns
    -------
    text : str
    """
    share = frame.missing_fraction
    if share == 0:
        return "no cell missing"
    # A tenth of a percent is the least that one digit shows.
    return f"{'less than 0.1 %' if share < 0.001 else percent(share)} of cells missing"


def make_table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()) -> Table:
    """A table for the terminal.

    Parameters
    ----------
    heads : sequence of str
        Names of the columns.
    rows : sequence of sequences of str
    right : sequence of str
        Columns of numbers, besides the usual ones.

    Returns
    -------
    table : rich.table.Table
    """
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for head in heads:
        is_number = head in {"explained", "in sum", *right}
        is_short = head == "model"
        table.add_column(head, justify="right" if is_number else "left", no_wrap=is_number or is_short)
    for row in rows:
        # Text, not markup: a column called [red] is a name.
        table.add_row(*(Text(cell) for cell in row))
    return table

"""What the commands print on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from anypca._words import counted, percent, shorten
from anypca.cli._input_table import InputTable
from anypca.cli._outcome import Outcome
from anypca.io import Frame

#: Column names spelled out in a group: with four short names a line of 80 characters is full.
_NAMED = 4


def make_console() -> Console:
    """The terminal, without colours that rich finds by itself."""
    return Console(highlight=False)


def print_outcome(outcome: Outcome, console: Console) -> None:
    """Print what was in the table, what was chosen, and what was found.

    Parameters
    ----------
    outcome : Outcome
    console : rich.console.Console
    """
    print_input(outcome.table, console, outcome.description.name)
    if outcome.families:
        console.print(make_table(("family", "columns", "why"), _family_rows(outcome)))
    if outcome.n_components:
        heads = ("component", "explained", "in sum", "strongest loadings")
        width = 3 if outcome.description.loadings is None else 4
        console.print(make_table(heads[:width], [row[:width] for row in _component_rows(outcome)]))
    else:
        console.print(Text("no component: nothing in the table stands out from noise", style="bold"))
    converged = "converged" if outcome.model.converged_ else "NOT converged"
    ending = f"{converged} after {counted(int(outcome.model.n_iter_), 'iteration')}"
    console.print(Text(ending, style="green" if outcome.model.converged_ else "bold red"))
    print_warnings(outcome.warnings, console)


def print_input(table: InputTable, console: Console, model: str | None = None) -> None:
    """Print what was read: its name and that of the model, its size, and what was ignored or repaired.

    Parameters
    ----------
    table : InputTable
    console : rich.console.Console
    model : str, optional
        Name of the one model that it is given to.
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
    """Print what was written where, on one line however long.

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


def _family_rows(outcome: Outcome) -> list[tuple[str, str, str]]:
    """Family, columns and reason, one row for each group of columns."""
    rows = []
    for group in outcome.families.groups():
        names = ", ".join(shorten(name) for name in group.columns[:_NAMED])
        more = len(group.columns) - _NAMED
        rows.append((group.family, f"{names}, ... ({more} more)" if more > 0 else names, group.rule))
    return rows


def _component_rows(outcome: Outcome) -> list[tuple[str, str, str, str]]:
    """Number, explained share, running sum and strongest loadings, one row for each component."""
    explained = outcome.description.explained
    total = explained.cumsum()
    return [
        (
            str(k + 1),
            percent(share),
            percent(total[k]),
            ", ".join(f"{shorten(name)} {value:+.2f}" for name, value in outcome.top_loadings(k)),
        )
        for k, share in enumerate(explained)
    ]


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
        table.add_column(head, justify="right" if is_number else "left", no_wrap=is_number)
    for row in rows:
        # Text, not markup: a column called [red] is a name.
        table.add_row(*(Text(cell) for cell in row))
    return table

"""The account printed after a fit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from anypca.cli._outcome import Outcome
from anypca.io import Frame
from anypca.plotting._style import shorten

#: Column names spelled out in a group.
_NAMED = 4


def show(outcome: Outcome, console: Console) -> None:
    """Print what was in the table, what was chosen, and what was found.

    Parameters
    ----------
    outcome : Outcome
    console : rich.console.Console
    """
    frame, model = outcome.frame, outcome.model
    console.print()
    console.print(Text(outcome.table.source, style="bold"), Text(f"with {type(model).__name__}"))
    console.print(Text(f"{frame.n_rows} rows, {frame.n_columns} columns, {missing(frame)}"))
    show_notes(frame.notes, console)
    if outcome.family_groups():
        console.print(make_table(("family", "columns", "why"), family_rows(outcome)))
    if outcome.scores.shape[1]:
        heads = ("component", "explained", "in sum", "strongest loadings")
        width = 3 if outcome.loadings is None else 4
        console.print(make_table(heads[:width], [row[:width] for row in component_rows(outcome)]))
    else:
        console.print(Text("no component: nothing in the table stands out from noise", style="bold"))
    console.print(Text(ending(outcome), style="green" if model.converged_ else "bold red"))
    show_warnings(outcome.warnings, console)


def show_notes(notes: Sequence[str], console: Console) -> None:
    """Print what was ignored or repaired, a line each.

    Parameters
    ----------
    notes : sequence of str
    console : rich.console.Console
    """
    for note in notes:
        console.print(Text(f"note: {note}", style="dim"), soft_wrap=True)


def show_warnings(warnings: Sequence[str], console: Console) -> None:
    """Print warnings, a line each.

    Parameters
    ----------
    warnings : sequence of str
    console : rich.console.Console
    """
    for warning in warnings:
        console.print(Text(f"warning: {warning}", style="yellow"), soft_wrap=True)


def show_files(folder: Path, files: Sequence[str]) -> None:
    """Print what was written where, on one line however long.

    Parameters
    ----------
    folder : Path
    files : sequence of str
    """
    Console(highlight=False, markup=False, soft_wrap=True).print(f"written to {folder}: {', '.join(files)}")


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
    return "less than 0.1 % of cells missing" if share < 0.001 else f"{100 * share:.1f} % of cells missing"


def ending(outcome: Outcome) -> str:
    """Whether and when the fit converged, in words.

    Parameters
    ----------
    outcome : Outcome

    Returns
    -------
    text : str
    """
    count = int(outcome.model.n_iter_)
    steps = f"{count} iteration{'' if count == 1 else 's'}"
    return f"converged after {steps}" if outcome.model.converged_ else f"NOT converged after {steps}"


def family_rows(outcome: Outcome) -> list[tuple[str, str, str]]:
    """Family, columns and reason, one row for each group of columns.

    Parameters
    ----------
    outcome : Outcome

    Returns
    -------
    rows : list of tuple of str
    """
    rows = []
    for group in outcome.family_groups():
        names = ", ".join(shorten(name) for name in group.columns[:_NAMED])
        more = len(group.columns) - _NAMED
        rows.append((group.family, f"{names}, ... ({more} more)" if more > 0 else names, group.reason))
    return rows


def component_rows(outcome: Outcome) -> list[tuple[str, str, str, str]]:
    """Number, explained share, running sum and strongest loadings, one row for each component.

    Parameters
    ----------
    outcome : Outcome

    Returns
    -------
    rows : list of tuple of str
    """
    total = outcome.explained.cumsum()
    return [
        (
            str(k + 1),
            f"{100 * share:.1f} %",
            f"{100 * total[k]:.1f} %",
            ", ".join(f"{shorten(name)} {value:+.2f}" for name, value in outcome.top_loadings(k)),
        )
        for k, share in enumerate(outcome.explained)
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

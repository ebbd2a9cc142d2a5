"""The account printed after a fit."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from anypca.cli._outcome import Outcome
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
    console.print(Text(outcome.source, style="bold"), Text(f"with {type(model).__name__}"))
    console.print(Text(f"{frame.n_rows} rows, {frame.n_columns} columns, {missing(outcome)}"))
    for note in frame.notes:
        console.print(Text(f"note: {note}", style="dim"))
    console.print(_table(("family", "columns", "why"), family_rows(outcome)))
    console.print(_table(("component", "explained", "in sum", "strongest loadings"), component_rows(outcome)))
    console.print(Text(ending(outcome), style="green" if model.converged_ else "bold red"))
    for warning in outcome.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"))


def missing(outcome: Outcome) -> str:
    """The share of missing cells in words.

    Parameters
    ----------
    outcome : Outcome

    Returns
    -------
    text : str
    """
    share = outcome.frame.missing_fraction
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


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for head in heads:
        table.add_column(head, justify="right" if head in {"explained", "in sum"} else "left")
    for row in rows:
        # Text, not markup: a column called [red] is a name.
        table.add_row(*(Text(cell) for cell in row))
    return table

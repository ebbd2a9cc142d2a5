"""``anypca compare``: several models of one table, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from anypca.cli._holdout import HeldOut, hold_out
from anypca.cli._json import emit
from anypca.cli._models import ModelRequest, available, find_model
from anypca.cli._session import Fit, Runtime, caught, fit_model
from anypca.cli._show import make_table, missing, show_notes
from anypca.cli._table import Table, TableRequest, drop_constant, load_table
from anypca.selection import EntryShuffleSplit

#: Share of the cells that are held out.
_FRACTION = 0.1
#: Left out unless asked for: auto is sepca, kernel has neither likelihood nor loadings, piecewise takes long, and spca
#: is told how sparse to be.
_UNASKED = frozenset({"auto", "kernel", "piecewise", "spca"})
#: What a model may raise on a table that is not for it. Anything else is a fault.
_REFUSALS = (ValueError, TypeError, ArithmeticError)


@dataclass(frozen=True, eq=False)
class Comparison:
    """What one model made of the table."""

    name: str
    fit: Fit | None = None
    held_out: HeldOut | None = None
    remarks: tuple[str, ...] = ()
    """What was left out, what went wrong, what it warned of."""

    @property
    def zero_share(self) -> float | None:
        """Share of loadings that are exactly 0."""
        loadings = None if self.fit is None else getattr(self.fit.model, "components_", None)
        return (
            None if loadings is None or not np.size(loadings) else float(np.mean(np.asarray(loadings) == 0))
        )

    def content(self) -> dict[str, Any]:
        """The row in the JSON document."""
        model = None if self.fit is None else self.fit.model
        found = self.held_out
        return {
            "name": self.name,
            "model": find_model(self.name).class_name,
            "held_out_log_likelihood": None if found is None else found.mean,
            "standard_error": None if found is None else found.standard_error,
            "n_components": None if model is None else int(model.n_components_),
            "explained_deviance": None if model is None else float(np.sum(model.explained_deviance_ratio_)),
            "zero_loadings_fraction": self.zero_share,
            "seconds": None if self.fit is None else self.fit.seconds,
            "converged": None if model is None else bool(model.converged_),
            "remarks": list(self.remarks),
        }


def run_compare(
    table_request: TableRequest,
    request: ModelRequest,
    names: Sequence[str],
    runtime: Runtime,
    *,
    n_splits: int = 1,
) -> None:
    """Fit several models to a table and print them side by side, the best prediction first.

    Parameters
    ----------
    table_request : TableRequest
    request : ModelRequest
        What all models share: family, number of components, seed, threads.
    names : sequence of str
        Models; empty: those that suit the table.
    runtime : Runtime
    n_splits : int
        How often a tenth of the cells is held out.
    """
    for name in names:
        find_model(name)
    table = drop_constant(load_table(table_request))
    splitter = EntryShuffleSplit(n_splits, _FRACTION, request.seed)
    rows = compare(table, request, names or suitable(table), splitter, runtime)
    _tell(table, rows, splitter, runtime)


def suitable(table: Table) -> list[str]:
    """The models that a comparison is about when none are named.

    Parameters
    ----------
    table : Table

    Returns
    -------
    names : list of str
    """
    is_counts, is_complete = table.shape.is_counts, table.frame.n_missing == 0
    return [
        name
        for name, entry in available().items()
        if name not in _UNASKED
        and (is_counts or entry.families != ("poisson",))
        and (is_complete or entry.accepts_missing)
    ]


def compare(
    table: Table,
    request: ModelRequest,
    names: Sequence[str],
    splitter: EntryShuffleSplit,
    runtime: Runtime,
) -> list[Comparison]:
    """Fit models to a table and score cells that were hidden from them.

    Parameters
    ----------
    table : Table
    request : ModelRequest
        What they share. Without a number of components, models that cannot choose get the one that sepca chose.
    names : sequence of str
    splitter : EntryShuffleSplit
    runtime : Runtime

    Returns
    -------
    rows : list of Comparison
        The best first; those without held-out log-likelihood last.
    """
    # The one that chooses comes first: its choice is what the others are given.
    order = sorted(names, key=lambda name: name != "sepca")
    rows: list[Comparison] = []
    rank = request.n_components
    for name in order:
        entry = find_model(name)
        wanted = replace(
            request, name=name, n_components=request.n_components if entry.chooses_rank else rank
        )
        rows.append(_examine(wanted, table, splitter, runtime))
        fit = rows[-1].fit
        if rank is None and name == "sepca" and fit is not None:
            rank = max(1, int(fit.model.n_components_))
    return sorted(rows, key=lambda row: np.inf if row.held_out is None else -row.held_out.mean)


def _examine(
    request: ModelRequest, table: Table, splitter: EntryShuffleSplit, runtime: Runtime
) -> Comparison:
    """Fit one model; what it cannot do becomes a remark."""
    mine, remarks = _without_companions(request.name, table)
    try:
        fit = fit_model(request, mine, runtime, words=request.name)
    except _REFUSALS as error:
        return Comparison(request.name, remarks=(f"not fitted: {_line(error)}",))
    remarks += _few(fit.warnings)
    try:
        with caught() as said:
            held_out = hold_out(fit.model, request, mine, splitter, runtime)
    except _REFUSALS as error:
        return Comparison(request.name, fit, remarks=(*remarks, f"no cells held out: {_line(error)}"))
    remarks += [f"without the held-out cells: {warning}" for warning in _few(said)]
    if held_out is None:
        is_complete = not find_model(request.name).accepts_missing
        why = "it needs a complete table" if is_complete else "it gives single cells no probability"
        remarks.append(f"no cells held out: {why}")
    elif held_out.n_impossible:
        remarks.append(
            f"{held_out.n_impossible} of {len(held_out.terms)} held-out cells are impossible under the fit"
        )
    return Comparison(request.name, fit, held_out, tuple(remarks))


def _without_companions(name: str, table: Table) -> tuple[Table, list[str]]:
    """The table without what the model does not take, and a remark on each."""
    entry, remarks = find_model(name), []
    if table.offset is not None and not entry.accepts("offset"):
        table = replace(table, offset=None)
        remarks.append("takes no offset: fitted without")
    if table.covariates is not None and not entry.accepts("covariates"):
        table = replace(table, covariates=None)
        remarks.append("takes no covariates: fitted without")
    return replace(table, is_offset_asked=False), remarks


def _few(warnings: Sequence[str]) -> list[str]:
    """The first of several warnings: a model that fits more than once tends to repeat itself."""
    more = len(warnings) - 1
    return [*warnings[:1], *([f"{more} more warning{'' if more == 1 else 's'}"] if more > 0 else [])]


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


def _tell(table: Table, rows: list[Comparison], splitter: EntryShuffleSplit, runtime: Runtime) -> None:
    if runtime.as_json:
        content = {
            "source": table.source,
            "rows": table.frame.n_rows,
            "columns": table.frame.n_columns,
            "missing_fraction": table.frame.missing_fraction,
            "notes": list(table.frame.notes),
            "held_out_fraction": splitter.fraction,
            "n_splits": splitter.get_n_splits(),
            "models": [row.content() for row in rows],
        }
        emit("compare", content)
        return
    console = Console(highlight=False)
    console.print()
    console.print(Text(table.source, style="bold"))
    console.print(Text(f"{table.frame.n_rows} rows, {table.frame.n_columns} columns, {missing(table.frame)}"))
    show_notes(table.frame.notes, console)
    heads = ("model", "held out", "± se", "dimension", "explained", "sparsity", "seconds")
    console.print(make_table(heads, [_cells(row) for row in rows], right=heads[1:]))
    for row in rows:
        for remark in row.remarks:
            console.print(Text(f"{row.name}: {remark}", style="dim"), soft_wrap=True)
    times = "once" if splitter.get_n_splits() == 1 else f"{splitter.get_n_splits()} times"
    console.print(
        Text(
            f"held out: mean log-likelihood of cells that the fit has not seen, a tenth of the table, {times}, and its "
            "standard error; higher is better. sparsity: share of loadings that are 0."
        ),
        soft_wrap=True,
    )


def _cells(row: Comparison) -> tuple[str, ...]:
    """The cells of the printed table."""
    if row.fit is None:
        return (row.name, *["-"] * 6)
    content = row.content()
    found = row.held_out
    held_out = (np.nan, np.nan) if found is None else (found.mean, found.standard_error)
    share = content["zero_loadings_fraction"]
    return (
        row.name,
        *(_number(part) for part in held_out),
        str(content["n_components"]),
        f"{100 * content['explained_deviance']:.1f} %",
        "-" if share is None else f"{100 * share:.0f} %",
        f"{row.fit.seconds:.2f}",
    )


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.3f}"

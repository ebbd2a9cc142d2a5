"""``anypca compare``: several models of one table, side by side, by cells that they have not seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from rich.text import Text

from anypca._typing import Floats, Ints
from anypca._words import counted, percent
from anypca.cli._fitting import Fit, Runtime, caught, fit_model
from anypca.cli._input_table import InputTable, TableRequest, drop_constant, load_table
from anypca.cli._models import MODELS, ModelRequest, find_model
from anypca.cli._printing import emit, make_console, make_table, print_input
from anypca.engine import hide_entries, take_entries
from anypca.models._description import describe
from anypca.selection import EntryShuffleSplit


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Log-probabilities of held-out cells."""

    terms: Floats
    """One for each cell and split."""

    @property
    def mean(self) -> float:
        """Mean log-likelihood per cell."""
        return float(self.terms.mean())

    @property
    def standard_error(self) -> float:
        """Standard error of the mean, from the spread of the cells; NaN where a cell has probability 0."""
        if not np.isfinite(self.terms).all():
            return float("nan")
        return float(self.terms.std() / np.sqrt(len(self.terms)))

    @property
    def n_impossible(self) -> int:
        """Cells whose probability under the fit is 0."""
        return int(np.count_nonzero(~np.isfinite(self.terms)))


def hold_out(
    model: Any, request: ModelRequest, table: InputTable, splitter: EntryShuffleSplit, runtime: Runtime
) -> HeldOut | None:
    """Hide cells, fit to the others, and score the hidden ones.

    Parameters
    ----------
    model : fitted estimator
        To the whole table: its families and its dimension are kept.
    request : ModelRequest
        What it was made of.
    table : InputTable
    splitter : EntryShuffleSplit
    runtime : Runtime

    Returns
    -------
    held_out : HeldOut or None
        None for models that cannot score cells, or need all of them.
    """
    abilities = describe(model)
    if not (abilities.has_entries and abilities.handles_missing):
        return None
    settled = dict(request.settings)
    # Models of any family take it as an object too; the others have no choice, or two names.
    if not find_model(request.name).families:
        settled["family"] = model.layout_.settled(model.family_)
    wanted = replace(request, n_components=max(1, int(model.n_components_)), settings=settled)
    values = table.frame.values
    terms = []
    for number, (rows, columns) in enumerate(splitter.split(values), start=1):
        hidden = replace(table, frame=replace(table.frame, values=hide_entries(values, rows, columns)))
        words = f"{request.name}, held-out cells {number} of {splitter.get_n_splits()}"
        fit = fit_model(wanted, hidden, runtime, words=words)
        terms.append(score_cells(fit.model, hidden, rows, columns, take_entries(values, rows, columns)))
    return HeldOut(np.concatenate(terms))


def score_cells(model: Any, hidden: InputTable, rows: Ints, columns: Ints, values: Floats) -> Floats:
    """Log-probabilities of cells as they are recorded, in steps of their columns, which the fits to a table share.

    Parameters
    ----------
    model : fitted estimator
        Which has not seen the cells.
    hidden : InputTable
        With these cells missing.
    rows, columns : ndarray of int of shape (n_cells,)
    values : ndarray of shape (n_cells,)

    Returns
    -------
    terms : ndarray of shape (n_cells,)
    """
    companions, X = hidden.companions(model), hidden.as_input()
    return np.array(model.entry_log_likelihood(X, rows, columns, values, **companions))


#: Larger numbers are printed with their power of ten.
_MOST_PLAIN = 1e4
#: Share of the cells that are held out: as in ten folds, so that the fits hardly suffer.
_FRACTION = 0.1
#: Left out unless asked for: auto is sepca, kernel has neither likelihood nor loadings, piecewise, bepca, isfa,
#: sspca and nets take long, and spca is told how sparse to be.
_UNASKED = frozenset({"auto", "autoencoder", "bepca", "isfa", "kernel", "piecewise", "spca", "sspca", "vae"})
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

    def content(self) -> dict[str, Any]:
        """The row in the JSON document."""
        return {
            "name": self.name,
            "model": find_model(self.name).class_name,
            "held_out_log_likelihood": None if self.held_out is None else self.held_out.mean,
            "standard_error": None if self.held_out is None else self.held_out.standard_error,
            **dict(zip(_FOUND, [None] * 5 if self.fit is None else _facts(self.fit), strict=True)),
            "remarks": list(self.remarks),
        }


#: Keys of the JSON document on what a fit found.
_FOUND = ("n_components", "explained_deviance", "zero_loadings_fraction", "seconds", "converged")


def _facts(fit: Fit) -> tuple[Any, ...]:
    """The values of the keys in `_FOUND`."""
    explained = float(np.sum(fit.model.explained_deviance_ratio_))
    zeros = describe(fit.model).zero_share
    return int(fit.model.n_components_), explained, zeros, fit.seconds, bool(fit.model.converged_)


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
    if runtime.as_json:
        asked = {"held_out_fraction": splitter.fraction, "n_splits": splitter.get_n_splits()}
        emit("compare", {**table.content(), **asked, "models": [row.content() for row in rows]})
        return
    _print_rows(table, rows, splitter)


def suitable(table: InputTable) -> list[str]:
    """The models that a comparison is about when none are named.

    Parameters
    ----------
    table : InputTable

    Returns
    -------
    names : list of str
    """
    is_counts, is_complete = table.shape.is_counts, table.frame.n_missing == 0
    return [
        name
        for name, entry in MODELS.items()
        if name not in _UNASKED
        and (is_counts or entry.families != ("poisson",))
        and (is_complete or entry.abilities.handles_missing)
    ]


def compare(
    table: InputTable,
    request: ModelRequest,
    names: Sequence[str],
    splitter: EntryShuffleSplit,
    runtime: Runtime,
) -> list[Comparison]:
    """Fit models to a table and score cells that were hidden from them.

    Parameters
    ----------
    table : InputTable
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
    request: ModelRequest, table: InputTable, splitter: EntryShuffleSplit, runtime: Runtime
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
        can_miss = describe(fit.model).handles_missing
        why = "it gives single cells no probability" if can_miss else "it needs a complete table"
        remarks.append(f"no cells held out: {why}")
    elif held_out.n_impossible:
        remarks.append(
            f"{held_out.n_impossible} of {len(held_out.terms)} held-out cells are impossible under the fit"
        )
    return Comparison(request.name, fit, held_out, tuple(remarks))


def _without_companions(name: str, table: InputTable) -> tuple[InputTable, list[str]]:
    """The table without what the model does not take, and a remark on each."""
    abilities, remarks = find_model(name).abilities, []
    if table.offset is not None and not abilities.takes_offset:
        table = replace(table, offset=None)
        remarks.append("takes no offset: fitted without")
    if table.covariates is not None and not abilities.takes_covariates:
        table = replace(table, covariates=None)
        remarks.append("takes no covariates: fitted without")
    return replace(table, is_offset_asked=False), remarks


def _few(warnings: Sequence[str]) -> list[str]:
    """The first of several warnings: a model that fits more than once tends to repeat itself."""
    more = len(warnings) - 1
    return [*warnings[:1], *([counted(more, "more warning")] if more > 0 else [])]


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


def _print_rows(table: InputTable, rows: list[Comparison], splitter: EntryShuffleSplit) -> None:
    console = make_console()
    print_input(table, console)
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
    share = content["zero_loadings_fraction"]
    return (
        row.name,
        *(_number(content[name]) for name in ("held_out_log_likelihood", "standard_error")),
        str(content["n_components"]),
        percent(content["explained_deviance"]),
        "-" if share is None else f"{100 * share:.0f} %",
        f"{row.fit.seconds:.2f}",
    )


def _number(value: float | None) -> str:
    if value is None or np.isnan(value):
        return "-"
    # A model that is far off has digits that nobody needs, and that would push names out of the table.
    return f"{value:.3f}" if abs(value) < _MOST_PLAIN else f"{value:.1e}"

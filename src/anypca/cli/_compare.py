"""``anypca select`` and ``anypca compare``: numbers of components, and models, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.text import Text

from anypca._typing import Floats
from anypca._words import counted, percent
from anypca.cli._fitting import Fit, caught, fit_model, make_model, shown_bar
from anypca.cli._input_table import InputTable, drop_constant, load_table
from anypca.cli._models import MODELS, build, find_model
from anypca.cli._printing import (
    dump,
    emit,
    make_console,
    make_table,
    print_files,
    print_input,
    print_warnings,
)
from anypca.cli._requests import ModelRequest, Runtime, TableRequest
from anypca.io.atomic import check_own, write_atomically
from anypca.models._description import describe
from anypca.plotting import save_figure
from anypca.selection import (
    EntryKFold,
    EntryShuffleSplit,
    HeldOut,
    compare_ranks,
    cross_validate,
    select_rank,
)

#: Files that ``anypca select`` writes.
SELECTION_FILES = ("selection.csv", "selection.json", "selection.png")
#: Shorter heads of the printed table.
_HEADS = {"n_components": "left", "standard_error": "± se", "marginal_bic": "marginal"}
#: Larger numbers are printed with their power of ten.
_MOST_PLAIN = 1e4
#: Share of the cells that are held out: as in ten folds, so that the fits hardly suffer.
_FRACTION = 0.1
#: Left out unless requested: auto is sepca, kernel has neither likelihood nor loadings, piecewise, bepca, isfa,
#: sspca and nets take long, and spca needs the number of nonzero loadings.
_UNASKED = frozenset({"auto", "autoencoder", "bepca", "isfa", "kernel", "piecewise", "spca", "sspca", "vae"})
#: Exceptions of a model that does not apply to a table. Other exceptions are bugs.
_REFUSALS = (ValueError, TypeError, ArithmeticError)
#: Keys of the JSON document on the fit to the whole table.
_FOUND = ("n_components", "explained_deviance", "zero_loadings_fraction", "seconds", "converged")


def run_select(
    table_request: TableRequest,
    request: ModelRequest,
    ranks: Sequence[int] | None,
    runtime: Runtime,
    *,
    criterion: str = "auto",
    n_folds: int = 10,
    folder: Path | None = None,
) -> None:
    """Choose the number of components of a model and print the criteria.

    Parameters
    ----------
    table_request : TableRequest
    request : ModelRequest
    ranks : sequence of int or None
        Numbers to compare; None: 1 to 10, or less if the table is small.
    runtime : Runtime
    criterion : str
        As in `anypca.selection.select_rank`; ``"auto"``: the evidence of models that have one, else BIC.
    n_folds : int
        For held-out cells.
    folder : Path or None
        Where to write the table and a picture; None: nowhere.
    """
    table, entry = _open(table_request, runtime, folder), find_model(request.name)
    model = make_model(request, table, runtime)
    if criterion == "auto":
        criterion = "evidence" if entry.chooses_rank else "bic"
    with caught() as said, shown_bar(runtime, "selecting"):
        folds = EntryKFold(n_folds, random_state=request.seed)
        result = select_rank(
            model, table.as_input(), ranks=ranks, criterion=criterion, cv=folds, **table.companions(model)
        )
    # Components without loadings are pruned: fewer can be left than the fit was allowed.
    left = int(result.best_estimator_.n_components_)
    content = {
        "model": entry.class_name,
        "criterion": result.criterion,
        "best_rank": result.best_rank,
        "n_components": left,
        "ranks": list(result.rows),
    }
    first = ["rank", "n_components", result.criterion]
    unprinted = {*first, "log_likelihood", "n_parameters", "converged", "l_miss"}
    heads = [*first, *(name for name in result.rows[0] if name not in unprinted), "converged"]
    heads = [head for head in heads if head in result.rows[0]]
    rows = [
        [">" if row["rank"] == result.best_rank else "", *(_cell(row[head]) for head in heads)]
        for row in result.rows
    ]
    most = "" if left == result.best_rank else f" of at most {result.best_rank}"
    lines = [Text(f"{counted(left, 'component')}{most} by {result.label} (lower is better)", style="green")]
    printed = make_table(["", *(_HEADS.get(head, head) for head in heads)], rows, right=heads), *lines
    _finish(table, request, result, content, said, runtime, folder, printed)


def run_compare_ranks(
    table_request: TableRequest,
    request: ModelRequest,
    methods: Sequence[str],
    ranks: Sequence[int] | None,
    runtime: Runtime,
    *,
    folder: Path | None = None,
) -> None:
    """Print the numbers of components that several methods choose.

    Parameters
    ----------
    table_request : TableRequest
    request : ModelRequest
        Its family and seed are used.
    methods : sequence of str
        Names; empty: all.
    ranks : sequence of int or None
        The largest is the largest answer; None: 10, or less if the table is small.
    runtime : Runtime
    folder : Path or None
        Where to write the table and a picture; None: nowhere.
    """
    table = _open(table_request, runtime, folder)
    with caught() as said, shown_bar(runtime, "comparing"):
        result = compare_ranks(
            table.as_input(),
            list(methods) or None,
            family=request.family,
            max_rank=None if ranks is None else max(ranks),
            offset=table.offset,
            covariates=table.covariates,
            random_state=request.seed,
        )
    content = {"family": result.family, "methods": [answer._asdict() for answer in result.answers]}
    rows = [
        (
            answer.method,
            label,
            *(("-", "-") if answer.rank is None else (answer.rank, f"{answer.seconds:.2f}")),
        )
        for answer, label in zip(result.answers, result.labels, strict=True)
    ]
    heads = ("method", "what", "components", "seconds")
    lines = [Text(f"{each.method}: {each.remark}", style="dim") for each in result.answers if each.remark]
    lines.append(Text(result.conclusion))
    printed = make_table(heads, [list(map(str, row)) for row in rows], right=heads[2:]), *lines
    _finish(table, request, result, content, said, runtime, folder, printed)


def _open(request: TableRequest, runtime: Runtime, folder: Path | None) -> InputTable:
    if folder is not None:
        check_own(folder, SELECTION_FILES, force=runtime.force)
    return drop_constant(load_table(request))


def _finish(
    table: InputTable,
    request: ModelRequest,
    result: Any,
    found: dict[str, Any],
    said: Sequence[str],
    runtime: Runtime,
    folder: Path | None,
    printed: Sequence[Any],
) -> None:
    """Write the table, the document and the picture of a selection, and print it."""
    content = {**table.content(), "seed": request.seed, "warnings": list(said), **found}
    if folder is not None:
        writers: tuple[Any, ...] = (
            lambda path: result.to_frame().to_csv(path, float_format="%.10g"),
            lambda path: path.write_text(dump("select", content), encoding="utf-8"),
            lambda path: save_figure(result.plot(), path),
        )
        write_atomically(folder, dict(zip(SELECTION_FILES, writers, strict=True)))
    if runtime.as_json:
        emit("select", content)
        return
    console = make_console()
    print_input(table, console, found.get("model"))
    for part in printed:
        console.print(part, soft_wrap=isinstance(part, Text))
    print_warnings(said, console)
    if folder is not None:
        print_files(folder, SELECTION_FILES, console)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if not isinstance(value, float):
        return str(value)
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.4f}"


@dataclass(frozen=True, eq=False)
class Comparison:
    """A model of the table, and its log-probabilities of held-out cells."""

    name: str
    fit: Fit | None = None
    terms: Floats | None = None
    """(n_cells,), of all splits; None for models that cannot score cells, or need all of them."""
    remarks: tuple[str, ...] = ()
    """Remarks: omissions, errors and warnings."""

    @property
    def mean(self) -> float:
        """Mean log-likelihood of a held-out cell; minus infinity if there are none."""
        return -np.inf if self.terms is None else float(self.terms.mean())

    def content(self) -> dict[str, Any]:
        """The row in the JSON document."""
        error = None
        if self.terms is not None and np.isfinite(self.terms).all():
            error = float(self.terms.std() / np.sqrt(len(self.terms)))
        found: tuple[Any, ...] = (None,) * len(_FOUND)
        if self.fit is not None:
            model = self.fit.model
            explained, zeros = float(np.sum(model.explained_deviance_ratio_)), describe(model).zero_share
            found = int(model.n_components_), explained, zeros, self.fit.seconds, bool(model.converged_)
        return {
            "name": self.name,
            "model": find_model(self.name).class_name,
            "held_out_log_likelihood": None if self.terms is None else self.mean,
            "standard_error": error,
            **dict(zip(_FOUND, found, strict=True)),
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
        Settings of all models: family, number of components, seed, threads. Without a number of components, models
        that cannot choose it use the choice of sepca.
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
    rows: list[Comparison] = []
    rank = request.n_components
    # The model that chooses the number of components is fitted first; the others use its choice.
    for name in sorted(names or _suitable(table), key=lambda name: name != "sepca"):
        own = request.n_components if find_model(name).chooses_rank else rank
        rows.append(_examine(replace(request, name=name, n_components=own), table, splitter, runtime))
        fit = rows[-1].fit
        if rank is None and name == "sepca" and fit is not None:
            rank = max(1, int(fit.model.n_components_))
    rows.sort(key=lambda row: -row.mean)
    if runtime.as_json:
        asked = {"held_out_fraction": splitter.fraction, "n_splits": n_splits}
        emit("compare", {**table.content(), **asked, "models": [row.content() for row in rows]})
    else:
        _print_rows(table, rows, n_splits)


def _suitable(table: InputTable) -> list[str]:
    """The models that a comparison is about if none are named."""
    is_counts, is_complete = table.shape.is_counts, table.frame.n_missing == 0
    return [
        name
        for name, entry in MODELS.items()
        if name not in _UNASKED
        and (is_counts or entry.families != ("poisson",))
        and (is_complete or entry.abilities.handles_missing)
    ]


def _examine(
    request: ModelRequest, table: InputTable, splitter: EntryShuffleSplit, runtime: Runtime
) -> Comparison:
    """Fit one model; expected errors become remarks."""
    name, abilities, remarks = request.name, find_model(request.name).abilities, []
    mine = replace(table, is_offset_asked=False)
    if table.offset is not None and not abilities.takes_offset:
        mine, remarks = replace(mine, offset=None), ["takes no offset: fitted without"]
    if table.covariates is not None and not abilities.takes_covariates:
        mine, remarks = replace(mine, covariates=None), [*remarks, "takes no covariates: fitted without"]
    try:
        fit = fit_model(request, mine, runtime, words=name)
    except _REFUSALS as error:
        return Comparison(name, remarks=(f"not fitted: {_line(error)}",))
    remarks += _few(fit.warnings)
    abilities = describe(fit.model)
    if not (abilities.has_entries and abilities.handles_missing):
        why = (
            "it gives single cells no probability"
            if abilities.handles_missing
            else "it needs a complete table"
        )
        return Comparison(name, fit, remarks=(*remarks, f"no cells held out: {why}"))
    try:
        with caught() as said:
            terms = _hold_out(fit.model, request, mine, splitter, runtime)
    except _REFUSALS as error:
        return Comparison(name, fit, remarks=(*remarks, f"no cells held out: {_line(error)}"))
    remarks += [f"without the held-out cells: {warning}" for warning in _few(said)]
    if lost := int(np.count_nonzero(~np.isfinite(terms))):
        remarks.append(f"{lost} of {len(terms)} held-out cells are impossible under the fit")
    return Comparison(name, fit, terms, tuple(remarks))


def _hold_out(
    model: Any, request: ModelRequest, table: InputTable, splitter: EntryShuffleSplit, runtime: Runtime
) -> Floats:
    """Log-probabilities of cells under fits to the others, with the families and the dimension of the whole table."""
    settled = dict(request.settings)
    # Models of any family take it as an object too; the others have no choice, or two names.
    if not find_model(request.name).families:
        settled["family"] = model.layout_.settled(model.family_)
    wanted = replace(request, n_components=max(1, int(model.n_components_)), settings=settled)
    estimator = build(wanted, table.shape, verbose=runtime.is_watched)
    with shown_bar(runtime, f"{request.name}, held-out cells"):
        found = cross_validate(
            [estimator],
            table.as_input(),
            splitter.split(table.frame.values),
            score=_score_cells,
            **table.companions(estimator),
        )
    return np.concatenate([terms for (terms,) in found])


def _score_cells(model: Any, held_out: HeldOut) -> Floats:
    """Log-probabilities of the hidden cells, minus infinity for those that the fit considers impossible."""
    cells = *held_out.entries, held_out.values
    return np.asarray(model.entry_log_likelihood(held_out.table, *cells, **held_out.row_params))


def _few(warnings: Sequence[str]) -> list[str]:
    """The first of several warnings: a model that fits more than once tends to repeat itself."""
    more = len(warnings) - 1
    return [*warnings[:1], *([counted(more, "more warning")] if more > 0 else [])]


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


def _print_rows(table: InputTable, rows: list[Comparison], n_splits: int) -> None:
    console = make_console()
    print_input(table, console)
    heads = ("model", "held out", "± se", "dimension", "explained", "sparsity", "seconds")
    console.print(make_table(heads, [_cells(row) for row in rows], right=heads[1:]))
    for row in rows:
        for remark in row.remarks:
            console.print(Text(f"{row.name}: {remark}", style="dim"), soft_wrap=True)
    times = "once" if n_splits == 1 else f"{n_splits} times"
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
    # The digits of a model that is far off would push names out of the table.
    return f"{value:.3f}" if abs(value) < _MOST_PLAIN else f"{value:.1e}"

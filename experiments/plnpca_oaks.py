"""Poisson log-normal PCA of the microbes on oak leaves: bound, BIC and ICL over ranks, with and without covariates.

Chiquet, Mariadassou and Robin (2018) analyse these 116 x 114 counts with the numbers of reads as offsets. The best
bound that other programs (PLNmodels for R, pyPLNmodels) were seen to reach at rank 5 with an intercept is -83732.6, in
the constants used here. Needs the data folder.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from anypca import PLNPCA
from anypca.datasets import Dataset, load_oaks
from anypca.exceptions import ConvergenceWarning
from anypca.models.plnpca import RankPath
from anypca.plotting import plot_correlation_circle, plot_scores, save_figure
from experiments._common import Options, Outcome, Table, Target, run_module

PEERS_AT_5 = -83732.6
HEAD = ("rank", "parameters", "bound", "BIC", "ICL", "AIC", "R2", "sweeps", "converged")


def run(options: Options) -> Outcome:
    """Fit all ranks with an intercept, and with tree, orientation and position of the leaf as covariates."""
    oaks = load_oaks()
    ranks = (1, 2, 5) if options.quick else range(1, 21)
    settings = {"max_iter": 60 if options.quick else 1000, "n_jobs": 1, "random_state": options.seed}
    plain = fit_path(oaks, ranks, None, settings)
    with_covariates = (
        None if options.quick else fit_path(oaks, ranks, leaf_covariates(oaks.covariates), settings)
    )
    paths = {"intercept": plain} | ({} if with_covariates is None else {"covariates": with_covariates})
    tables = [
        Table(f"Ranks with {name}, log reads as offset", HEAD, rows_of(path)) for name, path in paths.items()
    ]
    alone = fit_rank_5(oaks, settings)
    tables.append(Table("Rank 5 with an intercept", ("program", "bound"), bounds_at_5(alone, plain)))
    least = min(float(np.diff(path.log_likelihood).min()) for path in paths.values())
    targets = [
        Target("bound at rank 5, fitted alone", alone.objective_trace_[-1], ">=", PEERS_AT_5),
        Target("bound at rank 5, on the path", at_5(plain), ">=", PEERS_AT_5),
        Target("smallest gain of the bound from rank to rank", least, ">", 0.0),
    ]
    return Outcome(tables, targets, notes_of(paths), draw(options, oaks, paths))


def fit_path(
    oaks: Dataset, ranks: Sequence[int], covariates: np.ndarray | None, settings: Mapping[str, Any]
) -> RankPath:
    """All ranks under one design; a rank that runs out of sweeps says so in the table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return PLNPCA(**settings).path(oaks.X, ranks, offset=oaks.offset, covariates=covariates)


def fit_rank_5(oaks: Dataset, settings: Mapping[str, Any]) -> PLNPCA:
    """Rank 5 from its own start."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return PLNPCA(5, **settings).fit(oaks.X, offset=oaks.offset)


def leaf_covariates(known: Mapping[str, Any]) -> np.ndarray:
    """Tree and orientation as indicators, distances of the leaf standardised, shape (116, 6)."""
    columns = []
    for name in ("tree", "orientation"):
        levels = np.unique(known[name])
        columns += [(known[name] == level).astype(float) for level in levels[1:]]
    for name in ("distTObase", "distTOtrunk", "distTOground"):
        values = np.asarray(known[name], dtype=float)
        columns.append((values - values.mean()) / values.std())
    return np.column_stack(columns)


def rows_of(path: RankPath) -> list[tuple[Any, ...]]:
    """Lines of a path's table; bounds with two decimals."""
    numbers = zip(
        path.ranks, path.n_parameters, path.log_likelihood, path.bic, path.icl, path.aic, strict=True
    )
    return [
        (
            int(q),
            int(count),
            *(f"{value:.2f}" for value in values),
            round(float(model.pseudo_r2_), 4),
            model.n_iter_,
            model.converged_,
        )
        for (q, count, *values), model in zip(numbers, path.models, strict=True)
    ]


def at_5(path: RankPath) -> float:
    """The bound of a path at rank 5."""
    return float(path.log_likelihood[path.ranks == 5][0])


def bounds_at_5(alone: PLNPCA, path: RankPath) -> list[tuple[str, str]]:
    """Ours beside the best of other programs."""
    return [
        ("PLNPCA, from its own start", f"{alone.objective_trace_[-1]:.2f}"),
        ("PLNPCA, on the path", f"{at_5(path):.2f}"),
        ("best of PLNmodels and pyPLNmodels", f"{PEERS_AT_5:.2f}"),
    ]


def notes_of(paths: Mapping[str, RankPath]) -> list[str]:
    """Which rank each criterion picks, and whether that is only the end of the range."""
    notes = []
    for name, path in paths.items():
        picked = {key: path.select_rank(key) for key in ("bic", "icl", "aic")}
        text = ", ".join(f"{key.upper()} rank {rank}" for key, rank in picked.items())
        falling = [key.upper() for key, rank in picked.items() if rank == path.ranks[-1]]
        more = f" {', '.join(falling)} fall to the end of the range." if falling else ""
        notes.append(f"{name}: lowest are {text} of {path.ranks[0]} to {path.ranks[-1]}.{more}")
    return notes


def draw(options: Options, oaks: Dataset, paths: Mapping[str, RankPath]) -> list[str]:
    """Criteria over ranks; the leaves and the taxa in the plane of the first two components."""
    path = options.picture("plnpca_oaks.png")
    if path is None:
        return []
    _draw(path, oaks, paths)
    return [path.name]


def _draw(path: Path, oaks: Dataset, paths: Mapping[str, RankPath]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.5, 9.5), layout="constrained")
    panels = figure.subplots(2, 2)
    styles = {"bic": ("BIC", "#0072B2"), "icl": ("ICL", "#D55E00"), "aic": ("AIC", "#009E73")}
    for ax, (name, fits) in zip(panels[0], paths.items(), strict=False):
        for key, (label, color) in styles.items():
            values = getattr(fits, key)
            ax.plot(fits.ranks, values, "o-", ms=4, color=color, label=label)
            ax.plot(fits.select_rank(key), values.min(), "o", ms=9, mfc="none", color=color)
        # The first ranks differ by 1e5, the last ones by 1e3: both are to be seen.
        ax.set_yscale("log")
        ax.set(title=f"with {name}", xlabel="rank", ylabel="criterion, lower is better")
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False)
    for ax in panels[0][len(paths) :]:
        ax.set_axis_off()
    intercept = paths["intercept"]
    model = intercept.models[int(np.flatnonzero(intercept.ranks == 5)[0])]
    scores, std = model.transform(oaks.X, offset=oaks.offset, return_std=True)
    plot_scores(model, scores, std, color=list(oaks.covariates["tree"]), ax=panels[1][0])
    panels[1][0].set_title("leaves, rank 5 with intercept; 95 % posterior ellipses")
    plot_correlation_circle(model, feature_names=oaks.feature_names, ax=panels[1][1])
    panels[1][1].set_title("taxa, same model")
    save_figure(panels[1][1], path)


if __name__ == "__main__":
    raise SystemExit(run_module(__name__))

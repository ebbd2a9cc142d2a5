"""Simple exponential-family PCA, figure 4: modes, variational posterior and sampling on noisy bits.

Li and Tao (2013), section V-A: 3, 4 and 5 prototypes of 16 bits drawn at random, 40 copies each with 10 % of the bits
flipped, 10 % of the cells hidden, 10 tables each. Models without intercept, whose right answer is the number of
prototypes. map has the sample weight nu = 35 / n, in the middle of the range that the paper finds good.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import expit

from anypca import SePCA
from anypca.datasets import make_prototype_bits
from experiments._cells import Cells, tally
from experiments._common import Options, Outcome, Table, Target, fit_quietly, run_module
from experiments._held_out import Masked, mask

PROTOTYPES = (3, 4, 5)
MAX_COMPONENTS = 15
#: nu times the number of rows.
WEIGHT = 35.0
METHODS = ("map", "vb", "hmc")
#: Short chains: the dimension and the mean predictor need few draws.
CHAINS = {"n_draws": 200, "n_tune": 100, "n_chains": 2}
COLORS = {"map": "#0072B2", "vb": "#D55E00", "hmc": "#009E73"}

Answers = Mapping[tuple[str, int], list[list[float]]]


def run(options: Options) -> Outcome:
    """All methods on the same tables."""
    cells = Cells("sepca_inference", options)
    counts = PROTOTYPES[:1] if options.quick else PROTOTYPES
    methods = METHODS[:2] if options.quick else METHODS
    n_runs = 3 if options.quick else 10
    found = {
        (method, count): cells.get(fit, (method, count), n_runs) for count in counts for method in methods
    }
    rows = [(count, method, *_cells(found[method, count], count)) for count in counts for method in methods]
    head = (
        "prototypes",
        "method",
        "q x tables",
        "% right",
        "L_miss",
        "L_miss, averaged",
        "iterations",
        "seconds",
    )
    table = Table(f"{n_runs} tables each; L_miss is the mean log-likelihood of a hidden cell", head, rows)
    return Outcome(
        [table],
        _targets(found, counts, methods, quick=options.quick),
        _NOTES,
        _draw(options, found, counts, methods),
    )


_NOTES = [
    "L_miss is that of the predictor at its mode or mean, as in the paper; averaged: the logarithm of the mean "
    "likelihood over the posterior of the predictor, which a mode does not have.",
    "Iterations: sweeps for map, those of the final fit for vb, rounds of chains for hmc (the last is the long run). "
    f"The chains here are short: {CHAINS['n_chains']} of {CHAINS['n_draws']} draws after {CHAINS['n_tune']} of tuning.",
]


def fit(method: str, n_prototypes: int, seed: int) -> list[float]:
    """Dimension, L_miss, L_miss averaged over the posterior, iterations and seconds of one method on one table."""
    rng = np.random.default_rng([seed, n_prototypes, 4])
    masked = mask(make_prototype_bits(n_prototypes, random_state=rng).X, seed)
    special: dict[str, Any] = {"map": {"nu": WEIGHT / len(masked.X)}, "vb": {}, "hmc": CHAINS}[method]
    model = SePCA(
        MAX_COMPONENTS, family="bernoulli", inference=method, fit_intercept=False, n_jobs=1, **special
    )
    start = time.perf_counter()
    # Chains this short may not agree to the last digit; the dimension is what is asked for.
    fit_quietly(model, masked.X)
    seconds = time.perf_counter() - start
    averaged = _averaged(model, masked)
    return [int(model.n_components_), masked.l_miss(model), averaged, int(model.n_iter_), seconds]


def _averaged(model: SePCA, masked: Masked) -> float:
    """Mean over hidden bits of the log of their expected probability; NaN for a mode."""
    if model.inference == "map":
        return float("nan")
    if model.inference == "hmc":
        eta = masked.draws(model)
        weights = np.full(len(eta), 1.0 / len(eta))
    else:
        mean, std = model.entry_posterior(masked.X, masked.rows, masked.columns)
        nodes, weights = np.polynomial.hermite_e.hermegauss(31)
        eta, weights = mean + np.outer(nodes, std), weights / weights.sum()
    return float(np.log(weights @ expit((2.0 * masked.values - 1.0) * eta)).mean())


def _cells(answers: Sequence[Sequence[float]], truth: int) -> tuple[object, ...]:
    ranks, miss, averaged, sweeps, seconds = np.transpose(answers)
    right = 100.0 * float(np.mean(ranks == truth))
    return (
        tally(ranks),
        right,
        float(miss.mean()),
        "" if np.isnan(averaged).any() else float(averaged.mean()),
        float(sweeps.mean()),
        float(np.median(seconds)),
    )


def _targets(found: Answers, counts: Sequence[int], methods: Sequence[str], *, quick: bool) -> list[Target]:
    targets = []
    for count in counts:
        by_vb = np.array([one[0] for one in found["vb", count]])
        if "hmc" in methods:
            agree = float(np.mean(by_vb == [one[0] for one in found["hmc", count]]))
            targets.append(Target(f"hmc agrees with vb, {count} prototypes, share", agree, ">=", 0.8))
    least = 0.5 if quick else 0.8
    right = float(np.mean([one[0] == 3 for one in found["map", 3]]))
    targets.append(Target("map at nu n = 35 finds 3, share", right, ">=", least))
    return targets


def _draw(options: Options, found: Answers, counts: Sequence[int], methods: Sequence[str]) -> list[str]:
    path = options.picture("sepca_inference.png")
    if path is None:
        return []
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    from anypca.plotting import save_figure

    axes = Figure(figsize=(9.5, 3.2), layout="constrained").subplots(1, 3)
    labels = ("L_miss per hidden cell", "dimension", "seconds")
    for ax, column, label in zip(axes, (1, 0, 4), labels, strict=True):
        for i, method in enumerate(methods):
            places = np.arange(len(counts)) + 0.25 * (i - (len(methods) - 1) / 2)
            values = [[one[column] for one in found[method, count]] for count in counts]
            boxes = ax.boxplot(
                values,
                positions=places,
                widths=0.2,
                patch_artist=True,
                manage_ticks=False,
                medianprops={"color": "0.1"},
            )
            for box in boxes["boxes"]:
                box.set(facecolor=COLORS[method], alpha=0.6)
        ax.set_xticks(range(len(counts)), [str(count) for count in counts])
        ax.set_xlabel("prototypes")
        ax.set_ylabel(label)
        ax.spines[["top", "right"]].set_visible(False)
    axes[2].set_yscale("log")
    axes[1].plot(range(len(counts)), counts, color="0.3", linestyle=":", zorder=0)
    axes[1].yaxis.set_major_locator(MaxNLocator(integer=True))
    for method in methods:
        axes[0].plot([], [], color=COLORS[method], linewidth=6, alpha=0.6, label=method)
    axes[0].legend(frameon=False, fontsize=8)
    save_figure(axes[0], path)
    return [path.name]


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    return run_module(__name__, argv)


if __name__ == "__main__":
    raise SystemExit(main())

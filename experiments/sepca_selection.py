"""Simple exponential-family PCA, figure 6: criteria for the number of components on noisy bits.

Li and Tao (2013), section V-C: 3 prototypes of 16 bits, 40 copies each with 10 % of the bits flipped, 10 % of the cells
missing, q = 1 to 10. Models without intercept, whose right answer is 3. AIC, BIC, MDL and criteria with the scores
integrated out come from exponential-family PCA; the hidden cells judge all ranks. ARD is the paper's: joint modes over
a range of sample weights, a dimension being scored by the largest L_joint among the fits that have it; and ours, the
same fits scored by Laplace's evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from anypca import EPCA, ModeOptions, SePCA
from anypca.datasets import make_prototype_bits
from anypca.selection import EntryKFold, select_rank
from experiments._cells import tally
from experiments._common import Options, Outcome, Table, Target, fit_quietly, repeat, run_module
from experiments._held_out import Choice, choose, mask, mean_curve

TRUTH = 3
RANKS = tuple(range(1, 11))
QUICK_RANKS = tuple(range(1, 6))
CRITERIA = ("aic", "bic", "mdl", "marginal_bic", "icl")
#: nu times the number of rows, for ARD: from where nothing is left to twice the weight at which a cell counts once.
WEIGHTS = (15, 20, 30, 40, 60, 90, 120, 180, 240)
QUICK_WEIGHTS = (35, 120)


class Found(NamedTuple):
    """What is known of one table."""

    choice: Choice
    values: dict[str, list[float]]
    """Every criterion at every rank, lower is better."""


def select_once(seed: int, quick: bool) -> Found:
    """All criteria on one table of bits."""
    drawn = make_prototype_bits(TRUTH, random_state=np.random.default_rng([seed, 6]))
    masked = mask(drawn.X, seed)
    ranks = QUICK_RANKS if quick else RANKS
    choice = choose(masked, "bernoulli", ranks, max(ranks), fit_intercept=False)
    plain = EPCA(family="bernoulli", ridge=1.0, fit_intercept=False, n_jobs=1)
    fits = select_rank(plain, masked.X, ranks=ranks)
    values = {name: [row[name] for row in fits.rows] for name in CRITERIA}
    if not quick:
        held = select_rank(plain, masked.X, ranks=ranks, criterion="held_out", cv=EntryKFold(n_splits=10))
        values["held_out"] = [row["held_out"] for row in held.rows]
    return Found(choice, values | score_by_weight(masked.X, ranks, QUICK_WEIGHTS if quick else WEIGHTS))


def score_by_weight(X: np.ndarray, ranks: Sequence[int], weights: Sequence[float]) -> dict[str, list[float]]:
    """Minus the largest L_joint, and minus the largest evidence, of the modes of each dimension; inf for none."""
    options: dict[str, Any] = {"family": "bernoulli", "fit_intercept": False, "n_jobs": 1}
    fits = [
        fit_quietly(SePCA(max(ranks), inference=ModeOptions(nu=weight / len(X)), **options), X)
        for weight in weights
    ]

    def best(name: str, rank: int) -> float:
        found = [-float(getattr(fit, name)) for fit in fits if fit.n_components_ == rank]
        return min(found, default=float("inf"))

    names = {"ARD, L_joint": "joint_log_likelihood_", "ARD, evidence": "evidence_"}
    return {label: [best(name, rank) for rank in ranks] for label, name in names.items()}


def run(options: Options) -> Outcome:
    """First and second choice of every criterion, and L_miss of all ranks."""
    n_runs = 2 if options.quick else 20
    ranks = QUICK_RANKS if options.quick else RANKS
    found: list[Found] = repeat(
        select_once, [(options.seed + i, options.quick) for i in range(n_runs)], options
    )
    chosen = np.array([one.choice.chosen for one in found])
    rows = [("vb", tally(chosen), "", 100.0 * np.mean(chosen == TRUTH))]
    for name in found[0].values:
        order = np.array([np.argsort(one.values[name], kind="stable") for one in found])
        first, second = (np.array(ranks)[order[:, i]] for i in range(2))
        rows.append((name, tally(first), tally(second), 100.0 * np.mean(first == TRUTH)))
    curve = mean_curve(one.choice for one in found)
    tables = [
        Table(
            f"Choices in {n_runs} tables, truth {TRUTH}", ("criterion", "first", "second", "% right"), rows
        ),
        Table("L_miss of EPCA per hidden cell", ("q", "L_miss"), [(q, value) for q, value in curve.items()]),
    ]
    targets = [
        Target("vb chooses 3, share", float(np.mean(chosen == TRUTH)), ">=", 0.95),
        Target("best rank of the hidden cells", max(curve, key=curve.__getitem__), "==", TRUTH),
    ]
    note = (
        "The paper's figure: AIC, BIC and MDL of exponential-family PCA miss 3, its own model (score: joint "
        "likelihood over sample weights) finds it. Ours contradicts it twice: AIC is mostly right here, and the "
        "paper's own score takes the most components that the range of weights gives, since it grows with the weight. "
        "The figure's rows BAY and IBP are in `sepca_bayes`."
    )
    return Outcome(tables, targets, [note], _draw(options, found, curve))


def _draw(options: Options, found: Sequence[Found], curve: dict[int, float]) -> list[str]:
    path = options.picture("sepca_selection.png")
    if path is None:
        return []
    from matplotlib.figure import Figure

    from anypca.plotting import save_figure

    ranks = list(curve)
    axes = Figure(figsize=(9.5, 3.6), layout="constrained").subplots(1, 2)
    axes[0].plot(ranks, list(curve.values()), color="#0072B2", marker="o", markersize=3.5)
    axes[0].set_ylabel("L_miss per hidden cell")
    names = ["vb", *found[0].values]
    shares = np.zeros((len(names), len(ranks)))
    for one in found:
        picks = [one.choice.chosen, *(ranks[int(np.argmin(one.values[name]))] for name in names[1:])]
        for i, pick in enumerate(picks):
            if pick in ranks:
                shares[i, ranks.index(pick)] += 1.0 / len(found)
    image = axes[1].imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    axes[1].set_yticks(range(len(names)), names)
    axes[1].set_xticks(range(len(ranks)), [str(rank) for rank in ranks])
    axes[1].figure.colorbar(image, ax=axes[1], label="share of tables that choose it")
    for ax in axes:
        ax.set_xlabel("number of components")
        ax.spines[["top", "right"]].set_visible(False)
    save_figure(axes[0], path)
    return [path.name]


if __name__ == "__main__":
    raise SystemExit(run_module(__name__))

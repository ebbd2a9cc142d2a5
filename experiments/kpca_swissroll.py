"""Kernel PCA where it works and where it fails: two rings, and a Swiss roll.

The roll is a rectangle wound up in space. A method that unrolls it keeps distances along the surface; kernel PCA only
knows that near points are alike, and points on neighbouring turns are near through the gap. Isomap, which follows the
surface, shows that the rows do hold the answer. The rings differ in their distance from the centre, which no linear
score can tell, and one kernel component can.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import pdist
from scipy.stats import spearmanr
from sklearn.datasets import make_circles
from sklearn.decomposition import PCA
from sklearn.manifold import Isomap

from anypca import KernelPCA
from anypca.datasets import SwissRoll, make_swiss_roll
from experiments._common import Options, Outcome, Table, Target, run_module

#: Multiples of the median rule's gamma, from a kernel wider than the roll to one narrower than its gaps.
WIDTHS = (0.01, 0.1, 1.0, 10.0, 100.0)
_PAIRS_OF = 500


def kept_distances(scores: np.ndarray, flat: np.ndarray) -> float:
    """Rank correlation of the distances between scores with those along the surface."""
    return float(spearmanr(pdist(scores[:_PAIRS_OF]), pdist(flat[:_PAIRS_OF])).statistic)


def best_split(score: np.ndarray, ring: np.ndarray) -> float:
    """Share of the points on the right side of the best cut of a score."""
    order = np.argsort(score)
    inside = np.cumsum(ring[order] == 1)
    correct = inside + np.cumsum((ring[order] == 0)[::-1])[::-1] - (ring[order] == 0)
    return float(np.maximum(correct, len(ring) - correct).max() / len(ring))


def unroll(roll: SwissRoll) -> dict[str, np.ndarray]:
    """Two scores of every point, by each method."""
    median = KernelPCA(2).fit(roll.X).gamma_
    found = {"PCA": PCA(2).fit_transform(roll.X)}
    for width in WIDTHS:
        name = f"kernel PCA, rbf, gamma = {width:g} x median rule"
        found[name] = KernelPCA(2, gamma=width * median).fit_transform(roll.X)
    found["kernel PCA, polynomial of degree 3"] = KernelPCA(2, kernel="polynomial").fit_transform(roll.X)
    found["kernel PCA, laplacian, median rule"] = KernelPCA(2, kernel="laplacian").fit_transform(roll.X)
    found["Isomap, 10 neighbours"] = Isomap(n_components=2, n_neighbors=10).fit_transform(roll.X)
    return found


def run(options: Options) -> Outcome:
    """Distances that each method keeps on the roll, and the cut between the rings."""
    roll = make_swiss_roll(1000 if options.quick else 2000, random_state=options.seed)
    scores = unroll(roll)
    kept = {name: kept_distances(values, roll.flat) for name, values in scores.items()}
    rings, ring = make_circles(400, factor=0.3, noise=0.05, random_state=options.seed)
    # A kernel as wide as the inner ring.
    ring_scores = {
        "PCA": PCA(2).fit_transform(rings),
        "kernel PCA": KernelPCA(2, gamma=5.0).fit_transform(rings),
    }
    split = {name: best_split(values[:, 0], ring) for name, values in ring_scores.items()}
    kernel_best = max(value for name, value in kept.items() if name.startswith("kernel"))
    targets = [
        Target("roll: largest rank correlation of any kernel PCA", kernel_best, "<", 0.5),
        Target("roll: rank correlation of Isomap", kept["Isomap, 10 neighbours"], ">=", 0.95),
        Target("rings: share right by one kernel component", split["kernel PCA"], ">=", 0.99),
        Target("rings: share right by one linear component", split["PCA"], "<", 0.8),
    ]
    tables = [
        Table("Swiss roll: distances kept (rank correlation)", ("method", "kept"), list(kept.items())),
        Table("Two rings: right side of the best cut", ("first score of", "share"), list(split.items())),
    ]
    notes = [
        "A kernel wide enough to link the whole roll is nearly linear, one narrow enough to keep the turns apart "
        "makes all far points equally far: no width unrolls it."
    ]
    return Outcome(
        tables, targets, notes, _draw(options, roll, scores, kept, (rings, ring, ring_scores, split))
    )


def _draw(
    options: Options,
    roll: SwissRoll,
    scores: dict[str, np.ndarray],
    kept: dict[str, float],
    rings: tuple[np.ndarray, np.ndarray, dict[str, np.ndarray], dict[str, float]],
) -> list[str]:
    path = options.picture("kpca_swissroll.png")
    if path is None:
        return []
    from matplotlib.figure import Figure

    from anypca.plotting import save_figure

    best = max((name for name in scores if "rbf" in name), key=kept.__getitem__)
    figure = Figure(figsize=(9.0, 6.0), layout="constrained")
    axes = figure.subplots(2, 3)
    panels = [
        ("the roll, seen from its end", roll.X[:, [0, 2]]),
        (f"kernel PCA (rbf): {kept[best]:.2f} kept", scores[best]),
        (f"Isomap: {kept['Isomap, 10 neighbours']:.2f} kept", scores["Isomap, 10 neighbours"]),
    ]
    for ax, (title, points) in zip(axes[0], panels, strict=True):
        ax.scatter(*points.T, c=roll.flat[:, 0], cmap="viridis", s=5)
        ax.set_title(title, fontsize=10)
    table, ring, ring_scores, split = rings
    titles = {name: f"{name}: {100 * split[name]:.0f} % told by score 1" for name in ring_scores}
    lower = [("two rings", table), *((titles[name], values) for name, values in ring_scores.items())]
    for ax, (title, points) in zip(axes[1], lower, strict=True):
        for value, color in ((0, "#0072B2"), (1, "#D55E00")):
            ax.scatter(*points[ring == value].T, color=color, s=5)
        ax.set_title(title, fontsize=10)
    for ax in axes.ravel():
        ax.set_xticks([])
        ax.set_yticks([])
    for ax in (*axes[0, 1:], *axes[1, 1:]):
        ax.set_xlabel("score 1", fontsize=9)
        ax.set_ylabel("score 2", fontsize=9)
    save_figure(axes[0, 0], path)
    return [path.name]


if __name__ == "__main__":
    raise SystemExit(run_module(__name__))

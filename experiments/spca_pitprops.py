"""Sparse PCA of the pit props: six sparse components of 13 measurements.

Zou, Hastie and Tibshirani (2006), section 5.1. The reference is their own program, R's ``elasticnet::spca``, on the
same correlation matrix with the penalties 0.06, 0.16, 0.1, 0.5, 0.5, 0.5 and ridge 1e-6, run until nothing moved.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from anypca import SPCA
from anypca.datasets import fetch_reference, load_pitprops
from experiments._common import Options, Outcome, Table, Target, run_module

COUNTS = [7, 4, 4, 1, 1, 1]
#: Adjusted variances in percent.
VARIANCES = [28.0, 14.0, 13.3, 7.4, 6.8, 6.2]


def run(options: Options) -> Outcome:
    """Fit by penalties and by numbers of loadings, and compare with the reference."""
    data = load_pitprops()
    stored = fetch_reference("pitprops")
    penalties, reference = stored["spca_para"], stored["spca_loadings_elasticnet_tight"].T
    model = SPCA(6, penalty=penalties, input="gram").fit(data.X)
    counted = SPCA(n_nonzero=COUNTS, input="gram").fit(data.X)
    plain = SPCA(6, input="gram").fit(data.X)
    signs = np.sign(np.sum(model.components_ * reference, axis=1))
    distance = float(np.abs(model.components_ * signs[:, None] - reference).max())
    ours = 100 * model.explained_variance_ratio_
    targets = [
        Target("largest difference of a loading from the reference", distance, "<=", 1e-4),
        Target("largest difference of an adjusted variance, points", _gap(ours, VARIANCES), "<=", 0.1),
        Target("components with the right number of loadings, by penalty", _right(model), "==", 6),
        Target("components with the right number of loadings, by number", _right(counted), "==", 6),
    ]
    proofs, seconds = _sparse_eigenvectors(data.X)
    targets += [
        Target("sparse eigenvectors proved the best, of 13", sum(row[4] for row in proofs), "==", 13),
        Target("largest relative distance from the best of all supports", _largest_gap(proofs), "<=", 1e-10),
        Target("CPU seconds of the 13 searches and proofs", seconds, "<", 1.0),
    ]
    notes = [
        "Adjusted variance: what a score adds to the scores before it. The fit by numbers has penalties of its own, "
        "and so slightly different loadings.",
        f"Alternations: {model.n_iter_} by penalty, {counted.n_iter_} by number of loadings.",
    ]
    tables = [
        _loadings(model, data.feature_names),
        _variances(data.X, ours, counted, plain),
        Table(
            "Sparse eigenvectors: largest variance of one component with k loadings",
            ("k", "found", "best of all supports", "upper bound", "proved", "elastic net"),
            proofs,
        ),
    ]
    return Outcome(tables, targets, notes, _draw(options, plain, model, data.feature_names))


def fit_eigenvectors(matrix: np.ndarray, deflation: str) -> SPCA:
    """Six sparse eigenvectors with the published numbers of loadings."""
    return SPCA(n_nonzero=COUNTS, input="gram", method="eigen", deflation=deflation, n_jobs=1).fit(matrix)


def _gap(ours: np.ndarray, published: Sequence[float]) -> float:
    return float(np.abs(ours - np.array(published)).max())


def _right(model: SPCA) -> int:
    return int(np.sum(model.n_nonzero_ == COUNTS))


def _loadings(model: SPCA, names: Sequence[str]) -> Table:
    """The loadings, zeros left empty."""
    rows = [
        (name, *(f"{value:.3f}" if value else None for value in column))
        for name, column in zip(names, model.components_.T, strict=True)
    ]
    return Table("Loadings", ("variable", *(f"PC{j + 1}" for j in range(6))), rows)


def _sparse_eigenvectors(matrix: np.ndarray) -> tuple[list[tuple[float, ...]], float]:
    """For each number of loadings what was found, the best by trying all supports, and CPU seconds of the former."""
    start = time.process_time()
    numbers = range(1, len(matrix) + 1)
    models = [SPCA(1, n_nonzero=k, input="gram", method="eigen", n_jobs=1).fit(matrix) for k in numbers]
    seconds = time.process_time() - start
    rows = []
    for k, model in zip(numbers, models, strict=True):
        supports = (np.ix_(chosen, chosen) for chosen in combinations(range(len(matrix)), k))
        best = max(np.linalg.eigvalsh(matrix[place])[-1] for place in supports)
        rival = SPCA(1, n_nonzero=k, input="gram", n_jobs=1).fit(matrix).explained_variance_[0]
        proof = model.eigenvalues_[0], float(best), model.upper_bound_[0], bool(model.optimal_[0])
        rows.append((k, *proof, rival))
    return rows, seconds


def _largest_gap(rows: Sequence[tuple[float, ...]]) -> float:
    return max(abs(found - best) / best for _, found, best, *_ in rows)


def _variances(matrix: np.ndarray, ours: np.ndarray, counted: SPCA, plain: SPCA) -> Table:
    rows = [
        ("sparse, by penalty", *ours),
        ("reference", *VARIANCES),
        ("sparse, by number", *(100 * counted.explained_variance_ratio_)),
        *(
            (
                f"sparse eigenvectors, {deflation}",
                *(100 * fit_eigenvectors(matrix, deflation).explained_variance_ratio_),
            )
            for deflation in ("schur", "projection", "orthogonalised", "hotelling")
        ),
        ("principal components", *(100 * plain.explained_variance_ratio_)),
    ]
    return Table("Adjusted variance, %", ("components", *(f"PC{j + 1}" for j in range(6))), rows)


def _draw(options: Options, plain: SPCA, sparse: SPCA, names: Sequence[str]) -> list[str]:
    path = options.picture("spca_pitprops.png")
    if path is None:
        return []
    from matplotlib.figure import Figure

    from anypca.plotting import save_figure

    figure = Figure(figsize=(7.0, 4.4), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for ax, model, title in zip(axes, (plain, sparse), ("principal", "sparse"), strict=True):
        # Exact zeros are left white, so that sparse and merely small loadings look different.
        shown = np.where(model.components_.T == 0, np.nan, model.components_.T)
        picture = ax.imshow(shown, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
        share = 100 * model.explained_variance_ratio_.sum()
        ax.set_title(f"{title}: {share:.0f} % of the variance", fontsize=10)
        for (i, j), value in np.ndenumerate(model.components_.T):
            if value:
                shade = "white" if abs(value) > 0.6 else "black"
                ax.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=6, color=shade)
        ax.set_xticks(range(6), [f"PC{j + 1}" for j in range(6)])
        ax.set_xticks(np.arange(-0.5, 6), minor=True)
        ax.set_yticks(np.arange(-0.5, len(names)), minor=True)
        ax.grid(which="minor", color="#DDDDDD", linewidth=0.6)
        ax.tick_params(which="both", length=0)
    axes[0].set_yticks(range(len(names)), names)
    figure.colorbar(picture, ax=axes, label="loading", shrink=0.8)
    save_figure(axes[0], path)
    return [path.name]


if __name__ == "__main__":
    raise SystemExit(run_module(__name__))

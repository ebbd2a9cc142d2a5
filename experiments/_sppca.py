"""What the experiments on simple Poisson PCA share: the six methods of the paper, clusters and pictures of scores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import kmedoids
import numpy as np
from sklearn.decomposition import PCA
from sklearn.metrics import pairwise_distances, silhouette_score

from anypca import GPCA, SPCA, SPPCA, SSPPCA

#: Price of a loading in the published SSPPCA; the paper gives one for its letters only, this.
SPARSITY = 0.07
#: Weight of the penalty of SGPCA, as a share of the null deviance; the paper does not give its own.
SGPCA_ALPHA = 0.01


def published_methods(n_components: int, n_nonzero: Sequence[int]) -> dict[str, Any]:
    """The paper's six methods by name, not fitted.

    Parameters
    ----------
    n_components : int
        Of those that do not choose it.
    n_nonzero : sequence of int
        Loadings of the components of SPCA.

    Returns
    -------
    dict
    """
    return {
        "SPPCA": SPPCA(method="paper", n_jobs=1),
        "SSPPCA": SSPPCA(method="paper", sparsity=SPARSITY, n_jobs=1),
        "PCA": PCA(n_components),
        "SPCA": SPCA(n_components, n_nonzero=n_nonzero, n_jobs=1),
        "GPCA": GPCA(n_components, family="poisson", bound=4.0, n_jobs=1),
        "SGPCA": GPCA(n_components, family="poisson", bound=4.0, penalty="scad", alpha=SGPCA_ALPHA, n_jobs=1),
    }


def silhouette(scores: Any, n_clusters: int) -> float:
    """Average silhouette of the clusters that k-medoids finds in the scores; NaN without components.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_components)
    n_clusters : int

    Returns
    -------
    float

    Notes
    -----
    Partitioning around medoids, started by its own greedy build, with Euclidean distances: it has no random part.
    """
    if scores.shape[1] == 0:
        return float("nan")
    distances = pairwise_distances(scores)
    found = kmedoids.fasterpam(distances, n_clusters, init="build", n_cpu=1)
    if len(np.unique(found.labels)) < 2:
        return float("nan")
    return float(silhouette_score(distances, found.labels, metric="precomputed"))


def _add_legend(place: Any, axes: Sequence[Any], labels: Sequence[str], **where: Any) -> None:
    """One legend for all panels: the classes in the colours of the first panel that shows them all."""
    names = list(dict.fromkeys(sorted(labels)))
    shown = (dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True)) for ax in axes)
    handles = next((found for found in shown if set(names) <= set(found)), {})
    if handles:
        place.legend([handles[n] for n in names], names, frameon=False, **where)


def draw_scores(
    panels: Sequence[tuple[str, Any, Any]], labels: Sequence[str], path: Path, *, columns: int = 3
) -> None:
    """Scores of several models in the plane of their first two components, coloured by class.

    Parameters
    ----------
    panels : sequence of (title, model, scores)
    labels : sequence of str
        The class of each row.
    path : Path
    columns : int, default=3
    """
    from matplotlib.figure import Figure

    from anypca.plotting import plot_scores, save_figure

    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(3.8 * columns, 3.4 * rows))
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax, (title, model, scores) in zip(axes, panels, strict=False):
        ax.set_title(title)
        if scores.shape[1] == 0:
            ax.text(0.5, 0.5, "no components", ha="center", va="center", transform=ax.transAxes)
            ax.set_axis_off()
            continue
        plot_scores(model, scores, color=labels, ax=ax)
        if ax.get_legend() is not None:
            ax.get_legend().remove()
    for ax in axes[len(panels) :]:
        ax.set_axis_off()
    if len(panels) < len(axes):
        _add_legend(
            axes[len(panels)], axes[: len(panels)], labels, loc="center", markerscale=2.0, fontsize=12
        )
    else:
        _add_legend(figure, axes, labels, loc="outside lower center", ncols=len(set(labels)))
    # Only now: every panel settles the layout of the whole figure, which would take longer than the fits.
    figure.set_layout_engine("constrained")
    save_figure(axes[0], path)

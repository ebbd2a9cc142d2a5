"""Pictures of many clouds of points in one grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anypca.plotting import save_figure
from experiments._common import Options

# Panels in a row: ten models in two rows are read at a glance.
_COLUMNS = 5


def draw_planes(options: Options, name: str, planes: Mapping[str, np.ndarray]) -> list[str]:
    """Two scores of all rows by each model, as densities, one panel each.

    Parameters
    ----------
    options : Options
    name : str
        Of the file.
    planes : dict of str to ndarray of shape (n_samples, 2)

    Returns
    -------
    list of str
        Names of the files written.
    """
    path = options.picture(name)
    if path is None:
        return []
    from matplotlib.figure import Figure

    n_rows = -(-len(planes) // _COLUMNS)
    figure = Figure(figsize=(3.0 * _COLUMNS, 3.1 * n_rows), layout="constrained")
    axes = figure.subplots(n_rows, _COLUMNS, squeeze=False)
    for ax, (title, points) in zip(axes.flat, planes.items(), strict=False):
        _draw_density(ax, points)
        is_dead = (points.std(axis=0) == 0).any()
        ax.set_title(f"{title} (a latent is dead)" if is_dead else title, fontsize=10)
    for ax in axes.flat[len(planes) :]:
        ax.set_visible(False)
    figure.supxlabel("first score", fontsize=10)
    figure.supylabel("second score", fontsize=10)
    save_figure(axes[0, 0], path)
    return [path.name]


def _draw_density(ax: Any, points: np.ndarray) -> None:
    """Hexagons coloured by how many points they hold, over the middle of the cloud."""
    low, high = np.quantile(points, [0.002, 0.998], axis=0)
    margin = 0.06 * np.where(high > low, high - low, 1.0)
    extent = [low[0] - margin[0], high[0] + margin[0], low[1] - margin[1], high[1] + margin[1]]
    ax.hexbin(*points.T, gridsize=34, extent=extent, cmap="cividis", mincnt=1, bins="log", linewidths=0.1)
    ax.set(xlim=extent[:2], ylim=extent[2:])
    ax.tick_params(labelsize=7)
    ax.spines[["top", "right"]].set_visible(False)


def draw_pairs(
    options: Options, name: str, X: np.ndarray, names: Sequence[str], *, size: float = 0.95
) -> list[str]:
    """All pairs of columns: densities below the diagonal, histograms on it, correlations above.

    Parameters
    ----------
    options : Options
    name : str
        Of the file.
    X : ndarray of shape (n_samples, n_features)
    names : sequence of str
    size : float, default=0.95
        Of a panel, in inches.

    Returns
    -------
    list of str
        Names of the files written.
    """
    path = options.picture(name)
    if path is None:
        return []
    from matplotlib.figure import Figure

    p, fonts = X.shape[1], size / 0.95
    figure = Figure(figsize=(size * p, size * p), layout="constrained")
    axes = figure.subplots(p, p)
    labels = [each.removeprefix("log_").replace("_", "\n") for each in names]
    for i in range(p):
        for j in range(p):
            _draw_pair(axes[i, j], X[:, j], X[:, i], i, j, 8 * fonts)
        axes[i, 0].set_ylabel(labels[i], fontsize=7 * fonts, rotation=0, ha="right", va="center")
        axes[-1, i].set_xlabel(labels[i], fontsize=7 * fonts)
    save_figure(axes[0, 0], path)
    return [path.name]


def _draw_pair(ax: Any, x: np.ndarray, y: np.ndarray, row: int, column: int, font: float) -> None:
    ax.set(xticks=[], yticks=[])
    if row == column:
        ax.hist(x, bins=30, color="#4D4D4D")
    elif row > column:
        ax.hexbin(x, y, gridsize=22, cmap="cividis", mincnt=1, bins="log", linewidths=0.1)
    else:
        r = float(np.corrcoef(x, y)[0, 1])
        ax.text(0.5, 0.5, f"{r:.2f}", ha="center", va="center", fontsize=font, transform=ax.transAxes)
        ax.set_facecolor((0.0, 0.45, 0.7, 0.5 * abs(r)) if r > 0 else (0.84, 0.37, 0.0, 0.5 * abs(r)))

"""Columns in the correlation circle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anypca._typing import Floats, Ints
from anypca._words import shorten
from anypca.plotting._check import (
    check_components,
    check_names,
    check_plane,
    check_scores,
    count_components,
    name_plane,
)
from anypca.plotting._labels import along, place_labels
from anypca.plotting._reading import correlate
from anypca.plotting._style import VERMILLION, fitted, new_axes

#: Above this many columns the arrows of those without a name would fill the circle: they become points.
_MOST_ARROWS = 60


def plot_correlation_circle(
    model: Any,
    scores: Any = None,
    X: Any = None,
    *,
    axes: tuple[int, int] = (1, 2),
    feature_names: Sequence[str] | None = None,
    top: int = 12,
    ax: Any = None,
) -> Any:
    """Correlations of the columns with the scores of two components, inside the unit circle.

    Parameters
    ----------
    model : fitted estimator
        With ``components_`` (n_components, n_features) unless X is given, and with ``explained_variance_``
        (n_components,) unless scores are.
    scores : array-like of shape (n_samples, n_components), optional
        As given by ``model.transform``.
    X : table of shape (n_samples, n_features), optional
        The rows of the scores; NaN marks missing entries.
    axes : tuple of two ints, default=(1, 2)
        Components, counted from 1.
    feature_names : sequence of str, optional
        Names of the columns; ``model.feature_names_in_`` if not given, else x0, x1, ...
    top : int, default=12
        How many columns are named: those with the longest arrows, first among the half of the columns that vary most.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new Axes on a new figure if not given.

    Returns
    -------
    ax : matplotlib.axes.Axes

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    AttributeError
        If the model lacks what the picture is made of.
    ValueError
        If there are fewer than two components, or arguments do not fit the model or each other.

    Notes
    -----
    What is correlated with the scores depends on what is given.

    - Scores and X: the observed columns. Works for every model, also for one without loadings.
    - Scores: the fitted predictors of the columns (log rates of counts, without offset and covariates), hence an arrow
      that reaches the circle belongs to a column whose predictor lies in the plane of the two components.
    - Neither: the same with scores taken as uncorrelated, of the variances ``explained_variance_``.

    With more than 60 columns those without a name are drawn as points.
    """
    correlations, sizes = _correlations(model, scores, X)
    plane = check_plane(axes, len(correlations), needs_two=True)
    points = correlations[plane].T
    names = check_names(model, feature_names, len(points))
    ax = new_axes(6.8, 5.8) if ax is None else ax
    _draw_circle(ax)
    name_plane(ax, model, plane)
    chosen = _strongest(points, sizes, top)
    _draw_columns(ax, points, chosen)
    # Labels are placed in pixels: the layout must be settled first.
    ax.figure.draw_without_rendering()
    avoid = along(ax, np.zeros_like(points[chosen]), points[chosen])
    texts = [shorten(names[j], most=20) for j in chosen]
    place_labels(ax, points[chosen], texts, color=VERMILLION, avoid=avoid)
    return ax


def _correlations(model: Any, scores: Any, X: Any) -> tuple[Floats, Floats]:
    """Correlations (n_components, n_features) of columns with scores, and standard deviations of the columns."""
    if X is not None:
        if scores is None:
            raise ValueError("correlations with X need its scores too. Pass scores=model.transform(X).")
        return correlate(X, check_scores("scores", scores, count_components(model)))
    components = check_components(model)
    if scores is not None:
        centred = check_scores("scores", scores, len(components))
        centred = centred - centred.mean(axis=0)
        covariance = centred.T @ centred / len(centred)
    else:
        remedy = "Pass scores=model.transform(X)."
        covariance = np.diag(np.asarray(fitted(model, "explained_variance_", remedy=remedy), dtype=float))
    joint = covariance @ components
    # Rounding may leave a tiny negative number where a column does not vary.
    sizes = np.sqrt(np.maximum(np.einsum("kj,kj->j", components, joint), 0.0))
    scale = np.sqrt(np.diag(covariance))[:, None] * sizes
    return np.divide(joint, scale, out=np.zeros_like(joint), where=scale > 0), sizes


def _strongest(points: Floats, sizes: Floats, top: int) -> Ints:
    """Columns to name: the longest arrows, first among the columns that vary at least as the median does."""
    # A column that hardly varies may well be perfectly correlated, and tells little.
    length = np.hypot(*points.T)
    chosen = np.lexsort((-length, sizes < np.median(sizes)))[: max(top, 0)]
    nonzero: Ints = chosen[length[chosen] > 0]
    return nonzero


def _draw_circle(ax: Any) -> None:
    from matplotlib.patches import Circle

    ax.add_patch(Circle((0.0, 0.0), 1.0, fill=False, color="0.6", linewidth=1.0))
    # Wider than high, since names are.
    ax.set(xlim=(-1.55, 1.55), ylim=(-1.25, 1.25), aspect="equal")
    ax.set_xticks(np.linspace(-1.0, 1.0, 5))
    ax.set_yticks(np.linspace(-1.0, 1.0, 5))


def _draw_columns(ax: Any, points: Floats, chosen: Ints) -> None:
    others = np.setdiff1d(np.arange(len(points)), chosen)
    style = {"angles": "xy", "scale_units": "xy", "scale": 1.0, "width": 0.0035}
    if len(points) > _MOST_ARROWS:
        many = {"s": 6, "linewidths": 0, "alpha": 0.5, "rasterized": len(points) > 2000}
        ax.scatter(*points[others].T, color="0.6", zorder=2, **many)
    elif len(others):
        ax.quiver(*np.zeros((2, len(others))), *points[others].T, color="0.75", zorder=2, **style)
    if len(chosen):
        ax.quiver(*np.zeros((2, len(chosen))), *points[chosen].T, color=VERMILLION, zorder=3, **style)

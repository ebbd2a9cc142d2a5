"""Pictures of Poisson log-normal PCA: columns in the correlation circle, rows on the map of individuals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anypca._typing import Floats, Ints
from anypca.plotting._labels import along, place_labels
from anypca.plotting._style import (
    BLUE,
    GREY,
    MARKERS,
    PALETTE,
    VERMILLION,
    explained,
    fitted,
    new_axes,
    shorten,
    tidy,
)

#: Above this many rows their names would only blacken the picture.
_MOST_ROW_NAMES = 40


def plot_correlation_circle(
    model: Any,
    *,
    axes: tuple[int, int] = (1, 2),
    feature_names: Sequence[str] | None = None,
    top: int = 12,
    ax: Any = None,
) -> Any:
    """Correlations of the columns' log rates with the scores of two components, inside the unit circle.

    An arrow that reaches the circle belongs to a column whose fitted log rates (without offset and covariates) lie in
    the plane of the two components.

    Parameters
    ----------
    model : fitted estimator
        With ``components_`` (n_components, n_features) and ``explained_variance_`` (n_components,), such as `PLNPCA`.
    axes : tuple of two ints, default=(1, 2)
        Components, counted from 1.
    feature_names : sequence of str, optional
        Names of the columns; ``model.feature_names_in_`` if not given, else x1, x2, ...
    top : int, default=12
        How many columns are named: those with the longest arrows among the columns that vary most.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new Axes on a new figure if not given.

    Returns
    -------
    ax : matplotlib.axes.Axes

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    ValueError
        If there are fewer than two components, or ``axes`` or ``feature_names`` do not fit the model.
    """
    from matplotlib.patches import Circle

    correlations, sizes = _correlations(model)
    pair = _check_axes(axes, len(correlations))
    points = correlations[list(pair)].T
    names = _check_names(model, feature_names, len(points))
    ax = new_axes(6.0, 6.0) if ax is None else ax
    ax.add_patch(Circle((0.0, 0.0), 1.0, fill=False, color="0.6", linewidth=1.0))
    ax.set(xlim=(-1.25, 1.25), ylim=(-1.25, 1.25), aspect="equal")
    _label_axes(ax, model, pair)
    chosen = _strongest(points, sizes, top)
    others = np.setdiff1d(np.arange(len(points)), chosen)
    style = {"angles": "xy", "scale_units": "xy", "scale": 1.0, "width": 0.0035}
    for index, color, order in ((others, "0.75", 2), (chosen, VERMILLION, 3)):
        if len(index):
            ax.quiver(*np.zeros((2, len(index))), *points[index].T, color=color, zorder=order, **style)
    # Labels are placed in pixels: the layout must be settled first.
    ax.figure.draw_without_rendering()
    avoid = along(ax, np.zeros_like(points[chosen]), points[chosen])
    place_labels(
        ax, points[chosen], [shorten(names[j], most=20) for j in chosen], color=VERMILLION, avoid=avoid
    )
    return ax


def plot_individuals(
    model: Any,
    scores: Any,
    *,
    axes: tuple[int, int] = (1, 2),
    groups: Sequence[Any] | None = None,
    row_names: Sequence[str] | None = None,
    std: Any = None,
    ax: Any = None,
) -> Any:
    """Rows as points in the plane of two components.

    Parameters
    ----------
    model : fitted estimator
        Whose explained shares name the axes.
    scores : array-like of shape (n_samples, n_components)
        As given by ``model.transform``.
    axes : tuple of two ints, default=(1, 2)
        Components, counted from 1.
    groups : sequence, optional
        A group for each row, told by colour and marker and named in a legend.
    row_names : sequence of str, optional
        Names of the rows, written where there is room, for at most 40 rows.
    std : array-like of shape (n_samples, n_components), optional
        Posterior standard deviations as given by ``transform(..., return_std=True)``, drawn as bars of one standard
        deviation to either side.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new Axes on a new figure if not given.

    Returns
    -------
    ax : matplotlib.axes.Axes

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    ValueError
        If scores, names or ``axes`` do not fit the model.
    """
    n_components = len(fitted(model, "components_"))
    pair = _check_axes(axes, n_components)
    points = _check_scores("scores", scores, n_components)[:, list(pair)]
    _check_length("groups", groups, len(points))
    _check_length("row_names", row_names, len(points))
    ax = new_axes(6.8, 5.4) if ax is None else ax
    if std is not None:
        bars = _check_scores("std", std, n_components)[:, list(pair)]
        ax.errorbar(
            *points.T, xerr=bars[:, 0], yerr=bars[:, 1], fmt="none", ecolor="0.8", elinewidth=0.7, zorder=1
        )
    _draw_groups(ax, points, groups)
    _label_axes(ax, model, pair)
    ax.margins(0.08)
    if row_names is not None and len(points) <= _MOST_ROW_NAMES:
        ax.figure.draw_without_rendering()
        texts = [shorten(name, most=20) for name in row_names]
        place_labels(ax, points, texts, color=GREY, size=7.0, must=False)
    return ax


def _correlations(model: Any) -> tuple[Floats, Floats]:
    """Correlations (n_components, n_features) of columns with scores, and standard deviations of the columns."""
    components = np.asarray(fitted(model, "components_"), dtype=float)
    # Scores are uncorrelated, so that the variance of a column is the sum of its parts.
    parts = components * np.sqrt(np.asarray(fitted(model, "explained_variance_"), dtype=float))[:, None]
    sizes = np.sqrt((parts**2).sum(axis=0))
    return np.divide(parts, sizes, out=np.zeros_like(parts), where=sizes > 0), sizes


def _strongest(points: Floats, sizes: Floats, top: int) -> Ints:
    """Columns to name: the longest arrows among the columns whose log rates vary at least as the median does."""
    length = np.hypot(*points.T) * (sizes >= np.median(sizes))
    return np.argsort(-length, kind="stable")[: max(top, 0)]


def _draw_groups(ax: Any, points: Floats, groups: Sequence[Any] | None) -> None:
    size = float(np.clip(9000.0 / max(len(points), 1), 6.0, 30.0))
    style = {"s": size, "alpha": 0.8, "linewidths": 0, "zorder": 2, "rasterized": len(points) > 2000}
    if groups is None:
        ax.scatter(*points.T, color=BLUE, **style)
        return
    labels = [str(group) for group in groups]
    for i, kind in enumerate(sorted(set(labels))):
        mine = np.array([label == kind for label in labels])
        color, marker = PALETTE[i % len(PALETTE)], MARKERS[i // len(PALETTE) % len(MARKERS)]
        ax.scatter(*points[mine].T, color=color, marker=marker, label=shorten(kind), **style)
    ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)


def _label_axes(ax: Any, model: Any, pair: tuple[int, int]) -> None:
    ratio, what = explained(model)
    ax.set_xlabel(f"component {pair[0] + 1} ({100 * ratio[pair[0]]:.1f} % of {what})")
    ax.set_ylabel(f"component {pair[1] + 1} ({100 * ratio[pair[1]]:.1f} % of {what})")
    ax.axhline(0.0, color="0.85", linewidth=0.8, zorder=0)
    ax.axvline(0.0, color="0.85", linewidth=0.8, zorder=0)
    tidy(ax)


def _check_axes(axes: tuple[int, int], n_components: int) -> tuple[int, int]:
    """Positions of two components."""
    if n_components < 2:
        raise ValueError("a plane needs two components; the model has 1. Fit n_components=2 or more.")
    first, second = axes
    if first == second or not {first, second} <= set(range(1, n_components + 1)):
        raise ValueError(f"axes must be two different components from 1 to {n_components}; got {axes!r}.")
    return first - 1, second - 1


def _check_scores(what: str, values: Any, n_components: int) -> Floats:
    found: Floats = np.asarray(values, dtype=float)
    if found.ndim != 2 or found.shape[1] != n_components:
        raise ValueError(
            f"{what} must have shape (n_samples, {n_components}), a column for each component; got {found.shape}. "
            "Pass what model.transform returned."
        )
    return found


def _check_length(what: str, values: Sequence[Any] | None, length: int) -> None:
    if values is not None and len(values) != length:
        raise ValueError(f"{what} must hold {length} values, one for each row of scores; got {len(values)}.")


def _check_names(model: Any, names: Sequence[str] | None, n_features: int) -> Sequence[str]:
    names = getattr(model, "feature_names_in_", None) if names is None else names
    if names is None:
        return [f"x{j}" for j in range(1, n_features + 1)]
    if len(names) != n_features:
        raise ValueError(
            f"feature_names must hold {n_features} names, one for each column; got {len(names)}."
        )
    return names

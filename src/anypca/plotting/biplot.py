"""Columns as arrows: the strongest among the rows, or all in the correlation circle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from anypca._typing import Floats, Ints
from anypca._words import shorten
from anypca.columns.reading import check_scores, correlate, name_columns
from anypca.linalg import largest
from anypca.models._description import describe, numbers_for
from anypca.plotting._common import (
    BLACK,
    BLUE,
    VERMILLION,
    check_components,
    check_names,
    check_plane,
    check_points,
    count_components,
    fitted,
    name_plane,
    new_axes,
)
from anypca.plotting._points import Box, along, draw_points, name_rows, place_labels, spread_out

#: How far arrows reach towards the border of the point cloud, which leaves room for their names.
_REACH = 0.9
#: Arrows from point to point in the units of the axes, as thin as lines.
_ARROWS: dict[str, Any] = {"angles": "xy", "scale_units": "xy", "scale": 1.0, "width": 0.0035}
#: The power of the scores' standard deviations that goes from the scores to the loadings.
_SHARES = {"rows": 0.0, "symmetric": 0.5, "columns": 1.0}


class _Geometry(NamedTuple):
    """What is drawn, in data coordinates."""

    points: Floats
    """Rows, (n_samples, 2)."""
    tails: Floats
    """Where the arrows start, (n_arrows, 2)."""
    tips: Floats
    """Where they end, (n_arrows, 2)."""
    chosen: Ints
    """Column numbers of the arrows, strongest first, (n_arrows,)."""


def plot_biplot(
    model: Any,
    scores: Any,
    *,
    axes: tuple[int, int] = (1, 2),
    feature_names: Sequence[str] | None = None,
    row_names: Sequence[str] | None = None,
    color: Any = None,
    top: int = 10,
    scaling: str = "rows",
    ax: Any = None,
) -> Any:
    """Scores of two components as points, the strongest loadings as arrows.

    Parameters
    ----------
    model : fitted estimator
        With ``components_`` of shape (n_components, n_features).
    scores : array-like of shape (n_samples, n_components)
        As given by ``model.transform``.
    axes : tuple of two ints, default=(1, 2)
        Components, counted from 1.
    feature_names : sequence of str, optional
        Names of the columns; ``model.feature_names_in_`` if not given, else x0, x1, ...
    row_names : sequence of str, optional
        Names of the rows, written where there is room, of more than 40 rows for the 40 farthest from the middle.
    color : sequence of length n_samples, optional
        Groups (shown by colour and marker, with a legend) or numbers (shown by a colour scale); see `plot_scores`.
    top : int, default=10
        Number of columns to draw and name; columns with the longest arrows come first.
    scaling : {"rows", "symmetric", "columns"}, default="rows"
        What distances and angles represent; see Notes.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new Axes on a new figure if not given.

    Raises
    ------
    AttributeError
        If the model has no loadings.
    ValueError
        If scores or names do not fit the model, or ``scaling`` is unknown.

    See Also
    --------
    plot_scores : the rows alone.
    plot_correlation_circle : the columns alone.

    Notes
    -----
    With scores Z, their standard deviations S and loadings W, points are :math:`Z S^{-a}` and arrows
    :math:`W S^a`, so that products of points and arrows are the fitted entries whatever a. Loadings of columns that
    have units are divided by the standard deviation of their noise, so that arrows do not depend on units.

    - ``"rows"``, a = 0: points are the scores, so distances between points are distances between rows.
    - ``"columns"``, a = 1: lengths and angles of arrows show standard deviations and correlations of the fit.
    - ``"symmetric"``, a = 1/2: between the two, true to neither, with points and arrows spread alike.

    All arrows are then stretched by one common factor to fill the picture. With a single component, points are
    spread vertically for readability only and arrows lie below each other.
    """
    components = check_components(model)
    plane, points = check_points(scores, axes, len(components), color=color, row_names=row_names)
    names = check_names(model, feature_names, components.shape[1])
    strengths = describe(model).strengths
    arrows = components if strengths is None else strengths
    geometry = _lay_out(points, arrows[plane].T, top, scaling)
    ax = new_axes(6.4, _height(geometry, len(plane))) if ax is None else ax
    draw_points(ax, geometry.points, color)
    _finish_axes(ax, geometry, model, plane)
    boxes = _draw_arrows(ax, geometry, names, VERMILLION if color is None else BLACK)
    name_rows(ax, geometry.points, row_names, boxes)
    return ax


def _lay_out(points: Floats, loadings: Floats, top: int, scaling: str) -> _Geometry:
    """Points and arrows in data coordinates."""
    if scaling not in _SHARES:
        raise ValueError(f"scaling must be 'rows', 'symmetric' or 'columns'; got {scaling!r}.")
    # A score that does not vary would divide by zero; its loadings then carry no variation either.
    deviation = points.std(axis=0) ** _SHARES[scaling]
    points = points / np.where(deviation > 0, deviation, 1.0)
    loadings = loadings * deviation
    chosen = largest(np.linalg.norm(loadings, axis=1), top)
    tips = loadings[chosen] * _stretch(points, loadings[chosen])
    if loadings.shape[1] == 1:
        return _lay_out_line(points[:, 0], tips[:, 0], chosen)
    return _Geometry(points, np.zeros_like(tips), tips, chosen)


def _stretch(points: Floats, loadings: Floats) -> float:
    """The factor by which arrows fill the point cloud along one axis and leave it along none."""
    cloud, arrows = (np.abs(part).max(axis=0, initial=0.0) for part in (points, loadings))
    fits = [_REACH * c / a for c, a in zip(cloud, arrows, strict=True) if a > 0 and c > 0]
    return float(min(fits, default=1.0))


def _height(geometry: _Geometry, n_components: int) -> float:
    """Height in inches of a new figure 6.4 wide, so that the equal aspect leaves little of it empty."""
    if n_components == 1:
        return 4.4
    width, height = np.ptp(np.vstack([geometry.points, geometry.tips]), axis=0)
    return float(np.clip(0.8 + 5.6 * height / width, 3.6, 6.4)) if width > 0 else 4.4


def _lay_out_line(scores: Floats, tips: Floats, chosen: Ints) -> _Geometry:
    """One component: points scattered over the height, arrows one below the other."""
    rung = np.linspace(0.9, -0.9, len(chosen)) if len(chosen) > 1 else np.zeros(len(chosen))
    tails = np.column_stack([np.zeros(len(chosen)), rung])
    return _Geometry(spread_out(scores), tails, np.column_stack([tips, rung]), chosen)


def _finish_axes(ax: Any, geometry: _Geometry, model: Any, plane: Sequence[int]) -> None:
    """Limits with room for labels, axis names with the explained share, the origin's cross."""
    # Autoscaling stays on, since the equal aspect widens one of the limits.
    ax.update_datalim(np.vstack([geometry.points, geometry.tails, geometry.tips]))
    ax.margins(0.12)
    ax.autoscale_view()
    name_plane(ax, model, plane)
    if len(plane) > 1:
        ax.set_aspect("equal", adjustable="datalim")
    # Labels are placed in pixels: the layout and the equal aspect must be settled first.
    ax.figure.draw_without_rendering()


def _draw_arrows(ax: Any, geometry: _Geometry, names: Sequence[str], color: str) -> list[Box]:
    """Arrows with names; return the places that are taken."""
    tails, steps = geometry.tails, geometry.tips - geometry.tails
    ax.quiver(*tails.T, *steps.T, color=color, zorder=3, **_ARROWS)
    texts = [shorten(names[j], most=20) for j in geometry.chosen]
    arrows = along(ax, tails, geometry.tips)
    return place_labels(ax, geometry.tips, texts, color=color, avoid=arrows)


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
    supplementary: Any = None,
    ax: Any = None,
) -> Any:
    """Plot correlations of the columns with the scores of two components, inside the unit circle.

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
    supplementary : table of shape (n_samples, n_more) or mapping of names to columns, optional
        Numeric columns that were not used in the fit, drawn by their correlations with the scores in another colour;
        requires scores. Names of a table come from its columns.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new Axes on a new figure if not given.

    Raises
    ------
    AttributeError
        If the model lacks the required attributes.
    ValueError
        If there are fewer than two components, or arguments do not fit the model or each other.

    See Also
    --------
    plot_biplot : with the rows.
    plot_loadings : numbers as bars.

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
    boxes = place_labels(ax, points[chosen], texts, color=VERMILLION, avoid=avoid)
    if supplementary is not None:
        _draw_supplementary(ax, supplementary, scores, plane, boxes)
    return ax


def _draw_supplementary(ax: Any, given: Any, scores: Any, plane: list[int], boxes: list[Box]) -> None:
    """Draw arrows of supplementary columns, with their names."""
    if scores is None:
        raise ValueError("supplementary columns are correlated with scores. Pass scores=model.transform(X).")
    columns = given if isinstance(given, Mapping) else name_columns(given)
    table = np.column_stack([np.asarray(values, dtype=float) for values in columns.values()])
    points = correlate(table, np.asarray(scores, dtype=float))[0][plane].T
    ax.quiver(*np.zeros((2, len(points))), *points.T, color=BLUE, zorder=3, **_ARROWS)
    texts = [shorten(name, most=20) for name in columns]
    place_labels(ax, points, texts, color=BLUE, taken=boxes, avoid=along(ax, np.zeros_like(points), points))


def _correlations(model: Any, scores: Any, X: Any) -> tuple[Floats, Floats]:
    """Correlations (n_components, n_features) of columns with scores, and standard deviations of the columns."""
    if X is not None:
        if scores is None:
            raise ValueError("correlations with X need its scores too. Pass scores=model.transform(X).")
        return correlate(numbers_for(model, X), check_scores("scores", scores, count_components(model)))
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
    # A column with little variation can be perfectly correlated without being informative.
    length = np.hypot(*points.T)
    chosen = np.lexsort((-length, sizes < np.median(sizes)))[: max(top, 0)]
    return np.asarray(chosen[length[chosen] > 0])


def _draw_circle(ax: Any) -> None:
    from matplotlib.patches import Circle

    ax.add_patch(Circle((0.0, 0.0), 1.0, fill=False, color="0.6", linewidth=1.0))
    # Wider than high, since names are.
    ax.set(xlim=(-1.55, 1.55), ylim=(-1.25, 1.25), aspect="equal")
    ax.set_xticks(np.linspace(-1.0, 1.0, 5))
    ax.set_yticks(np.linspace(-1.0, 1.0, 5))


def _draw_columns(ax: Any, points: Floats, chosen: Ints) -> None:
    others = np.setdiff1d(np.arange(len(points)), chosen)
    if len(points) > _MOST_ARROWS:
        many = {"s": 6, "linewidths": 0, "alpha": 0.5, "rasterized": len(points) > 2000}
        ax.scatter(*points[others].T, color="0.6", zorder=2, **many)
    elif len(others):
        ax.quiver(*np.zeros((2, len(others))), *points[others].T, color="0.75", zorder=2, **_ARROWS)
    if len(chosen):
        ax.quiver(*np.zeros((2, len(chosen))), *points[chosen].T, color=VERMILLION, zorder=3, **_ARROWS)

"""Rows as points, the strongest columns as arrows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from anypca._typing import Floats, Ints
from anypca.plotting._labels import along, place_labels
from anypca.plotting._style import (
    BLACK,
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
#: How far arrows reach towards the border of the point cloud.
_REACH = 0.9


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
    feature_names: Sequence[str] | None = None,
    row_names: Sequence[str] | None = None,
    groups: Sequence[Any] | None = None,
    top: int = 10,
    scaling: str = "rows",
    ax: Any = None,
) -> Any:
    """Scores of the first two components as points, the strongest loadings as arrows.

    Parameters
    ----------
    model : fitted estimator
        With ``components_`` of shape (n_components, n_features).
    scores : array-like of shape (n_samples, n_components)
        As given by ``model.transform``.
    feature_names : sequence of str, optional
        Names of the columns; ``model.feature_names_in_`` if not given, else x1, x2, ...
    row_names : sequence of str, optional
        Names of the rows, written where there is room, for at most 40 rows.
    groups : sequence, optional
        A group for each row, told by colour and marker and named in a legend.
    top : int, default=10
        How many columns are drawn and named: those with the longest arrows.
    scaling : {"rows", "columns"}, default="rows"
        What the picture is true to. ``"rows"``: points are the scores, so distances between points are
        distances between rows; arrows are the loadings. ``"columns"``: scores are divided by their standard
        deviations and loadings multiplied by them, so that lengths and angles of arrows are those of the
        columns' fitted variation. In both, all arrows are stretched by one common factor to fill the picture.
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
        If scores or names do not fit the model, or ``scaling`` is unknown.

    Notes
    -----
    With a single component, points are spread vertically for readability only and arrows lie below each
    other.
    """
    components = np.asarray(fitted(model, "components_"), dtype=float)
    scores = _check_scores(scores, components)
    names = _check_names(model, feature_names, components.shape[1])
    labels = _check_length("row_names", row_names, len(scores))
    kinds = _check_length("groups", groups, len(scores))
    geometry = _lay_out(scores, components, top, scaling)
    ax = new_axes(6.4, _height(geometry, components.shape[0])) if ax is None else ax
    _draw_points(ax, geometry.points, kinds)
    _frame(ax, geometry, model, has_two=components.shape[0] > 1)
    boxes = _draw_arrows(ax, geometry, names, VERMILLION if kinds is None else BLACK)
    if labels is not None and len(labels) <= _MOST_ROW_NAMES:
        texts = [shorten(label, most=20) for label in labels]
        place_labels(ax, geometry.points, texts, color=GREY, size=7.0, taken=boxes, must=False)
    return ax


def _check_scores(values: Any, components: Floats) -> Floats:
    scores: Floats = np.asarray(values, dtype=float)
    if scores.ndim != 2 or scores.shape[1] != components.shape[0]:
        raise ValueError(
            f"scores must have shape (n_samples, {components.shape[0]}), a column for each component; "
            f"got shape {scores.shape}. Pass model.transform(X)."
        )
    return scores


def _check_length(what: str, values: Sequence[Any] | None, length: int) -> list[Any] | None:
    if values is not None and len(values) != length:
        raise ValueError(f"{what} must hold {length} values, one for each row of scores; got {len(values)}.")
    return None if values is None else list(values)


def _check_names(model: Any, names: Sequence[str] | None, n_features: int) -> Sequence[str]:
    if names is None:
        names = getattr(model, "feature_names_in_", None)
    if names is None:
        return [f"x{j}" for j in range(1, n_features + 1)]
    if len(names) != n_features:
        raise ValueError(
            f"feature_names must hold {n_features} names, one for each column; got {len(names)}."
        )
    return names


def _lay_out(scores: Floats, components: Floats, top: int, scaling: str) -> _Geometry:
    """Points and arrows in data coordinates."""
    if scaling not in {"rows", "columns"}:
        raise ValueError(f"scaling must be 'rows' or 'columns'; got {scaling!r}.")
    points, loadings = scores[:, :2], components[:2].T
    if scaling == "columns":
        # A score that does not vary would divide by zero; its loadings then carry no variation either.
        deviation = points.std(axis=0)
        points = points / np.where(deviation > 0, deviation, 1.0)
        loadings = loadings * deviation
    length = np.linalg.norm(loadings, axis=1)
    chosen = np.argsort(-length, kind="stable")[: max(top, 0)]
    chosen = chosen[length[chosen] > 0]
    tips = loadings[chosen] * _stretch(points, loadings[chosen])
    if loadings.shape[1] == 1:
        return _spread_out(points, tips, chosen)
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


def _spread_out(points: Floats, tips: Floats, chosen: Ints) -> _Geometry:
    """One component: points scattered over the height, arrows one below the other."""
    # Multiples of the golden ratio fill an interval evenly without a random generator.
    height = (np.arange(1, len(points) + 1) * 0.6180339887498949) % 1.0 * 2.0 - 1.0
    rung = np.linspace(0.9, -0.9, len(chosen)) if len(chosen) > 1 else np.zeros(len(chosen))
    tails = np.column_stack([np.zeros(len(chosen)), rung])
    return _Geometry(
        np.column_stack([points[:, 0], height]), tails, np.column_stack([tips[:, 0], rung]), chosen
    )


def _draw_points(ax: Any, points: Floats, groups: list[Any] | None) -> None:
    """One scatter for each group, smaller and paler the more points there are."""
    size = float(np.clip(9000.0 / max(len(points), 1), 5.0, 28.0))
    alpha = 0.75 if len(points) <= 300 else 0.5
    # Thousands of points as vectors make files of megabytes: they are drawn as an image there too.
    style = {"s": size, "alpha": alpha, "linewidths": 0, "rasterized": len(points) > 2000, "zorder": 1}
    if groups is None:
        ax.scatter(points[:, 0], points[:, 1], color=BLUE, **style)
        return
    for i, kind in enumerate(dict.fromkeys(sorted(groups))):
        mine = np.array([group == kind for group in groups])
        color, marker = PALETTE[i % len(PALETTE)], MARKERS[i // len(PALETTE) % len(MARKERS)]
        ax.scatter(points[mine, 0], points[mine, 1], color=color, marker=marker, label=shorten(kind), **style)
    legend = ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
    for handle in legend.legend_handles:
        handle.set_alpha(1.0)
        handle.set_sizes([24.0])


def _frame(ax: Any, geometry: _Geometry, model: Any, *, has_two: bool) -> None:
    """Limits with room for labels, axis names with the explained share, the origin's cross."""
    # Autoscaling stays on, since the equal aspect widens one of the limits.
    ax.update_datalim(np.vstack([geometry.points, geometry.tails, geometry.tips]))
    ax.margins(0.12)
    ax.autoscale_view()
    ratio, what = explained(model)
    ax.set_xlabel(f"component 1 ({100 * ratio[0]:.1f} % of {what})")
    if has_two:
        ax.set_ylabel(f"component 2 ({100 * ratio[1]:.1f} % of {what})")
        ax.set_aspect("equal", adjustable="datalim")
        ax.axhline(0.0, color="0.8", linewidth=0.8, zorder=0)
    else:
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
    ax.axvline(0.0, color="0.8", linewidth=0.8, zorder=0)
    tidy(ax)
    # Labels are placed in pixels: the layout and the equal aspect must be settled first.
    ax.figure.draw_without_rendering()


def _draw_arrows(ax: Any, geometry: _Geometry, names: Sequence[str], color: str) -> list[Any]:
    """Arrows with names; return the places that are taken."""
    tails, steps = geometry.tails, geometry.tips - geometry.tails
    style = {"angles": "xy", "scale_units": "xy", "scale": 1.0, "width": 0.0035, "zorder": 3}
    ax.quiver(*tails.T, *steps.T, color=color, **style)
    texts = [shorten(names[j], most=20) for j in geometry.chosen]
    arrows = along(ax, tails, geometry.tips)
    return place_labels(ax, geometry.tips, texts, color=color, avoid=arrows)

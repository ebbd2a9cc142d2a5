"""Rows in the plane of two components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.columns.groups import NOT_KNOWN, OTHERS, is_scale, rows_of_groups
from anypca.columns.reading import check_length, check_scores
from anypca.plotting._common import (
    BLACK,
    GREY,
    check_points,
    count_components,
    name_plane,
    new_axes,
)
from anypca.plotting._points import draw_points, golden, group_color, name_rows, spread_out

#: More ellipses than this would hide each other and the points.
_MOST_ELLIPSES = 200
#: Mean number of overlapping ellipses at the points above which the ellipses would hide the points.
_MOST_LAYERS = 3.0
#: Smallest number of ellipses to draw, however wide they are: enough to compare them.
_LEAST_ELLIPSES = 12
#: Opacity of the ellipses of groups; with more groups than this only outlines are drawn, since colours would mix.
_FILL, _FEW_GROUPS = 0.12, 4


def plot_scores(
    model: Any,
    scores: Any,
    std: Any = None,
    *,
    axes: tuple[int, int] = (1, 2),
    color: Any = None,
    row_names: Sequence[str] | None = None,
    groups: str | None = None,
    supplementary: Any = None,
    coverage: float = 0.95,
    ax: Any = None,
) -> Any:
    """Plot rows as points in the plane of two components, with posterior ellipses if available.

    Parameters
    ----------
    model : fitted estimator
        Its explained shares label the axes; any model with ``components_`` or ``n_components_``.
    scores : array-like of shape (n_samples, n_components)
        As given by ``model.transform``.
    std : array-like of shape (n_samples, n_components), optional
        Posterior standard deviations as given by ``transform(..., return_std=True)``. They are drawn as ellipses
        parallel to the axes, for at most 200 rows spread over the table, or fewer if wide ellipses would cover the
        points; the title gives the number.
    axes : tuple of two ints, default=(1, 2)
        Components, counted from 1.
    color : sequence of length n_samples, optional
        A column to colour by. Text, categories, truth values and whole numbers with at most 20 different values are
        groups, shown by colour and marker, with a legend. Other numbers are shown by a colour scale from the
        1st to the 99th percentile. To treat numbers as groups pass them as text. The name of a pandas column is shown.
    row_names : sequence of str, optional
        Names of the rows, written where there is room, of more than 40 rows for the 40 farthest from the middle.
    groups : {"rows", "means"} or None, default=None
        With ``color`` naming groups, mark their means and draw an ellipse around each of three or more rows:
        ``"rows"`` holds ``coverage`` of the rows of a normal group, ``"means"`` is a confidence region of its mean.
    supplementary : array-like of shape (n_more, n_components), optional
        Scores of rows that were not used in the fit, drawn as open diamonds.
    coverage : float, default=0.95
        Posterior probability of the ellipses, which take the components of a row as independent.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new Axes on a new figure if not given.

    Raises
    ------
    ValueError
        If scores, names, ``axes`` or ``coverage`` do not fit.

    See Also
    --------
    plot_biplot : with loadings as arrows.

    Notes
    -----
    With a single component, points are spread vertically for readability only, and standard deviations are drawn as
    horizontal bars of the same coverage.

    Examples
    --------
    >>> from anypca import PPCA
    >>> from anypca.datasets import make_low_rank
    >>> from anypca.plotting import plot_scores
    >>> X = make_low_rank(50, 6, 2, random_state=0).X
    >>> model = PPCA(2).fit(X)
    >>> ax = plot_scores(model, *model.transform(X, return_std=True), color=X[:, 0])
    """
    if not 0.0 < coverage < 1.0:
        raise ValueError(f"coverage must be between 0 and 1, a probability such as 0.95; got {coverage}.")
    n_components = count_components(model)
    plane, points = check_points(scores, axes, n_components, color=color, row_names=row_names)
    ax = new_axes(6.8, 5.4 if len(plane) > 1 else 3.6) if ax is None else ax
    heights = points[:, 1] if len(plane) > 1 else golden(len(points))
    drawn = np.column_stack([points[:, 0], heights])
    if std is not None:
        bars = check_scores("std", std, n_components)[:, plane]
        check_length("std", bars, len(points))
        _draw_uncertainty(ax, drawn, bars, coverage)
    draw_points(ax, drawn, color)
    if supplementary is not None:
        _draw_supplementary(ax, check_scores("supplementary", supplementary, n_components)[:, plane])
    if groups is not None:
        _draw_group_means(ax, drawn, color, groups, coverage)
    name_plane(ax, model, plane)
    ax.margins(0.08)
    # Labels are placed in pixels: the layout must be settled first.
    ax.figure.draw_without_rendering()
    name_rows(ax, drawn, row_names)
    return ax


def _draw_uncertainty(ax: Any, points: Floats, std: Floats, coverage: float) -> None:
    """Ellipses of two components, bars of one, of so many rows that the points stay in sight."""
    reach = std * _radius(coverage, std.shape[1])
    crowding = _crowding(points, reach)
    most = int(np.clip(_MOST_LAYERS / max(crowding, 1e-9), _LEAST_ELLIPSES, _MOST_ELLIPSES))
    # Equal rows, frequent in tables of few small counts, would pile up to black.
    distinct = np.sort(np.unique(np.hstack([points, reach]), axis=0, return_index=True)[1])
    rows = distinct[np.unique(np.linspace(0, len(distinct) - 1, min(len(distinct), most)).astype(int))]
    what = f"{100 * coverage:g} % posterior {'ellipses' if std.shape[1] > 1 else 'intervals'}"
    whose = "" if len(rows) == len(distinct) else f" of {len(rows)} of {len(points)} rows"
    if std.shape[1] == 1:
        ends = (points[rows, 0] - reach[rows, 0], points[rows, 0] + reach[rows, 0])
        ax.hlines(points[rows, 1], *ends, color="0.8", linewidth=0.7, zorder=1)
    else:
        layers = max(crowding * len(rows), 1.0)
        _draw_ellipses(ax, points[rows], reach[rows], strength=1.0 / layers)
    ax.set_title(what + whose, fontsize=8, color=GREY)


def _crowding(points: Floats, reach: Floats) -> float:
    """The share of the ellipses that lie on the middle of one, on average; 0 for bars, which have no area."""
    if reach.shape[1] == 1:
        return 0.0
    some = np.unique(np.linspace(0, len(points) - 1, min(len(points), _MOST_ELLIPSES)).astype(int))
    apart = (points[some, None] - points[None, some]) / np.maximum(reach[some], np.finfo(float).tiny)
    return float(((apart**2).sum(axis=2) <= 1.0).mean())


def _draw_ellipses(ax: Any, points: Floats, reach: Floats, strength: float) -> None:
    """Ellipses behind the points, the paler the more of them lie on each other; outlines only where many do."""
    from matplotlib.collections import EllipseCollection

    ellipses = EllipseCollection(
        2.0 * reach[:, 0],
        2.0 * reach[:, 1],
        np.zeros(len(points)),
        units="xy",
        offsets=points,
        offset_transform=ax.transData,
        # Grey: ellipses in the colour of their group would hide the points.
        facecolor=(0.3, 0.3, 0.3, 0.1 * strength if strength > 0.5 else 0.0),
        edgecolor=(0.3, 0.3, 0.3, max(0.5 * strength, 0.35)),
        linewidth=0.6,
        zorder=1,
    )
    ax.add_collection(ellipses)
    ax.update_datalim(np.vstack([points - reach, points + reach]))


def _draw_supplementary(ax: Any, points: Floats) -> None:
    """Draw supplementary rows as open diamonds over the others."""
    if points.shape[1] == 1:
        points = spread_out(points[:, 0])
    ax.scatter(*points.T, marker="D", s=22.0, facecolors="none", edgecolors=BLACK, linewidths=0.9, zorder=3)


def _draw_group_means(ax: Any, points: Floats, color: Any, kind: str, coverage: float) -> None:
    """Draw group means as large disks, with ellipses for groups of three or more rows that are not collinear."""
    if not isinstance(kind, str) or kind not in ("rows", "means"):
        what = repr(kind) if isinstance(kind, str) else type(kind).__name__
        raise ValueError(
            f"groups must be 'rows', 'means' or None; got {what}. The group of each row goes to color=."
        )
    values = np.asarray(color)
    if color is None or is_scale(values):
        raise ValueError(
            f"groups={kind!r} needs color= with the group of each row; got {'None' if color is None else 'numbers'}. "
            "Pass text, or numbers as text."
        )
    groups = list(rows_of_groups(values))
    fill = _FILL if len(groups) <= _FEW_GROUPS else 0.0
    for i, (name, mine) in enumerate(groups):
        if name in (OTHERS, NOT_KNOWN):
            continue
        part = points[mine]
        ax.scatter(
            *part.mean(axis=0), s=110.0, color=group_color(i), edgecolors="white", linewidths=1.2, zorder=4
        )
        if len(part) >= 3:
            _draw_group_ellipse(ax, part, group_color(i), kind, coverage, fill)


def _draw_group_ellipse(ax: Any, points: Floats, color: str, kind: str, coverage: float, fill: float) -> None:
    from matplotlib.patches import Ellipse

    covariance = np.cov(points.T) / (len(points) if kind == "means" else 1)
    variances, axes = np.linalg.eigh(covariance)
    width, height = 2.0 * _radius(coverage, 2) * np.sqrt(np.maximum(variances[::-1], 0.0))
    angle = float(np.degrees(np.arctan2(axes[1, 1], axes[0, 1])))
    look = {"facecolor": (color, fill), "edgecolor": color, "linewidth": 1.4, "zorder": 1}
    ax.add_patch(Ellipse(tuple(points.mean(axis=0)), width, height, angle=angle, **look))


def _radius(coverage: float, dimension: int) -> float:
    """Standard deviations within which a normal vector lies with some probability."""
    from scipy.stats import chi2

    return float(np.sqrt(chi2.ppf(coverage, dimension)))

"""Rows as points, coloured by groups or by numbers, with labels that do not overlap."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from anypca._typing import Floats
from anypca._words import shorten
from anypca.columns.groups import NOT_KNOWN, OTHERS, is_scale, rows_of_groups
from anypca.plotting._common import BLUE, GREY, MARKERS, PALETTE, write_plainly

#: Directions that are tried for a label, starting with the preferred one and swinging out on both sides.
_TURNS = np.deg2rad([0, 20, -20, 40, -40, 60, -60, 90, -90, 135, -135, 180])
#: Distances from the point, in font sizes; those beyond the first get a line back to the point.
_RADII = (0.5, 1.6, 2.8, 4.0, 5.5, 7.5, 10.0, 14.0)
#: Room kept free around a text, in font sizes: its extent differs a little between resolutions.
_MARGIN = 0.15


class Box(NamedTuple):
    """A rectangle in pixels."""

    left: float
    bottom: float
    right: float
    top: float

    def overlaps(self, other: Box) -> bool:
        """Whether two rectangles share area."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.bottom < other.top
            and other.bottom < self.top
        )

    def contains(self, other: Box) -> bool:
        """Whether another rectangle lies within this one."""
        return (
            self.left <= other.left
            and other.right <= self.right
            and self.bottom <= other.bottom
            and other.top <= self.top
        )


class _Place(NamedTuple):
    """A place for a label."""

    box: Box
    centre: Floats
    is_far: bool
    """Whether a line should lead back to the point."""


def _box(anchor: Floats, direction: Floats, gap: float, half: Floats) -> tuple[Box, Floats]:
    """The box of a label that starts ``gap`` pixels from its point, and the box's centre."""
    centre = anchor + direction * gap + np.sign(np.round(direction, 3)) * half * np.abs(direction) ** 0.5
    return Box(*(centre - half), *(centre + half)), centre


def _half_size(ax: Any, text: str, size: float) -> Floats:
    """Half the width and height of a text in pixels, (2,), as the font draws it."""
    probe = ax.text(0.0, 0.0, text, fontsize=size, parse_math=False)
    with warnings.catch_warnings():
        # Names in scripts that the font lacks are drawn as boxes, whose size is known as well.
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from font")
        box = probe.get_window_extent()
    probe.remove()
    return np.asarray(np.array([box.width, box.height]) / 2.0 + _MARGIN * size * ax.figure.dpi / 72.0)


def along(ax: Any, tails: Floats, tips: Floats, size: float = 8.0) -> list[Box]:
    """Small boxes strung along arrows, for labels to keep clear of.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
    tails, tips : ndarray of shape (n_arrows, 2)
        In data coordinates.
    size : float
        Font size in points, which sets the boxes' size.

    Returns
    -------
    boxes : list of Box
    """
    half = 0.3 * size * ax.figure.dpi / 72.0
    boxes = []
    for start, stop in zip(ax.transData.transform(tails), ax.transData.transform(tips), strict=True):
        steps = max(int(np.hypot(*(stop - start)) / (2.0 * half)), 1)
        for share in np.linspace(0.0, 1.0, steps + 1):
            x, y = start + share * (stop - start)
            boxes.append(Box(x - half, y - half, x + half, y + half))
    return boxes


def place_labels(
    ax: Any,
    points: Floats,
    texts: Sequence[str],
    *,
    color: str,
    size: float = 8.0,
    taken: Iterable[Box] = (),
    avoid: Sequence[Box] = (),
    reach_far: bool = True,
) -> list[Box]:
    """Label each point on the side away from the origin, without overlaps.

    The axis limits must be final. Labels are placed in the given order, the first nearest to their points. No label
    is ever written over another, over ``taken`` or beyond the frame: one that finds no place is left out.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
    points : ndarray of shape (n_labels, 2)
        In data coordinates.
    texts : sequence of str, length n_labels
    color : str
    size : float
        Font size in points.
    taken : iterable of Box
        Places not to be used.
    avoid : sequence of Box
        Places to be used only if there is no other.
    reach_far : bool
        Whether a label may stand far from its point, with a line back to it; else only next to it.

    Returns
    -------
    boxes : list of Box
        ``taken`` and the places of the labels.
    """
    boxes = list(taken)
    em = size * ax.figure.dpi / 72.0
    origin = ax.transData.transform((0.0, 0.0))
    frame = Box(*ax.get_window_extent().extents)
    for point, text in zip(points, texts, strict=True):
        anchor = ax.transData.transform(point)
        half = _half_size(ax, text, size)
        places = _places(anchor, anchor - origin, half, em, _RADII if reach_far else _RADII[:1])
        inside = [place for place in places if frame.contains(place.box)]
        free = _first_free(inside, [*boxes, *avoid]) or _first_free(inside, boxes)
        if free is not None:
            boxes.append(free.box)
            _write(ax, point, text, (free.centre - anchor) * 72.0 / ax.figure.dpi, color, size, free.is_far)
    return boxes


def _places(
    anchor: Floats, outward: Floats, half: Floats, em: float, radii: Sequence[float]
) -> Iterator[_Place]:
    """Places for a label, the preferred ones first."""
    start = np.arctan2(outward[1], outward[0]) if np.any(outward) else 0.0
    for radius in radii:
        for turn in _TURNS:
            direction = np.array([np.cos(start + turn), np.sin(start + turn)])
            yield _Place(*_box(anchor, direction, radius * em, half), radius > _RADII[0])


def _first_free(places: Iterable[_Place], boxes: Sequence[Box]) -> _Place | None:
    return next((place for place in places if not any(place.box.overlaps(box) for box in boxes)), None)


def _write(
    ax: Any, point: Floats, text: str, shift: Floats, color: str, size: float, with_line: bool
) -> None:
    from matplotlib.patheffects import withStroke

    line = {"arrowstyle": "-", "color": color, "linewidth": 0.5, "alpha": 0.6, "shrinkA": 0, "shrinkB": 1}
    ax.annotate(
        text,
        xy=tuple(point),
        xytext=tuple(shift),
        textcoords="offset points",
        ha="center",
        va="center",
        fontsize=size,
        color=color,
        zorder=4,
        arrowprops=line if with_line else None,
        # A dollar sign in a name is a dollar sign and not the start of a formula.
        parse_math=False,
        # A white halo keeps text readable among points without hiding them as a box would.
        path_effects=[withStroke(linewidth=2.0, foreground="white")],
    )


#: Above this many rows their names would only blacken the picture.
_MOST_ROW_NAMES = 40
_PALE = "0.75"


def spread_out(values: Floats) -> Floats:
    """One coordinate as points scattered over the height, for readability only.

    Parameters
    ----------
    values : ndarray of shape (n_points,)

    Returns
    -------
    points : ndarray of shape (n_points, 2)
        Heights are between -1 and 1.
    """
    return np.column_stack([values, golden(len(values))])


def golden(n: int) -> Floats:
    """Numbers that fill the interval from -1 to 1 evenly and without order, and without a generator.

    Parameters
    ----------
    n : int

    Returns
    -------
    values : ndarray of shape (n,)
    """
    return (np.arange(1, n + 1) * 0.6180339887498949) % 1.0 * 2.0 - 1.0


def draw_points(ax: Any, points: Floats, color: Any = None) -> None:
    """Points, smaller and paler the more there are, with a legend of groups or a scale of numbers.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
    points : ndarray of shape (n_points, 2)
    color : sequence of length n_points, optional
        Names of groups, or numbers. Whole numbers are groups while there are at most 20 different ones.
    """
    size = float(np.clip(9000.0 / max(len(points), 1), 5.0, 28.0))
    alpha = 0.75 if len(points) <= 300 else 0.5
    # Thousands of points as vectors make files of megabytes: they are drawn as an image there too.
    style = {"s": size, "alpha": alpha, "linewidths": 0, "rasterized": len(points) > 2000, "zorder": 2}
    if color is None:
        ax.scatter(*points.T, color=BLUE, **style)
        return
    title = getattr(color, "name", None)
    values = np.asarray(color)
    if is_scale(values):
        _draw_scale(ax, points, values.astype(float), title, style)
    else:
        _draw_groups(ax, points, values, title, style)


def _draw_scale(ax: Any, points: Floats, values: Floats, title: Any, style: dict[str, Any]) -> None:
    known = np.isfinite(values)
    if not known.all():
        ax.scatter(*points[~known].T, color=_PALE, label="not known", **style)
        ax.legend(frameon=False, fontsize=8, loc="upper right")
    # The ends of the scale are percentiles, so that a few extreme rows do not make all others look alike.
    low, high = np.percentile(values[known], [1, 99])
    extend = {(0, 0): "neither", (1, 0): "min", (0, 1): "max", (1, 1): "both"}[
        (int(values[known].min() < low), int(values[known].max() > high))
    ]
    drawn = ax.scatter(
        *points[known].T, c=values[known], cmap="viridis", vmin=low, vmax=high, **(style | {"alpha": 0.9})
    )
    bar = ax.figure.colorbar(drawn, ax=ax, extend=extend, shrink=0.8)
    bar.solids.set_alpha(1.0)
    if title is not None:
        bar.set_label(shorten(title))


def group_color(number: int) -> str:
    """The colour of a group, counted from 0."""
    return PALETTE[number % len(PALETTE)]


def _draw_groups(ax: Any, points: Floats, values: Any, title: Any, style: dict[str, Any]) -> None:
    for i, (label, mine) in enumerate(rows_of_groups(values)):
        color, marker = group_color(i), MARKERS[i // len(PALETTE) % len(MARKERS)]
        if label in (OTHERS, NOT_KNOWN):
            color, marker = _PALE, "o"
        # Markers other than the disk carry less ink: some are thin.
        ax.scatter(*points[mine].T, color=color, marker=marker, label=label, **style)
    legend = ax.legend(
        frameon=False,
        loc="center left",
        bbox_to_anchor=(1.0, 0.5),
        fontsize=8,
        title=None if title is None else shorten(title),
        title_fontsize=8,
    )
    write_plainly(legend.get_texts())
    for handle in legend.legend_handles:
        handle.set_alpha(1.0)
        handle.set_sizes([24.0])


def name_rows(ax: Any, points: Floats, names: Sequence[str] | None, taken: Sequence[Box] = ()) -> None:
    """Label at most 40 points, the farthest from the centre, if there is room.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        With final limits.
    points : ndarray of shape (n_points, 2)
    names : sequence of str or None
    taken : sequence of Box
        Places not to be used.
    """
    if names is None:
        return
    # In the lengths of the axes: the farthest to the eye.
    pixels = ax.transData.transform(points)
    distance = np.linalg.norm(pixels - np.median(pixels, axis=0), axis=1)
    chosen = (
        np.argsort(-distance, kind="stable")[:_MOST_ROW_NAMES]
        if len(names) > _MOST_ROW_NAMES
        else range(len(names))
    )
    texts = [shorten(names[i], most=20) for i in chosen]
    place_labels(ax, points[list(chosen)], texts, color=GREY, size=7.0, taken=taken, reach_far=False)

"""Text beside points without overlaps."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from anypca._typing import Floats

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
    half: Floats = np.array([box.width, box.height]) / 2.0 + _MARGIN * size * ax.figure.dpi / 72.0
    return half


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
    """Write a text beside each point, away from the origin, clear of the others.

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

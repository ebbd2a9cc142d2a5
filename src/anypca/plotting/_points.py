"""Rows as points, coloured by groups or by numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anypca._typing import Bools, Floats
from anypca._words import shorten
from anypca.plotting._labels import Box, place_labels
from anypca.plotting._style import BLUE, GREY, MARKERS, PALETTE

#: Above this many rows their names would only blacken the picture.
_MOST_ROW_NAMES = 40
#: Whole numbers with more distinct values than this are a scale and not names of groups.
_MOST_NUMBERED_GROUPS = 20
#: Groups beyond this many share one look: a legend can be no longer.
_MOST_GROUPS = 24
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
    if _is_scale(values):
        _draw_scale(ax, points, values.astype(float), title, style)
    else:
        _draw_groups(ax, points, values, title, style)


def _is_scale(values: Any) -> bool:
    """Whether values are numbers on a scale rather than names of groups."""
    if values.dtype.kind not in "iuf":
        return False
    distinct = np.unique(values[np.isfinite(values)])
    return bool(len(distinct) > _MOST_NUMBERED_GROUPS or np.any(distinct != np.round(distinct)))


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


def _draw_groups(ax: Any, points: Floats, values: Any, title: Any, style: dict[str, Any]) -> None:
    for i, (label, mine) in enumerate(_groups(values)):
        color, marker = PALETTE[i % len(PALETTE)], MARKERS[i // len(PALETTE) % len(MARKERS)]
        if label in ("others", "not known"):
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
    for text in legend.get_texts():
        text.set_parse_math(False)
    for handle in legend.legend_handles:
        handle.set_alpha(1.0)
        handle.set_sizes([24.0])


def _groups(values: Any) -> list[tuple[str, Bools]]:
    """Names of groups, in order, with their rows; the smallest of too many together at the end."""
    missing = np.array([value is None or value != value for value in values])
    texts = np.array([_text(value) for value in values], dtype=object)
    present = values[~missing]
    if values.dtype.kind in "iufb":
        names = [_text(value) for value in np.unique(present)]
    else:
        names = sorted({_text(value) for value in present})
    rows = {name: (texts == name) & ~missing for name in names}
    kept = sorted(names, key=lambda name: -rows[name].sum())[: _MOST_GROUPS - 1]
    if len(names) <= _MOST_GROUPS:
        kept = names
    found = [(shorten(name), rows[name]) for name in names if name in set(kept)]
    others = ~missing & ~np.any([mine for _, mine in found], axis=0) if found else np.zeros_like(missing)
    rest = [("others", others), ("not known", missing)]
    return found + [(name, mine) for name, mine in rest if mine.any()]


def _text(value: Any) -> str:
    """The name of a group; whole numbers that came as floats lose their point."""
    return f"{value:g}" if isinstance(value, float | np.floating) else str(value)


def name_rows(ax: Any, points: Floats, names: Sequence[str] | None, taken: Sequence[Box] = ()) -> None:
    """Write names beside points where there is room, for at most 40 points.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        With final limits.
    points : ndarray of shape (n_points, 2)
    names : sequence of str or None
    taken : sequence of Box
        Places not to be used.
    """
    if names is None or len(names) > _MOST_ROW_NAMES:
        return
    texts = [shorten(name, most=20) for name in names]
    place_labels(ax, points, texts, color=GREY, size=7.0, taken=taken, reach_far=False)

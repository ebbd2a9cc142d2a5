"""Pieces in data space and in latent space, and generated rows compared with observed rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.columns.reading import read_table
from anypca.models._description import describe
from anypca.plotting._common import (
    BLACK,
    BLUE,
    GREY,
    MARKERS,
    PALETTE,
    find_column,
    fitted,
    name_column,
    name_component,
    new_axes,
    tidy,
)
from anypca.plotting._points import spread_out

#: Latent points are drawn out to this many standard deviations: 99.9 % of them lie within.
_REACH = 3.3
_REMEDY = "Draw a model with pieces, such as PiecewisePCA."


def plot_hinge(
    model: Any, X: Any, features: tuple[Any, Any] = (0, 1), ax: Any = None, *, offset: Any = None
) -> Any:
    """Plot rows in the plane of two columns, coloured by piece, with the path of the model along t.

    Parameters
    ----------
    model : fitted PiecewisePCA
        The fitted model.
    X : table of shape (n_samples, n_features)
        The rows to show.
    features : pair of int or str, default=(0, 1)
        Columns for the two axes, by position or by name.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new Axes on a new figure if not given.
    offset : array-like of shape (n_samples,) or (n_samples, n_features), optional
        As in ``fit``. The path is drawn at its mean.

    Returns
    -------
    ax : matplotlib.axes.Axes
        The line runs along t with the other latent coordinates at 0; hinges are marked. Where the path leaves the
        range of the rows it is cut off.

    Raises
    ------
    AttributeError
        If the model has no pieces.
    ValueError
        If a column is unknown.

    See Also
    --------
    plot_latent_pieces : the scores.
    """
    edges = np.concatenate([[-_REACH], fitted(model, "breakpoints_", remedy=_REMEDY), [_REACH]])
    plane = [find_column(model, feature) for feature in features]
    points = read_table(X)[:, plane]
    companions = {} if offset is None else {"offset": offset}
    piece = model.predict_piece(X, **companions)
    ax = new_axes(5.0, 4.2) if ax is None else ax
    _draw_pieces(ax, points, piece, len(edges) - 1)
    shift = 0.0 if offset is None else np.mean(np.asarray(offset, dtype=float), axis=0)
    for k in range(len(edges) - 1):
        path = _path(model, k, edges[k], edges[k + 1], shift)[:, plane]
        ax.plot(*path.T, color=BLACK, linewidth=2.0, label="path of t" if k == 0 else None)
        if k:
            ax.plot(*path[:1].T, "s", color=BLACK, ms=6)
    # Exponentials of the path's ends may be far beyond all counts.
    _keep_to(ax, points)
    _name_plane(ax, model, plane)
    return ax


def plot_latent_pieces(
    model: Any, X: Any, coordinates: tuple[int, int] = (-1, 0), ax: Any = None, **transform_params: Any
) -> Any:
    """Plot posterior means of two latent coordinates, coloured by piece, with the breakpoints.

    Parameters
    ----------
    model : fitted PiecewisePCA
        The fitted model.
    X : table of shape (n_samples, n_features)
        Rows to draw.
    coordinates : pair of int, default=(-1, 0)
        For the horizontal and the vertical axis; -1 is t.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new Axes on a new figure if not given.
    **transform_params : dict
        Arguments of ``transform``, for example ``offset``.

    Returns
    -------
    ax : matplotlib.axes.Axes
        With equal coordinates, the only choice for a model that has but one, rows are spread vertically for
        readability only.

    Raises
    ------
    AttributeError
        If the model has no pieces.
    ValueError
        If there is no such coordinate.

    See Also
    --------
    plot_hinge : the sheet among the rows.
    """
    breakpoints = fitted(model, "breakpoints_", remedy=_REMEDY)
    q = int(fitted(model, "n_components_"))
    scores = np.asarray(model.transform(X, **transform_params))
    piece = model.predict_piece(X, **transform_params)
    a, b = (_find_coordinate(c, q) for c in coordinates)
    ax = new_axes(5.0, 4.2) if ax is None else ax
    if a == b:
        # One latent coordinate: a plane would show only its diagonal.
        _draw_pieces(ax, spread_out(scores[:, a]), piece, len(breakpoints) + 1)
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
    else:
        _draw_pieces(ax, scores[:, [a, b]], piece, len(breakpoints) + 1)
        ax.set_ylabel(f"{name_component(model, b)} (posterior mean)")
    for axis, line in ((a, ax.axvline), (b, ax.axhline)):
        if axis == q - 1 and not (line == ax.axhline and a == b):
            for c in breakpoints:
                line(c, color=GREY, linewidth=1.0, linestyle="--")
    ax.set_xlabel(f"{name_component(model, a)} (posterior mean)")
    _add_legend(ax)
    tidy(ax)
    return ax


def plot_predicted(
    model: Any,
    X: Any,
    features: tuple[Any, Any] = (0, 1),
    ax: Any = None,
    *,
    n_samples: int | None = None,
    random_state: Any = 0,
    label: str | None = None,
) -> Any:
    """Plot observed rows and rows drawn from a model in the plane of two columns.

    Parameters
    ----------
    model : fitted estimator
        With ``sample``.
    X : array-like or data frame of shape (n_samples, n_features)
        Observed rows.
    features : pair of int or str, default=(0, 1)
        The two columns, by number or by name.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new Axes on a new figure if not given.
    n_samples : int, optional
        Number of rows to draw; as many as were observed if not given.
    random_state : int, RandomState instance, Generator or None, default=0
        Seed, or generator, of the draws.
    label : str, optional
        Name of the model; by default the name of its class.

    Raises
    ------
    AttributeError
        If the model cannot generate rows.
    ValueError
        If a column is unknown.

    See Also
    --------
    plot_fitted : cells against their means.
    """
    fitted(model, "n_components_", "components_")
    fitted(model, "sample", remedy="Draw a model that generates rows, such as PPCA.")
    plane = [find_column(model, feature) for feature in features]
    table = read_table(X)
    drawn = np.asarray(model.sample(n_samples or len(table), random_state=random_state))
    ax = new_axes(5.0, 4.2) if ax is None else ax
    size = _point_size(len(table))
    style = {"ms": size, "alpha": 0.35, "mew": 0, "rasterized": len(table) > 2000}
    ax.plot(*table[:, plane].T, "o", color=GREY, label="observed", **style)
    name = label or type(model).__name__
    ax.plot(*drawn[:, plane].T, "o", color=BLUE, label=f"generated by {name}", **style)
    _name_plane(ax, model, plane)
    return ax


def _path(model: Any, k: int, start: float, stop: float, shift: Any) -> Floats:
    """The map of one piece along t, other coordinates at 0, (n, n_features); for counts on their scale."""
    t = np.linspace(start, stop, 60)
    predictor = shift + model.piece_means_[k] + t[:, None] * model.piece_loadings_[k, :, -1]
    layout, family = model.layout_, describe(model).family
    assert family is not None
    return np.asarray(layout.join(family.mean(layout.pick(predictor))))


def _find_coordinate(coordinate: int, q: int) -> int:
    """Position of a latent coordinate that may be counted from the end."""
    # The default pair has two coordinates; a model with one uses it twice.
    if not -q <= coordinate < q:
        raise ValueError(f"the model has {q} latent coordinates, counted from 0, -1 is t; got {coordinate}.")
    return coordinate % q


def _draw_pieces(ax: Any, points: Floats, piece: Any, n_pieces: int) -> None:
    """Points in the colour and marker of their piece."""
    style = {"ms": _point_size(len(points)), "alpha": 0.5, "mew": 0, "rasterized": len(points) > 2000}
    for k in range(n_pieces):
        color, marker = PALETTE[k % len(PALETTE)], MARKERS[k % len(MARKERS)]
        ax.plot(*points[piece == k].T, marker, color=color, label=f"piece {k + 1}", **style)


def _point_size(n: int) -> float:
    return float(np.clip(9.0 - 2.0 * np.log10(max(n, 1)), 2.0, 5.0))


def _keep_to(ax: Any, points: Floats) -> None:
    """Limits that show the rows, with room for a path somewhat beyond."""
    low, high = np.nanmin(points, axis=0), np.nanmax(points, axis=0)
    room = 0.15 * np.where(high > low, high - low, 1.0)
    ax.set_xlim(low[0] - room[0], high[0] + room[0])
    ax.set_ylim(low[1] - room[1], high[1] + room[1])


def _name_plane(ax: Any, model: Any, plane: list[int]) -> None:
    ax.set_xlabel(name_column(model, plane[0]), parse_math=False)
    ax.set_ylabel(name_column(model, plane[1]), parse_math=False)
    _add_legend(ax)
    tidy(ax)


def _add_legend(ax: Any) -> None:
    """Add a legend with opaque markers."""
    for handle in ax.legend(fontsize=8, framealpha=0.8, edgecolor="none").legend_handles:
        handle.set_alpha(1.0)
        handle.set_markersize(max(handle.get_markersize(), 4.0))

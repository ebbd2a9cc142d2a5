"""Observed entries against fitted ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from anypca._typing import Bools, Floats
from anypca.columns.reading import (
    choose_rows,
    column_deviations,
    count_rows,
    read_table,
    standardise,
    take_rows,
)
from anypca.families import Mixed
from anypca.models._covariates import covariates_for
from anypca.models._description import describe, numbers_for
from anypca.plotting._common import BLUE, GREY, VERMILLION, find_column, fitted, new_axes, tidy
from anypca.plotting._points import golden

#: Counts that go beyond this are drawn on a logarithmic scale: on a linear one most would lie in a corner.
_MOST_LINEAR = 20
#: Standard deviations of columns that differ by more than this factor cannot share an axis: the narrow column would be
#: a dot of a few pixels.
_MOST_UNEQUAL = 30.0
#: Groups of entries whose means are drawn: a bend shows, and a group is not a handful.
_N_GROUPS = 20
#: Groups of at most this many entries are left out, unless all are small: their means have errors that hide a bend.
_LEAST_IN_GROUP = 9
_SCALES = ("auto", "linear", "log", "standardised")


class _Cells(NamedTuple):
    """Entries to draw."""

    observed: Floats
    """(n_cells,)."""
    fitted: Floats
    """(n_cells,)."""
    n_all: int
    """Observed cells of the table."""
    scale: str


def plot_fitted(
    model: Any,
    X: Any,
    *,
    offset: Any = None,
    covariates: Any = None,
    features: Sequence[Any] | None = None,
    scale: str = "auto",
    max_rows: int = 2000,
    max_cells: int = 20000,
    random_state: int = 0,
    ax: Any = None,
) -> Any:
    """Plot observed entries against fitted means, with the diagonal and group means.

    If the model is correct, the means of groups of entries with similar fitted values lie on the diagonal.

    Parameters
    ----------
    model : fitted estimator
        With ``transform`` and ``inverse_transform``.
    X : table of shape (n_samples, n_features)
        NaN marks missing entries, which are not drawn.
    offset, covariates : as in ``fit``
        As in the fit, if it had them.
    features : sequence of int or str, optional
        Columns to draw, by position or by name; all if not given.
    scale : {"auto", "linear", "log", "standardised"}, default="auto"
        ``"log"``: the logarithm of 1 + value, which shows zeros, mirrored for negative values.
        ``"standardised"``: each column less its mean, over its standard deviation.
        ``"auto"``: logarithmic for whole numbers from 0 to beyond 20, standardised for columns of several families or
        whose standard deviations differ more than 30 times, else linear.
    max_rows : int, default=2000
        If the table has more rows, a random sample of this size is drawn.
    max_cells : int, default=20000
        If there are more entries, a random sample of this size is drawn and the legend reports it.
    random_state : int, default=0
        Seed of the two draws.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new Axes on a new figure if not given.

    Raises
    ------
    AttributeError
        If the model has no ``inverse_transform``.
    ValueError
        If ``scale`` or a column is unknown, or nothing is observed.

    See Also
    --------
    plot_predicted : rows drawn from the model.

    Examples
    --------
    >>> from anypca import PPCA
    >>> from anypca.datasets import make_low_rank
    >>> from anypca.plotting import plot_fitted
    >>> X = make_low_rank(50, 6, 2, random_state=0).X
    >>> ax = plot_fitted(PPCA(2).fit(X), X)
    """
    if scale not in _SCALES:
        raise ValueError(f"scale must be one of {', '.join(map(repr, _SCALES))}; got {scale!r}.")
    fitted(model, "components_", "n_components_")
    fitted(model, "inverse_transform")
    given = {"offset": offset, "covariates": covariates_for(model, covariates)}
    companions = {name: part for name, part in given.items() if part is not None}
    observed, means, n_rows = _fit_rows(model, X, companions, max_rows, random_state)
    if features is not None:
        chosen = [find_column(model, feature) for feature in features]
        observed, means = observed[:, chosen], means[:, chosen]
    cells = _choose_cells(model, observed, means, scale, n_rows, max_cells, random_state)
    ax = new_axes(5.2, 4.8) if ax is None else ax
    _draw_cells(ax, cells)
    _draw_means(ax, cells)
    _finish_axes(ax, cells)
    return ax


def _fit_rows(
    model: Any, X: Any, companions: dict[str, Any], max_rows: int, seed: int
) -> tuple[Floats, Floats, int]:
    """Entries and their means (rows, p) of all rows, or of some drawn at random, and the number of all."""
    X, n_rows = numbers_for(model, X), count_rows(X)
    if n_rows > max_rows:
        index = choose_rows(n_rows, max_rows, seed)
        X, companions = take_rows(X, index), {key: take_rows(part, index) for key, part in companions.items()}
    scores = np.asarray(model.transform(X, **companions))
    means = np.asarray(model.inverse_transform(scores, **companions), dtype=float)
    return read_table(X).astype(float), means, n_rows


def _choose_cells(
    model: Any, observed: Floats, means: Floats, scale: str, n_rows: int, max_cells: int, seed: int
) -> _Cells:
    """Observed entries on their scale, at most ``max_cells`` of them."""
    known = ~np.isnan(observed)
    if not known.any():
        raise ValueError("X has no observed entry in these rows and columns: there is nothing to draw.")
    if scale == "auto":
        scale = _choose_scale(model, observed, known)
    if scale == "standardised":
        observed, means = standardise(observed, means)
    index = np.flatnonzero(known)
    n_all = round(len(index) * n_rows / len(observed))
    if len(index) > max_cells:
        index = np.sort(np.random.default_rng(seed).choice(index, max_cells, replace=False))
    return _Cells(observed.ravel()[index], means.ravel()[index], n_all, scale)


def _choose_scale(model: Any, observed: Floats, known: Bools) -> str:
    values = observed[known]
    if values.min() >= 0 and values.max() > _MOST_LINEAR and np.all(values == np.round(values)):
        return "log"
    family = describe(model).family
    deviations = column_deviations(observed)
    varying = deviations[deviations > 0]
    is_unequal = len(varying) > 0 and varying.max() > _MOST_UNEQUAL * varying.min()
    is_mixed = isinstance(family, Mixed) and len(family.members) > 1
    return "standardised" if is_mixed or is_unequal else "linear"


def _draw_cells(ax: Any, cells: _Cells) -> None:
    """One point for each entry."""
    n = len(cells.observed)
    heights = cells.observed
    if np.isin(heights, (0.0, 1.0)).all():
        # Two lines of overlapping points would hide their number.
        heights = heights + 0.06 * golden(n)
    label = f"{n:,} entries" if n == cells.n_all else f"{n:,} of {cells.n_all:,} entries"
    size, alpha = float(np.clip(15000.0 / n, 4.0, 20.0)), float(np.clip(1000.0 / n, 0.12, 0.6))
    style = {"s": size, "alpha": alpha, "linewidths": 0, "rasterized": n > 2000, "zorder": 1}
    ax.scatter(cells.fitted, heights, color=BLUE, label=label, **style)


def _draw_means(ax: Any, cells: _Cells) -> None:
    """The diagonal, and means over groups of entries with like fitted values."""
    x, y = _group_means(cells)
    low, high = max(cells.fitted.min(), cells.observed.min()), min(cells.fitted.max(), cells.observed.max())
    ax.plot([low, high], [low, high], color=GREY, linewidth=1.0, linestyle="--", zorder=2, label="equal")
    ax.plot(x, y, "o-", color=VERMILLION, markersize=4, linewidth=1.0, zorder=3, label="group means")


def _group_means(cells: _Cells) -> tuple[Floats, Floats]:
    """Mean fitted and mean observed values of groups that are equally wide on the axis, (n_groups,) each."""
    place = _shrink(cells.fitted) if cells.scale == "log" else cells.fitted
    edges = np.linspace(place.min(), place.max(), _N_GROUPS + 1)[1:-1]
    group = np.searchsorted(edges, place, side="right")
    # Skip the noisy means of small groups.
    least = min(_LEAST_IN_GROUP, len(place) // _N_GROUPS)
    parts = [group == k for k in range(_N_GROUPS) if (group == k).sum() > least]
    x, y = (np.array([values[part].mean() for part in parts]) for values in (cells.fitted, cells.observed))
    return x, y


def _finish_axes(ax: Any, cells: _Cells) -> None:
    unit = {"linear": "", "log": " (log(1 + x) scale)", "standardised": " (column sd from mean)"}[cells.scale]
    if cells.scale == "log":
        _scale_counts(ax, cells)
    ax.set(xlabel=f"fitted{unit}", ylabel=f"observed{unit}")
    # Above the picture: entries may lie anywhere in it.
    style = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": 3, "frameon": False}
    legend = ax.legend(fontsize=8, columnspacing=1.2, **style)
    legend.legend_handles[0].set(alpha=1.0, sizes=[16.0])
    tidy(ax)


def _shrink(values: Floats) -> Floats:
    """log(1 + value), mirrored at 0: a Gaussian model of counts may well fit negative ones."""
    return np.asarray(np.sign(values) * np.log1p(np.abs(values)))


def _stretch(values: Floats) -> Floats:
    """The inverse of `_shrink`."""
    return np.asarray(np.sign(values) * np.expm1(np.abs(values)))


def _scale_counts(ax: Any, cells: _Cells) -> None:
    """Both axes as the logarithm of 1 + value, with round numbers on them."""
    ax.set_xscale("function", functions=(_shrink, _stretch))
    ax.set_yscale("function", functions=(_shrink, _stretch))
    for axis, values in ((ax.xaxis, cells.fitted), (ax.yaxis, cells.observed)):
        ticks = _round_numbers(float(values.min()), float(values.max()))
        axis.set_ticks(ticks, [f"{tick:,g}" for tick in ticks])
    for limit, values in ((ax.set_xlim, cells.fitted), (ax.set_ylim, cells.observed)):
        ends = _shrink(np.array([values.min(), values.max()]))
        limit(_stretch(ends + 0.04 * np.ptp(ends) * np.array([-1.0, 1.0])))


def _round_numbers(least: float, most: float) -> Floats:
    """0 and powers of ten, with three times these while there is room, between two values."""
    reach = max(most, -least)
    # Below 1 only where hardly anything is above.
    lowest = 0 if reach >= 3 else -2
    powers = 10.0 ** np.arange(lowest, 9)
    ticks = (powers[:, None] * [1, 3]).ravel()
    ticks = ticks[ticks <= reach]
    ticks = ticks if len(ticks) <= 7 else ticks[::2]
    ticks = np.concatenate([-ticks[::-1], [0.0], ticks])
    return np.asarray(ticks[(ticks >= min(least, 0.0)) & (ticks <= most)])

"""Scree plot: the share that each component explains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.models._description import describe
from anypca.plotting._common import BLUE, VERMILLION, explained, new_axes, tidy

#: Largest number of components with labelled bars; more labels would overlap.
_MOST_LABELLED = 10
_GREEN = "#009E73"
#: Criteria of a single fit, shown in the title.
_CRITERIA = {"evidence": "log evidence", "icl": "ICL", "bic": "BIC", "aic": "AIC"}


def plot_scree(
    model: Any,
    ax: Any = None,
    *,
    criterion: Mapping[int, float] | None = None,
    criterion_name: str = "criterion",
) -> Any:
    """Plot the explained deviance of each component as bars, their running sum as a line, and the evidence.

    Parameters
    ----------
    model : fitted estimator
        With ``explained_deviance_ratio_`` of shape (n_components,), or ``explained_variance_ratio_``.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new Axes on a new figure if not given.
    criterion : mapping from int to float, optional
        A criterion by number of components. If not given, the evidence that the model carries:
        ``evidence_by_rank_``, or ``evidence_grid_`` at ``n_components_grid_``. The criteria of a path of fits are
        drawn by ``plot_scree(path.best(), criterion=dict(zip(path.ranks, path.icl)), criterion_name="ICL")``.
    criterion_name : str, default="criterion"
        Label of the criterion.

    Returns
    -------
    ax : matplotlib.axes.Axes
        The criterion has an axis of its own on the right, the last of ``ax.figure.axes``; the model's number of
        components is marked. The title gives criteria of the fit alone, such as ``bic_``.

    Raises
    ------
    AttributeError
        If the model has no explained shares.

    See Also
    --------
    plot_rank_selection : a criterion over ranks.
    """
    ratio, what = explained(model)
    ax = new_axes(5.4, 3.8) if ax is None else ax
    number = np.arange(1, len(ratio) + 1)
    percent = 100.0 * ratio
    _draw_shares(ax, number, percent)
    found = dict(describe(model).evidence_by_rank if criterion is None else criterion)
    name = "log evidence" if criterion is None else criterion_name
    handles = ax.get_legend_handles_labels()[0][::-1]
    ranks = np.array(sorted(found), dtype=int)
    # A criterion at a single rank compares nothing: it appears in the title, without a curve.
    is_drawn = len(ranks) > 1
    if is_drawn:
        handles += _draw_criterion(ax, ranks, np.array([found[rank] for rank in ranks]), name, len(ratio))
    _finish_axes(ax, number, ranks if is_drawn else number, what)
    ax.set_xlabel(f"component (number of components for the {name})" if is_drawn else "component")
    _add_legend(ax, handles, None if is_drawn else _criteria_in_words(model))
    return ax


def _add_legend(ax: Any, handles: list[Any], title: str | None) -> None:
    """A legend above the picture, where it hides neither bars nor lines."""
    ax.legend(
        handles=handles,
        frameon=False,
        fontsize=8,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=len(handles),
        title=title,
        title_fontsize=8,
        alignment="left",
        columnspacing=1.2,
        handlelength=1.6,
    )


def _criteria_in_words(model: Any) -> str | None:
    """Format the criteria of a single fit; None if there are none."""
    known = describe(model).criteria
    told = [f"{label} {known[name]:,.1f}" for name, label in _CRITERIA.items() if name in known]
    return ", ".join(told) or None


def _draw_shares(ax: Any, number: Any, percent: Floats) -> None:
    ax.bar(number, percent, width=0.7, color=BLUE, label="each component")
    if len(percent) > 1:
        # Markers only if they do not overlap.
        marker = "o" if len(percent) <= 30 else None
        ax.plot(number, percent.cumsum(), color=VERMILLION, marker=marker, markersize=4, label="together")
    if len(percent) <= _MOST_LABELLED:
        _label(ax, number, percent)
    ax.set_ylim(0.0, max(1.18 * percent.sum(), 1e-3))


def _draw_criterion(ax: Any, ranks: Any, values: Floats, name: str, chosen: int) -> list[Any]:
    """The criterion on an axis on the right; return what the legend shows of it."""
    right = ax.twinx()
    drawn: list[Any] = right.plot(
        ranks, values, color=_GREEN, marker="s", markersize=4, linestyle=":", label=name
    )
    mine = ranks == chosen
    # White rims keep the mark apart from the line of the sums where the two cross.
    mark = {"marker": "*", "markersize": 13, "color": _GREEN, "markeredgecolor": "white", "linestyle": "none"}
    if mine.any():
        drawn += right.plot(ranks[mine], values[mine], label="this model", **mark)
    # Room below keeps the marks clear of the numbers above low bars.
    span = float(np.ptp(values)) or 1.0
    right.set_ylim(values.min() - 0.25 * span, values.max() + 0.1 * span)
    right.set_ylabel(name, color=_GREEN)
    right.tick_params(axis="y", colors=_GREEN)
    right.ticklabel_format(axis="y", useOffset=False)
    right.spines["top"].set_visible(False)
    return drawn


def _finish_axes(ax: Any, number: Any, ranks: Any, what: str) -> None:
    """Names and limits."""
    first, last = min(ranks.min(initial=1), 1), max(ranks.max(initial=1), len(number))
    if last - first < _MOST_LABELLED:
        ax.set_xticks(np.arange(first, last + 1))
    else:
        ax.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    # One or two bars are not stretched over the whole width.
    room = max(0.6, 0.5 * (4 - (last - first + 1)))
    ax.set_xlim(first - room, last + room)
    ax.set_ylabel(f"explained {what} (%)")
    tidy(ax)


def _label(ax: Any, number: Any, percent: Any) -> None:
    """Write each share into its bar, or above a bar too low for it; the first bar's top is the line's."""
    for x, height in zip(number, percent, strict=True):
        # Inside of the bar where there is room for a line of text, above it elsewhere.
        fits = height > 0.08 * percent.sum()
        place = height / 2.0 if fits else height + 0.01 * percent.sum()
        alignment = "center" if fits else "bottom"
        color = "white" if fits else "black"
        ax.text(x, place, f"{height:.1f}", ha="center", va=alignment, fontsize=8, color=color)

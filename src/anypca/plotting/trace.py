"""Plots of a fit: its objective, pruned components, and the choice of the number of components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anypca._typing import Floats, Ints
from anypca._words import counted
from anypca.plotting._common import BLUE, GREY, VERMILLION, fitted, new_axes, tidy


def plot_trace(model: Any, ax: Any = None, *, gap: bool = False) -> Any:
    """Plot the objective after each iteration.

    Parameters
    ----------
    model : fitted estimator
        With ``objective_trace_`` of shape (n_iter,) and ``converged_``.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new Axes on a new figure if not given.
    gap : bool, default=False
        Plot the difference to the final value on a logarithmic axis, which shows the end of a fit.

    Raises
    ------
    AttributeError
        If the model keeps no trace of its fit.
    ValueError
        If ``gap`` is requested for a trace that never changed.

    See Also
    --------
    plot_pruning_path : when components were pruned.
    """
    trace = np.asarray(fitted(model, "objective_trace_", remedy="Nothing iterates in its fit."), dtype=float)
    converged = bool(fitted(model, "converged_"))
    ax = new_axes(5.0, 3.6) if ax is None else ax
    number: Ints = np.arange(1, len(trace) + 1)
    if gap:
        number, shown = _gap(number, trace)
        ax.set_yscale("log")
        ax.set_ylabel("objective, below the last value")
    else:
        shown = trace
        # The offset notation (+1.234e6 above the axis) hides how flat the end is.
        ax.ticklabel_format(axis="y", useOffset=False)
        ax.set_ylabel("objective")
    marker = "o" if len(trace) <= 40 else None
    ax.plot(number, shown, color=BLUE, marker=marker, markersize=3.5)
    ax.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    room = max(0.5, 0.03 * len(trace))
    ax.set_xlim(1 - room, len(trace) + room)
    ax.set_xlabel("iteration")
    _write_ending(ax, len(trace), converged=converged)
    tidy(ax)
    return ax


def _gap(number: Ints, trace: Floats) -> tuple[Ints, Floats]:
    """Iterations that were below the last value, and by how much."""
    missing = trace[-1] - trace
    positive = missing > 0
    if not positive.any():
        raise ValueError("the objective never changed, so no gap can be drawn. Use gap=False.")
    return number[positive], missing[positive]


def _write_ending(ax: Any, n_iter: int, *, converged: bool) -> None:
    steps = counted(n_iter, "iteration")
    ax.set_title(
        f"converged after {steps}" if converged else f"not converged after {steps}",
        fontsize=10,
        color="black" if converged else VERMILLION,
    )


#: Colour and marker of each reason to remove a component.
_LOOKS = {"relevance": (VERMILLION, "o"), "evidence": ("#009E73", "s")}
_OTHER_LOOK = (GREY, "D")
#: Largest number of removals that are labelled with their relevance; more labels would overlap.
_MOST_TOLD = 12


def plot_pruning_path(model: Any, ax: Any = None) -> Any:
    """Plot the number of components during the fit; each removal is marked with its reason and ARD precision.

    Parameters
    ----------
    model : fitted estimator
        With ``pruning_path_``, a sequence of removals with ``iteration``, ``n_components`` (before), ``alpha`` and
        ``reason``, and ``n_components_``; such as `SePCA`.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new Axes on a new figure if not given.

    Returns
    -------
    ax : matplotlib.axes.Axes
        At most 12 removals are labelled with alpha, the ARD precision of the component when it was pruned.

    Raises
    ------
    AttributeError
        If the model prunes no components.

    See Also
    --------
    plot_survival : how well the data support the remaining components.
    """
    path = tuple(fitted(model, "pruning_path_", remedy="Draw a model that prunes components, such as SePCA."))
    last = int(fitted(model, "n_components_"))
    ax = new_axes(5.6, 3.8) if ax is None else ax
    _draw_steps(ax, path, last)
    for reason in dict.fromkeys(removal.reason for removal in path):
        mine = [removal for removal in path if removal.reason == reason]
        color, marker = _LOOKS.get(reason, _OTHER_LOOK)
        # The mark is at the level after the removal.
        place = np.array([(removal.iteration, removal.n_components - 1) for removal in mine])
        ax.plot(*place.T, marker, color=color, markersize=5, label=f"removed for lack of {reason}", zorder=3)
    if len(path) <= _MOST_TOLD:
        _tell_relevances(ax, path)
    if path:
        ax.legend(frameon=False, fontsize=8)
    _name_axes(ax, path, last)
    return ax


def _draw_steps(ax: Any, path: Sequence[Any], last: int) -> None:
    """The number of components from the first sweep to some time after the last removal."""
    iterations = [removal.iteration for removal in path]
    end = 1.12 * max(iterations, default=1)
    levels = [*(removal.n_components for removal in path), last]
    ax.step([0, *iterations, end], [*levels, last], where="post", color=BLUE, linewidth=1.5)
    # The labels are to the left of the steps, the first one to the left of 0.
    ax.set_xlim(-0.13 * end if path else 0.0, end)
    ax.set_xticks([tick for tick in ax.get_xticks() if 0 <= tick <= end])
    ax.set_ylim(min(last, 0) - 0.3, max(levels) + 0.9)


def _tell_relevances(ax: Any, path: Sequence[Any]) -> None:
    for removal in path:
        ax.annotate(
            f"α = {removal.alpha:,.0f}" if removal.alpha >= 10 else f"α = {removal.alpha:.2g}",
            xy=(removal.iteration, removal.n_components - 1),
            xytext=(-5, -3),
            textcoords="offset points",
            ha="right",
            va="top",
            fontsize=7,
            color=GREY,
        )


def _name_axes(ax: Any, path: Sequence[Any], last: int) -> None:
    kept = counted(last, "component")
    title = f"{path[0].n_components} pruned to {kept}" if path else f"no component removed: {kept}"
    ax.set_title(title, fontsize=10)
    ax.yaxis.get_major_locator().set_params(integer=True)
    ax.set(xlabel="sweeps over the table", ylabel="number of components")
    tidy(ax)


def plot_rank_selection(result: Any, ax: Any = None) -> Any:
    """Plot the criterion over the ranks, with the chosen rank marked; lower is better.

    For held-out losses, thin lines show the splits and bars show one standard error.

    Parameters
    ----------
    result : RankSelection
        Result of `anypca.selection.select_rank`.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new Axes on a new figure if not given.

    See Also
    --------
    anypca.selection.select_rank : computes it.
    """
    ax = new_axes(5.0, 3.6) if ax is None else ax
    ranks, values, errors = result.ranks, result.values, result.standard_errors
    if result.fold_losses is not None and len(result.fold_losses) > 1:
        for losses in result.fold_losses:
            ax.plot(ranks, losses, color=GREY, linewidth=0.6, alpha=0.35, zorder=1)
    if errors is not None:
        ax.errorbar(ranks, values, yerr=errors, fmt="none", ecolor=BLUE, elinewidth=1.0, capsize=2.5)
    ax.plot(ranks, values, color=BLUE, marker="o", markersize=4, label=result.label, zorder=3)
    chosen = ranks.index(result.best_rank)
    ax.plot(
        [result.best_rank],
        [values[chosen]],
        linestyle="none",
        marker="o",
        markersize=9,
        markerfacecolor="none",
        markeredgecolor=VERMILLION,
        markeredgewidth=1.8,
        zorder=4,
    )
    if result.one_standard_error and errors is not None:
        lowest = int(values.argmin())
        ax.axhline(values[lowest] + errors[lowest], color=GREY, linestyle="--", linewidth=0.8, zorder=0)
    ax.set_title(f"chosen: {result.best_rank}", fontsize=10)
    # The offset notation hides by how much ranks differ.
    ax.ticklabel_format(axis="y", useOffset=False)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set(xlabel="number of components", ylabel=result.label)
    tidy(ax)
    return ax

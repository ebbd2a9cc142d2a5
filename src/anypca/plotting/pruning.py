"""How automatic relevance determination chose the dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anypca._words import counted
from anypca.plotting._style import BLUE, GREY, VERMILLION, fitted, new_axes, tidy

#: Colour and marker of each reason to remove a component.
_LOOKS = {"relevance": (VERMILLION, "o"), "evidence": ("#009E73", "s")}
_OTHER_LOOK = (GREY, "D")
#: Up to this many removals the relevance of each is written beside it; the numbers of more would run into each other.
_MOST_TOLD = 12


def plot_pruning_path(model: Any, ax: Any = None) -> Any:
    """The number of components during the fit, each removal marked with its reason and its relevance.

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
        Beside each of at most 12 removals stands its alpha, the prior precision of its loadings when it left.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    AttributeError
        If the model prunes no components.
    """
    path = tuple(fitted(model, "pruning_path_", remedy="Draw a model that prunes components, such as SePCA."))
    last = int(fitted(model, "n_components_"))
    ax = new_axes(5.6, 3.8) if ax is None else ax
    _draw_steps(ax, path, last)
    for reason in dict.fromkeys(removal.reason for removal in path):
        mine = [removal for removal in path if removal.reason == reason]
        color, marker = _LOOKS.get(reason, _OTHER_LOOK)
        # The mark stands on the level that the removal leads to.
        place = np.array([(removal.iteration, removal.n_components - 1) for removal in mine])
        ax.plot(*place.T, marker, color=color, markersize=5, label=f"removed for lack of {reason}", zorder=3)
    if len(path) <= _MOST_TOLD:
        _tell_relevances(ax, path)
    if path:
        ax.legend(frameon=False, fontsize=8)
    _name(ax, path, last)
    return ax


def _draw_steps(ax: Any, path: Sequence[Any], last: int) -> None:
    """The number of components from the first sweep to some time after the last removal."""
    iterations = [removal.iteration for removal in path]
    end = 1.12 * max(iterations, default=1)
    levels = [*(removal.n_components for removal in path), last]
    ax.step([0, *iterations, end], [*levels, last], where="post", color=BLUE, linewidth=1.5)
    # The relevances stand to the left of the steps, the first one to the left of 0.
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


def _name(ax: Any, path: Sequence[Any], last: int) -> None:
    kept = counted(last, "component")
    title = f"{path[0].n_components} pruned to {kept}" if path else f"no component removed: {kept}"
    ax.set_title(title, fontsize=10)
    ax.yaxis.get_major_locator().set_params(integer=True)
    ax.set_xlabel("sweeps over the table")
    ax.set_ylabel("number of components")
    tidy(ax)

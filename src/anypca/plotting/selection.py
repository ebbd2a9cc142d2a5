"""Which number of components was chosen, and how clearly."""

from __future__ import annotations

from typing import Any

from anypca.plotting._style import BLUE, GREY, VERMILLION, new_axes, tidy


def plot_rank_selection(result: Any, ax: Any = None) -> Any:
    """The criterion over the ranks, with the chosen one marked; lower is better.

    Held-out losses come with the values of the splits as thin lines and with bars of one standard error.

    Parameters
    ----------
    result : RankSelection
        What `anypca.selection.select_rank` returned.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new Axes on a new figure if not given.

    Returns
    -------
    ax : matplotlib.axes.Axes
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
    ax.set_xlabel("number of components")
    ax.set_ylabel(result.label)
    tidy(ax)
    return ax

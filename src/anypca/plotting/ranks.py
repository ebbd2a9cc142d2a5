"""Plots of answers on the number of components, and of survival curves of components."""

from __future__ import annotations

from typing import Any

import numpy as np

from anypca._words import counted
from anypca.plotting._common import BLACK, BLUE, GREY, PALETTE, new_axes, tidy


def plot_rank_comparison(result: Any, ax: Any = None) -> Any:
    """Plot the answer of each method as a dot in its row, with the run time.

    Methods that do not apply to the table have a row without a dot; ``result.to_frame()`` has the reason.

    Parameters
    ----------
    result : RankComparison
        Result of `anypca.selection.compare_ranks`.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new Axes on a new figure if not given.

    See Also
    --------
    anypca.selection.compare_ranks : computes it.
    """
    answers = result.answers
    ax = new_axes(6.4, 1.1 + 0.3 * len(answers)) if ax is None else ax
    known = list(result.ranks.values())
    last = max(known, default=0)
    for row, answer in enumerate(answers):
        if answer.rank is None:
            ax.text(0, row, "not for this table", color=GREY, fontsize=8, va="center")
            continue
        ax.plot([0, answer.rank], [row, row], color=BLUE, linewidth=1.5, alpha=0.4, zorder=1)
        ax.plot(answer.rank, row, "o", color=BLUE, markersize=7, zorder=2)
        # Times form one column to the right of all dots.
        told = f"{answer.seconds:.2g} s" if answer.seconds >= 0.01 else "< 0.01 s"
        ax.text(last + 0.6, row, told, color=GREY, fontsize=8, va="center")
    _name_rows(ax, result.labels, last)
    _tell_agreement(ax, known)
    return ax


def _name_rows(ax: Any, labels: tuple[str, ...], last: int) -> None:
    ax.set_yticks(range(len(labels)), labels)
    ax.set_ylim(len(labels) - 0.4, -0.6)
    ax.set_xlim(-0.3, last + 1.4)
    ax.set_xticks(range(last + 1) if last <= 10 else [tick for tick in ax.get_xticks() if 0 <= tick <= last])
    ax.grid(axis="x", color="0.9", zorder=0)
    ax.set_axisbelow(True)
    ax.set_xlabel("number of components")
    ax.tick_params(axis="y", length=0)
    tidy(ax)
    ax.spines["left"].set_visible(False)


def _tell_agreement(ax: Any, known: list[int]) -> None:
    """Put the most frequent answer into the title."""
    if not known:
        ax.set_title("no method is for this table", fontsize=10)
        return
    common = max(sorted(set(known)), key=known.count)
    told = counted(common, "component")
    ax.set_title(f"{told}: {known.count(common)} of {counted(len(known), 'method')}", fontsize=10)


#: Decades below the largest pull that are shown; where the data pull less a component has long met its hyperbola.
_DECADES = 3.0


def plot_survival(curve: Any, ax: Any = None) -> Any:
    """Plot the pull of the data on every component against its size, and the hyperbola that it must reach.

    A component whose curve stays below the dashed hyperbola is pruned. The grey curve is the best candidate for one
    more component. Dots are the components as fitted, where their curves meet the hyperbola from above; the legend has
    their critical weights.

    Parameters
    ----------
    curve : SurvivalCurve
        Result of `anypca.selection.survival_curve`.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new Axes on a new figure if not given.

    See Also
    --------
    anypca.selection.survival_curve : computes it.

    References
    ----------
    J. Li, D. Tao (2013). Simple exponential family PCA. IEEE Transactions on Neural Networks and Learning Systems,
    figure 2.
    """
    ax = new_axes(5.8, 4.0) if ax is None else ax
    sizes, k = curve.sizes, len(curve.fitted_sizes)
    for j, pull in enumerate(curve.pulls):
        color = GREY if j == k else PALETTE[j % len(PALETTE)]
        name = "one more" if j == k else f"component {j + 1}"
        shown = np.where(pull > 0, pull, np.nan)
        label = rf"{name}: $\nu_c$ = {curve.critical_nu[j]:.2g}"
        ax.plot(sizes, shown, color=color, linewidth=1.5, linestyle=":" if j == k else "-", label=label)
        if j < k:
            ax.plot(curve.fitted_sizes[j], curve.fitted_pulls[j], "o", color=color, markersize=5, zorder=3)
    need = curve.needs[-1] / (curve.nu * sizes)
    ax.plot(sizes, need, "--", color=BLACK, linewidth=1.0, label=rf"needed at $\nu$ = {curve.nu:.2g}")
    top = float(curve.pulls.max(initial=1.0))
    ax.set(xscale="log", yscale="log", xlim=(sizes[0], sizes[-1]))
    ax.set_ylim(top * 10.0**-_DECADES, top * 2.0)
    ax.set_xlabel("size of the component, g")
    ax.set_ylabel("pull of the data, L(g)")
    ax.legend(frameon=False, fontsize=8, loc="lower left")
    tidy(ax)
    return ax

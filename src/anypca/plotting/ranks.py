"""What several methods say of the number of components."""

from __future__ import annotations

from typing import Any

from anypca._words import counted
from anypca.plotting._common import BLUE, GREY, new_axes, tidy


def plot_rank_comparison(result: Any, ax: Any = None) -> Any:
    """A row for each method with a dot at its answer and the time it took.

    Methods that are not for the table have a row without a dot; ``result.to_frame()`` says why.

    Parameters
    ----------
    result : RankComparison
        What `anypca.selection.compare_ranks` returned.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new Axes on a new figure if not given.

    Returns
    -------
    ax : matplotlib.axes.Axes
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
        # Times stand in one column to the right of all dots.
        ax.text(last + 0.6, row, _seconds(answer.seconds), color=GREY, fontsize=8, va="center")
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
    """Say above the picture which answer is the most frequent."""
    if not known:
        ax.set_title("no method is for this table", fontsize=10)
        return
    common = max(sorted(set(known)), key=known.count)
    told = counted(common, "component")
    ax.set_title(f"{told}: {known.count(common)} of {counted(len(known), 'method')}", fontsize=10)


def _seconds(value: float) -> str:
    return f"{value:.2g} s" if value >= 0.01 else "< 0.01 s"

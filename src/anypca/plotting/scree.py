"""How much each component explains."""

from __future__ import annotations

from typing import Any

import numpy as np

from anypca.plotting._style import BLUE, VERMILLION, explained, new_axes, tidy

#: Above this many components their numbers would run into each other.
_MOST_LABELLED = 10


def plot_scree(model: Any, ax: Any = None) -> Any:
    """Bars of the deviance that each component explains, and a line of their running sum.

    Parameters
    ----------
    model : fitted estimator
        With ``explained_deviance_ratio_`` of shape (n_components,), or ``explained_variance_ratio_``.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new Axes on a new figure if not given.

    Returns
    -------
    ax : matplotlib.axes.Axes

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    """
    ratio, what = explained(model)
    ax = new_axes(5.0, 3.6) if ax is None else ax
    number = np.arange(1, len(ratio) + 1)
    percent = 100.0 * ratio
    ax.bar(number, percent, width=0.7, color=BLUE, label="each component")
    if len(ratio) > 1:
        # Points only while they can be told apart.
        marker = "o" if len(ratio) <= 30 else None
        ax.plot(number, percent.cumsum(), color=VERMILLION, marker=marker, markersize=4, label="together")
        ax.legend(frameon=False, loc="best")
    if len(ratio) <= _MOST_LABELLED:
        ax.set_xticks(number)
        _label(ax, number, percent)
    else:
        ax.xaxis.get_major_locator().set_params(integer=True)
    # One or two bars are not stretched over the whole width.
    room = max(0.6, 0.5 * (4 - len(ratio)))
    ax.set_xlim(1 - room, len(ratio) + room)
    ax.set_ylim(0.0, max(1.18 * percent.sum(), 1e-3))
    ax.set_xlabel("component")
    ax.set_ylabel(f"explained {what} (%)")
    tidy(ax)
    return ax


def _label(ax: Any, number: Any, percent: Any) -> None:
    """Write each share into its bar, or above a bar too low for it; the first bar's top is the line's."""
    for x, height in zip(number, percent, strict=True):
        fits = height > 0.08 * percent.sum()
        place = height / 2.0 if fits else height + 0.01 * percent.sum()
        alignment = "center" if fits else "bottom"
        color = "white" if fits else "black"
        ax.text(x, place, f"{height:.1f}", ha="center", va=alignment, fontsize=8, color=color)

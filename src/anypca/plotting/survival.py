"""Which components of a joint mode stand, and how firmly."""

from __future__ import annotations

from typing import Any

import numpy as np

from anypca.plotting._common import BLACK, GREY, PALETTE, new_axes, tidy

#: Decades below the largest pull that are shown; where the data pull less a component has long met its hyperbola.
_DECADES = 3.0


def plot_survival(curve: Any, ax: Any = None) -> Any:
    """The pull of the data on every component against its size, and the hyperbola that it must reach.

    A curve that stays below the dashed hyperbola is that of a component that dies: the grey one is the best candidate
    for one more. Dots are the components as fitted, where their curves meet the hyperbola from above; the legend has
    their critical weights.

    Parameters
    ----------
    curve : SurvivalCurve
        What `anypca.selection.survival_curve` returned.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new Axes on a new figure if not given.

    Returns
    -------
    ax : matplotlib.axes.Axes

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

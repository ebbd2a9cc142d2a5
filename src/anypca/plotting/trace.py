"""How a fit went."""

from __future__ import annotations

from typing import Any

import numpy as np

from anypca.plotting._style import BLUE, VERMILLION, fitted, new_axes, tidy


def plot_trace(model: Any, ax: Any = None) -> Any:
    """The objective after each iteration.

    Parameters
    ----------
    model : fitted estimator
        With ``objective_trace_`` of shape (n_iter,) and ``converged_``.
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
    trace = np.asarray(fitted(model, "objective_trace_"), dtype=float)
    converged = bool(fitted(model, "converged_"))
    ax = new_axes(5.0, 3.6) if ax is None else ax
    marker = "o" if len(trace) <= 40 else None
    ax.plot(np.arange(1, len(trace) + 1), trace, color=BLUE, marker=marker, markersize=3.5)
    ax.xaxis.get_major_locator().set_params(integer=True)
    # The offset notation (+1.234e6 above the axis) hides what matters here: how flat the end is.
    ax.ticklabel_format(axis="y", useOffset=False)
    ax.set_xlabel("iteration")
    ax.set_ylabel("objective")
    steps = f"{len(trace)} iteration{'' if len(trace) == 1 else 's'}"
    ax.set_title(
        f"converged after {steps}" if converged else f"not converged after {steps}",
        fontsize=10,
        color="black" if converged else VERMILLION,
    )
    tidy(ax)
    return ax

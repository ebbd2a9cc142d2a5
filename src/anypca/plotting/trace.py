"""How a fit went."""

from __future__ import annotations

from typing import Any

import numpy as np

from anypca._typing import Floats, Ints
from anypca._words import counted
from anypca.plotting._style import BLUE, VERMILLION, fitted, new_axes, tidy


def plot_trace(model: Any, ax: Any = None, *, gap: bool = False) -> Any:
    """The objective after each iteration.

    Parameters
    ----------
    model : fitted estimator
        With ``objective_trace_`` of shape (n_iter,) and ``converged_``.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new Axes on a new figure if not given.
    gap : bool, default=False
        Draw what was missing to the last value instead, on a logarithmic axis: it shows the end of a fit whose first
        steps gained most.

    Returns
    -------
    ax : matplotlib.axes.Axes

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    AttributeError
        If the model keeps no trace of its fit.
    ValueError
        If ``gap`` is asked of a trace that never changed.
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
        # The offset notation (+1.234e6 above the axis) hides what matters here: how flat the end is.
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

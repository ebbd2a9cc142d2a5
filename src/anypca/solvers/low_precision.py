"""First sweeps in faster, less exact arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anypca.solvers.checkpoint import Entry
from anypca.solvers.sweeps import Point, monotone_trace

if TYPE_CHECKING:
    from anypca.solvers.loop import Loop

# A proposal that needs more halvings than this suffers from rounding.
_MAX_BACKTRACKS = 3
# Scaled gradient at which low precision ends: a quadratic model gains a millionth per entry there, close to what single
# precision resolves.
_TOL = 1e-3
# The last sweep is exact, and the first one initialises.
_FEWEST_SWEEPS = 2


def approach(
    loop: Loop[Any, Any, Any], shared: Any, local: Sequence[Any] | None, stats: Any, known: Entry | None
) -> tuple[list[Point[Any, Any]], list[float]] | None:
    """Run sweeps in low precision until they stall or converge, then one exact sweep.

    Returns
    -------
    tuple or None
        The point of the exact sweep, in a list of one, and the trace; ``None`` if the problem has no low precision, or
        overflows in it.
    """
    problem = loop.problem.low_precision() if loop.max_iter > _FEWEST_SWEEPS else None
    if problem is None:
        return None
    sweeper = replace(loop.sweeper, problem=problem, max_backtracks=_MAX_BACKTRACKS)
    point, trace = sweeper.start(shared, local, stats, known)
    if not point.is_usable:
        return None
    proposal, slack = problem.without_gauge(point.shared), 0.0
    for iteration in range(len(trace), loop.max_iter):
        update = sweeper.update(point)
        slack = problem.resolution(point.shared, point.stats)
        loop.report(iteration, point, update.criterion)
        is_last = iteration == loop.max_iter - 1
        if is_last or update.gain <= slack or not update.criterion > max(loop.tol, _TOL):
            proposal = update.shared
            break
        better = sweeper.improve(point, update.shared)
        if better is None or not better.is_usable:
            break
        point, trace = better, monotone_trace(trace, better.objective)
        proposal = problem.without_gauge(point.shared)
        loop.checkpointer.save(point.shared, trace)
    exact = loop.sweeper.sweep(proposal, point.local)
    if not exact.objective >= point.objective - slack:
        exact = loop.sweeper.sweep(loop.problem.without_gauge(point.shared), point.local)
    return [exact], monotone_trace(trace, exact.objective)

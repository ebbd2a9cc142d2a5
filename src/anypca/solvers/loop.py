"""The loop of every iterative fit: initialise, sweep, update, check, stop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic

import numpy as np

from anypca.engine import Data, Executor
from anypca.solvers.acceleration import Extrapolator
from anypca.solvers.checkpoint import NULL_CHECKPOINTER, Entry, NullCheckpointer
from anypca.solvers.low_precision import approach
from anypca.solvers.problem import BlockProblem, Local, Shared, Stats, Update
from anypca.solvers.result import Callback, Progress, Result, StallCounter, Status, check_finite
from anypca.solvers.sweeps import Point, Sweeper, SweptRows


class Loop(Generic[Shared, Local, Stats]):
    """Runs a `BlockProblem` over the blocks of a table; the objective never decreases.

    Parameters
    ----------
    problem : BlockProblem
    data : Data
    executor : Executor
    max_iter : int
        Largest number of accepted sweeps, the first one included.
    tol : float
        Stop if the problem's criterion (a scaled gradient) is at most this.
    accelerate : bool
        Extrapolate the shared parameters; a proposal that decreases the objective is rejected.
    callback : callable or None
        Called with a `Progress` after each iteration.
    checkpointer : NullCheckpointer
        Saves each iteration; a run that it has loaded is continued.
    """

    def __init__(
        self,
        problem: BlockProblem[Shared, Local, Stats],
        data: Data,
        executor: Executor,
        *,
        max_iter: int,
        tol: float,
        accelerate: bool = True,
        callback: Callback | None = None,
        checkpointer: NullCheckpointer = NULL_CHECKPOINTER,
    ) -> None:
        self.problem, self.max_iter, self.tol = problem, max_iter, tol
        self.sweeper = Sweeper(problem, data, executor, Extrapolator() if accelerate else None)
        self.callback, self.checkpointer = callback, checkpointer

    def run(
        self,
        shared: Shared,
        local: Sequence[Any] | None = None,
        stats: Stats | None = None,
        update: Update[Shared] | None = None,
    ) -> tuple[Result[Shared], Sequence[Any], Stats]:
        """Iterate from ``shared``.

        Parameters
        ----------
        shared
        local : sequence or None
            The rows' state, block by block.
        stats
            Statistics of the sweep that ended with ``shared`` and ``local``, if known: the run then begins with an
            update.
        update : Update or None
            That update, if known: `Result.update` of the run that ended there.

        Returns
        -------
        result : Result
        local : sequence
            The rows' state, block by block, on the workers that hold the blocks.
        stats
            Statistics of the last accepted sweep, at ``result.shared``.
        """
        is_reported = self.callback is not None
        known = self.checkpointer.load(self.problem, shared, is_reported=is_reported)
        if known is not None and known.status is not None:
            result = Result(known.shared, known.trace, known.status, known.criterion, len(known.trace))
            return result, SweptRows(self.sweeper, known.shared), known.stats
        # Points are passed on in lists of one: a second name would keep their sums in memory during all sweeps.
        start, trace = self._initialise(shared, local, stats, known)
        result, end = self._iterate(start, trace, update if start[0].stats is stats else None)
        self.checkpointer.close(result, end.stats, is_reported=is_reported)
        return result, end.local, end.stats

    def _initialise(
        self, shared: Shared, local: Sequence[Any] | None, stats: Stats | None, known: Entry | None
    ) -> tuple[list[Point[Shared, Stats]], list[float]]:
        """The first point and the trace up to it."""
        found = approach(self, shared, local, stats, known)
        if found is not None:
            return found
        start, trace = self.sweeper.start(shared, local, stats, known)
        check_finite(start.objective, 0)
        return [start], trace

    def _iterate(
        self, start: list[Point[Shared, Stats]], trace: list[float], update: Update[Shared] | None
    ) -> tuple[Result[Shared], Point[Shared, Stats]]:
        """Sweeps until one of the reasons to stop."""
        point = start.pop()
        status, criterion, stalled = Status.MAX_ITER, np.inf, StallCounter()
        for iteration in range(min(len(trace), self.max_iter), self.max_iter + 1):
            update = self.sweeper.update(point) if update is None else update
            criterion = update.criterion
            check_finite(criterion, iteration)
            self.report(iteration, point, criterion)
            if criterion <= self.tol:
                status = Status.CONVERGED
                break
            if iteration == self.max_iter:
                break  # the criterion above belongs to the last sweep
            is_rounding = update.gain <= self.problem.resolution(point.shared, point.stats)
            if is_rounding and stalled.has_stalled(criterion):
                status = Status.PRECISION
                break
            better, update = self.sweeper.improve(point, update.shared), None
            if better is None:
                status = Status.PRECISION if is_rounding else Status.STALLED
                break
            check_finite(better.objective, iteration)
            point = better
            trace.append(point.objective)
            self.checkpointer.save(point.shared, trace)
        # A run that has converged needs no proposal, which would only take memory.
        pending = update if status is Status.MAX_ITER else None
        return Result(point.shared, np.array(trace), status, float(criterion), len(trace), pending), point

    def report(self, iteration: int, point: Point[Shared, Stats], criterion: float) -> None:
        """Call the callback."""
        if self.callback is not None:
            self.callback(Progress(iteration, self.max_iter, point.objective, criterion))

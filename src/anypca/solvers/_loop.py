"""The one loop behind every iterative fit: sweep, sum, update, trace, stop on stationarity; and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Any, Generic, NamedTuple

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block, Data, Executor, is_finite
from anypca.exceptions import NonFiniteError
from anypca.solvers._block_problem import BlockProblem, Local, Shared, Stats, Update
from anypca.solvers.bfgs import QuasiNewton
from anypca.solvers.checkpoint import NO_JOURNAL, Entry, NoJournal


class Status(Enum):
    """How a solve ended; the value is the message."""

    CONVERGED = "converged: the scaled gradient is below tol"
    PRECISION = "converged to working precision: a further step would gain less than the objective's rounding"
    STALLED = "stalled: no step improves the objective in working precision; the scaled gradient is above tol"
    MAX_ITER = "stopped at max_iter before the scaled gradient fell below tol; increase max_iter or tol"
    PLATEAU = "converged: the objective has stopped rising"
    RISING = "stopped at max_iter while the objective was still rising; increase max_iter"


@dataclass(frozen=True)
class Result(Generic[Shared]):
    """Outcome of a solve."""

    shared: Shared
    """The fitted shared parameters."""
    trace: Floats
    """Objective after each iteration, never decreasing, shape (n_iter,)."""
    status: Status
    criterion: float
    """Scaled gradient at the end."""
    n_iter: int
    update: Update[Shared] | None = None
    """The proposal with which a run goes on that ended at its last sweep; ``None`` where none was made."""

    @property
    def converged(self) -> bool:
        return self.status in (Status.CONVERGED, Status.PRECISION, Status.PLATEAU)


# A repaired proposal approaches the current point by halving; after 30 halvings it is the current point.
_MAX_REPAIRS = 30
# A rough proposal that needs more than this suffers from rounding, which the exact problem has less of.
_MAX_ROUGH_REPAIRS = 3
# Sweeps without a smaller gradient that are tolerated where rounding hides what they gain.
_PATIENCE = 5
# Scaled gradient at which rough sweeps end: a quadratic model gains a millionth per entry there, near to what single
# precision resolves, and the tail of a fit is then in double precision.
_ROUGH_TOL = 1e-3
# Runs of so few sweeps have no rough ones, as the last is exact and the first tells where they start.
_FEWEST_SWEEPS = 2
# Sweeps to solve the rows anew under given shared parameters: Newton steps need about ten, held back some tens.
_MAX_REBUILDS = 50


class Progress(NamedTuple):
    """What a callback is told after each iteration."""

    iteration: int
    max_iter: int
    objective: float
    criterion: float


Callback = Callable[[Progress], None]


@dataclass(frozen=True)
class _Point(Generic[Shared, Stats]):
    shared: Shared
    local: Sequence[Any]
    stats: Stats
    objective: float


class _Patience:
    """Ends sweeps whose gain rounding hides: they may still bring the gradient down, but can also go on by chance."""

    def __init__(self) -> None:
        self._best = np.inf
        self._idle = 0

    def is_spent(self, criterion: float) -> bool:
        """Whether several sweeps in a row have not reached a smaller gradient than before."""
        self._idle = 0 if criterion < self._best else self._idle + 1
        self._best = min(self._best, criterion)
        return self._idle >= _PATIENCE


def _rising(trace: Sequence[float], objective: float) -> list[float]:
    """A trace with a further value, without what is above that by the rounding of another arithmetic."""
    return [*(value for value in trace if value < objective), objective]


def _is_usable(point: _Point[Any, Any]) -> bool:
    """Whether rough sweeps may go on from a point: squares overflow in single precision before values do."""
    return bool(np.isfinite(point.objective)) and is_finite(point.stats)


class _Rebuilt(Sequence[Any]):
    """The rows' state at the end of a run that another process did, made when it is asked for."""

    def __init__(self, loop: Loop[Any, Any, Any], shared: Any) -> None:
        self._loop = loop
        self._shared = shared

    @cached_property
    def _rows(self) -> Sequence[Any]:
        return self._loop.rebuild(self._shared).local

    def __len__(self) -> int:
        return len(self._loop.data.blocks)

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]


class Loop(Generic[Shared, Local, Stats]):
    """Runs a `BlockProblem` over the blocks of a table.

    Parameters
    ----------
    problem : BlockProblem
    data : Data
    executor : Executor
    max_iter : int
        Largest number of sweeps that are accepted, the first one included.
    tol : float
        Stop when the problem's criterion (a scaled gradient) is at most this.
    accelerate : bool
        Extrapolate the shared parameters, guarded by the objective.
    callback : callable or None
        Called with a `Progress` after each iteration.
    journal : NoJournal
        Told of each iteration; where it knows the run already, that goes on from there.

    Notes
    -----
    The objective never decreases: a sweep whose objective is worse than the last is not accepted. An
    extrapolated proposal that is worse falls back to the plain one, a plain one is repaired by the problem.
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
        journal: NoJournal = NO_JOURNAL,
    ) -> None:
        self.problem = problem
        # The problem in the arithmetic of the present sweeps.
        self._working = problem
        self.data = data
        self.executor = executor
        self.max_iter = max_iter
        self.tol = tol
        self.acceleration = QuasiNewton() if accelerate else None
        self.callback = callback
        self.journal = journal

    def run(
        self,
        shared: Shared,
        local: Sequence[Any] | None = None,
        stats: Stats | None = None,
        update: Update[Shared] | None = None,
    ) -> tuple[Result[Shared], Sequence[Any], Stats]:
        """Iterate from ``shared`` (and warm-started rows).

        Parameters
        ----------
        shared
        local : sequence or None
            The rows' state, block by block.
        stats
            Statistics of the sweep that ended with ``shared`` and ``local``, if they are known: the run then begins
            with their update and not with a sweep.
        update : Update or None
            That update, if it is known: `Result.update` of the run that ended there.

        Returns
        -------
        result : Result
        local : sequence
            The rows' state, block by block, where the blocks are.
        stats
            Statistics of the last accepted sweep, at ``result.shared``.
        """
        is_reported = self.callback is not None
        known = self.journal.begin(self.problem, shared, is_reported=is_reported)
        if known is not None and known.status is not None:
            result = Result(known.shared, known.trace, known.status, known.criterion, len(known.trace))
            return result, _Rebuilt(self, known.shared), known.stats
        rough = self.problem.rough() if self.max_iter > _FEWEST_SWEEPS else None
        if rough is not None:
            self._working = rough
            point, trace = self._begin(shared, local, stats, known)
        if rough is None or not _is_usable(point):
            self._working = self.problem
            point, trace = self._begin(shared, local, stats, known)
            self._check_finite(point.objective, 0)
        else:
            held = [point]
            del point
            point, trace = self._approach(held, trace)
        known_update = update if point.stats is stats else None
        held = [point]
        del point
        result, point = self._iterate(held, trace, known_update)
        self.journal.finish(result, point.stats, is_reported=is_reported)
        return result, point.local, point.stats

    def _begin(
        self, shared: Shared, local: Sequence[Any] | None, stats: Stats | None, known: Entry | None
    ) -> tuple[_Point[Shared, Stats], list[float]]:
        """The first point and the trace up to it, those of an earlier process where they are known."""
        if known is None:
            if local is None or stats is None:
                point = self._visit(shared, local)
            else:
                point = _Point(shared, local, stats, self._working.objective(shared, stats))
            return point, [point.objective]
        point = self.rebuild(known.shared)
        # Rows that were solved anew are at least as good, unless they have several optima: the trace never decreases.
        return point, _rising(known.trace.tolist(), point.objective)

    def _iterate(
        self, held: list[_Point[Shared, Stats]], trace: list[float], plain: Update[Shared] | None
    ) -> tuple[Result[Shared], _Point[Shared, Stats]]:
        """Sweeps until one of the reasons to stop, the first with an update that is known; where they led.

        The point to go on from is taken out of a list: a caller that named it would keep its sums during all sweeps.
        """
        point = held.pop()
        status, criterion, patience = Status.MAX_ITER, np.inf, _Patience()
        for iteration in range(min(len(trace), self.max_iter), self.max_iter + 1):
            if plain is None:
                plain = self._propose(self.problem, point)
            criterion = plain.criterion
            self._check_finite(criterion, iteration)
            if self.callback is not None:
                self.callback(Progress(iteration, self.max_iter, point.objective, criterion))
            if criterion <= self.tol:
                status = Status.CONVERGED
                break
            if iteration == self.max_iter:
                break  # the criterion above is that of the last sweep
            is_hidden = plain.gain <= self.problem.resolution(point.shared, point.stats)
            if is_hidden and patience.is_spent(criterion):
                status = Status.PRECISION
                break
            better, plain = self._improve(point, plain.shared), None
            if better is None:
                status = Status.PRECISION if is_hidden else Status.STALLED
                break
            self._check_finite(better.objective, iteration)
            point = better
            trace.append(point.objective)
            self.journal.note(point.shared, trace)
        # A run that has ended for good needs no proposal, which would only take memory.
        pending = plain if status is Status.MAX_ITER else None
        return Result(point.shared, np.array(trace), status, float(criterion), len(trace), pending), point

    def _approach(
        self, held: list[_Point[Shared, Stats]], trace: list[float]
    ) -> tuple[_Point[Shared, Stats], list[float]]:
        """Rough sweeps from a point until they have done what they can, then an exact one; see `_iterate`."""
        point = held.pop()
        proposal, slack = self._working.at_rest(point.shared), 0.0
        for iteration in range(len(trace), self.max_iter):
            plain = self._propose(self._working, point)
            slack = self._working.resolution(point.shared, point.stats)
            if self.callback is not None:
                self.callback(Progress(iteration, self.max_iter, point.objective, plain.criterion))
            is_last = iteration == self.max_iter - 1
            if is_last or plain.gain <= slack or not plain.criterion > max(self.tol, _ROUGH_TOL):
                proposal = plain.shared
                break
            better = self._improve(point, plain.shared)
            if better is None or not _is_usable(better):
                break
            point, trace = better, _rising(trace, better.objective)
            proposal = self._working.at_rest(point.shared)
            self.journal.note(point.shared, trace)
        self._working = self.problem
        exact = self._visit(proposal, point.local)
        if not exact.objective >= point.objective - slack:
            exact = self._visit(self.problem.at_rest(point.shared), point.local)
        return exact, _rising(trace, exact.objective)

    def rebuild(self, shared: Shared) -> _Point[Shared, Stats]:
        """The rows solved anew under shared parameters that stay as they are."""
        shared = self._working.at_rest(shared)
        point = self._visit(shared, None)
        for _ in range(_MAX_REBUILDS):
            last, point = point, self._visit(shared, point.local)
            if not point.objective - last.objective > self._working.resolution(shared, point.stats):
                break
        return point

    def _visit(self, shared: Shared, local: Sequence[Any] | None) -> _Point[Shared, Stats]:
        problem = self._working

        def step(block: Block, rows: Local | None) -> tuple[Local, Any]:
            return problem.step(block, shared, rows)

        new_local, stats = self.executor.sweep(step, self.data, local)
        return _Point(shared, new_local, stats, problem.objective(shared, stats))

    def _propose(
        self, problem: BlockProblem[Shared, Local, Stats], point: _Point[Shared, Stats]
    ) -> Update[Shared]:
        """The next shared parameters, with sums over the blocks at the rows of a point if the problem asks for them."""

        def total(function: Callable[[Block, Any], Any]) -> Any:
            return self.executor.sum(function, self.data, point.local)

        return problem.propose(point.shared, point.stats, total, self.executor.share)

    def _improve(self, point: _Point[Shared, Stats], plain: Shared) -> _Point[Shared, Stats] | None:
        """A better point, from the extrapolated proposal or else the plain one; ``None`` if there is none."""
        return self._extrapolate(point, plain) or self._advance(point, plain)

    def _extrapolate(self, point: _Point[Shared, Stats], plain: Shared) -> _Point[Shared, Stats] | None:
        """Try the extrapolated proposal; ``None`` when there is none or it is not better."""
        if self.acceleration is None:
            return None
        proposal = self._extrapolated(point, plain, self.acceleration)
        if proposal is None:
            return None
        trial = self._visit(proposal, point.local)
        # Squares of huge values overflow before the objective does; nothing can be computed from such sums.
        is_better = _is_usable(trial) and trial.objective > point.objective
        self.acceleration.judge(accepted=is_better)
        return trial if is_better else None

    def _extrapolated(
        self, point: _Point[Shared, Stats], plain: Shared, acceleration: QuasiNewton
    ) -> Shared | None:
        there = self._working.coordinates(plain, point.stats)
        if there is not None:
            there = there._replace(metric=there.vector)  # not two metrics at a time
        here = self._working.coordinates(point.shared, point.stats)
        if here is None or there is None:
            return None
        vector = acceleration.propose(here.vector, there.vector, here.metric)
        return None if vector is None else self._working.with_coordinates(vector, plain)

    def _advance(self, point: _Point[Shared, Stats], proposal: Shared) -> _Point[Shared, Stats] | None:
        """Sweep with the plain proposal, repaired until no part of it is worse, or only one that is tolerated."""
        for _ in range(_MAX_REPAIRS if self._working is self.problem else _MAX_ROUGH_REPAIRS):
            trial = self._visit(proposal, point.local)
            gain = trial.objective - point.objective
            taken = self._working.tolerated(point.shared, proposal, point.stats, trial.stats, gain)
            if taken is not None:
                return replace(trial, shared=taken)
            repaired = self._working.repair(point.shared, proposal, point.stats, trial.stats)
            if repaired is None:
                # Rounding aside this cannot be worse; if it is, or its sums overflow, nothing better can be had. A
                # value that is not finite goes back to be reported.
                slack = self._working.resolution(point.shared, point.stats)
                is_worse = trial.objective < point.objective - slack or not is_finite(trial.stats)
                return None if is_worse and np.isfinite(trial.objective) else trial
            proposal = repaired
            del trial  # else its sums would stay during the next sweep
        return None

    @staticmethod
    def _check_finite(value: float, iteration: int) -> None:
        if not np.isfinite(value):
            raise NonFiniteError(
                f"the fit became non-finite ({value}) at iteration {iteration}. Look for extreme values in X, "
                "or rescale gaussian columns; a larger ridge also helps."
            )

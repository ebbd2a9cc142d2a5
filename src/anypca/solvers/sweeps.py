"""Sweeps over the blocks of a table, and steps that increase the objective."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic

import numpy as np

from anypca.engine import Block, Data, Executor, is_finite
from anypca.solvers.acceleration import Extrapolator
from anypca.solvers.checkpoint import Entry
from anypca.solvers.problem import BlockProblem, Local, Shared, Stats, Update

# A step is halved this often at most; it is then below the spacing of numbers.
_MAX_BACKTRACKS = 30
# Sweeps to solve the rows anew under given shared parameters: Newton steps need about ten, damped ones some tens.
_MAX_REBUILDS = 50


@dataclass(frozen=True)
class Point(Generic[Shared, Stats]):
    """Parameters, rows and statistics after a sweep."""

    shared: Shared
    local: Sequence[Any]
    stats: Stats
    objective: float

    @property
    def is_usable(self) -> bool:
        """Whether a step may start here: squares overflow before the objective does."""
        return bool(np.isfinite(self.objective)) and is_finite(self.stats)


@dataclass(frozen=True, eq=False)
class Sweeper(Generic[Shared, Local, Stats]):
    """Visits the blocks of a table with a problem."""

    problem: BlockProblem[Shared, Local, Stats]
    data: Data
    executor: Executor
    extrapolator: Extrapolator | None
    max_backtracks: int = _MAX_BACKTRACKS

    def start(
        self, shared: Shared, local: Sequence[Any] | None, stats: Stats | None, known: Entry | None
    ) -> tuple[Point[Shared, Stats], list[float]]:
        """The first point and the trace up to it, which an earlier process may have saved."""
        if known is not None:
            point = self.rebuild(known.shared)
            # Rows that were solved anew are at least as good, unless they have several optima.
            return point, monotone_trace(known.trace.tolist(), point.objective)
        if local is None or stats is None:
            point = self.sweep(shared, local)
        else:
            point = Point(shared, local, stats, self.problem.objective(shared, stats))
        return point, [point.objective]

    def sweep(self, shared: Shared, local: Sequence[Any] | None) -> Point[Shared, Stats]:
        """One step of all rows."""
        problem = self.problem

        def step(block: Block, rows: Local | None) -> tuple[Local, Any]:
            return problem.step(block, shared, rows)

        new_local, stats = self.executor.sweep(step, self.data, local)
        return Point(shared, new_local, stats, problem.objective(shared, stats))

    def rebuild(self, shared: Shared) -> Point[Shared, Stats]:
        """The rows solved anew under fixed shared parameters."""
        shared = self.problem.without_gauge(shared)
        point = self.sweep(shared, None)
        for _ in range(_MAX_REBUILDS):
            last, point = point, self.sweep(shared, point.local)
            if not point.objective - last.objective > self.problem.resolution(shared, point.stats):
                break
        return point

    def update(self, point: Point[Shared, Stats]) -> Update[Shared]:
        """The next shared parameters."""

        def total(function: Callable[[Block, Any], Any]) -> Any:
            return self.executor.sum(function, self.data, point.local)

        return self.problem.update_over_blocks(point.shared, point.stats, total, self.executor.share)

    def improve(self, point: Point[Shared, Stats], proposal: Shared) -> Point[Shared, Stats] | None:
        """A better point, from the extrapolated proposal or else the plain one; ``None`` if there is none."""
        return self._extrapolate(point, proposal) or self._line_search_step(point, proposal)

    def _extrapolate(self, point: Point[Shared, Stats], plain: Shared) -> Point[Shared, Stats] | None:
        """Try the extrapolated proposal; ``None`` if there is none or it is not better."""
        if self.extrapolator is None:
            return None
        proposal = self.extrapolator.extrapolate(self.problem, point.shared, plain, point.stats)
        if proposal is None:
            return None
        trial = self.sweep(proposal, point.local)
        is_better = trial.is_usable and trial.objective > point.objective
        self.extrapolator.judge(accepted=is_better)
        return trial if is_better else None

    def _line_search_step(self, point: Point[Shared, Stats], proposal: Shared) -> Point[Shared, Stats] | None:
        """Sweep with the plain proposal, shortened until no part of it is worse."""
        for _ in range(self.max_backtracks):
            trial = self.sweep(proposal, point.local)
            shorter = self.problem.backtrack(point.shared, proposal, point.stats, trial.stats)
            if shorter is None:
                # Rounding aside this cannot be worse; if it is, or its sums overflow, nothing better can be had. A
                # value that is not finite is returned, to be reported.
                slack = self.problem.resolution(point.shared, point.stats)
                is_worse = trial.objective < point.objective - slack or not is_finite(trial.stats)
                return None if is_worse and np.isfinite(trial.objective) else trial
            proposal = shorter
            del trial  # else its sums would stay in memory during the next sweep
        return None


class SweptRows(Sequence[Any]):
    """The rows' state at the end of a run of another process, computed on first use."""

    def __init__(self, sweeper: Sweeper[Any, Any, Any], shared: Any) -> None:
        self._sweeper = sweeper
        self._shared = shared

    @cached_property
    def _rows(self) -> Sequence[Any]:
        return self._sweeper.rebuild(self._shared).local

    def __len__(self) -> int:
        return len(self._sweeper.data.blocks)

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]


def monotone_trace(trace: Sequence[float], objective: float) -> list[float]:
    """A trace with a further value, without earlier values that are above it by rounding."""
    return [*(value for value in trace if value < objective), objective]

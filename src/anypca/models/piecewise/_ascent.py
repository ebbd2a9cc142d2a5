"""L-BFGS on the likelihood or on the bound, in coordinates of unit curvature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block
from anypca.models._session import Session
from anypca.models.piecewise._pieces import Coefficients
from anypca.models.piecewise._problem import PieceProblem
from anypca.solvers import Callback, Progress, Result, Status
from anypca.solvers.lbfgs import lbfgs

# Directions in which the rows tell nothing (of an empty piece) get this share of the mean curvature: the root of
# rounding, so that the factor exists and directions with information keep theirs to eight digits.
_RIDGE = 1e-8
# Runs of L-BFGS, each in the units of the point where the last one ended, until one of them has converged and rows
# that are started anew stay where they are.
_MOST_CHARTS = 4
# Scaled gradient of rows in units of the scaled gradient of the coefficients, which is at most this at first.
_ROW_TOL = 0.1
_FIRST_CRITERION = 0.1
# Share of the objective below which rows that are started anew have gained nothing.
_LEAST_GAIN = 1e-6


@dataclass(frozen=True)
class Chart:
    """Coefficients as a vector, 0 at ``origin``, in which the complete-data curvature there is the identity."""

    problem: PieceProblem
    origin: Coefficients
    root: Floats
    """R with ``R C R' = I`` for the curvature C of all columns or of each (1 or n_features, M, M)."""
    scale_units: Floats
    """Roots of the curvature along the logarithms of the scales (n_scales,)."""
    edge_unit: float
    """Root of the number of rows; 0 when the breakpoints are fixed."""

    @property
    def size(self) -> int:
        """Length of the vector: the coefficients, the scales, the breakpoints unless they are fixed."""
        n_edges = len(self.origin.breakpoints) if self.edge_unit else 0
        return self.origin.matrix.size + len(self.scale_units) + n_edges

    def read(self, vector: Floats) -> Coefficients:
        """Coefficients at a vector."""
        n, n_scales = self.origin.matrix.size, len(self.scale_units)
        # Units in which the curvature of a column is the identity: L-BFGS needs few steps there.
        step = (vector[:n].reshape(len(self.origin.matrix), 1, -1) @ self.root)[:, 0]
        moved = replace(
            self.origin,
            matrix=self.origin.matrix + step,
            breakpoints=self._breakpoints(vector[n + n_scales :]),
        )
        return self.problem.with_scales(moved, self._scales(vector[n : n + n_scales]))

    def pull(self, slope: Floats) -> Floats:
        """Gradient with respect to the step from that with respect to D, both (n_features, M)."""
        return np.asarray((self.root @ slope[:, :, None])[:, :, 0])

    def _scales(self, coordinates: Floats) -> Floats:
        """Scales at some coordinates: logarithms of their excess over the floors, which they cannot reach."""
        scales, floors = self.problem.scales(self.origin)
        # An excess below the rounding of the floor is none.
        excess = np.maximum(scales - floors, np.finfo(np.float64).eps * floors)
        return np.asarray(floors + np.exp(np.log(excess) + coordinates / self.scale_units))

    def pull_scales(self, slope: Floats, shared: Coefficients) -> Floats:
        """Gradient with respect to the coordinates of the scales from that in their logarithms."""
        scales, floors = self.problem.scales(shared)
        return np.asarray(slope * (1.0 - floors / scales) / self.scale_units)

    def _breakpoints(self, coordinates: Floats) -> Floats:
        if not len(coordinates):
            return self.origin.breakpoints
        first = self.origin.breakpoints[:1] + coordinates[:1] / self.edge_unit
        # Gaps on the log scale: the order cannot be lost.
        gaps = np.diff(self.origin.breakpoints) * np.exp(coordinates[1:] / self.edge_unit)
        return np.concatenate([first, first + np.cumsum(gaps)])

    def pull_breakpoints(self, slope: Floats, breakpoints: Floats) -> Floats:
        """Gradient with respect to the coordinates of the breakpoints."""
        later = np.cumsum(slope[::-1])[::-1]
        later[1:] *= np.diff(breakpoints)
        return np.asarray(later / self.edge_unit)


def make_chart(problem: PieceProblem, origin: Coefficients, stats: Any, *, fit_breakpoints: bool) -> Chart:
    """Coordinates around a point from the sums made there."""
    curvature = problem.metric(origin, stats)
    m = curvature.shape[1]
    mean = np.trace(curvature, axis1=1, axis2=2)[:, None, None] / m
    factor = np.linalg.cholesky(curvature + _RIDGE * mean * np.eye(m))
    edge_unit = float(np.sqrt(stats.weight)) if fit_breakpoints and len(origin.breakpoints) else 0.0
    n_scales = len(problem.scales(origin)[0])
    units = np.full(n_scales, np.sqrt(0.5 * stats.n_entries / max(n_scales, 1)))
    return Chart(problem, origin, np.linalg.inv(factor), units, edge_unit)


class Reporter:
    """Tells a callback of points that are better than all before them; L-BFGS also tries others."""

    def __init__(self, callback: Callback, max_iter: int) -> None:
        self.callback, self.max_iter = callback, max_iter
        self.reached, self.n_reports = -np.inf, 0

    def tell(self, value: float, criterion: float) -> None:
        if value > self.reached:
            self.reached, self.n_reports = value, self.n_reports + 1
            self.callback(Progress(self.n_reports, self.max_iter, value, criterion))


@dataclass
class Point:
    """Coefficients with the state of the rows there and their sums."""

    shared: Coefficients
    local: Sequence[Any] | None
    stats: Any
    value: float
    criterion: float = np.inf


@dataclass
class Objective:
    """The likelihood or the bound of a table as a function of a chart's vector."""

    session: Session
    chart: Chart
    best: Point
    """The best point so far, where the rows of the next one start."""
    reporter: Reporter = field(repr=False)

    def value_and_gradient(self, vector: Floats) -> tuple[float, Floats]:
        """For `anypca.solvers.lbfgs`."""
        problem, chart = self.chart.problem, self.chart
        shared = chart.read(vector)
        # Errors of unsolved rows add to the gradient: they may be a part of what is left of it.
        row_tol = _ROW_TOL * max(min(self.best.criterion, _FIRST_CRITERION), self.session.tol)
        local, stats = sum_rows(problem, shared, self.session, self.best.local, row_tol)
        reached, value = self.best.value, problem.value(shared, stats)
        if not np.isfinite(value):
            # Predictors overflow far from the best point; the line search comes back from there.
            return reached - 1e3 * (1.0 + abs(reached)), np.zeros(chart.size)
        slope = problem.gradient(shared, stats)
        parts = [
            chart.pull(slope.matrix).ravel(),
            chart.pull_scales(slope.log_scales, shared),
        ]
        if chart.edge_unit:
            parts.append(chart.pull_breakpoints(slope.breakpoints, shared.breakpoints))
        gradient: Floats = np.concatenate(parts)
        criterion = float(np.linalg.norm(gradient) / np.sqrt(stats.n_entries))
        if value >= reached:
            self.best = Point(shared, local, stats, value, criterion)
        self.reporter.tell(value, criterion)
        return value, gradient


def sum_rows(
    problem: PieceProblem,
    shared: Coefficients,
    session: Session,
    local: Sequence[Any] | None = None,
    row_tol: float = _ROW_TOL,
) -> tuple[Sequence[Any], Any]:
    """The state of all rows at some coefficients, from that at others, and their sums."""

    def visit(block: Block, known: Any) -> tuple[Any, Any]:
        return problem.solved(block, shared, known, row_tol)

    return session.executor.sweep(visit, session.data, local)


def _visit(
    problem: PieceProblem, shared: Coefficients, session: Session, local: Sequence[Any] | None = None
) -> Point:
    local, stats = sum_rows(problem, shared, session, local)
    return Point(shared, local, stats, problem.value(shared, stats))


def climb(
    problem: PieceProblem,
    start: Result[Coefficients],
    session: Session,
    *,
    fit_breakpoints: bool = False,
    may_refresh: bool = False,
) -> tuple[Result[Coefficients], Any]:
    """L-BFGS from where a run ended; again from where it ends itself, with fresh units, if it stalls there.

    Parameters
    ----------
    problem : PieceProblem
    start : Result
        Its trace may be empty.
    session : Session
        Its ``max_iter`` is for the steps from here. They stop when the gradient per observed entry, in units of the
        complete-data curvature, is at most its ``tol``.
    fit_breakpoints : bool
    may_refresh : bool
        Whether rows are started anew at the end, and the steps continued if that helps.

    Returns
    -------
    result : Result
        With the trace of ``start`` continued by the objective after each accepted step.
    stats
        Sums at the result.
    """
    reporter = Reporter(session.callback, session.max_iter)
    point = _visit(problem, start.shared, session)
    found, n_left = start, session.max_iter
    for number in range(_MOST_CHARTS):
        chart = make_chart(problem, point.shared, point.stats, fit_breakpoints=fit_breakpoints)
        objective = Objective(session, chart, point, reporter)
        steps = _ascend(objective, n_left)
        n_left -= len(steps.trace) - 1
        found, point = _append(found, steps), objective.best
        if n_left <= 0 or number == _MOST_CHARTS - 1:
            break
        if found.converged:
            fresh = _refreshed(problem, point, session) if may_refresh else None
            if fresh is None:
                break
            point = fresh
    return found, point.stats


def _refreshed(problem: PieceProblem, point: Point, session: Session) -> Point | None:
    """The point with rows started anew, if that is better."""
    if len(point.shared.breakpoints) == 0:
        return None

    def visit(block: Block, known: Any) -> Any:
        return problem.refresh(block, point.shared, known)

    local = session.map(visit, point.local)
    fresh = _visit(problem, point.shared, session, local)
    return fresh if fresh.value - point.value > _LEAST_GAIN * abs(point.value) else None


def _ascend(objective: Objective, max_iter: int) -> Result[Coefficients]:
    """One run of L-BFGS from the chart's origin."""
    size, tol = objective.chart.size, objective.session.tol
    # The solver bounds the largest entry of the gradient; this bounds its length.
    largest = tol * np.sqrt(objective.best.stats.n_entries / size)
    found = lbfgs(objective, np.zeros(size), max_iter=max_iter, tol=largest)
    best, trace = objective.best, found.trace.copy()
    trace[-1] = max(trace[-1], best.value)
    status = Status.CONVERGED if best.criterion <= tol else found.status
    return Result(best.shared, trace, status, best.criterion, found.n_iter)


def _append(before: Result[Coefficients], after: Result[Coefficients]) -> Result[Coefficients]:
    """One result of two runs, the second from where the first ended, or from a better state of the rows there."""
    if not len(before.trace):
        return after
    is_same = int(after.trace[0] <= before.trace[-1])
    trace = np.concatenate([before.trace, after.trace[is_same:]])
    return replace(after, trace=trace, n_iter=len(trace))

"""L-BFGS on the likelihood, or on its bound, in coordinates of unit curvature."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import Block, Statistics
from anypca.exceptions import NonFiniteError
from anypca.models._context import FitContext, ignore
from anypca.models.piecewise._pieces import (
    Coefficients,
    Pieces,
    Transfer,
    expand,
    hinge_slopes,
    with_covariates,
)
from anypca.solvers import Progress, Result, Status
from anypca.solvers.lbfgs import lbfgs

# Smallest curvature as a share of the largest of a column, for directions without information, such as an empty piece:
# the root of rounding, so that other directions keep half of their digits.
_LEAST_CURVATURE = float(np.sqrt(np.finfo(np.float64).eps))
# Runs of L-BFGS, each in the units of the point where the last one ended, until one of them has converged and rows
# that are started anew stay where they are.
_MOST_CHARTS = 4
# Scaled gradient of rows in units of the scaled gradient of the coefficients, which is at most this at first.
_ROW_TOL = 0.1
_FIRST_CRITERION = 0.1
# Share of the objective below which rows that are started anew have gained nothing.
_LEAST_GAIN = 1e-6


@dataclass(frozen=True)
class PieceSums(Statistics):
    """Sums over rows at some pieces; d is the covariates, the latent point and a 1, together M numbers."""

    log_likelihood: float
    """Of the observed entries, or its bound."""
    weight: float
    """Sum of the sample weights."""
    n_entries: float
    """Weighted number of observed entries."""
    occupancy: Floats
    """Weighted sum of the posterior probabilities of each piece (K,)."""
    slope: Floats
    """Derivatives with respect to the coefficients of d in each piece (K, n_features, M)."""
    curvature: Floats
    """Complete-data curvature in them, of each column or of the mean column (K, n_features or 1, M, M)."""
    log_dispersion: Floats
    """Derivatives with respect to the logarithms of the dispersions (n_features,)."""
    edge: Floats
    """Derivatives with respect to the breakpoints at fixed maps (K - 1,)."""

    def empty_pieces(self, n_components: int) -> list[int]:
        """Pieces, counted from 0, with fewer expected rows than a column has parameters there."""
        # In a table with hardly more rows than that, a piece is empty at half of its even share.
        least = min(n_components + 1.0, 0.5 * self.weight / len(self.occupancy))
        return [int(k) for k in np.flatnonzero(self.occupancy < least)]


@dataclass(frozen=True)
class PieceProblem(ABC):
    """A function of the coefficients that `climb` maximises.

    Parameters
    ----------
    transfer : callable
        The coupling of the pieces, one of `anypca.models.piecewise._pieces.COUPLINGS`.
    n_components : int
        q.
    groups : tuple of ndarray
        Columns that share a dispersion to estimate.
    floors : ndarray of shape (n_features,)
        Smallest dispersions, the same within a group.
    coef_precision : ndarray of shape (n_features, n_covariates)
        Of the normal prior on coefficients of covariates.
    """

    transfer: Transfer
    n_components: int
    groups: tuple[Ints, ...]
    floors: Floats
    coef_precision: Floats

    @abstractmethod
    def solved(self, block: Block, pieces: Pieces, local: Any, row_tol: float) -> tuple[Any, PieceSums]:
        """The state of a block's rows at some pieces, to a scaled gradient, and their sums."""

    def refresh(self, block: Block, pieces: Pieces, local: Any) -> Any:
        """The state of a block's rows, from new starts if those lead to a better optimum."""
        return local

    def pieces(self, shared: Coefficients) -> Pieces:
        """Pieces from coefficients."""
        return expand(shared, self.transfer, self.n_components)

    def transfers(self, shared: Coefficients) -> Floats:
        """T_k, from all coefficients to coefficients of covariates and maps (K, M, .)."""
        T = self.transfer(self.n_components, shared.breakpoints)
        return with_covariates(T, shared.matrix.shape[1])


class Point(NamedTuple):
    """Coefficients with the state of the rows there, their sums and the objective."""

    shared: Coefficients
    local: Sequence[Any] | None
    sums: PieceSums
    value: float


class Climbed(NamedTuple):
    """Where a climb ended."""

    point: Point
    result: Result[Coefficients]
    """With the objective after each accepted step."""


def evaluate(
    problem: PieceProblem,
    shared: Coefficients,
    session: FitContext,
    local: Sequence[Any] | None = None,
    row_tol: float = _ROW_TOL,
) -> Point:
    """Solve all rows at some coefficients, from their state at others, and sum."""
    pieces = problem.pieces(shared)

    def visit(block: Block, known: Any) -> tuple[Any, PieceSums]:
        return problem.solved(block, pieces, known, row_tol)

    local, sums = session.executor.sweep(visit, session.data, local)
    penalty = 0.5 * float((problem.coef_precision * pieces.coef**2).sum())
    return Point(shared, local, sums, float(sums.log_likelihood) - penalty)


@dataclass(frozen=True)
class Chart:
    """Coordinates around ``origin`` in which the complete-data curvature there is ``length^2`` times the identity.

    They are the coefficients, the logarithms of the open dispersions above their floors and, if they are fitted, the
    first breakpoint and the logarithms of the gaps between breakpoints.
    """

    problem: PieceProblem
    origin: Coefficients
    root: Floats
    """R with ``R C R' = I`` for the curvature C of all columns or of each (1 or n_features, M, M)."""
    units: Floats
    """Roots of the curvature of dispersions and fitted breakpoints."""
    length: float = 1.0
    """Length of the gradient: the first step of L-BFGS, which has unit length, is then a step of EM."""

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return self.origin.matrix.size + len(self.units)

    def read(self, vector: Floats) -> Coefficients:
        """Coefficients at some coordinates."""
        n, n_scales = self.origin.matrix.size, len(self.problem.groups)
        step = (self.length * vector[:n].reshape(len(self.origin.matrix), 1, -1) @ self.root)[:, 0]
        others = self.length * vector[n:] / self.units
        dispersion, floors = self.origin.dispersion.copy(), self.problem.floors
        # An excess below the rounding of the floor is none.
        excess = np.maximum(dispersion - floors, np.finfo(np.float64).eps * floors)
        for columns, change in zip(self.problem.groups, others[:n_scales], strict=True):
            dispersion[columns] = floors[columns] + excess[columns] * np.exp(change)
        breakpoints = self._breakpoints(others[n_scales:])
        return Coefficients(self.origin.matrix + step, breakpoints, dispersion)

    def _breakpoints(self, change: Floats) -> Floats:
        if not len(change):
            return self.origin.breakpoints
        first = self.origin.breakpoints[:1] + change[:1]
        # Gaps on the log scale: the order cannot be lost.
        return np.concatenate(
            [first, first + np.cumsum(np.diff(self.origin.breakpoints) * np.exp(change[1:]))]
        )

    def gradient(self, shared: Coefficients, sums: PieceSums) -> Floats:
        """Gradient in the coordinates from sums at ``shared``."""
        problem, n_coef = self.problem, self.problem.coef_precision.shape[1]
        slope = np.einsum("kpa,kma->pm", sums.slope, problem.transfers(shared))
        slope[:, :n_coef] -= problem.coef_precision * shared.matrix[:, :n_coef]
        excess = 1.0 - problem.floors / shared.dispersion
        others = [excess[columns[0]] * sums.log_dispersion[columns].sum() for columns in problem.groups]
        if len(self.units) > len(others):
            others.extend(self._edge_slopes(shared, sums))
        parts = (self.root @ slope[:, :, None]).ravel(), np.array(others) / self.units
        return self.length * np.concatenate(parts)

    def _edge_slopes(self, shared: Coefficients, sums: PieceSums) -> Floats:
        # A hinge moves the maps as well as the borders of the slabs.
        moving = hinge_slopes(self.problem.n_components, len(sums.slope), self.problem.transfer)
        slope = sums.edge + np.einsum("kpa,pm,jkma->j", sums.slope, shared.matrix, moving, optimize=True)
        later = np.cumsum(slope[::-1])[::-1]
        later[1:] *= np.diff(shared.breakpoints)
        return later


def make_chart(problem: PieceProblem, point: Point, *, fit_breakpoints: bool) -> Chart:
    """Coordinates around a point."""
    T, n_coef = problem.transfers(point.shared), problem.coef_precision.shape[1]
    curvature = np.einsum("kma,kpab,knb->pmn", T, point.sums.curvature, T, optimize=True)
    if n_coef:
        at = np.arange(n_coef)
        curvature[:, at, at] += problem.coef_precision
    # Families whose log-likelihood is not concave may have columns without curvature.
    values, vectors = np.linalg.eigh(curvature)
    values = np.maximum(np.abs(values), _LEAST_CURVATURE * np.abs(values).max(axis=1, keepdims=True))
    root = (vectors / np.sqrt(values)[:, None]).swapaxes(1, 2)
    n_scales, n_edges = len(problem.groups), len(point.shared.breakpoints) if fit_breakpoints else 0
    units = np.sqrt(
        [0.5 * point.sums.n_entries / max(n_scales, 1)] * n_scales + [point.sums.weight] * n_edges
    )
    chart = Chart(problem, point.shared, root, units)
    length = float(np.linalg.norm(chart.gradient(point.shared, point.sums)))
    return replace(chart, length=length) if np.isfinite(length) and length > 0 else chart


@dataclass
class Objective:
    """The objective of a table as a function of a chart's coordinates."""

    session: FitContext
    chart: Chart
    best: Point
    """The best point so far, at first the origin of the chart; rows of the next point start from it."""
    criterion: float = np.inf
    """Length of the gradient there for each root of an observed entry."""

    def value_and_gradient(self, vector: Floats) -> tuple[float, Floats]:
        """For `anypca.solvers.lbfgs`."""
        point = self.best
        if vector.any():
            # Errors of unsolved rows add to the gradient: they may be a share of it.
            row_tol = _ROW_TOL * max(min(self.criterion, _FIRST_CRITERION), self.session.tol)
            shared = self.chart.read(vector)
            point = evaluate(self.chart.problem, shared, self.session, self.best.local, row_tol)
        gradient = self.chart.gradient(point.shared, point.sums)
        if not (np.isfinite(point.value) and np.isfinite(gradient).all()):
            # Predictors overflow far from the best point; the line search comes back from there.
            return self.best.value - 1e3 * (1.0 + abs(self.best.value)), np.zeros(self.chart.size)
        if point.value >= self.best.value:
            self.best = point
            self.criterion = float(
                np.linalg.norm(gradient) / self.chart.length / np.sqrt(point.sums.n_entries)
            )
        return point.value, gradient


def climb(
    problem: PieceProblem,
    start: Coefficients,
    session: FitContext,
    *,
    fit_breakpoints: bool = False,
    may_refresh: bool = False,
) -> Climbed:
    """L-BFGS from a start; again from where it ends, with fresh units, if it stalls there.

    Parameters
    ----------
    problem : PieceProblem
    start : Coefficients
    session : FitContext
        The steps stop when the gradient per observed entry, in units of the complete-data curvature, is at most its
        ``tol``.
    fit_breakpoints : bool
    may_refresh : bool
        Whether rows are started anew at the end, and the steps continued if that helps.
    """
    point, trace = evaluate(problem, start, session), np.empty(0)
    if not np.isfinite(point.value):
        raise NonFiniteError(
            "the likelihood overflows at the start of the fit. Look for extreme values in X."
        )
    session.callback(Progress(1, session.max_iter, point.value, np.inf))
    for number in range(_MOST_CHARTS):
        n_left = session.max_iter - max(len(trace) - 1, 0)
        objective = Objective(session, make_chart(problem, point, fit_breakpoints=fit_breakpoints), point)
        status, values = _ascend(objective, n_left, max(len(trace), 1))
        point, criterion = objective.best, objective.criterion
        is_same = len(trace) > 0 and values[0] <= trace[-1]
        trace = np.concatenate([trace, values[int(is_same) :]])
        if status is Status.MAX_ITER or number == _MOST_CHARTS - 1:
            break
        if status is Status.CONVERGED:
            fresh = _refreshed(problem, point, session) if may_refresh else None
            if fresh is None:
                break
            point = fresh
    return Climbed(point, Result(point.shared, trace, status, criterion, len(trace)))


def _ascend(objective: Objective, max_iter: int, n_before: int) -> tuple[Status, Floats]:
    """One run of L-BFGS from the origin of a chart: how it ended, and the objective after each step."""
    size, session = objective.chart.size, objective.session

    def report(progress: Progress) -> None:
        session.callback(
            Progress(n_before + progress.iteration, session.max_iter, progress.objective, objective.criterion)
        )

    # The solver bounds the largest entry of the gradient; this bounds its length.
    largest = session.tol * objective.chart.length * np.sqrt(objective.best.sums.n_entries / size)
    found = lbfgs(objective, np.zeros(size), max_iter=max(max_iter, 1), tol=largest, callback=report)
    values = found.trace.copy()
    values[-1] = max(values[-1], objective.best.value)
    if objective.criterion <= session.tol:
        return Status.CONVERGED, values
    return Status.STALLED if found.converged else found.status, values


def _refreshed(problem: PieceProblem, point: Point, session: FitContext) -> Point | None:
    """The point with rows started anew, if that is better."""
    pieces = problem.pieces(point.shared)
    if len(pieces.breakpoints) == 0:
        return None
    local = session.map(lambda block, known: problem.refresh(block, pieces, known), point.local)
    fresh = evaluate(problem, point.shared, session, local)
    return fresh if fresh.value - point.value > _LEAST_GAIN * abs(point.value) else None


def compare(
    problem: PieceProblem,
    starts: Sequence[Coefficients],
    session: FitContext,
    steps: int,
    *,
    fit_breakpoints: bool = False,
) -> list[Climbed]:
    """Some steps from each start, the best end first."""
    few = replace(session, max_iter=steps, callback=ignore)
    runs = [climb(problem, start, few, fit_breakpoints=fit_breakpoints) for start in starts]
    return sorted(runs, key=lambda run: -run.point.value)

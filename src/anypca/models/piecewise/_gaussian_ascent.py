"""L-BFGS on the exact likelihood of the Gaussian model, in coordinates of unit curvature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from anypca._typing import Floats
from anypca.engine import Block
from anypca.linalg import unpack_symmetric
from anypca.models._gaussian.posterior import Patterns, find_patterns
from anypca.models._session import Session
from anypca.models.piecewise._gaussian_posterior import GaussianSums
from anypca.models.piecewise._pieces import Coefficients
from anypca.models.piecewise._problem import GaussianProblem
from anypca.solvers import Callback, Progress, Result, Status
from anypca.solvers.lbfgs import lbfgs

# Directions in which the rows tell nothing (of an empty piece) get this share of the mean curvature: the root of
# rounding, so that the factor exists and directions with information keep theirs to eight digits.
_RIDGE = 1e-8
# Runs of L-BFGS, each in the units of the point where the last one stalled because rounding hid what a step gains.
# Three took a hinge to tol = 1e-9; where they did not, at tighter ones, nothing was left to gain.
_MOST_CHARTS = 3


@dataclass(frozen=True)
class Chart:
    """Coefficients as a vector, 0 at ``origin``, in which the complete-data curvature there is the identity."""

    origin: Coefficients
    factor: Floats
    """Lower Cholesky factor of the curvature per column of the table, over the noise (m, m)."""
    noise_unit: float
    """Root of the curvature along the log noise."""
    noise_floor: float
    edge_unit: float
    """Root of the number of rows; 0 when the breakpoints are fixed."""

    @property
    def size(self) -> int:
        """Length of the vector: the coefficients, the noise, the breakpoints unless they are fixed."""
        return self.origin.matrix.size + 1 + (len(self.origin.breakpoints) if self.edge_unit else 0)

    def read(self, vector: Floats) -> Coefficients:
        """Coefficients at a vector."""
        n = self.origin.matrix.size
        # Units in which the mean curvature of a column is the identity: L-BFGS needs few steps there.
        step = vector[:n].reshape(self.origin.matrix.shape)
        matrix = self.origin.matrix + scipy.linalg.solve_triangular(self.factor.T, step.T, lower=False).T
        return Coefficients(matrix, self._noise(vector[n]), self._breakpoints(vector[n + 1 :]))

    def pull(self, slope: Floats) -> Floats:
        """Gradient with respect to the step from that with respect to D, both (n_features, m)."""
        return np.asarray(scipy.linalg.solve_triangular(self.factor, slope.T, lower=True).T)

    def _noise(self, coordinate: float) -> float:
        """The noise at a coordinate: the logarithm of its excess over the floor, which it cannot reach."""
        # An excess below the rounding of the floor is none.
        least = np.finfo(np.float64).eps * self.noise_floor
        excess = max(self.origin.noise - self.noise_floor, least)
        return self.noise_floor + float(np.exp(np.log(excess) + coordinate / self.noise_unit))

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


def make_chart(
    problem: GaussianProblem, origin: Coefficients, stats: GaussianSums, *, fit_breakpoints: bool
) -> Chart:
    """Coordinates around a point from the sums made there."""
    curvature = unpack_symmetric(problem.curvature(origin, stats), origin.matrix.shape[1]).mean(axis=0)
    m = len(curvature)
    curvature = curvature / origin.noise + _RIDGE * np.trace(curvature) / (m * origin.noise) * np.eye(m)
    factor = scipy.linalg.cholesky(curvature, lower=True)
    edge_unit = float(np.sqrt(stats.weight)) if fit_breakpoints and len(origin.breakpoints) else 0.0
    return Chart(origin, factor, float(np.sqrt(0.5 * stats.n_entries)), problem.noise_floor, edge_unit)


class Reporter:
    """Tells a callback of points that are better than all before them; L-BFGS also tries others."""

    def __init__(self, callback: Callback, max_iter: int) -> None:
        self.callback, self.max_iter = callback, max_iter
        self.reached, self.n_reports = -np.inf, 0

    def tell(self, value: float, criterion: float) -> None:
        if value > self.reached:
            self.reached, self.n_reports = value, self.n_reports + 1
            self.callback(Progress(self.n_reports, self.max_iter, value, criterion))


@dataclass(frozen=True)
class ExactLikelihood:
    """The log-likelihood of a table as a function of a chart's vector."""

    problem: GaussianProblem
    session: Session
    chart: Chart
    patterns: Sequence[Patterns] | None = None
    """Which rows of each block miss the same entries, if that is known already."""
    reporter: Reporter | None = None

    def value_and_gradient(self, vector: Floats) -> tuple[float, Floats]:
        """For `anypca.solvers.lbfgs`."""
        shared = self.chart.read(vector)
        stats = sum_rows(self.problem, shared, self.session, self.patterns)
        slope = self.problem.gradient(shared, stats)
        share = 1.0 - self.problem.noise_floor / shared.noise
        parts: list[Floats] = [
            self.chart.pull(slope.matrix).ravel(),
            np.array([slope.log_noise * share / self.chart.noise_unit]),
        ]
        if self.chart.edge_unit:
            parts.append(self.chart.pull_breakpoints(slope.breakpoints, shared.breakpoints))
        gradient: Floats = np.concatenate(parts)
        if self.reporter is not None:
            self.reporter.tell(
                stats.log_likelihood, float(np.linalg.norm(gradient) / np.sqrt(stats.n_entries))
            )
        return stats.log_likelihood, gradient


def sum_rows(
    problem: GaussianProblem,
    shared: Coefficients,
    session: Session,
    patterns: Sequence[Patterns] | None = None,
) -> GaussianSums:
    """Expected sums of the whole table."""

    def visit(block: Block, known: Patterns | None) -> GaussianSums:
        return problem.step(block, shared, known)[1]

    sums: GaussianSums = session.sum(visit, patterns)
    return sums


def climb(
    problem: GaussianProblem, start: Result[Coefficients], session: Session, *, fit_breakpoints: bool
) -> Result[Coefficients]:
    """L-BFGS from where a run ended; again from where it ends itself, with fresh units, if it stalls there.

    Parameters
    ----------
    problem : GaussianProblem
    start : Result
        Its trace may be empty.
    session : Session
        Its ``max_iter`` is for the steps from here. They stop when the gradient per observed entry, in units of the
        complete-data curvature, is at most its ``tol``.
    fit_breakpoints : bool

    Returns
    -------
    Result
        With the trace of ``start`` continued by the log-likelihood after each accepted step.
    """
    patterns = session.map(lambda block, _: find_patterns(block.read().observed, block.n_rows))
    reporter = Reporter(session.callback, session.max_iter)
    found, n_left = start, session.max_iter
    for _ in range(_MOST_CHARTS):
        stats = sum_rows(problem, found.shared, session, patterns)
        chart = make_chart(problem, found.shared, stats, fit_breakpoints=fit_breakpoints)
        steps = _ascend(ExactLikelihood(problem, session, chart, patterns, reporter), n_left)
        n_left -= len(steps.trace) - 1
        found = _append(found, steps)
        if found.converged or n_left <= 0:
            break
    return found


def _ascend(likelihood: ExactLikelihood, max_iter: int) -> Result[Coefficients]:
    """One run of L-BFGS from the chart's origin."""
    chart, tol = likelihood.chart, likelihood.session.tol
    n_entries = 2.0 * chart.noise_unit**2
    # The solver bounds the largest entry of the gradient; this bounds its length.
    largest = tol * np.sqrt(n_entries / chart.size)
    found = lbfgs(likelihood, np.zeros(chart.size), max_iter=max_iter, tol=largest)
    gradient = likelihood.value_and_gradient(found.shared)[1]
    criterion = float(np.linalg.norm(gradient)) / np.sqrt(n_entries)
    status = Status.CONVERGED if criterion <= tol else found.status
    return Result(chart.read(found.shared), found.trace, status, criterion, found.n_iter)


def _append(before: Result[Coefficients], after: Result[Coefficients]) -> Result[Coefficients]:
    """One result of two runs, the second from where the first ended, which is in both traces."""
    if not len(before.trace):
        return after
    trace = np.concatenate([before.trace, after.trace[1:]])
    return replace(after, trace=trace, n_iter=len(trace))

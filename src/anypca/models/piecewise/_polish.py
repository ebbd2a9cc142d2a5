"""L-BFGS on the exact likelihood of the Gaussian model, in coordinates of unit curvature."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.linalg

from anypca._typing import Floats
from anypca.engine import Data, Executor
from anypca.linalg import unpack_symmetric
from anypca.models.piecewise._pieces import Coefficients
from anypca.models.piecewise._problem import GaussianProblem, Stats
from anypca.solvers import Callback, Progress, Result, Status
from anypca.solvers.lbfgs import lbfgs

# Directions in which the rows tell nothing (of an empty piece) get this share of the mean curvature.
_RIDGE = 1e-8
# Logarithms of the noise above the floor: further down it is the floor for all purposes.
_DEEPEST = -60.0


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

    def read(self, vector: Floats) -> Coefficients:
        """Coefficients at a vector."""
        n = self.origin.matrix.size
        step = vector[:n].reshape(self.origin.matrix.shape)
        matrix = self.origin.matrix + scipy.linalg.solve_triangular(self.factor.T, step.T, lower=False).T
        return Coefficients(matrix, self._noise(vector[n]), self._breakpoints(vector[n + 1 :]))

    def pull(self, slope: Floats) -> Floats:
        """Gradient with respect to the step from that with respect to D, both (n_features, m)."""
        return np.asarray(scipy.linalg.solve_triangular(self.factor, slope.T, lower=True).T)

    def _noise(self, coordinate: float) -> float:
        return self.noise_floor + float(np.exp(self._log_excess() + coordinate / self.noise_unit))

    def _log_excess(self) -> float:
        excess = self.origin.noise - self.noise_floor
        return max(float(np.log(excess)), _DEEPEST) if excess > 0 else _DEEPEST

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
    problem: GaussianProblem, origin: Coefficients, stats: Stats, *, fit_breakpoints: bool
) -> Chart:
    """Coordinates around a point from the sums made there."""
    curvature = unpack_symmetric(problem.curvature(origin, stats), origin.matrix.shape[1]).mean(axis=0)
    m = len(curvature)
    curvature = curvature / origin.noise + _RIDGE * np.trace(curvature) / (m * origin.noise) * np.eye(m)
    factor = scipy.linalg.cholesky(curvature, lower=True)
    edge_unit = float(np.sqrt(stats.weight)) if fit_breakpoints and len(origin.breakpoints) else 0.0
    return Chart(origin, factor, float(np.sqrt(0.5 * stats.n_entries)), problem.noise_floor, edge_unit)


@dataclass
class ExactLikelihood:
    """The log-likelihood as a function of a vector; remembers which rows miss the same entries."""

    problem: GaussianProblem
    data: Data
    executor: Executor
    chart: Chart
    callback: Callback | None = None
    max_iter: int = 0
    local: object = None
    reached: float = field(default=-np.inf)
    n_reports: int = 0

    def sums(self, shared: Coefficients) -> Stats:
        """Expected sums of the whole table."""
        problem = self.problem
        self.local, stats = self.executor.sweep(
            lambda block, rows: problem.step(block, shared, rows),
            self.data,
            self.local,  # type: ignore[arg-type]
        )
        return stats

    def value_and_gradient(self, vector: Floats) -> tuple[float, Floats]:
        """For `anypca.solvers.lbfgs`."""
        shared = self.chart.read(vector)
        stats = self.sums(shared)
        slope = self.problem.gradient(shared, stats)
        share = 1.0 - self.problem.noise_floor / shared.noise
        parts: list[Floats] = [
            self.chart.pull(slope.matrix).ravel(),
            np.array([slope.log_noise * share / self.chart.noise_unit]),
        ]
        if self.chart.edge_unit:
            parts.append(self.chart.pull_breakpoints(slope.breakpoints, shared.breakpoints))
        gradient: Floats = np.concatenate(parts)
        self._report(stats.log_likelihood, float(np.linalg.norm(gradient)) / np.sqrt(stats.n_entries))
        return stats.log_likelihood, gradient

    def _report(self, value: float, criterion: float) -> None:
        if self.callback is not None and value > self.reached:
            self.n_reports += 1
            self.callback(Progress(self.n_reports, self.max_iter, value, criterion))
        self.reached = max(self.reached, value)


def polish(
    likelihood: ExactLikelihood, n_coordinates: int, *, max_iter: int, tol: float
) -> Result[Coefficients]:
    """Climb from the chart's origin to a stationary point of the exact likelihood.

    Parameters
    ----------
    likelihood : ExactLikelihood
    n_coordinates : int
        Length of the vector.
    max_iter : int
    tol : float
        Stop when the gradient per observed entry, in units of the complete-data curvature, is at most this.

    Returns
    -------
    Result
        Its trace is the log-likelihood after each accepted step, which never decreases.
    """
    n_entries = 2.0 * likelihood.chart.noise_unit**2
    # The solver bounds the largest entry of the gradient; this bounds its length.
    largest = tol * np.sqrt(n_entries / n_coordinates)
    found = lbfgs(likelihood, np.zeros(n_coordinates), max_iter=max_iter, tol=largest)
    gradient = likelihood.value_and_gradient(found.shared)[1]
    criterion = float(np.linalg.norm(gradient)) / np.sqrt(n_entries)
    status = Status.CONVERGED if criterion <= tol else found.status
    if status is Status.CONVERGED and criterion > tol:
        status = Status.STALLED
    shared = likelihood.chart.read(found.shared)
    return Result(shared, np.maximum.accumulate(found.trace), status, criterion, found.n_iter)

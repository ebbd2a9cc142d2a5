"""Joint mode of scores and loadings of a bilinear exponential-family model, by alternating Newton steps."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from anypca._typing import Bools, Floats
from anypca.engine import Block, Statistics
from anypca.families import Family
from anypca.linalg import balance, packed_diagonal
from anypca.models._bilinear.kernel import Coefficients, ColumnSums, Kernel
from anypca.models._opened import OpenedBlock, open_block
from anypca.priors import NewtonStep, Prior
from anypca.solvers import BlockProblem, Coordinates, Update

_MAX_HALVINGS = 30
# Objectives of rows and columns are compared up to this many units in the last place of their terms.
_SLACK_ULPS = 16.0
_TINY_STEP = 1e-6


@dataclass(frozen=True, eq=False)
class Gauge:
    """A change of the latent coordinates, ``z -> (z - shift) @ matrix``, that leaves the predictor as it is."""

    shift: Floats
    matrix: Floats
    inverse: Floats

    def apply(self, scores: Floats) -> Floats:
        """Scores in the new coordinates."""
        return (scores - self.shift) @ self.matrix


@dataclass(frozen=True, eq=False)
class Shared:
    """The shared parameters, and how scores of the previous parameters translate to their coordinates."""

    coefficients: Coefficients
    gauge: Gauge | None = None


@dataclass(frozen=True, eq=False)
class Stats(Statistics):
    """What the blocks of a sweep add up to. "Entry" is before the rows' step, "exit" after it."""

    entry_columns: Floats
    """Log-likelihood of each column at entry without its part linear in x, shape (n_features,)."""
    exit_columns: Floats
    """Log-likelihood of each column at exit, shape (n_features,)."""
    linear: Floats
    """Derivative of that part in the coefficients at exit, shape (n_features, m)."""
    offset_value: float
    """The part of the log-likelihood that ``exit_columns`` leaves out; it does not depend on parameters."""
    score_penalty: float
    gradient: Floats
    """In the coefficients at exit, shape (n_features, m)."""
    curvature: Floats
    """In the coefficients at exit, packed, shape (n_features, m (m + 1) / 2)."""
    row_decrement: float
    weight: float
    n_entries: float
    score_sum: Floats
    """Weighted sum of scores, shape (k,)."""
    score_gram: Floats
    """Weighted sum of outer products of scores, shape (k, k)."""


@dataclass(frozen=True, eq=False)
class BilinearProblem(BlockProblem[Shared, Floats, Stats]):
    r"""Maximise the penalised log-likelihood over scores Z and coefficients [W | B].

    .. math:: J = \sum_i s_i \Big( \sum_j \log p(x_{ij} | \eta_{ij}) - \pi(z_i) \Big) - \sum_j \rho(w_j, b_j)

    Rows take one Newton step in a sweep, then all columns take one; both are halved until J is no worse.

    Parameters
    ----------
    family : Family
    score_prior : Prior
        pi, on the rows of Z.
    loading_prior : Prior
        rho, on the rows of [W | B].
    fit_intercept : bool
    constant : float
        Added to the objective: the likelihood's terms that do not depend on the parameters.
    ridges : tuple of a float and an array of shape (n_features,) (or a float), or None
        Strengths of isotropic ridges on scores and on the loadings of each column when both priors are that. The
        latent coordinates can then be changed freely, and are chosen after each update to make the penalty least.
    eps : float
        Relative rounding error of the blocks' arithmetic.
    """

    family: Family
    score_prior: Prior
    loading_prior: Prior
    fit_intercept: bool = True
    constant: float = 0.0
    ridges: tuple[float, Floats | float] | None = None
    eps: float = float(np.finfo(float).eps)

    def step(self, block: Block, shared: Shared, local: Floats | None) -> tuple[Floats, Stats]:
        """One Newton step of the block's rows; statistics for the columns at the new scores."""
        rows = open_block(block, fit_intercept=self.fit_intercept, family=self.family)
        kernel = Kernel(self.family, shared.coefficients, rows)
        scores = self._start(rows, shared, local)
        # Trial points may overflow: their value is then -inf or NaN, which no comparison accepts.
        with np.errstate(over="ignore", invalid="ignore"):
            new, sums, entry_columns, decrement = self._step_rows(kernel, scores)
        weights = rows.weights
        stats = Stats(
            entry_columns,
            sums.value,
            sums.linear,
            float(weights @ rows.offset_values),
            float(weights @ self.score_prior.value(new)),
            sums.gradient,
            sums.curvature,
            float(weights @ decrement),
            float(weights.sum()),
            rows.count(),
            weights @ new,
            (new * weights[:, None]).T @ new,
        )
        return new, stats

    def _step_rows(self, kernel: Kernel, scores: Floats) -> tuple[Floats, ColumnSums, Floats, Floats]:
        """New scores, column sums there, the columns' values before, and the rows' decrements."""
        if scores.shape[1] == 0:
            sums = kernel.column_sums(scores)
            linear = np.einsum("ja,ja->j", sums.linear, kernel.coefficients.joint)
            return scores, sums, sums.value - linear, np.zeros(len(scores))
        entry = kernel.row_sums(scores, observed=True)
        newton = self.newton_rows(scores, entry.gradient, entry.curvature)
        new, sums = self._guarded(kernel, scores, newton.step, entry.value)
        return new, sums, entry.columns, newton.decrement

    def newton_rows(self, scores: Floats, gradient: Floats, packed_curvature: Floats) -> NewtonStep:
        """The Newton step of the rows; none where the predictor overflowed."""
        usable: Bools = np.isfinite(gradient.sum(axis=1) + packed_curvature.sum(axis=1))
        if not usable.all():
            gradient = np.where(usable[:, None], gradient, 0.0)
            packed_curvature = np.where(usable[:, None], packed_curvature, 0.0)
        return self.score_prior.newton(scores, gradient, packed_curvature)

    def objective(self, shared: Shared, stats: Stats) -> float:
        """J with all constants, at the exit of a sweep."""
        penalty = float(self.loading_prior.value(shared.coefficients.joint).sum())
        likelihood = float(stats.exit_columns.sum()) + stats.offset_value + self.constant
        return likelihood - stats.score_penalty - penalty

    def resolution(self, shared: Shared, stats: Stats) -> float:
        """Rounding level of the objective: what its columns are granted, and the sum's own."""
        return _SLACK_ULPS * self.eps * (float(np.abs(stats.exit_columns).sum()) + abs(self.constant))

    def update(self, shared: Shared, stats: Stats) -> Update[Shared]:
        """One Newton step of every column, then the best latent coordinates."""
        old = shared.coefficients
        newton = self.loading_prior.newton(old.joint, stats.gradient, stats.curvature)
        decrement = float(newton.decrement.sum()) + stats.row_decrement
        criterion = np.sqrt(max(decrement, 0.0) / max(stats.n_entries, 1.0))
        proposal = self._regauge(old.with_joint(old.joint + newton.step), stats)
        return Update(proposal, float(criterion), gain=0.5 * decrement)

    def repair(self, shared: Shared, proposal: Shared, before: Stats, after: Stats) -> Shared | None:
        """Halve the step of the columns whose penalised log-likelihood got worse."""
        old, new = shared.coefficients.joint, self._ungauged(proposal).joint
        value_before = before.exit_columns - self.loading_prior.value(old)
        # The scores have not moved between the two, so the linear part is a product with the old derivative.
        linear = np.einsum("ja,ja->j", before.linear, new)
        value_after = after.entry_columns + linear - self.loading_prior.value(new)
        worse = self._is_worse(value_after, value_before, before.exit_columns) & (new != old).any(axis=1)
        if not worse.any():
            return None
        halved = 0.5 * (old + new)
        # A step that is still worse when it is tiny only has rounding to gain: the column stays.
        is_tiny = np.all(np.abs(halved - old) <= _TINY_STEP * (1.0 + np.abs(old)), axis=1, keepdims=True)
        joint = np.where(worse[:, None], np.where(is_tiny, old, halved), new)
        return self._regauge(shared.coefficients.with_joint(joint), before)

    def coordinates(self, shared: Shared, stats: Stats) -> Coordinates | None:
        """All coefficients; rare columns move much but matter little, hence the curvature as metric."""
        joint = shared.coefficients.joint
        diagonal = stats.curvature[:, packed_diagonal(joint.shape[1])]
        return Coordinates(joint.ravel(), np.sqrt(diagonal).ravel())

    def with_coordinates(self, vector: Floats, like: Shared) -> Shared:
        joint = vector.reshape(like.coefficients.joint.shape)
        return replace(like, coefficients=like.coefficients.with_joint(joint))

    def _start(self, rows: OpenedBlock, shared: Shared, local: Floats | None) -> Floats:
        if local is None:
            return np.zeros((rows.n_rows, shared.coefficients.loadings.shape[1]))
        return local if shared.gauge is None else shared.gauge.apply(local)

    def _guarded(
        self, kernel: Kernel, scores: Floats, step: Floats, value: Floats
    ) -> tuple[Floats, ColumnSums]:
        """Take the step where it helps, halved where it does not; column sums at the result."""
        before = value - self.score_prior.value(scores)
        new = scores + step
        sums = kernel.column_sums(new)
        worse = self._is_worse(sums.rows - self.score_prior.value(new), before, value)
        if not worse.any():
            return new, sums
        new[worse] = self.halve(kernel.take(worse), scores[worse], step[worse], value[worse])
        return new, kernel.column_sums(new)

    def _is_worse(self, after: Floats, before: Floats, value: Floats) -> Bools:
        """Where rows or columns lost objective (NaN counts as lost); ``value`` tells the rounding level."""
        return np.asarray(~(after >= before - self.slack(value)))

    def slack(self, value: Floats) -> Floats:
        """Rounding level of the objectives of rows or columns."""
        return _SLACK_ULPS * self.eps * (1.0 + np.abs(value))

    def halve(
        self, kernel: Kernel, scores: Floats, step: Floats, value: Floats, *, first: float = 0.5
    ) -> Floats:
        """Shorten the steps of rows, from the fraction ``first`` on, until none is worse; else a row stays."""
        new = scores.copy()
        open_rows = np.arange(len(scores))
        before = value - self.score_prior.value(scores)
        for halving in range(_MAX_HALVINGS):
            trial = scores[open_rows] + first * 0.5**halving * step[open_rows]
            after = kernel.take(open_rows).row_values(trial) - self.score_prior.value(trial)
            worse = self._is_worse(after, before[open_rows], value[open_rows])
            new[open_rows[~worse]] = trial[~worse]
            open_rows = open_rows[worse]
            if open_rows.size == 0:
                break
        return new

    def _regauge(self, coefficients: Coefficients, stats: Stats) -> Shared:
        """Move the mean score into the intercept and balance the two penalties at constant predictor."""
        if self.ridges is None or coefficients.loadings.shape[1] == 0:
            return Shared(coefficients)
        gauge = self._best_gauge(self.ridges, coefficients.loadings, stats)
        fixed = coefficients.fixed
        if self.fit_intercept:
            fixed = fixed.copy()
            fixed[:, 0] += coefficients.loadings @ gauge.shift
        loadings = coefficients.loadings @ gauge.inverse
        return Shared(Coefficients(loadings, fixed, coefficients.dispersion), gauge)

    def _best_gauge(self, ridges: tuple[float, Floats | float], loadings: Floats, stats: Stats) -> Gauge:
        shift = stats.score_sum / stats.weight if self.fit_intercept else np.zeros(loadings.shape[1])
        left = stats.score_gram - stats.weight * np.outer(shift, shift)
        # Without a ridge the scale is arbitrary: scores of unit size keep the steps well conditioned.
        has_ridge = ridges[0] > 0 and np.min(ridges[1]) > 0
        on_scores, on_loadings = ridges if has_ridge else (1.0 / stats.weight, 1.0 / len(loadings))
        right = loadings.T @ (loadings * np.reshape(on_loadings, (-1, 1)))
        matrix, inverse = balance(on_scores * left, right)
        return Gauge(shift, matrix, inverse)

    def _ungauged(self, shared: Shared) -> Coefficients:
        """The coefficients of a proposal in the coordinates it was made from."""
        new, gauge = shared.coefficients, shared.gauge
        if gauge is None:
            return new
        loadings = new.loadings @ gauge.matrix
        fixed = new.fixed.copy()
        if self.fit_intercept:
            fixed[:, 0] -= loadings @ gauge.shift
        return Coefficients(loadings, fixed, new.dispersion)

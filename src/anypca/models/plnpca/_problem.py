"""The variational bound of Poisson log-normal PCA, maximised by alternating Newton steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from anypca._typing import Bools, Floats, Ints
from anypca.engine import Block, Statistics
from anypca.linalg import PackedCholesky, packed_diagonal, packed_products
from anypca.models._bilinear.kernel import Coefficients
from anypca.models.plnpca._kernel import CountRows, Kernel, RowSums, State, open_counts
from anypca.solvers import BlockProblem, Coordinates, Update

_MAX_HALVINGS = 30
# Bounds of rows and columns are compared up to this many units in the last place of their terms.
_SLACK_ULPS = 16.0
_TINY_STEP = 1e-6
# The logarithm of a variance moves by at most this in a step: its curvature vanishes where the variance does.
_LONGEST_LOG_STEP = 3.0


@dataclass(frozen=True, eq=False)
class Gauge:
    """A change of the latent coordinates, ``w -> (w - shift' f) / scale``, that leaves the rates as they are."""

    shift: Floats
    """Regression of the means on the fixed features, shape (n_fixed, k)."""
    scale: Floats
    """(k,)."""

    def apply(self, state: State, features: Floats) -> State:
        """Posteriors in the new coordinates."""
        return State((state.mean - features @ self.shift) / self.scale, state.variance / self.scale**2)

    def forward(self, old: Coefficients) -> Coefficients:
        """Coefficients in the new coordinates."""
        return replace(old, loadings=old.loadings * self.scale, fixed=old.fixed + old.loadings @ self.shift.T)

    def backward(self, new: Coefficients) -> Coefficients:
        """Coefficients in the coordinates the gauge starts from."""
        loadings = new.loadings / self.scale
        return replace(new, loadings=loadings, fixed=new.fixed - loadings @ self.shift.T)


@dataclass(frozen=True, eq=False)
class Shared:
    """The shared parameters, and how posteriors under the previous ones translate to their coordinates."""

    coefficients: Coefficients
    gauge: Gauge | None = None


@dataclass(frozen=True, eq=False)
class Stats(Statistics):
    """What the blocks of a sweep add up to. "Entry" is before the rows' step, "exit" after it."""

    entry_columns: Floats
    """Minus the expected rates of each column at entry, shape (n_features,)."""
    exit_columns: Floats
    """Expected log-likelihood of each column at exit without constants and ``x offset``, shape (n_features,)."""
    linear: Floats
    """Derivative of its part linear in x in the coefficients, shape (n_features, m)."""
    offset_value: float
    """Sum of ``x offset``."""
    divergence: float
    """Sum of the rows' divergences from the prior at exit."""
    gradient: Floats
    """In the coefficients at exit, shape (n_features, m)."""
    curvature: Floats
    """In the coefficients at exit, packed, shape (n_features, m (m + 1) / 2)."""
    row_decrement: float
    weight: float
    """Sum of the sample weights."""
    n_entries: float
    """Weighted number of observed entries."""
    feature_gram: Floats
    """Weighted ``F' F``, shape (n_fixed, n_fixed)."""
    feature_mean: Floats
    """Weighted ``F' M``, shape (n_fixed, k)."""
    mean_gram: Floats
    """Weighted ``M' M``, shape (k, k)."""
    variance_sum: Floats
    """Weighted sum of variances, shape (k,)."""
    log_variance: float
    """Weighted sum of all log variances."""


class RowStep(NamedTuple):
    """A Newton step of rows in means and log variances."""

    step: Floats
    """(rows, 2 k)."""
    decrement: Floats
    """Twice the gain that the quadratic model expects, shape (rows,)."""

    def apply(self, state: State, fraction: float = 1.0) -> State:
        """The state after a fraction of the step."""
        k = state.mean.shape[1]
        step = fraction * self.step
        return State(state.mean + step[:, :k], state.variance * np.exp(step[:, k:]))

    def take(self, index: Ints | Bools) -> RowStep:
        """The same for some of the rows."""
        return RowStep(self.step[index], self.decrement[index])


@dataclass(frozen=True, eq=False)
class PLNProblem(BlockProblem[Shared, State, Stats]):
    r"""Maximise the bound on the log-likelihood over posteriors (M, S) and coefficients [C | B].

    .. math:: J = \sum_i s_i \Big( \sum_j (y_{ij} z_{ij} - A_{ij} - \log y_{ij}!)
              - \tfrac12 \sum_k (m_{ik}^2 + s_{ik} - \log s_{ik} - 1) \Big)

    J is concave in a row's (m, log s) and in a column's (c, b), each given the other. Rows take one Newton step in
    a sweep, then all columns take one; both are halved until J is no worse.

    Parameters
    ----------
    fit_intercept : bool
    kept : ndarray of bool of shape (n_fixed,)
        Fixed features whose coefficients are estimated; those of the others, which depend on them, stay.
    constant : float
        Sum of ``-log y!``, added to the objective.
    eps : float
        Relative rounding error of the blocks' arithmetic.
    """

    fit_intercept: bool
    kept: Bools
    constant: float = 0.0
    eps: float = float(np.finfo(float).eps)

    def step(self, block: Block, shared: Shared, local: State | None) -> tuple[State, Stats]:
        """One Newton step of the block's rows; statistics for the columns at the new posteriors."""
        rows = open_counts(block, fit_intercept=self.fit_intercept)
        kernel = Kernel(shared.coefficients, rows)
        state = self._start(rows, shared, local)
        # Trial points may overflow: their value is then -inf or NaN, which no comparison accepts.
        with np.errstate(over="ignore", invalid="ignore"):
            entry = kernel.row_sums(state)
            newton = newton_rows(state, entry)
            new = newton.apply(state)
            sums = kernel.column_sums(new)
            worse = self._is_worse(
                sums.rows - new.divergence(), entry.value - state.divergence(), entry.value
            )
            if worse.any():
                better = self.shorten(
                    kernel.take(worse), state.take(worse), newton.take(worse), entry.value[worse]
                )
                new.mean[worse], new.variance[worse] = better
                sums = kernel.column_sums(new)
        weights, features = rows.weights, rows.features
        weighted = weights[:, None]
        stats = Stats(
            entry.columns,
            sums.value,
            sums.linear,
            float(weights @ rows.offset_values),
            float(weights @ new.divergence()),
            sums.gradient,
            sums.curvature,
            float(weights @ newton.decrement),
            float(weights.sum()),
            rows.count(),
            (features * weighted).T @ features,
            (features * weighted).T @ new.mean,
            (new.mean * weighted).T @ new.mean,
            weights @ new.variance,
            float(weights @ np.log(new.variance).sum(axis=1)),
        )
        return new, stats

    def objective(self, shared: Shared, stats: Stats) -> float:
        """J with all constants, at the exit of a sweep."""
        return float(stats.exit_columns.sum()) + stats.offset_value + self.constant - stats.divergence

    def resolution(self, shared: Shared, stats: Stats) -> float:
        """Rounding level of the objective, that of its rows and columns together."""
        return _SLACK_ULPS * self.eps * (float(np.abs(stats.exit_columns).sum()) + abs(self.constant))

    def update(self, shared: Shared, stats: Stats) -> Update[Shared]:
        """One Newton step of every column, then the best latent coordinates."""
        old = shared.coefficients
        gradient, curvature = self._masked(stats.gradient, stats.curvature)
        step = PackedCholesky(curvature, gradient.shape[1]).solve(gradient)
        decrement = float(np.einsum("ja,ja->", gradient, step)) + stats.row_decrement
        criterion = np.sqrt(max(decrement, 0.0) / max(stats.n_entries, 1.0))
        return Update(self._regauge(old.with_joint(old.joint + step), stats), float(criterion))

    def repair(self, shared: Shared, proposal: Shared, before: Stats, after: Stats) -> Shared | None:
        """Halve the step of the columns whose expected log-likelihood got worse."""
        new_coefficients = proposal.coefficients
        if proposal.gauge is not None:
            new_coefficients = proposal.gauge.backward(new_coefficients)
        old, new = shared.coefficients.joint, new_coefficients.joint
        # The posteriors have not moved between the two, so the linear part is a product with the old derivative.
        value_after = after.entry_columns + np.einsum("ja,ja->j", before.linear, new)
        worse = self._is_worse(value_after, before.exit_columns, before.exit_columns)
        worse = np.asarray(worse & (new != old).any(axis=1))
        if not worse.any():
            return None
        halved = 0.5 * (old + new)
        # A step that is still worse when it is tiny only has rounding to gain: the column stays.
        is_tiny = np.asarray(np.abs(halved - old) <= _TINY_STEP * (1.0 + np.abs(old))).all(axis=1)
        joint = np.where(worse[:, None], np.where(np.asarray(is_tiny)[:, None], old, halved), new)
        return self._regauge(shared.coefficients.with_joint(joint), before)

    def coordinates(self, shared: Shared, stats: Stats) -> Coordinates | None:
        """All coefficients; rare columns move much but matter little, hence the curvature as metric."""
        joint = shared.coefficients.joint
        diagonal = stats.curvature[:, packed_diagonal(joint.shape[1])]
        return Coordinates(joint.ravel(), np.sqrt(diagonal).ravel())

    def with_coordinates(self, vector: Floats, like: Shared) -> Shared:
        joint = vector.reshape(like.coefficients.joint.shape)
        return replace(like, coefficients=like.coefficients.with_joint(joint))

    def slack(self, value: Floats) -> Floats:
        """Rounding level of the bounds of rows or columns."""
        return _SLACK_ULPS * self.eps * (1.0 + np.abs(value))

    def shorten(
        self, kernel: Kernel, state: State, newton: RowStep, value: Floats, *, first: float = 0.5
    ) -> State:
        """Shorten the steps of rows, from the fraction ``first`` on, until none is worse; else a row stays."""
        new = State(state.mean.copy(), state.variance.copy())
        open_rows = np.arange(len(state.mean))
        before = value - state.divergence()
        for halving in range(_MAX_HALVINGS):
            trial = newton.take(open_rows).apply(state.take(open_rows), first * 0.5**halving)
            after = kernel.take(open_rows).row_values(trial) - trial.divergence()
            worse = self._is_worse(after, before[open_rows], value[open_rows])
            done = open_rows[~worse]
            new.mean[done], new.variance[done] = trial.take(~worse)
            open_rows = open_rows[worse]
            if open_rows.size == 0:
                break
        return new

    def _is_worse(self, after: Floats, before: Floats, value: Floats) -> Bools:
        """Where rows or columns lost (NaN counts as lost); ``value`` tells the rounding level."""
        return np.asarray(~(after >= before - self.slack(value)))

    def _start(self, rows: CountRows, shared: Shared, local: State | None) -> State:
        if local is None:
            return State.prior(rows.n_rows, shared.coefficients.loadings.shape[1])
        return local if shared.gauge is None else shared.gauge.apply(local, rows.features)

    def _masked(self, gradient: Floats, curvature: Floats) -> tuple[Floats, Floats]:
        """Without slope and coupling where a fixed feature is left out."""
        if self.kept.all():
            return gradient, curvature
        kept = np.concatenate([np.ones(gradient.shape[1] - len(self.kept)), self.kept])
        return gradient * kept, curvature * packed_products(kept[None])

    def _regauge(self, coefficients: Coefficients, stats: Stats) -> Shared:
        """Move what the fixed features explain of the means into B, and bring the second moments to 1.

        Neither changes the rates; both reduce the divergence from the prior as far as they can.
        """
        if coefficients.loadings.shape[1] == 0:
            return Shared(coefficients)
        shift = np.zeros_like(stats.feature_mean)
        kept = self.kept
        if kept.any():
            gram = stats.feature_gram[np.ix_(kept, kept)]
            shift[kept] = np.linalg.solve(gram, stats.feature_mean[kept])
        explained = np.einsum("da,da->a", shift, stats.feature_mean)
        second = np.diag(stats.mean_gram) - explained + stats.variance_sum
        gauge = Gauge(shift, np.sqrt(second / stats.weight))
        return Shared(gauge.forward(coefficients), gauge)


def newton_rows(state: State, sums: RowSums) -> RowStep:
    """The Newton step of the rows in (m, log s); none where the rates overflowed."""
    mean, variance = state
    n, k = mean.shape
    usable: Bools = np.isfinite(sums.gradient.sum(axis=1) + sums.curvature.sum(axis=1))
    diagonal = packed_diagonal(2 * k)
    # The second half of u belongs to the log variances: d/d(log s) of s c^2 / 2 is s times c^2 / 2.
    curvature = sums.curvature * packed_products(np.hstack([np.ones((n, k)), variance]))
    precision = 1.0 + sums.curvature[:, diagonal[:k]]
    gradient = np.hstack([sums.gradient - mean, 0.5 * (1.0 - variance * precision)])
    curvature[:, diagonal[:k]] += 1.0
    curvature[:, diagonal[k:]] += 0.5 * variance * precision
    if not usable.all():
        gradient = np.where(usable[:, None], gradient, 0.0)
        curvature = np.where(usable[:, None], curvature, 0.0)
    step = PackedCholesky(curvature, 2 * k).solve(gradient)
    decrement: Floats = np.einsum("ia,ia->i", gradient, step)
    np.clip(step[:, k:], -_LONGEST_LOG_STEP, _LONGEST_LOG_STEP, out=step[:, k:])
    return RowStep(step, decrement)

"""Alternating Newton steps on the rows and on the columns of a bilinear model."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from anypca._typing import Bools, Floats
from anypca.engine import Block, Statistics
from anypca.families import Family
from anypca.linalg import packed_diagonal, packed_size
from anypca.models._bilinear.evaluator import BlockEvaluator, Coefficients, ColumnSums, RowSums
from anypca.models._block_view import BlockView, open_block
from anypca.priors import NewtonStep, Prior
from anypca.solvers import BlockProblem, Coordinates, Update

# After 30 halvings a Newton step is a billionth of itself, which no objective resolves: the row stays.
_MAX_HALVINGS = 30
# Objectives of rows and columns are compared up to this many units in the last place of their terms, as sums of many
# terms lose a few of them.
_SLACK_ULPS = 16.0
# A column's step that is this small a part of the column, and still worse, only has rounding to gain: at a distance of
# 1e-6 from the optimum the objective differs by 1e-12 of its curvature.
_TINY_STEP = 1e-6
# Relative change that a column may suffer from being moved to new latent coordinates and back: a column that was put
# back to where it was has not moved.
_ROUND_TRIP = 1e-10
# Newton needs about ten steps, some tens where halvings hold it back; only rows without a finite optimum need more.
_MAX_NEWTON = 200


@dataclass(frozen=True, eq=False)
class Gauge:
    """A change of the latent coordinates, ``z -> (z - shift' f) @ matrix``, that leaves the predictor as it is."""

    shift: Floats
    """What of the fixed features f moves from the scores into their coefficients, shape (n_fixed, k)."""
    matrix: Floats
    """(k, k)."""
    inverse: Floats
    """Of ``matrix``, (k, k)."""

    def apply(self, points: Floats, features: Floats) -> Floats:
        """Scores (rows, k) of rows with fixed features (rows, n_fixed) in the new coordinates."""
        return (points - features @ self.shift) @ self.matrix

    def forward(self, old: Coefficients) -> Coefficients:
        """Coefficients in the new coordinates."""
        joint, k = np.empty_like(old.joint), old.loadings.shape[1]
        np.matmul(old.loadings, self.inverse.T, out=joint[:, :k])
        joint[:, k:] = old.fixed + old.loadings @ self.shift.T
        return old.with_joint(joint)

    def backward(self, new: Coefficients) -> Coefficients:
        """Coefficients in the coordinates that the gauge starts from."""
        loadings = new.loadings @ self.matrix.T
        return Coefficients(loadings, new.fixed - loadings @ self.shift.T, new.dispersion)


def intercept_shift(centre: Floats, n_fixed: int) -> Floats:
    """The shift (n_fixed, k) of a `Gauge` that moves the centre of the scores (k,) into the intercept."""
    shift = np.zeros((n_fixed, len(centre)))
    shift[:1] = centre
    return shift


@dataclass(frozen=True, eq=False)
class Shared:
    """The shared parameters, and how points under the previous ones translate to their coordinates."""

    coefficients: Coefficients
    gauge: Gauge | None = None


@dataclass(frozen=True, eq=False)
class SweepSums(Statistics):
    """Sums of a sweep over the blocks. "Entry" is before the rows' step, "exit" after it."""

    entry_columns: Floats
    """Log-likelihood of each column at entry without its part linear in x, shape (n_features,)."""
    exit_columns: Floats
    """Log-likelihood of each column at exit, shape (n_features,)."""
    linear: Floats
    """Derivative of that part in the coefficients at exit, shape (n_features, m)."""
    offset_value: float
    """The part of the log-likelihood that ``exit_columns`` leaves out; it does not depend on parameters."""
    score_penalty: float
    """Of the rows' points at exit."""
    gradient: Floats
    """In the coefficients at exit, shape (n_features, m)."""
    curvature: Floats
    """In the coefficients at exit, packed, shape (n_features, m (m + 1) / 2)."""
    row_decrement: float
    weight: float
    """Sum of the sample weights."""
    n_entries: float
    """Weighted number of observed entries."""
    score_sum: Floats
    """Weighted sum of scores, shape (k,)."""
    score_gram: Floats
    """Weighted sum of outer products of scores, shape (k, k)."""


class RowStep(NamedTuple):
    """Result of one Newton step of the rows of a block."""

    points: Floats
    """Where the rows are after it, shape (rows, n_coordinates)."""
    sums: ColumnSums
    """There."""
    entry_columns: Floats
    """Log-likelihood of each column before it, without its part linear in x, shape (n_features,)."""
    decrement: Floats
    """Of each row before it, shape (rows,)."""
    totals: Floats | None = None
    """Summed curvature in eta of each row before it, shape (rows,), if requested."""


class RowFit(NamedTuple):
    """Optima of rows under fixed coefficients."""

    points: Floats
    """(rows, n_coordinates)."""
    value: Floats
    """Log-likelihood less penalty at the optimum, without constants, shape (rows,)."""
    curvature: Floats
    """Of the log-likelihood alone at the optimum, packed, shape (rows, packed size of n_coordinates)."""
    converged: Bools
    """(rows,)."""


Sums = TypeVar("Sums", bound=SweepSums)


class AlternatingNewton(BlockProblem[Shared, Floats, Sums], Generic[Sums]):
    r"""Maximise a penalised log-likelihood, or a bound of one, over the points of the rows and the coefficients.

    .. math:: J = \sum_i s_i \Big( \sum_j \ell(x_{ij}; u_i, w_j, b_j) - \pi(u_i) \Big) - \sum_j \rho(w_j, b_j)

    The point u of a row begins with its scores. Rows take one Newton step in a sweep, then all columns take one; both
    are halved until J is no worse. A subclass says how the latent coordinates are chosen (`regauge`), and has:

    Attributes
    ----------
    family : Family
    score_prior : Prior
        pi, on the points of the rows.
    loading_prior : Prior
        rho, on the rows of [W | B].
    fit_intercept : bool
    constant : float
        Added to the objective: the likelihood's terms that do not depend on the parameters.
    eps : float
        Relative rounding error of the blocks' arithmetic.
    precision : str or None
        The dtype of the blocks' arithmetic; ``None`` for the dtype of the table.
    """

    family: Family
    score_prior: Prior
    loading_prior: Prior
    fit_intercept: bool
    constant: float
    eps: float
    precision: str | None = None

    @abstractmethod
    def regauge(self, coefficients: Coefficients, stats: Sums) -> Shared:
        """The coefficients in the best latent coordinates, from sums over the points they belong to."""

    def add_up(self, rows: BlockView, found: RowStep, stats: SweepSums) -> Sums:
        """The sums of a block with what `regauge` asks for beyond them; by default nothing."""
        return stats  # type: ignore[return-value]

    def open(self, block: Block, *, dense: bool = False) -> BlockView:
        """The rows of a block for sweeps; ``dense`` as in `open_block`."""
        how = {"fit_intercept": self.fit_intercept, "dense": dense}
        return open_block(block, family=self.family, precision=self.precision, **how)

    def evaluator(self, coefficients: Coefficients, rows: BlockView) -> BlockEvaluator:
        """Evaluates the model on a block."""
        return BlockEvaluator(self.family, coefficients, rows)

    def column_slopes(self, stats: Sums) -> tuple[Floats, Floats]:
        """Gradient (n_features, m) and packed curvature of the coefficients that are estimated."""
        return stats.gradient, stats.curvature

    def step(self, block: Block, shared: Shared, local: Floats | None) -> tuple[Floats, Sums]:
        """One Newton step of the block's rows; statistics for the columns at the new points."""
        rows = self.open(block)
        evaluator = self.evaluator(shared.coefficients, rows)
        points = evaluator.origin if local is None else local
        if local is not None and shared.gauge is not None:
            points = shared.gauge.apply(local, rows.features)
        # Trial points may overflow: their value is then -inf or NaN, which no comparison accepts.
        with np.errstate(over="ignore", invalid="ignore"):
            found = self._step_rows(evaluator, points, shared)
        return found.points, self.add_up(rows, found, self._sums(evaluator, found))

    def _sums(self, evaluator: BlockEvaluator, found: RowStep) -> SweepSums:
        rows, sums, weights = evaluator.rows, found.sums, evaluator.rows.weights
        scores = found.points[:, : evaluator.coefficients.loadings.shape[1]]
        # Squares of scores that nothing holds back may overflow; the loop refuses what is not finite.
        with np.errstate(over="ignore", invalid="ignore"):
            moment = (scores * weights[:, None]).T @ scores
        return SweepSums(
            found.entry_columns,
            sums.value,
            sums.linear,
            float(weights @ rows.offset_values),
            float(weights @ self.score_prior.value(found.points)),
            sums.gradient,
            sums.curvature,
            float(weights @ found.decrement),
            float(weights.sum()),
            rows.count(),
            weights @ scores,
            moment,
        )

    def _step_rows(self, evaluator: BlockEvaluator, points: Floats, shared: Shared) -> RowStep:
        if points.shape[1] == 0:
            sums = evaluator.column_sums(points)
            linear = np.einsum("ja,ja->j", sums.linear, evaluator.coefficients.joint)
            return RowStep(points, sums, sums.value - linear, np.zeros(len(points)))
        entry = evaluator.row_sums(points, observed=True)
        newton = self._newton_rows(points, entry)
        new, sums = self._guarded(evaluator, points, newton.step, entry.value)
        return RowStep(new, sums, entry.columns, newton.decrement)

    def _newton_rows(self, points: Floats, sums: RowSums) -> NewtonStep:
        """The Newton step of the rows; uses the penalty alone for rows whose predictor overflowed."""
        _, _, gradient, curvature = sums
        usable: Bools = np.isfinite(gradient.sum(axis=1) + curvature.sum(axis=1))
        if not usable.all():
            gradient = np.where(usable[:, None], gradient, 0.0)
            curvature = np.where(usable[:, None], curvature, 0.0)
        return self.score_prior.newton(points, gradient, curvature)

    def _guarded(
        self, evaluator: BlockEvaluator, points: Floats, step: Floats, value: Floats
    ) -> tuple[Floats, ColumnSums]:
        """Take the step where it helps, halved where it does not; column sums at the result."""
        if not points.any():
            # The first steps of rows are long: some are usually worse, which values alone tell in less time.
            new = self._halve(evaluator, points, step, value, first=1.0)
            return new, evaluator.column_sums(new)
        before = value - self.score_prior.value(points)
        new = points + step
        sums = evaluator.column_sums(new)
        worse = self._is_worse(sums.rows - self.score_prior.value(new), before, value)
        if not worse.any():
            return new, sums
        new[worse] = self._halve(evaluator.take(worse), points[worse], step[worse], value[worse], first=0.5)
        return new, evaluator.column_sums(new)

    def _halve(
        self, evaluator: BlockEvaluator, points: Floats, step: Floats, value: Floats, *, first: float
    ) -> Floats:
        """Shorten the steps of rows, from the fraction ``first`` on, until none is worse; else a row stays."""
        new = points.copy()
        open_rows = np.arange(len(points))
        before = value - self.score_prior.value(points)
        for halving in range(_MAX_HALVINGS):
            trial = points[open_rows] + first * 0.5**halving * step[open_rows]
            some = evaluator if len(open_rows) == len(points) else evaluator.take(open_rows)
            after = some.row_values(trial) - self.score_prior.value(trial)
            worse = self._is_worse(after, before[open_rows], value[open_rows])
            new[open_rows[~worse]] = trial[~worse]
            open_rows = open_rows[worse]
            if open_rows.size == 0:
                break
        return new

    def _is_worse(self, after: Floats, before: Floats, value: Floats) -> Bools:
        """Whether the objective of rows or columns decreased (or is NaN), up to rounding relative to ``value``."""
        return np.asarray(~(after >= before - self._slack(value)))

    def _slack(self, value: Floats) -> Floats:
        """Rounding level of the objectives of rows or columns."""
        return _SLACK_ULPS * self.eps * (1.0 + np.abs(value))

    def objective(self, shared: Shared, stats: Sums) -> float:
        """J with all constants, at the exit of a sweep."""
        penalty = float(self.loading_prior.value(shared.coefficients.joint).sum())
        likelihood = float(stats.exit_columns.sum()) + stats.offset_value + self.constant
        return likelihood - stats.score_penalty - penalty

    def resolution(self, shared: Shared, stats: Sums) -> float:
        """Rounding level of the objective: what its columns are granted, and the sum's own."""
        return _SLACK_ULPS * self.eps * (float(np.abs(stats.exit_columns).sum()) + abs(self.constant))

    def update(self, shared: Shared, stats: Sums) -> Update[Shared]:
        """One Newton step of every column, then the best latent coordinates."""
        newton = self.loading_prior.newton(shared.coefficients.joint, *self.column_slopes(stats))
        return self.updated(shared, stats, newton)

    def updated(self, shared: Shared, stats: Sums, newton: NewtonStep) -> Update[Shared]:
        """The proposal of a step of the columns."""
        old = shared.coefficients
        decrement = float(newton.decrement.sum()) + stats.row_decrement
        criterion = np.sqrt(max(decrement, 0.0) / max(stats.n_entries, 1.0))
        proposal = self.regauge(old.with_joint(old.joint + newton.step), stats)
        return Update(proposal, float(criterion), gain=0.5 * decrement)

    def backtrack(self, shared: Shared, proposal: Shared, before: Sums, after: Sums) -> Shared | None:
        """Halve the step of the columns whose penalised log-likelihood got worse."""
        gauge, coefficients = proposal.gauge, proposal.coefficients
        old = shared.coefficients.joint
        new = (coefficients if gauge is None else gauge.backward(coefficients)).joint
        value_before = before.exit_columns - self.loading_prior.value(old)
        # The points have not moved between the two, so the linear part is a product with the old derivative.
        linear = np.einsum("ja,ja->j", before.linear, new)
        value_after = after.entry_columns + linear - self.loading_prior.value(new)
        moved = (np.abs(new - old) > _ROUND_TRIP * (1.0 + np.abs(old))).any(axis=1)
        # The rounding level comes from the parts, which may cancel in the sum.
        size = np.abs(before.exit_columns) + np.abs(linear)
        worse = self._is_worse(value_after, value_before, size) & moved
        if not worse.any():
            return None
        halved = 0.5 * (old + new)
        is_tiny = np.all(np.abs(halved - old) <= _TINY_STEP * (1.0 + np.abs(old)), axis=1, keepdims=True)
        joint = np.where(worse[:, None], np.where(is_tiny, old, halved), new)
        return self.regauge(shared.coefficients.with_joint(joint), before)

    def without_gauge(self, shared: Shared) -> Shared:
        """The coefficients alone."""
        return Shared(shared.coefficients)

    def coordinates(self, shared: Shared, stats: Sums) -> Coordinates:
        """All coefficients; rare columns move much but matter little, hence the curvature as metric."""
        joint = shared.coefficients.joint
        diagonal = stats.curvature[:, packed_diagonal(joint.shape[1])]
        return Coordinates(joint.ravel(), np.sqrt(diagonal).ravel())

    def with_coordinates(self, vector: Floats, like: Shared) -> Shared:
        plain = like.coefficients.joint
        # What the plain step makes zero is zero on purpose; a combination of earlier steps would only approach it.
        joint = np.where(plain == 0.0, 0.0, vector.reshape(plain.shape))
        return replace(like, coefficients=like.coefficients.with_joint(joint))

    def first_points(self, evaluator: BlockEvaluator) -> Floats:
        """Default starting points of rows, shape (rows, n_coordinates)."""
        return evaluator.origin

    def solve_rows(self, evaluator: BlockEvaluator, start: Floats, *, is_rough: bool = False) -> RowFit:
        """Optimum of each row by damped Newton steps from ``start``.

        The result of a row does not depend on other rows: each has its own step length and stopping rule. From a rough
        start each row takes at least two steps, because widths use the curvature at the point before the last step.
        """
        n = evaluator.rows.n_rows
        found = RowFit(
            start.copy(), np.zeros(n), np.zeros((n, packed_size(start.shape[1]))), np.zeros(n, dtype=bool)
        )
        active, some = np.arange(n), evaluator
        is_held = np.zeros(n, dtype=bool)
        with np.errstate(over="ignore", invalid="ignore"):
            sums = evaluator.row_sums(start, observed=True)
            for number in range(_MAX_NEWTON):
                points = found.points[active]
                # Both parts of the value at one point: apart, they change in the first order of the last step.
                found.value[active] = sums.value - self.score_prior.value(points)
                found.curvature[active] = sums.curvature
                newton = self._newton_rows(points, sums)
                # A gain that the objective cannot resolve is taken unseen, as the last step: Newton's error squares.
                slack = self._slack(sums.value)
                # Predictors far from zero, such as years, round more than the objective: a small step is then refused.
                slack[is_held[active]] = np.sqrt(self.eps) * (1.0 + np.abs(sums.value[is_held[active]]))
                solved = (newton.decrement <= slack) & (number >= is_rough)
                found.converged[active[solved]] = True
                found.points[active[solved]] += newton.step[solved]
                going = ~solved
                if not going.any():
                    break
                if solved.any():
                    active, some = active[going], some.take(going)
                points, step = points[going], newton.step[going]
                found.points[active], sums = self._guarded_alone(some, points, step, sums.value[going])
                is_held[active] = (found.points[active] != points + step).any(axis=1)
        return found

    def _guarded_alone(
        self, evaluator: BlockEvaluator, points: Floats, step: Floats, value: Floats
    ) -> tuple[Floats, RowSums]:
        """Take the step where it helps, halved where it does not; row sums at the result."""
        before = value - self.score_prior.value(points)
        new = points + step
        sums = evaluator.row_sums(new, observed=True)
        worse = self._is_worse(sums.value - self.score_prior.value(new), before, value)
        if worse.any():
            some = evaluator.take(worse)
            new[worse] = self._halve(some, points[worse], step[worse], value[worse], first=0.5)
            again = some.row_sums(new[worse], observed=True)
            sums.value[worse], sums.gradient[worse] = again.value, again.gradient
            sums.curvature[worse] = again.curvature
        return new, sums

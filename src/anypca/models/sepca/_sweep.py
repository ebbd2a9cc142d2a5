r"""One sweep: the best posterior of every row, then of every column, then the best latent coordinates.

Rows: :math:`q(z_i) = N(m_i, S_i)` under :math:`z_i \sim N(0, I)`; columns: :math:`q(\tilde w_j) = N(v_j, C_j)` for
:math:`\tilde w = (w, b, B)` under :math:`w_{jk} \sim N(0, u_j / \alpha_k)` with :math:`u_j` the squared unit of the
column (its noise variance, or 1 if the predictor has no unit). With :math:`\tilde z = (z, f)` the predictor has mean
:math:`o + \tilde m' v` and second moment :math:`\langle T_i, M_j \rangle` (second moments of both sides), so one
product of packed matrices gives the variances of a whole tile. The objective is the bound

.. math:: L = \sum_{ij} \bar\ell(x_{ij}, \bar\eta_{ij}, \mathrm{var}\,\eta_{ij}) - \sum_i KL(z_i) - \sum_j KL(w_j)

with the family's ``expect`` as :math:`\bar\ell`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.linalg

from anypca._typing import Bools, Floats, Ints
from anypca.engine import Block, Statistics
from anypca.families import Family
from anypca.families._canonical import CanonicalFamily
from anypca.families.mixed import with_tight_expectation
from anypca.linalg import (
    doubled,
    pack_symmetric,
    packed_cross,
    packed_diagonal,
    packed_position,
    packed_products,
    packed_squares,
    packed_times,
    symmetric_powers,
    unpack_symmetric,
)
from anypca.models._bilinear.evaluator import weighted_terms
from anypca.models._block_view import BlockView, apply_entry_weights, open_block
from anypca.models.sepca._posterior import Affine, Loadings, Moments, Scores, invert
from anypca.solvers import BlockProblem, Update

# Halvings of a row's step; after so many the step is not taken, since its gain would be lost in rounding.
_MAX_HALVINGS = 14
# Steps to the posterior of a row, and the number of them that may go all the way: rows that still move then oscillate
# around their optimum, and converge with half steps.
_MAX_ROW_STEPS, _FULL_STEPS = 500, 30
# Change of a row's mean, relative to its standard deviation and 1, at which it has converged: scores agree to eight
# digits, or to some units in the last place of the blocks' arithmetic.
_SOLVED = 1e-9
# Relative error of close expectations of yes/no answers: their normal distribution function is right to 7.5e-8, so that
# over a step of 1e-6 values and derivatives disagree by about this much.
_EXPECTATION_EPS = 1e-13
# Bounds and means are compared up to this many units in the last place of their terms.
_ULPS = 64.0
# A column's step that is this small a part of the column has only rounding to gain.
_TINY_STEP = 1e-7


@dataclass(frozen=True, eq=False)
class SweepSums(Statistics):
    """Sums over rows. "Entry" is before the rows' step, "exit" after it."""

    entry_columns: Floats
    """Expected log-likelihood of each column at entry, shape (n_features,)."""
    exit_columns: Floats
    """The same at exit."""
    score_divergence: float
    """Weighted sum of the rows' KL to their prior."""
    target: Floats
    """Right-hand sides of the columns' means, shape (n_features, m)."""
    information: Floats
    """Precisions of the columns without their prior, packed, shape (n_features, m (m + 1) / 2)."""
    row_decrement: float
    """Weighted sum of the rows' squared steps in units of their posterior."""
    weight: float
    """Sum of the sample weights."""
    n_entries: float
    """Weighted number of observed entries."""
    score_sum: Floats
    """Weighted sum of means of the scores, shape (k,)."""
    score_moment: Floats
    """Weighted sum of second moments of the scores, shape (k, k)."""


@dataclass(frozen=True, eq=False)
class VariationalProblem(BlockProblem[Loadings, Scores, SweepSums]):
    """Coordinate ascent on the bound, with the best latent coordinates after each sweep.

    Parameters
    ----------
    family : Family
    fit_intercept : bool
    constant : float
        Terms of the log-likelihood without the predictor.
    eps : float
        Relative rounding error of the blocks' arithmetic.
    is_quadratic : bool
        The log-likelihood is quadratic in the predictor, with the same curvature in all entries of a column.
    holds_ard : bool
        Leave the ARD precisions as they are.
    """

    family: Family
    fit_intercept: bool = True
    constant: float = 0.0
    eps: float = float(np.finfo(float).eps)
    is_quadratic: bool = False
    holds_ard: bool = False

    @property
    def _accuracy(self) -> float:
        return self.eps if self.is_quadratic else max(self.eps, _EXPECTATION_EPS)

    def expectation(self, shared: Loadings, rows: BlockView) -> Expectation:
        """The expected log-likelihood of rows under a posterior of the loadings."""
        kind = QuadraticExpectation if self.is_quadratic else Expectation
        return kind(with_tight_expectation(self.family), shared, rows)

    def step(self, block: Block, shared: Loadings, local: Scores | None) -> tuple[Scores, SweepSums]:
        """The best posterior of the block's rows, and sums for the columns."""
        rows = open_block(block, fit_intercept=self.fit_intercept, family=self.family)
        expectation = self.expectation(shared, rows)
        # Trial points may overflow: their value is then -inf or NaN, which no comparison accepts.
        with np.errstate(over="ignore", invalid="ignore"):
            before = Moments.of(self._start(rows, shared, local), rows.features)
            entry = expectation.row_sums(before)
            after, leaving = self._improved_rows(expectation, before, entry)
        mean, weights = after.scores.mean, rows.weights
        precision = np.broadcast_to(after.scores.precision, (rows.n_rows, after.scores.precision.shape[1]))
        moment = (mean * weights[:, None]).T @ mean
        moment += _full(_weighted_sum(after.covariance, weights), mean.shape[1])
        sums = SweepSums(
            entry.columns,
            leaving.columns,
            float(weights @ after.divergence),
            leaving.target,
            leaving.information,
            float(weights @ packed_squares(precision, mean - before.scores.mean)),
            float(weights.sum()),
            rows.count(),
            weights @ mean,
            moment,
        )
        return after.scores, sums

    def solve_rows(
        self, rows: BlockView, shared: Loadings, max_iter: int = _MAX_ROW_STEPS
    ) -> tuple[Scores, Bools]:
        """q(z) of rows under fixed loadings, iterated until the means converge; and which rows converged, (rows,)."""
        mean, precision = Scores.prior(rows.n_rows, shared.n_components)
        expectation = self.expectation(shared, rows)
        # Converged rows leave: a few slow ones do not hold up the others.
        active = np.arange(rows.n_rows)
        limit = max(_SOLVED, _ULPS * self._accuracy)
        with np.errstate(over="ignore", invalid="ignore"):
            for iteration in range(max_iter):
                features = expectation.rows.features
                before = Moments.of(Scores(mean[active], precision[active]), features)
                entry = expectation.row_sums(before)
                # Rows of families that are not log-concave may oscillate under full steps.
                fraction = 1.0 if iteration < _FULL_STEPS else 0.5
                after, _ = self._improved_rows(expectation, before, entry, fraction)
                moved = np.abs(after.scores.mean - mean[active]).max(axis=1, initial=0.0)
                mean[active], precision[active] = after.scores
                trace = after.covariance[:, packed_diagonal(mean.shape[1])].sum(axis=1)
                is_moving = ~(moved <= limit * (1.0 + np.sqrt(trace)))
                moving = np.flatnonzero(is_moving & (not self.is_quadratic))
                # A row whose scores have half the digits is slow, not unsolved.
                is_far = moved[moving] > np.sqrt(limit * trace[moving])
                active = active[moving]
                if not active.size:
                    break
                expectation = expectation.take(moving)
        solved: Bools = np.ones(len(mean), dtype=bool)
        solved[active] = ~is_far
        return Scores(mean, precision), solved

    def row_bounds(self, rows: BlockView, shared: Loadings, scores: Scores) -> Floats:
        """The part of the bound that belongs to each row, without constants, shape (rows,)."""
        moments = Moments.of(scores, rows.features)
        found = Expectation(with_tight_expectation(self.family), shared, rows).row_sums(moments)
        return np.asarray(found.rows - moments.divergence)

    def objective(self, shared: Loadings, stats: SweepSums) -> float:
        """The bound with all constants, at the exit of a sweep."""
        likelihood = float(stats.exit_columns.sum()) + self.constant
        return likelihood - stats.score_divergence - float(shared.divergence.sum())

    def resolution(self, shared: Loadings, stats: SweepSums) -> float:
        """Rounding level of the bound."""
        return _ULPS * self._accuracy * (float(np.abs(stats.exit_columns).sum()) + abs(self.constant))

    def update(self, shared: Loadings, stats: SweepSums) -> Update[Loadings]:
        """The best posterior of every column, then the best latent coordinates and ARD precisions."""
        precision = column_precision(shared, stats.information)
        best = shared.solved(precision, stats.target)
        by_column = packed_squares(precision, best.mean - shared.mean)
        # Intercepts of constant columns have a prior; they converge to its scale slowly and affect no other parameter.
        is_constant = (shared.fixed_precision[:, : int(self.fit_intercept)] > 0).any(axis=1)
        decrement = float(by_column[~is_constant].sum()) + stats.row_decrement
        criterion = float(np.sqrt(max(decrement, 0.0) / max(stats.n_entries, 1.0)))
        if not shared.n_components:  # the means are unchanged from the start; only the precisions are new
            criterion = max(criterion, _largest_change(shared.precision, precision))
        return Update(self.in_best_coordinates(best, stats), criterion)

    def in_best_coordinates(self, shared: Loadings, stats: SweepSums) -> Loadings:
        """White scores around zero and orthogonal loadings, which have the largest bound, and ARD precisions.

        Parameter expansion (Liu and Wu 1999): the prediction is unchanged, and sweeps converge much faster.
        """
        k = shared.n_components
        if k == 0:
            return replace(shared, change=None)
        shift = stats.score_sum / stats.weight if self.fit_intercept else np.zeros(k)
        matrix = np.eye(k)
        if shared.sparsity == 0:  # a rotation would undo exact zeros
            moment = stats.score_moment / stats.weight - np.outer(shift, shift)
            root, inverse_root = symmetric_powers(moment, 0.5, -0.5)
            _, rotation = scipy.linalg.eigh(root @ shared.gram @ root)
            matrix = rotation[:, ::-1].T @ inverse_root
        new = self.mapped(shared, Affine(shift, matrix))
        return new if self.holds_ard else replace(new, ard_precision=len(new.mean) / new.sizes)

    def mapped(self, shared: Loadings, change: Affine) -> Loadings:
        """Loadings in new coordinates; predictors stay."""
        mapping = change.mapping(shared.mean.shape[1], fit_intercept=self.fit_intercept)
        return shared.in_coordinates(mapping, change)

    def without_gauge(self, shared: Loadings) -> Loadings:
        """The posterior without the change of coordinates that led to it."""
        return replace(shared, change=None)

    def backtrack(
        self, shared: Loadings, proposal: Loadings, before: SweepSums, after: SweepSums
    ) -> Loadings | None:
        """Backtrack by half in columns whose bound decreased, if by more than all columns together gained."""
        m = shared.mean.shape[1]
        change = proposal.change or Affine(np.zeros(shared.n_components), np.eye(shared.n_components))
        mapping = change.mapping(m, fit_intercept=self.fit_intercept)
        value_before = before.exit_columns - shared.divergence
        value_after = after.entry_columns - proposal.divergence_before(mapping, shared.ard_precision)
        new = proposal.in_coordinates(np.linalg.inv(mapping), change)
        step, size = np.abs(new.mean - shared.mean).max(axis=1), np.abs(shared.mean).max(axis=1)
        # Written such that a NaN counts as worse.
        worse = ~(value_after >= value_before - self._slack(before.exit_columns))
        worse &= step > _TINY_STEP * (1.0 + size)
        gain = self.objective(proposal, after) - self.objective(shared, before)
        # Among many columns one overshoots in nearly every sweep, which need not be repeated for it.
        if self.is_quadratic or not worse.any() or gain >= (value_before - value_after)[worse].sum():
            return None
        pick = worse[:, None]
        mean = np.where(pick, 0.5 * (shared.mean + new.mean), new.mean)
        precision = np.where(pick, 0.5 * (shared.precision + new.precision), new.precision)
        return self.in_best_coordinates(shared.with_posterior(mean, precision), before)

    def _slack(self, value: Floats) -> Floats:
        """Rounding level of the bounds of rows or columns."""
        return _ULPS * self._accuracy * (1.0 + np.abs(value))

    def _start(self, rows: BlockView, shared: Loadings, local: Scores | None) -> Scores:
        """q(z) to start from, in the coordinates of ``shared``: of the last sweep, or the prior."""
        if local is None:
            return Scores.prior(rows.n_rows, shared.n_components)
        return local if shared.change is None else shared.change.apply(local)

    def _improved_rows(
        self, expectation: Expectation, before: Moments, entry: Sums, fraction: float = 1.0
    ) -> tuple[Moments, Sums]:
        """The optimum of the rows' quadratic models, or a fraction of the way; less far for rows that would lose.

        Also returns the sums for the columns there.
        """
        features = expectation.rows.features
        best, inverse = self._best_rows(expectation.loadings, before, entry)
        part = np.full(len(best.mean), fraction)
        if fraction == 1.0:
            after = Moments.of(best, features, inverse)
        else:
            after = Moments.of(before.scores.towards(best, part), features)
        if self.is_quadratic:
            return after, expectation.column_sums(after)
        value, slack = entry.rows - before.divergence, self._slack(entry.rows)
        sums = expectation.column_sums(after)
        worse = np.flatnonzero(~(sums.rows - after.divergence >= value - slack))
        if not worse.size:
            return after, sums
        for _ in range(_MAX_HALVINGS):
            part[worse] *= 0.5
            old, new = (Scores(s.mean[worse], s.precision[worse]) for s in (before.scores, best))
            trial = Moments.of(old.towards(new, part[worse]), features[worse])
            found = expectation.take(worse).row_sums(trial)
            worse = worse[~(found.rows - trial.divergence >= value[worse] - slack[worse])]
            if not worse.size:
                break
        part[worse] = 0.0
        after = Moments.of(before.scores.towards(best, part), features)
        return after, expectation.column_sums(after)

    def _best_rows(
        self, shared: Loadings, before: Moments, sums: Sums
    ) -> tuple[Scores, tuple[Floats, Floats] | None]:
        """The optimum of the rows' quadratic models, with the value of `invert`; rows that overflowed stay."""
        k, m = shared.n_components, shared.mean.shape[1]
        cross = sums.information[:, packed_cross(m, k)]
        right = sums.target[:, :k] - np.einsum("iab,ib->ia", cross, before.design[:, k:])
        precision = sums.information[:, packed_position(m, k)] + pack_symmetric(np.eye(k))
        usable = np.isfinite(right.sum(axis=1) + precision.sum(axis=1))
        if not usable.all():
            right = np.where(usable[:, None], right, 0.0)
            precision = np.where(usable[:, None], precision, pack_symmetric(np.eye(k)))
        inverse = invert(precision, k)
        if len(precision) == 1:
            return Scores(right @ _full(inverse[0][0], k), precision), inverse
        mean = packed_times(inverse[0], right)
        if usable.all():
            return Scores(mean, precision), inverse
        mean = np.where(usable[:, None], mean, before.scores.mean)
        return Scores(mean, np.where(usable[:, None], precision, before.scores.precision)), None


def column_precision(shared: Loadings, information: Floats) -> Floats:
    """Precisions of the columns from information about them and their prior, packed."""
    precision = shared.with_prior(information)
    if shared.sparsity > 0:
        precision[:, packed_diagonal(shared.mean.shape[1])[: shared.n_components]] += shared.shrinkage
    return precision


class Sums(NamedTuple):
    """Expected log-likelihoods, and what the update of one side needs."""

    rows: Floats
    """Of each row, shape (rows,)."""
    columns: Floats
    """Of each column, weighted, shape (n_features,)."""
    target: Floats
    """Right-hand sides of one side's means, shape (rows or n_features, m)."""
    information: Floats
    """Its precisions without the prior, packed; one row if all rows share it."""


@dataclass(frozen=True, eq=False)
class Expectation:
    """A family under a posterior of the loadings, on the rows of a block.

    If the log-likelihood is linear in the entries, ``x eta - A(eta)``, the sums over ``x`` of a complete block are
    products with it, and only the expected cumulant is evaluated entry by entry.
    """

    family: Family
    loadings: Loadings
    rows: BlockView

    @cached_property
    def _mean(self) -> Floats:
        return self.loadings.mean.astype(self.rows.dtype, copy=False)

    @cached_property
    def _second(self) -> Floats:
        return self.loadings.second_moment.astype(self.rows.dtype, copy=False)

    @cached_property
    def _products(self) -> Floats:
        """Second moments around the fixed coefficients' means, doubled off the diagonal."""
        moments = doubled(self.loadings.moment_around_fixed, self.loadings.mean.shape[1])
        return moments.astype(self.rows.dtype, copy=False)

    @cached_property
    def _image(self) -> Floats:
        """The entries times the means of the coefficients, shape (rows, m)."""
        return np.asarray(self.rows.product @ self._mean)

    def take(self, index: Ints) -> Expectation:
        """The same for some of the rows."""
        return replace(self, rows=self.rows.take(index))

    def row_sums(self, moments: Moments) -> Sums:
        """Sums over columns, for the rows' update."""
        m, size, n = self.loadings.mean.shape[1], self.loadings.precision.shape[1], self.rows.n_rows
        target, information = np.zeros((n, m)), np.zeros((n, size))
        by_row, by_column = np.zeros(n), np.empty(self.rows.n_features)
        for tile, value, working, curvature in self.tiles(moments):
            self._add_values(by_row, by_column, tile, value)
            target += working @ self._mean[tile]
            information += curvature @ self._second[tile]
        return self._with_linear(moments, Sums(by_row, by_column, target, information), over_rows=False)

    def column_sums(self, moments: Moments) -> Sums:
        """Weighted sums over rows, for the columns' update."""
        weights, dtype, p = self.rows.weights, self.rows.dtype, self.rows.n_features
        design, second = moments.design, moments.second
        if self.rows.weight is not None:
            design, second = (array * weights[:, None] for array in (design, second))
        design, second = (array.astype(dtype, copy=False) for array in (design, second))
        target, information = np.empty((p, design.shape[1])), np.empty((p, second.shape[1]), dtype)
        by_row, by_column = np.zeros(self.rows.n_rows), np.empty(p)
        for tile, value, working, curvature in self.tiles(moments):
            self._add_values(by_row, by_column, tile, value)
            target[tile] = working.T @ design
            np.matmul(curvature.T, second, out=information[tile])
        return self._with_linear(moments, Sums(by_row, by_column, target, information), over_rows=True)

    def tiles(self, moments: Moments) -> Iterator[tuple[slice, Floats, Floats, Floats]]:
        """Value, curvature times working response, and curvature of the entries of a run of columns after the other.

        Zero at missing entries. If products are used they are terms of minus the cumulant, except for its value.
        """
        rows, dispersion = self.rows, self.loadings.dispersion.astype(self.rows.dtype, copy=False)
        for tile, inner, eta, variance in self.predictors(moments):
            if rows.table is None:
                assert isinstance(self.family, CanonicalFamily)
                value, mean, curvature = self.family.expected_cumulant(eta, variance)
                yield tile, value, inner * curvature - mean, curvature
                continue
            found = self.family.take(tile).expected_log_likelihood(
                rows.x[:, tile], eta, variance, dispersion[tile]
            )
            value, gradient, curvature = weighted_terms(rows, tile, found)
            yield tile, value, gradient + curvature * inner, curvature

    def predictors(self, moments: Moments) -> Iterator[tuple[slice, Floats, Floats, Floats]]:
        """Mean of the predictor without offset, with it, and its variance, tile after tile."""
        rows, k = self.rows, self.loadings.n_components
        design, second = (array.astype(rows.dtype, copy=False) for array in (moments.design, moments.second))
        for tile in rows.tiles():
            inner = design[:, :k] @ self._mean[tile, :k].T
            # <T, M> minus the squared mean, both without fixed parts; rounding may leave it a little below zero.
            variance = second @ self._products[tile].T
            variance -= inner * inner
            np.abs(variance, out=variance)
            inner += design[:, k:] @ self._mean[tile, k:].T
            eta = inner
            if rows.offset is not None:
                eta = inner + (rows.offset if rows.offset.shape[1] == 1 else rows.offset[:, tile])
            yield tile, inner, eta, variance

    def _add_values(self, by_row: Floats, by_column: Floats, tile: slice, value: Floats) -> None:
        """Add values of a tile to the sums of the rows, in double precision, and set their columns' weighted sums."""
        by_row += value @ np.ones(value.shape[1], value.dtype)
        by_column[tile] = self.rows.weights @ value

    def _with_linear(self, moments: Moments, sums: Sums, *, over_rows: bool) -> Sums:
        """Sums of a cumulant completed by the products with the entries."""
        rows = self.rows
        if rows.table is not None:
            return sums
        weighted = (moments.design * rows.weights[:, None]).astype(rows.dtype, copy=False)
        back = np.asarray(rows.product.T @ weighted, dtype=float)
        by_row = np.einsum("ia,ia->i", moments.design, self._image) + rows.offset_values - sums.rows
        by_column = np.einsum("ja,ja->j", self.loadings.mean, back) + rows.offset_totals - sums.columns
        return Sums(by_row, by_column, sums.target + (back if over_rows else self._image), sums.information)


class QuadraticExpectation(Expectation):
    """The same for real columns: curvatures do not depend on the entries, so that complete rows share a precision.

    Rows and columns reach their optima in one step, so values of rows, and values at entry, are not needed.
    """

    @property
    def _curvature(self) -> Floats:
        return 1.0 / self.loadings.dispersion

    @cached_property
    def _entries(self) -> Floats | None:
        """Weight of each entry times its curvature, shape (rows, n_features); ``None`` for a complete block."""
        rows = self.rows
        if rows.observed is None and rows.entry is None:
            return None
        return apply_entry_weights(
            rows, slice(None), np.broadcast_to(self._curvature, (rows.n_rows, rows.n_features))
        )

    def row_sums(self, moments: Moments) -> Sums:
        """Sums over columns, for the rows' update, from residuals at scores of zero."""
        k, entries = self.loadings.n_components, self._entries
        design = moments.design.copy()
        design[:, :k] = 0.0
        _, gradient, inner = self._terms(design)
        weight = self._curvature if entries is None else entries
        target = (gradient + weight * inner) @ self.loadings.mean
        second = self.loadings.second_moment
        information = (self._curvature @ second)[None] if entries is None else entries @ second
        nothing = np.zeros(self.rows.n_features)
        return Sums(nothing, nothing, target, information)

    def column_sums(self, moments: Moments) -> Sums:
        """Weighted sums over rows, for the columns' update."""
        k, m, loadings, weights = (
            self.loadings.n_components,
            self.loadings.mean.shape[1],
            self.loadings,
            self.rows.weights,
        )
        value, gradient, inner = self._terms(moments.design)
        entries, position = self._entries, packed_position(m, k)
        design = moments.design * weights[:, None]
        target = (gradient + (self._curvature if entries is None else entries) * inner).T @ design
        products = packed_products(moments.design)
        if entries is None:
            known, unknown = weights @ products, _weighted_sum(moments.covariance, weights)
            information = np.repeat(known[None], len(target), axis=0)
            information[:, position] += unknown
            information *= self._curvature[:, None]
            known, unknown = (np.outer(self._curvature, part) for part in (known, unknown))
        else:
            weighted = (entries * weights[:, None]).T
            known, unknown = weighted @ products, weighted @ moments.covariance
            information = known.copy()
            information[:, position] += unknown
        around = loadings.moment_around_fixed[:, position]
        spread = np.einsum("ja,ja->j", known, doubled(loadings.covariance, m))
        spread += np.einsum("ja,ja->j", unknown, doubled(around, k))
        return Sums(np.zeros(self.rows.n_rows), weights @ value - 0.5 * spread, target, information)

    def _terms(self, design: Floats) -> tuple[Floats, Floats, Floats]:
        """Values and gradients at the means of the predictors, and these without offset; (rows, n_features) each."""
        inner = design @ self.loadings.mean.T
        eta = self.rows.shifted(inner)
        found = self.family.evaluate(self.rows.x, eta, self.loadings.dispersion, order=1)
        value, gradient = (apply_entry_weights(self.rows, slice(None), part) for part in found[:2])
        return value, gradient, inner


def _weighted_sum(packed: Floats, weights: Floats) -> Floats:
    """Weighted sum of packed matrices of rows, which may share one."""
    return packed[0] * weights.sum() if len(packed) == 1 else weights @ packed


def _full(packed: Floats, size: int) -> Floats:
    """One packed symmetric matrix as (size, size)."""
    return np.asarray(unpack_symmetric(packed[None], size)[0])


def _largest_change(before: Floats, after: Floats) -> float:
    """Of packed precisions, relative to the largest entry of a column's; without coefficients there is none."""
    change, size = (np.abs(array).max(axis=1, initial=0.0) for array in (after - before, after))
    return float(np.max(change[size > 0] / size[size > 0], initial=0.0))

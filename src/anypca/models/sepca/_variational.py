r"""Variational posterior of scores and loadings with automatic relevance determination.

Rows: :math:`q(z_i) = N(m_i, S_i)` under :math:`z_i \sim N(0, I)`; columns: :math:`q(\tilde w_j) = N(v_j, C_j)` for
:math:`\tilde w = (w, b, B)` under :math:`w_{jk} \sim N(0, u_j / \alpha_k)` with :math:`u_j` the units of the column
(1, or its noise in mixed tables), flat for the intercept and covariates.
With :math:`\tilde z = (z, f)` the predictor has mean :math:`o + \tilde m' v` and second moment
:math:`\langle T_i, M_j \rangle` (second moments of both sides), so one product of packed matrices gives the
variances of a whole tile. The objective is the bound

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

from anypca._typing import Bools, Floats
from anypca.engine import Block
from anypca.families import Family
from anypca.linalg import (
    PackedCholesky,
    pack_symmetric,
    packed_diagonal,
    packed_position,
    packed_products,
    symmetric_power,
    unpack_symmetric,
)
from anypca.models._bilinear.kernel import mask_missing
from anypca.models._opened import OpenedBlock, open_block
from anypca.models.sepca._posterior import Affine, Loadings, Moments, Scores, VariationalStats, between
from anypca.solvers import BlockProblem, Update

_MAX_HALVINGS = 20
_FULL_STEPS = 30
_SHARP_EPS = 1e-13
_SOLVED_ULPS = 50.0
_SLACK_ULPS = 64.0


class _Sums(NamedTuple):
    rows: Floats
    columns: Floats
    target: Floats
    information: Floats


@dataclass(frozen=True, eq=False)
class VariationalProblem(BlockProblem[Loadings, Scores, VariationalStats]):
    """Coordinate ascent on the bound, with the best change of latent coordinates after each sweep.

    Parameters
    ----------
    family : Family
    fit_intercept : bool
    constant : float
        Terms of the log-likelihood without the predictor.
    eps : float
        Relative rounding error of the blocks' arithmetic.
    hold_relevance : bool
        Leave alpha as it is.
    sharp : bool
        Families whose expectation is a bound take their slower, close one.
    """

    family: Family
    fit_intercept: bool = True
    constant: float = 0.0
    eps: float = float(np.finfo(float).eps)
    hold_relevance: bool = False
    sharp: bool = False

    @property
    def _accuracy(self) -> float:
        # Close expectations and their derivatives belong together to within the error of the approximation only.
        return max(self.eps, _SHARP_EPS) if self.sharp else self.eps

    @cached_property
    def _expecting(self) -> Family:
        return self.family.sharp if self.sharp else self.family

    def step(self, block: Block, shared: Loadings, local: Scores | None) -> tuple[Scores, VariationalStats]:
        rows = open_block(block, fit_intercept=self.fit_intercept, family=self.family)
        with np.errstate(over="ignore", invalid="ignore"):
            before = Moments.of(self._start(rows, shared, local), rows.features)
            entry = self._sums(rows, shared, before, over_rows=False)
            proposed = self._best_rows(shared, before, entry)
            after, exit_ = self._guarded(rows, shared, before, proposed, entry)
        weights = rows.weights
        moved = after.scores.mean - before.scores.mean
        decrement = np.einsum(
            "ia,iab,ib->i", moved, unpack_symmetric(after.scores.precision, moved.shape[1]), moved
        )
        mean = after.scores.mean
        position = packed_position(after.design.shape[1], mean.shape[1])
        moment = unpack_symmetric((weights @ after.second[:, position])[None], mean.shape[1])[0]
        stats = VariationalStats(
            entry.columns,
            exit_.columns,
            float(weights @ after.divergence),
            exit_.target,
            exit_.information,
            float(weights @ decrement),
            float(weights.sum()),
            rows.count(),
            weights @ mean,
            moment,
        )
        return after.scores, stats

    def solve_rows(self, rows: OpenedBlock, shared: Loadings, max_iter: int = 200) -> tuple[Scores, Bools]:
        """q(z) of rows under fixed loadings, iterated until the means stand still; which rows got there, (rows,)."""
        scores = self._start(rows, shared, None)
        mean, precision = scores.mean.copy(), scores.precision.copy()
        # Rows leave when they stand still: a few slow ones do not hold up the others.
        active = np.arange(rows.n_rows)
        limit = max(1e-9, _SOLVED_ULPS * self._accuracy)
        with np.errstate(over="ignore", invalid="ignore"):
            for iteration in range(max_iter):
                before = Moments.of(Scores(mean[active], precision[active]), rows.features)
                entry = self._sums(rows, shared, before, over_rows=False)
                proposed = self._best_rows(shared, before, entry)
                # Steps that go too far both ways around the optimum, by less than the bound can tell, are halved.
                fraction = 1.0 if iteration < _FULL_STEPS else 0.5
                after, _ = self._guarded(rows, shared, before, proposed, entry, fraction)
                moved = np.abs(after.scores.mean - mean[active]).max(axis=1, initial=0.0)
                mean[active], precision[active] = after.scores
                scale = np.sqrt(np.maximum(after.trace, np.finfo(float).tiny))
                moving = np.flatnonzero(~(moved <= limit * (1.0 + scale)))
                active = active[moving]
                if not active.size:
                    break
                rows = rows.take(moving)
        solved: Bools = np.ones(len(mean), dtype=bool)
        solved[active] = False
        return Scores(mean, precision), solved

    def row_bounds(self, rows: OpenedBlock, shared: Loadings, scores: Scores) -> Floats:
        """The part of the bound that belongs to each row, without constants, shape (rows,)."""
        moments = Moments.of(scores, rows.features)
        return self._sums(rows, shared, moments, over_rows=False).rows - moments.divergence

    def coupling(self, block: Block, shared: Loadings, scores: Scores) -> tuple[Floats, Floats, Floats]:
        """The block's part of what `coupling_gain` asks for."""
        rows = open_block(block, fit_intercept=self.fit_intercept, family=self.family)
        k, m = shared.n_components, shared.mean.shape[1]
        moments = Moments.of(scores, rows.features)
        outer = packed_products(moments.design)
        likelihood, unknown = (np.empty_like(shared.precision) for _ in range(2))
        position = packed_position(m, k)
        covariance = (shared.second_moment - packed_products(shared.mean))[:, position]
        precision = np.tile(pack_symmetric(np.eye(k)), (rows.n_rows, 1))
        terms = self._linear_terms if rows.table is None else self._terms
        for tile, _, _, curvature in terms(rows, shared, moments):
            likelihood[tile] = curvature.T @ (outer * rows.weights[:, None])
            unknown[tile] = curvature.T @ ((moments.second - outer) * rows.weights[:, None])
            precision += curvature @ covariance[tile]
        return likelihood, unknown, outer.T @ (precision * rows.weights[:, None])

    def objective(self, shared: Loadings, stats: VariationalStats) -> float:
        likelihood = float(stats.exit_columns.sum()) + self.constant
        return likelihood - stats.score_divergence - float(shared.divergence.sum())

    def resolution(self, shared: Loadings, stats: VariationalStats) -> float:
        return 16.0 * self._accuracy * (float(np.abs(stats.exit_columns).sum()) + abs(self.constant))

    def update(self, shared: Loadings, stats: VariationalStats) -> Update[Loadings]:
        k = shared.n_components
        precision = stats.information.copy()
        diagonal = packed_diagonal(shared.mean.shape[1])
        precision[:, diagonal[:k]] += shared.alpha / shared.unit_column
        if shared.sparsity > 0:
            precision[:, diagonal[:k]] += shared.shrinkage
        precision[:, diagonal[k:]] += shared.fixed_precision
        factor = PackedCholesky(precision, shared.mean.shape[1])
        mean = factor.solve(stats.target)
        new = shared.with_posterior(mean, precision, factor=factor)
        moved = mean - shared.mean
        by_column = np.einsum(
            "ja,ja->j", packed_products(moved), self._doubled(precision, shared.mean.shape[1])
        )
        # Intercepts of constant columns, alone in having a prior, creep to where it holds them and move nothing else.
        is_constant = (shared.fixed_precision > 0).any(axis=1)
        decrement = float(by_column[~is_constant].sum()) + stats.row_decrement
        proposal = self._relevance(self._change(new, stats))
        criterion = float(np.sqrt(max(decrement, 0.0) / max(stats.n_entries, 1.0)))
        if k == 0 and precision.size:
            # Means may stand from the start, with precisions that nothing has set yet.
            change, size = np.abs(precision - shared.precision).max(axis=1), np.abs(precision).max(axis=1)
            criterion = max(criterion, float(np.max(change[size > 0] / size[size > 0], initial=0.0)))
        return Update(proposal, criterion)

    def repair(
        self, shared: Loadings, proposal: Loadings, before: VariationalStats, after: VariationalStats
    ) -> Loadings | None:
        new = self._unchange(proposal).with_relevance(shared.alpha)
        value_before = before.exit_columns - shared.divergence
        value_after = after.entry_columns - new.divergence
        slack = _SLACK_ULPS * self._accuracy * (1.0 + np.abs(before.exit_columns))
        moved = np.abs(new.mean - shared.mean).max(axis=1) > 1e-7 * (1.0 + np.abs(shared.mean).max(axis=1))
        worse = np.asarray(~(value_after >= value_before - slack)) & moved
        if not worse.any():
            return None
        pick = worse[:, None]
        mean = np.where(pick, 0.5 * (shared.mean + new.mean), new.mean)
        precision = np.where(pick, 0.5 * (shared.precision + new.precision), new.precision)
        return self._relevance(self._change(shared.with_posterior(mean, precision), before))

    def _start(self, rows: OpenedBlock, shared: Loadings, local: Scores | None) -> Scores:
        k = shared.n_components
        if local is None:
            return Scores(np.zeros((rows.n_rows, k)), np.tile(pack_symmetric(np.eye(k)), (rows.n_rows, 1)))
        return local if shared.change is None else shared.change.apply(local)

    def _moments(
        self, rows: OpenedBlock, shared: Loadings, moments: Moments
    ) -> Iterator[tuple[slice, Floats, Floats, Floats]]:
        """Predictor without offset, with it, and its variance, tile after tile."""
        dtype = rows.dtype
        design, second = moments.design.astype(dtype, copy=False), moments.second.astype(dtype, copy=False)
        mean, products = (
            shared.mean.astype(dtype, copy=False),
            self._doubled(shared.second_moment, shared.mean.shape[1]).astype(dtype, copy=False),
        )
        for tile in rows.tiles():
            inner = design @ mean[tile].T
            # <T, M> minus the squared mean; rounding may leave it a little below zero.
            variance = second @ products[tile].T
            variance -= inner * inner
            np.maximum(variance, 0.0, out=variance)
            eta = inner
            if rows.offset is not None:
                eta = inner + (rows.offset if rows.offset.shape[1] == 1 else rows.offset[:, tile])
            yield tile, inner, eta, variance

    @staticmethod
    def _doubled(packed: Floats, size: int) -> Floats:
        """Packed matrices with off-diagonal entries doubled: a plain product is then the inner product."""
        weights = np.full(packed.shape[1], 2.0)
        weights[packed_diagonal(size)] = 1.0
        doubled: Floats = packed * weights
        return doubled

    def _sums(self, rows: OpenedBlock, shared: Loadings, moments: Moments, *, over_rows: bool) -> _Sums:
        """Values by row and column, and the sums that one side's update needs."""
        m, weights = shared.mean.shape[1], rows.weights
        by_row = np.zeros(rows.n_rows)
        by_column = np.empty(rows.n_features)
        size = rows.n_features if over_rows else rows.n_rows
        target, information = np.zeros((size, m)), np.zeros((size, shared.precision.shape[1]))
        design = moments.design * weights[:, None] if over_rows else shared.mean
        second = moments.second * weights[:, None] if over_rows else shared.second_moment
        design, second = design.astype(rows.dtype, copy=False), second.astype(rows.dtype, copy=False)
        terms = self._linear_terms if rows.table is None else self._terms
        for tile, value, working, curvature in terms(rows, shared, moments):
            by_row += value.sum(axis=1, dtype=float)
            by_column[tile] = weights @ value
            if over_rows:
                target[tile] = working.T @ design
                information[tile] = curvature.T @ second
            else:
                target += working @ design[tile]
                information += curvature @ second[tile]
        sums = _Sums(by_row, by_column, target, information)
        return sums if rows.table is not None else self._with_products(rows, shared, moments, sums, over_rows)

    def _terms(
        self, rows: OpenedBlock, shared: Loadings, moments: Moments
    ) -> Iterator[tuple[slice, Floats, Floats, Floats]]:
        """Value, working response times curvature, and curvature, tile after tile, zero at missing entries."""
        dispersion = shared.dispersion.astype(rows.dtype, copy=False)
        for tile, inner, eta, variance in self._moments(rows, shared, moments):
            found = self._expecting.columns(tile).expect(rows.x[:, tile], eta, variance, dispersion[tile])
            if rows.observed is not None:
                found = mask_missing(found, rows.observed[:, tile])
            value, gradient, curvature = found
            assert gradient is not None
            assert curvature is not None
            yield tile, value, gradient + curvature * inner, curvature

    def _linear_terms(
        self, rows: OpenedBlock, shared: Loadings, moments: Moments
    ) -> Iterator[tuple[slice, Floats, Floats, Floats]]:
        """The same less what is linear in the entries, with the sign of the cumulant in the value."""
        for tile, inner, eta, variance in self._moments(rows, shared, moments):
            cumulant, mean, curvature = self._expecting.expected_cumulant(eta, variance)
            assert mean is not None
            assert curvature is not None
            working = inner * curvature
            working -= mean
            yield tile, cumulant, working, curvature

    def _with_products(
        self, rows: OpenedBlock, shared: Loadings, moments: Moments, sums: _Sums, over_rows: bool
    ) -> _Sums:
        """Sums over tiles completed by what is linear in the entries, from products with the block."""
        image = rows.product @ shared.mean.astype(rows.dtype, copy=False)
        weighted = (moments.design * rows.weights[:, None]).astype(rows.dtype, copy=False)
        back = np.asarray(rows.product.T @ weighted, dtype=float)
        by_row = np.einsum("ia,ia->i", moments.design, image) + rows.offset_values - sums.rows
        by_column = np.einsum("ja,ja->j", shared.mean, back) - sums.columns
        if rows.offset is not None:
            by_column += rows.product.T @ (rows.weights * rows.offset[:, 0])
        return _Sums(by_row, by_column, sums.target + (back if over_rows else image), sums.information)

    def _best_rows(self, shared: Loadings, before: Moments, sums: _Sums) -> Scores:
        """Mean and precision that the rows' sums ask for."""
        k, m = shared.n_components, shared.mean.shape[1]
        information = unpack_symmetric(sums.information, m)
        right = sums.target[:, :k] - np.einsum("iab,ib->ia", information[:, :k, k:], before.design[:, k:])
        precision = sums.information[:, packed_position(m, k)] + pack_symmetric(np.eye(k))
        usable = np.isfinite(right.sum(axis=1) + precision.sum(axis=1))
        right = np.where(usable[:, None], right, before.scores.mean)
        precision = np.where(usable[:, None], precision, before.scores.precision)
        return Scores(PackedCholesky(precision, k).solve(right), precision)

    def _guarded(
        self,
        rows: OpenedBlock,
        shared: Loadings,
        before: Moments,
        proposed: Scores,
        entry: _Sums,
        first: float = 1.0,
    ) -> tuple[Moments, _Sums]:
        """Go to the proposal, or a first fraction of the way, where the row's bound gains, less far elsewhere."""
        value = entry.rows - before.divergence
        fraction = np.full(rows.n_rows, first)
        for _ in range(_MAX_HALVINGS):
            after = Moments.of(between(before.scores, proposed, fraction), rows.features)
            sums = self._sums(rows, shared, after, over_rows=True)
            slack = _SLACK_ULPS * self._accuracy * (1.0 + np.abs(entry.rows))
            worse: Bools = np.asarray(~(sums.rows - after.divergence >= value - slack)) & (fraction > 0)
            if not worse.any():
                break
            fraction = np.where(worse, np.where(fraction > 1e-4, 0.5 * fraction, 0.0), fraction)
        return after, sums

    def _relevance(self, shared: Loadings) -> Loadings:
        return shared if self.hold_relevance else shared.with_relevance(len(shared.mean) / shared.sizes)

    def _change(self, shared: Loadings, stats: VariationalStats) -> Loadings:
        """White scores around zero and uncorrelated loadings: the latent coordinates with the largest bound."""
        k = shared.n_components
        if k == 0:
            return replace(shared, change=None)
        shift = stats.score_sum / stats.weight if self.fit_intercept else np.zeros(k)
        if shared.sparsity > 0:
            # Other coordinates would undo the zeros.
            return self.mapped(shared, Affine(shift, np.eye(k)))
        moment = stats.score_moment / stats.weight - np.outer(shift, shift)
        root = symmetric_power(moment, 0.5)
        position = packed_position(shared.mean.shape[1], k)
        gram = unpack_symmetric(
            (shared.second_moment[:, position] / shared.unit_column).sum(axis=0)[None], k
        )[0]
        _, rotation = scipy.linalg.eigh(root @ gram @ root)
        matrix = rotation[:, ::-1].T @ symmetric_power(moment, -0.5)
        return self.mapped(shared, Affine(shift, matrix))

    def _unchange(self, shared: Loadings) -> Loadings:
        """A proposal in the coordinates it was made from."""
        if shared.change is None:
            return shared
        shift, matrix = shared.change
        inverse = Affine(-matrix @ shift, np.linalg.inv(matrix))
        return self.mapped(shared, inverse)

    def mapped(self, shared: Loadings, change: Affine) -> Loadings:
        """Loadings in new coordinates: the predictor does not change."""
        k, m = shared.n_components, shared.mean.shape[1]
        mapping = np.eye(m)
        mapping[:k, :k] = np.linalg.inv(change.matrix).T
        if self.fit_intercept:
            mapping[k, :k] = change.shift
        return shared.in_coordinates(mapping, change)

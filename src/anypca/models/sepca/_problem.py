r"""Variational posterior of scores and loadings with automatic relevance determination.

Rows: :math:`q(z_i) = N(m_i, S_i)` under :math:`z_i \sim N(0, I)`; columns: :math:`q(\tilde w_j) = N(v_j, C_j)` for
:math:`\tilde w = (w, b, B)` under :math:`w_{jk} \sim N(0, u_j / \alpha_k)` with :math:`u_j` the squared unit of the
column (its noise variance, or 1 where the predictor has no unit), flat for the intercept and covariates.
With :math:`\tilde z = (z, f)` the predictor has mean :math:`o + \tilde m' v` and second moment
:math:`\langle T_i, M_j \rangle` (second moments of both sides), so one product of packed matrices gives the
variances of a whole tile. The objective is the bound

.. math:: L = \sum_{ij} \bar\ell(x_{ij}, \bar\eta_{ij}, \mathrm{var}\,\eta_{ij}) - \sum_i KL(z_i) - \sum_j KL(w_j)

with the family's ``expect`` as :math:`\bar\ell`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg

from anypca._typing import Bools, Floats
from anypca.engine import Block, alone
from anypca.families import Family
from anypca.linalg import (
    PackedCholesky,
    pack_symmetric,
    packed_cross,
    packed_position,
    packed_products,
    packed_squares,
    packed_times,
    symmetric_powers,
    unpack_symmetric,
)
from anypca.models._opened import OpenedBlock, open_block
from anypca.models.sepca._columns import ColumnStep, column_precision, step_columns
from anypca.models.sepca._coupling import CouplingSums
from anypca.models.sepca._expectation import Expectation, Sums
from anypca.models.sepca._posterior import Loadings, VariationalStats, parts_of
from anypca.models.sepca._scores import Affine, Moments, Scores, between
from anypca.models.sepca._strides import lengths
from anypca.solvers import BlockProblem, Share, Total, Update

# A row's step is halved down to this fraction, which takes 14 halvings, and is then not taken: what it could gain there
# is lost in rounding. The limit only ends what cannot go on.
_LEAST_FRACTION = 1e-4
_MAX_HALVINGS = 20
# Steps to the posterior of a row, and the first of them that may go all the way. Fifteen to thirty are usual; rows
# that still move then go to and fro around their optimum, and get there with half steps.
_MAX_ROW_STEPS = 200
_FULL_STEPS = 30
# Change of a row's mean, relative to its standard deviation and 1, at which it is solved: scores agree to eight digits,
# or to some units in the last place of the blocks' arithmetic.
_SOLVED, _SOLVED_ULPS = 1e-9, 50.0
# Relative error of close expectations of yes/no answers. Their normal distribution function is right to 7.5e-8, so that
# over a step of 1e-6 values and derivatives disagree by about this much.
_SHARP_EPS = 1e-13
_SINGLE_EPS = float(np.finfo(np.float32).eps)
# Bounds of rows and columns are compared up to this many units in the last place of their terms, and the whole bound up
# to fewer, since errors average out: a row sums hundreds of terms, each of which comes from several functions.
_SLACK_ULPS, _SUM_ULPS = 64.0, 16.0
# The same in single precision, where terms cancel in sums of thousands: repairs would chase rounding.
_SINGLE_ULPS = 512.0
# A column's step that is this small a part of the column only has rounding to gain.
_TINY_STEP = 1e-7
# Numbers in the precisions of all columns from which on their update is for more than one thread, which takes a
# fraction of a millisecond to begin: as many take about three to update.
_WORTH_SHARING = 2**17


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
    single : bool
        Sweeps compute in single precision, whatever the blocks hold.
    stride : float or None
        Longest steps of scores and loadings in units of those to the optimum of either side, beside damped precisions
        of the columns; ``None`` for steps to the optimum in all.
    """

    family: Family
    fit_intercept: bool = True
    constant: float = 0.0
    eps: float = float(np.finfo(float).eps)
    hold_relevance: bool = False
    sharp: bool = False
    single: bool = False
    stride: float | None = None

    @property
    def _accuracy(self) -> float:
        eps = max(self.eps, _SINGLE_EPS) if self.single else self.eps
        # Close expectations and their derivatives agree to within the error of the approximation only.
        return max(eps, _SHARP_EPS) if self.sharp else eps

    @cached_property
    def _expecting(self) -> Family:
        return self.family.sharp if self.sharp else self.family

    def step(self, block: Block, shared: Loadings, local: Scores | None) -> tuple[Scores, VariationalStats]:
        """The best posterior of the block's rows; statistics for the columns there."""
        precision = "float32" if self.single else None
        rows = open_block(block, fit_intercept=self.fit_intercept, family=self.family, precision=precision)
        expectation = self.expectation(shared, rows)
        # Trial points may overflow: their value is then -inf or NaN, which no comparison accepts.
        with np.errstate(over="ignore", invalid="ignore"):
            before = Moments.of(self._start(rows, shared, local), rows.features)
            entry = expectation.row_sums(before)
            proposed, factor = self._best_rows(shared, before, entry)
            if self.stride is not None:
                way = proposed.mean - before.scores.mean
                proposed = proposed._replace(mean=before.scores.mean + lengths(shared, self.stride) * way)
            after, leaving = self._guarded(expectation, before, (proposed, factor), entry)
        mean, weights = after.scores.mean, rows.weights
        k, moved = mean.shape[1], mean - before.scores.mean
        decrement = packed_squares(after.scores.precision, moved)
        position = packed_position(after.design.shape[1], k)
        stats = VariationalStats(
            entry.columns,
            leaving.columns,
            float(weights @ after.divergence),
            leaving.target,
            leaving.information,
            float(weights @ decrement),
            float(weights.sum()),
            rows.count(),
            weights @ mean,
            unpack_symmetric((weights @ after.second[:, position])[None], k)[0],
        )
        return after.scores, stats

    def solve_rows(
        self, rows: OpenedBlock, shared: Loadings, max_iter: int = _MAX_ROW_STEPS
    ) -> tuple[Scores, Bools]:
        """q(z) of rows under fixed loadings, iterated until the means stand still; which rows got there, (rows,)."""
        mean, precision = self._start(rows, shared, None)
        expectation = self.expectation(shared, rows)
        # Rows leave when they stand still: a few slow ones do not hold up the others.
        active = np.arange(rows.n_rows)
        limit = max(_SOLVED, _SOLVED_ULPS * self._accuracy)
        with np.errstate(over="ignore", invalid="ignore"):
            for iteration in range(max_iter):
                features = expectation.rows.features
                before = Moments.of(Scores(mean[active], precision[active]), features)
                entry = expectation.row_sums(before)
                proposed = self._best_rows(shared, before, entry)
                # Steps that go too far both ways around the optimum, by less than the bound can tell, are halved.
                fraction = 1.0 if iteration < _FULL_STEPS else 0.5
                after, _ = self._guarded(expectation, before, proposed, entry, fraction)
                moved = np.abs(after.scores.mean - mean[active]).max(axis=1, initial=0.0)
                mean[active], precision[active] = after.scores
                scale = np.sqrt(np.maximum(after.trace, np.finfo(float).tiny))
                moving = np.flatnonzero(~(moved <= limit * (1.0 + scale)))
                active = active[moving]
                if not active.size:
                    break
                expectation = expectation.take(moving)
        solved: Bools = np.ones(len(mean), dtype=bool)
        solved[active] = False
        return Scores(mean, precision), solved

    def expectation(self, shared: Loadings, rows: OpenedBlock) -> Expectation:
        """The expected log-likelihood of rows."""
        return Expectation.of(self._expecting, shared, rows)

    def row_bounds(self, rows: OpenedBlock, shared: Loadings, scores: Scores) -> Floats:
        """The part of the bound that belongs to each row, without constants, shape (rows,)."""
        moments = Moments.of(scores, rows.features)
        return self.expectation(shared, rows).row_sums(moments).rows - moments.divergence

    def coupling(self, block: Block, shared: Loadings, scores: Scores) -> CouplingSums:
        """The block's part of what `coupling_gain` asks for."""
        rows = open_block(block, fit_intercept=self.fit_intercept, family=self.family)
        k, m, weights = shared.n_components, shared.mean.shape[1], rows.weights[:, None]
        moments = Moments.of(scores, rows.features)
        outer = packed_products(moments.design)
        likelihood, unknown = (np.empty_like(shared.precision) for _ in range(2))
        covariance = shared.packed_covariance[:, packed_position(m, k)]
        precision = np.tile(pack_symmetric(np.eye(k)), (rows.n_rows, 1))
        for tile, _, _, curvature in self.expectation(shared, rows).tiles(moments):
            likelihood[tile] = curvature.T @ (outer * weights)
            unknown[tile] = curvature.T @ ((moments.second - outer) * weights)
            precision += curvature @ covariance[tile]
        return CouplingSums(likelihood, unknown, outer.T @ (precision * weights))

    def objective(self, shared: Loadings, stats: VariationalStats) -> float:
        """The bound with all constants, at the exit of a sweep."""
        likelihood = float(stats.exit_columns.sum()) + self.constant
        return likelihood - stats.score_divergence - float(shared.divergence.sum())

    def resolution(self, shared: Loadings, stats: VariationalStats) -> float:
        """Rounding level of the bound."""
        return _SUM_ULPS * self._accuracy * (float(np.abs(stats.exit_columns).sum()) + abs(self.constant))

    def update(self, shared: Loadings, stats: VariationalStats) -> Update[Loadings]:
        """The best posterior of every column, then the best latent coordinates and relevance."""
        return self.propose(shared, stats, None, alone)

    def propose(
        self, shared: Loadings, stats: VariationalStats, total: Total | None, share: Share
    ) -> Update[Loadings]:
        """The same, with runs of columns side by side."""
        k, far = shared.n_components, None
        if self.stride is not None:
            far = np.ones(shared.mean.shape[1])
            far[:k] = lengths(shared, self.stride)

        is_damped = far is not None and self.fit_intercept

        def step(part: slice) -> ColumnStep:
            some, target, information = shared.columns(part), stats.target[part], stats.information[part]
            return step_columns(some, target, information, far, is_damped=is_damped)

        share = share if shared.precision.size >= _WORTH_SHARING else alone
        runs = share(lambda run: [step(part) for part in parts_of(run)], len(shared.mean))
        parts: list[ColumnStep] = [part for run in runs for part in run]
        by_column = np.concatenate([part.decrement for part in parts])
        # Intercepts of constant columns, alone in having a prior, creep to where it holds them and move nothing else.
        is_constant = (shared.fixed_precision > 0).any(axis=1)
        decrement = float(by_column[~is_constant].sum()) + stats.row_decrement
        criterion = float(np.sqrt(max(decrement, 0.0) / max(stats.n_entries, 1.0)))
        # Means may stand from the start, with precisions that nothing has set yet.
        criterion = max(criterion, *(part.change for part in parts))
        new = Loadings.joined([part.posterior for part in parts])
        return Update(self.settled(new, stats, share), criterion)

    def gradient(self, shared: Loadings, stats: VariationalStats) -> Floats:
        """Of the bound in the means of the columns' coefficients, shape (n_features, m)."""
        return stats.target - packed_times(column_precision(shared, stats.information), shared.mean)

    def settled(self, shared: Loadings, stats: VariationalStats, share: Share = alone) -> Loadings:
        """A new posterior of the columns in the best latent coordinates, with the relevance that belongs to it."""
        return self.with_best_relevance(self._change(shared, stats, share))

    def at_rest(self, shared: Loadings) -> Loadings:
        """The posterior without the change of coordinates that led to it."""
        return replace(shared, change=None)

    def repair(
        self, shared: Loadings, proposal: Loadings, before: VariationalStats, after: VariationalStats
    ) -> Loadings | None:
        """Go half the way, in mean and precision, in the columns whose part of the bound got worse."""
        worse = self._lost(shared, proposal, before, after) > 0.0
        if not worse.any():
            return None
        new, pick = self._unchange(proposal), worse[:, None]
        mean = np.where(pick, 0.5 * (shared.mean + new.mean), new.mean)
        precision = np.where(pick, 0.5 * (shared.precision + new.precision), new.precision)
        pace = np.where(worse, 0.5, 1.0) * proposal.pace
        return self.settled(replace(shared, pace=pace).with_posterior(mean, precision), before)

    def tolerated(
        self,
        shared: Loadings,
        proposal: Loadings,
        before: VariationalStats,
        after: VariationalStats,
        gain: float,
    ) -> Loadings | None:
        """Take a proposal that gains more than some columns lose; these go half as far the next time.

        Among thousands of columns there is one that overshoots in nearly every sweep, which a repair sweeps again for.
        """
        lost = self._lost(shared, proposal, before, after)
        # Whether a stride is taken is judged as a whole.
        if self.stride in (None, 1.0) and not lost.sum() <= gain:
            return None
        if not lost.any():
            return proposal
        pace = np.where(lost > 0.0, 0.5, 1.0) * proposal.pace
        slower = replace(proposal, pace=pace)
        return slower.with_posterior(proposal.mean, proposal.precision, **proposal.known)

    def _lost(
        self, shared: Loadings, proposal: Loadings, before: VariationalStats, after: VariationalStats
    ) -> Floats:
        """What the bound of each column has lost, 0 where it has not, shape (n_features,)."""
        mapping = self.mapping_of(proposal)
        value_before = before.exit_columns - shared.divergence
        value_after = after.entry_columns - proposal.divergence_from(mapping, shared.alpha)
        slack, new = self._slack(before.exit_columns), proposal.mean @ np.linalg.inv(mapping).T
        step, size = np.abs(new - shared.mean).max(axis=1), np.abs(shared.mean).max(axis=1)
        worse = np.asarray(~(value_after >= value_before - slack)) & (step > _TINY_STEP * (1.0 + size))
        return np.where(worse, np.where(value_after < value_before, value_before - value_after, np.inf), 0.0)

    def _slack(self, value: Floats) -> Floats:
        """Rounding level of the bounds of rows or columns."""
        ulps = _SINGLE_ULPS if self.single else _SLACK_ULPS
        return ulps * self._accuracy * (1.0 + np.abs(value))

    def _start(self, rows: OpenedBlock, shared: Loadings, local: Scores | None) -> Scores:
        """q(z) to start from, in the coordinates of ``shared``: that of the last sweep, or the prior."""
        k = shared.n_components
        if local is None:
            return Scores(np.zeros((rows.n_rows, k)), np.tile(pack_symmetric(np.eye(k)), (rows.n_rows, 1)))
        return local if shared.change is None else shared.change.apply(local)

    def _best_rows(self, shared: Loadings, before: Moments, sums: Sums) -> tuple[Scores, PackedCholesky]:
        """What the rows' sums ask for, or is at hand where the predictor overflowed; the factor of the precisions."""
        k, m = shared.n_components, shared.mean.shape[1]
        cross = sums.information[:, packed_cross(m, k)]
        right = sums.target[:, :k] - np.einsum("iab,ib->ia", cross, before.design[:, k:])
        precision = sums.information[:, packed_position(m, k)] + pack_symmetric(np.eye(k))
        usable = np.isfinite(right.sum(axis=1) + precision.sum(axis=1))
        right = np.where(usable[:, None], right, before.scores.mean)
        precision = np.where(usable[:, None], precision, before.scores.precision)
        factor = PackedCholesky(precision, k)
        return Scores(factor.solve(right), precision), factor

    def _guarded(
        self,
        expectation: Expectation,
        before: Moments,
        proposed: tuple[Scores, PackedCholesky],
        entry: Sums,
        first: float = 1.0,
    ) -> tuple[Moments, Sums]:
        """Go to the proposal, or a first fraction of the way, where the row's bound gains, less far elsewhere."""
        value, slack = entry.rows - before.divergence, self._slack(entry.rows)
        fraction, features = np.full(len(value), first), expectation.rows.features
        if first == 1.0:
            after = Moments.of(proposed[0], features, factor=proposed[1])
        else:
            after = Moments.of(between(before.scores, proposed[0], fraction), features)
        sums = expectation.column_sums(after)
        for _ in range(_MAX_HALVINGS):
            worse: Bools = ~(sums.rows - after.divergence >= value - slack) & (fraction > 0)
            if not worse.any():
                break
            fraction = np.where(worse, np.where(fraction > _LEAST_FRACTION, 0.5 * fraction, 0.0), fraction)
            far, after = after, Moments.of(between(before.scores, proposed[0], fraction), features)
            sums = expectation.resummed(sums, far, after, np.flatnonzero(worse))
        return after, sums

    def with_best_relevance(self, shared: Loadings) -> Loadings:
        """The loadings with the best relevance, alpha = D / E||w||^2, unless it is held."""
        return shared if self.hold_relevance else shared.with_relevance(len(shared.mean) / shared.sizes)

    def _change(self, shared: Loadings, stats: VariationalStats, share: Share = alone) -> Loadings:
        """White scores around zero and uncorrelated loadings: the latent coordinates with the largest bound."""
        k = shared.n_components
        if k == 0:
            return replace(shared, change=None)
        shift = stats.score_sum / stats.weight if self.fit_intercept else np.zeros(k)
        if shared.sparsity > 0:
            # A rotation would undo the zeros.
            return self.mapped(shared, Affine(shift, np.eye(k)))
        moment = stats.score_moment / stats.weight - np.outer(shift, shift)
        root, inverse_root = symmetric_powers(moment, 0.5, -0.5)
        _, rotation = scipy.linalg.eigh(root @ shared.gram @ root)
        matrix = rotation[:, ::-1].T @ inverse_root
        return self.mapped(shared, Affine(shift, matrix), share)

    def _unchange(self, shared: Loadings) -> Loadings:
        """A proposal in the coordinates it was made from."""
        if shared.change is None:
            return shared
        shift, matrix = shared.change
        inverse = Affine(-matrix @ shift, np.linalg.inv(matrix))
        return self.mapped(shared, inverse)

    def mapped(self, shared: Loadings, change: Affine, share: Share = alone) -> Loadings:
        """Loadings in new coordinates: the predictor does not change."""
        return shared.in_coordinates(self._mapping(change, shared.mean.shape[1]), change, share)

    def mapping_of(self, shared: Loadings) -> Floats:
        """What takes coefficients from the previous coordinates to those of ``shared``, shape (m, m)."""
        m = shared.mean.shape[1]
        return np.eye(m) if shared.change is None else self._mapping(shared.change, m)

    def _mapping(self, change: Affine, m: int) -> Floats:
        k, mapping = len(change.shift), np.eye(m)
        mapping[:k, :k] = np.linalg.inv(change.matrix).T
        if self.fit_intercept:
            mapping[k, :k] = change.shift
        return mapping

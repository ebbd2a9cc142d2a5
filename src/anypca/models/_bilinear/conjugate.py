"""Alternating Newton steps by conjugate gradients: time and memory are linear in the number of components.

The curvature of a row is ``H_i = W' diag(v_i) W`` plus its ridge. Two matrix products multiply all rows with theirs,
``(V * (P W')) W``, columns likewise, and no array has a column for each pair of components. Where the curvature of the
entries has rank one, ``v_ij = a_i c_j``, all H_i are multiples of one matrix but for the ridge, whose eigenvectors
solve them all: that is the preconditioner, and a few steps do the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block, alone
from anypca.families._canonical import CanonicalFamily
from anypca.models._bilinear.alternating import RowStep, Shared, SweepSums
from anypca.models._bilinear.evaluator import (
    BlockEvaluator,
    Coefficients,
    Operand,
    Working,
    joint_and_loadings,
)
from anypca.models._bilinear.problem import BilinearProblem
from anypca.models._block_view import BlockView
from anypca.priors import NewtonStep, Ridge
from anypca.solvers import Coordinates, Share, Total, Update
from anypca.solvers.conjugate import conjugate_gradients

# Exact Newton steps are faster with 10 components, conjugate gradients with 30 (4000 x 1000 counts); what is between
# was not measured.
MOST_EXACT = 15
# Steps of conjugate gradients: with two of them fits take longer from a gap of 1e-3 on (4000 x 1000 counts).
_ROW_STEPS = 3
_COLUMN_STEPS = 3
# Relative residual at which to stop: the next sweep changes the solution by more than further steps would.
_INNER_TOLERANCE = 0.05
# Maximum steps towards the modes of rows; about ten are usual, and exact steps follow.
_MOST_STEPS = 50
# Curvature below this part of the largest is rounding error.
_LEAST_CURVATURE = 1e-10


class Entry(NamedTuple):
    """Inputs of the rows' step at its starting points."""

    value: Floats
    """Log-likelihood of each row, shape (rows,)."""
    columns: Floats
    """Weighted log-likelihood of each column over the block, without its part linear in x, shape (n_features,)."""
    gradient: Floats
    """In the points, shape (rows, k)."""
    curvature: list[tuple[slice, Floats]]
    """In eta, tile after tile, 0 in rows where it is not finite."""
    totals: Floats
    """Sum of the curvature of each row, shape (rows,)."""


class Metric(NamedTuple):
    """A matrix that a set of systems ``c_i G + diag(ridge_i, 0)`` has in common, ready to solve them all."""

    values: Floats
    """Eigenvalues (k,) of what of G belongs to the loadings, given the fixed features."""
    vectors: Floats
    """(k, k)."""
    regression: Floats
    """Of the scores on the fixed features under G, shape (n_fixed, k)."""
    inverse: Floats
    """Of G of the fixed features, shape (n_fixed, n_fixed)."""

    @classmethod
    def of(cls, gram: Floats, k: int) -> Metric:
        """From G of scores (the leading k) and fixed features, shape (m, m)."""
        inverse = np.linalg.pinv(gram[k:, k:], hermitian=True)
        regression = inverse @ gram[k:, :k]
        values, vectors = np.linalg.eigh(gram[:k, :k] - gram[:k, k:] @ regression)
        return cls(np.maximum(values, _LEAST_CURVATURE * values[-1:]), vectors, regression, inverse)

    def solve(self, right: Floats, scale: Floats, ridge: Floats | float) -> Floats:
        """Solutions (n, m) of the systems with factors ``scale`` (n,) and ``ridge``, a number or (n, 1)."""
        k, scale = len(self.values), scale[:, None].astype(right.dtype, copy=False)
        values, vectors, regression, inverse = (part.astype(right.dtype, copy=False) for part in self)
        fixed, found = right[:, k:], np.empty_like(right)
        rotated = (right[:, :k] - fixed @ regression) @ vectors
        curvature = scale * values
        curvature += ridge
        loadings = np.divide(rotated, curvature, out=np.zeros_like(rotated), where=curvature > 0) @ vectors.T
        found[:, :k] = loadings
        found[:, k:] = np.divide(fixed @ inverse, scale, out=np.zeros_like(fixed), where=scale > 0)
        found[:, k:] -= loadings @ regression.T
        return found


class ConjugateEvaluator(BlockEvaluator):
    """The evaluation of a block without products of pairs of components."""

    @cached_property
    def _low(self) -> Working:
        """Coefficients for products with the curvature.

        They need half of the digits, since steps are approximate and gradients are not. Without units and dispersions
        single precision has the range as well.
        """
        return self.coefficients.working(self._low_dtype, joint_and_loadings)

    @property
    def _low_dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float32) if self.rows.product is not None else self.rows.dtype

    @cached_property
    def _low_rows(self) -> BlockView:
        return replace(self.rows, dtype=self._low_dtype)

    def entry(self, points: Floats) -> Entry:
        """Values, slopes and curvatures of the rows at their points."""
        rows, k = self.rows, points.shape[1]
        weights, columns = rows.weights.astype(rows.dtype, copy=False), np.empty(rows.n_features)
        value, totals, gradient = np.zeros(rows.n_rows), np.zeros(rows.n_rows), np.zeros(points.shape)
        design, curvature = self.design(points), []
        for tile, found in self.tiles(design, order=2, observed=True):
            columns[tile] = self._sign * (weights @ found.value)
            value += found.value.sum(axis=1, dtype=float)
            gradient += found.gradient @ self._working.slopes[tile]
            curvature.append((tile, found.curvature.astype(self._low_dtype)))
            totals += found.curvature.sum(axis=1, dtype=float)
        gradient *= self._sign
        if rows.product is not None:
            gradient += self._image[:, :k]
        entry = Entry(self._with_linear(design, value), columns, gradient, curvature, totals)
        return _without_overflow(entry)

    def row_products(self, curvature: list[tuple[slice, Floats]], direction: Floats) -> Floats:
        """``W' diag(v_i) W p_i`` of the rows p of ``direction``, shape (rows, k)."""
        loadings = self._low.slopes
        direction = direction.astype(self._low_dtype, copy=False)
        found = np.zeros(direction.shape)
        for tile, terms in curvature:
            image = direction @ loadings[tile].T
            image *= terms
            found += image @ loadings[tile]
        return found

    def column_products(self, points: Floats, direction: Floats) -> Floats:
        """``sum_i s_i v_ij d_i d_i' p_j`` of the rows p of ``direction``, shape (n_features, m)."""
        low = replace(self, rows=self._low_rows)
        design = low.design(points)
        weighted = design * low.rows.weights.astype(design.dtype)[:, None]
        direction = direction.astype(design.dtype)
        found = np.empty_like(direction)
        for tile, terms in low.tiles(design, order=2):
            image = design @ direction[tile].T
            image *= terms.curvature
            found[tile] = image.T @ weighted
        return found

    def _column_operand(self, design: Floats, weights: Floats) -> Operand:
        ones = np.ones((len(design), 1), design.dtype)
        stacked = np.hstack([ones, design, ones])
        return Operand(stacked * weights[:, None], design.shape[1])


def _without_overflow(entry: Entry) -> Entry:
    """The same without slope and curvature in rows whose predictor overflowed: the penalty alone moves them."""
    usable = np.isfinite(entry.gradient.sum(axis=1) + entry.totals)
    if usable.all():
        return entry
    for _, terms in entry.curvature:
        terms[~usable] = 0.0
    gradient = np.where(usable[:, None], entry.gradient, 0.0)
    return entry._replace(gradient=gradient, totals=np.where(usable, entry.totals, 0.0))


@dataclass(frozen=True, eq=False)
class ConjugateSums(SweepSums):
    """Sums of a sweep; ``curvature`` is that in eta, shape (n_features, 1)."""

    gram: Floats
    """``sum_i s_i a_i d_i d_i'`` with the summed curvature a of the rows, shape (m, m)."""


@dataclass(frozen=True, eq=False)
class ConjugateShared(Shared):
    """Shared parameters with the curvature from the previous sweep."""

    information: Floats | None = None
    """Summed curvature in eta of each column, shape (n_features,)."""

    @cached_property
    def metric(self) -> Metric:
        """The preconditioner of rows."""
        assert self.information is not None
        return row_metric(self.coefficients.loadings, self.information)


@dataclass(frozen=True, eq=False)
class ConjugateProblem(BilinearProblem):
    """The same problem with isotropic ridges, solved with time and memory linear in the number of components.

    Rows and columns take a few steps of conjugate gradients towards their Newton step. Each step of the columns is a
    pass over the blocks, which computes the entries' curvature again. Requires ``ridges``.
    """

    def evaluator(self, coefficients: Coefficients, rows: BlockView) -> ConjugateEvaluator:
        return ConjugateEvaluator(self.family, coefficients, rows)

    def add_up(self, rows: BlockView, found: RowStep, stats: SweepSums) -> ConjugateSums:
        """The sums with what the columns' preconditioner needs."""
        assert found.totals is not None
        design = np.hstack([found.points, rows.features])
        gram = (design * (rows.weights * found.totals)[:, None]).T @ design
        return ConjugateSums(**{field.name: getattr(stats, field.name) for field in fields(stats)}, gram=gram)

    def _step_rows(self, evaluator: BlockEvaluator, points: Floats, shared: Shared) -> RowStep:
        assert isinstance(evaluator, ConjugateEvaluator)
        entry = evaluator.entry(points)
        known = shared.metric if isinstance(shared, ConjugateShared) else None
        metric = _own_metric(shared.coefficients.loadings, entry) if known is None else known
        newton = self._conjugate_rows(evaluator, points, entry, metric)
        entry.curvature.clear()  # the largest part of a block's memory
        new, sums = self._guarded(evaluator, points, newton.step, entry.value)
        return RowStep(new, sums, entry.columns, newton.decrement, entry.totals)

    def _conjugate_rows(
        self, evaluator: ConjugateEvaluator, points: Floats, entry: Entry, metric: Metric
    ) -> NewtonStep:
        assert self.ridges is not None
        ridge = self.ridges[0]
        slope = entry.gradient - ridge * points
        step = conjugate_gradients(
            lambda p: evaluator.row_products(entry.curvature, p) + ridge * p,
            slope,
            lambda r: metric.solve(r, entry.totals, ridge),
            max_steps=_ROW_STEPS,
            tol=_INNER_TOLERANCE,
        )
        return NewtonStep(step, np.einsum("ia,ia->i", slope, step))

    def modes(self, evaluator: ConjugateEvaluator) -> Floats:
        """Modes of the rows of a block (rows, k), nearly."""
        points = evaluator.origin
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(_MOST_STEPS):
                entry = evaluator.entry(points)
                newton = self._conjugate_rows(
                    evaluator, points, entry, _own_metric(evaluator.coefficients.loadings, entry)
                )
                points = self._halve(evaluator, points, newton.step, entry.value, first=1.0)
                if np.all(newton.decrement <= self._slack(entry.value)):
                    break
        return points

    def regauge(self, coefficients: Coefficients, stats: SweepSums) -> ConjugateShared:
        """The same, and what the rows' preconditioner needs."""
        shared = super().regauge(coefficients, stats)
        return ConjugateShared(shared.coefficients, shared.gauge, stats.curvature[:, 0])

    def update(self, shared: Shared, stats: SweepSums) -> Update[Shared]:
        """A step of every column by the preconditioner alone."""
        return self.update_over_blocks(shared, stats, None)

    def update_over_blocks(
        self, shared: Shared, stats: SweepSums, total: Total | None, share: Share = alone
    ) -> Update[Shared]:
        """Nearly a Newton step of every column, then the best latent coordinates."""
        assert self.ridges is not None
        assert isinstance(stats, ConjugateSums)
        loadings, information = shared.coefficients.loadings, stats.curvature[:, 0]
        k, ridge = loadings.shape[1], np.reshape(self.ridges[1], (-1, 1))
        slope = stats.gradient.copy()
        slope[:, :k] -= ridge * loadings
        slope[:, k:] -= self.fixed_ridge * shared.coefficients.fixed
        metric = Metric.of(stats.gram / max(float(information.sum()), np.finfo(float).tiny), k)
        if total is None:
            step = metric.solve(slope, information, ridge)
        else:
            step = conjugate_gradients(
                lambda p: self._with_ridges(total(_ColumnProducts(self, shared, p)), p, k),
                slope.astype(np.float32) if isinstance(self.family, CanonicalFamily) else slope,
                lambda r: metric.solve(r, information, ridge),
                max_steps=_COLUMN_STEPS,
                tol=_INNER_TOLERANCE,
            )
        return self.updated(shared, stats, NewtonStep(step, np.einsum("ja,ja->j", slope, step)))

    def _with_ridges(self, product: Floats, direction: Floats, k: int) -> Floats:
        assert self.ridges is not None
        product[:, :k] += np.reshape(self.ridges[1], (-1, 1)) * direction[:, :k]
        product[:, k:] += self.fixed_ridge * direction[:, k:]
        return product

    def coordinates(self, shared: Shared, stats: SweepSums) -> Coordinates:
        """The same, with the diagonal of the preconditioner."""
        assert isinstance(stats, ConjugateSums)
        spread = np.diag(stats.gram) / max(float(stats.curvature.sum()), np.finfo(float).tiny)
        return Coordinates(shared.coefficients.joint.ravel(), np.sqrt(stats.curvature * spread).ravel())


@dataclass(frozen=True, eq=False)
class _ColumnProducts:
    """``H_j p_j`` of all columns over a block, at the scores that its rows have after a sweep."""

    problem: ConjugateProblem
    shared: Shared
    direction: Floats

    def __call__(self, block: Block, points: Floats) -> Floats:
        rows = self.problem.open(block)
        evaluator = self.problem.evaluator(self.shared.coefficients, rows)
        with np.errstate(over="ignore", invalid="ignore"):
            return evaluator.column_products(points, self.direction)


def _own_metric(loadings: Floats, entry: Entry) -> Metric:
    """The preconditioner of rows from their own block, if there is no previous sweep."""
    information = np.concatenate([terms.sum(axis=0) for _, terms in entry.curvature])
    return row_metric(loadings, information)


def row_metric(loadings: Floats, information: Floats) -> Metric:
    """The preconditioner of rows from the summed curvature (n_features,) of the columns."""
    share = information / max(float(information.sum()), np.finfo(float).tiny)
    return Metric.of(loadings.T @ (loadings * share[:, None]), loadings.shape[1])


def nearby_modes(problem: BilinearProblem, evaluator: BlockEvaluator) -> Floats:
    """Starting points of exact row steps, (rows, k): modes in single precision, or the origin if not finite.

    The score prior of a `ConjugateProblem` must be a ridge. Its steps use coordinates in which the ridge is 1.
    """
    rows, coefficients = evaluator.rows.astype(np.dtype(np.float32)), evaluator.coefficients
    problem = replace(problem, eps=float(np.finfo(np.float32).eps))
    if isinstance(problem, ConjugateProblem):
        assert isinstance(problem.score_prior, Ridge)
        precision = problem.score_prior.matrix(coefficients.loadings.shape[1])
        is_definite = bool(np.diag(precision).min(initial=np.inf) > 0)
        root = np.linalg.cholesky(precision) if is_definite else np.eye(len(precision))
        inverse, ridge = np.linalg.inv(root), float(is_definite)
        moved = Coefficients(coefficients.loadings @ inverse.T, coefficients.fixed, coefficients.dispersion)
        inner = replace(problem, score_prior=Ridge(ridge), ridges=(ridge, 0.0))
        found = inner.modes(ConjugateEvaluator(problem.family, moved, rows)) @ inverse
    else:
        single = problem.evaluator(coefficients, rows)
        found = problem.solve_rows(single, single.origin).points
    return np.where(np.isfinite(found).all(axis=1, keepdims=True), found, 0.0)

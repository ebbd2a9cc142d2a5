"""The likelihood as a function of the subspace, and how it is improved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from anypca._typing import Bools, Floats
from anypca.engine import Block
from anypca.linalg import PackedCholesky, nearest_orthonormal, packed_products, unpack_symmetric
from anypca.models.gpca._projection import Subspace, Sums, evaluate
from anypca.models.gpca._reader import Reader
from anypca.solvers import BlockProblem, Update
from anypca.solvers.acceleration import Pair, is_concave_along, two_loop

Space = TypeVar("Space", bound=Subspace)

# Share of the gain that the slope promises which a step must have: the usual one of Armijo's rule.
_LEAST_SHARE = 1e-4
# Length of a step from which on the memory of earlier steps is given up instead of going less far: it then misleads.
_SHORTEST = 1e-3
# Cosine with the plain step below which the memory turns almost across the gradient.
_LEAST_COSINE = 1e-4
# Steps that are remembered; some 10 are usual in limited-memory BFGS.
_DEPTH = 10
# Smallest cosine between a step and the change of the gradient that counts as curvature: the root of rounding.
_LEAST_CURVATURE = 1e-8
# Least and most that a shortened step keeps of its length, so that one misleading value does not decide.
_SHRINKAGE = (0.1, 0.5)


@dataclass(frozen=True, eq=False)
class SubspaceProblem(BlockProblem[Space, None, Sums]):
    """The likelihood as a function of loadings and main effects; a subclass defines the update.

    Parameters
    ----------
    reader : Reader
    free : ndarray of bool of shape (p, k + 1)
        Which loadings and main effects are estimated.
    saturated : float
        The value that a saturated model has: half the deviance is the distance to it.
    unit : float
        Typical deviance of an entry, which makes the criterion free of units.
    """

    reader: Reader
    free: Bools
    saturated: float
    unit: float

    def step(self, block: Block, shared: Space, local: None) -> tuple[None, Sums]:
        """Sums of a block; rows have no state."""
        return None, self.reader.sum_block(block, lambda rows: evaluate(self.reader.family, rows, shared))

    def objective(self, shared: Space, stats: Sums) -> float:
        """Minus half the deviance, less the penalty."""
        return stats.value - self.saturated - self._penalty(shared.loadings)

    def resolution(self, shared: Space, stats: Sums) -> float:
        """Rounding level of the objective."""
        return float(np.finfo(np.float64).eps * (stats.magnitude + self._penalty(shared.loadings)))

    def _penalty(self, loadings: Floats) -> float:
        return 0.0

    def _slopes(self, sums: Sums) -> Floats:
        """The gradient in what is estimated, 0 elsewhere, shape (p, k + 1)."""
        return np.where(self.free, sums.gradient, 0.0)

    def _criterion(self, decrement: float, sums: Sums) -> float:
        """Scaled gradient per observed entry from a Newton decrement."""
        return float(np.sqrt(max(decrement, 0.0) / (self.unit * sums.entries)))


@dataclass(frozen=True, eq=False)
class Iterate(Subspace):
    """The shared parameters with the history of the optimiser."""

    pairs: tuple[Pair, ...] = ()
    """Earlier steps and the resulting decreases of the gradient, (p, k + 1) each, oldest first."""
    origin: Pair | None = None
    """Start of the last step: loadings with main effects, and gradient, (p, k + 1) each."""
    direction: Floats | None = None
    """Of the last step, (p, k + 1)."""
    slope: float = 0.0
    """Derivative of the objective along it."""
    length: float = 1.0
    """Accepted step size along it."""

    @property
    def table(self) -> Floats:
        """Loadings and main effects, (p, k + 1)."""
        return np.column_stack([self.loadings, self.intercept])


@dataclass(frozen=True, eq=False)
class ProjectionProblem(SubspaceProblem[Iterate]):
    r"""Maximise the likelihood over subspaces and main effects.

    Notes
    -----
    The likelihood is replaced by a quadratic function with the same gradient and, column by column, the curvature of
    `Sums`, corrected by what the last steps have shown of the curvature between columns (limited-memory BFGS). Its
    maximum is the proposal; a proposal that the likelihood does not confirm is shortened until it does. Landgraf and
    Lee use one curvature for all entries, the largest, which for Poisson has no bound and makes tiny steps.

    The likelihood depends on U through the space it spans, so that the gradient has no component within that space
    and any basis of the proposal may be taken: the nearest orthonormal one.
    """

    def without_gauge(self, shared: Iterate) -> Iterate:
        """The subspace without the way that led to it."""
        return Iterate(shared.loadings, shared.intercept, shared.typical)

    def update(self, shared: Iterate, stats: Sums) -> Update[Iterate]:
        """A quasi-Newton step."""
        gradient, metric = self._slopes(stats), self._metric(stats)
        plain = metric.solve(gradient)
        decrement = float(np.vdot(plain, gradient))
        pairs = _remember(shared, gradient)
        direction = two_loop(gradient, pairs, solve=metric.solve)
        slope = float(np.vdot(direction, gradient))
        if not slope > _LEAST_COSINE * np.sqrt(decrement * _metric_square(stats.curvature, direction)):
            pairs, direction, slope = (), plain, decrement
        way = replace(
            shared, pairs=pairs, origin=(shared.table, gradient), direction=direction, slope=slope, length=1.0
        )
        return Update(_follow(shared, way), self._criterion(decrement, stats), 0.5 * slope)

    def backtrack(self, shared: Iterate, proposal: Iterate, before: Sums, after: Sums) -> Iterate | None:
        """A shorter step where the objective has not grown as the gradient promised."""
        gain = self.objective(proposal, after) - self.objective(shared, before)
        promised = proposal.length * proposal.slope
        if gain >= _LEAST_SHARE * promised - self.resolution(shared, before):
            return None
        if proposal.pairs and proposal.length < _SHORTEST:
            gradient = self._slopes(before)
            plain = self._metric(before).solve(gradient)
            slope = float(np.vdot(plain, gradient))
            return _follow(shared, replace(proposal, pairs=(), direction=plain, slope=slope, length=1.0))
        # The top of the parabola through both values and the slope.
        peak = 0.5 * promised / (promised - gain) if np.isfinite(gain) else 0.0
        return _follow(shared, replace(proposal, length=proposal.length * float(np.clip(peak, *_SHRINKAGE))))

    def _metric(self, sums: Sums) -> PackedCholesky:
        """The curvature of what is estimated; elsewhere no step is made."""
        return PackedCholesky(sums.curvature * packed_products(self.free.astype(float)), self.free.shape[1])


def _remember(shared: Iterate, gradient: Floats) -> tuple[Pair, ...]:
    """The pairs with the step that led here, if the objective is concave along it."""
    if shared.origin is None:
        return shared.pairs
    pair = shared.table - shared.origin[0], shared.origin[1] - gradient
    return (*shared.pairs, pair)[-_DEPTH:] if is_concave_along(pair, _LEAST_CURVATURE) else shared.pairs


def _follow(shared: Iterate, way: Iterate) -> Iterate:
    """The point at the end of a way that begins at ``shared``."""
    assert way.direction is not None
    k = shared.loadings.shape[1]
    table = shared.table + way.length * way.direction
    return replace(way, loadings=nearest_orthonormal(table[:, :k]), intercept=table[:, k].copy())


def _metric_square(curvature: Floats, vector: Floats) -> float:
    """``sum_j v_j' C_j v_j`` for packed C (p, m (m + 1) / 2) and v (p, m)."""
    matrices = unpack_symmetric(curvature, vector.shape[1])
    return float(np.einsum("ja,jab,jb->", vector, matrices, vector, optimize=True))

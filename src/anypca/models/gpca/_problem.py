"""The likelihood as a function of the subspace, and how it is improved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np

from anypca._typing import Bools, Floats
from anypca.engine import Block
from anypca.linalg import PackedCholesky, packed_products
from anypca.models.gpca._memory import Pairs, find_direction, metric_square, remember
from anypca.models.gpca._rows import Reader, Subspace, Sums, evaluate
from anypca.solvers import BlockProblem, Update

# Share of the gain that the slope promises which a step must have (Armijo's rule), and the length from which on the
# memory of earlier steps is given up instead of going less far.
_LEAST_SHARE = 1e-4
_SHORTEST = 1e-3
_LEAST_COSINE = 1e-4


@dataclass(frozen=True, eq=False)
class Setting:
    """What stays the same during a fit."""

    reader: Reader
    free: Bools
    """Which loadings and main effects are estimated, shape (p, k + 1)."""
    saturated: float
    """The value that a saturated model has: half the deviance is the distance to it."""
    unit: float
    """Typical deviance of an entry, which makes the criterion free of units."""

    def sum_block(self, block: Block, at: Subspace) -> Sums:
        """Sums over the rows of a block."""
        return reduce(add, (evaluate(self.reader.family, rows, at) for rows in self.reader.chunks(block)))

    def slopes(self, sums: Sums) -> Floats:
        """The gradient in what is estimated, 0 elsewhere, shape (p, k + 1)."""
        return np.where(self.free, sums.gradient, 0.0)

    def metric(self, sums: Sums) -> PackedCholesky:
        """The curvature of what is estimated; elsewhere no step is made."""
        return PackedCholesky(sums.curvature * packed_products(self.free.astype(float)), self.free.shape[1])

    def criterion(self, decrement: float, sums: Sums) -> float:
        """Scaled gradient per observed entry from a Newton decrement."""
        return float(np.sqrt(max(decrement, 0.0) / (self.unit * sums.entries)))


@dataclass(frozen=True, eq=False)
class Iterate(Subspace):
    """The shared parameters with the way that led to them."""

    pairs: Pairs = ()
    """Earlier steps and what they changed of the gradient, (p, k + 1) each, oldest first."""
    origin: tuple[Floats, Floats] | None = None
    """Where the last step began: loadings with main effects, and gradient, (p, k + 1) each."""
    direction: Floats | None = None
    """Of the last step, (p, k + 1)."""
    slope: float = 0.0
    """Derivative of the objective along it."""
    length: float = 1.0
    """How much of it was gone."""

    @property
    def table(self) -> Floats:
        """Loadings and main effects, (p, k + 1)."""
        return np.column_stack([self.loadings, self.intercept])


@dataclass(frozen=True, eq=False)
class ProjectionProblem(BlockProblem[Iterate, None, Sums]):
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

    setting: Setting

    def step(self, block: Block, shared: Iterate, local: None) -> tuple[None, Sums]:
        """Sums of a block; rows have no state."""
        return None, self.setting.sum_block(block, shared)

    def objective(self, shared: Iterate, stats: Sums) -> float:
        """Minus half the deviance."""
        return stats.value - self.setting.saturated

    def resolution(self, shared: Iterate, stats: Sums) -> float:
        """Rounding level of the objective."""
        return float(np.finfo(np.float64).eps * stats.magnitude)

    def update(self, shared: Iterate, stats: Sums) -> Update[Iterate]:
        """A quasi-Newton step."""
        gradient, curvature = self.setting.slopes(stats), stats.curvature
        metric = self.setting.metric(stats)
        plain = metric.solve(gradient)
        decrement = float(np.vdot(plain, gradient))
        pairs = remember(shared.pairs, shared.table, gradient, shared.origin)
        direction = find_direction(metric, gradient, pairs)
        slope = float(np.vdot(direction, gradient))
        # What the memory says is doubted where it turns almost across the gradient.
        if not slope > _LEAST_COSINE * np.sqrt(decrement * metric_square(curvature, direction)):
            pairs, direction, slope = (), plain, decrement
        first = replace(
            shared, pairs=pairs, origin=(shared.table, gradient), direction=direction, slope=slope, length=1.0
        )
        return Update(_gone(shared, first), self.setting.criterion(decrement, stats), 0.5 * slope)

    def repair(self, shared: Iterate, proposal: Iterate, before: Sums, after: Sums) -> Iterate | None:
        """A shorter step where the objective has not grown as the gradient promised."""
        gain = self.objective(proposal, after) - self.objective(shared, before)
        promised = proposal.length * proposal.slope
        if gain >= _LEAST_SHARE * promised - self.resolution(shared, before):
            return None
        if proposal.pairs and proposal.length < _SHORTEST:
            gradient = self.setting.slopes(before)
            plain = self.setting.metric(before).solve(gradient)
            slope = float(np.vdot(plain, gradient))
            return _gone(shared, replace(proposal, pairs=(), direction=plain, slope=slope, length=1.0))
        # The parabola through both values and the slope, kept from jumping.
        peak = 0.5 * promised / (promised - gain) if np.isfinite(gain) else 0.1
        return _gone(shared, replace(proposal, length=proposal.length * min(max(peak, 0.1), 0.5)))


def _gone(shared: Iterate, way: Iterate) -> Iterate:
    """The point at the end of a way that begins at ``shared``."""
    assert way.direction is not None
    k = shared.loadings.shape[1]
    table = shared.table + way.length * way.direction
    return replace(way, loadings=orthonormal(table[:, :k]), intercept=table[:, k].copy())


def orthonormal(columns: Floats) -> Floats:
    """The nearest matrix with orthonormal columns (p, k), a basis of the same space."""
    left, _, right = np.linalg.svd(columns, full_matrices=False)
    return np.asarray(left @ right)

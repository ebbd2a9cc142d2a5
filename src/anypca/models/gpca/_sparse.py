r"""Orthonormal loadings with exact zeros.

The objective is the log-likelihood less ``strength * sum of penalty(|u_ja|)`` over matrices U with orthonormal columns.
Two moves alternate, neither of which can make it worse:

- the likelihood is replaced by a quadratic function of curvature L and the penalty by its tangents. Since the columns
  have unit length, what is left to maximise is linear, :math:`c^\top u - \sum_j t_j |u_j|`, and its maximum
  over unit vectors orthogonal to the other columns is a soft-thresholded vector;
- the likelihood does not change when the columns are rotated among each other, the penalty does. Pairs of columns
  are turned to where it is smallest, which is where some loading vanishes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block
from anypca.linalg import packed_diagonal
from anypca.models.gpca._moves import rotate_pairs, threshold_columns
from anypca.models.gpca._penalty import Penalty
from anypca.models.gpca._problem import Setting, orthonormal
from anypca.models.gpca._rows import Subspace, Sums
from anypca.solvers import BlockProblem, Update

_MAX_TURNS = 50
# A spectral step length may differ from the last one by this factor.
_LEAP = 30.0


@dataclass(frozen=True, eq=False)
class SparseSubspace(Subspace):
    """The shared parameters with what the next step needs to know of the last."""

    curvature: float = 0.0
    """L that led here; 0 at the start."""
    caution: float = 1.0
    """By how much steps of the main effects are shortened."""
    before: tuple[Floats, Floats] | None = None
    """Loadings and gradient (p, k) before the last step, in the present rotation."""


@dataclass(frozen=True, eq=False)
class SparseProblem(BlockProblem[SparseSubspace, None, Sums]):
    """Maximise the penalised likelihood over orthonormal loadings and main effects.

    Parameters
    ----------
    setting : Setting
    penalty : Penalty
    strength : float
        Weight of the sum of penalties beside half the deviance.
    """

    setting: Setting
    penalty: Penalty
    strength: float

    def step(self, block: Block, shared: SparseSubspace, local: None) -> tuple[None, Sums]:
        """Sums of a block; rows have no state."""
        return None, self.setting.sum_block(block, shared)

    def objective(self, shared: SparseSubspace, stats: Sums) -> float:
        """Minus half the deviance, less the penalties."""
        return stats.value - self.setting.saturated - self._penalty(shared.loadings)

    def resolution(self, shared: SparseSubspace, stats: Sums) -> float:
        """Rounding level of the objective."""
        return float(np.finfo(np.float64).eps * (stats.magnitude + self._penalty(shared.loadings)))

    def update(self, shared: SparseSubspace, stats: Sums) -> Update[SparseSubspace]:
        """One step of the loadings and the main effects, then rotations."""
        curvature = self._spectral(shared, stats) if shared.curvature > 0 else _typical(stats)
        return self._propose(shared, stats, curvature, max(0.5 * shared.caution, 1.0))

    def repair(
        self, shared: SparseSubspace, proposal: SparseSubspace, before: Sums, after: Sums
    ) -> SparseSubspace | None:
        """A step of twice the curvature when the objective got worse."""
        slack = self.resolution(shared, before)
        if self.objective(proposal, after) >= self.objective(shared, before) - slack:
            return None
        return self._propose(shared, before, 2.0 * proposal.curvature, 2.0 * proposal.caution).shared

    def _penalty(self, loadings: Floats) -> float:
        return self.strength * float(self.penalty.value(np.abs(loadings)).sum())

    def _propose(
        self, shared: SparseSubspace, stats: Sums, curvature: float, caution: float
    ) -> Update[SparseSubspace]:
        old, k = shared.loadings, shared.loadings.shape[1]
        gradient = self.setting.slopes(stats)[:, :k]
        thresholds = self.strength * self.penalty.slope(np.abs(old))
        new, curvature = threshold_columns(old, gradient, thresholds, curvature)
        turned, rotation = rotate_pairs(new, self.penalty)
        change, slope = self._move_effects(stats)
        # What is left of the gradient, curvature * step, in units of the typical curvature if steps are shorter.
        excess = max(curvature / _typical(stats), 1.0)
        moved = excess * curvature * float(np.sum((new - old) ** 2))
        decrement = moved + float(slope @ change) + 2.0 * (self._penalty(new) - self._penalty(turned))
        proposal = SparseSubspace(
            turned,
            shared.intercept + change / caution,
            shared.typical,
            curvature,
            caution,
            (old @ rotation, gradient @ rotation),
        )
        return Update(proposal, self.setting.criterion(decrement, stats), 0.5 * decrement)

    def _spectral(self, shared: SparseSubspace, stats: Sums) -> float:
        """Curvature along the last step (Barzilai and Borwein), near the last one."""
        last = shared.curvature
        if shared.before is None:
            return last
        step = shared.loadings - shared.before[0]
        change = shared.before[1] - self.setting.slopes(stats)[:, : step.shape[1]]
        length = float(np.vdot(step, step))
        if length == 0.0:
            return last
        return float(np.clip(np.vdot(step, change) / length, last / _LEAP, last * _LEAP))

    def _move_effects(self, stats: Sums) -> tuple[Floats, Floats]:
        """Newton step and gradient of the main effects, (p,) each."""
        size = stats.gradient.shape[1]
        slope = self.setting.slopes(stats)[:, -1]
        curvature = stats.curvature[:, packed_diagonal(size)[-1]]
        change = np.divide(slope, curvature, out=np.zeros_like(slope), where=curvature > 0)
        return change, slope


def start_sparse(at: Subspace, penalty: Penalty) -> SparseSubspace:
    """A subspace with its basis rotated to where the penalty is small."""
    loadings = orthonormal(at.loadings)
    for _ in range(_MAX_TURNS):
        turned, rotation = rotate_pairs(loadings, penalty)
        if np.array_equal(rotation, np.eye(len(rotation))):
            break
        loadings = turned
    return SparseSubspace(loadings, at.intercept, at.typical)


def _typical(stats: Sums) -> float:
    """Mean curvature of a loading."""
    size = stats.gradient.shape[1]
    return float(np.mean(stats.curvature[:, packed_diagonal(size)[:-1]])) + np.finfo(float).tiny

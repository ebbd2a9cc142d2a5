"""Probabilistic PCA from a stream of blocks: EM on averages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block
from anypca.families import Family, Gaussian
from anypca.linalg import PackedCholesky, symmetric_power, unpack_symmetric
from anypca.models._gaussian.posterior import Parameters
from anypca.models._gaussian.problem import MissingProblem
from anypca.models._stream import BlockSums, StreamRule, design_change


@dataclass(frozen=True, eq=False)
class GaussianRule(StreamRule[Parameters]):
    """The M-step of `MissingProblem` from averages of its expected sums.

    Coefficients and squares use entries minus ``origin``, so that a large mean does not cancel a small noise variance.
    """

    problem: MissingProblem
    origin: Floats
    """Mean of the first block, shape (n_features,)."""

    @property
    def family(self) -> Family:
        return Gaussian()

    def _joint(self, shared: Parameters) -> Floats:
        return np.column_stack([shared.loadings, shared.mean - self.origin])

    def solve(self, block: Block, shared: Parameters) -> BlockSums:
        sums, k = self.problem.step(block, shared, None)[1], shared.loadings.shape[1]
        matrices, joint = unpack_symmetric(sums.curvature, k + 1), self._joint(shared)
        # The last entry of a design is 1, so that the last column of its moments is its sum.
        target = sums.cross + joint[:, k:] * matrices[:, :, k]
        fitted = np.einsum("ja,jab,jb->", joint, matrices, joint)
        squares = sums.squares + 2.0 * float(np.vdot(joint, target)) - float(fitted)
        moments = unpack_symmetric(sums.moments[None], k + 1)[0]
        return BlockSums(sums.curvature, target, moments, np.zeros(k), squares, sums.n_entries, sums.weight)

    def improve(self, shared: Parameters, averages: BlockSums, weight: float) -> tuple[Parameters, Floats]:
        k = shared.loadings.shape[1]
        joint = PackedCholesky(averages.curvature, k + 1).solve(averages.target)
        left = averages.squares - float(np.vdot(joint, averages.target))
        noise = max(left / averages.n_entries, self.problem.noise_floor)
        shift = averages.moments[:k, k]
        covariance = averages.moments[:k, :k] - np.outer(shift, shift)
        loadings = joint[:, :k] @ symmetric_power(covariance, 0.5)
        mean = self.origin + joint[:, k] + joint[:, :k] @ shift
        change = design_change(shift[None], symmetric_power(covariance, -0.5))
        return Parameters(mean, loadings, noise), change

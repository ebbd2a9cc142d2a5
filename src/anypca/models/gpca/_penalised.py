"""Orthonormal loadings under a penalty.

The objective is the log-likelihood less the penalties of the rows of U, over matrices U with orthonormal columns. In
each iteration the likelihood is replaced by a quadratic function of curvature L around the present loadings. Its square
is constant, since the columns have unit length. The remaining objective is linear minus the penalty; see
`anypca.models.gpca._orthonormal`. L is doubled until the objective does not get worse.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats
from anypca.linalg import nearest_orthonormal, packed_diagonal
from anypca.models.gpca._orthonormal import improve, rotate_pairs
from anypca.models.gpca._problem import SubspaceProblem
from anypca.models.gpca._projection import Subspace, Sums
from anypca.priors import Prior
from anypca.solvers import Update

# Rounds of rotations at the start; most bases are at rest after a few.
_MAX_TURNS = 50
# A spectral step length may differ from the last one by this factor: one odd step does not set the next.
_LEAP = 30.0


@dataclass(frozen=True, eq=False)
class PenalisedSubspace(Subspace):
    """The shared parameters with what the next step needs to know of the last."""

    curvature: float = 0.0
    """L that led here; 0 at the start."""
    caution: float = 1.0
    """By how much steps of the main effects are shortened."""
    before: tuple[Floats, Floats] | None = None
    """Loadings and gradient (p, k) before the last step, in the present rotation."""


@dataclass(frozen=True, eq=False)
class PenalisedProblem(SubspaceProblem[PenalisedSubspace]):
    """Maximise the penalised likelihood over orthonormal loadings and main effects.

    Parameters
    ----------
    prior : Prior
        On the rows of U.
    """

    prior: Prior

    def update(self, shared: PenalisedSubspace, stats: Sums) -> Update[PenalisedSubspace]:
        """One step of the loadings and the main effects."""
        curvature = self._spectral(shared, stats) if shared.curvature > 0 else _typical(stats)
        return self._propose(shared, stats, curvature, max(0.5 * shared.caution, 1.0))

    def backtrack(
        self, shared: PenalisedSubspace, proposal: PenalisedSubspace, before: Sums, after: Sums
    ) -> PenalisedSubspace | None:
        """A step of twice the curvature when the objective got worse."""
        slack = self.resolution(shared, before)
        if self.objective(proposal, after) >= self.objective(shared, before) - slack:
            return None
        return self._propose(shared, before, 2.0 * proposal.curvature, 2.0 * proposal.caution).shared

    def _penalty(self, loadings: Floats) -> float:
        return float(self.prior.value(loadings).sum())

    def _propose(
        self, shared: PenalisedSubspace, stats: Sums, curvature: float, caution: float
    ) -> Update[PenalisedSubspace]:
        old, k = shared.loadings, shared.loadings.shape[1]
        gradient = self._slopes(stats)[:, :k]
        found = improve(old, gradient, self.prior, curvature)
        change, slope = self._move_effects(stats)
        # The remaining gradient, curvature * step, in units of the typical curvature if steps are shorter.
        excess = max(found.curvature / _typical(stats), 1.0)
        moved = excess * found.curvature * float(np.sum((found.stepped - old) ** 2))
        turned = self._penalty(found.stepped) - self._penalty(found.turned)
        decrement = moved + float(slope @ change) + 2.0 * turned
        proposal = PenalisedSubspace(
            found.turned,
            shared.intercept + change / caution,
            shared.typical,
            found.curvature,
            caution,
            (old @ found.rotation, gradient @ found.rotation),
        )
        return Update(proposal, self._criterion(decrement, stats), 0.5 * decrement)

    def _spectral(self, shared: PenalisedSubspace, stats: Sums) -> float:
        """Curvature along the last step (Barzilai and Borwein), near the last one."""
        last = shared.curvature
        if shared.before is None:
            return last
        step = shared.loadings - shared.before[0]
        change = shared.before[1] - self._slopes(stats)[:, : step.shape[1]]
        length = float(np.vdot(step, step))
        if length == 0.0:
            return last
        return float(np.clip(np.vdot(step, change) / length, last / _LEAP, last * _LEAP))

    def _move_effects(self, stats: Sums) -> tuple[Floats, Floats]:
        """Newton step and gradient of the main effects, (p,) each."""
        size = stats.gradient.shape[1]
        slope = self._slopes(stats)[:, -1]
        curvature = stats.curvature[:, packed_diagonal(size)[-1]]
        change = np.divide(slope, curvature, out=np.zeros_like(slope), where=curvature > 0)
        return change, slope


def start_penalised(at: Subspace, prior: Prior) -> PenalisedSubspace:
    """A subspace with its basis rotated to where a penalty of single loadings is small."""
    loadings = nearest_orthonormal(at.loadings)
    for _ in range(_MAX_TURNS if prior.slopes(loadings) is not None else 0):
        turned, rotation = rotate_pairs(loadings, prior)
        if np.array_equal(rotation, np.eye(len(rotation))):
            break
        loadings = turned
    return PenalisedSubspace(loadings, at.intercept, at.typical)


def _typical(stats: Sums) -> float:
    """Mean curvature of a loading."""
    size = stats.gradient.shape[1]
    return float(np.mean(stats.curvature[:, packed_diagonal(size)[:-1]])) + np.finfo(float).tiny

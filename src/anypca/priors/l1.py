"""Absolute-value penalty: exact zeros."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats
from anypca.linalg import unpack_symmetric
from anypca.priors._base import NewtonStep, Prior, priors

_MAX_PASSES = 100


@priors.register
@dataclass(frozen=True, eq=False)
class L1(Prior):
    """``value(u) = sum_a strength_a |u_a|``: a Laplace prior.

    Parameters
    ----------
    strength : ndarray of shape (m,)
    """

    strength: Floats
    name = "l1"

    def value(self, u: Floats) -> Floats:
        return np.abs(u) @ self.strength

    def newton(self, u: Floats, gradient: Floats, curvature: Floats) -> NewtonStep:
        matrices = unpack_symmetric(curvature, u.shape[1])
        target = self._minimise(u, gradient, matrices)
        step = target - u
        quadratic = np.einsum("ia,iab,ib->i", step, matrices, step)
        gain = np.einsum("ia,ia->i", gradient, step) - 0.5 * quadratic + self.value(u) - self.value(target)
        # Rounding may leave a gain of -1e-17 at the optimum.
        return NewtonStep(step, 2.0 * np.maximum(gain, 0.0))

    def _minimise(self, u: Floats, gradient: Floats, curvature: Floats) -> Floats:
        """Coordinate descent on the penalised model, all rows together."""
        diagonal = np.einsum("iaa->ia", curvature)
        # A direction without curvature has no finite optimum in the model; it keeps its value.
        free = diagonal > 1e-12 * diagonal.max(initial=0.0)
        safe = np.where(free, diagonal, 1.0)
        point = u.copy()
        slope = gradient.copy()
        for _ in range(_MAX_PASSES):
            largest = 0.0
            for a in range(u.shape[1]):
                wanted = safe[:, a] * point[:, a] + slope[:, a]
                new = np.sign(wanted) * np.maximum(np.abs(wanted) - self.strength[a], 0.0) / safe[:, a]
                move = np.where(free[:, a], new - point[:, a], 0.0)
                point[:, a] += move
                slope -= curvature[:, :, a] * move[:, None]
                largest = max(largest, float(np.max(move**2 * safe[:, a], initial=0.0)))
            if largest < 1e-20 * (1.0 + float(np.max(point**2 * safe, initial=0.0))):
                break
        return point

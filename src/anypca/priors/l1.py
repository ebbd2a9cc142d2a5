"""Absolute-value penalty: exact zeros."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Bools, Floats
from anypca.linalg import PackedCholesky, packed_products, unpack_symmetric
from anypca.priors._base import NewtonStep, Prior, priors

# Passes of coordinate descent between two linear solves, and how often both are repeated.
_PASSES = 10
_MAX_ROUNDS = 20


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
        target = self._minimise(u, gradient, matrices, curvature)
        step = target - u
        quadratic = np.einsum("ia,iab,ib->i", step, matrices, step)
        gain = np.einsum("ia,ia->i", gradient, step) - 0.5 * quadratic + self.value(u) - self.value(target)
        # Rounding may leave a gain of -1e-17 at the optimum.
        return NewtonStep(step, 2.0 * np.maximum(gain, 0.0))

    def _minimise(self, u: Floats, gradient: Floats, matrices: Floats, packed: Floats) -> Floats:
        """Coordinate descent finds the signs, a linear solve the values; all rows together."""
        diagonal = np.einsum("iaa->ia", matrices)
        # A direction without curvature has no finite optimum in the model; it keeps its value. Compared within
        # the row, since what a row can learn does not depend on its neighbours.
        free = diagonal > 1e-12 * diagonal.max(axis=1, keepdims=True, initial=0.0)
        point, slope = u.copy(), gradient.copy()
        for _ in range(_MAX_ROUNDS):
            for _ in range(_PASSES):
                largest = self._pass(point, slope, matrices, free)
                if np.all(largest < 1e-20 * (1.0 + np.max(point**2 * diagonal, axis=1, initial=0.0))):
                    return point
            point = self._polish(point, slope, packed, free)
            slope = gradient - np.einsum("iab,ib->ia", matrices, point - u)
        return point

    def _pass(self, point: Floats, slope: Floats, matrices: Floats, free: Bools) -> Floats:
        """Optimise one coordinate after the other, in place; the largest move of each row in the metric."""
        largest = np.zeros(len(point))
        for a, strength in enumerate(self.strength):
            size = np.where(free[:, a], matrices[:, a, a], 1.0)
            wanted = size * point[:, a] + slope[:, a]
            new = np.sign(wanted) * np.maximum(np.abs(wanted) - strength, 0.0) / size
            move = np.where(free[:, a], new - point[:, a], 0.0)
            point[:, a] += move
            slope -= matrices[:, :, a] * move[:, None]
            largest = np.maximum(largest, move**2 * size)
        return largest

    def _polish(self, point: Floats, slope: Floats, packed: Floats, free: Bools) -> Floats:
        """The optimum among points of the same signs, in the rows where it has these signs.

        Coordinate descent alone crawls where coordinates are correlated.
        """
        signs = np.sign(point) * free
        factor = PackedCholesky(packed * packed_products(np.abs(signs)), point.shape[1])
        candidate = point + factor.solve(np.abs(signs) * slope - signs * self.strength)
        same = np.all(np.sign(candidate) == np.sign(point), axis=1)
        return np.where(same[:, None], candidate, point)

"""Penalties that add up over single entries and make some of them exactly zero."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from anypca._typing import Bools, Floats
from anypca.linalg import PackedCholesky, packed_products, unpack_symmetric
from anypca.priors._base import NewtonStep, Prior, step_to

# Passes of coordinate descent between two linear solves: signs are mostly found in the first few.
_PASSES = 10
# Solves until which all signs are found; 20 have always been enough, and what they leave the next step takes up.
_MAX_ROUNDS = 20
# Squared move of a row, relative to its size, that is rounding: half of the digits of a move.
_SMALLEST_MOVE = 1e-20
# Curvature of a coordinate relative to the largest of its row that is rounding, as in `PackedCholesky`.
_LEAST_CURVATURE = 1e-12


class Entrywise(Prior):
    """``value(u) = sum_a penalty(|u_a|)`` with a concave, increasing function ``penalty``, 0 at 0.

    A subclass writes `penalty` and its derivative `slope`, all else follows: a concave function lies below its
    tangents, so that a step minimises the quadratic model plus ``sum_a slope(|u_a|) |v_a|``, a weighted lasso.
    """

    @abstractmethod
    def penalty(self, size: Floats) -> Floats:
        """Penalty of each entry of the given sizes (n, m), >= 0."""

    @abstractmethod
    def slope(self, size: Floats) -> Floats:
        """Derivative of `penalty`, shape (n, m); never negative, nowhere increasing."""

    def value(self, u: Floats) -> Floats:
        value: Floats = self.penalty(np.abs(u)).sum(axis=1)
        return value

    def slopes(self, u: Floats) -> Floats:
        return self.slope(np.abs(u))

    def newton(self, u: Floats, gradient: Floats, curvature: Floats) -> NewtonStep:
        return step_to(self, u, _minimise(u, gradient, curvature, self.slopes(u)), gradient, curvature)


def _minimise(u: Floats, gradient: Floats, packed: Floats, weights: Floats) -> Floats:
    """The weighted lasso: coordinate descent finds the signs, a linear solve the values; all rows together."""
    matrices = unpack_symmetric(packed, u.shape[1])
    diagonal = np.einsum("iaa->ia", matrices)
    # A direction without curvature has no finite optimum in the model; it keeps its value. Compared within
    # the row, since what a row can learn does not depend on its neighbours.
    free = diagonal > _LEAST_CURVATURE * diagonal.max(axis=1, keepdims=True, initial=0.0)
    point, slope = u.copy(), gradient.copy()
    for _ in range(_MAX_ROUNDS):
        for _ in range(_PASSES):
            largest = _descend(point, slope, matrices, free, weights)
            scale = 1.0 + np.max(point**2 * diagonal, axis=1, initial=0.0)
            if np.all(largest < _SMALLEST_MOVE * scale):
                return point
        point = _solve_for_signs(point, slope, packed, free, weights)
        slope = gradient - np.einsum("iab,ib->ia", matrices, point - u)
    return point


def _descend(point: Floats, slope: Floats, matrices: Floats, free: Bools, weights: Floats) -> Floats:
    """Optimise one coordinate after the other, in place; the largest squared move of each row in the metric."""
    largest = np.zeros(len(point))
    for a in range(point.shape[1]):
        size = np.where(free[:, a], matrices[:, a, a], 1.0)
        wanted = size * point[:, a] + slope[:, a]
        new = np.sign(wanted) * np.maximum(np.abs(wanted) - weights[:, a], 0.0) / size
        move = np.where(free[:, a], new - point[:, a], 0.0)
        point[:, a] += move
        slope -= matrices[:, :, a] * move[:, None]
        largest = np.maximum(largest, move**2 * size)
    return largest


def _solve_for_signs(point: Floats, slope: Floats, packed: Floats, free: Bools, weights: Floats) -> Floats:
    """The optimum among points of the same signs, in the rows where it has these signs.

    Coordinate descent alone crawls where coordinates are correlated.
    """
    signs = np.sign(point) * free
    factor = PackedCholesky(packed * packed_products(np.abs(signs)), point.shape[1])
    candidate = point + factor.solve(np.abs(signs) * slope - signs * weights)
    same = np.all(np.sign(candidate) == np.sign(point), axis=1)
    return np.where(same[:, None], candidate, point)

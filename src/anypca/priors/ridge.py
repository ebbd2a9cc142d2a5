"""Quadratic penalty: a normal prior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats
from anypca.linalg import PackedCholesky, pack_symmetric
from anypca.priors._base import NewtonStep, Prior, priors


@priors.register
@dataclass(frozen=True, eq=False)
class Ridge(Prior):
    """``value(u_j) = s_j u_j' P u_j / 2``: a centred normal prior with precision ``s_j P`` of row j.

    Parameters
    ----------
    precision : ndarray of shape (m,) or (m, m)
        Diagonal or full precision P; zeros leave coordinates free.
    strength : ndarray of shape (n,) or float, default=1.0
        s: one factor for each row, or one for all.
    """

    precision: Floats
    strength: Floats | float = 1.0
    name = "ridge"

    @property
    def packed(self) -> Floats:
        """The precision P as a packed matrix, shape (m (m + 1) / 2,)."""
        return pack_symmetric(np.diag(self.precision) if self.precision.ndim == 1 else self.precision)

    def value(self, u: Floats) -> Floats:
        value: Floats = 0.5 * np.einsum("ia,ia->i", self._times(u), u)
        return value

    def newton(self, u: Floats, gradient: Floats, curvature: Floats) -> NewtonStep:
        slope = gradient - self._times(u)
        precision = np.multiply.outer(np.asarray(self.strength), self.packed)
        step = PackedCholesky(curvature + precision, u.shape[1]).solve(slope)
        return NewtonStep(step, np.einsum("ia,ia->i", slope, step))

    def _times(self, u: Floats) -> Floats:
        product = u * self.precision if self.precision.ndim == 1 else u @ self.precision
        slope: Floats = product * np.reshape(self.strength, (-1, 1))
        return slope

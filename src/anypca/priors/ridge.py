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
    """``value(u) = u' P u / 2``: a centred normal prior with precision P.

    Parameters
    ----------
    precision : ndarray of shape (m,) or (m, m)
        Diagonal or full precision; zeros leave coordinates free.
    """

    precision: Floats
    name = "ridge"

    @property
    def packed(self) -> Floats:
        """The precision as a packed matrix, shape (m (m + 1) / 2,)."""
        return pack_symmetric(np.diag(self.precision) if self.precision.ndim == 1 else self.precision)

    def value(self, u: Floats) -> Floats:
        value: Floats = 0.5 * np.einsum("ia,ia->i", self._times(u), u)
        return value

    def newton(self, u: Floats, gradient: Floats, curvature: Floats) -> NewtonStep:
        slope = gradient - self._times(u)
        step = PackedCholesky(curvature + self.packed, u.shape[1]).solve(slope)
        return NewtonStep(step, np.einsum("ia,ia->i", slope, step))

    def _times(self, u: Floats) -> Floats:
        return u * self.precision if self.precision.ndim == 1 else u @ self.precision

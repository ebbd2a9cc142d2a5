"""Quadratic penalty: a normal prior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats
from anypca.linalg import PackedCholesky, pack_symmetric
from anypca.priors._base import NewtonStep, Prior, expand, priors


@priors.register
@dataclass(frozen=True, eq=False)
class Ridge(Prior):
    """``value(u_j) = s_j u_j' P u_j / 2``: a centred normal prior with precision ``s_j P`` of row j.

    Parameters
    ----------
    precision : float or ndarray of shape (m,) or (m, m), default=1.0
        P: one number, diagonal or full; zeros leave coordinates free.
    strength : float or ndarray of shape (n,), default=1.0
        s: one factor for all rows, or one for each.

    See Also
    --------
    L1 : zeros.
    """

    precision: Floats | float = 1.0
    strength: Floats | float = 1.0
    name = "ridge"

    @property
    def weight(self) -> float | None:
        """The precision that all entries of all rows have, else ``None``."""
        is_one = self.is_isotropic and np.ndim(self.strength) == 0
        return float(np.max(self.precision, initial=0.0) * self.strength) if is_one else None

    @property
    def is_isotropic(self) -> bool:  # type: ignore[override]
        return np.ndim(self.precision) < 2 and np.unique(self.precision).size < 2

    def value(self, u: Floats) -> Floats:
        return np.asarray(0.5 * np.einsum("ia,ia->i", self.times(u), u))

    def newton(self, u: Floats, gradient: Floats, curvature: Floats) -> NewtonStep:
        slope = gradient - self.times(u)
        step = PackedCholesky(curvature + self.curvature(u), u.shape[1]).solve(slope)
        return NewtonStep(step, np.einsum("ia,ia->i", slope, step))

    def curvature(self, u: Floats) -> Floats:
        """The precisions, packed, shape (m (m + 1) / 2,) or (n, m (m + 1) / 2)."""
        return np.asarray(np.multiply.outer(self.strength, self._packed(u.shape[1])))

    def matrix(self, size: int) -> Floats:
        """P in full, shape (size, size)."""
        is_full = np.ndim(self.precision) == 2
        return np.asarray(self.precision) if is_full else np.diag(expand(self.precision, size))

    def _packed(self, size: int) -> Floats:
        return pack_symmetric(self.matrix(size))

    def times(self, u: Floats) -> Floats:
        """The gradient of the penalty, shape (n, m)."""
        product = u @ self.precision if np.ndim(self.precision) == 2 else u * self.precision
        return np.asarray(product * np.reshape(self.strength, (-1, 1)))

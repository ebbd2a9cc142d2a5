"""A smooth stand-in for the number of non-zero entries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats
from anypca.linalg import PackedCholesky, packed_diagonal
from anypca.priors._base import NewtonStep, Prior, priors


@priors.register
@dataclass(frozen=True, eq=False)
class AdaptiveL0(Prior):
    r"""``value(u) = sum_a p_a u_a^2 / 2 + k_a log(1 + u_a^2 / delta)``: a ridge and an adaptive count of non-zeros.

    The logarithm is majorised by a ridge of weight ``2 k / (u^2 + delta)`` at the current point, so that repeated
    steps are those of the reweighted ridge (Frommlet and Nuel 2016) and the value given here never increases. With
    curvature h an entry ends at zero unless its unpenalised square exceeds ``8 k / h``.

    Parameters
    ----------
    precision : ndarray of shape (m,)
        p, of the ridge.
    weight : ndarray of shape (m,)
        k; zeros leave coordinates without the count.
    delta : float, default=1e-8
        Entries below its root count as zeros.
    """

    precision: Floats
    weight: Floats
    delta: float = 1e-8
    name = "adaptive_l0"

    def value(self, u: Floats) -> Floats:
        square = u * u
        value: Floats = 0.5 * square @ self.precision + np.log1p(square / self.delta) @ self.weight
        return value

    def newton(self, u: Floats, gradient: Floats, curvature: Floats) -> NewtonStep:
        ridge = self.precision + 2.0 * self.weight / (u * u + self.delta)
        slope = gradient - ridge * u
        total = curvature.copy()
        total[:, packed_diagonal(u.shape[1])] += ridge
        step = PackedCholesky(total, u.shape[1]).solve(slope)
        return NewtonStep(step, np.einsum("ia,ia->i", slope, step))

    def snap(self, u: Floats) -> Floats:
        """``u`` with exact zeros where entries are only waiting to become zero."""
        gone = (np.abs(u) < 10.0 * np.sqrt(self.delta)) & (self.weight > 0)
        return np.where(gone, 0.0, u)

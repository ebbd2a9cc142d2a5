"""A smooth stand-in for the number of non-zero entries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats
from anypca.linalg import PackedCholesky, packed_diagonal
from anypca.priors._base import NewtonStep, Prior, expand, priors

# Entries below this many roots of delta are taken for zeros: a ridge of weight 0.02 k / delta or more draws them there,
# and what has settled elsewhere is far larger.
_NEAR_ZERO = 10.0


@priors.register
@dataclass(frozen=True, eq=False)
class AdaptiveL0(Prior):
    r"""``value(u) = sum_a p_a u_a^2 / 2 + k_a log(1 + u_a^2 / delta)``: a ridge and an adaptive count of non-zeros.

    A ridge of weight ``2 k / (u^2 + delta)`` at the current point majorises the logarithm. Repeated steps are the
    reweighted ridge of Frommlet and Nuel (2016) and never increase the value. With curvature h an entry converges to
    zero unless its unpenalised square exceeds ``8 k / h``.

    Parameters
    ----------
    precision : float or ndarray of shape (m,), default=0.0
        p, of the ridge.
    weight : float or ndarray of shape (m,), default=1.0
        k; zeros leave coordinates without the count.
    delta : float, default=1e-8
        Entries below its root count as zeros.

    See Also
    --------
    L1 : convex.
    Scad : without bias for large loadings, too.
    """

    precision: Floats | float = 0.0
    weight: Floats | float = 1.0
    delta: float = 1e-8
    name = "adaptive_l0"
    leaves_zero = False

    def value(self, u: Floats) -> Floats:
        square, m = u * u, u.shape[1]
        count: Floats = np.log1p(square / self.delta) @ expand(self.weight, m)
        return 0.5 * square @ expand(self.precision, m) + count

    def newton(self, u: Floats, gradient: Floats, curvature: Floats) -> NewtonStep:
        ridge = self.precision + self.shrinkage(u * u)
        slope = gradient - ridge * u
        total = curvature.copy()
        total[:, packed_diagonal(u.shape[1])] += ridge
        step = PackedCholesky(total, u.shape[1]).solve(slope)
        return NewtonStep(step, np.einsum("ia,ia->i", slope, step))

    def shrinkage(self, square: Floats) -> Floats:
        """Weights of the ridge that touches the count where entries have the given squares."""
        return 2.0 * self.weight / (square + self.delta)

    def snap(self, u: Floats) -> Floats:
        """``u`` with entries that converge to zero set to exactly zero."""
        gone = (np.abs(u) < _NEAR_ZERO * np.sqrt(self.delta)) & (np.asarray(self.weight) > 0)
        return np.where(gone, 0.0, u)

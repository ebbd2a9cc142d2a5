"""Smoothly clipped absolute deviation: exact zeros, and large entries as they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats
from anypca.priors._base import Entrywise, priors


@priors.register
@dataclass(frozen=True, eq=False)
class Scad(Entrywise):
    r"""Smoothly clipped absolute deviation: small entries are shrunk as by absolute values, large ones not at all.

    The slope is ``strength`` up to the knee :math:`\tau` = ``flat / shape``, falls linearly, and is 0 from ``flat`` on.

    Parameters
    ----------
    strength : float, default=1.0
        Weight of the penalty; 0 is none.
    flat : float, default=1.0
        Size from which the penalty is constant.
    shape : float, default=3.7
        Ratio of ``flat`` to the knee, above 2. The reference recommends the default (below eq. 2.8).

    See Also
    --------
    L1 : convex.

    Notes
    -----
    In the notation of the reference this is the strength times :math:`p_\lambda(u) / \lambda` with
    :math:`\lambda = \tau`.

    References
    ----------
    J. Fan, R. Li (2001). Variable selection via nonconcave penalized likelihood and its oracle properties. Journal
    of the American Statistical Association 96, eqs. 2.7 and 2.8.
    """

    strength: float = 1.0
    flat: float = 1.0
    shape: float = 3.7
    name = "scad"
    is_bounded = True

    def penalty(self, size: Floats) -> Floats:
        a, knee = self.shape, self.flat / self.shape
        bent = (2.0 * a * knee * size - size**2 - knee**2) / (2.0 * (a - 1.0) * knee)
        most = 0.5 * knee * (a + 1.0)
        return self.strength * np.where(size <= knee, size, np.where(size <= self.flat, bent, most))

    def slope(self, size: Floats) -> Floats:
        knee = self.flat / self.shape
        return np.asarray(self.strength * np.clip((self.flat - size) / (self.flat - knee), 0.0, 1.0))

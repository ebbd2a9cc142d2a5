"""Absolute-value penalty: exact zeros."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats
from anypca.priors._base import Entrywise, priors


@priors.register
@dataclass(frozen=True, eq=False)
class L1(Entrywise):
    """``value(u) = sum_a strength_a |u_a|``: a Laplace prior, under which all entries are shrunk alike.

    Parameters
    ----------
    strength : ndarray of shape (m,) or float, default=1.0
        Weight of the penalty; 0 is none.

    See Also
    --------
    Scad : less bias for large entries.
    Ridge : no zeros.
    """

    strength: Floats | float = 1.0
    name = "l1"

    def penalty(self, size: Floats) -> Floats:
        return self.strength * size

    def slope(self, size: Floats) -> Floats:
        return np.broadcast_to(self.strength, size.shape)

"""Penalties on single loadings, by their tangents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from anypca._registry import Registry
from anypca._typing import Floats

#: Resolves ``penalty="l1"``.
penalties: Registry[Penalty] = Registry("penalty")


class Penalty(Protocol):
    """A concave, increasing function of the size of a loading, of slope 1 at 0."""

    name: str

    def value(self, size: Floats) -> Floats:
        """The penalty of each size >= 0; the first axis is that of the p columns of the table."""

    def slope(self, size: Floats) -> Floats:
        """Its derivative: a function that is concave lies below its tangents."""


@penalties.register
@dataclass(frozen=True)
class Absolute:
    """``|u|``, the lasso: all loadings are shrunk alike."""

    name = "l1"

    def value(self, size: Floats) -> Floats:
        return size

    def slope(self, size: Floats) -> Floats:
        return np.ones_like(size)


@penalties.register
@dataclass(frozen=True)
class Scad:
    r"""Smoothly clipped absolute deviation: large loadings are not shrunk.

    The slope is 1 up to the knee :math:`\tau`, falls linearly, and is 0 from :math:`a\tau` on.

    Parameters
    ----------
    shape : float, default=3.7
        a > 2.

    Notes
    -----
    The knee is where :math:`a\tau = 1/\sqrt p`, the size of the loadings of a component in which all p columns have
    equal parts: what is larger is taken for signal. In the notation of the reference the penalty is
    :math:`p_\lambda(u) / \lambda` with :math:`\lambda = \tau`.

    References
    ----------
    J. Fan, R. Li (2001). Variable selection via nonconcave penalized likelihood and its oracle properties. Journal
    of the American Statistical Association 96, eqs. 2.7 and 2.8.
    """

    shape: float = 3.7
    name = "scad"

    def value(self, size: Floats) -> Floats:
        a, knee = self.shape, self._knee(size)
        bent = (2.0 * a * knee * size - size**2 - knee**2) / (2.0 * (a - 1.0) * knee)
        flat = 0.5 * knee * (a + 1.0)
        return np.where(size <= knee, size, np.where(size <= a * knee, bent, flat))

    def slope(self, size: Floats) -> Floats:
        a, knee = self.shape, self._knee(size)
        slope: Floats = np.clip((a * knee - size) / ((a - 1.0) * knee), 0.0, 1.0)
        return slope

    def _knee(self, size: Floats) -> float:
        return float(1.0 / (self.shape * np.sqrt(len(size))))

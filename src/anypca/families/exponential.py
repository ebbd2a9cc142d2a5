"""Waiting times with log link."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats, PerColumn
from anypca.families._base import families
from anypca.families._log_link import Amounts


@families.register
@dataclass(frozen=True)
class Exponential(Amounts):
    r"""Waiting times: ``log p(x) = -eta - x exp(-eta)``, mean ``exp(eta)``, variance ``exp(2 eta)``.

    The domain is x > 0. The link is the logarithm, so that eta is any real number. There is no dispersion.
    ``evaluate`` drops nothing.

    Not chosen by ``family="auto"``, which takes `Gamma`: fits estimate its dispersion, and 1 is this family.

    See Also
    --------
    Gamma : with a shape to estimate.

    Examples
    --------
    >>> import numpy as np
    >>> Exponential().variance(np.array([3.0])).tolist()
    [9.0]
    """

    name = "exponential"

    def _phi(self, dispersion: PerColumn, eta: Floats) -> float:
        return 1.0

    def log_base_measure(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        return np.zeros_like(x)

    def sample(self, eta: Floats, dispersion: PerColumn, rng: np.random.Generator) -> Floats:
        return np.exp(eta) * rng.standard_exponential(eta.shape)

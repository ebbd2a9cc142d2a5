"""Yes/no answers with logit link."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Bools, Floats, PerColumn
from anypca.families._base import families
from anypca.families._logistic import Logistic


@families.register
@dataclass(frozen=True)
class Bernoulli(Logistic):
    r"""Zeros and ones: ``log p(x) = x eta - log(1 + exp(eta))``, mean ``1 / (1 + exp(-eta))``.

    The domain is x in {0, 1}. The link is the logit, so that eta is any real number. There is no dispersion.
    ``evaluate`` drops nothing.

    Chosen by ``family="auto"`` for columns of two values or labels, whatever they are: the smaller one is read as 0.

    See Also
    --------
    Binomial : several trials.

    Examples
    --------
    >>> import numpy as np
    >>> Bernoulli().mean(np.array([0.0, 700.0])).tolist()
    [0.5, 1.0]
    """

    name = "bernoulli"
    support = "values 0 or 1"
    remedy = "Use family='binomial(n)' for counts out of n, or family='gaussian' for measurements."

    @property
    def trials(self) -> int:
        return 1

    def in_support(self, x: Floats) -> Bools:
        return np.asarray((x == 0) | (x == 1))

    def log_base_measure(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        return np.zeros_like(x)

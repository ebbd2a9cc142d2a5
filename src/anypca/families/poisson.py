"""Poisson counts with log link."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, xlogy

from anypca._typing import Floats, PerColumn
from anypca.families._base import NOT_ASKED, Evaluation, families
from anypca.families._canonical import CanonicalFamily
from anypca.families._log_link import Counts


@families.register
@dataclass(frozen=True)
class Poisson(Counts, CanonicalFamily):
    r"""Counts: ``log p(x) = x eta - exp(eta) - log x!``, mean and variance ``exp(eta)``.

    The domain is x in {0, 1, 2, ...}. The link is the logarithm, so that eta is any real number. There is no
    dispersion. ``evaluate`` drops ``-log x!``.

    Not chosen by ``family="auto"``, which takes `NegativeBinomial`: components make counts vary, so that a column by
    itself cannot tell whether they are over-dispersed. Fits estimate that dispersion, and 0 is this family.

    See Also
    --------
    NegativeBinomial : counts that vary more.

    Examples
    --------
    >>> import numpy as np
    >>> Poisson().mean(np.array([0.0, np.log(3.0)])).round(6).tolist()
    [1.0, 3.0]
    """

    name = "poisson"
    is_discrete = True

    def cumulant(self, eta: Floats, *, order: int = 2) -> Evaluation:
        # A trial step may overflow to inf, which the solver silences and refuses.
        mu = np.exp(eta)
        return Evaluation(mu, mu if order >= 1 else NOT_ASKED, mu if order >= 2 else NOT_ASKED)

    def expected_cumulant(self, mean: Floats, variance: Floats) -> Evaluation:
        """Exact: ``exp(mean + variance / 2)``."""
        rate = 0.5 * variance
        rate += mean
        np.exp(rate, out=rate)
        return Evaluation(rate, rate, rate)

    def log_base_measure(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        # Most counts of many tables are 0 or 1, whose term is 0, and logarithms of factorials take as long as a sweep.
        x = np.asarray(x)
        base, is_many = np.zeros_like(x), x > 1.0
        base[is_many] = -gammaln(x[is_many] + 1.0)
        return base

    def saturated(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        x = np.asarray(x)
        value, is_many = 0.0 - x, x > 1.0
        many = x[is_many]
        value[is_many] = xlogy(many, many) - many
        return value

    def variance(self, mu: Floats, dispersion: PerColumn = 1.0) -> Floats:
        return mu

    def sample(self, eta: Floats, dispersion: PerColumn, rng: np.random.Generator) -> Floats:
        return rng.poisson(np.exp(eta)).astype(float)

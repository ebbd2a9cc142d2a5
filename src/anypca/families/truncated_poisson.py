"""Poisson counts without zeros, with log link."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from anypca._typing import Bools, Floats, PerColumn
from anypca.families._base import NOT_ASKED, Evaluation, Family, families
from anypca.families._canonical import CanonicalFamily
from anypca.special import inverted

#: Rate below which series replace quotients: their next terms are below 1e-15 of the first, while the quotients have
#: lost four digits.
_SMALL_RATE = 1e-4
#: Rate beyond which the counts that are cut off do not matter to rounding.
_LARGE_RATE = 100.0
#: Predictor below which log(exp(rate) - 1) is the predictor to rounding.
_FAR_BELOW = -37.0


@dataclass(frozen=True)
class Truncated(Family):
    """Counts from 1 on."""

    link_kind = "log"
    is_discrete = True
    expectation = "approximate"
    support = "values >= 1"

    def in_support(self, x: Floats) -> Bools:
        return np.isfinite(x) & (x >= 1)

    def saturated(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        # Means are above 1, the limit at a rate of zero, where the value is 0.
        above = np.maximum(x, 1.0 + np.finfo(x.dtype).eps)
        value = self.evaluate(above, self.link(above, dispersion), dispersion, order=0).value
        return np.where(x > 1, value, 0.0).astype(x.dtype)

    def smoothed_mean(self, total: Floats, count: Floats) -> Floats:
        return np.asarray(np.maximum(total, count + 0.5) / count)


@families.register
@dataclass(frozen=True)
class TruncatedPoisson(Truncated, CanonicalFamily):
    r"""Counts from 1 on: Poisson counts with rate ``exp(eta)`` given that they are not zero.

    ``log p(x) = x eta - log(exp(rate) - 1) - log x!``. The domain is x in {1, 2, ...}. The mean is
    ``rate / (1 - exp(-rate))``, above 1. There is no dispersion. ``evaluate`` drops ``-log x!``. It is the second part
    of a hurdle model, whose first part separates zeros from positive counts.

    Not chosen by ``family="auto"``: name it for counts that are never recorded as zero, such as sizes of groups.

    See Also
    --------
    HurdlePoisson : where zeros have a part of their own.

    Examples
    --------
    >>> import numpy as np
    >>> TruncatedPoisson().mean(np.array([0.0])).round(4).tolist()
    [1.582]
    """

    name = "truncated_poisson"
    remedy = "Use family='poisson' for counts with zeros, or treat zeros as missing (NaN)."

    def cumulant(self, eta: Floats, *, order: int = 2) -> Evaluation:
        # A trial step may overflow to inf, which the solver refuses.
        with np.errstate(over="ignore", invalid="ignore"):
            rate = np.exp(eta)
            positive = np.maximum(rate, np.finfo(eta.dtype).tiny)
            value = np.where(eta < _FAR_BELOW, eta, rate + np.log(-np.expm1(-positive)))
            mean = 1.0 + _excess(positive) if order >= 1 else NOT_ASKED
            curvature = _variance(rate, mean) if order >= 2 else NOT_ASKED
        return Evaluation(value, mean, curvature)

    def log_base_measure(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        return np.asarray(-gammaln(x + 1.0))

    def mean(self, eta: Floats, dispersion: PerColumn | None = None) -> Floats:
        return self.cumulant(eta, order=1).gradient

    def link(self, mu: Floats, dispersion: PerColumn | None = None) -> Floats:
        excess = mu - 1.0

        def log_excess(eta: Floats) -> tuple[Floats, Floats]:
            found = _excess(np.exp(eta))
            variance = self.cumulant(eta).curvature
            return np.log(found), variance / found

        return inverted(np.log(excess), self.start_of_link(excess), log_excess)

    @staticmethod
    def start_of_link(excess: Floats) -> Floats:
        """About the predictor of a mean that exceeds 1 by ``excess``: half of a small rate, all of a large one."""
        return np.asarray(np.log(excess) + np.log1p(1.0 / (1.0 + excess)))

    def variance(self, mu: Floats, dispersion: PerColumn = 1.0) -> Floats:
        eta = self.link(np.maximum(mu, 1.0 + np.finfo(mu.dtype).eps))
        return self.cumulant(eta).curvature

    def sample(self, eta: Floats, dispersion: PerColumn, rng: np.random.Generator) -> Floats:
        rate = np.exp(eta)
        # Draw the first event, within the unit of time; the remaining time has Poisson events.
        first = -np.log1p(rng.random(eta.shape) * np.expm1(-rate))
        return np.asarray(1.0 + rng.poisson(np.maximum(rate - first, 0.0)))


def _excess(rate: Floats) -> Floats:
    """``rate / (1 - exp(-rate)) - 1`` without cancellation."""
    with np.errstate(over="ignore", invalid="ignore"):
        direct = (rate + np.expm1(-rate)) / -np.expm1(-rate)
        return np.where(rate < _SMALL_RATE, rate * (0.5 + rate / 12.0), direct)


def _variance(rate: Floats, mean: Floats) -> Floats:
    """``mean (1 + rate - mean)``, where ``rate - mean = -rate / (exp(rate) - 1)``."""
    gap = rate / np.expm1(rate)
    return np.where(
        rate < _SMALL_RATE, rate * (0.5 + rate / 6.0), mean * np.where(rate < _LARGE_RATE, 1.0 - gap, 1.0)
    )

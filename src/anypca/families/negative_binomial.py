"""Over-dispersed counts with log link."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, gammaln, xlogy

from anypca._typing import Floats, PerColumn
from anypca.families._base import NOT_ASKED, Evaluation, families, like, over_dispersion
from anypca.families._dispersed import Dispersed
from anypca.families._log_link import Counts
from anypca.special import log1pexp, log_rising

#: Smallest over-dispersion to start an estimate from, which adds 5 % to the standard deviation of a Poisson count of
#: 1000: zero would be the border of the parameter space.
_SMALL = 1e-4


@families.register
@dataclass(frozen=True)
class NegativeBinomial(Dispersed, Counts):
    r"""Counts with mean ``mu = exp(eta)`` and variance ``mu + a mu^2``.

    ``log p(x) = x eta - (x + 1/a) log(1 + a mu) + x log a + log G(x + 1/a) - log G(1/a) - log x!``
    with G the gamma function. The domain is x in {0, 1, 2, ...}. The link is the logarithm, so that eta is any real
    number. The dispersion a = 1/size >= 0 is the over-dispersion; a = 0 is the Poisson family. ``evaluate`` drops
    all terms after the second, which do not depend on eta.

    Chosen by ``family="auto"`` for whole numbers >= 0 in steps of one that are not rounded to tens or fives. The fit
    estimates the over-dispersion, which may be zero.

    Parameters
    ----------
    size : float, optional
        The size 1/a > 0; estimated when left out.

    See Also
    --------
    Poisson : counts that vary no more than their mean.

    Notes
    -----
    An a below the square root of the smallest normal number is read as that root (1.5e-154 in float64), which
    is the Poisson family to working precision for every mean below 1e138 (float32: 1e12).

    Examples
    --------
    >>> NegativeBinomial(size=4.0).fixed_dispersion
    0.25
    """

    name = "negative_binomial"
    dispersion_kind = "shape"
    given_by = "size"
    is_reciprocal = True
    is_discrete = True
    expectation = "approximate"

    size: float | None = None

    def evaluate(self, x: Floats, eta: Floats, dispersion: PerColumn = 1.0, *, order: int = 2) -> Evaluation:
        a = over_dispersion(dispersion, eta)
        with np.errstate(over="ignore"):
            mu = np.exp(eta)
            growth = mu * a
        if not np.max(growth, initial=0.0) < np.inf:  # also where a NaN hides the largest
            return _evaluate_far(x, eta, a, order)
        log_growth = np.log1p(growth)
        value = eta - log_growth
        value *= x
        log_growth *= 1.0 / a
        value -= log_growth
        if order == 0:
            return Evaluation(value)
        growth += 1.0
        gradient = x - mu
        gradient /= growth
        if order == 1:
            return Evaluation(value, gradient)
        mu /= growth
        return Evaluation(value, gradient, mu)

    def expected_log_likelihood(
        self, x: Floats, mean: Floats, variance: Floats, dispersion: PerColumn = 1.0
    ) -> Evaluation:
        """``x (mean - log(1 + a mu)) - log(1 + a rate) / a`` with mu = exp(mean), rate = exp(mean + variance / 2).

        Exact in the Poisson limit. Elsewhere a stand-in whose curvature, ``rate / (1 + a rate)``, is the expected
        information: the usual bounds (gamma mixing, Jaakkola and Jordan) take over-dispersed counts for more
        informative than they are, and a model that believes them keeps components made of noise.
        """
        a = over_dispersion(dispersion, mean)
        mu = np.exp(mean)
        rate = mu * np.exp(0.5 * variance)
        growth, rate_growth = a * mu, a * rate
        value = x * (mean - np.log1p(growth)) - np.log1p(rate_growth) / a
        information = rate / (1.0 + rate_growth)
        return Evaluation(value, x / (1.0 + growth) - information, information)

    def observed_curvature(
        self, x: Floats, eta: Floats, found: Evaluation, dispersion: PerColumn = 1.0
    ) -> Floats:
        # mu (1 + a x) / (1 + a mu)^2 in terms of the score and the expected information.
        return found.curvature * (1.0 + like(dispersion, found.gradient) * found.gradient)

    def log_base_measure(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        return np.asarray(log_rising(x, over_dispersion(dispersion, x)) - gammaln(x + 1.0))

    def saturated(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        a = over_dispersion(dispersion, x)
        return np.asarray(xlogy(x, x) - (x + 1.0 / a) * np.log1p(a * x))

    def variance(self, mu: Floats, dispersion: PerColumn = 1.0) -> Floats:
        with np.errstate(over="ignore"):
            return mu * (1.0 + like(dispersion, mu) * mu)

    def sample(self, eta: Floats, dispersion: PerColumn, rng: np.random.Generator) -> Floats:
        a = over_dispersion(dispersion, np.asarray(eta, float))
        rate = rng.gamma(1.0 / a, a, size=eta.shape) * np.exp(eta)
        return rng.poisson(rate).astype(float)

    def dispersion_from_moments(self, mean: Floats, variance: Floats) -> Floats:
        square = np.maximum(mean * mean, np.finfo(mean.dtype).tiny)
        with np.errstate(over="ignore"):
            excess = (variance - mean) / square
        # A column of zeros has no ratio; Poisson is the simplest family that fits it.
        return np.where(mean > 0, np.maximum(excess, _SMALL), _SMALL).astype(mean.dtype)


def _evaluate_far(x: Floats, eta: Floats, a: Floats, order: int) -> Evaluation:
    """The terms where exp(eta) overflows: there ``log(1 + a mu)`` is still linear in eta."""
    shifted = eta + np.log(a)
    log_growth = log1pexp(shifted)
    value = x * (eta - log_growth) - log_growth / a
    information = expit(shifted) / a
    gradient = x * expit(-shifted) - information if order >= 1 else NOT_ASKED
    return Evaluation(value, gradient, information if order >= 2 else NOT_ASKED)

"""Over-dispersed counts without zeros, with log link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import expit, gammaln

from anypca._typing import Floats, PerColumn
from anypca.families._base import (
    NOT_ASKED,
    Evaluation,
    families,
    over_dispersion,
)
from anypca.families._dispersed import Dispersed
from anypca.families.truncated_poisson import Truncated, TruncatedPoisson
from anypca.special import inverted, log_rising

#: Below this ``(1 + a) mu`` series replace differences: the terms left out are below 1e-8 of the first, while the
#: differences have lost four digits.
_SMALL = 1e-4
#: Logarithm of ``(1 + a) mu`` below which a count is 1 to rounding.
_FAR_BELOW = -37.0
#: Least share of the information to step by: steps ten times as long as by all of it are the longest.
_LEAST_BEND = 0.1
#: Over-dispersions between which moments look for one, and the halvings that find it to three digits.
_LEAST, _MOST, _HALVINGS = 1e-4, 1e4, 14


class _Terms(NamedTuple):
    """Common terms of all methods at a predictor."""

    log_growth: Floats
    """``log(1 + a mu)``."""
    log_odds: Floats
    """Of a count that is not zero against zero, ``(1 + a mu)^(1/a) - 1``, in logarithms."""
    rest: Floats
    """``1 / (1 + a mu)``."""
    rate: Floats
    """``mean / (1 + a mu)``, which is 1 far below and 1/a far above."""
    information: Floats
    excess: Floats
    """The mean less 1."""


@families.register
@dataclass(frozen=True)
class TruncatedNegativeBinomial(Dispersed, Truncated):
    r"""Counts from 1 on: negative binomial counts of mean ``mu = exp(eta)`` given that they are not zero.

    ``log p(x) = x eta - x log(1 + a mu) - log((1 + a mu)^(1/a) - 1) + x log a + log G(x + 1/a) - log G(1/a) - log x!``
    with G the gamma function. The domain is x in {1, 2, ...}. The mean is ``mu / (1 - (1 + a mu)^(-1/a))``, above 1.
    The dispersion a = 1/size >= 0 is the over-dispersion; a = 0 is the truncated Poisson family, which `mean` and
    `link` assume if a is not given. ``evaluate`` drops all terms after the third, which do not depend on eta. It is
    the second part of a hurdle model, whose first part separates zeros from positive counts.

    Not chosen by ``family="auto"``: name it for counts that are never recorded as zero, such as sizes of groups.

    Parameters
    ----------
    size : float, optional
        The size 1/a > 0; estimated when left out.

    See Also
    --------
    HurdleNegativeBinomial : where zeros have a part of their own.

    Notes
    -----
    The log-likelihood is not concave in eta for a of 3 and more, though it has a single maximum; steps go by the
    expected information.

    Examples
    --------
    >>> import numpy as np
    >>> TruncatedNegativeBinomial(size=2.0).mean(np.array([0.0]), 0.5).round(4).tolist()
    [1.8]
    """

    name = "truncated_negative_binomial"
    dispersion_kind = "shape"
    given_by = "size"
    is_reciprocal = True
    is_concave = False
    remedy = "Use family='negative_binomial' for counts with zeros, or treat zeros as missing (NaN)."

    size: float | None = None

    def evaluate(self, x: Floats, eta: Floats, dispersion: PerColumn = 1.0, *, order: int = 2) -> Evaluation:
        terms = _terms(eta, over_dispersion(dispersion, eta))
        value = x * (eta - terms.log_growth) - terms.log_odds
        gradient = x * terms.rest - terms.rate if order >= 1 else NOT_ASKED
        return Evaluation(value, gradient, terms.information if order >= 2 else NOT_ASKED)

    def observed_curvature(
        self, x: Floats, eta: Floats, found: Evaluation, dispersion: PerColumn = 1.0
    ) -> Floats:
        a = over_dispersion(dispersion, eta)
        # The gradient is (x - mean) / (1 + a mu): the information, and how its divisor changes.
        return np.asarray(found.curvature + expit(eta + np.log(a)) * found.gradient)

    def newton_curvature(
        self, x: Floats, eta: Floats, found: Evaluation, dispersion: PerColumn = 1.0
    ) -> Floats:
        # Counts far below their means bend upwards, or nearly so; steps there go by a share of the information.
        observed = self.observed_curvature(x, eta, found, dispersion)
        return np.asarray(np.maximum(observed, _LEAST_BEND * found.curvature))

    def log_base_measure(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        return np.asarray(log_rising(x, over_dispersion(dispersion, x)) - gammaln(x + 1.0))

    def mean(self, eta: Floats, dispersion: PerColumn | None = None) -> Floats:
        if dispersion is None:
            return TruncatedPoisson().mean(eta)
        return 1.0 + _terms(eta, over_dispersion(dispersion, eta)).excess

    def link(self, mu: Floats, dispersion: PerColumn | None = None) -> Floats:
        if dispersion is None:
            return TruncatedPoisson().link(mu)
        a, excess = over_dispersion(dispersion, mu), mu - 1.0

        def log_excess(eta: Floats) -> tuple[Floats, Floats]:
            terms = _terms(eta, a)
            return np.log(terms.excess), terms.information / terms.rest / terms.excess

        # Half of (1 + a) mu where that is small, all of mu where it is large.
        start = TruncatedPoisson.start_of_link(excess) - np.log1p(a / (1.0 + excess))
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            found = inverted(np.log(excess), start.astype(mu.dtype), log_excess)
        # If the excess overflows, zeros have probability zero and the start is exact.
        return np.where(np.isfinite(found), found, start).astype(mu.dtype)

    def variance(self, mu: Floats, dispersion: PerColumn = 1.0) -> Floats:
        a = over_dispersion(dispersion, mu)
        is_finite = np.isfinite(mu)  # a mean may overflow where the likelihood has no maximum
        inside = np.where(is_finite, np.maximum(mu, 1.0 + np.finfo(mu.dtype).eps), 2.0)
        terms = _terms(self.link(inside.astype(mu.dtype), dispersion), a)
        with np.errstate(over="ignore", divide="ignore"):
            return np.where(is_finite, terms.information / terms.rest / terms.rest, mu)

    def sample(self, eta: Floats, dispersion: PerColumn, rng: np.random.Generator) -> Floats:
        a = np.broadcast_to(over_dispersion(dispersion, np.asarray(eta, float)), eta.shape)
        rate = _draw_rates(np.exp(eta), a, rng)
        # As in TruncatedPoisson: the first event, then Poisson events in the remaining time.
        first = -np.log1p(rng.random(eta.shape) * np.expm1(-rate))
        return 1.0 + rng.poisson(np.maximum(rate - first, 0.0))

    def dispersion_from_moments(self, mean: Floats, variance: Floats) -> Floats:
        # E x^2 / E x - 1 is (1 + a) mu, and the mean then falls with a.
        above = np.maximum(variance / mean + mean - 1.0, np.finfo(mean.dtype).tiny)
        low, high = np.full_like(mean, np.log(_LEAST)), np.full_like(mean, np.log(_MOST))
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            a = np.exp(middle)
            is_above = 1.0 + _terms(np.log(above / (1.0 + a)), a).excess > mean
            low, high = np.where(is_above, middle, low), np.where(is_above, high, middle)
        return np.exp(0.5 * (low + high))


def _terms(eta: Floats, a: Floats) -> _Terms:
    """All terms, finite wherever exp is, and without cancellation where hardly any count is above 1."""
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        mu = np.exp(eta)
        growth, shift = a * mu, eta + np.log(a)
        is_far = ~(growth < np.inf)  # there log(1 + a mu) is linear in eta
        log_growth = np.where(is_far, shift, np.log1p(growth))
        power = log_growth / a  # log of (1 + a mu)^(1/a)
        share = -np.expm1(-power)  # of counts that are not zero
        small = (1.0 + a) * mu
        is_low, is_small = eta + np.log1p(a) < _FAR_BELOW, small < _SMALL
        log_odds = np.where(is_low, eta, power + np.log(np.where(is_low, 1.0, share)))
        rest = np.where(is_far, np.exp(-shift), 1.0 / (1.0 + growth))
        rate = np.where(is_low, 1.0, np.where(is_far, 1.0 / a, mu * rest) / share)
        excess = np.where(is_small, 0.5 * small * (1.0 + (1.0 - a) * mu / 6.0), mu / share - 1.0)
        near = 0.5 * small * (1.0 + (1.0 - 4.0 * a) * mu / 3.0)
        information = np.where(is_small, near, rate * (1.0 - rate * np.exp(-power)))
    return _Terms(log_growth, log_odds, rest, rate, np.maximum(information, 0.0), excess)


def _draw_rates(mu: Floats, a: Floats, rng: np.random.Generator) -> Floats:
    """Gamma rates of mean mu, given that a Poisson count of that rate is not zero."""
    rate = np.empty(mu.shape)
    todo = np.ones(mu.shape, dtype=bool)
    is_low = mu < 1.0
    while todo.any():
        # Of small rates the probability of a count is about the rate: it goes into the gamma distribution.
        drawn = rng.gamma(1.0 / a[todo] + is_low[todo]) * a[todo] * mu[todo]
        safe = np.maximum(drawn, np.finfo(float).tiny)
        chance = -np.expm1(-safe) / np.where(is_low[todo], safe, 1.0)
        taken = rng.random(drawn.shape) < chance
        places = np.flatnonzero(todo)[taken]
        rate.flat[places] = drawn[taken]
        todo.flat[places] = False
    return rate

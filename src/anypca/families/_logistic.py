"""Base classes of the Bernoulli and the binomial family: the logit link."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy.special import expit, gammaln, xlogy

from anypca._typing import Bools, Floats, PerColumn
from anypca.families._base import NOT_ASKED, Evaluation, Family
from anypca.families._canonical import CanonicalFamily
from anypca.special import log1pexp, mills_ratio


def logistic_cumulant(eta: Floats, n_trials: float, order: int) -> Evaluation:
    """``A = n log(1 + exp(eta))`` and its derivatives.

    Parameters
    ----------
    eta : ndarray
    n_trials : float
    order : {0, 1, 2}
    """
    # The comparison is negated, so that a NaN among the values does not hide that others overflow.
    if not np.max(eta, initial=-np.inf) <= np.log(np.finfo(eta.dtype).max):
        return _cumulant_far(eta, n_trials, order)
    # One exponential serves everything: with e = exp(eta), the complement 1 / (1 + e) keeps its relative
    # accuracy at both ends, and log(1 + e) is minus its logarithm to within rounding of eta.
    odds = np.exp(eta)
    complement = odds + 1.0
    np.reciprocal(complement, out=complement)
    value = np.log(complement)
    value *= -n_trials
    if order == 0:
        return Evaluation(value)
    odds *= complement
    if n_trials != 1:
        odds *= n_trials
    if order == 1:
        return Evaluation(value, odds)
    complement *= odds
    return Evaluation(value, odds, complement)


def _cumulant_far(eta: Floats, n_trials: float, order: int) -> Evaluation:
    """The same where exp(eta) overflows: slower, but finite at every finite eta."""
    mean = n_trials * expit(eta) if order >= 1 else NOT_ASKED
    curvature = mean * expit(-eta) if order >= 2 else NOT_ASKED
    return Evaluation(n_trials * log1pexp(eta), mean, curvature)


#: The logistic function is the sum of weights times normal distribution functions of scale times eta, to within 5e-5;
#: its integral, log(1 + exp(eta)), to within 1.4e-4. (The idea is Monahan and Stefanski's; scales and weights minimise
#: the largest error.)
_SCALES = (0.3639192276594323, 0.5773506127856185, 0.9071385890779822)
_WEIGHTS = (0.16213081581076, 0.5845457771465572, 0.25332340704268275)
#: Variances of the normals, and weights times the density of the standard normal distribution at 0.
_SPREADS = np.array(_SCALES) ** -2.0
_DENSITIES = np.array(_WEIGHTS) / math.sqrt(2.0 * math.pi)
# Bytes of a run of entries whose terms are computed together. Threads wait for each other between the steps of a run:
# with an eighth of it two of them take half as long again. Twice as much is too much for the cache.
_RUN_BYTES = 2**19
# One in so many entries of a run is seldom: by their places they take less time than all of them.
_SELDOM = 16
#: Root mean square of eta below which a series replaces a quotient.
_SMALL_TILT = 1e-3


def expected_softplus(mean: Floats, variance: Floats, *, is_tight: bool) -> Evaluation:
    """``log(1 + exp(eta))`` under a normal distribution of eta: close to the expectation, or a bound from above.

    The value comes with its derivative in the mean and twice that in the variance.
    """
    return _near_softplus(mean, variance) if is_tight else _softplus_bound(mean, variance)


def _softplus_bound(mean: Floats, variance: Floats) -> Evaluation:
    """The quadratic bound of Jaakkola and Jordan at its best point, the root mean square of eta.

    ``log(1 + exp(eta)) = eta / 2 + log(2 cosh(eta / 2))``, and the second term is concave in the square of eta.
    """
    tilt = mean * mean
    tilt += variance
    np.sqrt(tilt, out=tilt)
    decay = np.exp(-tilt)
    # tanh(t / 2) / (2 t) = (1 - e^-t) / (1 + e^-t) / (2 t), which tends to 1 / 4 - t^2 / 48. The next term of the
    # series, t^4 / 480, is below 1e-14 where the series is used, and the quotient has lost three digits there.
    small = tilt < _SMALL_TILT
    curvature = 1.0 - decay
    decay += 1.0
    curvature /= decay
    if small.any():
        curvature /= 2.0 * np.where(small, 1.0, tilt)
        curvature[small] = 0.25 - tilt[small] ** 2 / 48.0
    else:
        curvature /= tilt
        curvature *= 0.5
    tilt += mean
    tilt *= 0.5
    tilt += np.log(decay)
    gradient = curvature * mean
    gradient += 0.5
    return Evaluation(tilt, gradient, curvature)


def _near_softplus(mean: Floats, variance: Floats) -> Evaluation:
    """The expectation, with a sum of normal distribution functions in place of the logistic function.

    Under a normal distribution of eta each of them stays one: its scale s becomes ``1 / sqrt(1 / s^2 + variance)``.
    All have their centre at zero, so that what lies beyond the mean, on the side where that is, is summed first.
    """
    found = Evaluation(*(np.empty(mean.shape, mean.dtype) for _ in range(3)))
    flat = [np.reshape(array, -1) for array in (mean, np.broadcast_to(variance, mean.shape), *found)]
    run = max(_RUN_BYTES // mean.itemsize, 1)
    for start in range(0, mean.size, run):
        _add_normals(*(array[start : start + run] for array in flat))
    return found


def _add_normals(mean: Floats, variance: Floats, value: Floats, gradient: Floats, curvature: Floats) -> None:
    """The same of a run of entries, into the last three; all normals at once, (3, run)."""
    spreads, weights = (array.astype(mean.dtype) for array in (_SPREADS, _DENSITIES))
    size = np.abs(mean)
    exponent = size * size
    exponent *= -0.5
    width = variance + spreads[:, None]
    density = exponent / width
    np.exp(density, out=density)
    np.sqrt(width, out=width)
    tail = mills_ratio(size, width)
    tail *= density
    np.dot(weights, tail, out=gradient)
    np.dot(weights, np.multiply(density, width, out=tail), out=value)
    density /= width
    np.dot(weights, density, out=curvature)
    value -= np.multiply(gradient, size, out=exponent)
    # Where eta is above zero, eta and 1 are left after what lies beyond; in rare answers it seldom is.
    above = mean > 0
    if _SELDOM * np.count_nonzero(above) < above.size:
        few = np.flatnonzero(above)
        value[few] += mean[few]
        gradient[few] = 1.0 - gradient[few]
    else:
        value += np.multiply(mean, above, out=size)
        np.subtract(above, gradient, out=gradient)
        np.abs(gradient, out=gradient)


@dataclass(frozen=True)
class Trials(Family):
    """Successes out of ``trials`` with ``logit(mean / trials) = eta``."""

    is_discrete = True
    link_kind = "logit"

    @property
    def trials(self) -> int:
        """Number of trials behind every entry."""
        raise NotImplementedError

    def mean(self, eta: Floats, dispersion: PerColumn | None = None) -> Floats:
        return np.asarray(self.trials * expit(eta))

    def link(self, mu: Floats, dispersion: PerColumn | None = None) -> Floats:
        return np.log(mu / (self.trials - mu))

    def smoothed_mean(self, total: Floats, count: Floats) -> Floats:
        # Half a success and half a failure added: the empirical logit, finite for columns of one value.
        n = self.trials
        return n * (total + 0.5) / (n * count + 1.0)


@dataclass(frozen=True)
class KnownTrials(Trials):
    """Successes out of a number of trials that is given."""

    # The default None makes a missing number visible in the error message.
    n_trials: int | None = None

    def __post_init__(self) -> None:
        n, remedy = self.n_trials, f"Write {type(self).__name__}(n_trials=16) or '{self.name}(16)'."
        if n is None:
            raise ValueError(f"family {self.name!r} needs the number of trials. {remedy}")
        is_number = isinstance(n, int | float | np.integer | np.floating) and not isinstance(n, bool)
        if not is_number or n < 1 or n != n // 1:
            raise ValueError(f"family {self.name!r} needs a positive integer n_trials; got {n!r}. {remedy}")
        object.__setattr__(self, "n_trials", int(n))

    @property
    def support(self) -> str:  # type: ignore[override]
        """The support in words."""
        return f"values from 0 to {self.n_trials}"

    @property
    def trials(self) -> int:
        assert self.n_trials is not None
        return self.n_trials

    def in_support(self, x: Floats) -> Bools:
        return np.isfinite(x) & (x >= 0) & (x <= self.trials)


@dataclass(frozen=True)
class Logistic(Trials, CanonicalFamily):
    """Successes out of ``trials`` of the same chance."""

    expectation = "bound"

    is_tight: bool = field(default=False, repr=False, kw_only=True)
    """`expected_log_likelihood` is close to the expectation; otherwise a bound, which takes half of the time."""

    def cumulant(self, eta: Floats, *, order: int = 2) -> Evaluation:
        return logistic_cumulant(eta, self.trials, order)

    def expected_cumulant(self, mean: Floats, variance: Floats) -> Evaluation:
        found = expected_softplus(mean, variance, is_tight=self.is_tight)
        if self.trials == 1:
            return found
        return Evaluation(*(self.trials * part for part in found if part is not None))

    def log_base_measure(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        n = self.trials
        return np.asarray(gammaln(np.asarray(n + 1.0, x.dtype)) - gammaln(x + 1.0) - gammaln(n - x + 1.0))

    def saturated(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        n = self.trials
        return np.asarray(xlogy(x, x / n) + xlogy(n - x, (n - x) / n))

    def variance(self, mu: Floats, dispersion: PerColumn = 1.0) -> Floats:
        return mu * (self.trials - mu) / self.trials

    def sample(self, eta: Floats, dispersion: PerColumn, rng: np.random.Generator) -> Floats:
        return np.asarray(rng.binomial(self.trials, expit(eta)).astype(float))

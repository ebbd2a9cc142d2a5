"""How probable the margin of a column is under each family, on the common scale of log-masses.

Only families whose marginal spread is free are compared: latent factors add variance, which a Poisson margin could not
take up. Whether counts are over-dispersed is told after the fit, by the estimated dispersion.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import betaln, digamma, gammaln, polygamma, xlogy

from anypca._typing import Floats
from anypca.columns._guards import Column
from anypca.families.gamma import Gamma
from anypca.families.gaussian import Gaussian
from anypca.families.log_normal import LogNormal
from anypca.families.logit_normal import LogitNormal
from anypca.families.student_t import StudentT

#: Smallest noise in steps: a rounded column cannot be known better.
_LEAST_NOISE = 0.3
#: In steps, the standard deviation above which rounding changes nothing.
_WIDE = 2.0
#: Profiled over-dispersions, from hardly any to columns that are almost always zero; interpolated by a parabola.
_OVER_DISPERSION = np.logspace(-4, 1.75, 24)
#: Profiled sums of the two shapes of a beta distribution.
_SHAPES = np.logspace(-1.3, 3.9, 20)
#: Degrees of freedom of heavy tails; fits find those of each column.
_DF = 4.0
_STEPS_OF_EM, _STEPS_OF_MEAN, _STEPS_OF_NEWTON = 25, 60, 5


def normal(values: Floats, weights: Floats, step: float) -> float:
    """Log-mass of rounded normal numbers."""
    mean, variance = _moments(values, weights)
    if variance < (_WIDE * step) ** 2:
        # Sheppard's correction takes off what rounding adds.
        variance = max(variance - step**2 / 12.0, (_LEAST_NOISE * step) ** 2)
    return _total(Gaussian().log_mass(values, np.full_like(values, mean), variance, step), weights)


def student(values: Floats, weights: Floats, step: float) -> float:
    """Log-mass of numbers with heavy tails, by EM."""
    family, df, n = StudentT(df=_DF), _DF, weights.sum()
    mean = float(np.average(values, weights=weights))
    scale = max(float(weights @ (values - mean) ** 2) / n / 4.0, (_LEAST_NOISE * step) ** 2)
    for _ in range(_STEPS_OF_EM):
        weight = weights * (df + 1.0) / (df + (values - mean) ** 2 / scale)
        mean = float(weight @ values / weight.sum())
        scale = max(float(weight @ (values - mean) ** 2) / n, (_LEAST_NOISE * step) ** 2)
    return _total(family.log_mass(values, np.full_like(values, mean), scale, step), weights)


def log_normal(values: Floats, weights: Floats, step: float) -> float:
    """Log-mass of amounts with normal logarithms; rounded zeros are read as a quarter of a step."""
    positive = np.maximum(values, 0.25 * step)
    mean, variance = _moments(np.log(positive), weights)
    eta = np.full_like(values, mean)
    return _total(LogNormal().log_mass(positive, eta, max(variance, 1e-12), step), weights)


def gamma(values: Floats, weights: Floats, step: float) -> float:
    """Log-mass of gamma amounts, the shape by Newton's method."""
    positive = np.maximum(values, 0.25 * step)
    mean = float(np.average(positive, weights=weights))
    gap = max(float(np.log(mean) - np.average(np.log(positive), weights=weights)), 1e-12)
    shape = (3.0 - gap + np.sqrt((gap - 3.0) ** 2 + 24.0 * gap)) / (12.0 * gap)
    for _ in range(_STEPS_OF_NEWTON):
        shape = max(
            shape - (np.log(shape) - digamma(shape) - gap) / (1.0 / shape - polygamma(1, shape)), 1e-3
        )
    eta = np.full_like(values, np.log(mean))
    return _total(Gamma().log_mass(positive, eta, 1.0 / min(shape, 1e8), step), weights)


def logit_normal(values: Floats, weights: Floats, step: float, upper: float) -> float:
    """Log-mass of shares of a whole."""
    family = LogitNormal(upper=upper, step=min(step, 0.002 * upper))
    logits = family._transformed(values)
    mean, variance = _moments(logits, weights)
    return _total(family.log_mass(values, np.full_like(values, mean), max(variance, 1e-12), step), weights)


def levels(weights: Floats) -> float:
    """Log-mass of any distribution over a few values."""
    return float(xlogy(weights, weights / weights.sum()).sum())


def two_part(column: Column, mass: Callable[[Floats, Floats, float], float]) -> float:
    """Log-mass of zeros and of amounts whose own log-mass is ``mass``."""
    positive = column.values > 0
    return _zeros(column) + mass(column.values[positive], column.weights[positive], column.step)


def poisson(values: Floats, weights: Floats) -> float:
    """Log-mass of counts whose variance is their mean."""
    mean = float(np.average(values, weights=weights))
    return float(weights @ (xlogy(values, mean) - mean - gammaln(values + 1.0)))


def negative_binomial(values: Floats, weights: Floats) -> float:
    """Log-mass of over-dispersed counts, profiled."""
    mean = float(np.average(values, weights=weights))
    terms = _counts(values[:, None], mean, _OVER_DISPERSION)
    return _peak(weights @ terms)


def hurdle(column: Column) -> float:
    """Log-mass of zeros and over-dispersed positive counts, profiled: at each dispersion the mean is matched."""
    positive = column.values > 0
    values, weights = column.values[positive], column.weights[positive]
    wanted = float(np.average(values, weights=weights))
    size = 1.0 / _OVER_DISPERSION
    mean = np.full_like(size, wanted)
    for _ in range(_STEPS_OF_MEAN):
        mean = wanted * -np.expm1(-size * np.log1p(mean / size))
    mean = np.maximum(mean, 1e-8)
    terms = _counts(values[:, None], mean, _OVER_DISPERSION)
    seen = np.log(-np.expm1(-size * np.log1p(mean / size)))
    return _zeros(column) + _peak(weights @ (terms - seen))


def beta_binomial(values: Floats, weights: Floats, upper: float) -> float:
    """Log-mass of scores out of a largest one, profiled."""
    share = float(np.clip(np.average(values, weights=weights) / upper, 1e-3, 1 - 1e-3))
    a, b = share * _SHAPES, (1.0 - share) * _SHAPES
    x = values[:, None]
    choose = gammaln(upper + 1.0) - gammaln(x + 1.0) - gammaln(upper - x + 1.0)
    return _peak(weights @ (betaln(x + a, upper - x + b) - betaln(a, b) + choose))


def _zeros(column: Column) -> float:
    """Log-mass of which entries are zero."""
    zeros = column.total * column.share(column.values == 0)
    return levels(np.array([zeros, column.total - zeros]))


def _counts(x: Floats, mean: Floats | float, dispersion: Floats) -> Floats:
    """Log-probabilities of negative binomial counts."""
    size = 1.0 / dispersion
    ratio = mean / size
    base = gammaln(x + size) - gammaln(size) - gammaln(x + 1.0)
    return np.asarray(base + x * (np.log(ratio) - np.log1p(ratio)) - size * np.log1p(ratio))


def _peak(profile: Floats) -> float:
    """The largest value of a profile on an even grid, by a parabola where it lies between two others."""
    top = int(np.argmax(profile))
    if not 0 < top < len(profile) - 1:
        return float(profile[top])
    below, middle, above = profile[top - 1 : top + 2]
    return float(middle + (above - below) ** 2 / (8.0 * max(2.0 * middle - below - above, 1e-300)))


def _moments(values: Floats, weights: Floats) -> tuple[float, float]:
    mean = float(np.average(values, weights=weights))
    return mean, float(np.average((values - mean) ** 2, weights=weights))


def _total(terms: Floats, weights: Floats) -> float:
    """Summed log-masses; an impossible entry costs as much as the smallest number that can be held."""
    return float(weights @ np.maximum(terms, -700.0))

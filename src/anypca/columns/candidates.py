"""Families that a column may have, compared by penalised log-probabilities of its values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import betaln, digamma, gammaln, polygamma, xlogy

from anypca._typing import Floats
from anypca.columns.values import MOST_LEVELS, Column
from anypca.families import Gamma, Gaussian, LogitNormal, LogNormal, StudentT

#: Kinds of columns, as a user would call them.
COUNTS, RATINGS, AMOUNTS, REALS = "counts", "ratings", "amounts", "real numbers"
SHARES, YES_NO, CATEGORIES, EXCLUDED = "shares", "yes/no", "categories", "excluded"
#: Counts with zeros of their own, and counts with a largest one.
EXTRA_ZEROS, BOUNDED = "zero_inflated_negative_binomial", "beta_binomial"
#: Zeros and amounts, with the family of the amounts.
TWO_PARTS = {"zero_inflated_log_normal": "log_normal", "zero_inflated_gamma": "gamma"}
#: Families of each kind of column.
VARIANTS = {
    REALS: ("gaussian", "student_t"),
    AMOUNTS: ("log_normal", "gamma", *TWO_PARTS),
    COUNTS: ("negative_binomial", EXTRA_ZEROS, BOUNDED),
    RATINGS: ("ordinal",),
    SHARES: ("logit_normal",),
}
#: Largest score out of a bound.
LARGEST_SCORE = 60

#: Entries beyond which more of them say hardly more: every family is wrong in detail, and the details of a long column
#: would outvote zeros and levels.
_COARSENING = 1000.0
#: Log prior odds in nats. Heavy tails, zeros of their own and a bound need to be earned.
_STUDENT, _FEW_ZEROS, _BOUND = -8.0, -10.0, -3.0
#: Few counts have no over-dispersion at all, not even by factors.
_POISSON = -1.7
_HAS_ZEROS, _NEVER_SMALL = 3.0, -3.0
_USUAL_LEVELS, _ODD_LEVELS, _CLEAR_SHARE = 3.0, -2.0, 3.0
#: Standard deviation of the logarithms, about 1 for amounts and 0.2 for positive measurements: median over columns of
#: public tables, and spread of its logarithm.
_AMOUNT_SPREAD, _REAL_SPREAD = (1.0, 0.65), (0.2, 0.8)
#: Most levels that are usual, or that are not whole.
_FEW_LEVELS = 7
#: Median number of entries per level, and the same for values on no lattice, such as logarithms of a few numbers.
_REPEATED, _OFTEN = 2, 10
#: Zeros belong to an amount only if the mean of the positive counts is above the first number. Counts are checked for
#: extra zeros if their mean is below the second.
_SMALL_COUNTS, _LARGE_COUNTS = 50.0, 200.0
#: Share of exact 0s and 1s above which shares are not logit-normal, and the share of the whole that is near 0 and, from
#: the other end, near 1.
_MOST_EDGES, _NEAR = 0.02, 0.25
#: Smallest noise in steps: a rounded column cannot be known better; and, in steps, the standard deviation above which
#: rounding changes nothing.
_LEAST_NOISE, _WIDE = 0.3, 2.0
#: Profiled over-dispersions, from hardly any to columns that are almost always zero; interpolated by a parabola.
_OVER_DISPERSION = np.logspace(-4, 1.75, 24)
#: Profiled sums of the two shapes of a beta distribution.
_SHAPES = np.logspace(-1.3, 3.9, 20)
#: Initial degrees of freedom of heavy tails; fits estimate them for each column.
_DF = 4.0
_STEPS_OF_EM, _STEPS_OF_MEAN, _STEPS_OF_NEWTON = 25, 60, 5

Margin = Callable[[Floats, Floats, float], float]


def score_candidates(column: Column) -> dict[str, float]:
    """Return penalised log-probabilities of the families that a column may have, in nats.

    ``zeta L - (k / 2) log(1 + n zeta) + log prior`` with L the largest log-probability of the values, as intervals of
    the width of the column's resolution, k the number of parameters and ``zeta = 1 / (1 + n / 1000)``. Only families
    with a free marginal spread are compared: latent factors add variance, which a Poisson margin could not absorb.
    Over-dispersion of counts is estimated by the fit.
    """
    scores = _continuous(column)
    if column.values[0] == 0 and column.n_distinct > 4:
        scores |= _zeros_and_amounts(column, scores)
    if _may_count(column):
        scores |= _counts(column)
        positive = column.total - column.n_zeros
        if column.mean * column.total < _SMALL_COUNTS * positive:
            scores = {name: score for name, score in scores.items() if name not in TWO_PARTS}
        is_score = 5 <= column.high <= LARGEST_SCORE and column.low < 0.5 * column.high
        if is_score and column.mean > 0.4 * column.high and column.weights[-1] >= 2:
            scores[BOUNDED] = score_bounded(column, column.high)
    return scores | _levels(column) | _shares(column)


def score_bounded(column: Column, bound: float) -> float:
    """Return the score of the beta-binomial family with a given largest count."""
    prior = _BOUND + (_HAS_ZEROS if column.n_zeros else 0.0)
    return _score(column, _beta_binomial(column.values, column.weights, bound), 3, prior)


def _score(column: Column, log_probability: float, n_parameters: int, prior: float = 0.0) -> float:
    zeta = 1.0 / (1.0 + column.total / _COARSENING)
    return zeta * log_probability - 0.5 * n_parameters * float(np.log1p(column.total * zeta)) + prior


def _continuous(column: Column) -> dict[str, float]:
    """Score real numbers and positive amounts."""
    entries = column.values, column.weights, column.step
    scores = {"gaussian": _score(column, _normal(*entries), 2)}
    if column.n_distinct > MOST_LEVELS:
        scores["student_t"] = _score(column, _student(*entries), 3, _STUDENT)
    if column.low > 0:
        prior = min(_odds_of_amount(column), 0.0)
        scores |= {name: _score(column, margin(*entries), 2, prior) for name, margin in _AMOUNTS.items()}
    return scores


def _odds_of_amount(column: Column) -> float:
    """Return log odds of an amount against a measurement that is positive, by the deviation of the logarithms.

    If it is small both families are nearly the same, and the little skewness that distinguishes them may as well come
    from the factors.
    """
    spread = np.sqrt(max(_moments(np.log(column.values), column.weights)[1], 1e-12))
    amount, real = (
        -0.5 * (np.log(spread / median) / width) ** 2 - np.log(width)
        for median, width in (_AMOUNT_SPREAD, _REAL_SPREAD)
    )
    return float(amount - real)


def _zeros_and_amounts(column: Column, scores: dict[str, float]) -> dict[str, float]:
    """Score amounts with zeros of their own."""
    log_normal = _score(column, _log_normal(column.values, column.weights, column.step), 2)
    # Few zeros and a margin that is more normal than log-normal: the low end of a measurement.
    is_low_end = column.share(column.values == 0) < 0.05 and scores["gaussian"] > log_normal
    positive = column.values > 0
    entries = column.values[positive], column.weights[positive], column.step
    return {
        name: _score(column, _zeros(column) + _AMOUNTS[part](*entries), 3, _FEW_ZEROS if is_low_end else 0.0)
        for name, part in TWO_PARTS.items()
    }


def _may_count(column: Column) -> bool:
    """Return whether values are whole, in steps of one, and not heaped at tens and fives as rounded amounts are."""
    if not (column.is_whole and column.step == 1 and column.low >= 0):
        return False
    large = column.values >= 20
    n_large = float(column.weights[large].sum())
    if n_large < 15:
        return True
    values, weights = column.values[large], column.weights[large]
    tens, fives = (float(weights @ (values % unit == 0)) / n_large for unit in (10, 5))
    return tens <= 0.4 and fives <= 0.6


def _counts(column: Column) -> dict[str, float]:
    """Score counts, with and without extra zeros."""
    values, weights = column.values, column.weights
    zeros, mean = column.n_zeros, column.mean
    prior = (_HAS_ZEROS if zeros else 0.0) + (_NEVER_SMALL if column.weighted_low > 0 and mean > 10 else 0.0)
    # A variance that equals the mean is no accident: such counts need one parameter less.
    plain = _score(column, _negative_binomial(values, weights), 2, prior)
    scores = {"negative_binomial": max(plain, _score(column, _poisson(values, weights), 1, prior + _POISSON))}
    if zeros >= 5 and (column.has_weight & (values > 0)).sum() >= 3 and mean < _LARGE_COUNTS:
        scores[EXTRA_ZEROS] = _score(column, _hurdle(column), 3, prior)
    return scores


def _levels(column: Column) -> dict[str, float]:
    """Score ratings: a few values with any distribution."""
    k, low, weights = column.n_distinct, column.weighted_low, column.weights[column.has_weight]
    n_fractions = np.count_nonzero(column.values[column.has_weight] % 1)
    is_few = k >= 3 and len(column.values) <= MOST_LEVELS and n_fractions <= _FEW_LEVELS
    if not (is_few and column.total >= 3 * k):
        return {}
    # Most levels are repeated: one frequent value, such as 0, makes no levels of the others.
    if np.median(weights) < (_REPEATED if column.is_lattice else _OFTEN):
        return {}
    places = round((column.weighted_high - low) / column.step) + 1 if column.is_lattice else np.inf
    is_rare_count = column.is_whole and low == 0 and places > 1.5 * k + 1
    if is_rare_count and column.share(column.values == 0) >= 0.2:
        return {}
    prior = 0.5 * (k - 1) * float(np.log(k))
    prior += (0.0 if column.is_whole else _ODD_LEVELS) + (_ODD_LEVELS if k > _FEW_LEVELS else 0.0)
    if column.is_whole and places == k <= _FEW_LEVELS and low == 1:
        prior += _USUAL_LEVELS
    return {"ordinal": _score(column, _multinomial(weights), k - 1, prior)}


def _shares(column: Column) -> dict[str, float]:
    """Score shares of a whole."""
    if column.low < 0 or column.high > 1 or column.is_whole or column.n_distinct < 4:
        return {}
    edges = column.share((column.values <= 0) | (column.values >= 1))
    is_wide = column.weighted_low < _NEAR and column.weighted_high > 1.0 - _NEAR
    if edges > _MOST_EDGES or not (is_wide or column.is_part):
        return {}
    margin = _logit_normal(column.values, column.weights, column.step)
    return {"logit_normal": _score(column, margin, 2, _CLEAR_SHARE)}


# ------------------------------------------------------- largest log-probability of a column's values, by family


def _normal(values: Floats, weights: Floats, step: float) -> float:
    """Rounded normal numbers."""
    mean, variance = _moments(values, weights)
    if variance < (_WIDE * step) ** 2:
        # Sheppard's correction removes the variance that rounding adds.
        variance = max(variance - step**2 / 12.0, (_LEAST_NOISE * step) ** 2)
    return _total(
        Gaussian().log_interval_probability(values, np.full_like(values, mean), variance, step), weights
    )


def _student(values: Floats, weights: Floats, step: float) -> float:
    """Numbers with heavy tails, by EM."""
    least = (_LEAST_NOISE * step) ** 2
    mean, variance = _moments(values, weights)
    scale = max(variance / 4.0, least)
    for _ in range(_STEPS_OF_EM):
        weight = weights * (_DF + 1.0) / (_DF + (values - mean) ** 2 / scale)
        mean = float(weight @ values / weight.sum())
        scale = max(float(weight @ (values - mean) ** 2) / weights.sum(), least)
    return _total(
        StudentT(df=_DF).log_interval_probability(values, np.full_like(values, mean), scale, step), weights
    )


def _log_normal(values: Floats, weights: Floats, step: float) -> float:
    """Amounts with normal logarithms; rounded zeros are read as a quarter of a step."""
    positive = np.maximum(values, 0.25 * step)
    mean, variance = _moments(np.log(positive), weights)
    eta = np.full_like(values, mean)
    return _total(LogNormal().log_interval_probability(positive, eta, max(variance, 1e-12), step), weights)


def _gamma(values: Floats, weights: Floats, step: float) -> float:
    """Gamma amounts, the shape by Newton's method."""
    positive = np.maximum(values, 0.25 * step)
    mean = float(np.average(positive, weights=weights))
    gap = max(float(np.log(mean) - np.average(np.log(positive), weights=weights)), 1e-12)
    shape = (3.0 - gap + np.sqrt((gap - 3.0) ** 2 + 24.0 * gap)) / (12.0 * gap)
    for _ in range(_STEPS_OF_NEWTON):
        slope = 1.0 / shape - polygamma(1, shape)
        shape = max(shape - (np.log(shape) - digamma(shape) - gap) / slope, 1e-3)
    eta = np.full_like(values, np.log(mean))
    return _total(Gamma().log_interval_probability(positive, eta, 1.0 / min(shape, 1e8), step), weights)


#: Log-probabilities of positive amounts.
_AMOUNTS: dict[str, Margin] = {"log_normal": _log_normal, "gamma": _gamma}


def _logit_normal(values: Floats, weights: Floats, step: float) -> float:
    """Shares of a whole."""
    family = LogitNormal(step=min(step, 0.002))
    mean, variance = _moments(family._transformed(values), weights)
    eta = np.full_like(values, mean)
    return _total(family.log_interval_probability(values, eta, max(variance, 1e-12), step), weights)


def _multinomial(weights: Floats) -> float:
    """Any distribution over a few values."""
    return float(xlogy(weights, weights / weights.sum()).sum())


def _zeros(column: Column) -> float:
    """Which entries are zero."""
    return _multinomial(np.array([column.n_zeros, column.total - column.n_zeros]))


def _poisson(values: Floats, weights: Floats) -> float:
    """Counts whose variance is their mean."""
    mean = float(np.average(values, weights=weights))
    return float(weights @ (xlogy(values, mean) - mean - gammaln(values + 1.0)))


def _negative_binomial(values: Floats, weights: Floats) -> float:
    """Over-dispersed counts, profiled."""
    mean = float(np.average(values, weights=weights))
    return _peak(weights @ _log_counts(values[:, None], mean))


def _hurdle(column: Column) -> float:
    """Zeros and over-dispersed positive counts, profiled: at each dispersion the mean is matched."""
    positive = column.values > 0
    values, weights = column.values[positive], column.weights[positive]
    wanted = float(np.average(values, weights=weights))
    size = 1.0 / _OVER_DISPERSION
    mean = np.full_like(size, wanted)
    for _ in range(_STEPS_OF_MEAN):
        mean = wanted * -np.expm1(-size * np.log1p(mean / size))
    mean = np.maximum(mean, 1e-8)
    log_positive = np.log(-np.expm1(-size * np.log1p(mean / size)))
    return _zeros(column) + _peak(weights @ (_log_counts(values[:, None], mean) - log_positive))


def _beta_binomial(values: Floats, weights: Floats, upper: float) -> float:
    """Scores out of a largest one, profiled."""
    share = float(np.clip(np.average(values, weights=weights) / upper, 1e-3, 1 - 1e-3))
    a, b = share * _SHAPES, (1.0 - share) * _SHAPES
    x = values[:, None]
    choose = gammaln(upper + 1.0) - gammaln(x + 1.0) - gammaln(upper - x + 1.0)
    return _peak(weights @ (betaln(x + a, upper - x + b) - betaln(a, b) + choose))


def _log_counts(x: Floats, mean: Floats | float) -> Floats:
    """Log-probabilities of negative binomial counts at all profiled dispersions."""
    size = 1.0 / _OVER_DISPERSION
    ratio = mean / size
    base = gammaln(x + size) - gammaln(size) - gammaln(x + 1.0)
    return np.asarray(base + x * (np.log(ratio) - np.log1p(ratio)) - size * np.log1p(ratio))


def _peak(profile: Floats) -> float:
    """The largest value of a profile on an even grid, by a parabola if it lies between two others."""
    top = int(np.argmax(profile))
    if not 0 < top < len(profile) - 1:
        return float(profile[top])
    below, middle, above = profile[top - 1 : top + 2]
    return float(middle + (above - below) ** 2 / (8.0 * max(2.0 * middle - below - above, 1e-300)))


def _moments(values: Floats, weights: Floats) -> tuple[float, float]:
    mean = float(np.average(values, weights=weights))
    return mean, float(np.average((values - mean) ** 2, weights=weights))


def _total(terms: Floats, weights: Floats) -> float:
    """Summed log-probabilities; an impossible entry costs as much as the smallest number that can be held."""
    return float(weights @ np.maximum(terms, -700.0))

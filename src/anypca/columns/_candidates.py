"""Families that a column may have, scored by penalised log-mass with weak prior evidence from names and zeros."""

from __future__ import annotations

import numpy as np

from anypca.columns import _margins as margins
from anypca.columns._guards import (
    ADDITIVE,
    AMOUNTS,
    COUNT,
    COUNTS,
    MEASURE,
    RATINGS,
    REALS,
    SCORE,
    SHARE,
    SHARES,
    Column,
)

#: Entries beyond which more of them say hardly more: every family is wrong in detail, and the details of a long column
#: would outvote names and zeros.
_COARSENING = 1000.0
#: Log prior odds in nats. Heavy tails, zeros of their own and a bound need to be earned; names are weak evidence.
_STUDENT, _FEW_ZEROS, _BOUND = -8.0, -10.0, -3.0
#: Few counts have no over-dispersion at all, not even that of factors.
_POISSON = -1.7
_COUNT_NAME, _MEASURE_NAME, _HAS_ZEROS, _NEVER_SMALL = 10.0, -6.0, 3.0, -3.0
_USUAL_LEVELS, _ODD_LEVELS, _CLEAR_SHARE = 3.0, -2.0, 3.0
#: Logarithms of amounts deviate by about 1, those of positive measurements by about 0.2: median and spread (of the
#: logarithm) over columns of public tables whose kind their names tell.
_AMOUNT_SPREAD, _REAL_SPREAD = (1.0, 0.65), (0.2, 0.8)
#: Most levels of a rating, and most levels that are usual or that are not whole.
MOST_LEVELS, _FEW_LEVELS = 12, 7
#: Median number of entries per level, and the same for values on no lattice, such as logarithms of a few numbers.
_REPEATED, _OFTEN = 2, 10
#: Largest score out of a bound, mean of positive counts below which zeros are not those of an amount, and mean up to
#: which extra zeros of counts are looked for.
LARGEST_SCORE, _SMALL_COUNTS, _LARGE_COUNTS = 60, 50.0, 200.0
#: Share of exact 0s and 1s above which shares are no logit-normal ones, and the share of the whole that is near 0 and,
#: from the other end, near 1.
_MOST_EDGES, _NEAR = 0.02, 0.25

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


def score_candidates(column: Column) -> dict[str, float]:
    """Penalised log-mass of the families that a column may have, in nats.

    ``zeta L - (k / 2) log(1 + n zeta) + log prior`` with L the largest log-mass of the margin, k its parameters and
    ``zeta = 1 / (1 + n / 1000)``.
    """
    scores = _Scores(column)
    _add_continuous(scores, column)
    _add_zeros(scores, column)
    if _may_count(column):
        _add_counts(scores, column)
    _add_levels(scores, column)
    _add_shares(scores, column)
    return scores.found


class _Scores:
    """Collects penalised scores of one column."""

    def __init__(self, column: Column) -> None:
        n = column.total
        self.zeta = 1.0 / (1.0 + n / _COARSENING)
        self.price = 0.5 * float(np.log1p(n * self.zeta))
        self.found: dict[str, float] = {}

    def of(self, mass: float, n_parameters: int, prior: float = 0.0) -> float:
        return self.zeta * mass - n_parameters * self.price + prior

    def add(self, family: str, mass: float, n_parameters: int, prior: float = 0.0) -> None:
        self.found[family] = self.of(mass, n_parameters, prior)


def _n_zeros(column: Column) -> float:
    return column.total * column.share(column.values == 0)


def _add_continuous(scores: _Scores, column: Column) -> None:
    entries = column.values, column.weights, column.step
    scores.add("gaussian", margins.normal(*entries), 2)
    if column.n_distinct > MOST_LEVELS:
        scores.add("student_t", margins.student(*entries), 3, _STUDENT)
    if column.low > 0:
        prior = min(_odds_of_amount(column), 0.0) + (_MEASURE_NAME if ADDITIVE.search(column.name) else 0.0)
        scores.add("log_normal", margins.log_normal(*entries), 2, prior)
        scores.add("gamma", margins.gamma(*entries), 2, prior)


def _odds_of_amount(column: Column) -> float:
    """Log odds of an amount against a measurement that happens to be positive, by the deviation of the logarithms.

    Where it is small both families are nearly the same, and the little skewness that tells them apart is as well that
    of the factors.
    """
    logs = np.log(column.values)
    centre = column.weights @ logs / column.total
    spread = np.sqrt(max(float(column.weights @ (logs - centre) ** 2) / column.total, 1e-12))
    amount, real = (
        -0.5 * (np.log(spread / median) / width) ** 2 - np.log(width)
        for median, width in (_AMOUNT_SPREAD, _REAL_SPREAD)
    )
    return float(amount - real)


def _add_zeros(scores: _Scores, column: Column) -> None:
    """Amounts with zeros of their own."""
    zeros = _n_zeros(column)
    positive = column.n_distinct - int(column.values[0] == 0)
    if column.low == 0 and zeros > 0 and positive >= 4:
        prior = _FEW_ZEROS if _is_even(scores, column) else 0.0
        for name, amounts in TWO_PARTS.items():
            scores.add(name, margins.two_part(column, getattr(margins, amounts)), 3, prior)


def _is_even(scores: _Scores, column: Column) -> bool:
    """Whether zeros are few and the rest is more normal than log-normal: the low end of a measurement."""
    if column.share(column.values == 0) >= 0.05 or "log_normal" in scores.found:
        return False
    mass = margins.log_normal(column.values, column.weights, column.step)
    return scores.found["gaussian"] > scores.of(mass, 2)


def _may_count(column: Column) -> bool:
    """Whole numbers in steps of one that are not heaped at tens and fives, as rounded amounts are."""
    if not (column.is_whole and column.step == 1 and column.low >= 0):
        return False
    large = column.values >= 20
    n_large = float(column.weights[large].sum())
    if n_large < 15:
        return True
    values, weights = column.values[large], column.weights[large]
    tens, fives = (float(weights @ (values % unit == 0)) / n_large for unit in (10, 5))
    return tens <= 0.4 and fives <= 0.6


def _add_counts(scores: _Scores, column: Column) -> None:
    values, weights, name = column.values, column.weights, column.name
    zeros, mean = _n_zeros(column), column.mean
    prior = _NEVER_SMALL if column.low > 0 and mean > 10 else 0.0
    prior += _COUNT_NAME if COUNT.search(name) else _MEASURE_NAME if MEASURE.search(name) else 0.0
    # A variance that equals the mean is no accident: such counts need one parameter less.
    scores.found["negative_binomial"] = max(
        scores.of(margins.negative_binomial(values, weights), 2, prior),
        scores.of(margins.poisson(values, weights), 1, prior + _POISSON),
    )
    scores.found["negative_binomial"] += _HAS_ZEROS if zeros else 0.0
    if zeros >= 5 and (values > 0).sum() >= 3 and mean < _LARGE_COUNTS:
        scores.add(EXTRA_ZEROS, margins.hurdle(column), 3, prior + _HAS_ZEROS)
    of_positive = mean * column.total / max(column.total - zeros, 1.0)
    if of_positive < _SMALL_COUNTS and not MEASURE.search(name):
        for part in TWO_PARTS:
            scores.found.pop(part, None)
    is_score = mean > 0.4 * column.high or bool(SCORE.search(name))
    is_bounded = 5 <= column.high <= LARGEST_SCORE and column.low < 0.5 * column.high and weights[-1] >= 2
    if is_score and is_bounded:
        scores.found[BOUNDED] = score_bounded(column, column.high)


def score_bounded(column: Column, bound: float) -> float:
    """Score of the beta-binomial family with a given largest count."""
    prior = (
        _BOUND
        + (_COUNT_NAME if COUNT.search(column.name) else 0.0)
        + (_HAS_ZEROS if _n_zeros(column) else 0.0)
    )
    return _Scores(column).of(margins.beta_binomial(column.values, column.weights, bound), 3, prior)


def _add_levels(scores: _Scores, column: Column) -> None:
    """Ratings: a few values, whatever their distribution."""
    k, places = column.n_distinct, column.n_places
    n_fractions = np.count_nonzero(column.values % 1)
    if not (3 <= k <= MOST_LEVELS and n_fractions <= _FEW_LEVELS and column.n_observed >= 3 * k):
        return
    # Most levels are repeated: one frequent value, such as 0, makes no levels of the others.
    if np.median(column.weights) < (_REPEATED if column.is_lattice else _OFTEN):
        return
    is_rare_count = column.is_whole and column.low == 0 and places > 1.5 * k + 1
    if is_rare_count and column.share(column.values == 0) >= 0.2:
        return
    prior = 0.5 * (k - 1) * float(np.log(k))
    prior += (0.0 if column.is_whole else _ODD_LEVELS) + (_ODD_LEVELS if k > _FEW_LEVELS else 0.0)
    if column.is_whole and places == k <= _FEW_LEVELS and column.low == 1:
        prior += _USUAL_LEVELS
    scores.add("ordinal", margins.levels(column.weights), k - 1, prior)


def _add_shares(scores: _Scores, column: Column) -> None:
    upper = whole_of(column)
    if upper is None or column.n_distinct < 4:
        return
    edges = column.share((column.values <= 0) | (column.values >= upper))
    is_wide = column.low < _NEAR * upper and column.high > (1.0 - _NEAR) * upper
    if edges <= _MOST_EDGES and (is_wide or column.is_part):
        mass = margins.logit_normal(column.values, column.weights, column.step, upper)
        scores.add("logit_normal", mass, 2, _CLEAR_SHARE)


def whole_of(column: Column) -> float | None:
    """The whole that a column may hold shares of: 1, or 100 where its name says per cent; None otherwise."""
    if column.low < 0 or MEASURE.search(column.name):
        return None
    if column.high <= 1.0 and not column.is_whole:
        return 1.0
    return 100.0 if column.high <= 100.0 and SHARE.search(column.name) else None

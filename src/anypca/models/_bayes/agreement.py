"""How well chains agree: R-hat and effective sample sizes of many quantities at once.

ArviZ has both, one quantity after the other; of the scores of a table there are thousands.

References
----------
A. Vehtari, A. Gelman, D. Simpson, B. Carpenter, P.-C. Bürkner (2021). Rank-normalization, folding, and localization: an
improved R-hat for assessing convergence of MCMC. Bayesian Analysis 16.
"""

from __future__ import annotations

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtri
from scipy.stats import rankdata

from anypca._typing import Floats

# Draws of quantities that are judged together: 8 MB in each temporary array.
_MOST_NUMBERS = 2**20
# Fewer draws of a chain tell nothing of it.
_FEWEST_DRAWS = 4
# Blom's: normal scores are at ranks less this, over the number of draws and a quarter.
_BLOM = 3.0 / 8.0


def judge_draws(draws: Floats) -> tuple[Floats, Floats]:
    """Rank-normalised R-hat and effective sample size of the bulk, as ArviZ has them.

    Parameters
    ----------
    draws : ndarray of shape (chains, draws, ...)

    Returns
    -------
    r_hat, size : ndarray of shape (...)
        NaN where there are too few draws or some are NaN. A quantity that does not vary has no R-hat.
    """
    chains, n = draws.shape[:2]
    flat = draws.reshape(chains, n, -1)
    r_hat, size = np.full(flat.shape[2], np.nan), np.full(flat.shape[2], np.nan)
    together = max(1, _MOST_NUMBERS // (chains * n))
    for start in range(0, flat.shape[2] if n >= _FEWEST_DRAWS else 0, together):
        some = slice(start, start + together)
        r_hat[some], size[some] = _judge(_halves(flat[..., some]))
    return r_hat.reshape(draws.shape[2:]), size.reshape(draws.shape[2:])


def _halves(draws: Floats) -> Floats:
    """Each chain as two, (2 chains, n // 2, m)."""
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]])


def _judge(draws: Floats) -> tuple[Floats, Floats]:
    scores = _normal_scores(draws)
    folded = _normal_scores(np.abs(draws - np.median(draws, axis=(0, 1))))
    # Chains that stand still at different places have an infinite R-hat, those that stand at one place none.
    with np.errstate(divide="ignore", invalid="ignore"):
        r_hat, size = np.fmax(_r_hat(scores), _r_hat(folded)), _effective_size(scores)
    is_constant = np.ptp(scores, axis=(0, 1)) == 0
    size[is_constant] = scores.shape[0] * scores.shape[1]
    is_lost = np.isnan(draws).any(axis=(0, 1))
    r_hat[is_lost], size[is_lost] = np.nan, np.nan
    return r_hat, size


def _normal_scores(draws: Floats) -> Floats:
    """Normal quantiles at the ranks of all draws of a quantity, same shape."""
    pooled = draws.reshape(-1, draws.shape[2])
    ranks = rankdata(pooled, axis=0)
    return np.asarray(ndtri((ranks - _BLOM) / (len(pooled) + 1.0 - 2.0 * _BLOM))).reshape(draws.shape)


def _r_hat(draws: Floats) -> Floats:
    """Deviation of all draws in units of that within chains, (m,)."""
    n = draws.shape[1]
    within = draws.var(axis=1, ddof=1).mean(axis=0)
    between = n * draws.mean(axis=1).var(axis=0, ddof=1)
    return np.asarray(np.sqrt((between / within + n - 1.0) / n))


def _effective_size(draws: Floats) -> Floats:
    """Independent draws whose mean is known as well, (m,), by Geyer's initial monotone sequence."""
    chains, n = draws.shape[:2]
    covariance = _autocovariance(draws).mean(axis=1)
    within = covariance[0] * n / (n - 1.0)
    total = covariance[0] + draws.mean(axis=1).var(axis=0, ddof=1)
    correlation = 1.0 - (within - covariance) / total
    correlation[0] = 1.0
    # Sums of neighbours are positive and fall with the lag, but for noise: they end where they are not.
    pairs = (correlation[0::2][: n // 2] + correlation[1::2])[: max((n - 3) // 2, 0) + 1]
    is_end = pairs <= 0.0
    last = np.where(is_end.any(axis=0), is_end.argmax(axis=0), len(pairs) - 1)
    columns, number = np.arange(draws.shape[2]), np.arange(len(pairs))[:, None]
    before = np.where(number < last, np.minimum.accumulate(pairs, axis=0), 0.0).sum(axis=0)
    even = correlation[2 * last, columns]
    even = np.where((even > 0.0) | (pairs[last, columns] >= 0.0), even, 0.0)
    # Chains that swing back and forth know a mean better than independent draws do; the estimate is held there.
    time = np.maximum(2.0 * before + even - 1.0, 1.0 / np.log10(chains * n))
    return np.asarray(chains * n / time)


def _autocovariance(draws: Floats) -> Floats:
    """Of each chain by lag, (n, chains, m)."""
    n = draws.shape[1]
    length = next_fast_len(2 * n, real=True)
    spectrum = rfft(draws - draws.mean(axis=1, keepdims=True), length, axis=1)
    found = irfft(spectrum * np.conj(spectrum), length, axis=1)[:, :n] / n
    return np.moveaxis(np.asarray(found), 1, 0)

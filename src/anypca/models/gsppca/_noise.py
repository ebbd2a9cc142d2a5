"""Noise variance of the inactive columns, from the spectrum or from the columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats

# Smallest noise variance as a share of the mean variance: it is a difference of sums of squares, whose rounding is
# some thousand units in the last place.
_FLOOR = 1e-12
# Steps of a fixed-point iteration whose contraction is the small second term of the bias.
_SOLVER_STEPS = 20


@dataclass(frozen=True)
class Moments:
    """Second moments of a centred table of n rows and p columns, all with divisor n."""

    values: Floats
    """Leading eigenvalues of the covariance, decreasing, at least d + 1 of them or all that are not 0."""
    column_variances: Floats
    """(p,)"""
    n_rows: float

    @property
    def trace(self) -> float:
        """Total variance."""
        return float(self.column_variances.sum())


def estimate_noise(moments: Moments, n_components: int, method: str) -> float:
    """Noise variance by one of the methods of `NOISE`, never 0.

    Parameters
    ----------
    moments : Moments
    n_components : int
        Latent dimension. At most rank - 1 eigenvalues are taken for signal, so that some variance is left for
        the noise when there are fewer rows than components.
    method : str

    Returns
    -------
    float
    """
    n_signal = max(0, min(n_components, len(moments.values) - 1))
    floor = _FLOOR * moments.trace / len(moments.column_variances)
    return max(NOISE[method](moments, n_signal), floor, float(np.finfo(float).tiny))


def maximum_likelihood(moments: Moments, n_signal: int) -> float:
    """Mean of the p - d smallest eigenvalues."""
    n_noise = len(moments.column_variances) - n_signal
    return max(moments.trace - float(moments.values[:n_signal].sum()), 0.0) / max(n_noise, 1)


def bias_corrected(moments: Moments, n_signal: int) -> float:
    """Maximum likelihood, corrected for bias in high dimension (after Passemier, Li and Yao).

    Each component takes the noise of one row: n - 1 - d rows of noise are left. It takes more if it is weak; that
    part of the bias depends on the noise variance itself and is solved for.
    """
    p = len(moments.column_variances)
    # Centring takes one row, too.
    n = moments.n_rows - 1.0
    plain = maximum_likelihood(moments, n_signal) * moments.n_rows / max(n - n_signal, 1.0)
    if plain == 0.0 or n_signal == p:
        return plain
    ratio, noise = p / max(n, 1.0), plain
    for _ in range(_SOLVER_STEPS):
        gap = moments.values[:n_signal] - (ratio + 1.0) * noise
        spike = 0.5 * (gap + np.sqrt(np.maximum(gap**2 - 4.0 * ratio * noise**2, 0.0)))
        # Below sqrt(p / n) sigma^2 a spike is not distinguishable from noise, and its formula has no solution.
        spike = np.maximum(spike, np.sqrt(ratio) * noise)
        noise = plain * (1.0 + ratio * noise * (1.0 / spike).sum() / (p - n_signal))
    return float(noise)


def median_variance(moments: Moments, n_signal: int) -> float:
    """Median of the column variances (Johnstone and Lu): right when most columns are inactive."""
    return float(np.median(moments.column_variances))


NOISE: dict[str, Callable[[Moments, int], float]] = {
    "ml": maximum_likelihood,
    "bc": bias_corrected,
    "jl": median_variance,
}


def sphericity(moments: Moments, n_signal: int) -> float:
    """Statistic of a test for equal noise from the non-zero eigenvalues; standard normal under equal noise.

    The test is for the eigenvalues beyond the signal, as if they were the whole spectrum of n - 1 - d rows of noise. It
    allows for more columns than rows.

    References
    ----------
    Ledoit and Wolf (2002), Some hypothesis tests for the covariance matrix when the dimension is large compared to the
    sample size, Ann. Statist. 30, proposition 2.
    """
    values, p = moments.values[n_signal:], len(moments.column_variances) - n_signal
    n = moments.n_rows - 1.0 - n_signal
    if n < 1.0 or not values.sum() > 0.0:
        return 0.0
    spread = p * float((values**2).sum()) / float(values.sum()) ** 2 - 1.0
    return 0.5 * (n * spread - p - 1.0)

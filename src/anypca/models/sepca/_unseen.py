r"""Evidence of components too weak for a factorised posterior, from the spectrum of what a fit leaves.

With all scores integrated out, and loadings of one length in any direction, a component of signal h beside n rows of
noise of variance s has the likelihood ratio

.. math:: (1 + h)^{-n/2} \int \exp(\theta\, v' R'R\, v)\, dv, \qquad \theta = \frac{h}{2 s (1 + h)}

over unit vectors v, which depends on the singular values of the residuals R alone (Onatski, Moreira and Hallin 2013).
The integral is a saddle point in one dimension. Signal and noise are where the ratio is largest, as relevance and
dispersion are in a fit. A factorised posterior would need a component three times as strong to keep it.
"""

from __future__ import annotations

import numpy as np

from anypca._typing import Floats
from anypca.models.sepca._coupling import relevance_cost
from anypca.models.sepca._spectrum import ResidualSpectrum
from anypca.models.sepca._sweeps import State

# Signals that are tried: each is a seventh larger than the last, to which a largest value is flat within 0.01 nats.
_SIGNALS = np.geomspace(0.01, 100.0, 70)
# Halvings of an interval of p / 2 in which a saddle point lies; with 30 it is known to a billionth.
_HALVINGS = 30
# Columns up to which all singular values are found; of wider tables nothing is said.
_MOST_COLUMNS = 1000
# Nats below the fit at hand from which on larger dimensions do not matter.
_NEGLIGIBLE = 5.0


def unseen_evidence(state: State) -> tuple[float, ...]:
    """What one, two and more components beyond those of a fit would add to its evidence, as far as it matters.

    None adds anything: what a fit could have kept it has, so that the most that is said of weaker ones is a tie.
    """
    k, p = state.n_components, len(state.loadings.mean)
    most, n = state.candidate.settings.max_components - k, state.weight - k - 1.0
    found: list[float] = []
    if p > _MOST_COLUMNS or n < 2.0:
        return ()
    spectrum = ResidualSpectrum(state.candidate, state.means, state.score_means)
    squared = spectrum.beside()
    total, cost = 0.0, relevance_cost(1, p)
    while len(found) < min(most, len(squared) - 2, int(n) - 1) and total > -_NEGLIGIBLE:
        gain = likelihood_gain(squared[len(found) :], n - len(found))
        total = min(total + gain - cost, 0.0)
        found.append(total)
    return tuple(found)


def likelihood_gain(squared: Floats, n: float) -> float:
    """Logarithm of the largest ratio above, over that of noise alone.

    Parameters
    ----------
    squared : ndarray of shape (p,)
        Squared singular values of residuals of n rows and p columns.
    n : float
    """
    p, total = len(squared), float(squared.sum())
    if p < 2 or total <= 0:
        return 0.0
    entries, alone = n * p, total / (n * p)
    theta = 0.5 / alone * _SIGNALS / (1.0 + _SIGNALS)
    # The noise of variance s that is best at each theta solves 2 theta (np - n) s^2 - (np + 2 theta T) s + T = 0.
    middle = entries + 2.0 * theta * total
    root = np.sqrt(np.maximum(middle**2 - 8.0 * theta * (entries - n) * total, 0.0))
    noise = 2.0 * total / (middle + root)
    free = 1.0 - 2.0 * theta * noise
    usable = free > 0
    value = -0.5 * entries * np.log(noise / alone) - 0.5 * (total / noise - entries)
    value += 0.5 * n * np.log(np.where(usable, free, 1.0)) + log_mean_exp(theta, squared)
    return float(np.max(np.where(usable, value, -np.inf), initial=0.0))


def log_mean_exp(theta: Floats, squared: Floats) -> Floats:
    """Logarithm of the mean of ``exp(theta sum_j squared_j v_j^2)`` over unit vectors v, by its saddle point."""
    p, scaled = len(squared), np.outer(theta, squared)
    top = scaled.max(axis=1)
    low, high = top + 0.5, top + 0.5 * p
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        is_low = 0.5 * (1.0 / (middle[:, None] - scaled)).sum(axis=1) > 1.0
        low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
    gap = 0.5 * (low + high)[:, None] - scaled
    value = 0.5 * (low + high) - 0.5 * np.log(gap).sum(axis=1) - 0.5 * np.log(0.5 * (gap**-2.0).sum(axis=1))
    # The same without any exponent, where the saddle point is at p / 2.
    half = 0.5 * p
    found: Floats = value - (half - half * np.log(half) - 0.5 * np.log(0.5 * p / half**2))
    return found

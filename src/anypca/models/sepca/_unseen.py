r"""Evidence of components too weak for a factorised posterior, from the spectrum of what a fit leaves.

With all scores integrated out, and loadings of one length in any direction, r components of signal h beside n rows of
noise of variance s have the likelihood ratio

.. math:: (1 + h)^{-r n/2} \int \exp\Bigl(\theta \sum_{i \le r} v_i' R'R\, v_i\Bigr)\, dv,
    \qquad \theta = \frac{h}{2 s (1 + h)}

over orthonormal vectors v, which depends on the singular values of the residuals R alone (Onatski, Moreira and Hallin
2013). The integral is taken one vector after the other, each a saddle point in one dimension without the leading
singular values of those before. The noise is where the ratio is largest, for all r together: taken one by one, each
component would count as noise for the others and hide them. The signal is averaged from where it begins to be
detectable, a multiple m = 1 of sqrt(p / n) (Baik, Ben Arous and Peche 2005), to m = 2.25: from m = 2 on a factorised
posterior keeps half of them or more, and likelihoods of what it did not keep fall steeply. Components of one table
are alike: the logarithm of m is normal around that of the weakest component of the fit, whose chances beyond 2.25 are
lost, since such a component would have been kept. So strong components leave little room for others. Beside a fit
without components it is somewhat likelier that one would have been kept, and all smaller m are equally likely.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import logsumexp, ndtr

from anypca._typing import Floats
from anypca.models.sepca._spectrum import ResidualSpectrum
from anypca.models.sepca._state import State

# Multiples m of the detectable signal that are averaged over, evenly in their logarithm.
_STRENGTHS = np.geomspace(1.0, 2.25, 12)
# Standard deviation of the logarithm of a signal around that of the weakest component that was found, a factor of
# 1.65, and the least that such a component counts for. With the range above and the next two constants they were chosen
# on tables of known dimension, such that sets of dimensions with nine tenths of the probability hold the true one about
# as often.
_ALIKE, _LEAST_SIGNAL = 0.5, 1.5
# Probability of a component in that range beside a fit without any.
_ALONE = 0.45
# Nats that each component after the first is worth besides its likelihood: where one could not be kept there are more.
_COMPANY = 0.7
# Halvings of an interval of p / 2 in which a saddle point lies; with 30 it is known to a billionth.
_HALVINGS = 30
# Columns up to which all singular values are found; of wider tables nothing is said.
_MOST_COLUMNS = 1000
# Nats below the fit at hand from which on larger dimensions do not matter.
_NEGLIGIBLE = 5.0


def unseen_evidence(state: State) -> tuple[float, ...]:
    """What one, two and more components beyond those of a fit would add to its evidence, as far as it matters.

    None adds anything: what a fit could have kept it has, so that the most that is said of weaker ones is that the
    table does not speak against them.
    """
    k, p = state.n_components, len(state.loadings.mean)
    most, n = state.candidate.settings.max_components - k, state.weight - k - 1.0
    if p > _MOST_COLUMNS or n < 2.0:
        return ()
    squared = ResidualSpectrum(state.candidate, state.means, state.score_means).beside()
    # The signal ratio at the edge of noise is sqrt(n / p).
    weakest = float(state.loadings.signal_ratio.min()) * np.sqrt(p / state.weight) if k else None
    weights, found = strength_weights(weakest), list[float]()
    total = float(weights.sum())
    most = min(most, len(squared) - 2, int(n) - 1)
    for number, likelihood in enumerate(likelihood_gains(squared, n, most, weights / total)):
        gain = likelihood + _COMPANY * number
        found.append(min(gain, 0.0) + float(np.log(total)))
        if gain <= -_NEGLIGIBLE:
            break
    return tuple(found)


def strength_weights(weakest: float | None) -> Floats:
    """Probabilities of the multiples m of components that were not found, given the least of those that were.

    Their sum is the probability of a component that is too weak to be kept and not too weak to be detected.
    """
    if weakest is None:
        return np.full(len(_STRENGTHS), _ALONE / len(_STRENGTHS))
    centre = np.log(max(weakest, _LEAST_SIGNAL))
    weights = np.exp(-0.5 * ((np.log(_STRENGTHS) - centre) / _ALIKE) ** 2)
    low, high = ndtr((np.log(_STRENGTHS[[0, -1]]) - centre) / _ALIKE)
    return np.asarray((high - low) * weights / weights.sum())


def likelihood_gains(squared: Floats, n: float, most: int, weights: Floats) -> Iterator[float]:
    """Logarithms of the ratio above for one component, two, and so on, over that of noise alone.

    Parameters
    ----------
    squared : ndarray of shape (p,)
        Squared singular values of residuals of n rows and p columns, in falling order.
    n : float
    most : int
        Largest number of components, below p.
    weights : ndarray of shape (n_strengths,)
        Of `strength_weights`, in shares of their sum.
    """
    p, total = len(squared), float(squared.sum())
    if total <= 0:
        return
    entries, alone = n * p, total / (n * p)
    signal = _STRENGTHS * np.sqrt(p / n)
    theta = 0.5 / alone * signal / (1.0 + signal)
    middle = entries + 2.0 * theta * total
    rows, directions = 0.0, np.zeros(len(theta))
    for r in range(most):
        rows, directions = rows + n - r, directions + log_mean_exp(theta, squared[r:])
        # The noise of variance s that is best at each theta solves
        # 2 theta (np - rows) s^2 - (np + 2 theta T) s + T = 0, with the rows of all components and the sum T.
        root = np.sqrt(np.maximum(middle**2 - 8.0 * theta * (entries - rows) * total, 0.0))
        noise = 2.0 * total / (middle + root)
        value = -0.5 * entries * np.log(noise / alone) - 0.5 * (total / noise - entries)
        value += 0.5 * rows * np.log1p(-2.0 * theta * noise) + directions
        yield float(logsumexp(value, b=weights))


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
    return np.asarray(value - (half - half * np.log(half) - 0.5 * np.log(0.5 * p / half**2)))

"""Which components last, and which fade.

It is known where the noise has unit variance. With r the signal ratio of a component, its squared loadings over their
posterior variance, the updates of scores, loadings and relevance agree where the squared singular value of the table is
``n + p + n / r + r p``. That is least at ``r = sqrt(n / p)``, where it is the edge of noise, ``(sqrt n + sqrt p)^2``;
for a larger one there are two such r, and the sweeps lead away from the lower. A component that lasts therefore ends at
``r >= sqrt(n / p)``, and one that has fallen far below goes to zero.

Numbers below that are not derived were set by hand; their comments say what they trade.
"""

from __future__ import annotations

import numpy as np

from anypca._typing import Bools, Floats
from anypca.models.sepca._posterior import Loadings

# Signal ratio below which a component has no signal left. A component that lasts has twenty times as much in a square
# table, and more where there are more rows than columns; only with 400 columns to a row it could have as little.
PRUNE_RATIO = 0.05
# A component is given up earlier, to save the sweeps, when its ratio is below half of what lasts and has fallen by this
# factor since it last rose: below the lower of the two fixed points it can only fall, in tall tables slowly.
_FADING_RATIO, _FADING_RATE = 0.5, 0.95
# Ratio, in units of what lasts, up to which a component may be standing at the edge of noise, where nothing moves.
_IDLE_RATIO = 2.0


def is_fading(loadings: Loadings, weight: float, before: Floats | None) -> Bools:
    """Components without signal, shape (k,): nothing is left, or little and less than where they began to fall.

    Parameters
    ----------
    loadings : Loadings
    weight : float
        Sum of the sample weights.
    before : ndarray of shape (k,) or None
        Of `falling_from`.
    """
    ratio = loadings.signal_ratio
    fading: Bools = ratio < PRUNE_RATIO
    if before is not None:
        fading |= (ratio < _FADING_RATIO * _lasting_ratio(loadings, weight)) & (ratio < _FADING_RATE * before)
    return fading


def falling_from(before: Floats | None, ratio: Floats) -> Floats:
    """The ratios from which the components have been falling, for `is_fading` at the next look, shape (k,)."""
    return ratio if before is None else np.where(ratio < before, before, ratio)


def idle_component(loadings: Loadings, weight: float) -> int | None:
    """The weakest component if it is near the edge of noise, where it may stand for hundreds of sweeps."""
    ratio = loadings.signal_ratio
    weakest = int(np.argmin(ratio))
    return None if ratio[weakest] > _IDLE_RATIO * _lasting_ratio(loadings, weight) else weakest


def component_cost(loadings: Loadings, weight: float, component: int) -> float:
    """What a component costs beside noise of unit variance, in nats: about the most that its leaving can gain.

    With the best relevance its p loadings have a divergence of ``log(1 + r) / 2`` each. They add ``(1 + r) p / n`` to
    the precision of n scores, whose divergence is half of the logarithm of that.
    """
    ratio, p = float(loadings.signal_ratio[component]), len(loadings.mean)
    return 0.5 * float(p * np.log1p(ratio) + weight * np.log1p((1.0 + ratio) * p / weight))


def _lasting_ratio(loadings: Loadings, weight: float) -> float:
    """Signal ratio at the edge of noise; what lasts in a square table is enough in a wide one."""
    return max(1.0, float(np.sqrt(weight / len(loadings.mean))))

"""The smallest number of components that explain a given share of the deviance."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from anypca._words import counted, percent

# A doubling of the components that explains less than this more has come to what the ridge allows: a tenth of the last
# digit that is shown of shares.
_LEAST_GAIN = 1e-4


def least_rank(explained: Callable[[int], float], share: float, largest: int) -> int:
    """The fewest components that explain a share of the deviance, by doubling and halving.

    Parameters
    ----------
    explained : callable
        From a number of components to the share that they explain.
    share : float
        Between 0 and 1.
    largest : int
        The largest number of components that the table allows.

    Returns
    -------
    int
        If no number explains as much, the one of the last doubling, and a warning.
    """
    low, high, before = 0, 1, 0.0
    while (found := explained(high)) < share:
        if high == largest or found - before < _LEAST_GAIN:
            warnings.warn(
                f"EPCA: {counted(high, 'component')} explained {percent(found)} of the deviance, and more would hardly "
                f"help; n_components={share} asks for {percent(share)}. Choose a smaller share or a smaller ridge.",
                stacklevel=3,
            )
            return high
        low, high, before = high, min(2 * high, largest), found
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if explained(middle) >= share else (middle, high)
    return high

"""Whether chains agree, and how a fit by draws ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

import numpy as np

from anypca._typing import Floats
from anypca.solvers import Result

Shared = TypeVar("Shared")

# R-hat of the worst quantity above which chains disagree: between the old custom of 1.1 and 1.01 (Vehtari et al. 2021),
# which the worst of thousands of scores reaches with many more draws only.
MAX_R_HAT = 1.05


class Mixing(Enum):
    """How sampling ended; the value is the message."""

    CONVERGED = "converged: the chains agree (largest R-hat below 1.05)"
    DISAGREE = "the chains disagree: the largest R-hat is above 1.05; increase n_draws and n_tune"


@dataclass(frozen=True, eq=False)
class SampledResult(Result[Shared]):
    """How sampling ended.

    The trace is the mean log density of scores and loadings in each round and in the final run; it is not monotone.
    The criterion is the largest R-hat; iterations are rounds, the final run included.
    """

    status: Mixing  # type: ignore[assignment]

    @property
    def converged(self) -> bool:
        return self.status is Mixing.CONVERGED


def judge(shared: Shared, trace: Floats, r_hat: Floats) -> SampledResult[Shared]:
    """How sampling ended, by the largest R-hat of what the chains are compared by.

    Parameters
    ----------
    shared : object
        What the draws amount to.
    trace : ndarray of shape (n_draws,)
        Mean log density of the chains.
    r_hat : ndarray
    """
    # A quantity that does not vary, as the mean of a column of one value, has none.
    worst = float(np.nanmax(r_hat, initial=1.0))
    status = Mixing.CONVERGED if worst <= MAX_R_HAT else Mixing.DISAGREE
    return SampledResult(shared, trace, status, worst, len(trace))

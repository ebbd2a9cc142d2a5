"""Result of a solver: parameters, trace, and the reason why it stopped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Generic, NamedTuple

import numpy as np

from anypca._typing import Floats
from anypca.exceptions import NonFiniteError
from anypca.solvers.problem import Shared, Update


class Status(Enum):
    """How a solve ended; the value is the message."""

    CONVERGED = "converged: the scaled gradient is below tol"
    PRECISION = "converged to working precision: a further step would gain less than the objective's rounding"
    STALLED = "stalled: no step improves the objective in working precision; the scaled gradient is above tol"
    MAX_ITER = "stopped at max_iter before the scaled gradient fell below tol; increase max_iter or tol"
    PLATEAU = "converged: the objective has stopped rising"
    RISING = "stopped at max_iter while the objective was still rising; increase max_iter"


@dataclass(frozen=True)
class Result(Generic[Shared]):
    """Outcome of a solve."""

    shared: Shared
    """The fitted shared parameters."""
    trace: Floats
    """Objective after each iteration, never decreasing, shape (n_iter,)."""
    status: Status
    criterion: float
    """Scaled gradient at the end."""
    n_iter: int
    update: Update[Shared] | None = None
    """The proposal with which to continue a run that ended at ``max_iter``; ``None`` if none was made."""

    @property
    def converged(self) -> bool:
        return self.status in (Status.CONVERGED, Status.PRECISION, Status.PLATEAU)


class Progress(NamedTuple):
    """State of a run, for callbacks."""

    iteration: int
    max_iter: int
    objective: float
    criterion: float


Callback = Callable[[Progress], None]

# Sweeps in a row without a smaller gradient that are accepted if rounding hides their gain.
_PATIENCE = 5


class StallCounter:
    """Counts sweeps whose gain rounding hides: they may still reduce the gradient, but can also continue by chance."""

    def __init__(self) -> None:
        self._best = np.inf
        self._idle = 0

    def has_stalled(self, criterion: float) -> bool:
        """Whether several sweeps in a row have not reached a smaller gradient than before."""
        self._idle = 0 if criterion < self._best else self._idle + 1
        self._best = min(self._best, criterion)
        return self._idle >= _PATIENCE


def check_finite(value: float, iteration: int) -> None:
    """Raise a NonFiniteError unless a number of the fit is finite."""
    if not np.isfinite(value):
        raise NonFiniteError(
            f"the fit became non-finite ({value}) at iteration {iteration}. Look for extreme values in X, "
            "or rescale gaussian columns; a larger ridge also helps."
        )

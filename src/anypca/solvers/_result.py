"""What a solver returns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from anypca._typing import Floats

Shared = TypeVar("Shared")


class Status(Enum):
    """How a solve ended; the value is the message."""

    CONVERGED = "converged: the scaled gradient is below tol"
    PRECISION = "converged to working precision: a further step would gain less than the objective's rounding"
    STALLED = "stalled: no step improves the objective in working precision; the scaled gradient is above tol"
    MAX_ITER = "stopped at max_iter before the scaled gradient fell below tol; increase max_iter or tol"


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

    @property
    def converged(self) -> bool:
        return self.status in (Status.CONVERGED, Status.PRECISION)

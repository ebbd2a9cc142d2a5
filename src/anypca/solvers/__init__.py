"""Solvers: they know problems only through the protocols they state."""

from anypca.solvers._loop import (
    BlockProblem,
    Callback,
    Coordinates,
    Loop,
    Progress,
    Result,
    Status,
    Total,
    Update,
)
from anypca.solvers.checkpoint import Checkpoint

__all__ = [
    "BlockProblem",
    "Callback",
    "Checkpoint",
    "Coordinates",
    "Loop",
    "Progress",
    "Result",
    "Status",
    "Total",
    "Update",
]

"""Solvers: they know problems only through the protocols they state."""

from anypca.solvers._block_problem import BlockProblem, Coordinates, Total, Update
from anypca.solvers._loop import Callback, Loop, Progress, Result, Status
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

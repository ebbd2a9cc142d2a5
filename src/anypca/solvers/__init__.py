"""Solvers: they know problems only through the protocols they state."""

from anypca.solvers._loop import BlockProblem, Callback, Coordinates, Loop, Progress, Update
from anypca.solvers._result import Result, Status

__all__ = ["BlockProblem", "Callback", "Coordinates", "Loop", "Progress", "Result", "Status", "Update"]

"""Solvers: they know problems only through the protocols they state."""

from anypca.solvers._loop import BlockProblem, Callback, Coordinates, Loop, Progress, Result, Status, Update

__all__ = ["BlockProblem", "Callback", "Coordinates", "Loop", "Progress", "Result", "Status", "Update"]

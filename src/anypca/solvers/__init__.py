"""Solvers: they know problems only through the protocols they state."""

from anypca._lazy import public as _public
from anypca.solvers._block_problem import BlockProblem as BlockProblem
from anypca.solvers._block_problem import Coordinates as Coordinates
from anypca.solvers._block_problem import Share as Share
from anypca.solvers._block_problem import Total as Total
from anypca.solvers._block_problem import Update as Update
from anypca.solvers._loop import Callback as Callback
from anypca.solvers._loop import Loop as Loop
from anypca.solvers._loop import Progress as Progress
from anypca.solvers._loop import Result as Result
from anypca.solvers._loop import Status as Status
from anypca.solvers.checkpoint import Checkpoint as Checkpoint

__all__ = _public(globals())

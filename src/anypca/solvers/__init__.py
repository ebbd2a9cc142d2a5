"""Solvers: they see a model only through the protocols that they define."""

from anypca._lazy import public as _public
from anypca.solvers.checkpoint import Checkpoint as Checkpoint
from anypca.solvers.loop import Loop as Loop
from anypca.solvers.problem import BlockProblem as BlockProblem
from anypca.solvers.problem import Coordinates as Coordinates
from anypca.solvers.problem import Share as Share
from anypca.solvers.problem import Total as Total
from anypca.solvers.problem import Update as Update
from anypca.solvers.result import Callback as Callback
from anypca.solvers.result import Progress as Progress
from anypca.solvers.result import Result as Result
from anypca.solvers.result import Status as Status

__all__ = _public(globals())

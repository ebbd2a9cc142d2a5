"""What the loop needs to know of a model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block

Shared = TypeVar("Shared")
Local = TypeVar("Local")
Stats = TypeVar("Stats")

#: The sum of a function of a block and of what belongs to its rows, over the blocks of a table.
Total = Callable[[Callable[[Block, Any], Any]], Any]
#: `anypca.engine.Executor.share`.
Share = Callable[[Callable[[slice], Any], int], list[Any]]

# Units in the last place by which a sum of many terms may be off.
_SLACK_ULPS = 16.0


class Update(NamedTuple, Generic[Shared]):
    """A proposed change of the shared parameters."""

    shared: Shared
    criterion: float
    """Scaled gradient at the point the proposal starts from; zero at a stationary point."""
    gain: float = np.inf
    """What the proposal is expected to add to the objective; infinite when the problem cannot tell."""


class Coordinates(NamedTuple):
    """Shared parameters as a vector, for extrapolation."""

    vector: Floats
    metric: Floats
    """Square roots of the diagonal curvature: makes distances comparable between coordinates."""


class BlockProblem(ABC, Generic[Shared, Local, Stats]):
    """What the loop needs to know of a model; the first three methods must be written, the others have defaults."""

    @abstractmethod
    def step(self, block: Block, shared: Shared, local: Local | None) -> tuple[Local, Stats]:
        """Improve the rows of a block under ``shared``; return them and their statistics. Pure."""

    @abstractmethod
    def update(self, shared: Shared, stats: Stats) -> Update[Shared]:
        """Propose better shared parameters from the summed statistics."""

    def propose(self, shared: Shared, stats: Stats, total: Total, share: Share) -> Update[Shared]:
        """The same, for a problem that needs more sums over the blocks than those of the sweep, or has much to do.

        ``total(function)`` is the sum of ``function(block, local)`` over the blocks, at the rows of the sweep;
        ``share(function, n)`` are the values of ``function(run)`` for runs of n items, found side by side.
        """
        return self.update(shared, stats)

    @abstractmethod
    def objective(self, shared: Shared, stats: Stats) -> float:
        """The objective to maximise, at ``shared`` and the rows that ``stats`` was made from."""

    def resolution(self, shared: Shared, stats: Stats) -> float:
        """Rounding level of the objective; a smaller loss does not count."""
        # Sums of many terms lose a few units in the last place.
        return _SLACK_ULPS * float(np.finfo(float).eps) * abs(self.objective(shared, stats))

    def rough(self) -> BlockProblem[Shared, Local, Stats] | None:
        """The same problem in faster, less exact arithmetic, for all but the last sweeps; ``None`` if there is none."""
        return None

    def repair(self, shared: Shared, proposal: Shared, before: Stats, after: Stats) -> Shared | None:
        """A more cautious proposal where some part of the shared parameters got worse, else ``None``.

        ``before`` was summed at ``shared``; ``after`` by the sweep that started with ``proposal``.
        """
        return None

    def tolerated(
        self, shared: Shared, proposal: Shared, before: Stats, after: Stats, gain: float
    ) -> Shared | None:
        """The proposal as it is taken though some part of it may have got worse, ``None`` where `repair` is to decide.

        The arguments are those of `repair`, and what the whole objective has gained. A part that got worse may be made
        to go on more slowly.
        """
        return None

    def at_rest(self, shared: Shared) -> Shared:
        """``shared`` for rows that are in its coordinates already, without how to get there from the previous ones."""
        return shared

    def coordinates(self, shared: Shared, stats: Stats) -> Coordinates | None:
        """Shared parameters as a vector; ``None`` switches extrapolation off."""
        return None

    def with_coordinates(self, vector: Floats, like: Shared) -> Shared:
        """``like`` with its parameters replaced by a vector of `coordinates`."""
        raise NotImplementedError(f"{type(self).__name__} has coordinates but cannot be built from them")

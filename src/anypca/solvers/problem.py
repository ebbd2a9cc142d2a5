"""Interface of a model to the loop: `step` for rows, `update` for columns, `objective`, optionally `backtrack`."""

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

#: The sum of a function of a block and of its rows' state, over the blocks of a table.
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
    """Expected increase of the objective; infinite if it is unknown."""


class Coordinates(NamedTuple):
    """Shared parameters as a vector, for extrapolation."""

    vector: Floats
    metric: Floats
    """Square roots of the diagonal curvature: makes distances comparable between coordinates."""


class BlockProblem(ABC, Generic[Shared, Local, Stats]):
    """Interface of a model to the loop. `step`, `update` and `objective` are required; the others have defaults."""

    @abstractmethod
    def step(self, block: Block, shared: Shared, local: Local | None) -> tuple[Local, Stats]:
        """Improve the rows of a block under ``shared``; return them and their statistics.

        ``local=None`` initialises the rows. The method must not depend on anything else: blocks are visited in
        parallel, and on a cluster.
        """

    @abstractmethod
    def update(self, shared: Shared, stats: Stats) -> Update[Shared]:
        """Propose better shared parameters from the summed statistics."""

    @abstractmethod
    def objective(self, shared: Shared, stats: Stats) -> float:
        """The objective to maximise, at ``shared`` and the rows of ``stats``."""

    def backtrack(self, shared: Shared, proposal: Shared, before: Stats, after: Stats) -> Shared | None:
        """A shorter step if some part of the shared parameters got worse, else ``None``.

        ``before`` was summed at ``shared``, ``after`` by the sweep that started with ``proposal``.
        """
        return None

    # Precision

    def resolution(self, shared: Shared, stats: Stats) -> float:
        """Rounding level of the objective; a smaller decrease is accepted."""
        return _SLACK_ULPS * float(np.finfo(float).eps) * abs(self.objective(shared, stats))

    def low_precision(self) -> BlockProblem[Shared, Local, Stats] | None:
        """The same problem in faster arithmetic, for all but the last sweeps; ``None`` if there is none."""
        return None

    # Large problems

    def update_over_blocks(self, shared: Shared, stats: Stats, total: Total, share: Share) -> Update[Shared]:
        """`update` for a problem that requires further sums over the blocks.

        ``total(function)`` is the sum of ``function(block, local)`` over the blocks, ``share(function, n)`` returns the
        values of ``function(run)`` for runs of n items, computed in parallel.
        """
        return self.update(shared, stats)

    # Changes of latent coordinates and extrapolation

    def without_gauge(self, shared: Shared) -> Shared:
        """``shared`` without the last change of latent coordinates, for rows that have made it."""
        return shared

    def coordinates(self, shared: Shared, stats: Stats) -> Coordinates | None:
        """Shared parameters as a vector; ``None`` switches extrapolation off."""
        return None

    def with_coordinates(self, vector: Floats, like: Shared) -> Shared:
        """``like`` with its parameters replaced by a vector of `coordinates`."""
        raise NotImplementedError(f"{type(self).__name__} has coordinates but cannot be built from them")

"""A table that functions of this package visit block by block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from anypca.engine import Block, Data, Executor, Summary


class Table(Protocol):
    """Data with sums over its blocks."""

    @property
    def data(self) -> Data:
        """The columns of the table."""

    @property
    def summary(self) -> Summary:
        """Summary numbers of the columns."""

    @property
    def executor(self) -> Executor:
        """Visits the blocks."""

    def sum(self, function: Callable[[Block, Any], Any]) -> Any:
        """Sum of ``function(block, None)`` over the blocks."""

    def gather(self, function: Callable[[Block], Any]) -> list[Any]:
        """``function(block)`` of each block, in row order."""

"""The shapes that the engine's parts and the models agree on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from anypca._typing import Bools, Floats

Local = TypeVar("Local")
Total = TypeVar("Total", bound="Addable")


class Addable(Protocol):
    """Statistics of a block: they add, in any grouping."""

    def __add__(self: Total, other: Total) -> Total: ...


class Statistics:
    """Base of frozen dataclasses that add field by field, as sums over blocks do."""

    def __add__(self, other: Self) -> Self:
        names = (field.name for field in fields(self))  # type: ignore[arg-type]
        # A trial step may overflow in some blocks; its value is then no gain, and the step is refused.
        with np.errstate(invalid="ignore", over="ignore"):
            return type(self)(*(getattr(self, name) + getattr(other, name) for name in names))


class Source(Protocol):
    """Rows of a table, read on demand."""

    def read(self, start: int, stop: int) -> Floats:
        """Rows start..stop as a new dense C-contiguous array (rows, n_features), NaN where missing."""

    def matrix(self, start: int, stop: int) -> Any:
        """Rows start..stop, dense or sparse as they are stored: for ``@`` and ``.T``."""


class Table(NamedTuple):
    """The entries of one block."""

    x: Floats
    """Values (rows, n_features), C-contiguous; missing entries hold 1.0, which every family supports."""
    observed: Bools | None
    """False where missing (rows, n_features); ``None`` when the block is complete."""


@dataclass(frozen=True)
class Block:
    """A run of rows with everything that belongs to them."""

    start: int
    """First row, in the numbering of the whole table."""
    stop: int
    """One past the last row."""
    source: Source
    first: int
    """The number of ``start`` within ``source``."""
    dtype: np.dtype[Any]
    weight: Floats | None
    """Sample weights (rows,), ``None`` for all one."""
    offset_source: Source | None
    """Offsets of shape (rows, n_features) or (rows, 1), read like the table."""
    covariates: Floats
    """(rows, n_covariates), possibly with no columns."""
    may_miss: bool
    """False when the table is known to be complete."""

    @property
    def n_rows(self) -> int:
        return self.stop - self.start

    @property
    def weights(self) -> Floats:
        """Sample weights with ones filled in (rows,), float64."""
        return np.ones(self.n_rows) if self.weight is None else self.weight.astype(np.float64)

    def values(self) -> Floats:
        """The block's entries, NaN where missing, as a new array (rows, n_features)."""
        return self.source.read(self.first, self.first + self.n_rows)

    def read(self) -> Table:
        """The block's entries, and which of them are observed."""
        x = self.values()
        if not self.may_miss:
            return Table(x, None)
        missing = np.isnan(x)
        if not missing.any():
            return Table(x, None)
        x[missing] = 1.0
        return Table(x, ~missing)

    def matrix(self) -> Any:
        """The entries of a complete block for products with ``@``; a sparse block stays sparse."""
        if self.may_miss:
            raise ValueError("a block with missing entries has no matrix of products; use read()")
        return self.source.matrix(self.first, self.first + self.n_rows)

    def offset(self) -> Floats | None:
        """Offsets (rows, n_features) or (rows, 1), ``None`` when there are none."""
        if self.offset_source is None:
            return None
        return self.offset_source.read(self.first, self.first + self.n_rows)


@dataclass(frozen=True)
class Data:
    """A checked table of row blocks; the only form in which models see data."""

    blocks: Sequence[Any]
    """`Block` objects, or Dask handles to them; use an executor to visit them."""
    n_samples: int
    n_features: int
    n_covariates: int
    dtype: np.dtype[Any]
    """float32 or float64: what the blocks are read in."""
    feature_names: tuple[str, ...] | None
    """Column names when all are strings."""
    may_miss: bool
    is_distributed: bool
    has_weights: bool


class Executor(ABC):
    """Visits the blocks of a `Data`: threads or Dask. Use as a context manager around a fit."""

    @abstractmethod
    def sweep(
        self,
        function: Callable[[Block, Local | None], tuple[Local, Total]],
        data: Data,
        local: Sequence[Any] | None = None,
    ) -> tuple[Sequence[Any], Total]:
        """Call ``function(block, local)`` on every block; return the new locals and the sum of the totals.

        The locals stay where the blocks are and are handed back to the next sweep; only the sum travels.
        The order of summation is fixed, so the same number of threads gives the same bits.
        """

    @abstractmethod
    def gather(self, local: Sequence[Any]) -> list[Any]:
        """Bring the locals to this process, in row order."""

    def sum(
        self, function: Callable[[Block, Any], Any], data: Data, local: Sequence[Any] | None = None
    ) -> Any:
        """Sum of ``function(block, local)`` over the blocks, of anything that adds."""

        def visit(block: Block, rows: Any) -> tuple[Any, Any]:
            return rows, function(block, rows)

        return self.sweep(visit, data, local)[1]

    def map(
        self, function: Callable[[Block, Any], Any], data: Data, local: Sequence[Any] | None = None
    ) -> Sequence[Any]:
        """``function(block, local)`` of each block, where the blocks are."""
        return self.sweep(lambda block, rows: (function(block, rows), 0.0), data, local)[0]

    def collect(self, function: Callable[[Block], Any], data: Data) -> list[Any]:
        """``function(block)`` of each block, in row order, in this process."""
        return self.gather(self.map(lambda block, _: function(block), data))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of what `__enter__` took; by default that is nothing."""
        return None

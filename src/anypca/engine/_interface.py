"""Rows on demand, dense (also memory-mapped) or CSR, blocks of them, and who visits them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from anypca._typing import Bools, Floats, Ints


@dataclass(frozen=True)
class DenseSource:
    """Rows of a 2-D array of any real dtype and order, cast block by block."""

    array: npt.NDArray[Any]
    """(n_rows, n_columns), possibly memory-mapped; never copied as a whole."""
    dtype: np.dtype[Any]

    def read(self, start: int, stop: int) -> Floats:
        """Rows start..stop as a new C-contiguous array (stop - start, n_columns), NaN where missing."""
        # A copy, since missing entries of a block are overwritten.
        return np.array(self.array[start:stop], dtype=self.dtype, order="C", copy=True)

    def matrix(self, start: int, stop: int) -> Floats:
        """The same as `read`, without a copy where the stored form will do."""
        return np.asarray(self.array[start:stop], dtype=self.dtype)

    def rows(self, start: int, stop: int) -> DenseSource:
        """The same rows as a source of their own."""
        return DenseSource(self.array[start:stop], self.dtype)


@dataclass(frozen=True)
class CsrSource:
    """Rows of a CSR matrix; entries that are not stored are 0, stored NaN are missing."""

    data: npt.NDArray[Any]
    indices: npt.NDArray[Any]
    indptr: npt.NDArray[Any]
    n_columns: int
    dtype: np.dtype[Any]

    def read(self, start: int, stop: int) -> Floats:
        """Rows start..stop as a new C-contiguous array (stop - start, n_columns).

        A CSR matrix of views is densified: no slower than scattering by index, faster than slicing the
        matrix (which copies the indices), and repeated entries are summed without touching the input.
        """
        return np.asarray(self.matrix(start, stop).toarray(order="C"))

    def matrix(self, start: int, stop: int) -> Any:
        """Rows start..stop as a CSR matrix of views."""
        rows = self.rows(start, stop)
        matrix = sparse.csr_array((stop - start, self.n_columns), dtype=self.dtype)
        # Set one by one: the constructor would look at every index again.
        matrix.data = rows.data.astype(self.dtype, copy=False)
        matrix.indices, matrix.indptr = rows.indices, rows.indptr
        return matrix

    def rows(self, start: int, stop: int) -> CsrSource:
        """The same rows as a source of their own."""
        first, last = self.indptr[start], self.indptr[stop]
        pointers = self.indptr[start : stop + 1] - first
        return CsrSource(
            self.data[first:last], self.indices[first:last], pointers, self.n_columns, self.dtype
        )


class Source(Protocol):
    """Rows of a table, read on demand."""

    def read(self, start: int, stop: int) -> Floats: ...

    def matrix(self, start: int, stop: int) -> Any: ...

    def rows(self, start: int, stop: int) -> Source: ...


def make_source(matrix: Any, dtype: np.dtype[Any], name: str = "X") -> Source:
    """Wrap a 2-D array or sparse matrix.

    Parameters
    ----------
    matrix : ndarray or sparse matrix of shape (n_rows, n_columns)
    dtype : dtype
        What blocks are read in.
    name : str
        What to call it in an error message.

    Raises
    ------
    ValueError
        If a CSR matrix is malformed.
    """
    if not sparse.issparse(matrix):
        return DenseSource(matrix, dtype)
    csr = matrix.tocsr()  # no copy when it is CSR already
    _check_csr(csr, name)
    return CsrSource(csr.data, csr.indices, csr.indptr, csr.shape[1], dtype)


def _check_csr(csr: Any, name: str) -> None:
    """Refuse pointers and indices out of range: densifying does not look and would write anywhere."""
    indptr, indices = csr.indptr, csr.indices
    if len(indptr) != csr.shape[0] + 1 or indptr[0] != 0 or np.any(np.diff(indptr) < 0):
        raise ValueError(
            f"{name} is not a valid CSR matrix: indptr must start at 0, never decrease and have "
            f"{csr.shape[0] + 1} elements. Rebuild it, for example from a COO matrix."
        )
    stored = int(indptr[-1])
    if stored > min(len(indices), len(csr.data)):
        raise ValueError(
            f"{name} is not a valid CSR matrix: indptr ends at {stored}, but there are {len(csr.data)} "
            f"values and {len(indices)} indices. Rebuild it, for example from a COO matrix."
        )
    outside = np.flatnonzero((indices[:stored] < 0) | (indices[:stored] >= csr.shape[1]))
    if len(outside):
        raise ValueError(
            f"{name} is not a valid CSR matrix: it stores column {int(indices[outside[0]])}, but has columns "
            f"0..{csr.shape[1] - 1}. Rebuild it with the right shape."
        )


Local = TypeVar("Local")
Total = TypeVar("Total", bound="Addable")


class Addable(Protocol):
    """Statistics of a block: they add, in any grouping."""

    def __add__(self: Total, other: Total) -> Total: ...


@cache
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


class Statistics:
    """Base of frozen dataclasses that add field by field, as sums over blocks do."""

    def __add__(self, other: Self) -> Self:
        names = _field_names(type(self))  # type: ignore[arg-type]
        # A trial step may overflow in some blocks; its value is then no gain, and the step is refused.
        with np.errstate(invalid="ignore", over="ignore"):
            return type(self)(*(getattr(self, name) + getattr(other, name) for name in names))


def is_finite(sums: Any) -> bool:
    """Whether nothing in the sums over blocks has overflowed."""
    if isinstance(sums, Statistics):
        return all(is_finite(getattr(sums, name)) for name in _field_names(type(sums)))  # type: ignore[arg-type]
    return sums is None or bool(np.all(np.isfinite(sums)))


class Table(NamedTuple):
    """The entries of one block."""

    x: Floats
    """Values (rows, n_features), C-contiguous; missing entries hold 1.0, which every family supports."""
    observed: Bools | None
    """False where missing (rows, n_features); ``None`` when the block is complete."""


def mask_missing(x: Floats) -> Table:
    """Entries with NaN where missing, which are overwritten."""
    missing = np.isnan(x)
    if not missing.any():
        return Table(x, None)
    # 1 is in the support of every family, so that arrays can be evaluated whole.
    x[missing] = 1.0
    return Table(x, ~missing)


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
    columns: Ints | None = None
    """The numbers in the user's table that the columns come from, (n_features,); ``None`` when they are the same."""
    entry_source: Source | None = None
    """Weights of the entries (rows, n_features), read like the table; ``None`` for all one."""
    keeps_single: bool = False
    """Whether a dense copy in single precision may stay in memory as long as the block does."""

    @property
    def n_rows(self) -> int:
        return self.stop - self.start

    @property
    def weights(self) -> Floats:
        """Sample weights with ones filled in (rows,), float64."""
        return np.ones(self.n_rows) if self.weight is None else self.weight.astype(np.float64)

    def values(self) -> Floats:
        """The block's entries, NaN where missing, as a new array (rows, n_features)."""
        x = self.source.read(self.first, self.first + self.n_rows)
        entry = self.entry_weight()
        if entry is not None:
            x[entry == 0] = np.nan
        return x

    def read(self) -> Table:
        """The block's entries, and which of them are observed."""
        x = self.values()
        return mask_missing(x) if self.may_miss else Table(x, None)

    def matrix(self) -> Any:
        """The entries of a complete block for products with ``@``; a sparse block stays sparse."""
        if self.may_miss:
            raise ValueError("a block with missing entries has no matrix of products; use read()")
        return self.source.matrix(self.first, self.first + self.n_rows)

    def single(self, *, make: bool) -> Floats | None:
        """The entries of a complete dense block in single precision, where they are kept or ``make`` asks for it."""
        return self._single if make or "_single" in self.__dict__ else None

    @cached_property
    def _single(self) -> Floats:
        return self.view().astype(np.float32)

    def view(self) -> Floats:
        """The entries of a complete block (rows, n_features), not to be written to: they may be the user's own."""
        rows = self.matrix()
        return np.asarray(rows.toarray() if sparse.issparse(rows) else rows)

    def entry_weight(self) -> Floats | None:
        """Weights of the entries (rows, n_features), ``None`` when all are one; an entry of weight 0 is missing."""
        if self.entry_source is None:
            return None
        return self.entry_source.read(self.first, self.first + self.n_rows)

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
    has_entry_weights: bool = False
    labels: Mapping[int, Any] = field(default_factory=dict)
    """Labels of the numbers in columns of text, answers and categories."""
    block_rows: tuple[int, ...] = ()
    """Rows of each block of a distributed table; its handles do not store them."""
    is_in_file: bool = False
    """Whether rows are read from a file, and may be more than memory holds."""


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

        return self.sweep(lambda block, rows: (None, function(block, rows)), data, local)[1]

    def map(
        self, function: Callable[[Block, Any], Any], data: Data, local: Sequence[Any] | None = None
    ) -> Sequence[Any]:
        """``function(block, local)`` of each block, where the blocks are."""
        # A sweep that adds up nothing.
        return self.sweep(lambda block, rows: (function(block, rows), 0.0), data, local)[0]

    def collect(self, function: Callable[[Block], Any], data: Data) -> list[Any]:
        """``function(block)`` of each block, in row order, in this process."""
        return self.gather(self.map(lambda block, _: function(block), data))

    def stack(self, function: Callable[[Block], Floats], data: Data, n_columns: int) -> Any:
        """The rows that ``function(block)`` makes of each block, (n_samples, n_columns), as an array of X's kind."""
        return np.concatenate(self.collect(function, data))

    def share(self, function: Callable[[slice], Any], n_items: int) -> list[Any]:
        """``function(run)`` of runs of consecutive items that make up all of them, in order, in this process."""
        return alone(function, n_items)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of what `__enter__` took; by default that is nothing."""
        return None


def alone(function: Callable[[slice], Any], n_items: int) -> list[Any]:
    """`Executor.share` without anyone to share with: one run of all items."""
    return [function(slice(0, n_items))]

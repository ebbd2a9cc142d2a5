"""A block of rows opened for computation, complete where a model needs every entry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from anypca._typing import Bools, Floats, Ints
from anypca.columns import raise_outside
from anypca.engine import Block, Table
from anypca.engine._convert import describe_entry
from anypca.families import Family
from anypca.families._canonical import CanonicalFamily
from anypca.models._context import FitContext

# Bytes of the entries of a tile: half or twice of it take as long to some percent, less makes many thin products.
_TILE_BYTES = 2**20
# Narrower tiles would make the matrix products of a tile thin; what a few rows say of more columns leaves the cache.
_MIN_TILE, _MAX_TILE = 64, 2048


@dataclass(frozen=True, eq=False)
class BlockView:
    """A block opened for computation."""

    table: Table | None
    """Dense entries; ``None`` when products suffice."""
    product: Any
    """The entries, 0 where missing, as a matrix that multiplies (dense or sparse); ``None`` where only ``table`` is."""
    offset: Floats | None
    weight: Floats | None
    features: Floats
    """F, shape (rows, n_fixed)."""
    n_features: int
    dtype: np.dtype[Any]
    numbers: Ints
    """Of the rows in the whole table, shape (rows,)."""
    columns: Ints | None = None
    """Of the columns in the user's table, shape (n_features,); ``None`` when they are the same."""
    entry: Floats | None = None
    """Entry weights without the row weights, shape (rows, n_features); ``None`` if all are one."""
    single: Floats | None = None
    """The entries in single precision, not to be written to, where the block has kept them."""

    @property
    def n_rows(self) -> int:
        return len(self.features)

    @cached_property
    def weights(self) -> Floats:
        """Sample weights with ones filled in, shape (rows,)."""
        return np.ones(self.n_rows) if self.weight is None else self.weight

    @property
    def entry_weights(self) -> Floats:
        """The weight of each entry, zero where it is missing, shape (rows, n_features)."""
        ones = np.broadcast_to(self.weights[:, None], (self.n_rows, self.n_features))
        return apply_entry_weights(self, slice(None), ones)

    @property
    def x(self) -> Floats:
        """Dense entries, 1.0 where missing, shape (rows, n_features)."""
        assert self.table is not None
        return self.table.x

    @property
    def observed(self) -> Bools | None:
        """False where missing, shape (rows, n_features); ``None`` when complete."""
        return None if self.table is None else self.table.observed

    @cached_property
    def offset_values(self) -> Floats:
        """What ``x offset`` adds to the rows' values where products are used, shape (rows,)."""
        if self.product is None or self.offset is None:
            return np.zeros(self.n_rows)
        if self.offset.shape[1] > 1:
            # Blocks with such offsets are dense.
            return np.asarray(np.einsum("ij,ij->i", self.product, self.offset, dtype=float))
        totals: Floats = self.product @ np.ones(self.n_features, self.dtype)
        return self.offset[:, 0] * totals

    @cached_property
    def offset_totals(self) -> Floats:
        """What ``x offset`` adds to the columns' weighted values where products are used, shape (n_features,)."""
        if self.product is None or self.offset is None:
            return np.zeros(self.n_features)
        if self.offset.shape[1] > 1:
            return np.asarray(np.einsum("i,ij,ij->j", self.weights, self.product, self.offset, dtype=float))
        return np.asarray(self.product.T @ (self.weights * self.offset[:, 0]), dtype=float)

    def table_column(self, column: int) -> int:
        """The number in the user's table of a column."""
        return column if self.columns is None else int(self.columns[column])

    def take(self, index: Ints | Bools | slice) -> BlockView:
        """Some of the rows."""
        table = self.table
        if table is not None:
            table = Table(table.x[index], None if table.observed is None else table.observed[index])
        return replace(
            self,
            table=table,
            product=None if self.product is None else self.product[index],
            offset=None if self.offset is None else self.offset[index],
            weight=None if self.weight is None else self.weight[index],
            features=self.features[index],
            numbers=self.numbers[index],
            entry=None if self.entry is None else self.entry[index],
            single=None,
        )

    def spread(self, most: int) -> BlockView:
        """At most so many rows, at equal distances."""
        return self.take(slice(None, None, max(1, -(-self.n_rows // most))))

    def astype(self, dtype: np.dtype[Any]) -> BlockView:
        """The same rows in another precision."""

        def cast(part: Any) -> Any:
            return None if part is None else part.astype(dtype, copy=False)

        if self.single is not None and dtype == np.float32:
            table = None if self.table is None else Table(self.single, None)
            return replace(self, table=table, product=self.single, offset=cast(self.offset), dtype=dtype)
        table = None if self.table is None else Table(cast(self.table.x), self.table.observed)
        is_same = table is not None and self.table is not None and self.product is self.table.x
        return replace(
            self,
            table=table,
            product=table.x if is_same and table is not None else cast(self.product),
            offset=cast(self.offset),
            entry=cast(self.entry),
            dtype=dtype,
        )

    def only_observed(self, terms: Floats) -> Floats:
        """Terms with 0 in the place of missing entries, shape (rows, n_features)."""
        return observed_only(self, slice(None), terms)

    def shifted(self, eta: Floats) -> Floats:
        """Predictors with the offset."""
        return eta if self.offset is None else eta + self.offset

    def tiles(self) -> Iterator[slice]:
        """Runs of columns."""
        width = _TILE_BYTES // (self.dtype.itemsize * max(self.n_rows, 1))
        width = min(max(width, _MIN_TILE), _MAX_TILE)
        for start in range(0, self.n_features, width):
            yield slice(start, min(start + width, self.n_features))

    def count(self) -> float:
        """Weighted number of observed entries."""
        if self.entry is not None:
            return float(self.entry_weights.sum())
        if self.observed is None:
            return float(self.weights.sum()) * self.n_features
        return float(self.weights @ self.observed.sum(axis=1))


def open_block(
    block: Block,
    *,
    fit_intercept: bool = False,
    family: Family | None = None,
    dense: bool = False,
    precision: str | None = None,
) -> BlockView:
    """Read a block and lay out its fixed features.

    Parameters
    ----------
    block : Block
    fit_intercept : bool, default=False
    family : Family or None
        Given where sums over the entries are needed: if the log-likelihood is linear in the entries, these enter
        through products only, and a sparse complete block is not made dense.
    dense : bool, default=False
        Whether the entries themselves are needed all the same.
    precision : str or None
        The dtype of the arithmetic; ``None`` for the dtype of the block.
    """
    features = fixed_features(block, fit_intercept=fit_intercept)
    offset = block.offset()
    table: Table | None = None
    product: Any = None
    is_linear = isinstance(family, CanonicalFamily)
    has_wide_offset = offset is not None and offset.shape[1] > 1
    entry = block.entry_weight()
    if is_linear and not block.may_miss and entry is None:
        product = block.matrix() if not (dense or has_wide_offset) else block.view()
        table = Table(product, None) if dense or has_wide_offset else None
    else:
        table = block.read()
        if is_linear and table.observed is not None:
            table.x[~table.observed] = 0.0
        product = (table.x if entry is None else table.x * entry) if is_linear else None
    n_features = product.shape[1] if table is None else table.x.shape[1]
    numbers = np.arange(block.start, block.stop)
    parts = (
        table,
        product,
        offset,
        block.weight,
        features,
        n_features,
        block.dtype,
        numbers,
        block.columns,
        entry,
    )
    is_kept = block.keeps_single and isinstance(product, np.ndarray) and not block.may_miss and entry is None
    is_kept = is_kept and block.dtype == np.float64
    opened = BlockView(*parts, single=block.single(make=precision == "float32") if is_kept else None)
    return opened if precision in (None, block.dtype.name) else opened.astype(np.dtype(precision))


def fixed_features(block: Block, *, fit_intercept: bool) -> Floats:
    """F: a column of ones when there is an intercept, then the covariates; shape (rows, n_fixed)."""
    return np.hstack([np.ones((block.n_rows, int(fit_intercept))), block.covariates])


def observed_only(rows: BlockView, columns: slice | Ints, terms: Floats) -> Floats:
    """Terms of some columns, zero where the entry is missing."""
    return terms if rows.observed is None else np.where(rows.observed[:, columns], terms, 0.0)


def apply_entry_weights(rows: BlockView, columns: slice | Ints, terms: Floats) -> Floats:
    """Terms of some columns times the weights of their entries, zero where the entry is missing."""
    found = observed_only(rows, columns, terms)
    return found if rows.entry is None else found * rows.entry[:, columns]


def check_complete(
    rows: BlockView, model: str, names: Sequence[str] | None = None, remedy: str = "PPCA().fit(X).impute(X)"
) -> None:
    """Raise a ValueError that names the first missing entry and says what to do, if there is one.

    Parameters
    ----------
    rows : BlockView
    model : str
        What needs every entry, for the message.
    names : sequence of str or None
        Names of the columns, for the message.
    remedy : str
        What fills missing entries, for the message.
    """
    if rows.observed is not None:
        row, column = np.unravel_index(int(np.argmin(rows.observed)), rows.observed.shape)
        entry = describe_entry("X", int(rows.numbers[row]), rows.table_column(int(column)), names)
        raise ValueError(
            f"{entry} is NaN; {model} needs every entry. Drop the rows or columns with missing entries, or fill "
            f"them first: {remedy} does."
        )


def open_complete(block: Block, model: str, names: Sequence[str] | None = None) -> BlockView:
    """The rows of a block, all of whose entries must be there."""
    rows = open_block(block)
    check_complete(rows, model, names)
    return rows


def refuse_missing(session: FitContext, model: str) -> None:
    """Raise a ValueError that names the first missing entry of the table of a fit, if there is one."""
    names = session.data.feature_names

    def look(block: Block) -> None:
        open_complete(block, model, names)

    if session.data.may_miss:
        session.gather(look)


def check_rows(family: Family, rows: BlockView, names: Sequence[str] | None = None) -> None:
    """Raise on the first entry of an opened block that its column's family cannot have produced, or is infinite."""
    bad = ~(np.isfinite(rows.x) & family.in_support(rows.x))
    if rows.observed is not None:
        # The number in the place of a missing entry need not be among the levels of an ordinal column.
        bad &= rows.observed
    if bad.any():
        row, column = np.argwhere(bad)[0]
        member = family.take(slice(column, column + 1))
        place = int(rows.numbers[row]), rows.table_column(int(column))
        raise_outside(member, *place, float(rows.x[row, column]), names)

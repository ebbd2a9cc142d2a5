"""Rows of a table as a model sees them, read lazily."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from anypca._typing import Floats, Ints
from anypca.engine._interface import Block, Source

if TYPE_CHECKING:
    from anypca.columns.layout import Layout


@dataclass(frozen=True)
class PickedSource:
    """Some columns of the rows of another source, each possibly several times."""

    source: Source
    columns: Ints

    def read(self, start: int, stop: int) -> Floats:
        """Rows start..stop as a new C-contiguous array (stop - start, n_columns), NaN where missing."""
        return np.take(self.source.read(start, stop), self.columns, axis=1)

    def matrix(self, start: int, stop: int) -> Any:
        """The same for products; sparse if the source is."""
        rows = self.source.matrix(start, stop)
        return rows[:, self.columns] if sparse.issparse(rows) else np.take(rows, self.columns, axis=1)

    def rows(self, start: int, stop: int) -> PickedSource:
        """The same rows as a source of their own."""
        return replace(self, source=self.source.rows(start, stop))


@dataclass(frozen=True)
class LaidSource:
    """The rows of a table as a layout makes them."""

    source: Source
    layout: Layout

    def read(self, start: int, stop: int) -> Floats:
        """Rows start..stop as a new C-contiguous array (stop - start, n_columns), NaN where missing."""
        return self.layout.split(self.source.read(start, stop))

    def matrix(self, start: int, stop: int) -> Any:
        """The same, dense."""
        return self.read(start, stop)

    def rows(self, start: int, stop: int) -> LaidSource:
        """The same rows as a source of their own."""
        return replace(self, source=self.source.rows(start, stop))


def lay_out_block(
    block: Block, layout: Layout, may_miss: bool, known: dict[int, tuple[Source, Source]] | None = None
) -> Block:
    """A block of the model's columns; ``known`` are sources that have been laid out, by their identity."""
    known = {} if known is None else known
    laid = known.setdefault(id(block.source), (block.source, layout.source_of(block.source)))[1]
    offset = block.offset_source
    # An offset with a single column belongs to rows, and to all columns alike.
    if offset is not None and offset.read(0, 0).shape[1] > 1:
        offset = PickedSource(offset, layout.sources)
    entry = None if block.entry_source is None else PickedSource(block.entry_source, layout.sources)
    return replace(
        block,
        source=laid,
        offset_source=offset,
        may_miss=may_miss,
        columns=layout.sources,
        entry_source=entry,
    )

"""Entries of a table that are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import Block


def check_entries(rows: Any, columns: Any, n_features: int) -> tuple[Ints, Ints]:
    """Places of entries as two arrays of integers.

    Raises
    ------
    ValueError
        If they are not pairs of integers.
    IndexError
        If a column is outside of the table.
    """
    row, column = (np.asarray(values) for values in (rows, columns))
    if row.ndim != 1 or row.shape != column.shape:
        raise ValueError(
            f"rows and columns name entries in pairs, one of each; got shapes {row.shape} and {column.shape}."
        )
    if row.size and not all(np.issubdtype(values.dtype, np.integer) for values in (row, column)):
        raise ValueError(
            f"rows and columns of entries must be integers; got {row.dtype} and {column.dtype}. "
            "np.nonzero(np.isnan(X)) gives those of missing entries."
        )
    row, column = row.astype(int), column.astype(int)
    outside = (column < 0) | (column >= n_features)
    if outside.any():
        raise IndexError(f"column {int(column[outside][0])} is outside of the table, which has {n_features}.")
    return row, column


def entries_of(block: Block, rows: Ints) -> Ints:
    """Which entries lie in a block, given the rows of all (in any order)."""
    return np.flatnonzero((rows >= block.start) & (rows < block.stop))


def in_order(found: Sequence[tuple[Ints, Floats]], n_entries: int) -> Floats:
    """What blocks say of their entries (places and values), in the order in which they were asked for.

    Raises
    ------
    IndexError
        If some entry lies in no block.
    """
    places = np.concatenate([place for place, _ in found])
    if len(places) < n_entries:
        missing = int(np.setdiff1d(np.arange(n_entries), places)[0])
        raise IndexError(
            f"entry {missing} of {n_entries} lies in no row of X: give row numbers from 0 to n_samples - 1."
        )
    values = np.concatenate([value for _, value in found])
    result = np.empty_like(values)
    result[places] = values
    return result

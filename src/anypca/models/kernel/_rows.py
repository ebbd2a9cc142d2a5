"""Taking rows out of a table held in blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from anypca._typing import Floats, Ints
from anypca.engine import Block, Data, Executor

# Temporary arrays of a worker, such as kernel values of some rows with all training rows, stay below this: in
# the cache if it is large, and with enough rows for products to run at full speed.
_CHUNK_BYTES = 2**23


def take_rows(data: Data, executor: Executor, numbers: Ints) -> Floats:
    """Some rows of a complete table, dense.

    Parameters
    ----------
    data : Data
    executor : Executor
    numbers : ndarray of shape (m,)
        Row numbers, increasing.

    Returns
    -------
    ndarray of shape (m, n_features), float64
    """

    def take(block: Block, _: Any) -> tuple[Floats, float]:
        first, last = np.searchsorted(numbers, [block.start, block.stop])
        if first == last:
            return np.empty((0, data.n_features)), 0.0
        return block.read().x[numbers[first:last] - block.start].astype(np.float64), 0.0

    return np.concatenate(executor.gather(executor.sweep(take, data)[0]))


def spread_rows(n_samples: int, most: int) -> Ints:
    """Row numbers spread evenly over a table: a sample that is the same for every layout and every fit."""
    return np.unique(np.linspace(0, n_samples - 1, min(most, n_samples)).round().astype(np.intp))


def all_rows(data: Data, executor: Executor, *, dense: bool) -> Any:
    """A complete table in one piece.

    Parameters
    ----------
    data : Data
    executor : Executor
    dense : bool
        Whether a sparse table is to be made dense.

    Returns
    -------
    ndarray or sparse array of shape (n_samples, n_features), float64
    """

    def take(block: Block, _: None) -> tuple[Any, float]:
        rows = block.read().x if dense else block.matrix()
        return rows.astype(np.float64), 0.0

    parts = executor.gather(executor.sweep(take, data)[0])
    return sparse.vstack(parts, format="csr") if hasattr(parts[0], "tocsr") else np.concatenate(parts)


def chunks(rows: Floats, width: int) -> Iterator[Floats]:
    """Runs of rows, about equally long, whose images with ``width`` columns fit in a worker's share of memory."""
    most = max(1, _CHUNK_BYTES // (8 * max(width, 1)))
    size = math.ceil(len(rows) / max(1, math.ceil(len(rows) / most))) or 1
    return (rows[start : start + size] for start in range(0, len(rows), size))

"""Taking rows out of a complete table held in blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from anypca._typing import Floats, Ints
from anypca.engine import Block
from anypca.models._session import Session

# Rows whose distances the width of the kernel is taken from: half a million pairs.
_SAMPLE_ROWS = 1000
# Temporary arrays of a worker, such as kernel values of some rows with all training rows, stay below this: in
# the cache if it is large, and with enough rows for products to run at full speed.
_CHUNK_BYTES = 2**23


def take_rows(session: Session, numbers: Ints) -> Floats:
    """Rows with the given increasing numbers (m,), dense, shape (m, n_features), float64."""
    n_features = session.data.n_features

    def take(block: Block) -> Floats:
        first, last = np.searchsorted(numbers, [block.start, block.stop])
        if first == last:
            return np.empty((0, n_features))
        return block.read().x[numbers[first:last] - block.start].astype(np.float64)

    return np.concatenate(session.gather(take))


def sample_rows(session: Session) -> Floats:
    """Rows spread evenly over the table (m, n_features): a sample that is the same for every layout and every fit."""
    n = session.data.n_samples
    return take_rows(session, np.unique(np.linspace(0, n - 1, min(_SAMPLE_ROWS, n)).round().astype(np.intp)))


def all_rows(session: Session, *, dense: bool) -> Any:
    """The table in one piece, float64; a sparse one stays sparse unless it is to be ``dense``."""

    def take(block: Block) -> Any:
        rows = block.read().x if dense else block.matrix()
        return rows.astype(np.float64)

    parts = session.gather(take)
    return sparse.vstack(parts, format="csr") if hasattr(parts[0], "tocsr") else np.concatenate(parts)


def chunks(rows: Floats, width: int) -> Iterator[Floats]:
    """Runs of rows, about equally long, whose images with ``width`` columns fit in a worker's share of memory."""
    most = max(1, _CHUNK_BYTES // (8 * max(width, 1)))
    size = math.ceil(len(rows) / max(1, math.ceil(len(rows) / most))) or 1
    return (rows[start : start + size] for start in range(0, len(rows), size))

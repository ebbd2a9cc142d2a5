"""What a row model says of the rows of one block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import Block
from anypca.models._opened import OpenedBlock, observed_only
from anypca.models._row_model import RowModel

# Entries whose matrices are gathered together: k x k numbers each, a few megabytes at k = 10.
_ENTRIES_AT_ONCE = 8192


def plugged_in(model: RowModel[Any], block: Block, rows: OpenedBlock) -> Floats:
    """eta (rows, n_features) at the rows' own scores, in the precision of the block."""
    scores = model.scores(model.solve(rows)).astype(rows.dtype)
    return model.predictor(block, scores.astype(np.float64, copy=False))


def plug_in(model: RowModel[Any], block: Block, rows: OpenedBlock) -> Floats:
    """Log-likelihood of the observed entries of each row at its own scores, shape (rows,)."""
    x = rows.x.astype(np.float64, copy=False)
    # At missing entries eta may be anything, also too large for its exponential.
    eta = observed_only(rows, slice(None), plugged_in(model, block, rows))
    terms = model.family.log_likelihood(x, eta, model.dispersion)
    totals: Floats = np.sum(terms, axis=1, where=True if rows.observed is None else rows.observed)
    return totals


def fill(model: RowModel[Any], block: Block, rows: OpenedBlock) -> tuple[Floats, Any]:
    """The rows with expectations in place of missing entries, and what they were solved to (None if complete)."""
    if rows.observed is None:
        return rows.x, None
    solved = model.solve(rows)
    expected = model.expected(block, rows, solved)
    return np.where(rows.observed, rows.x, expected).astype(rows.dtype, copy=False), solved


def fill_with_deviations(model: RowModel[Any], block: Block, rows: OpenedBlock) -> tuple[Floats, Floats]:
    """The same, and the standard deviations of what was filled in, 0 elsewhere."""
    filled, solved = fill(model, block, rows)
    std = np.zeros_like(filled)
    if rows.observed is not None:
        index, columns = np.nonzero(~rows.observed)

        def deviations(index: Ints, columns: Ints) -> Floats:
            return model.entry_deviations(rows, solved, index, columns)

        std[index, columns] = in_pieces(deviations, index, columns, np.empty(0))
    return filled, std


def in_pieces(function: Callable[[Ints, Ints], Floats], index: Ints, columns: Ints, none: Floats) -> Floats:
    """``function`` of entries, some at a time; ``none`` where there are no entries."""
    starts = range(0, len(index), _ENTRIES_AT_ONCE)
    parts = [slice(start, start + _ENTRIES_AT_ONCE) for start in starts]
    return np.concatenate([none, *(function(index[part], columns[part]) for part in parts)])

"""A sample of the rows of a tall table, on which its fit begins.

Most sweeps of a fit find out how many components there are and where they lie, roughly. On a table of many rows a
sample tells that too, in a small part of the time, and sweeps over all rows only refine it. They decide all the same:
noise and dimension of the whole table are compared on the whole table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import Block, check_data, check_values, executor_for, summarise
from anypca.engine.streams import store
from anypca.models._context import FitContext, ignore
from anypca.solvers.checkpoint import NULL_CHECKPOINTER

# Rows of a sample, at least; to each column of the table; and their share of the table. Components that stand out of
# the whole table by little are not seen in it, and are looked for later one by one.
_FEWEST, _PER_COLUMN, _SHARE = 5000, 10, 0.05
# Tables have at least so many times the rows of their sample: with fewer there would be little to gain.
_LEAST_RATIO = 4
# Entries of a sample, at most: 32 MB, beside which sweeps over a table larger than memory still fit.
_MOST_ENTRIES = 2**22
# Of the rows that are drawn; a constant, so that they do not depend on ``random_state``. Its value is arbitrary.
_SEED = 50


class _Rows(NamedTuple):
    """Some rows of a block with all that belongs to them."""

    values: Floats
    weight: Floats | None
    offset: Floats | None
    covariates: Floats
    entry_weight: Floats | None


def sample_size(n_samples: int, n_features: int) -> int:
    """Rows of the sample that a fit begins on; 0 where it begins on the whole table."""
    most = _MOST_ENTRIES // n_features
    size = max(_FEWEST, _PER_COLUMN * n_features, min(int(_SHARE * n_samples), most))
    return size if size <= most and n_samples >= _LEAST_RATIO * size else 0


@contextmanager
def open_subsample(session: FitContext) -> Iterator[FitContext | None]:
    """A session on a sample of the rows; ``None`` if there is to be none, or it says nothing of some column."""
    size = sample_size(session.data.n_samples, session.data.n_features)
    if not size:
        yield None
        return
    data = check_data(**_drawn(session, size))
    # In this process, also where the table is not.
    with executor_for(data, getattr(session.executor, "n_workers", None)) as executor:
        summary = summarise(data, executor)
        whole = session.summary
        is_covered = (summary.weight > 0) & (
            (summary.minimum < summary.maximum) | (whole.minimum == whole.maximum)
        )
        if not is_covered.all():
            yield None
            return
        yield replace(
            session,
            data=replace(check_values(summary, data), feature_names=session.data.feature_names),
            executor=executor,
            summary=replace(summary, resolution=whole.resolution),
            callback=ignore,
            rng=np.random.default_rng(_SEED),
            checkpointer=NULL_CHECKPOINTER,
        )


def _drawn(session: FitContext, size: int) -> dict[str, Any]:
    """The sample with its weights, offsets and covariates, as `check_data` takes them."""
    chosen = np.sort(np.random.default_rng(_SEED).choice(session.data.n_samples, size, replace=False))
    parts = session.gather(lambda block: _rows(block, chosen))
    join = _stored if session.data.is_in_file else _joined
    return {
        "X": join([part.values for part in parts]),
        "sample_weight": _joined([part.weight for part in parts]),
        "offset": join([part.offset for part in parts]),
        "covariates": _joined([part.covariates for part in parts]),
        "entry_weight": join([part.entry_weight for part in parts]),
    }


def _rows(block: Block, chosen: Ints) -> _Rows:
    """The rows of a block that are among those chosen, by their numbers in the whole table."""
    at = chosen[(chosen >= block.start) & (chosen < block.stop)] - block.start
    offset, entry_weight = block.offset(), block.entry_weight()
    return _Rows(
        block.values()[at],
        None if block.weight is None else block.weight[at],
        None if offset is None else offset[at],
        block.covariates[at],
        None if entry_weight is None else entry_weight[at],
    )


def _joined(parts: Sequence[Floats | None]) -> Floats | None:
    """Parts of all blocks one after the other; ``None`` if there are none."""
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if known else None


def _stored(parts: Sequence[Floats | None]) -> Floats | None:
    """The same in a temporary file."""
    known = [part for part in parts if part is not None]
    return store(known, known[0].dtype, known[0].shape[1]) if known else None

"""A sample of the rows of a tall table, on which its fit begins.

Most sweeps of a fit locate the components roughly and determine their number. For a table with many rows, a sample
suffices for this and takes a fraction of the time. Sweeps over all rows then refine the result. Noise models and
dimensions are still compared on the whole table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block, check_data, check_values, executor_for, summarise
from anypca.engine.streams import store
from anypca.models._context import FitContext, ignore
from anypca.solvers.checkpoint import NULL_CHECKPOINTER

# Rows of a sample, at least, and to each column of the table. Components that stand out of the whole table by little
# are not seen in it, and are looked for later one by one.
_FEWEST, _PER_COLUMN = 5000, 10
# Tables have at least so many times the rows of their sample: with fewer there would be little to gain.
_LEAST_RATIO = 4
# Maximum entries of a sample: 32 MB, which leaves memory for sweeps over a table larger than memory.
_MOST_ENTRIES = 2**22


def sample_size(n_samples: int, n_features: int) -> int:
    """Rows of the sample that a fit begins on; 0 where it begins on the whole table."""
    size = max(_FEWEST, _PER_COLUMN * n_features)
    return size if size * n_features <= _MOST_ENTRIES and n_samples >= _LEAST_RATIO * size else 0


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
            rng=np.random.default_rng(0),
            checkpointer=NULL_CHECKPOINTER,
        )


def _drawn(session: FitContext, size: int) -> dict[str, Any]:
    """The sample with its weights, offsets and covariates, as `check_data` takes them."""
    chosen = np.sort(np.random.default_rng(0).choice(session.data.n_samples, size, replace=False))

    def rows(block: Block) -> dict[str, Floats]:
        at = chosen[(chosen >= block.start) & (chosen < block.stop)] - block.start
        parts = {
            "X": block.values(),
            "sample_weight": block.weight,
            "offset": block.offset(),
            "covariates": block.covariates,
            "entry_weight": block.entry_weight(),
        }
        return {name: part[at] for name, part in parts.items() if part is not None}

    parts = session.gather(rows)
    wide = ("X", "offset", "entry_weight") if session.data.is_in_file else ()
    return {name: _joined([part[name] for part in parts], in_file=name in wide) for name in parts[0]}


def _joined(parts: Sequence[Floats], *, in_file: bool) -> Floats:
    """Rows of all blocks in one array, if asked for in a temporary file."""
    return store(parts, parts[0].dtype, parts[0].shape[1]) if in_file else np.concatenate(parts)

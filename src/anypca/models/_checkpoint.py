"""Checkpoints of fits: their identity, and the session that saves its progress."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import joblib
import numpy as np

from anypca._typing import Floats
from anypca.engine import Block
from anypca.models._context import FitContext
from anypca.solvers import Checkpoint
from anypca.solvers.checkpoint import Checkpointer

# Parameters that do not change what is fitted.
_INDIFFERENT = frozenset({"n_jobs", "verbose"})


@contextmanager
def checkpointed(
    session: FitContext, name: str, parameters: Mapping[str, Any], checkpoint: Any
) -> Iterator[FitContext]:
    """The session with a checkpointer, or as it is without a checkpoint.

    Parameters
    ----------
    session : FitContext
    name : str
        Of the model.
    parameters : mapping
        What the model was made with.
    checkpoint : Checkpoint, path-like or None

    Raises
    ------
    ValueError
        If the file is of another model, of other settings or of another table.
    """
    if checkpoint is None:
        yield session
        return
    where = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)
    identity = {
        "model": {"name": name},
        "set of parameters": {
            key: _told(value) for key, value in parameters.items() if key not in _INDIFFERENT
        },
        "table": _facts(session),
    }
    origin = {"rng": session.rng.bit_generator.state}
    with Checkpointer(where, identity, origin) as checkpointer:
        session.rng.bit_generator.state = dict(checkpointer.origin["rng"])
        yield replace(session, checkpointer=checkpointer)


def _told(value: Any) -> Any:
    """A parameter as it is, or a digest of one that is no number or word."""
    return value if value is None or isinstance(value, bool | int | float | str) else joblib.hash(value)


def _facts(session: FitContext) -> dict[str, Any]:
    """Facts that identify the table of a fit."""
    data, summary = session.data, session.summary
    return {
        "the number of rows": data.n_samples,
        "the number of columns": data.n_features,
        "the number of covariates": data.n_covariates,
        "its type": str(data.dtype),
        "the number of observed entries of a column": summary.n_observed,
        "the smallest value of a column": summary.minimum,
        "the largest value of a column": summary.maximum,
        "the mean of a column": summary.mean,
        "the variance of a column": summary.variance,
        "its offset or covariates": np.asarray(session.sum(_companions), dtype=float),
    }


def _companions(block: Block, _: Any) -> Floats:
    """Sums of the offsets and covariates of a block, which identify them."""
    offset = block.offset()
    return np.array([0.0 if offset is None else float(offset.sum()), float(np.abs(block.covariates).sum())])

"""Warm starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from anypca.models._context import FitContext
from anypca.solvers.checkpoint import Entry, NullCheckpointer, key_of


@contextmanager
def start_from_last(model: Any, session: FitContext) -> Iterator[FitContext]:
    """The session with the start of an earlier fit, for estimators with the parameters ``warm_start`` and ``init``.

    The start replaces the first point of the first reported run of sweeps whose parameters have the same shapes; rows
    are solved anew. Earlier steps (models without components, families, first dispersions) are repeated.
    """
    if not hasattr(model, "warm_start"):
        yield session
        return
    relay = _Relay(session.checkpointer, find_start(model))
    yield replace(session, checkpointer=relay)
    if model.warm_start:
        model._last_run = relay.last


def find_start(model: Any) -> Any:
    """The shared parameters to start from, ``None`` for the model's own start.

    Raises
    ------
    TypeError, ValueError
        If ``init`` is no fit of this class that has kept its parameters.
    """
    last = vars(model).get("_last_run")
    if model.warm_start and last is not None:
        return last
    if model.init is None:
        return None
    name = type(model).__name__
    if not isinstance(model.init, type(model)):
        raise TypeError(f"init must be a fitted {name} or None; got {type(model.init).__name__}.")
    if vars(model.init).get("_last_run") is None:
        raise ValueError(
            f"init must be a {name} that was fitted with warm_start=True, or by partial_fit; this one has not "
            "kept where it ended."
        )
    return model.init._last_run


def cold_clone(model: Any) -> Any:
    """An unfitted copy that starts on its own: for fits to parts of a table, which another fit has seen whole."""
    return clone(model).set_params(warm_start=False, init=None)


class _Relay(NullCheckpointer):
    """Passes a start to the first run that it fits, and keeps the end of the last run."""

    def __init__(self, checkpointer: NullCheckpointer, start: Any) -> None:
        self._checkpointer = checkpointer
        self._start = start
        self._problem: Any = None
        self.last: Any = None

    def load(self, problem: Any, shared: Any, *, is_reported: bool = True) -> Entry | None:
        self._problem = problem
        known = self._checkpointer.load(problem, shared, is_reported=is_reported)
        if known is not None or self._start is None or not is_reported:
            return known
        key = key_of(problem, shared)
        if type(self._start) is not type(shared) or key_of(problem, self._start) != key:
            return None
        # The first run that it fits takes it; later ones, as of other dimensions, start on their own.
        start, self._start = self._start, None
        return Entry(0, key, start, np.empty(0))

    def save(self, shared: Any, trace: list[float]) -> None:
        self._checkpointer.save(shared, trace)

    def close(self, result: Any, stats: Any, *, is_reported: bool = True) -> None:
        if is_reported:  # others serve for comparison, such as the model without components
            self.last = self._problem.without_gauge(result.shared)
        self._checkpointer.close(result, stats, is_reported=is_reported)

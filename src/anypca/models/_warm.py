"""Fits that start where another one ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from anypca.models._context import FitContext
from anypca.solvers.checkpoint import Entry, NullCheckpointer, key_of


@dataclass(eq=False, repr=False)
class WarmStart:
    """Estimators whose fit may start from the shared parameters with which an earlier one ended.

    These take the place of the start of the first run of sweeps whose parameters have the same shapes and which a user
    is told of; rows are solved anew. What comes before (models without components, families, dispersions of a start) is
    done as always.
    """

    _: KW_ONLY
    warm_start: bool = False
    init: Any = None
    _last_run: ClassVar[Any] = None

    def _start(self) -> Any:
        """The shared parameters to start from, ``None`` for a start of the model's own.

        Raises
        ------
        TypeError, ValueError
            If ``init`` is no fit of this class that has kept its parameters.
        """
        if self.warm_start and self._last_run is not None:
            return self._last_run
        if self.init is None:
            return None
        name = type(self).__name__
        if not isinstance(self.init, type(self)):
            raise TypeError(f"init must be a fitted {name} or None; got {type(self.init).__name__}.")
        if self.init._last_run is None:
            raise ValueError(
                f"init must be a {name} that was fitted with warm_start=True, or by partial_fit; this one has not "
                "kept where it ended."
            )
        return self.init._last_run

    @contextmanager
    def _with_warm_start(self, session: FitContext) -> Iterator[FitContext]:
        """The session with the start; where it ends is kept if somebody asked for it."""
        relay = _Relay(session.checkpointer, self._start())
        yield replace(session, checkpointer=relay)
        if self.warm_start:
            self._last_run = relay.last  # type: ignore[misc]


def cold_clone(model: Any) -> Any:
    """An unfitted copy that starts on its own: for fits to parts of a table, which another fit has seen whole."""
    return clone(model).set_params(warm_start=False, init=None)


class _Relay(NullCheckpointer):
    """Hands a start to the first run that it fits, and remembers where the last one ended."""

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

"""The working set of a fit: its table, who visits it, what is known of it, and who is told of progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from anypca.engine import Block, Data, Executor, Summary, check_values, executor_for, summarise
from anypca.solvers import BlockProblem, Callback, Loop, Progress
from anypca.solvers.closed_form import Centring, Spectrum, covariance_spectrum

Shared = TypeVar("Shared")
Local = TypeVar("Local")
Stats = TypeVar("Stats")


@dataclass(frozen=True)
class Session:
    """What a fit works with, open while the ``with`` block of `open_session` runs."""

    data: Data
    executor: Executor
    summary: Summary
    """Of ``data``."""
    callback: Callback
    """Reports the progress of `anypca.solvers.Loop`."""
    rng: np.random.Generator
    max_iter: int
    tol: float

    def sum(self, function: Callable[[Block, Any], Any], local: Sequence[Any] | None = None) -> Any:
        """Sum of ``function(block, local)`` over the blocks, of anything that adds."""
        return self.executor.sum(function, self.data, local)

    def map(self, function: Callable[[Block, Any], Any], local: Sequence[Any] | None = None) -> Sequence[Any]:
        """``function(block, local)`` of each block, where the blocks are."""
        return self.executor.map(function, self.data, local)

    def gather(self, function: Callable[[Block], Any]) -> list[Any]:
        """``function(block)`` of each block, in row order, in this process."""
        return self.executor.collect(function, self.data)

    def spectrum(self, centring: Centring, *, divisor: float, n_components: int | None = None) -> Spectrum:
        """Eigendecomposition of the covariance of centred rows, all of it or the leading ``n_components``."""
        return covariance_spectrum(
            self.data, self.executor, centring, divisor=divisor, n_components=n_components, rng=self.rng
        )

    def loop(
        self,
        problem: BlockProblem[Shared, Local, Stats],
        *,
        max_iter: int | None = None,
        tol: float | None = None,
        accelerate: bool = True,
        is_reported: bool = True,
    ) -> Loop[Shared, Local, Stats]:
        """The loop that solves a problem on this table, with the limits of the fit unless others are given."""
        callback = self.callback if is_reported else None
        return Loop(
            problem,
            self.data,
            self.executor,
            max_iter=self.max_iter if max_iter is None else max_iter,
            tol=self.tol if tol is None else tol,
            accelerate=accelerate,
            callback=callback,
        )


def ignore(progress: Progress) -> None:
    """The callback of fits that nobody is told of."""


@contextmanager
def open_session(
    data: Data,
    n_jobs: int | None = None,
    *,
    callback: Callback = ignore,
    rng: np.random.Generator | None = None,
    max_iter: int = 1,
    tol: float = 0.0,
) -> Iterator[Session]:
    """Open what a fit to a table works with.

    Parameters
    ----------
    data : Data
    n_jobs : int or None
        Number of threads; None means all cores.
    callback : callable, optional
    rng : Generator or None
        None is for what draws nothing.
    max_iter : int
    tol : float

    Raises
    ------
    ValueError
        If no model can be fitted to the table; see `anypca.engine.check_values`.
    """
    rng = np.random.default_rng(0) if rng is None else rng
    with executor_for(data, n_jobs) as executor:
        summary = summarise(data, executor)
        yield Session(check_values(summary, data), executor, summary, callback, rng, max_iter, tol)

"""State shared by all steps of a fit: data, executor, summary statistics, callback."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from anypca.columns import (
    FamilyChoice,
    Form,
    Layout,
    encode_columns,
    resolve_resolution,
)
from anypca.engine import Block, Data, Executor, Summary, check_values, executor_for, summarise
from anypca.solvers import BlockProblem, Callback, Loop, Progress
from anypca.solvers.checkpoint import NULL_CHECKPOINTER, NullCheckpointer
from anypca.solvers.closed_form import Centring, Spectrum, covariance_spectrum

Shared = TypeVar("Shared")
Local = TypeVar("Local")
Stats = TypeVar("Stats")


@dataclass(frozen=True)
class FitContext:
    """State shared by all steps of a fit, open inside the ``with`` block of `open_context`."""

    data: Data
    """The columns of the model; the columns of the user's table before `encode_columns` is called."""
    executor: Executor
    summary: Summary
    """Of ``data``."""
    layout: Layout
    """How ``data`` comes from the user's table."""
    callback: Callback
    """Reports the progress of `anypca.solvers.Loop`."""
    rng: np.random.Generator
    max_iter: int
    tol: float
    checkpointer: NullCheckpointer = NULL_CHECKPOINTER
    """Saves the progress of the loops; see `anypca.models._checkpoint`."""
    choice: FamilyChoice | None = None
    """The families of the columns of the user's table, if they are known."""
    coef_scale: float | None = None
    """Prior standard deviation of coefficients of standardised covariates; ``None`` for no prior."""

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
        """Eigendecomposition of the covariance of centred rows: at least the leading ``n_components``, or all of it."""
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
            checkpointer=self.checkpointer,
        )


def ignore(progress: Progress) -> None:
    """A callback that does nothing."""


@contextmanager
def open_context(
    data: Data,
    n_jobs: int | None = None,
    *,
    callback: Callback = ignore,
    rng: np.random.Generator | None = None,
    max_iter: int = 1,
    tol: float = 0.0,
    resolution: Any = None,
) -> Iterator[FitContext]:
    """Open the context of a fit to a table.

    Parameters
    ----------
    data : Data
    n_jobs : int or None
        Number of threads; None means all cores.
    callback : callable, optional
    rng : Generator or None
        ``None`` if nothing is drawn.
    max_iter : int
    tol : float
    resolution : None, float, sequence or mapping
        Steps with which columns are recorded, instead of those that their values show.

    Raises
    ------
    ValueError
        If no model can be fitted to the table; see `anypca.engine.check_values`.
    """
    rng = np.random.default_rng(0) if rng is None else rng
    with executor_for(data, n_jobs) as executor:
        summary = summarise(data, executor)
        steps = resolve_resolution(resolution, summary.resolution, data.feature_names)
        summary = replace(summary, resolution=steps)
        labels = tuple(data.labels.items())
        layout = Layout(data.n_features, table_names=data.feature_names, labels=labels)
        yield FitContext(check_values(summary, data), executor, summary, layout, callback, rng, max_iter, tol)


def lay_out(session: FitContext, choice: FamilyChoice | None, dropped: Mapping[int, Form]) -> FitContext:
    """A session on the columns of the model instead of the columns of the user's table.

    Parameters
    ----------
    session : FitContext
        On the user's table.
    choice : FamilyChoice or None
        The families of its columns, where the model has a choice of them, with the forms that they ask for.
    dropped : mapping of int to Form
        Columns that the model leaves out in any case.
    """
    columns = encode_columns(session, choice, dropped)
    return replace(
        session, data=columns.data, summary=columns.summary, layout=columns.layout, choice=columns.choice
    )

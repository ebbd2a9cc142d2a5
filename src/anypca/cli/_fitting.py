"""What all commands do: fit under a progress bar, on threads or a cluster, and collect warnings."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from anypca._typing import Floats
from anypca.cli._input_table import InputTable
from anypca.cli._models import ModelRequest, build, check_companions
from anypca.cli._progress import progress
from anypca.models._description import project_rows


@dataclass(frozen=True)
class Runtime:
    """How a command runs and talks."""

    as_json: bool = False
    has_bar: bool | None = None
    """Whether there is a progress bar; ``None``: if stderr is a terminal."""
    dask: str | None = None
    """Address of a Dask scheduler."""

    @property
    def shows_bar(self) -> bool:
        """Whether a progress bar is drawn."""
        return sys.stderr.isatty() if self.has_bar is None else self.has_bar


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted model, its time and what it warned of."""

    model: Any
    seconds: float
    warnings: tuple[str, ...]


def fit_model(request: ModelRequest, table: InputTable, runtime: Runtime, *, words: str = "fitting") -> Fit:
    """Fit a model to a table.

    Parameters
    ----------
    request : ModelRequest
    table : InputTable
    runtime : Runtime
    words : str
        What the progress bar is called.

    Returns
    -------
    fit : Fit

    Raises
    ------
    ValueError
        If the model cannot use what came with the table.
    """
    model = make_model(request, table, runtime)
    with _place(table, runtime.dask) as X, caught() as said, shown_bar(runtime, words):
        start = time.perf_counter()
        model.fit(X, **table.companions(model))
        seconds = time.perf_counter() - start
    # Whether somebody watched is no property of the model: its file must not depend on it.
    model.set_params(verbose=0)
    return Fit(model, seconds, tuple(said))


def make_model(request: ModelRequest, table: InputTable, runtime: Runtime) -> Any:
    """The estimator that a user asked for, not yet fitted, if it can use the table and what came with it.

    Raises
    ------
    ValueError
        If it cannot.
    """
    check_companions(
        request.name,
        offset=table.is_offset_asked,
        covariates=table.covariates is not None,
        missing=table.frame.n_missing > 0,
    )
    return build(request, table.shape, verbose=runtime.shows_bar)


def project(model: Any, table: InputTable) -> tuple[Floats, Floats | None, tuple[str, ...]]:
    """Scores of rows and, where the model has a posterior, their standard deviations.

    Parameters
    ----------
    model : fitted estimator
    table : InputTable

    Returns
    -------
    scores : ndarray of shape (n_rows, n_components)
    deviations : ndarray of the same shape or None
    said : tuple of str
        Warnings.
    """
    with caught() as said:
        scores, deviations = project_rows(model, table.as_input(model), **table.companions(model))
    return scores, deviations, tuple(said)


@contextmanager
def caught() -> Iterator[list[str]]:
    """Collect warnings as single lines, each once.

    Yields
    ------
    said : list of str
        Filled when the block ends.
    """
    said: list[str] = []
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always")
        yield said
    said.extend(dict.fromkeys(" ".join(str(record.message).split()) for record in records))


@contextmanager
def shown_bar(runtime: Runtime, words: str) -> Iterator[None]:
    """A progress bar on stderr, where one is wanted.

    Parameters
    ----------
    runtime : Runtime
    words : str
        What is being done.

    Yields
    ------
    None
    """
    console = Console(stderr=True, force_terminal=True if runtime.has_bar else None)
    with progress(console, is_shown=runtime.shows_bar, words=words):
        yield


@contextmanager
def _place(table: InputTable, address: str | None) -> Iterator[Any]:
    """The table in this process, or on the workers of a cluster."""
    if address is None:
        yield table.as_input()
        return
    from anypca.cli._cluster import on_cluster  # Dask is optional

    with on_cluster(table.frame.values, address) as distributed:
        yield distributed

"""Shared by all commands: fit with a progress bar, on threads or a cluster, and collect warnings."""

from __future__ import annotations

import logging
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TimeElapsedColumn

from anypca._typing import Floats
from anypca.cli._input_table import InputTable
from anypca.cli._models import build, check_companions
from anypca.cli._requests import ModelRequest, Runtime
from anypca.models._description import project_rows

#: Seconds between lines of progress in a pipe.
_INTERVAL = 10.0
#: The variable that changes it.
INTERVAL_VARIABLE = "ANYPCA_PROGRESS_SECONDS"


class _Listener(logging.Handler):
    """Calls a function with each record that carries an iteration."""

    def __init__(self, show: Callable[[Any], None]) -> None:
        super().__init__(logging.INFO)
        self._show = show

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "iteration", None) is not None:
            self._show(record)


@contextmanager
def _listening(show: Callable[[Any], None]) -> Iterator[None]:
    """Give the records of fits to a function, and to no other handler."""
    logger, handler = logging.getLogger("anypca"), _Listener(show)
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]


@contextmanager
def shown_bar(runtime: Runtime, words: str) -> Iterator[None]:
    """A progress bar on stderr if one is wanted; in a pipe a line every ten seconds.

    Parameters
    ----------
    runtime : Runtime
    words : str
        What is being done.

    Yields
    ------
    None
    """
    if runtime.has_bar is False:
        yield
    elif runtime.shows_bar:
        with _bar(words, is_forced=bool(runtime.has_bar)) as show, _listening(show):
            yield
    else:
        with _listening(_lines(words)):
            yield


@contextmanager
def _bar(words: str, *, is_forced: bool) -> Iterator[Callable[[Any], None]]:
    columns = ("{task.description}", BarColumn(), "iteration {task.completed:.0f}", "{task.fields[state]}")
    console = Console(stderr=True, force_terminal=True if is_forced else None)
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task(words, total=None, state="")

        def show(record: Any) -> None:
            objective, criterion = (getattr(record, name, None) for name in ("objective", "criterion"))
            state = "" if objective is None else f"objective {objective:.8g}"
            state += "" if criterion is None else f", scaled gradient {criterion:.1e}"
            total = getattr(record, "max_iter", None)
            bar.update(task, total=total, completed=record.iteration, state=state)

        yield show


def _lines(words: str) -> Callable[[Any], None]:
    """A function that writes a line to stderr at intervals."""
    every = float(os.environ.get(INTERVAL_VARIABLE, _INTERVAL))
    start = last = time.monotonic()

    def show(record: Any) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= every:
            last = now
            objective = getattr(record, "objective", float("nan"))
            seconds = f"{now - start:.0f} s"
            sys.stderr.write(f"{words}: iteration {record.iteration}, objective {objective:.8g}, {seconds}\n")
            sys.stderr.flush()

    return show


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted model, its run time and its warnings."""

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
        If the model does not support an option.
    """
    model = make_model(request, table, runtime)
    with _place(table, runtime.dask) as X, caught() as said, shown_bar(runtime, words):
        start = time.perf_counter()
        resumable = {} if runtime.checkpoint is None else {"checkpoint": runtime.checkpoint}
        model.fit(X, **table.companions(model), **resumable)
        seconds = time.perf_counter() - start
    # The model file must not depend on whether progress was shown.
    model.set_params(verbose=0)
    return Fit(model, seconds, tuple(said))


def make_model(request: ModelRequest, table: InputTable, runtime: Runtime) -> Any:
    """Build the requested estimator, and check that it supports the table and the options.

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
        checkpoint=runtime.checkpoint is not None,
    )
    return build(request, table.shape, verbose=runtime.is_watched)


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
def _place(table: InputTable, address: str | None) -> Iterator[Any]:
    """The table in this process, or on the workers of a cluster."""
    if address is None:
        yield table.as_input()
        return
    from anypca.cli._cluster import on_cluster  # Dask is optional

    with on_cluster(table.frame.values, address) as distributed:
        yield distributed

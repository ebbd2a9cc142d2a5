"""What all commands do: fit under a progress bar, on threads or a cluster, and collect warnings."""

from __future__ import annotations

import logging
import os
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from anypca._typing import Floats
from anypca.cli._input_table import InputTable
from anypca.cli._models import ModelRequest, build, check_companions
from anypca.models._description import project_rows

#: Seconds between lines of progress in a pipe: often enough to see that a fit lives, seldom enough for a log file.
_INTERVAL = 10.0
#: The variable that changes it.
INTERVAL_VARIABLE = "ANYPCA_PROGRESS_SECONDS"


class ProgressHandler(logging.Handler):
    """Moves a progress bar with each record that carries ``iteration`` and ``max_iter``.

    Parameters
    ----------
    bar : rich.progress.Progress
    words : str
        What is being done.
    """

    def __init__(self, bar: Progress, words: str = "fitting") -> None:
        super().__init__(logging.INFO)
        self._bar = bar
        self._task = bar.add_task(words, total=None, objective="", criterion="")
        self._last = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Show the iteration of a record; records without one are not for the bar."""
        iteration, total = getattr(record, "iteration", None), getattr(record, "max_iter", None)
        if iteration is None or total is None:
            return
        self._last = iteration
        objective, criterion = getattr(record, "objective", None), getattr(record, "criterion", None)
        self._bar.update(
            self._task,
            total=total,
            completed=iteration,
            objective="" if objective is None else f"objective {objective:.8g}",
            criterion="" if criterion is None else f"scaled gradient {criterion:.1e}",
        )

    def finish(self) -> None:
        """Fill the bar: a fit that stops early is done, not given up."""
        self._bar.update(self._task, total=max(self._last, 1), completed=max(self._last, 1))


class LineHandler(logging.Handler):
    """Writes a line on stderr now and then, where there is no terminal for a bar.

    Parameters
    ----------
    words : str
        What is being done.
    every : float
        Seconds between lines; the first one comes after as many.
    """

    def __init__(self, words: str, every: float) -> None:
        super().__init__(logging.INFO)
        self._words, self._every = words, every
        self._start = self._last = time.monotonic()

    def emit(self, record: logging.LogRecord) -> None:
        """Write the iteration of a record, if it is time."""
        now, iteration = time.monotonic(), getattr(record, "iteration", None)
        if iteration is None or now - self._last < self._every:
            return
        self._last = now
        objective = getattr(record, "objective", float("nan"))
        seconds = f"{now - self._start:.0f} s"
        sys.stderr.write(f"{self._words}: iteration {iteration}, objective {objective:.8g}, {seconds}\n")
        sys.stderr.flush()


@contextmanager
def listening(handler: logging.Handler) -> Iterator[None]:
    """Give the records of fits to a handler, and to no other, while the block runs.

    Parameters
    ----------
    handler : logging.Handler

    Yields
    ------
    None
    """
    logger = logging.getLogger("anypca")
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    # The handler says it all: the root logger would print each line between.
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]


@contextmanager
def progress(console: Console, *, is_shown: bool, words: str = "fitting") -> Iterator[None]:
    """Show a progress bar while the block runs.

    Parameters
    ----------
    console : rich.console.Console
    is_shown : bool
        Nothing is done when False.
    words : str
        What is being done.

    Yields
    ------
    None
    """
    if not is_shown:
        yield
        return
    columns = ("{task.description}", BarColumn(), "iteration {task.completed:.0f}")
    fields = (TextColumn("{task.fields[objective]}"), TextColumn("{task.fields[criterion]}"))
    with Progress(*columns, *fields, TimeElapsedColumn(), console=console, transient=True) as bar:
        handler = ProgressHandler(bar, words)
        with listening(handler):
            yield
            handler.finish()


@dataclass(frozen=True)
class Runtime:
    """How a command runs and talks."""

    as_json: bool = False
    has_bar: bool | None = None
    """Whether there is a progress bar; ``None``: if stderr is a terminal."""
    dask: str | None = None
    """Address of a Dask scheduler."""
    force: bool = False
    """Whether files of others may be replaced."""
    raw: bool = False
    """Whether names that a spreadsheet takes for formulas are written as they are."""
    checkpoint: Path | None = None
    """File for the progress of the fit."""

    @property
    def shows_bar(self) -> bool:
        """Whether a progress bar is drawn."""
        return sys.stderr.isatty() if self.has_bar is None else self.has_bar

    @property
    def is_watched(self) -> bool:
        """Whether progress is shown: by a bar, or by a line now and then."""
        return self.has_bar is not False


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
        resumable = {} if runtime.checkpoint is None else {"checkpoint": runtime.checkpoint}
        model.fit(X, **table.companions(model), **resumable)
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
def shown_bar(runtime: Runtime, words: str) -> Iterator[None]:
    """A progress bar on stderr where one is wanted; in a pipe a line every ten seconds.

    Parameters
    ----------
    runtime : Runtime
    words : str
        What is being done.

    Yields
    ------
    None
    """
    if runtime.is_watched and not runtime.shows_bar:
        with listening(LineHandler(words, float(os.environ.get(INTERVAL_VARIABLE, _INTERVAL)))):
            yield
        return
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

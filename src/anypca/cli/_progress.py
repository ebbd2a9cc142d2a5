"""A progress bar driven by the log records of a fit."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn


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
    logger = logging.getLogger("anypca")
    before = logger.level, logger.propagate
    with Progress(*columns, *fields, TimeElapsedColumn(), console=console, transient=True) as bar:
        handler = ProgressHandler(bar, words)
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        # The bar says it all: the root logger would print each line between.
        logger.propagate = False
        try:
            yield
            handler.finish()
        finally:
            logger.removeHandler(handler)
            logger.setLevel(before[0])
            logger.propagate = before[1]

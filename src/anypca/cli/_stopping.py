"""Stopping: Ctrl-C and the signal TERM end a command in one way, never in the middle of putting files in place.

Nothing but Python is imported here, so that a signal is heard from the first moment on.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from signal import SIGINT, SIGTERM
from typing import Any, NoReturn

__all__ = ["INTERRUPTED", "SIGTERM", "Terminated", "say_stopped", "shielded", "terminable"]

#: What a shell reports for a process that a signal ended is 128 more than the signal's number.
_BASE = 128
INTERRUPTED = _BASE + SIGINT


class Terminated(BaseException):
    """The signal TERM came; not a KeyboardInterrupt, of which typer makes an exit code of its own."""


@contextmanager
def terminable() -> Iterator[None]:
    """Let the signal TERM interrupt as Ctrl-C does, so that what was begun is cleaned up."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread hears signals
        return
    before = signal.signal(SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(SIGTERM, before)


@contextmanager
def shielded() -> Iterator[None]:
    """Hear no signal: files are being put in place, which takes a moment, and what follows is to say so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    kinds = (SIGINT, SIGTERM)
    before = [signal.signal(kind, signal.SIG_IGN) for kind in kinds]
    try:
        yield
    finally:
        for kind, handler in zip(kinds, before, strict=True):
            signal.signal(kind, handler)


def say_stopped(number: int = SIGINT) -> int:
    """Tell that a command was stopped.

    Parameters
    ----------
    number : int
        Of the signal.

    Returns
    -------
    code : int
    """
    sys.stderr.write("stopped, nothing written\n")
    return _BASE + number


def _terminate(*signal_and_frame: Any) -> NoReturn:
    raise Terminated

"""Stopping: Ctrl-C and the signal TERM end a command in one way, never in the middle of putting files in place.

This module imports only the standard library, so that signals are handled from the start.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from signal import SIGINT, SIGTERM
from typing import Any, NoReturn

__all__ = ["INTERRUPTED", "SIGTERM", "Terminated", "say_stopped", "shielded", "terminable"]

#: What a shell reports for a process that a signal ended is 128 more than the signal's number.
_BASE = 128
INTERRUPTED = _BASE + SIGINT


class Terminated(BaseException):
    """Raised on the signal TERM. It is not a KeyboardInterrupt, which typer maps to its own exit code."""


@contextmanager
def _handled(handlers: Mapping[signal.Signals, Any]) -> Iterator[None]:
    """Replace signal handlers temporarily; only in the main thread."""
    is_heard = threading.current_thread() is threading.main_thread()
    before = {kind: signal.signal(kind, handler) for kind, handler in handlers.items() if is_heard}
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def terminable() -> AbstractContextManager[None]:
    """Handle the signal TERM like Ctrl-C, so that partial results are removed."""
    return _handled({SIGTERM: _terminate})


def shielded() -> AbstractContextManager[None]:
    """Ignore signals while files are moved to their places and reported."""
    return _handled({SIGINT: signal.SIG_IGN, SIGTERM: signal.SIG_IGN})


def say_stopped(number: int = SIGINT) -> int:
    """Print that a command was stopped.

    Parameters
    ----------
    number : int
        Of the signal.

    Returns
    -------
    code : int
    """
    sys.stderr.write("stopped, nothing written\n")
    # Python remembers a Ctrl-C that came while code in a string ran, as when dataclasses are made during an import, and
    # would end itself by the signal and not with the code below; code in a string that ends well makes it forget.
    exec("")
    return _BASE + number


def _terminate(*signal_and_frame: Any) -> NoReturn:
    raise Terminated

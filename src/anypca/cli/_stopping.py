"""Stopping: Ctrl-C and the signal TERM end a command in one way, never in the middle of putting files in place.

Nothing but Python is imported here, so that a signal is heard from the first moment on.
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
    """Have signals handled otherwise for a while; only the main thread hears them."""
    is_heard = threading.current_thread() is threading.main_thread()
    before = {kind: signal.signal(kind, handler) for kind, handler in handlers.items() if is_heard}
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def terminable() -> AbstractContextManager[None]:
    """Let the signal TERM interrupt as Ctrl-C does, so that what was begun is cleaned up."""
    return _handled({SIGTERM: _terminate})


def shielded() -> AbstractContextManager[None]:
    """Hear no signal: files are being put in place, which takes a moment, and what follows is to say so."""
    return _handled({SIGINT: signal.SIG_IGN, SIGTERM: signal.SIG_IGN})


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
    # Python remembers a Ctrl-C that came while code in a string ran, as when dataclasses are made during an import, and
    # would end itself by the signal and not with the code below; code in a string that ends well makes it forget.
    exec("")
    return _BASE + number


def _terminate(*signal_and_frame: Any) -> NoReturn:
    raise Terminated

"""One BLAS thread per worker: parallelism comes from the blocks."""

from __future__ import annotations

import functools
import threading
from contextlib import ExitStack
from types import TracebackType

import scipy.linalg  # noqa: F401  (loads scipy's BLAS, so that the controller below sees it)
from threadpoolctl import ThreadpoolController


@functools.cache
def _controller() -> ThreadpoolController:
    """The loaded BLAS libraries; finding them takes milliseconds, so it is done once."""
    return ThreadpoolController()


class _SharedLimit:
    """Holds BLAS at one thread while anyone in this process is inside.

    The number of BLAS threads belongs to the process. Two fits in two threads that saved and restored it
    on their own could leave it at one for ever; counting those inside restores it exactly once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._restore = ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._restore.enter_context(_controller().limit(limits=1, user_api="blas"))
            self._inside += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._restore.close()


#: Reentrant context manager; use it around every call of a block function.
one_blas_thread = _SharedLimit()

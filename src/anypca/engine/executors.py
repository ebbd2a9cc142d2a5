"""Visiting blocks with threads, each with one thread of BLAS, and the choice of an executor."""

from __future__ import annotations

import contextvars
import functools
import itertools
import operator
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from numbers import Integral
from typing import Any, Self

import joblib
import numpy as np
import scipy.linalg  # noqa: F401  (loads scipy's BLAS, so that the controller below sees it)
from threadpoolctl import ThreadpoolController

from anypca.engine._interface import Block, Data, Executor, Local, Total
from anypca.engine._shelf import Shelf

#: Twice the arrays of a block of 1024 x 1000 entries; the C library then keeps up to twice as much.
_KEPT_BYTES = 2**24


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

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._restore.close()


#: Reentrant context manager; use it around every call of a block function.
one_blas_thread = _SharedLimit()


def executor_for(data: Data, n_jobs: int | None = None) -> Executor:
    """The executor that fits where the blocks are.

    Parameters
    ----------
    data : Data
    n_jobs : int, optional
        Number of threads for data in this process, see `ThreadExecutor`. For Dask the cluster (or the
        scheduler) decides, and ``n_jobs`` is not used.
    """
    if data.is_distributed:
        from anypca.engine.dask import DaskExecutor  # dask is optional

        return DaskExecutor()
    return ThreadExecutor(n_jobs)


class ThreadExecutor(Executor):
    """Visits blocks with a pool of threads, each with one BLAS thread.

    Parameters
    ----------
    n_jobs : int, optional
        Number of threads. ``None`` and -1 are all cores available to this process, -2 all but one, and so on.

    Attributes
    ----------
    n_workers : int
        Number of threads, at least 1.

    Notes
    -----
    Blocks are dealt out in advance, in runs of consecutive blocks, and each thread keeps one running sum; the
    sums are then added in row order. So the same number of threads gives the same bits, and another number
    differs by rounding only.

    BLAS is held to one thread from ``__enter__`` to ``__exit__``, also when there is only one worker or one
    block: blocks are sized for the cache, where threaded BLAS gains nothing, and the bits then do not depend
    on what else runs. Do large dense algebra that should use all cores outside of the context.
    """

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_workers = count_workers(n_jobs)
        self._stack = ExitStack()
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Self:
        self._stack.enter_context(one_blas_thread)
        _keep_freed_memory()
        if self.n_workers > 1:  # the calling thread is one of the workers
            self._pool = self._stack.enter_context(ThreadPoolExecutor(self.n_workers - 1, "anypca"))
        return self

    def __exit__(self, *_: object) -> None:
        self._pool = None
        self._stack.close()

    def sweep(
        self,
        function: Callable[[Block, Local | None], tuple[Local, Total]],
        data: Data,
        local: Sequence[Any] | None = None,
    ) -> tuple[Sequence[Any], Total]:
        """Call ``function(block, local)`` on every block; return the new locals and the sum of the totals.

        Parameters
        ----------
        function : callable
            Called with a block and its local (``None`` in the first sweep), possibly in several threads.
        data : Data
        local : sequence, optional
            The locals of the previous sweep.

        Returns
        -------
        local : list
            One element per block, in row order.
        total : Addable
        """
        if self.n_workers > 1 and self._pool is None:
            with self:
                return self.sweep(function, data, local)
        before: Sequence[Any] = [None] * len(data.blocks) if local is None else local
        stop = threading.Event()
        shares = [
            functools.partial(_visit, function, data.blocks[part], before[part], stop, data.is_in_file)
            for part in _shares(len(data.blocks), self.n_workers)
        ]
        with one_blas_thread:
            results = self._run(shares, stop)
        after = [piece for pieces, _ in results for piece in pieces]
        return after, functools.reduce(operator.add, (total for _, total in results))

    def gather(self, local: Sequence[Any]) -> list[Any]:
        """The locals as a list, in row order; they are in this process already."""
        return list(local)

    def share(self, function: Callable[[slice], Any], n_items: int) -> list[Any]:
        """``function(run)`` of runs of consecutive items, one for each thread, in order."""
        if self.n_workers > 1 and self._pool is None:
            with self:
                return self.share(function, n_items)
        shares = [functools.partial(function, run) for run in _shares(n_items, self.n_workers)]
        with one_blas_thread:
            return self._run(shares, threading.Event())

    def _run(self, shares: Sequence[Callable[[], Any]], stop: threading.Event) -> list[Any]:
        """Run the shares side by side, the first one in this thread; raise the first error by row order."""
        futures: list[Future[Any]] = []
        if self._pool is not None:
            # a copy of the context carries np.errstate into the threads
            futures = [self._pool.submit(contextvars.copy_context().run, share) for share in shares[1:]]
        try:
            return [shares[0](), *(future.result() for future in futures)]
        finally:
            stop.set()  # after an error or an interrupt the others end at their next block
            wait(futures)


def _keep_freed_memory() -> None:
    """Let the C library keep what blocks free for the blocks that follow.

    glibc returns large chunks to the system at once, and later gets them back zeroed page by page, until a chunk of
    their size has been freed once (mallopt(3), M_MMAP_THRESHOLD). A chunk that is never written to costs nothing.
    Other allocators are not affected.
    """
    with suppress(MemoryError):  # a table larger than memory must not fail for an unused chunk
        np.empty(_KEPT_BYTES, dtype=np.uint8)


def _visit(
    function: Callable[[Block, Local | None], tuple[Local, Total]],
    blocks: Sequence[Block],
    before: Sequence[Local | None],
    stop: threading.Event,
    is_in_file: bool,
) -> tuple[list[Local], Total | None]:
    """One worker's share of a sweep: its new locals, in a file if the table is in one, and the sum of its totals."""
    if is_in_file:
        with Shelf() as shelf:
            total = _visit_into(shelf, function, blocks, before, stop)
            return shelf.take(), total
    after: list[Local] = []
    total = _visit_into(after, function, blocks, before, stop)
    return after, total


def _visit_into(
    after: list[Local] | Shelf,
    function: Callable[[Block, Local | None], tuple[Local, Total]],
    blocks: Sequence[Block],
    before: Sequence[Local | None],
    stop: threading.Event,
) -> Total | None:
    """Append the new locals, and return the sum of the totals."""
    total: Total | None = None
    try:
        for block, piece in zip(blocks, before, strict=True):
            if stop.is_set():
                break
            new, part = function(block, piece)
            after.append(new)
            total = part if total is None else total + part
            del new, part  # else they would stay while the next block is visited
    except BaseException:
        stop.set()
        raise
    return total


def _shares(n_items: int, n_workers: int) -> list[slice]:
    """Runs of consecutive blocks or other items, one per worker, none empty but where there are no items."""
    n_shares = max(min(n_items, n_workers), 1)
    edges = [i * n_items // n_shares for i in range(n_shares + 1)]
    return [slice(start, stop) for start, stop in itertools.pairwise(edges)]


def count_workers(n_jobs: Any) -> int:
    """Number of threads for ``n_jobs``.

    Raises
    ------
    TypeError, ValueError
        If it is not an integer, or 0.
    """
    available: int = joblib.cpu_count()  # heeds affinity masks and container limits
    if n_jobs is None:
        return available
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral):
        raise TypeError(f"n_jobs must be an integer or None; got {n_jobs!r}.")
    wanted = int(n_jobs)
    if wanted == 0:
        raise ValueError("n_jobs must not be 0. Use 1 for one thread, -1 or None for all cores.")
    return wanted if wanted > 0 else max(1, available + 1 + wanted)

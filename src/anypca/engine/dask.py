"""Dask arrays: blocks, and what belongs to their rows, stay on the workers; only sums travel.

This module is imported when a Dask array comes in, never before.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np
from dask.base import get_scheduler

from anypca._typing import Floats
from anypca.engine._convert import check_numeric, check_two_dimensional, is_from
from anypca.engine._interface import Block, Data, Executor, Local, Source, Total, make_source
from anypca.engine.data import (
    check_covariates,
    check_covariates_shape,
    check_finite,
    check_offset,
    check_offset_shape,
    check_size,
    check_weights,
    working_dtype,
)
from anypca.engine.executors import one_blas_thread

# Statistics added by one task: enough for few rounds, and few enough for the memory of a worker.
_FAN_IN = 8
# Largest total of a block, in bytes, that is kept with its local state until the next sweep: a tenth of the smallest
# chunk that docs/scale.md recommends. Separating the two costs one more task per block.
_SMALL_TOTAL = 2**20


class _Pair(NamedTuple):
    """Result of a visit of a block."""

    local: Any
    total: Any


class DaskExecutor(Executor):
    """Visits blocks on a Dask cluster, or with Dask's threads when no client is in scope.

    Notes
    -----
    A sweep is one graph: a task per block, and a tree that adds the totals. It is submitted once, and the
    root is fetched once. Locals are kept where they were computed, and their handles carry no graph: the
    client's memory does not grow with the number of sweeps. The scheduler remembers how they were made, a small
    task or two per block and sweep, to rebuild what a lost worker held; a sweep without ``local`` ends that. On a
    cluster a local stays in a pair with the total of its block if totals were small in the sweep before.
    """

    def __init__(self) -> None:
        self._keeps_pairs = False

    def sweep(
        self,
        function: Callable[[Block, Local | None], tuple[Local, Total]],
        data: Data,
        local: Sequence[Any] | None = None,
    ) -> tuple[Sequence[Any], Total]:
        """Call ``function(block, local)`` on every block; return handles to the new locals and the total.

        Parameters
        ----------
        function : callable
            It is sent to the workers, so it must be possible to pickle it.
        data : Data
        local : sequence, optional
            The handles of the previous sweep.

        Returns
        -------
        local : list of Delayed
            One handle per block, in row order; `gather` fetches their values.
        total : Addable
        """
        pairs = _visits(function, data, local)
        *after, root = dask.persist(*(pairs if self._keeps_pairs else _locals(pairs)), _tree_sum(pairs))
        (total,) = _fetch([root])
        self._keeps_pairs = _client() is not None and _size(total) <= _SMALL_TOTAL
        return after, total

    def sum(
        self, function: Callable[[Block, Any], Any], data: Data, local: Sequence[Any] | None = None
    ) -> Any:
        """Sum of ``function(block, local)`` over the blocks; nothing of the rows is kept."""
        visits = _visits(lambda block, rows: (None, function(block, rows)), data, local)
        (total,) = _fetch(dask.persist(_tree_sum(visits)))
        return total

    def stack(self, function: Callable[[Block], Floats], data: Data, n_columns: int) -> Any:
        """The rows as a Dask array in the chunks of the table: they are made where the blocks are, when asked for."""
        visit = dask.delayed(_visit_rows, pure=False)
        shared = dask.delayed(function, pure=False, traverse=False)
        parts = [
            da.from_delayed(visit(shared, block), shape=(n_rows, n_columns), dtype=data.dtype)
            for block, n_rows in zip(data.blocks, data.block_rows, strict=True)
        ]
        return da.concatenate(parts)

    def gather(self, local: Sequence[Any]) -> list[Any]:
        """Bring the locals to this process, in row order."""
        return _fetch(dask.persist(*_locals(local)))


def check_dask(X: Any, sample_weight: Any, offset: Any, covariates: Any, block_rows: int | None) -> Data:
    """`check_data` for a Dask array: one block per chunk of rows.

    With a client in scope the blocks are computed and kept on the workers. Without one they are computed anew
    in every sweep, so that tables larger than memory pass through; call ``X.persist()`` before if X fits.

    Parameters
    ----------
    X : dask array of shape (n_samples, n_features)
    sample_weight, offset, covariates : array-like or dask array, optional
        As for `check_data`; values of Dask offsets and covariates are checked on the workers, later.
    block_rows : int, optional
        Largest number of rows in a block.
    """
    X = _check_chunks(X, block_rows)
    n, p = X.shape
    dtype = working_dtype(X.dtype)
    may_miss = X.dtype.kind == "f"
    weight = check_weights(sample_weight, n, dtype)
    spans = list(itertools.pairwise(itertools.accumulate(X.chunks[0], initial=0)))
    weights = [None if weight is None else weight[start:stop] for start, stop in spans]
    offsets = _cut_offset(offset, X, spans, dtype)
    covariate_rows, n_covariates = _cut_covariates(covariates, X, spans, dtype)
    pieces = zip(X.to_delayed().ravel(), spans, weights, offsets, covariate_rows, strict=True)
    make, open_rows = dask.delayed(Block, pure=False), dask.delayed(make_source, pure=False)
    blocks = [
        make(start, stop, open_rows(chunk, dtype), 0, dtype, weight_rows, offset_rows, rows, may_miss)
        for chunk, (start, stop), weight_rows, offset_rows, rows in pieces
        if start < stop
    ]
    return Data(
        blocks=_keep(blocks),
        n_samples=n,
        n_features=p,
        n_covariates=n_covariates,
        dtype=dtype,
        feature_names=None,
        may_miss=may_miss,
        is_distributed=True,
        has_weights=weight is not None,
        block_rows=tuple(stop - start for start, stop in spans if start < stop),
    )


def replace_blocks(blocks: Sequence[Any], **changes: Any) -> tuple[Any, ...]:
    """Handles to the blocks with some fields changed."""
    return change_blocks(blocks, functools.partial(replace, **changes))


def change_blocks(blocks: Sequence[Any], function: Callable[..., Block], *arguments: Any) -> tuple[Any, ...]:
    """Handles to ``function(block, *arguments)`` of each block."""
    change = dask.delayed(function, pure=False)
    fixed = [dask.delayed(argument, pure=False, traverse=False) for argument in arguments]
    return _keep([change(block, *fixed) for block in blocks])


def _check_chunks(X: Any, block_rows: int | None) -> Any:
    """The array with known shape, one chunk of columns, and the rows in chunks as asked for."""
    X = check_numeric(check_two_dimensional(X, "X"), "X")
    _check_known(X, "X")
    check_size(X.shape)
    if block_rows is not None:
        return X.rechunk({0: block_rows, 1: -1})
    return X.rechunk({1: -1}) if X.numblocks[1] > 1 else X


def _check_known(array: Any, name: str) -> None:
    if any(np.isnan(size) for sizes in array.chunks for size in sizes):
        raise ValueError(
            f"{name} has chunks of unknown size: shape {array.shape}. Call {name}.compute_chunk_sizes(), "
            "make it with dataframe.to_dask_array(lengths=True), or give da.from_delayed the shape."
        )


def _cut_offset(offset: Any, X: Any, spans: Sequence[tuple[int, int]], dtype: np.dtype[Any]) -> list[Any]:
    """A source of rows per block, or a handle to it."""
    if not _is_dask_array(offset):
        source = check_offset(offset, X.shape[0], X.shape[1], dtype)
        return [None if source is None else source.rows(start, stop) for start, stop in spans]
    _check_known(offset, "offset")
    check_offset_shape(offset.shape, X.shape[0], X.shape[1])
    convert = dask.delayed(_offset_source, pure=False)
    return [convert(chunk, start, dtype) for chunk, (start, _) in zip(_cut(offset, X), spans, strict=True)]


def _cut_covariates(
    covariates: Any, X: Any, spans: Sequence[tuple[int, int]], dtype: np.dtype[Any]
) -> tuple[list[Any], int]:
    """Covariates (rows, n_covariates) per block, or handles to them; and how many there are."""
    if not _is_dask_array(covariates):
        values = check_covariates(covariates, X.shape[0], dtype)
        return [values[start:stop] for start, stop in spans], values.shape[1]
    _check_known(covariates, "covariates")
    check_covariates_shape(covariates.shape, X.shape[0])
    convert = dask.delayed(_covariate_rows, pure=False)
    chunks = zip(_cut(covariates, X), spans, strict=True)
    return [convert(chunk, start, dtype) for chunk, (start, _) in chunks], math.prod(covariates.shape[1:])


def _cut(array: Any, X: Any) -> Any:
    """Handles to the array's rows in the chunks of X."""
    chunks = {0: X.chunks[0], 1: -1} if array.ndim == 2 else {0: X.chunks[0]}
    return array.rechunk(chunks).to_delayed().ravel()


def _offset_source(chunk: Any, start: int, dtype: np.dtype[Any]) -> Source:
    check_finite(chunk, "offset", dtype, first_row=start)
    return make_source(chunk[:, np.newaxis] if chunk.ndim == 1 else chunk, dtype, "offset")


def _covariate_rows(chunk: Any, start: int, dtype: np.dtype[Any]) -> Floats:
    check_finite(chunk, "covariates", dtype, first_row=start)
    return np.asarray((chunk[:, np.newaxis] if chunk.ndim == 1 else chunk).astype(dtype))


def _visits(function: Callable[..., Any], data: Data, local: Sequence[Any] | None) -> list[Any]:
    """Handles to the results of the visits of the blocks."""
    before: Sequence[Any] = [None] * len(data.blocks) if local is None else local
    # a node of its own: the function, with the parameters bound to it, is sent once and not per block
    shared, visit = dask.delayed(function, pure=False, traverse=False), dask.delayed(_visit, pure=False)
    return [visit(shared, block, piece) for block, piece in zip(data.blocks, before, strict=True)]


def _visit(function: Callable[[Block, Any], tuple[Any, Any]], block: Block, local: Any) -> _Pair:
    with one_blas_thread:
        return _Pair(*function(block, _local(local)))


def _visit_rows(function: Callable[[Block], Floats], block: Block) -> Floats:
    with one_blas_thread:
        return function(block)


def _locals(pairs: Sequence[Any]) -> list[Any]:
    """Handles to the locals alone."""
    take = dask.delayed(_local, pure=False)
    return [take(pair) for pair in pairs]


def _local(found: Any) -> Any:
    return found.local if isinstance(found, _Pair) else found


def _size(total: Any) -> int:
    """Bytes that something takes, without a copy of its arrays."""
    buffers: list[pickle.PickleBuffer] = []
    rest = pickle.dumps(total, protocol=5, buffer_callback=buffers.append)
    return len(rest) + sum(buffer.raw().nbytes for buffer in buffers)


def _tree_sum(pairs: Sequence[Any]) -> Any:
    """Handle to the sum of the second parts, a few at a time and always in row order."""
    add, take = dask.delayed(_add, pure=False), True
    # The first round takes the sums out of the pairs; each adds a few of them where they lie.
    while take or len(pairs) > 1:
        pairs = [add(take, *pairs[i : i + _FAN_IN]) for i in range(0, len(pairs), _FAN_IN)]
        take = False
    return pairs[0]


def _add(are_pairs: bool, *totals: Any) -> Any:
    return functools.reduce(operator.add, (pair[1] for pair in totals) if are_pairs else totals)


def _keep(handles: Sequence[Any]) -> tuple[Any, ...]:
    """Compute on the workers of a cluster and keep there; stay lazy without one."""
    if _client() is None:
        return tuple(handles)
    # On a cluster blocks are made once and stay with their workers.
    return tuple(dask.persist(*handles))


def _fetch(handles: Sequence[Any]) -> list[Any]:
    """Fetch the values of persisted handles in one exchange."""
    client = _client()
    if client is None:
        return list(dask.compute(*handles))
    from distributed import futures_of  # there is a client, so it is installed

    return list(client.gather([futures_of(handle)[0] for handle in handles]))


def _client() -> Any:
    """The client of dask.distributed that computations go to now, ``None`` for a local scheduler."""
    owner = getattr(get_scheduler(), "__self__", None)
    return owner if is_from(owner, "distributed") else None


def _is_dask_array(value: Any) -> bool:
    return is_from(value, "dask") and hasattr(value, "chunks")

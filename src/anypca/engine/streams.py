"""Tables that come as batches of rows: parquet files by their row groups, datasets of Arrow, relations of DuckDB."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from anypca._typing import Floats
from anypca.engine._convert import Matrix, is_from

#: Cells that are read at once: 8 MB of them.
_BATCH_ENTRIES = 2**20


class _Stream(NamedTuple):
    """How to get at the rows of a table."""

    schema: Any
    """pyarrow.Schema."""
    batches: Callable[[int], Iterator[Any]]
    """Record batches of at most so many rows."""


def is_stream(X: Any) -> bool:
    """Whether a table is a pyarrow.parquet.ParquetFile, a pyarrow.dataset.Dataset or a relation of DuckDB."""
    if is_from(X, "duckdb") or is_from(X, "_duckdb"):
        return hasattr(X, "limit")
    return is_from(X, "pyarrow") and (hasattr(X, "iter_batches") or hasattr(X, "count_rows"))


def header_of(X: Any) -> Any:
    """Return an empty table with the same columns for lazy tables and streams; other tables unchanged."""
    if is_from(X, "polars") and hasattr(X, "collect"):
        return X.clear().collect()
    return _open(X).schema.empty_table() if is_stream(X) else X


def spool(X: Any) -> Matrix:
    """The rows of a stream in a temporary file, from which blocks are read; it goes when the table does.

    Every pass over the rows sees them in the same order, which a query run again does not promise, and decodes nothing.

    Parameters
    ----------
    X : table for which `is_stream` is true

    Returns
    -------
    Matrix
        Of a memory map (n_rows, n_columns), NaN where cells are null.

    Raises
    ------
    ValueError
        If a column holds no numbers; the message names it.
    """
    schema, batches = _open(X)
    dtype, n_columns = _common_dtype(schema), len(schema.names)
    rows = batches(max(1, _BATCH_ENTRIES // max(n_columns, 1)))
    return Matrix(store((_read(batch, dtype) for batch in rows), dtype, n_columns), tuple(schema.names))


def store(parts: Iterable[Floats], dtype: np.dtype[Any], n_columns: int) -> Floats:
    """C-contiguous arrays (rows, n_columns) of a dtype, one after the other in a temporary file.

    Returns
    -------
    ndarray of shape (n_rows, n_columns)
        A memory map of the file, which goes with it; in memory if it has no entries.
    """
    n_rows = 0
    with tempfile.TemporaryFile(prefix="anypca-") as stream:
        for part in parts:
            stream.write(part.data)
            n_rows += len(part)
        stream.flush()
        shape = (n_rows, n_columns)
        return np.memmap(stream, dtype, mode="r", shape=shape) if n_rows * n_columns else np.empty(shape)


def _open(X: Any) -> _Stream:
    if hasattr(X, "iter_batches"):
        return _Stream(X.schema_arrow, lambda rows: X.iter_batches(batch_size=rows))
    if hasattr(X, "count_rows"):
        return _Stream(X.schema, lambda rows: X.to_batches(batch_size=rows))
    # The name of the method has changed with version 2.
    read = getattr(X, "to_arrow_reader", None) or X.fetch_record_batch
    return _Stream(read(1).schema, read)


def _common_dtype(schema: Any) -> np.dtype[Any]:
    """float32 if all columns are, float64 otherwise, since any cell may be null."""
    from pyarrow import types

    for field in schema:
        kinds = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
        if not any(is_kind(field.type) for is_kind in kinds):
            raise ValueError(
                f"column {field.name!r} of X is of type {field.type}; numbers are needed. Select the other columns, or "
                "read the whole table into a data frame, whose text columns are treated as categories."
            )
    return np.dtype(np.float32 if all(types.is_float32(field.type) for field in schema) else np.float64)


def _read(batch: Any, dtype: np.dtype[Any]) -> Floats:
    """The cells of a batch, row after row."""
    import pyarrow

    target = np.empty((batch.num_rows, batch.num_columns), dtype)
    kind = pyarrow.from_numpy_dtype(dtype)
    for j, column in enumerate(batch.columns):
        target[:, j] = column.cast(kind).to_numpy(zero_copy_only=False)
    return target

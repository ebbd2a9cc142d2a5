"""`check_data`: validate a table, its weights, offset and covariates once, and split them into row blocks."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from anypca._typing import Floats
from anypca.engine._convert import (
    Matrix,
    as_matrix,
    as_numbers,
    check_two_dimensional,
    describe_entry,
    is_from,
)
from anypca.engine._interface import Block, Data, Source, make_source
from anypca.engine.lazy import LazyTable
from anypca.engine.streams import is_stream, spool

# Entries looked at in one go when a dense offset, possibly memory-mapped, is checked: 8 MB in float64.
_CHECK_ENTRIES = 2**20


def check_weights(sample_weight: Any, n_samples: int, dtype: np.dtype[Any]) -> Floats | None:
    """Sample weights of shape (n_samples,): finite, >= 0, not all 0; ``None`` stays ``None``.

    Raises
    ------
    ValueError
        If the shape or a value is wrong; the message names the entry.
    """
    if sample_weight is None:
        return None
    weight = as_numbers(sample_weight, "sample_weight").astype(dtype)
    if weight.shape != (n_samples,):
        raise ValueError(
            f"sample_weight must have shape ({n_samples},), one weight per row of X; got {weight.shape}."
        )
    check_finite(weight, "sample_weight")
    negative = np.flatnonzero(weight < 0)
    if len(negative):
        row = int(negative[0])
        raise ValueError(
            f"sample_weight[{row}] is {weight[row]}; weights must be >= 0. Use 0 to leave a row out."
        )
    if not weight.any():
        raise ValueError(
            "sample_weight is zero for every row, which leaves no data. Give some rows a positive weight."
        )
    return weight


def check_offset(offset: Any, n_samples: int, n_features: int, dtype: np.dtype[Any]) -> Source | None:
    """Offsets of shape (n_samples,), (n_samples, 1) or (n_samples, n_features) as a source of rows.

    Raises
    ------
    ValueError
        If the shape is wrong or a value is not finite; the message names the entry.
    """
    if offset is None:
        return None
    values = offset if sparse.issparse(offset) else as_numbers(offset, "offset")
    check_offset_shape(values.shape, n_samples, n_features)
    is_column = values.ndim == 1
    if sparse.issparse(values):
        _check_finite_sparse(values, "offset")
        return make_source(values, dtype, "offset")
    check_finite(values, "offset", dtype)
    return make_source(values[:, np.newaxis] if is_column else values, dtype, "offset")


def check_offset_shape(shape: tuple[int, ...], n_samples: int, n_features: int) -> None:
    """Raise unless an offset of this shape fits a table (n_samples, n_features)."""
    if shape not in ((n_samples,), (n_samples, 1), (n_samples, n_features)):
        raise ValueError(
            f"offset must have shape ({n_samples},), one per row of X, or ({n_samples}, {n_features}), "
            f"one per entry; got {shape}."
        )


def check_entry_weights(
    entry_weight: Any, n_samples: int, n_features: int, dtype: np.dtype[Any]
) -> Source | None:
    """Weights of the entries, of shape (n_samples, n_features), as a source of rows; ``None`` stays ``None``.

    Raises
    ------
    ValueError
        If the shape is wrong or a value is negative or not finite; the message names the entry.
    """
    if entry_weight is None:
        return None
    is_sparse = sparse.issparse(entry_weight)
    values: Any = entry_weight if is_sparse else as_numbers(entry_weight, "entry_weight")
    if values.shape != (n_samples, n_features):
        raise ValueError(
            f"entry_weight must have shape ({n_samples}, {n_features}), one weight per entry of X; "
            f"got {values.shape}. Weights of rows are sample_weight."
        )
    if is_sparse:
        _check_finite_sparse(values, "entry_weight")
    else:
        check_finite(values, "entry_weight", dtype)
    if (values.data if is_sparse else values).min(initial=0) < 0:
        raise ValueError("entry_weight has negative weights; they must be >= 0. Use 0 for a missing entry.")
    return make_source(values, dtype, "entry_weight")


def check_covariates(covariates: Any, n_samples: int, dtype: np.dtype[Any]) -> Floats:
    """Covariates of shape (n_samples, n_covariates), with no columns when there are none.

    Raises
    ------
    ValueError
        If the shape is wrong or a value is not finite; the message names the entry.
    """
    if covariates is None:
        return np.empty((n_samples, 0), dtype=dtype)
    values = as_numbers(covariates, "covariates").astype(dtype, copy=False)
    check_covariates_shape(values.shape, n_samples)
    check_finite(values, "covariates")
    return np.ascontiguousarray(values[:, np.newaxis] if values.ndim == 1 else values)


def check_covariates_shape(shape: tuple[int, ...], n_samples: int) -> None:
    """Raise unless covariates of this shape fit a table of n_samples rows."""
    if len(shape) not in (1, 2) or shape[0] != n_samples:
        raise ValueError(
            f"covariates must have shape ({n_samples}, n_covariates), one row per row of X; got {shape}."
        )


def check_matrix(value: Any, name: str) -> Floats:
    """A complete two-dimensional array of finite numbers that is not a data table, such as scores.

    Parameters
    ----------
    value : array-like, data frame or sparse matrix of shape (n_rows, n_columns)
    name : str
        What to call it in error messages.

    Returns
    -------
    ndarray of shape (n_rows, n_columns)
        float32 if ``value`` is, float64 otherwise.

    Raises
    ------
    TypeError, ValueError
        If it is not that; the message names the entry.
    """
    values = check_two_dimensional(as_numbers(value, name), name)
    values = values if values.dtype == np.float32 else values.astype(np.float64, copy=False)
    check_finite(values, name)
    return np.asarray(values)


def check_finite(
    values: npt.NDArray[Any], name: str, dtype: np.dtype[Any] | None = None, first_row: int = 0
) -> None:
    """Raise unless all values are finite, also after casting to ``dtype``; looks at a few rows at a time.

    Parameters
    ----------
    values : ndarray of shape (n_rows,) or (n_rows, n_columns)
    name : str
        What to call it in the message.
    dtype : dtype, optional
        What the values will be read in; by default their own.
    first_row : int
        Number of the first row in the message.
    """
    step = max(1, _CHECK_ENTRIES // max(1, values[:1].size))
    for start in range(0, len(values), step):
        rows = values[start : start + step]
        with np.errstate(over="ignore"):  # beyond float32: reported below
            bad = ~np.isfinite(rows.astype(dtype or rows.dtype, copy=False))
        if bad.any():
            index = np.unravel_index(int(np.argmax(bad)), bad.shape)
            row, column = int(index[0]), (int(index[1]) if rows.ndim == 2 else None)
            raise ValueError(_not_finite(name, first_row + start + row, column, rows[index]))


def _check_finite_sparse(matrix: Any, name: str) -> None:
    coo = matrix.tocoo()
    bad = np.flatnonzero(~np.isfinite(coo.data))
    if len(bad):
        row, column = int(coo.row[bad[0]]), int(coo.col[bad[0]])
        raise ValueError(_not_finite(name, row, column, coo.data[bad[0]]))


def _not_finite(name: str, row: int, column: int | None, value: Any) -> str:
    # The usual way to an offset of -inf is the logarithm of a row total of 0.
    zero = " (the logarithm of 0?)" if np.isneginf(value) else ""
    return (
        f"{describe_entry(name, row, column)} is {value}{zero}; {name} must be finite and complete. "
        "Fill the gap, or drop that row everywhere."
    )


# Largest array whose copy in single precision (at most 64 MiB) is cached, so that sweeps need not copy it again.
_KEPT_ENTRIES = 2**24
# A narrow table's block has about this many entries, 512 kB in float64: the few arrays of this size that an
# evaluation makes (predictor, value, gradient, curvature) share a second-level cache.
_BLOCK_ENTRIES = 2**16
# Fewer rows would make the products X' Z thin and the calls many (a sweep of 512 rows takes a fifth more time);
# models work on wide blocks tile by tile ...
_MIN_ROWS = 1024
# ... but a block never takes much more memory than this, several of its size being alive per worker.
_MAX_BLOCK_BYTES = 2**25


def check_data(
    X: Any,
    *,
    sample_weight: Any = None,
    offset: Any = None,
    covariates: Any = None,
    entry_weight: Any = None,
    block_rows: int | None = None,
) -> Data:
    """Validate a table with its weights, offset and covariates, and split it into row blocks.

    Types, shapes, weights, offsets and covariates are checked here. The values of X are read later, block by
    block: `summarise` and `check_values` look for infinities, empty rows and empty columns.

    Parameters
    ----------
    X : array-like, data frame, sparse matrix or Dask array of shape (n_samples, n_features)
        Arrays of any real dtype and order, pandas and polars frames, scipy sparse matrices and arrays of any format.
        Never loaded whole: memory maps, polars lazy frames, Dask arrays, and, copied block by block to a temporary
        memory map, pyarrow.parquet.ParquetFile, pyarrow.dataset.Dataset and relations of DuckDB. NaN, ``None``,
        pandas' NA and masked entries are missing; entries that a sparse matrix does not store are 0.
    sample_weight : array-like of shape (n_samples,), optional
        Finite, >= 0, not all 0.
    offset : array-like or sparse matrix of shape (n_samples,) or (n_samples, n_features), optional
        Known parts of the linear predictor; finite.
    covariates : array-like of shape (n_samples,) or (n_samples, n_covariates), optional
        Finite.
    entry_weight : array-like or sparse matrix of shape (n_samples, n_features), optional
        Finite, >= 0; not for Dask arrays.
    block_rows : int, optional
        Largest number of rows in a block; by default chosen so that a block fits the processor's cache. For a
        Dask array, its chunks are the blocks unless this is given.

    Returns
    -------
    Data
        float32 if X is, float64 otherwise. The caller's memory is not copied, except to convert frames of
        several dtypes, objects, and sparse formats other than CSR.

    Raises
    ------
    TypeError
        If X or a column has a type that holds no numbers, or only some column names are strings.
    ValueError
        If shapes do not fit, X is empty, holds strings or complex numbers, or another argument has values
        that it must not have.

    Examples
    --------
    >>> import numpy as np
    >>> data = check_data(np.array([[1, 2], [3, 4], [5, 6]]), block_rows=2)
    >>> data.n_samples, data.n_features, len(data.blocks)
    (3, 2, 2)
    >>> data.blocks[1].read().x
    array([[3., 4.],
           [5., 6.]])
    """
    _check_block_rows(block_rows)
    if is_from(X, "dask") and hasattr(X, "dask") and hasattr(X, "chunks"):
        from anypca.engine.dask import check_dask  # dask is optional

        if entry_weight is not None:
            raise ValueError(
                "entry_weight is for tables in memory, memory maps and sparse matrices; X is a Dask array. "
                "Use sample_weight, or X.compute()."
            )
        return check_dask(X, sample_weight, offset, covariates, block_rows)
    if is_from(X, "polars") and hasattr(X, "collect"):
        matrix = as_lazy(X)
    else:
        matrix = spool(X) if is_stream(X) else as_matrix(X)
    check_size(matrix.values.shape)
    data = _in_memory(matrix, sample_weight, offset, covariates, block_rows)
    entries = check_entry_weights(entry_weight, data.n_samples, data.n_features, data.dtype)
    if entries is None:
        return data
    blocks = tuple(replace(block, entry_source=entries, may_miss=True) for block in data.blocks)
    return replace(data, blocks=blocks, may_miss=True, has_entry_weights=True)


def as_lazy(frame: Any) -> Matrix:
    """A lazy frame as a matrix whose rows are read when they are needed."""
    table = LazyTable(frame)
    return Matrix(table, table.names)


def _in_memory(
    matrix: Matrix, sample_weight: Any, offset: Any, covariates: Any, block_rows: int | None
) -> Data:
    n, p = matrix.values.shape
    dtype = working_dtype(matrix.values.dtype)
    may_miss = matrix.values.dtype.kind == "f"
    lazy = isinstance(matrix.values, LazyTable)
    source = matrix.values.source(dtype) if lazy else make_source(matrix.values, dtype)
    weight = check_weights(sample_weight, n, dtype)
    offset_source = check_offset(offset, n, p, dtype)
    covariates = check_covariates(covariates, n, dtype)
    rows = block_rows or default_block_rows(p, dtype.itemsize)
    blocks = tuple(
        Block(
            start=start,
            stop=stop,
            source=source,
            first=start,
            dtype=dtype,
            weight=None if weight is None else weight[start:stop],
            offset_source=offset_source,
            covariates=covariates[start:stop],
            may_miss=may_miss,
            keeps_single=_is_small_array(matrix.values),
        )
        for start, stop in cut_rows(n, rows)
    )
    return Data(
        blocks=blocks,
        n_samples=n,
        n_features=p,
        n_covariates=covariates.shape[1],
        dtype=dtype,
        feature_names=matrix.names,
        may_miss=may_miss,
        is_distributed=False,
        has_weights=weight is not None,
        is_in_file=isinstance(_owner(matrix.values), np.memmap | LazyTable),
    )


def _is_small_array(values: Any) -> bool:
    """Whether a table is an array in memory that is small enough to cache a copy in single precision."""
    owner = _owner(values)
    return type(owner) is np.ndarray and owner.size <= _KEPT_ENTRIES


def _owner(values: Any) -> Any:
    """The array that a view looks at, a memory map if it is one; other tables as they are."""
    while isinstance(values, np.ndarray) and not isinstance(values, np.memmap) and values.base is not None:
        values = values.base
    return values


def working_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """float32 for float32, float64 for everything else."""
    is_single = dtype.kind == "f" and dtype.itemsize == 4  # in either byte order
    return np.dtype(np.float32 if is_single else np.float64)


def default_block_rows(n_features: int, itemsize: int) -> int:
    """Rows of a block that keep its natural parameters in the cache and its memory bounded."""
    rows = max(_MIN_ROWS, _BLOCK_ENTRIES // n_features)
    return max(1, min(rows, _MAX_BLOCK_BYTES // (n_features * itemsize)))


def cut_rows(n_samples: int, rows: int) -> list[tuple[int, int]]:
    """Cut 0..n_samples into runs of at most ``rows``, as equal as possible so that workers share evenly."""
    # Blocks of nearly equal sizes: a last one of a few rows would cost as much as a whole one.
    n_blocks = math.ceil(n_samples / rows)
    edges = [i * n_samples // n_blocks for i in range(n_blocks + 1)]
    return list(itertools.pairwise(edges))


def check_size(shape: tuple[int, ...]) -> None:
    """Raise if there is no row or no column; the wording is scikit-learn's."""
    for count, what in zip(shape, ("sample(s)", "feature(s)"), strict=True):
        if count == 0:
            raise ValueError(
                f"Found array with 0 {what} (shape={tuple(shape)}) while a minimum of 1 is required. "
                "Check how X was read or filtered."
            )


def _check_block_rows(block_rows: Any) -> None:
    if block_rows is None:
        return
    if isinstance(block_rows, bool) or not isinstance(block_rows, Integral):
        raise TypeError(f"block_rows must be an integer or None; got {block_rows!r}.")
    if block_rows < 1:
        raise ValueError(f"block_rows must be at least 1; got {block_rows}.")

"""Checks of what comes along with the table: sample weights, offsets, covariates."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from anypca._typing import Floats
from anypca.engine._convert import as_numbers, check_two_dimensional, describe_entry
from anypca.engine.sources import CsrSource, DenseSource, make_source

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


def check_offset(
    offset: Any, n_samples: int, n_features: int, dtype: np.dtype[Any]
) -> DenseSource | CsrSource | None:
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

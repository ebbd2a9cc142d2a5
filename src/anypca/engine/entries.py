"""Single entries of a table: taking their values, and hiding them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from anypca._typing import Floats, Ints
from anypca.engine._convert import as_matrix, is_from
from anypca.engine.data import check_data, working_dtype


def take_entries(X: Any, rows: Ints, columns: Ints) -> Floats:
    """Values of entries, read block by block: no more than one block of a sparse table is dense at a time.

    Parameters
    ----------
    X : table of shape (n_samples, n_features)
        In this process, not a Dask array.
    rows, columns : ndarray of shape (n_entries,)
        The rows in increasing order.

    Returns
    -------
    ndarray of shape (n_entries,)
        In the working precision of the table.
    """
    data = check_data(X)
    values = np.empty(len(rows), dtype=data.dtype)
    for block in data.blocks:
        part = slice(*np.searchsorted(rows, [block.start, block.stop]))
        if part.start < part.stop:
            values[part] = block.read().x[rows[part] - block.start, columns[part]]
    return values


def hide_entries(X: Any, rows: Ints, columns: Ints) -> Any:
    """A copy of a table with some entries missing.

    Parameters
    ----------
    X : table of shape (n_samples, n_features)
        In this process, not a Dask array.
    rows, columns : ndarray of shape (n_entries,)

    Returns
    -------
    ndarray, CSR array or data frame of shape (n_samples, n_features)
        Of the kind of X (frames keep the names of their columns), in float32 or float64. A sparse table stays
        sparse: only the hidden entries, zeros included, are added to it as NaN.
    """
    values = as_matrix(X).values
    dtype = working_dtype(values.dtype)
    if sparse.issparse(values):
        marks = (np.full(len(rows), np.nan, dtype=dtype), (rows, columns))
        # NaN plus anything is NaN, and a sum of two CSR matrices stores the union of their entries.
        hidden = sparse.csr_array(values, dtype=dtype) + sparse.csr_array(marks, shape=values.shape)
    else:
        hidden = np.array(values, dtype=dtype)
        hidden[rows, columns] = np.nan
    return _like(X, hidden)


def _like(X: Any, hidden: Any) -> Any:
    """A matrix as a data frame when X is one."""
    if not hasattr(X, "columns"):
        return hidden
    if is_from(X, "polars"):
        import polars

        return polars.DataFrame(hidden, schema=list(X.columns))
    import pandas

    if sparse.issparse(hidden):
        return pandas.DataFrame.sparse.from_spmatrix(hidden, index=X.index, columns=X.columns)
    return pandas.DataFrame(hidden, index=X.index, columns=X.columns)


def mix(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Unrelated numbers from neighbouring ones: the finaliser of the generator splitmix64, with its constants."""
    mixed = numbers * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))

"""Rows on demand: dense arrays (also memory-mapped) and CSR matrices behind one ``read``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from anypca._typing import Floats


@dataclass(frozen=True)
class DenseSource:
    """Rows of a 2-D array of any real dtype and order, cast block by block."""

    array: npt.NDArray[Any]
    """(n_rows, n_columns), possibly memory-mapped; never copied as a whole."""
    dtype: np.dtype[Any]

    def read(self, start: int, stop: int) -> Floats:
        """Rows start..stop as a new C-contiguous array (stop - start, n_columns)."""
        return np.array(self.array[start:stop], dtype=self.dtype, order="C", copy=True)

    def matrix(self, start: int, stop: int) -> Floats:
        """The same as `read`, without a copy where the stored form will do."""
        return np.asarray(self.array[start:stop], dtype=self.dtype)

    def rows(self, start: int, stop: int) -> DenseSource:
        """The same rows as a source of their own."""
        return DenseSource(self.array[start:stop], self.dtype)


@dataclass(frozen=True)
class CsrSource:
    """Rows of a CSR matrix; entries that are not stored are 0, stored NaN are missing."""

    data: npt.NDArray[Any]
    indices: npt.NDArray[Any]
    indptr: npt.NDArray[Any]
    n_columns: int
    dtype: np.dtype[Any]

    def read(self, start: int, stop: int) -> Floats:
        """Rows start..stop as a new C-contiguous array (stop - start, n_columns).

        A CSR matrix of views is densified: no slower than scattering by index, faster than slicing the
        matrix (which copies the indices), and repeated entries are summed without touching the input.
        """
        dense: Floats = self.matrix(start, stop).toarray(order="C")
        return dense

    def matrix(self, start: int, stop: int) -> Any:
        """Rows start..stop as a CSR matrix of views."""
        rows = self.rows(start, stop)
        matrix = sparse.csr_array((stop - start, self.n_columns), dtype=self.dtype)
        # Set one by one: the constructor would look at every index again.
        matrix.data = rows.data.astype(self.dtype, copy=False)
        matrix.indices, matrix.indptr = rows.indices, rows.indptr
        return matrix

    def rows(self, start: int, stop: int) -> CsrSource:
        """The same rows as a source of their own."""
        first, last = self.indptr[start], self.indptr[stop]
        pointers = self.indptr[start : stop + 1] - first
        return CsrSource(
            self.data[first:last], self.indices[first:last], pointers, self.n_columns, self.dtype
        )


def make_source(matrix: Any, dtype: np.dtype[Any], name: str = "X") -> DenseSource | CsrSource:
    """Wrap a 2-D array or sparse matrix.

    Parameters
    ----------
    matrix : ndarray or sparse matrix of shape (n_rows, n_columns)
    dtype : dtype
        What blocks are read in.
    name : str
        What to call it in an error message.

    Raises
    ------
    ValueError
        If a CSR matrix is malformed.
    """
    if not sparse.issparse(matrix):
        return DenseSource(matrix, dtype)
    csr = matrix.tocsr()  # no copy when it is CSR already
    _check_csr(csr, name)
    return CsrSource(csr.data, csr.indices, csr.indptr, csr.shape[1], dtype)


def _check_csr(csr: Any, name: str) -> None:
    """Refuse pointers and indices out of range: densifying does not look and would write anywhere."""
    indptr, indices = csr.indptr, csr.indices
    if len(indptr) != csr.shape[0] + 1 or indptr[0] != 0 or np.any(np.diff(indptr) < 0):
        raise ValueError(
            f"{name} is not a valid CSR matrix: indptr must start at 0, never decrease and have "
            f"{csr.shape[0] + 1} elements. Rebuild it, for example from a COO matrix."
        )
    stored = int(indptr[-1])
    if stored > min(len(indices), len(csr.data)):
        raise ValueError(
            f"{name} is not a valid CSR matrix: indptr ends at {stored}, but there are {len(csr.data)} "
            f"values and {len(indices)} indices. Rebuild it, for example from a COO matrix."
        )
    outside = np.flatnonzero((indices[:stored] < 0) | (indices[:stored] >= csr.shape[1]))
    if len(outside):
        raise ValueError(
            f"{name} is not a valid CSR matrix: it stores column {int(indices[outside[0]])}, but has columns "
            f"0..{csr.shape[1] - 1}. Rebuild it with the right shape."
        )

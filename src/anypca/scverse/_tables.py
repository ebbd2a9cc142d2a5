"""Counts of an AnnData object as a table that models take, also from a file that is not loaded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy import sparse

from anypca._typing import Floats, Ints

#: Rows (or columns) of a file in memory at a time: 36 MB with 30 000 genes and a tenth of the cells non-zero.
_ROWS = 1000


@dataclass(frozen=True, eq=False)
class Genes:
    """Which columns of a matrix make the columns of a table."""

    columns: Ints
    """Columns of the matrix that are taken, (n_found,)."""
    places: Ints
    """Where they stand in the table, (n_found,)."""
    count: int
    """Columns of the table; those without a place are missing entries."""

    @classmethod
    def chosen(cls, columns: Ints) -> Genes:
        """These columns, in this order."""
        return cls(columns, np.arange(len(columns)), len(columns))

    def take(self, rows: Any) -> Any:
        """The table of some rows of the matrix, dense or CSR like them."""
        found = rows[:, self.columns]
        if len(self.columns) == self.count:
            order = np.argsort(self.places)
            return found if np.array_equal(order, np.arange(self.count)) else found[:, order]
        # Genes that the table lacks are missing entries of every cell.
        absent = np.full((rows.shape[0], self.count - len(self.columns)), np.nan)
        is_dense = isinstance(rows, np.ndarray)
        joined = np.hstack([found, absent]) if is_dense else sparse.hstack([found, absent], format="csr")
        lacking = np.setdiff1d(np.arange(self.count), self.places)
        return joined[:, np.argsort(np.concatenate([self.places, lacking]))]


@dataclass(frozen=True, eq=False)
class CellTable:
    """What a model is given."""

    X: Any
    """Counts (n_obs, n_genes), dense or CSR, in memory or memory-mapped; NaN where a gene is missing."""
    totals: Floats
    """Sum of each cell over all genes of the object (n_obs,)."""


def choose_matrix(adata: Any, layer: str | None) -> Any:
    """The layer, or X for None.

    Raises
    ------
    ValueError
        If there is no such layer; the message says which there are.
    """
    if layer is None:
        if adata.X is None:
            raise ValueError(f"adata has no X. Pass layer=, one of {sorted(adata.layers) or 'none'}.")
        return adata.X
    if layer not in adata.layers:
        there = ", ".join(repr(name) for name in sorted(adata.layers)) or "none"
        raise ValueError(
            f"adata has no layer {layer!r}; its layers: {there}. Pass layer=None if adata.X holds the counts, or keep "
            f"them before normalising: adata.layers[{layer!r}] = adata.X.copy()."
        )
    return adata.layers[layer]


@contextmanager
def open_table(matrix: Any, genes: Genes) -> Iterator[CellTable]:
    """The chosen genes of a matrix.

    Parameters
    ----------
    matrix : ndarray, sparse matrix, or a matrix in an h5ad file
        A file is read once, some rows at a time; the chosen genes go to a temporary file that is mapped to memory. Of a
        file in column order the chosen genes are read into memory.
    genes : Genes

    Yields
    ------
    CellTable
        Usable inside the ``with`` block.
    """
    if isinstance(matrix, np.ndarray | sparse.sparray | sparse.spmatrix):
        rows = matrix if isinstance(matrix, np.ndarray) else matrix.tocsr()
        yield CellTable(genes.take(rows), np.asarray(rows.sum(axis=1), dtype=float).ravel())
        return
    # Each row of such a file would be gathered from all of it.
    if getattr(matrix, "format", "") == "csc":
        yield _gather(matrix, genes)
        return
    with TemporaryDirectory(prefix="anypca-") as folder:
        yield _spool(matrix, genes, Path(folder))


def _gather(matrix: Any, genes: Genes) -> CellTable:
    """The chosen columns of a file in column order, into memory; rows are spread over all of such a file."""
    totals = np.zeros(matrix.shape[0])
    parts = []
    # A file by columns is read once, from left to right.
    order = np.argsort(genes.columns)
    for start in range(0, matrix.shape[1], _ROWS):
        columns = matrix[:, start : start + _ROWS]
        totals += np.asarray(columns.sum(axis=1), dtype=float).ravel()
        here = genes.columns[order] - start
        parts.append(columns[:, here[(here >= 0) & (here < columns.shape[1])]])
    found = sparse.hstack(parts, format="csr")
    return CellTable(Genes(np.arange(len(order)), genes.places[order], genes.count).take(found), totals)


def _spool(matrix: Any, genes: Genes, folder: Path) -> CellTable:
    """Copy the chosen genes into files of a folder, some rows at a time, and map them."""
    # Rows go to scratch files as they are read, which are then mapped: a slice of them is in memory at a time.
    totals, counts = [], [0]
    spools = {name: (folder / name).open("wb") for name in ("data", "indices")}
    dtypes: dict[str, Any] = {}
    try:
        for start in range(0, matrix.shape[0], _ROWS):
            rows = matrix[start : start + _ROWS]
            totals.append(np.asarray(rows.sum(axis=1), dtype=float).ravel())
            part = genes.take(rows)
            pieces = (
                {"data": part}
                if isinstance(part, np.ndarray)
                else {"data": part.data, "indices": part.indices}
            )
            for name, piece in pieces.items():
                dtypes[name] = piece.dtype
                np.ascontiguousarray(piece).tofile(spools[name])
            counts += [] if isinstance(part, np.ndarray) else (counts[-1] + part.indptr[1:]).tolist()
    finally:
        for spool in spools.values():
            spool.close()
    shape = (matrix.shape[0], genes.count)
    mapped = {name: _map(folder / name, dtype) for name, dtype in dtypes.items()}
    if "indices" not in mapped:
        return CellTable(mapped["data"].reshape(shape), np.concatenate(totals))
    return CellTable(_join(mapped["data"], mapped["indices"], counts, shape), np.concatenate(totals))


def _join(data: Any, indices: Any, counts: list[int], shape: tuple[int, int]) -> Any:
    """A CSR matrix of mapped arrays."""
    matrix = sparse.csr_array(shape, dtype=data.dtype)
    # Set one by one: the constructor copies indices if their type differs from the type of the pointers.
    fits = counts[-1] <= np.iinfo(indices.dtype).max
    matrix.data, matrix.indices = data, indices
    matrix.indptr = np.array(counts, dtype=indices.dtype if fits else np.int64)
    return matrix


def _map(path: Path, dtype: Any) -> Any:
    """A file as an array; an empty file cannot be mapped."""
    if path.stat().st_size == 0:
        return np.zeros(0, dtype)
    return np.memmap(path, dtype=dtype, mode="r")

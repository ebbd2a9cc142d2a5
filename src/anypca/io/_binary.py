"""Readers of array files and parquet."""

from __future__ import annotations

import gzip
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.io import mmread

from anypca.io._columns import frame_from_pandas, import_pandas
from anypca.io._frame import Frame, numbered

#: Names that mark the table among several arrays of an npz file.
_PREFERRED = ("X", "counts")


def read_npz(path: Path) -> Frame:
    """Read a dense array saved by ``np.savez`` or a sparse one saved by ``scipy.sparse.save_npz``.

    Parameters
    ----------
    path : Path

    Returns
    -------
    frame : Frame
    """
    try:
        # Opened here, since numpy leaves the file open when it is no proper zip archive.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            if {"format", "shape", "data"} <= set(archive.files):
                return _as_frame(sparse.load_npz(path), path)
            return _as_frame(_choose(archive, path), path)
    except (zipfile.BadZipFile, EOFError, zlib.error, ValueError) as error:
        raise _unreadable(path, error, "np.savez or scipy.sparse.save_npz") from error


def read_npy(path: Path) -> Frame:
    """Read an array saved by ``np.save``.

    Parameters
    ----------
    path : Path

    Returns
    -------
    frame : Frame
    """
    try:
        return _as_frame(np.load(path, allow_pickle=False), path)
    except (EOFError, ValueError) as error:
        raise _unreadable(path, error, "np.save") from error


def read_mtx(path: Path) -> Frame:
    """Read a MatrixMarket file, sparse or dense, also compressed.

    Parameters
    ----------
    path : Path

    Returns
    -------
    frame : Frame
    """
    try:
        return _as_frame(mmread(path, spmatrix=False), path)
    except (gzip.BadGzipFile, EOFError, zlib.error, ValueError) as error:
        raise _unreadable(path, error, "scipy.io.mmwrite") from error


def read_parquet(path: Path) -> Frame:
    """Read a parquet file; a named or textual index gives the row names.

    Parameters
    ----------
    path : Path

    Returns
    -------
    frame : Frame
    """
    pandas = import_pandas()
    try:
        table = pandas.read_parquet(path)
    except ImportError as error:
        raise ImportError(
            "reading parquet needs pyarrow; install it with pip install 'anypca[io]'."
        ) from error
    except ValueError as error:  # pyarrow's errors derive from it
        raise _unreadable(path, error, "pandas' to_parquet") from error
    if not isinstance(table.index, pandas.RangeIndex):
        table = table.reset_index(names=table.index.name or "index")
    table.columns = [str(name) for name in table.columns]
    return frame_from_pandas(table, path)


class _Refused(ValueError):
    """A complaint that already names the file and the remedy."""


def _unreadable(path: Path, error: Exception, writer: str) -> ValueError:
    if isinstance(error, _Refused):
        return ValueError(str(error))
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if "pickle" in reason:
        # numpy takes whatever it does not know for a pickle and advises to load it, which may run any code.
        reason = "it does not hold plain arrays of numbers"
    return ValueError(f"{path} cannot be read: {reason.rstrip('.')}. Write the file again with {writer}.")


def _choose(archive: Any, path: Path) -> Any:
    """The one table among the arrays of an npz file."""
    arrays = {name: archive[name] for name in archive.files}
    tables = [name for name, array in arrays.items() if array.ndim == 2]
    preferred = [name for name in _PREFERRED if name in tables]
    if len(tables) == 1:
        return arrays[tables[0]]
    if preferred:
        return arrays[preferred[0]]
    found = ", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "nothing"
    raise _Refused(
        f"{path}: expected one two-dimensional array, or one named {' or '.join(_PREFERRED)}; "
        f"it holds {found}. Save the table alone: np.savez(path, X=table)."
    )


def _as_frame(values: Any, path: Path) -> Frame:
    """Check shape and kind of an array; cast to floating point."""
    if values.ndim != 2 or 0 in values.shape:
        raise _Refused(
            f"{path}: expected a table with rows and columns; it holds an array of shape {values.shape}. "
            "Save a two-dimensional one."
        )
    if values.dtype.kind not in "biuf":
        raise _Refused(
            f"{path}: expected numbers; the array is of type {values.dtype}. "
            "Save it as an array of real numbers."
        )
    dtype = values.dtype if values.dtype in (np.float32, np.float64) else np.float64
    values = (
        sparse.csr_array(values, dtype=dtype) if sparse.issparse(values) else np.asarray(values, dtype=dtype)
    )
    notes = ("the file has no names: columns are called x1, x2, ... and rows are numbered from 1",)
    return Frame(values, numbered("x", values.shape[1]), numbered("", values.shape[0]), notes)

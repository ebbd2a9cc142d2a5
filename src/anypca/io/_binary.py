"""Readers of files of arrays: npz, npy, mtx, h5ad."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from anypca._words import counted, distinct, numbered, quoted
from anypca.io._native import check_places, check_text, read_anndata, read_market
from anypca.io._source import ReadOptions, Refused, check_archive, check_size, reading
from anypca.io.frame import Frame, as_extra, describe_missing

#: Names that mark the table among several arrays of an npz file.
_PREFERRED = ("X", "counts")
#: Rows of a layer that show whether it holds counts.
_SOME_ROWS = 1000
#: What is done about names that a file does not have.
_UNNAMED = {"column": "columns are called x1, x2, ...", "row": "rows are numbered from 1"}
#: Bytes that a name of a row or a column takes.
_NAME = 64.0


def read_npz(path: Path, options: ReadOptions) -> Frame:
    """Read a dense array saved by ``np.savez`` or a sparse one saved by ``scipy.sparse.save_npz``.

    Parameters
    ----------
    path : Path
    options : ReadOptions
        ``aside`` names further arrays of the file, of as many rows; ``part`` the array of the table.

    Returns
    -------
    frame : Frame
    """
    with reading(path, "np.savez or scipy.sparse.save_npz") as stream:
        check_archive(path, stream)
        with np.load(stream, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        check_text(arrays)
        if not {"format", "shape", "data"} <= set(arrays):
            return _frame_from_arrays(arrays, path, options)
        stream.seek(0)
        return frame_from_array(sparse.load_npz(stream), path, options)


def read_npy(path: Path, options: ReadOptions) -> Frame:
    """Read an array saved by ``np.save``.

    Parameters
    ----------
    path : Path
    options : ReadOptions

    Returns
    -------
    frame : Frame
    """
    with reading(path, "np.save") as stream:
        # An archive under this name, which np.load would open, is read as such.
        if not stream.read(6).startswith(b"\x93NUMPY"):
            raise ValueError("it does not begin as np.save begins its files")
        stream.seek(0)
        values = np.load(stream, allow_pickle=False)
    return frame_from_array(values, path, options)


def read_mtx(path: Path, options: ReadOptions) -> Frame:
    """Read a MatrixMarket file, sparse or dense.

    Parameters
    ----------
    path : Path
    options : ReadOptions

    Returns
    -------
    frame : Frame
    """
    with reading(path, "scipy.io.mmwrite") as stream:
        return frame_from_array(read_market(path, stream), path, options)


def frame_from_array(
    values: Any,
    path: Path,
    options: ReadOptions,
    *,
    columns: tuple[str, ...] | None = None,
    rows: tuple[str, ...] | None = None,
    extras: dict[str, Any] | None = None,
) -> Frame:
    """Check shape and kind of an array; cast to floating point, mark missing cells, name what has no name.

    Parameters
    ----------
    values : ndarray or sparse array of shape (n_rows, n_columns)
    path : Path
        For messages.
    options : ReadOptions
    columns, rows : tuple of str, optional
        Names, where the file has them.
    extras : dict, optional
        Further columns, by name.

    Returns
    -------
    frame : Frame
    """
    known = {} if extras is None else extras
    _check_named(path, options, known, has_rows=rows is not None)
    # A sparse array may declare what it does not hold; names are for all of it.
    check_size(path, _NAME * float(sum(np.shape(values))), "its declared rows and columns need")
    values = _as_floats(values, path)
    lacking = [kind for kind, names in (("column", columns), ("row", rows)) if names is None]
    what = " and ".join(_UNNAMED[kind] for kind in lacking)
    notes = (
        [f"the file has no {lacking[0] + ' ' if len(lacking) == 1 else ''}names: {what}"] if lacking else []
    )
    columns = numbered("x", values.shape[1]) if columns is None else columns
    rows = numbered("", values.shape[0]) if rows is None else rows
    if options.missing:
        values, count = _mask(values, options.missing_numbers)
        signs = " or ".join(map(repr, options.missing))
        notes.append(f"{counted(count, 'cell')} equal to {signs} taken as missing")
    return Frame(values, columns, rows, (*notes, *describe_missing(values, columns)), known)


def _check_named(path: Path, options: ReadOptions, extras: dict[str, Any], *, has_rows: bool) -> None:
    """Refuse options that name what the file does not have."""
    if options.id_column is not None:
        remedy = "Leave --id out: the file has row names." if has_rows else "Use a format with named columns."
        raise Refused(f"{path} has no column {options.id_column!r} of row names. {remedy}")
    for name in options.aside:
        if name not in extras:
            known = f"It has {quoted(sorted(extras), most=8)}." if extras else "It holds the table alone."
            raise Refused(f"{path}: there is nothing called {name!r} with a value for each row. {known}")


def _frame_from_arrays(arrays: dict[str, Any], path: Path, options: ReadOptions) -> Frame:
    """The table of an npz file, with names and further arrays that fit its rows and columns."""
    table = _choose(arrays, path, options)
    values = arrays[table]
    others = {name: array for name, array in arrays.items() if name != table}
    shape = values.shape if values.ndim == 2 else (0, 0)
    extras = {n: as_extra(a) for n, a in others.items() if a.ndim in (1, 2) and len(a) == shape[0]}
    columns, rows = _find_names(others, shape[1]), _find_names(others, shape[0])
    frame = frame_from_array(
        values,
        path,
        options,
        # A square table with one list of names: they are taken for the columns.
        columns=None if columns is None else tuple(map(str, others[columns])),
        rows=None if rows in (None, columns) else tuple(map(str, others[rows])),
        extras=extras,
    )
    used = {table, columns, rows, *options.aside}
    notes = [f"array {columns!r} taken as column names"] if columns is not None else []
    notes += [f"array {rows!r} taken as row names"] if rows not in (None, columns) else []
    ignored = [name for name in arrays if name not in used]
    if ignored:
        notes.append(f"table read from array {table!r}; left out: {quoted(ignored)}")
    return replace(frame, notes=(*notes, *frame.notes))


def _find_names(arrays: dict[str, Any], count: int) -> str | None:
    """The one array of ``count`` different texts, if there is one."""
    found = [
        name
        for name, array in arrays.items()
        if array.shape == (count,) and array.dtype.kind == "U" and len(np.unique(array)) == count > 1
    ]
    return found[0] if len(found) == 1 else None


def _choose(arrays: dict[str, Any], path: Path, options: ReadOptions) -> str:
    """Name of the one table among the arrays of an npz file."""
    tables = [name for name, array in arrays.items() if array.ndim == 2]
    found = ", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "nothing"
    if options.part is not None:
        if options.part not in tables:
            raise Refused(f"{path}: there is no two-dimensional array {options.part!r}; it holds {found}.")
        return options.part
    rest = [name for name in tables if name not in options.aside]
    preferred = [name for name in _PREFERRED if name in rest]
    if len(rest) == 1 or preferred:
        return rest[0] if len(rest) == 1 else preferred[0]
    raise Refused(
        f"{path}: expected one two-dimensional array, or one named {' or '.join(_PREFERRED)}; "
        f"it holds {found}. Save the table alone: np.savez(path, X=table)."
    )


def _as_floats(values: Any, path: Path) -> Any:
    """A two-dimensional real array, dense or CSR, in floating point."""
    if values.ndim != 2 or 0 in values.shape:
        raise Refused(
            f"{path}: expected a table with rows and columns; it holds an array of shape {values.shape}. "
            "Save a two-dimensional one."
        )
    check_places(values, path)
    if values.dtype.kind not in "biuf":
        raise Refused(
            f"{path}: expected numbers; the array is of type {values.dtype}. "
            "Save it as an array of real numbers."
        )
    dtype = values.dtype if values.dtype in (np.float32, np.float64) else np.float64
    # Damaged bits may be numbers of a kind that processors complain about.
    with np.errstate(invalid="ignore"):
        if sparse.issparse(values):
            return sparse.csr_array(values, dtype=dtype)
        return np.asarray(values, dtype=dtype)


def _mask(values: Any, numbers: tuple[float, ...]) -> tuple[Any, int]:
    """NaN in place of some numbers; of a sparse array the stored entries only."""
    values = values.copy()
    stored = values.data if sparse.issparse(values) else values
    same = np.isin(stored, numbers)
    stored[same] = np.nan
    return values, int(same.sum())


def read_h5ad(path: Path, options: ReadOptions) -> Frame:
    """Read X, or the layer ``options.part``, of an AnnData file; the columns of ``obs`` are extras.

    Parameters
    ----------
    path : Path
    options : ReadOptions

    Returns
    -------
    frame : Frame
    """
    adata = read_anndata(path)
    layers = _layers(adata)
    if options.part is not None and options.part not in layers:
        raise ValueError(
            f"{path}: there is no layer {options.part!r}; it has {quoted(list(layers)) or 'none'}."
        )
    values, names = (adata.X, adata.var_names) if options.part is None else layers[options.part]
    if values is None:
        raise ValueError(
            f"{path} has no X. Choose one of its layers: {quoted(list(layers)) or 'it has none'}."
        )
    frame = frame_from_array(
        values,
        path,
        options,
        # Gene symbols may repeat; models and data frames want names that do not.
        columns=distinct(names),
        rows=tuple(map(str, adata.obs_names)),
        extras={str(name): _cells(adata.obs[name]) for name in adata.obs},
    )
    counts = "" if options.part is not None else _say_counts(frame, layers, path)
    return _add_notes(frame, list(layers), counts, options)


def _layers(adata: Any) -> dict[str, tuple[Any, Any]]:
    """The tables other than X with the names of their columns; cell atlases keep counts in ``raw``."""
    found = {str(name): (layer, adata.var_names) for name, layer in adata.layers.items()}
    if adata.raw is not None:
        found.setdefault("raw", (adata.raw.X, adata.raw.var_names))
    return found


def _say_counts(frame: Frame, layers: Mapping[str, tuple[Any, Any]], path: Path) -> str:
    """A note on the first layer of counts if X holds fractions; empty if there is none."""
    stored = frame.values.data if frame.is_sparse else frame.values
    if frame.is_counts or stored.size == 0:
        return ""
    # Logarithms of normalised counts are not negative; centred and scaled ones are.
    looks = "log-normalised" if np.nanmin(stored) >= 0 else "scaled"
    for name, (layer, _) in layers.items():
        check_places(layer, path)
        some = layer[:_SOME_ROWS]
        cells = some.data if sparse.issparse(some) else np.asarray(some)
        if cells.dtype.kind in "biuf" and np.all((cells >= 0) & (cells == np.floor(cells))):
            return f"X looks {looks} and layer {name!r} holds counts: read it (--part {name}) to model the counts"
    return ""


def _cells(column: Any) -> Any:
    """A column of obs as numbers, or as text with None where empty."""
    if column.dtype.kind in "biuf":
        return column.to_numpy(dtype=float)
    return np.array(
        [None if is_empty else str(cell) for cell, is_empty in zip(column, column.isna(), strict=True)]
    )


def _add_notes(frame: Frame, layers: list[str], counts: str, options: ReadOptions) -> Frame:
    notes = [counts] if counts else []
    if options.part is None and layers:
        notes.append(f"table read from X; layers left out: {quoted(layers)}")
    unused = [name for name in frame.extras if name not in options.aside]
    if unused:
        notes.append(f"columns of obs are not part of the table: {quoted(unused)}")
    return replace(frame, notes=(*notes, *frame.notes))

"""Reader of h5ad files."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from anypca._optional import optional
from anypca._words import distinct, quoted
from anypca.io._binary import frame_from_array
from anypca.io._options import ReadOptions
from anypca.io._source import reading
from anypca.io.frame import Frame


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
    adata = _load(path)
    layers = [str(name) for name in adata.layers]
    if options.part is not None and options.part not in layers:
        raise ValueError(f"{path}: there is no layer {options.part!r}; it has {quoted(layers) or 'none'}.")
    values = adata.X if options.part is None else adata.layers[options.part]
    if values is None:
        raise ValueError(f"{path} has no X. Choose one of its layers: {quoted(layers) or 'it has none'}.")
    frame = frame_from_array(
        values,
        path,
        options,
        # Gene symbols may repeat; models and data frames want names that do not.
        columns=distinct(adata.var_names),
        rows=tuple(map(str, adata.obs_names)),
        extras={str(name): _cells(adata.obs[name]) for name in adata.obs},
    )
    return _add_notes(frame, layers, options)


def _load(path: Path) -> Any:
    with optional("reading h5ad", "anndata", "scverse"):
        import h5py
        from anndata.io import read_elem
    errors = (OSError, KeyError, TypeError)
    with (
        reading(path, "anndata's write_h5ad", *errors) as stream,
        h5py.File(stream) as file,
        warnings.catch_warnings(),
    ):
        # Files of earlier versions warn of their format; they are read all the same.
        warnings.simplefilter("ignore")
        return read_elem(file)


def _cells(column: Any) -> Any:
    """A column of obs as numbers, or as text with None where empty."""
    if column.dtype.kind in "biuf":
        return column.to_numpy(dtype=float)
    return np.array(
        [None if is_empty else str(cell) for cell, is_empty in zip(column, column.isna(), strict=True)]
    )


def _add_notes(frame: Frame, layers: list[str], options: ReadOptions) -> Frame:
    notes = []
    if options.part is None and layers:
        notes.append(f"table read from X; layers left out: {quoted(layers)}")
    unused = [name for name in frame.extras if name not in options.aside]
    if unused:
        notes.append(f"columns of obs are not part of the table: {quoted(unused)}")
    return replace(frame, notes=(*notes, *frame.notes))

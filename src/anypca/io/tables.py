"""Read a table from a file, whatever its format."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from pathlib import Path

from anypca.io._binary import read_mtx, read_npy, read_npz, read_parquet
from anypca.io._frame import Frame
from anypca.io._text import TextFormat, read_text

_TEXT = (".csv", ".tsv", ".txt")
_BINARY: dict[str, Callable[[Path], Frame]] = {
    ".parquet": read_parquet,
    ".npz": read_npz,
    ".npy": read_npy,
    ".mtx": read_mtx,
}
#: Formats that are also read when compressed, as in ``table.csv.gz``.
_COMPRESSIBLE = (*_TEXT, ".mtx")


def read_table(
    path: str | os.PathLike[str],
    *,
    delimiter: str | None = None,
    decimal: str | None = None,
    header: bool | None = None,
) -> Frame:
    """Read a table of numbers: rows are samples, columns are features.

    Parameters
    ----------
    path : path-like
        csv, tsv or txt (also .gz), parquet, npz (one dense array or ``scipy.sparse.save_npz``), npy,
        or mtx (MatrixMarket, also .gz).
    delimiter : str, optional
        What separates the cells of a text file; found among comma, semicolon, tab and blanks when not given.
    decimal : {".", ","}, optional
        The decimal sign of a text file; found when not given.
    header : bool, optional
        Whether the first line of a text file holds column names; found when not given.

    Returns
    -------
    frame : Frame
        Values (n_rows, n_columns), names, and notes on what was left out or repaired.

    Raises
    ------
    FileNotFoundError
        If there is no such file; the message suggests near names in that folder.
    TypeError
        If ``path`` is no path.
    ValueError
        If the file cannot be understood; the message names the file and the remedy.

    Notes
    -----
    In text and parquet files a column of unique text in first place, or one named id, name, sample or index,
    gives the row names. Yes/no and true/false columns become 1 and 0. Empty cells, NA, NaN, null and a lone
    ``?``, ``-`` or ``.`` are missing. Columns of other text or of dates, empty columns and empty rows are left
    out. Each of these is told in ``notes``.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(
            f"path must be the name of a file (str or Path); got {type(path).__name__}. Tables in memory need no "
            "reading: pass them to fit."
        )
    path = Path(path)
    _check_exists(path)
    suffix = _suffix(path)
    if suffix in _TEXT:
        return read_text(path, TextFormat(delimiter, decimal, header))
    return _BINARY[suffix](path)


def _suffix(path: Path) -> str:
    """The extension that decides the reader, without a final ``.gz``."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    is_compressed = bool(suffixes) and suffixes[-1] == ".gz"
    if is_compressed:
        suffixes.pop()
    suffix = suffixes[-1] if suffixes else ""
    known = _COMPRESSIBLE if is_compressed else (*_TEXT, *_BINARY)
    if suffix not in known:
        names = ", ".join((*_TEXT, *_BINARY, *(f"{name}.gz" for name in _COMPRESSIBLE)))
        raise ValueError(
            f"{path}: unknown file extension {''.join(path.suffixes[-2:]) or '(none)'!r}; known are {names}. "
            "Save the table in one of these formats."
        )
    return suffix


def _check_exists(path: Path) -> None:
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder. Give the path of a file in it.")
    if path.exists():
        return
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"there is no file {path}: the folder {path.parent} does not exist. Check the path; relative ones "
            f"start at {Path.cwd()}."
        )
    near = difflib.get_close_matches(path.name, sorted(os.listdir(path.parent)), n=3, cutoff=0.6)
    hint = f"Did you mean {' or '.join(near)}?" if near else "Check the name and the folder."
    raise FileNotFoundError(f"there is no file {path}. {hint}")

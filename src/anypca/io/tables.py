"""Read a table from a file, whatever its format."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from anypca._words import quoted
from anypca.io._binary import read_h5ad, read_mtx, read_npy, read_npz
from anypca.io._columns import chosen_names
from anypca.io._shape import turn
from anypca.io._source import ReadOptions
from anypca.io._tabular import read_parquet, read_xlsx
from anypca.io._text import read_text
from anypca.io.frame import Frame

#: The reader of each extension; each also reads the file compressed, as in ``table.csv.gz``.
_READERS: dict[str, Callable[[Path, ReadOptions], Frame]] = {
    ".csv": read_text,
    ".tsv": read_text,
    ".txt": read_text,
    ".xlsx": read_xlsx,
    ".parquet": read_parquet,
    ".npz": read_npz,
    ".npy": read_npy,
    ".mtx": read_mtx,
    ".h5ad": read_h5ad,
}


#: Formats of named columns of any kind.
_NAMED = frozenset({".csv", ".tsv", ".txt", ".xlsx", ".parquet"})


def read_table(
    path: str | os.PathLike[str],
    *,
    delimiter: str | None = None,
    decimal: str | None = None,
    header: bool | int | None = None,
    skip: int | None = None,
    comment: str | None = None,
    id_column: str | None = None,
    missing: Sequence[str] = (),
    aside: Sequence[str] = (),
    part: str | None = None,
    transpose: bool | None = None,
    columns: Sequence[str] = (),
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
    codes: Mapping[str, Sequence[float]] | None = None,
    categories: bool = False,
) -> Frame:
    """Read a table of numbers: rows are samples, columns are features.

    Parameters
    ----------
    path : path-like
        csv, tsv, txt, xlsx, parquet, npz (arrays, or a matrix of ``scipy.sparse.save_npz``), npy, mtx
        (MatrixMarket) or h5ad (AnnData); each also compressed, as in table.csv.gz.
    delimiter : str, optional
        Separator of the cells of a text file; detected among comma, semicolon, tab, vertical bar and blanks when not
        given.
    decimal : {".", ","}, optional
        The decimal sign of a text file; detected by default.
    header : bool or int, optional
        Whether the first line of a text file or sheet holds column names, or how many lines do; detected by default.
    skip : int, optional
        Lines to leave out at the top of a text file or sheet; titles are detected by default.
    comment : str, optional
        First characters of comment lines of a text file, ``""`` for none; a few lines with ``#`` when not given.
    id_column : str, optional
        The column of row names; detected by default.
    missing : sequence of str
        Cells that mean a missing value besides the usual ones; ``"-9"`` is also -9.0.
    aside : sequence of str
        Columns that are not part of the table, such as an offset: they go to ``extras``. Of an npz file: arrays
        with as many rows. Of an h5ad file: columns of ``obs``.
    part : str, optional
        Sheet of a workbook (the first by default), layer of an h5ad file or ``"raw"`` (X by default), array of an
        npz file.
    transpose : bool, optional
        Whether the columns of the file are samples. Detected by default: tables whose row names are called OTU ID
        or similar are transposed.
    columns : sequence of str
        Columns to read, as names or patterns such as ``"Q*"``; all when empty.
    drop : sequence of str
        Columns to leave out, as names or patterns.
    keep : sequence of str
        Columns, as names or patterns, that are amounts although they look like labels or years, and whose cells of 99
        and the like are values.
    codes : mapping of str to sequence of float, optional
        Numbers that mean missing values, by column; detected by default.
    categories : bool
        Whether columns of text with 2 to 30 labels, and declared categories, are part of the table, as numbers of their
        labels: ``labels`` lists them, and ``to_pandas`` gives a frame that models take. Other text is left out.

    Returns
    -------
    frame : Frame
        Values (n_rows, n_columns), names, and notes on omissions and repairs. ``extras`` has further columns: columns
        set aside, of text, or of dates.

    Raises
    ------
    FileNotFoundError
        If there is no such file; the message suggests near names in that folder.
    TypeError
        If ``path`` is no path.
    ValueError
        If the file cannot be parsed, is damaged, declares or becomes more than 4 GiB when unpacked, or (h5ad)
        refers to other files; the message names the file and the remedy.

    See Also
    --------
    Frame : class of the result.

    Notes
    -----
    In text files, workbooks and parquet files a column of unique text in first place, or one named id, name, sample
    or index, gives the row names. Yes/no and true/false columns become 1 and 0.

    Numbers in text may have thousands marks (comma, point, blank, apostrophe), a percent sign (12% is 0.12), a
    currency or a unit. Each column is read with one decimal sign: the one all its cells allow or, if they allow both,
    the one that other columns have; where these differ the column is left out. Cells such as ``<0.01`` are limits and
    no values: missing where they are few.

    Empty cells, NA, NaN, null and a lone ``?``, ``-`` or ``.`` are missing; so are up to a tenth of a column's cells
    if they are no numbers, and the last cells of a few lines that are too short. Columns of other text or of dates,
    empty columns and empty rows are left out, and so are titles and comments above the column names, which may take
    two rows. A last row that holds sums, called total or without a name, is left out. Durations are read as seconds.

    Columns that label or number the rows (``respondent_id``, zip codes, 1, 2, 3, ...) and years are no amounts and go
    to ``extras``; numbers such as 99 or -9 that stand far from all others of a column are missing values. ``keep``
    overrules both. ``notes`` lists each of these.
    """
    given = locals()
    if not isinstance(path, str | os.PathLike):
        raise TypeError(
            f"path must be the name of a file (str or Path); got {type(path).__name__}. Tables in memory need no "
            "reading: pass them to fit."
        )
    path = Path(path)
    _check_exists(path)
    options = ReadOptions(**{name: _frozen(value) for name, value in given.items() if name != "path"})
    if transpose and options.aside:
        raise ValueError(
            f"{path}: a table that is turned has no columns to set aside; got {quoted(options.aside)}."
        )
    frame = _READERS[_suffix(path)](path, options)
    return turn(frame) if transpose else _choose(frame, options, path)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _choose(frame: Frame, options: ReadOptions, path: Path) -> Frame:
    """The wanted columns of a file of arrays; tables of named columns were read without the others."""
    is_chosen = _suffix(path) in _NAMED or not (options.columns or options.drop)
    if is_chosen:
        return frame
    names = list(frame.column_names)
    kept = [name for name in chosen_names(names, options, path) if name in names]
    return frame.take_columns([names.index(name) for name in kept], tuple(kept))


def _suffix(path: Path) -> str:
    """The extension that decides the reader, without a final ``.gz``."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    suffix = suffixes[-1] if suffixes else ""
    if suffix not in _READERS:
        raise ValueError(
            f"{path}: unknown file extension {''.join(path.suffixes[-2:]) or '(none)'!r}; known are "
            f"{', '.join(_READERS)}, each also with .gz. Save the table in one of these formats."
        )
    return suffix


def _check_exists(path: Path) -> None:
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder. Give the path of a file in it.")
    if path.is_file():
        return
    if path.exists():
        raise ValueError(f"{path} is a pipe or a device and no file. Copy its content into a file first.")
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"there is no file {path}: the folder {path.parent} does not exist. Check the path; relative ones "
            f"start at {Path.cwd()}."
        )
    near = difflib.get_close_matches(path.name, sorted(os.listdir(path.parent)), n=3, cutoff=0.6)
    hint = f"Did you mean {' or '.join(near)}?" if near else "Check the name and the folder."
    raise FileNotFoundError(f"there is no file {path}. {hint}")

"""Files that are read by compiled code, which trusts them: checked before it sees them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from scipy import sparse

from anypca._optional import optional
from anypca.io._source import Refused, check_size, reading

_BANNER = re.compile(
    rb"%%MatrixMarket\s+matrix\s+(array|coordinate)\s+(real|double|integer|unsigned-integer|pattern)\s+"
    rb"(general|symmetric|skew-symmetric)\s*",
    re.IGNORECASE,
)
#: Longer than any line of sizes; a comment may be longer and is read to its end.
_LINE = 4096
#: Bytes of the shortest entry: a digit and a line break, with a row and a column of a digit each in front.
_SHORTEST = {b"array": 2, b"coordinate": 4}


@dataclass(frozen=True)
class _Market:
    """The head of a MatrixMarket file."""

    kind: bytes
    """Whether entries come with their places (``coordinate``) or not (``array``)."""
    has_values: bool
    symmetry: bytes
    shape: tuple[int, int]
    n_entries: int


def read_market(path: Path, stream: IO[bytes]) -> Any:
    """The matrix of a MatrixMarket file whose sizes its length allows.

    Compiled readers of this format end the process on some damaged files, whence this one.

    Parameters
    ----------
    path : Path
        For messages.
    stream : binary stream
        The content, unpacked.

    Returns
    -------
    matrix : ndarray or sparse array of shape (n_rows, n_columns)

    Raises
    ------
    ValueError
    """
    head = _read_head(path, stream)
    with warnings.catch_warnings():
        # Old versions of numpy stop at the first word that is no number, with a warning only.
        warnings.simplefilter("error")
        try:
            numbers = np.fromstring(stream.read().decode("ascii"), sep=" ")
        except DeprecationWarning as warning:
            raise ValueError(str(warning)) from None
    width = 1 if head.kind == b"array" else 2 + head.has_values
    if numbers.size != width * head.n_entries:
        raise ValueError(
            f"expected {head.n_entries} entries of {width} numbers, found {numbers.size} numbers"
        )
    return _fill(head, numbers) if head.kind == b"array" else _place(head, numbers.reshape(-1, width))


def _read_head(path: Path, stream: IO[bytes]) -> _Market:
    """The first lines; sizes that the length of the file contradicts are refused."""
    banner = _BANNER.fullmatch(stream.readline(_LINE).rstrip())
    if banner is None:
        raise ValueError("Line 1: Not a Matrix Market file with a matrix of real numbers")
    kind, field, symmetry = (word.lower() for word in banner.groups())
    sizes = _read_sizes(stream, 2 if kind == b"array" else 3)
    shape = sizes[0], sizes[1]
    if symmetry != b"general" and shape[0] != shape[1]:
        raise ValueError(f"a symmetric matrix cannot have {shape[0]} rows and {shape[1]} columns")
    n_half = shape[0] * (shape[0] + (1 if symmetry == b"symmetric" else -1)) // 2
    n_entries = sizes[2] if kind != b"array" else shape[0] * shape[1] if symmetry == b"general" else n_half
    here = stream.tell()
    length = stream.seek(0, 2)
    stream.seek(here)
    if n_entries * _SHORTEST[kind] > length + _SHORTEST[kind]:
        raise ValueError(f"it declares {n_entries} entries, which do not fit into its {length} bytes")
    # A place for each row is kept whether it has entries or not.
    check_size(path, 8.0 * (shape[0] + shape[1]), "its declared rows and columns need")
    return _Market(kind, field != b"pattern", symmetry, shape, n_entries)


def _read_sizes(stream: IO[bytes], count: int) -> list[int]:
    line = stream.readline(_LINE)
    while line and (line.startswith(b"%") or not line.strip()):
        line = stream.readline(_LINE)
    words = line.split()
    if len(words) != count or not all(re.fullmatch(rb"\d{1,18}", word) for word in words):
        raise ValueError(f"expected a line of {count} sizes, found {line[:40]!r}")
    return [int(word) for word in words]


def _fill(head: _Market, numbers: Any) -> Any:
    """The entries of a dense matrix, by columns; of a symmetric one its lower half."""
    if head.symmetry == b"general":
        return numbers.reshape(head.shape, order="F")
    is_skew = head.symmetry == b"skew-symmetric"
    lower = np.zeros(head.shape)
    columns, rows = np.triu_indices(head.shape[0], k=1 if is_skew else 0)
    lower[rows, columns] = numbers
    return lower - lower.T if is_skew else lower + np.tril(lower, -1).T


def _place(head: _Market, entries: Any) -> Any:
    """The entries of a sparse matrix at their places, which count from 1."""
    places = entries[:, :2]
    if np.any((places < 1) | (places > head.shape) | (places != np.floor(places))):
        raise ValueError(f"some entry is not within its {head.shape[0]} rows and {head.shape[1]} columns")
    rows, columns = (places[:, j].astype(np.int64) - 1 for j in (0, 1))
    values = entries[:, 2] if head.has_values else np.ones(len(entries))
    if head.symmetry != b"general":
        off = rows != columns
        sign = -1.0 if head.symmetry == b"skew-symmetric" else 1.0
        values = np.concatenate([values, sign * values[off]])
        rows, columns = np.concatenate([rows, columns[off]]), np.concatenate([columns, rows[off]])
    return sparse.coo_array((values, (rows, columns)), shape=head.shape)


def check_places(values: Any, path: Path) -> None:
    """Refuse a sparse array whose entries lie outside of it: compiled code would read and write there.

    Parameters
    ----------
    values : ndarray or sparse array
        A dense one has nothing to check.
    path : Path
        For the message.

    Raises
    ------
    ValueError
    """
    if not sparse.issparse(values) or values.format not in {"csr", "csc", "bsr"}:
        return
    starts, indices = values.indptr, values.indices
    n_places = values.shape[0 if values.format == "csc" else 1] // (
        values.blocksize[1] if values.format == "bsr" else 1
    )
    # scipy's own check trusts the last start, and looks no further where that is negative.
    is_sound = starts[0] == 0 and np.all(starts[1:] >= starts[:-1]) and starts[-1] <= len(indices)
    if not (is_sound and len(indices) == len(values.data) and np.all((indices >= 0) & (indices < n_places))):
        raise Refused(
            f"{path} cannot be read: some entries of its sparse table are not within it. Write the file again."
        )


def check_text(arrays: Mapping[str, Any]) -> None:
    """Refuse arrays of text with characters that do not exist, which the interpreter trusts numpy to have checked.

    Parameters
    ----------
    arrays : mapping of str to ndarray

    Raises
    ------
    ValueError
    """
    for name, array in arrays.items():
        if array.dtype.kind == "U" and array.size and array.dtype.itemsize:
            numbers = np.ascontiguousarray(array).reshape(-1).view(f"{array.dtype.byteorder}u4")
            is_character = (numbers < 0xD800) | ((numbers > 0xDFFF) & (numbers <= 0x10FFFF))
            if not is_character.all():
                raise ValueError(f"array {name!r} holds characters that do not exist")


def read_anndata(path: Path) -> Any:
    """The content of an AnnData file that refers to no other file.

    Parameters
    ----------
    path : Path

    Returns
    -------
    adata : anndata.AnnData

    Raises
    ------
    ValueError
    """
    with optional("reading h5ad", "anndata", "scverse"):
        import h5py

        # The error of parts of an unknown kind, which has no public name.
        from anndata._io.specs.registry import IORegistryError
        from anndata.io import read_elem
    with reading(path, "anndata's write_h5ad", IORegistryError) as stream, h5py.File(stream, "r") as file:
        _check_group(path, file, set())
        adata = read_elem(file)
        if not hasattr(adata, "obs_names"):
            raise ValueError("it holds no AnnData object")
        return adata


def _check_group(path: Path, group: Any, seen: set[Any]) -> None:
    """Refuse links to other files, data stored elsewhere, and declared sizes beyond the limit."""
    import h5py

    for name in group:
        link = group.get(name, getlink=True)
        if isinstance(link, h5py.ExternalLink):
            raise Refused(
                f"{path} is refused: {name!r} is a link to another file. Copy the data into one file."
            )
        item = group[name]
        # Links within a file may lead in circles.
        if item.id in seen:
            continue
        seen.add(item.id)
        if isinstance(item, h5py.Group):
            _check_group(path, item, seen)
        elif isinstance(item, h5py.Dataset):
            _check_dataset(path, name, item)


def _check_dataset(path: Path, name: str, data: Any) -> None:
    if data.external or data.is_virtual:
        raise Refused(
            f"{path} is refused: the data of {name!r} are stored in another file. Copy them into one file."
        )
    check_size(path, float(data.nbytes), f"{name!r} would become")

"""Files that may be compressed, how they are to be read, and what to say of those that cannot be."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO


@dataclass(frozen=True)
class ReadOptions:
    """What a user says of a file; ``None`` and empty where it is to be found out."""

    delimiter: str | None = None
    decimal: str | None = None
    header: int | None = None
    """Number of rows of column names; True is 1."""
    id_column: str | None = None
    """The column of row names."""
    missing: tuple[str, ...] = ()
    """Cells that stand for a missing value, besides the usual ones."""
    aside: tuple[str, ...] = ()
    """Columns that are not part of the table; they go to ``Frame.extras``."""
    part: str | None = None
    """Sheet of a workbook, layer of an h5ad file, array of an npz file."""
    skip: int | None = None
    """Number of lines to leave out at the top."""
    comment: str | None = None
    """What comment lines begin with; empty: there are none."""

    @property
    def missing_numbers(self) -> tuple[float, ...]:
        """Those of ``missing`` that are numbers: -9 also stands for -9.0."""
        return tuple(number for number in map(_number, self.missing) if number is not None)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def open_source(path: Path) -> IO[bytes]:
    """Open a file, or the content of one that ends in ``.gz``.

    Parameters
    ----------
    path : Path

    Returns
    -------
    stream : binary stream
    """
    if path.suffix.lower() != ".gz":
        return path.open("rb")
    try:
        return io.BytesIO(gzip.decompress(path.read_bytes()))
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is not a whole gzip file: {error}. Compress or fetch it again.") from error


@contextmanager
def reading(path: Path, writer: str, *errors: type[Exception]) -> Iterator[IO[bytes]]:
    """Open a file; errors in its content become a complaint that says what writes such files.

    Parameters
    ----------
    path : Path
    writer : str
        What writes such files, for the message.
    *errors : exception types
        What the reader raises on content that is not what the file's name says.

    Yields
    ------
    stream : binary stream

    Raises
    ------
    ValueError
    """
    stream = open_source(path)
    try:
        with stream:
            yield stream
    except errors as error:
        raise _unreadable(path, error, writer) from error


def _unreadable(path: Path, error: Exception, writer: str) -> ValueError:
    """A complaint on a file whose content is not what its name says; our own complaints say all of it already."""
    if getattr(error, "is_complete", False):
        return ValueError(str(error))
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if "pickle" in reason:
        # numpy takes whatever it does not know for a pickle and advises to load it, which may run any code.
        reason = "it does not hold plain arrays of numbers"
    return ValueError(f"{path} cannot be read: {reason.rstrip('.')}. Write the file again with {writer}.")

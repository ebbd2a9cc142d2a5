"""Open files, which may be compressed; options of readers; errors for invalid files."""

from __future__ import annotations

import gzip
import io
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO


@dataclass(frozen=True)
class ReadOptions:
    """Options to read a file; ``None`` and empty values are detected."""

    delimiter: str | None = None
    decimal: str | None = None
    header: int | None = None
    """Number of rows of column names; True is 1."""
    id_column: str | None = None
    """The column of row names."""
    missing: tuple[str, ...] = ()
    """Cells that mean a missing value, besides the usual ones."""
    aside: tuple[str, ...] = ()
    """Columns that are not part of the table; they go to ``Frame.extras``."""
    part: str | None = None
    """Sheet of a workbook, layer of an h5ad file, array of an npz file."""
    skip: int | None = None
    """Number of lines to leave out at the top."""
    comment: str | None = None
    """What comment lines begin with; empty: there are none."""
    transpose: bool | None = None
    """Whether columns are samples."""
    keep: tuple[str, ...] = ()
    """Columns that are amounts even if they look like labels or years; all of their cells are values."""
    codes: Mapping[str, Sequence[float]] | None = None
    """Numbers that mean missing values, by column; None: detected."""
    columns: tuple[str, ...] = ()
    """Patterns of the columns to read; empty: all."""
    drop: tuple[str, ...] = ()
    """Patterns of columns to leave out."""
    categories: bool = False
    """Whether columns of text with few labels are part of the table."""

    @property
    def missing_numbers(self) -> tuple[float, ...]:
        """The numbers among ``missing``: -9 also means -9.0."""
        return tuple(number for number in map(_number, self.missing) if number is not None)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


#: Bytes that a compressed file may become. A table of this size leaves a machine of 16 GB room to work with it.
MOST_BYTES = 2**32
#: Bytes read at a time, so that a file which becomes too large is noticed soon.
_CHUNK = 2**20
#: What libraries raise on content that is not what a file says it is. Damage can meet any line of a parser: hence the
#: long list, which is for calls of these libraries only and not for our own code.
_DAMAGE: tuple[type[Exception], ...] = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


class Refused(ValueError):
    """An error whose message already names the file and the remedy."""

    is_complete = True


def check_size(path: Path, size: float, what: str = "it would become") -> None:
    """Raise an error if content is too large, before it is read.

    Parameters
    ----------
    path : Path
        For the message.
    size : float
        In bytes, as the file declares it.
    what : str
        What has the size.
    """
    if size > MOST_BYTES:
        raise Refused(
            f"{path} is refused: {what} {size / 2**30:.3g} GiB, and at most {MOST_BYTES / 2**30:.3g} GiB are read from "
            "packed or declared sizes. Check where the file comes from, or save the table as plain CSV or npy."
        )


def check_archive(path: Path, stream: IO[bytes], swelling: float = 1.0) -> None:
    """Raise an error if the content of a zip archive is too large.

    Parameters
    ----------
    path : Path
    stream : binary stream
        Left at its beginning.
    swelling : float
        How much larger the content becomes in memory.
    """
    with zipfile.ZipFile(stream) as archive:
        check_size(path, swelling * sum(entry.file_size for entry in archive.infolist()))
    stream.seek(0)


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
    content = io.BytesIO()
    try:
        with gzip.open(path) as packed:
            while chunk := packed.read(_CHUNK):
                content.write(chunk)
                check_size(path, content.tell(), "it becomes more than")
    except (gzip.BadGzipFile, EOFError, zlib.error, struct.error) as error:
        raise ValueError(f"{path} is not a whole gzip file: {error}. Compress or fetch it again.") from error
    content.seek(0)
    return content


@contextmanager
def reading(path: Path, writer: str, *errors: type[Exception]) -> Iterator[IO[bytes]]:
    """Open a file, and translate errors of libraries into messages that name software to write such files.

    Parameters
    ----------
    path : Path
    writer : str
        What writes such files, for the message.
    *errors : exception types
        What the library raises on content besides the usual errors.

    Yields
    ------
    stream : binary stream

    Raises
    ------
    ValueError
    """
    stream = open_source(path)
    try:
        # Libraries warn of damaged files before they refuse them.
        with stream, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield stream
    except (*_DAMAGE, *errors) as error:
        raise _unreadable(path, error, writer) from error


def _unreadable(path: Path, error: Exception, writer: str) -> ValueError:
    """Translate an error on invalid content; errors of this package stay unchanged."""
    if getattr(error, "is_complete", False):
        return ValueError(str(error))
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = lines[0] if lines else type(error).__name__
    if isinstance(error, MemoryError):
        reason = "it declares more than fits into memory"
    if "pickle" in reason:
        # numpy treats unknown content as a pickle and suggests to load it, which can run any code.
        reason = "it does not hold plain arrays of numbers"
    return ValueError(f"{path} cannot be read: {reason.rstrip('.')}. Write the file again with {writer}.")

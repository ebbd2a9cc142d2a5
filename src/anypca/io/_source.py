"""Files that may be compressed, and what to say of those that cannot be read."""

from __future__ import annotations

import gzip
import io
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any


@dataclass(frozen=True)
class Unpacked:
    """The content of a compressed file, opened as a path is."""

    content: bytes

    def open(self, mode: str = "rb") -> IO[bytes]:
        """A stream of the content.

        Parameters
        ----------
        mode : {"rb"}

        Returns
        -------
        stream : binary stream
        """
        return io.BytesIO(self.content)


def open_source(path: Path) -> Any:
    """The file itself, or its content if it ends in ``.gz``.

    Parameters
    ----------
    path : Path

    Returns
    -------
    source : Path or Unpacked
        Both have ``open("rb")``.
    """
    if path.suffix.lower() != ".gz":
        return path
    try:
        return Unpacked(gzip.decompress(path.read_bytes()))
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is not a whole gzip file: {error}. Compress or fetch it again.") from error


def unreadable(path: Path, error: Exception, writer: str) -> ValueError:
    """A complaint on a file whose content is not what its name says.

    Parameters
    ----------
    path : Path
    error : Exception
        What the reader raised; ours, which name file and remedy already, are kept.
    writer : str
        What writes such files.

    Returns
    -------
    error : ValueError
    """
    if getattr(error, "is_complete", False):
        return ValueError(str(error))
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if "pickle" in reason:
        # numpy takes whatever it does not know for a pickle and advises to load it, which may run any code.
        reason = "it does not hold plain arrays of numbers"
    return ValueError(f"{path} cannot be read: {reason.rstrip('.')}. Write the file again with {writer}.")

"""Store the row state of a table in a file in a file too, so that memory does not grow with rows."""

from __future__ import annotations

import mmap
import pickle
import tempfile
from typing import IO, Any, NamedTuple, Self

# Arrays begin at multiples of this, the width of the widest registers: sums run at the speed of other arrays.
_ALIGNMENT = 64


class _Kept(NamedTuple):
    """An object without its arrays, and where these lie in the file."""

    rest: bytes
    spans: list[slice]


class Shelf:
    """Objects one after the other, with their arrays in a temporary file; it goes when the last of them does."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._kept: list[_Kept] = []
        self._end = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def append(self, piece: Any) -> None:
        """Write the arrays of an object that can be pickled."""
        buffers: list[pickle.PickleBuffer] = []
        rest = pickle.dumps(piece, protocol=5, buffer_callback=buffers.append)
        self._kept.append(_Kept(rest, [self._write(buffer.raw()) for buffer in buffers]))

    def _write(self, raw: memoryview) -> slice:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="anypca-")  # noqa: SIM115  (closed by `__exit__`)
        start = -(-self._end // _ALIGNMENT) * _ALIGNMENT
        self._file.write(bytes(start - self._end))
        self._file.write(raw)
        self._end = start + raw.nbytes
        return slice(start, self._end)

    def take(self) -> list[Any]:
        """The objects, in order, with arrays that are read from the file when they are looked at."""
        view = self._map() if self._end else memoryview(b"")
        return [pickle.loads(rest, buffers=[view[span] for span in spans]) for rest, spans in self._kept]

    def _map(self) -> memoryview:
        """The file; one map for all objects, since each map holds a file open."""
        assert self._file is not None
        self._file.flush()
        return memoryview(mmap.mmap(self._file.fileno(), 0))

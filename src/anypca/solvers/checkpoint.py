"""Checkpoints: the progress of a fit in a file, from which a killed fit continues.

A fit is a chain of runs of the loop with cheap work between them, which follows from the table, the settings and the
seed. The file lists the runs: the result and the last sums of each run that has ended, the shared parameters and the
trace of the current one. A fit that finds its file repeats the work between the runs and reads the runs. The state of
the rows is not stored: it follows from the shared parameters.

Records are appended with their length and a checksum. A record that is not whole, because the process was killed, is
dropped with everything behind it.
"""

from __future__ import annotations

import os
import secrets
import struct
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from anypca._typing import Floats
from anypca.solvers._records import pack, unpack

# First bytes of the file; the digit is the version of the format.
_MAGIC = b"anypca checkpoint 1\n"
# Length and CRC-32 of the record that follows.
_FRAME = struct.Struct(">QI")
# Sums over the same table agree to rounding, whatever the number of threads; another table has other sums.
_SAME = 1e-6


@dataclass(frozen=True)
class Checkpoint:
    """A file for the progress of a fit, and how often it is written.

    Parameters
    ----------
    path : path-like
        The file of the progress.
    every : float, default=60.0
        Seconds between two writes; the progress since the last one is lost by a kill.

    See Also
    --------
    EPCA : like all iterative models, accepts it as ``fit(checkpoint=...)``.
    """

    path: str | os.PathLike[str]
    every: float = 60.0


@dataclass(frozen=True, eq=False)
class Entry:
    """A run of the loop: where it is, or how it ended."""

    number: int
    key: str
    """Identifies the problem; the entry is used only if it matches, see `key_of`."""
    shared: Any
    trace: Floats
    status: Any = None
    """``None`` while it is under way."""
    criterion: float = np.inf
    stats: Any = None
    """Sums of the last sweep, once it has ended."""


def key_of(problem: Any, shared: Any) -> str:
    """The kind of problem and the shapes of the parameters that it starts from."""
    # Changes of coordinates come and go between sweeps.
    return f"{type(problem).__qualname__}{_shapes(problem.without_gauge(shared))}"


def _shapes(value: Any) -> list[Any]:
    """Shapes of the arrays in a value, in order."""
    if isinstance(value, np.ndarray):
        return [list(value.shape)]
    parts = (getattr(value, part.name) for part in fields(value)) if is_dataclass(value) else ()
    return [shape for part in parts for shape in _shapes(part)]


class NullCheckpointer:
    """The checkpointer of a fit without a checkpoint."""

    def load(self, problem: Any, shared: Any, *, is_reported: bool = True) -> Entry | None:
        """The saved state of the run that begins: none. ``is_reported`` if its progress is shown to users."""
        return None

    def save(self, shared: Any, trace: list[float]) -> None:
        """Record an iteration of the run."""

    def close(self, result: Any, stats: Any, *, is_reported: bool = True) -> None:
        """Record the end of the run."""


#: For fits without a checkpoint.
NULL_CHECKPOINTER = NullCheckpointer()


class Checkpointer(NullCheckpointer):
    """Writes the progress of a fit to a file; a context manager that completes it if the fit is interrupted.

    Parameters
    ----------
    checkpoint : Checkpoint
    identity : mapping of str to mapping
        What identifies the fit, by topic ("model", "table"): a file of another identity is refused.
    origin : mapping
        Kept from the first start for those that follow, such as the state of the generator of random numbers.
    clock : callable
        Seconds.

    Raises
    ------
    ValueError
        If the file is no checkpoint, or of another fit.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        identity: Mapping[str, Mapping[str, Any]],
        origin: Mapping[str, Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = Path(os.path.abspath(checkpoint.path))
        self._every, self._clock = checkpoint.every, clock
        self._old: dict[int, Entry] = {}
        self._number = -1
        self._key = ""
        self._pending: list[bytes] = []
        self._latest: Entry | None = None
        self.origin: Mapping[str, Any] = origin or {}
        self._open(identity)
        self._written = clock()

    def load(self, problem: Any, shared: Any, *, is_reported: bool = True) -> Entry | None:
        """The saved state of the run that begins; entries after one that does not fit are dropped."""
        self._number, self._key, self._latest = self._number + 1, key_of(problem, shared), None
        found = self._old.pop(self._number, None)
        if found is None or found.key != self._key:
            self._old.clear()
            return None
        return found

    def save(self, shared: Any, trace: list[float]) -> None:
        """Record an iteration, and write if it is time."""
        self._latest = Entry(self._number, self._key, shared, np.array(trace))
        if self._clock() - self._written >= self._every:
            self.flush()

    def close(self, result: Any, stats: Any, *, is_reported: bool = True) -> None:
        """Record how a run ended, and write if it is time."""
        entry = Entry(
            self._number, self._key, result.shared, result.trace, result.status, result.criterion, stats
        )
        self._pending.append(_framed(pack(entry)))
        self._latest = None
        if self._clock() - self._written >= self._every:
            self.flush()

    def flush(self) -> None:
        """Write pending entries."""
        running = [] if self._latest is None else [_framed(pack(self._latest))]
        with open(self._path, "ab") as file:
            file.writelines([*self._pending, *running])
            file.flush()
            os.fsync(file.fileno())
        self._pending, self._latest, self._written = [], None, self._clock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Remove the file of a fit that has ended; complete it if the fit was interrupted or failed."""
        if kind is None:
            self._path.unlink(missing_ok=True)
        else:
            self.flush()

    def _open(self, identity: Mapping[str, Mapping[str, Any]]) -> None:
        """Read an existing file up to its last whole record, or create one."""
        if not self._path.exists():
            _write_whole(self._path, _MAGIC + _framed(pack({"identity": identity, "origin": self.origin})))
            return
        content = self._path.read_bytes()
        if not content.startswith(_MAGIC):
            raise ValueError(f"{self._path} is not a checkpoint of anypca. Choose another file.")
        records = list(_records(content))
        if not records:
            raise ValueError(f"{self._path} is damaged from its beginning on. Remove it.")
        header = unpack(records[0][0])
        self._check(header["identity"], identity)
        self.origin = header["origin"]
        self._old = {entry.number: entry for entry in (unpack(record) for record, _ in records[1:])}
        os.truncate(self._path, records[-1][1])

    def _check(self, found: Mapping[str, Any], wanted: Mapping[str, Mapping[str, Any]]) -> None:
        for topic, facts in wanted.items():
            known = found.get(topic, {})
            for name in dict.fromkeys([*facts, *known]):
                old, new = known.get(name), facts.get(name)
                if not _is_same(old, new):
                    is_array = isinstance(old, np.ndarray) or isinstance(new, np.ndarray)
                    detail = "" if is_array else f": {old} then, {new} now"
                    raise ValueError(
                        f"the checkpoint {self._path} is of another {topic}: {name} differs{detail}. "
                        "Remove the file to start afresh, or choose another one."
                    )


def _is_same(old: Any, new: Any) -> bool:
    if isinstance(old, np.ndarray) and isinstance(new, np.ndarray):
        return old.shape == new.shape and np.allclose(old, new, rtol=_SAME, atol=0.0, equal_nan=True)
    return bool(old == new)


def _framed(content: bytes) -> bytes:
    return _FRAME.pack(len(content), zlib.crc32(content)) + content


def _records(content: bytes) -> Iterator[tuple[bytes, int]]:
    """The whole records of a file, each with the position where it ends."""
    position = len(_MAGIC)
    while position + _FRAME.size <= len(content):
        length, checksum = _FRAME.unpack_from(content, position)
        position += _FRAME.size
        record = content[position : position + length]
        if len(record) < length or zlib.crc32(record) != checksum:
            return
        position += length
        yield record, position


def _write_whole(path: Path, content: bytes) -> None:
    """A new file that appears whole or not at all."""
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        scratch.write_bytes(content)
        os.replace(scratch, path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise

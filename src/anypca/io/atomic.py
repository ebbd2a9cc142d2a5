"""Atomic output: a set of files is written completely or not at all, even if the process is killed.

Files are written to a scratch folder first. A new target folder is created by one rename. If the target exists, a
manifest with the names and checksums of the files is written to the scratch folder; then the files are moved one by
one. If a process dies during the moves, the next process that opens the target finishes them (`recover`). If it dies
before the manifest is written, the scratch folder is removed. A lock on the scratch folder, released by the system when
its owner dies, distinguishes the two cases and excludes a second writer.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from anypca.io._manifest import MANIFEST, checksum, read_manifest, removed_files, write_manifest

Writer = Callable[[Path], None]
_SCRATCH = ".anypca-tmp"
#: Of one file in a folder that exists: processes that write different ones do not disturb each other.
_SINGLE = ".anypca-one"
_PREVIOUS = "previous"


def write_atomically(folder: str | os.PathLike[str], files: Mapping[str, Writer]) -> None:
    """Write several files into a folder, all of them or none.

    On any error (Ctrl-C included) earlier files stay, and new files are removed. The names and checksums of several
    files are recorded in ``anypca-manifest.json`` in the same folder.

    Parameters
    ----------
    folder : path-like
        Target folder; it and its parents are created. Other files in it are left alone.
    files : mapping of str to callable
        For each plain file name a function that is given a path and writes the file there.

    Raises
    ------
    NotADirectoryError
        If ``folder`` or one of its parents is a file.
    IsADirectoryError
        If a file is to replace a folder.
    ValueError
        If a name is not a plain file name.
    PermissionError
        If the place is not writable.
    BlockingIOError
        If another process is writing there.

    See Also
    --------
    check_target : checks the target before a long fit.
    """
    with claim(folder, files) as place:
        place.stage(files)
        place.publish()


@contextmanager
def claim(folder: str | os.PathLike[str], files: Iterable[str], *, force: bool = True) -> Iterator[Claim]:
    """Lock a target folder while its files are computed and written.

    Parameters
    ----------
    folder : path-like
    files : iterable of str
        Names that may be written. Those that an earlier claim wrote and this one does not are removed.
    force : bool
        Whether files that are not recorded in the folder's manifest, or have changed since, may be replaced.

    Yields
    ------
    Claim

    Raises
    ------
    FileExistsError
        If a file is in the way and ``force`` is False.
    NotADirectoryError, IsADirectoryError, ValueError, PermissionError, BlockingIOError
        As `write_atomically` does.
    """
    target, names = Path(os.path.abspath(folder)), tuple(files)
    recover(target)
    check_own(target, names, force=force)
    created = _make_parents(target.parent)
    scratch = _scratch_of(target, names)
    lock = None
    try:
        lock = _take(scratch, target)
        _empty(scratch)
        yield Claim(target, scratch, names)
    finally:
        # The scratch folder goes first: parents that we made are then empty unless the target was written.
        if lock is not None:
            shutil.rmtree(scratch, ignore_errors=True)
            _release(lock)
        _remove_if_empty(created)


@dataclass(frozen=True)
class Claim:
    """A target folder that no other process writes to."""

    target: Path
    scratch: Path
    names: tuple[str, ...]

    def stage(self, files: Mapping[str, Writer]) -> None:
        """Write the files into the scratch folder.

        Parameters
        ----------
        files : mapping of str to callable
        """
        for name, write in files.items():
            write(self.scratch / name)
        recorded = read_manifest(self.target)
        if len(files) > 1 or any(name in recorded for name in files):
            removed = [name for name in self.names if name in recorded and name not in files]
            kept = {name: digest for name, digest in recorded.items() if name not in {*files, *removed}}
            made = {name: checksum(self.scratch / name) for name in files}
            write_manifest(self.scratch, {**kept, **made}, removed)

    def publish(self) -> None:
        """Move the files to their places; a move that has begun is finished, also after Ctrl-C.

        Raises
        ------
        FileExistsError
            If the folder was absent when it was claimed, and is not any more.
        """
        if self.scratch.parent != self.target:
            self._appear()
            return
        replaced = _keep(self.scratch, self.target)
        try:
            _move(self.scratch, self.target)
        except KeyboardInterrupt:
            _move(self.scratch, self.target)
            raise
        except OSError:
            _put_back(self.scratch, self.target, replaced)
            raise

    def _appear(self) -> None:
        try:
            os.rename(self.scratch, self.target)
        except OSError as error:
            raise FileExistsError(
                f"{self.target} has appeared while this was computed, made by another process; it is left as it is, "
                "and nothing was written. Choose another output folder."
            ) from error


def recover(folder: str | os.PathLike[str]) -> None:
    """Finish the moves of a process that was killed, or remove its scratch folder.

    Parameters
    ----------
    folder : path-like
        It need not exist.

    Raises
    ------
    BlockingIOError
        If a living process is writing there.
    """
    target = Path(os.path.abspath(folder))
    for scratch in (target / _SCRATCH, target.parent / f".{target.name}{_SCRATCH}"):
        if scratch.is_dir():
            _finish(scratch, target)
    for scratch in target.glob(f".*{_SINGLE}"):
        # Ignore living processes that write other single files here.
        with suppress(BlockingIOError):
            _finish(scratch, target)


def check_target(folder: str | os.PathLike[str], files: Iterable[str]) -> None:
    """Raise the errors of `write_atomically` before any work is done.

    Parameters
    ----------
    folder : path-like
        Target folder.
    files : iterable of str
        Names of the files to be written.

    Raises
    ------
    NotADirectoryError, IsADirectoryError, ValueError, PermissionError
        As `write_atomically` does.

    See Also
    --------
    write_atomically : writes there.
    """
    target = Path(os.path.abspath(folder))
    for place in (target, *target.parents):
        if place.exists():
            if not place.is_dir():
                raise NotADirectoryError(f"{place} is a file, not a folder. Choose another output folder.")
            if not os.access(place, os.W_OK | os.X_OK):
                raise PermissionError(f"no permission to write in {place}. Choose another output folder.")
            break
    for name in files:
        if name in {"", ".", ".."} or Path(name).name != name:
            raise ValueError(f"{name!r} is not a plain file name; give names without folders.")
        if (target / name).is_dir():
            raise IsADirectoryError(
                f"{target / name} is a folder and cannot be replaced by a file. Move it away."
            )


def check_own(folder: str | os.PathLike[str], files: Iterable[str], *, force: bool = False) -> None:
    """Also raise an error if files would be replaced that are not in the manifest or have changed since.

    Parameters
    ----------
    folder : path-like
    files : iterable of str
    force : bool
        Whether they may be replaced nevertheless.

    Raises
    ------
    FileExistsError
        If there are such files.
    NotADirectoryError, IsADirectoryError, ValueError, PermissionError
        As `check_target` does.
    """
    target, names = Path(folder), tuple(files)
    check_target(target, names)
    recorded = read_manifest(target)
    there = [name for name in names if (target / name).exists()]
    strange = [name for name in there if checksum(target / name) != recorded.get(name)]
    if strange and not force:
        raise FileExistsError(
            f"{target} holds {', '.join(strange)}, not written by anypca or changed since. Choose another folder with "
            "--out, or replace with --force."
        )


def _scratch_of(target: Path, names: tuple[str, ...]) -> Path:
    """The scratch folder: in the target, which may be a separate file system, or next to a target that is absent."""
    if not target.is_dir():
        return target.parent / f".{target.name}{_SCRATCH}"
    return target / (f".{names[0]}{_SINGLE}" if len(names) == 1 else _SCRATCH)


def _take(scratch: Path, target: Path) -> int:
    """Make a scratch folder, or take over the one of a dead process, and lock it; the lock ends with this process."""
    while True:
        scratch.mkdir(exist_ok=True)
        if os.name != "posix":  # on Windows a second writer is not noticed
            return -1
        try:
            lock = os.open(scratch, os.O_RDONLY)
        except FileNotFoundError:  # its owner has just removed it
            continue
        if not _lock(lock):
            os.close(lock)
            raise BlockingIOError(
                f"another process is writing to {target}; nothing was written by this one. Wait for it, or choose "
                "another output folder."
            )
        if scratch.exists() and os.path.samestat(os.fstat(lock), scratch.stat()):
            return lock
        os.close(lock)


def _lock(descriptor: int) -> bool:
    import fcntl  # not on Windows

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _release(lock: int) -> None:
    if lock >= 0:
        os.close(lock)


def _empty(folder: Path) -> None:
    for place in folder.iterdir():
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink()


def _finish(scratch: Path, target: Path) -> None:
    """Finish the moves of a dead process, and remove its scratch folder."""
    lock = _take(scratch, target)
    if scratch.parent == target and (scratch / MANIFEST).exists():
        _move(scratch, target)
    shutil.rmtree(scratch, ignore_errors=True)
    _release(lock)


def _move(scratch: Path, target: Path) -> None:
    """Move the remaining scratch files, the manifest last; can be repeated after an interrupt."""
    for name in removed_files(scratch / MANIFEST):
        (target / name).unlink(missing_ok=True)
    for place in sorted(_staged(scratch), key=lambda place: place.name == MANIFEST):
        os.replace(place, target / place.name)


def _staged(scratch: Path) -> list[Path]:
    return [place for place in scratch.iterdir() if not place.is_dir()]


def _keep(scratch: Path, target: Path) -> list[str]:
    """Back up files that will be replaced or removed; return their names."""
    (scratch / _PREVIOUS).mkdir()
    names = [*(place.name for place in _staged(scratch)), *removed_files(scratch / MANIFEST)]
    for name in names:
        if (target / name).exists():
            _link(target / name, scratch / _PREVIOUS / name)
    return names


def _link(source: Path, place: Path) -> None:
    try:
        os.link(source, place)
    except OSError:  # a file system without links
        shutil.copy2(source, place)


def _put_back(scratch: Path, target: Path, names: list[str]) -> None:
    for name in names:
        if (scratch / _PREVIOUS / name).exists():
            os.replace(scratch / _PREVIOUS / name, target / name)
        elif not (scratch / name).exists():
            (target / name).unlink(missing_ok=True)


def _make_parents(folder: Path) -> list[Path]:
    """Create a folder with its parents; return those that were missing, deepest first."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing


def _remove_if_empty(folders: Iterable[Path]) -> None:
    for folder in folders:
        if folder.exists() and not any(folder.iterdir()):
            folder.rmdir()

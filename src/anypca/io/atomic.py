"""Output files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

Writer = Callable[[Path], None]


def write_atomically(folder: str | os.PathLike[str], files: Mapping[str, Writer]) -> None:
    """Write several files into a folder so that all of them appear, whole, or none.

    The files are first written into a temporary sibling folder. If the target folder does not exist, the
    temporary one is renamed to it; if it does, each file is moved into it, which replaces a file of the same
    name in one step. Whatever goes wrong on the way (Ctrl-C included), earlier files are put back, and
    what was made is removed.

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
    """
    target = Path(os.path.abspath(folder))
    check_target(target, files)
    created = _make_parents(target.parent)
    scratch = target.parent / f".{target.name}.{secrets.token_hex(4)}.tmp"
    try:
        scratch.mkdir()
        for name, write in files.items():
            write(scratch / name)
        if target.exists():
            _move_into(target, scratch, files)
        else:
            os.rename(scratch, target)
    except BaseException:
        # The scratch folder goes first: parents that we made are then empty unless the target was written.
        shutil.rmtree(scratch, ignore_errors=True)
        _remove_if_empty(created)
        raise
    shutil.rmtree(scratch, ignore_errors=True)


def check_target(folder: str | os.PathLike[str], files: Iterable[str]) -> None:
    """Refuse, before any work is done, what `write_atomically` could not write.

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


def _make_parents(folder: Path) -> list[Path]:
    """Create a folder with its parents; return those that were missing, deepest first."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing


def _remove_if_empty(folders: Iterable[Path]) -> None:
    for folder in folders:
        if folder.exists() and not any(folder.iterdir()):
            folder.rmdir()


def _move_into(target: Path, scratch: Path, names: Iterable[str]) -> None:
    """Replace files of an existing folder, and put the earlier ones back if that fails."""
    previous = scratch / ".previous"
    previous.mkdir()
    # A copy, not a move: at no moment is a file of that name absent.
    for name in names:
        if (target / name).exists():
            shutil.copy2(target / name, previous / name)
    try:
        for name in names:
            os.replace(scratch / name, target / name)
    except BaseException:
        for name in names:
            if (previous / name).exists():
                os.replace(previous / name, target / name)
            elif not (scratch / name).exists():
                (target / name).unlink(missing_ok=True)
        raise

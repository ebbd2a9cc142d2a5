"""The manifest ``anypca-manifest.json``: names and checksums of files that were written together."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

MANIFEST = "anypca-manifest.json"
#: Bytes read at a time for a checksum: a mebibyte, beyond which reading gets no faster.
_CHUNK = 1 << 20


def read_manifest(folder: Path) -> dict[str, str]:
    """Checksums of the files that were written together.

    Parameters
    ----------
    folder : Path

    Returns
    -------
    dict of str to str
        By file name; empty if there is no manifest, or none that can be read.
    """
    try:
        content = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        return {str(name): str(digest) for name, digest in content["files"].items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return {}


def changed_files(folder: str | os.PathLike[str], names: Iterable[str] | None = None) -> list[str]:
    """Files of a folder that differ from its manifest: a folder without one is whole.

    Parameters
    ----------
    folder : path-like
    names : iterable of str, optional
        The files to look at; by default all that are recorded.

    Returns
    -------
    names : list of str
        Those that are missing or have another checksum.
    """
    recorded = read_manifest(Path(folder))
    wanted = recorded if names is None else [name for name in names if name in recorded]
    return [name for name in wanted if checksum(Path(folder) / name) != recorded[name]]


def checksum(path: Path) -> str:
    """SHA-256 of a file in hexadecimal; empty if there is no such file.

    Parameters
    ----------
    path : Path

    Returns
    -------
    text : str
    """
    if not path.is_file():
        return ""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def write_manifest(scratch: Path, files: Mapping[str, str], removed: list[str]) -> None:
    """Write the manifest of a scratch folder in one step.

    Parameters
    ----------
    scratch : Path
    files : mapping of str to str
        Checksums by name.
    removed : list of str
        Earlier files that are to be removed.
    """
    content: dict[str, Any] = {"schema": 1, "files": files, "removed": removed}
    part = scratch / f"{MANIFEST}.part"
    part.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    os.replace(part, scratch / MANIFEST)


def removed_files(manifest: Path) -> list[str]:
    """Names that a new manifest takes out of the folder; none if there is no new manifest."""
    return list(json.loads(manifest.read_text(encoding="utf-8"))["removed"]) if manifest.exists() else []

"""Tables that a browser sent, and their fits: each in a folder of its own, each fit a process that can be stopped."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

from anypca.cli._fitting import INTERVAL_VARIABLE
from anypca.cli._input_table import TableRequest, load_table
from anypca.cli._models import MODELS
from anypca.families.labels import Labels

_PROGRAM = "import sys; from anypca.cli import main; sys.exit(main())"
#: Cells of names and numbers that a page shows of each column.
_SHOWN = 3
#: Characters that file systems and shells take as they are.
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass
class Job:
    """A table, and the process that fits it."""

    folder: Path
    table: Path
    process: asyncio.subprocess.Process | None = None
    line: str = ""
    """What the process said last."""
    stopped: bool = False
    watcher: asyncio.Task[None] | None = field(default=None, repr=False)

    @property
    def out(self) -> Path:
        """The folder of results."""
        return self.folder / "results"

    @property
    def state(self) -> str:
        """``waiting``, ``running``, ``done``, ``failed`` or ``stopped``."""
        if self.process is None:
            return "waiting"
        if self.process.returncode is None:
            return "running"
        if self.stopped:
            return "stopped"
        return "done" if self.process.returncode == 0 else "failed"


class TooLarge(ValueError):
    """An upload is larger than allowed."""


async def receive(root: Path, name: str, chunks: AsyncIterator[bytes], limit: int) -> Job:
    """Store an upload under a name that is safe.

    Parameters
    ----------
    root : Path
        Where folders are made.
    name : str
        As the browser has it; only its last part, in plain letters, is used.
    chunks : async iterator of bytes
    limit : int
        Bytes that are taken.

    Returns
    -------
    Job

    Raises
    ------
    TooLarge
        If there are more.
    """
    folder = root / secrets.token_hex(8)
    folder.mkdir()
    job = Job(folder, folder / (_UNSAFE.sub("_", Path(name).name)[-80:].lstrip(".-") or "table.csv"))
    size = 0
    with job.table.open("wb") as stream:
        async for chunk in chunks:
            size += len(chunk)
            if size > limit:
                raise TooLarge(
                    f"the file is larger than {limit / 1e6:.0f} MB. Start anypca serve with --limit."
                )
            stream.write(chunk)
    return job


def look(job: Job) -> dict[str, Any]:
    """What was read of a table, and what was left out.

    Parameters
    ----------
    job : Job

    Returns
    -------
    dict
        ``rows``, ``notes``, ``columns`` (``name`` and some ``values``) and ``models``.
    """
    frame = load_table(TableRequest(str(job.table), {"categories": True})).frame
    top = frame.values[:_SHOWN]
    top = top.toarray() if frame.is_sparse else top
    columns = [
        {"name": name, "values": [_cell(value, frame.labels.get(name)) for value in top[:, j]]}
        for j, name in enumerate(frame.column_names)
    ]
    return {"rows": frame.n_rows, "notes": list(frame.notes), "columns": columns, "models": list(MODELS)}


def _cell(value: float, labels: Labels | None) -> str:
    return f"{value:g}" if labels is None or value != value else labels.text(value)


def fit_words(job: Job, wanted: Mapping[str, Any]) -> list[str]:
    """The words of ``anypca fit`` for what a page asks for.

    Parameters
    ----------
    job : Job
    wanted : mapping
        ``model``, ``family``, ``components``, ``seed``, and ``roles``: of columns, ``offset``, ``log offset``,
        ``covariate`` or ``row names``.

    Returns
    -------
    words : list of str

    Raises
    ------
    ValueError
        If it is not of that form.
    """
    roles = wanted.get("roles", {})
    if not isinstance(roles, dict) or not all(isinstance(role, str) for role in roles.values()):
        raise ValueError("roles must map names of columns to roles.")
    # With "=" a value that begins with a dash is no option.
    words = ["fit", job.table.name, "--out=results"]
    for key in ("model", "family", "seed", "components"):
        if wanted.get(key) not in (None, ""):
            words.append(f"--{key}={wanted[key]}")
    for name, role in roles.items():
        form = {"offset": "--offset={}", "log offset": "--offset=log({})", "row names": "--id={}"}
        words.append({**form, "covariate": "--covariates={}"}[role].format(name))
    return words


async def start(job: Job, wanted: Mapping[str, Any]) -> None:
    """Start the fit of a table.

    Parameters
    ----------
    job : Job
    wanted : mapping
        As in `fit_words`.
    """
    words = fit_words(job, wanted)
    job.stopped, job.line = False, ""
    job.process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _PROGRAM, *words),
        cwd=job.folder,
        env={**os.environ, INTERVAL_VARIABLE: "0.5"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    job.watcher = asyncio.create_task(_watch(job, job.process))


async def _watch(job: Job, process: asyncio.subprocess.Process) -> None:
    assert process.stderr is not None
    async for line in process.stderr:
        job.line = line.decode(errors="replace").strip() or job.line
    await process.wait()


async def stop(job: Job) -> None:
    """End the fit of a table, if it runs.

    Parameters
    ----------
    job : Job
    """
    if job.process is not None and job.process.returncode is None:
        job.stopped = True
        job.process.terminate()
        await job.process.wait()


def pack(job: Job) -> bytes:
    """The files of a fit as a zip archive.

    Parameters
    ----------
    job : Job

    Returns
    -------
    bytes
    """
    target = BytesIO()
    with ZipFile(target, "w", ZIP_DEFLATED) as archive:
        for path in sorted(job.out.iterdir()):
            archive.write(path, path.name)
    return target.getvalue()

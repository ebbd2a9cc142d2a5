"""Uploaded tables and their fits: one folder per table; each fit is a process that can be stopped."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shutil
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np

from anypca._words import shorten
from anypca.cli._fitting import INTERVAL_VARIABLE, caught
from anypca.cli._input_table import InputTable, load_table
from anypca.cli._models import MODELS
from anypca.cli._requests import TableRequest
from anypca.columns import column_forms
from anypca.columns.labels import Labels
from anypca.columns.reading import take_rows
from anypca.families import families
from anypca.models import EPCA

_PROGRAM = "import sys; from anypca.cli import main; sys.exit(main())"
#: Options of the roles of columns.
_ROLES = {
    "offset": "--offset={}",
    "log offset": "--offset=log({})",
    "row names": "--id={}",
    "covariate": "--covariates={}",
}
_PATTERNS = {"leave out": "drop", "in the model": "keep"}
#: What separates names in options, or matches others in patterns.
_SIGNS = frozenset(",=()[]*?")
#: Rows by which families are chosen for the page: some tenths of a second. The fit looks at all.
_JUDGED = 2000
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
    columns: tuple[str, ...] = ()
    """Names of the columns that were read."""
    line: str = ""
    """Last line of output of the process."""
    stopped: bool = False
    watcher: asyncio.Task[None] | None = field(default=None, repr=False)

    @classmethod
    def create(cls, root: Path, name: str) -> Job:
        """A job in a new folder, for a file under a name that is safe: its last part in plain letters."""
        folder = root / secrets.token_hex(8)
        folder.mkdir()
        return cls(folder, folder / (_UNSAFE.sub("_", Path(name).name)[-80:].lstrip(".-") or "table.csv"))

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


async def receive(job: Job, chunks: AsyncIterator[bytes], limit: int) -> None:
    """Store an upload.

    Parameters
    ----------
    job : Job
    chunks : async iterator of bytes
    limit : int
        Largest number of bytes.

    Raises
    ------
    TooLarge
        If there are more.
    """
    size = 0
    with job.table.open("wb") as stream:
        async for chunk in chunks:
            size += len(chunk)
            if size > limit:
                raise TooLarge(
                    f"the file is larger than {limit / 1e6:.0f} MB. Start anypca serve with --limit."
                )
            stream.write(chunk)


async def read_limited(chunks: AsyncIterator[bytes], limit: int) -> bytes:
    """The content of a request of at most ``limit`` bytes."""
    content = b""
    async for chunk in chunks:
        content += chunk
        if len(content) > limit:
            raise TooLarge(f"the request is larger than {limit / 1e6:.0f} MB.")
    return content


def discard(job: Job) -> None:
    """Remove the files of a table that was refused."""
    shutil.rmtree(job.folder, ignore_errors=True)


def look(job: Job) -> dict[str, Any]:
    """Describe the columns of a table, and the columns that were left out.

    Parameters
    ----------
    job : Job

    Returns
    -------
    dict
        ``rows``, ``notes``, ``columns`` (``name``, some ``values``, and the ``kind``, ``family``, ``reason`` and
        ``doubt`` of ``family="auto"``), columns that are ``left_out``, ``models`` and ``families``.
    """
    table = load_table(TableRequest(str(job.table), {"categories": True}))
    frame = table.frame
    job.columns = (*frame.column_names, *frame.extras)
    top = frame.values[:_SHOWN]
    top = top.toarray() if frame.is_sparse else top
    chosen = choose_families(table)
    columns = [
        {
            "name": name,
            "values": [_cell(value, frame.labels.get(name)) for value in top[:, j]],
            **(chosen[j] if chosen else {}),
        }
        for j, name in enumerate(frame.column_names)
    ]
    left_out = [
        {"name": name, "values": [_cell(value, None) for value in cells[:_SHOWN]]}
        for name, cells in frame.extras.items()
    ]
    offered = {"models": list(MODELS), "families": [*families, *column_forms]}
    found = {"columns": columns, "left_out": left_out, **offered}
    return {"rows": frame.n_rows, "notes": list(frame.notes), **found}


def choose_families(table: InputTable) -> list[dict[str, str]]:
    """Families that ``family="auto"`` chooses from the first rows; empty if the table cannot be modelled."""
    X = take_rows(table.as_input(), np.arange(min(table.frame.n_rows, _JUDGED)))
    try:
        with caught():
            model = EPCA(0, family="auto", n_jobs=1).fit(X)
    except (ValueError, ArithmeticError):
        # The fit will report the error; show the page without families.
        return []
    found = model.describe().column_families(table.frame.column_names)
    keys = ("kind", "family", "reason", "doubt")
    return [{key: getattr(record, key) for key in keys} for record in found]


def _cell(value: Any, labels: Labels | None) -> str:
    if value is None or value != value:
        return "–"
    if isinstance(value, str):
        return shorten(value)
    return f"{value:g}" if labels is None else labels.text(value)


def fit_words(job: Job, wanted: Mapping[str, Any]) -> list[str]:
    """Arguments of ``anypca fit`` for a request of the page.

    Parameters
    ----------
    job : Job
    wanted : mapping
        ``model``, ``family``, ``components``, ``seed``, ``families`` of single columns, and ``roles``: of columns,
        ``offset``, ``log offset``, ``covariate``, ``row names``, ``leave out``; of those left out ``in the model``.

    Returns
    -------
    words : list of str

    Raises
    ------
    ValueError
        If it is not of that form.
    """
    roles, chosen = (wanted.get(key, {}) for key in ("roles", "families"))
    for part in (roles, chosen):
        if not isinstance(part, dict) or not all(isinstance(value, str) for value in part.values()):
            raise ValueError("roles and families must map names of columns to words.")
    # With "=" a value that begins with a dash is no option.
    words = ["fit", job.table.name, "--out=results"]
    for key in ("model", "family", "seed", "components"):
        if wanted.get(key) not in (None, ""):
            words.append(f"--{key}={wanted[key]}")
    words += [f"--family={_pattern(name, job.columns)}={family}" for name, family in chosen.items()]
    for name, role in roles.items():
        if role in _PATTERNS:
            words.append(f"--{_PATTERNS[role]}={_pattern(name, job.columns)}")
        else:
            words.append(_ROLES[role].format(name))
    return words


def _pattern(name: str, names: Sequence[str]) -> str:
    """A pattern that matches only this name, without the special characters of options."""
    pattern = "".join("?" if sign in _SIGNS else sign for sign in name.strip())
    pattern = "?" * (len(name) - len(name.lstrip())) + pattern + "?" * (len(name) - len(name.rstrip()))
    if any(fnmatchcase(other, pattern) for other in names if other != name):
        raise ValueError(f"column {name!r} cannot be distinguished from another one. Rename it in the file.")
    return pattern


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

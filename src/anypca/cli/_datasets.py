"""``anypca datasets``: the loaders, and where their files are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rich.text import Text

from anypca.cli._input_table import loaders
from anypca.cli._json import emit
from anypca.cli._printing import make_console, make_table
from anypca.datasets._files import ADDRESS_VARIABLE, FOLDER_VARIABLE
from anypca.datasets._specs import SPECS


def run_datasets(*, as_json: bool) -> None:
    """List the data sets.

    Parameters
    ----------
    as_json : bool
    """
    folder = os.environ.get(FOLDER_VARIABLE) or None
    rows = [_describe(name, loader, folder) for name, loader in loaders().items()]
    if as_json:
        emit("datasets", {"folder": folder, "variable": FOLDER_VARIABLE, "datasets": rows})
        return
    console = make_console()
    cells = [(row["name"], row["summary"], _where(row)) for row in rows]
    console.print(make_table(("name", "what", "found"), cells))
    where = f"it is {folder}" if folder else "it is not set"
    place = f"Files are looked for in the folder named by {FOLDER_VARIABLE} ({where}), else at {ADDRESS_VARIABLE}."
    console.print(Text(place), soft_wrap=True)
    console.print(Text("A name stands for a table in all commands: anypca fit digits_counts"), soft_wrap=True)


def _describe(name: str, loader: Any, folder: str | None) -> dict[str, Any]:
    """What is known of a data set without loading it."""
    files = sorted(
        {
            place.partition(":")[0]
            for key, spec in SPECS.items()
            if _belongs(key, name)
            for place in _places(spec)
        }
    )
    lacking = [file for file in files if folder is None or not (Path(folder) / file).is_file()]
    summary = (loader.__doc__ or "").strip().partition("\n")[0].rstrip(".")
    return {
        "name": name,
        "loader": f"anypca.datasets.{loader.__name__}",
        "summary": summary,
        "files": files,
        "is_found": not lacking,
    }


def _belongs(key: str, name: str) -> bool:
    """Whether a stored set is the one of a loader, or one of its variants."""
    return key == name or (key.startswith(f"{name}_") and key not in loaders())


def _places(spec: Any) -> list[str]:
    return [place for place in (spec.X, spec.target, spec.features, spec.offset) if place is not None]


def _where(row: dict[str, Any]) -> str:
    if not row["files"]:
        return "with scikit-learn"
    return "yes" if row["is_found"] else "no"

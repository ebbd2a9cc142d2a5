"""``anypca report``: the report of a fitted folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anypca.cli._fitting import Runtime
from anypca.cli._folder import REPORT_FILE, Fitted, align, as_in_fit, open_fitted, write_folder_report
from anypca.cli._input_table import TableRequest, load_table
from anypca.cli._json import emit
from anypca.cli._printing import make_console, print_files, print_input
from anypca.io import check_target, write_atomically


def run_report(folder: Path, source: str | None, runtime: Runtime) -> None:
    """Write the report of a fitted folder into it.

    Parameters
    ----------
    folder : Path
    source : str or None
        The table of the fit, if it has moved.
    runtime : Runtime
    """
    fitted = open_fitted(folder)
    target = fitted.place.parent
    check_target(target, [REPORT_FILE])
    request = as_in_fit(TableRequest(_find_source(fitted, source), reading=_reading(fitted)), fitted)
    table = align(load_table(request), fitted)
    told = fitted.summary.get("warnings", ())
    files = {REPORT_FILE: lambda path: write_folder_report(fitted.model, table, path, warnings=told)}
    write_atomically(target, files)
    name, file = type(fitted.model).__name__, target / REPORT_FILE
    if runtime.as_json:
        emit("report", {**table.content(), "model": name, "warnings": [], "file": str(file)})
        return
    console = make_console()
    print_input(table, console, name)
    print_files(file, (), console)


def _reading(fitted: Fitted) -> dict[str, Any]:
    reading = dict(fitted.summary.get("reading", {}))
    return {name: tuple(value) if isinstance(value, list) else value for name, value in reading.items()}


def _find_source(fitted: Fitted, source: str | None) -> str:
    """Where the table of the fit is."""
    if source is not None:
        return source
    place = fitted.summary.get("path")
    if place is None or (Path(place).is_absolute() and not Path(place).exists()):
        where = "it is not known where" if place is None else f"it is no longer at {place}"
        raise FileNotFoundError(
            f"the report needs the table of the fit, and {where}. Say where it is: --table FILE."
        )
    return str(place)

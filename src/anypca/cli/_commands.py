"""Implementation of the commands: fit, transform, report, datasets."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.text import Text

from anypca.cli._fitting import fit_model, project
from anypca.cli._folder import REPORT_FILE, Fitted, align, as_in_fit, open_fitted, write_folder_report
from anypca.cli._input_table import InputTable, drop_constant, load_table, loaders, order_labels
from anypca.cli._models import takes_labels
from anypca.cli._outcome import (
    FILES,
    Outcome,
    check_is_scores,
    print_outcome,
    safe_cells,
    write_components,
)
from anypca.cli._printing import (
    emit,
    make_console,
    make_table,
    print_files,
    print_input,
    print_warnings,
)
from anypca.cli._requests import ModelRequest, Runtime, TableRequest
from anypca.cli._stopping import shielded
from anypca.datasets._dataset import ADDRESS_VARIABLE, FOLDER_VARIABLE, SPECS
from anypca.io import check_target, write_atomically
from anypca.io.atomic import claim


def run_fit(
    table_request: TableRequest,
    model_request: ModelRequest,
    folder: Path,
    runtime: Runtime,
    *,
    command: str = "fit",
) -> None:
    """Read a table, fit, write, print.

    Parameters
    ----------
    table_request : TableRequest
    model_request : ModelRequest
    folder : Path
        For the results.
    runtime : Runtime
    command : str
        Name of the command.
    """
    # Check the target folder and the table before a long fit.
    with claim(folder, FILES, force=runtime.force) as place:
        # Workers of a cluster get numbers without labels.
        if takes_labels(model_request) and runtime.dask is None:
            table_request = replace(table_request, reading={**table_request.reading, "categories": True})
        table = order_labels(drop_constant(load_table(table_request)), model_request.by_column)
        fit = fit_model(model_request, table, runtime)
        scores, deviations, said = project(fit.model, table)
        # Merge equal warnings of fit and transform.
        warnings = tuple(dict.fromkeys([*fit.warnings, *said]))
        outcome = Outcome(
            fit.model, table, scores, deviations, warnings, model_request, table_request, folder, runtime
        )
        place.stage(outcome.writers())
        with shielded():
            place.publish()
            # Print the summary after the files are written.
            _tell_outcome(outcome, folder, runtime, command)


def _tell_outcome(outcome: Outcome, folder: Path, runtime: Runtime, command: str) -> None:
    if runtime.as_json:
        emit(command, {**outcome.summary(), "folder": str(folder)})
        return
    console = make_console()
    print_outcome(outcome, console)
    print_files(folder, list(outcome.writers()), console)


def run_transform(model_path: Path, request: TableRequest, out: Path, runtime: Runtime) -> None:
    """Project the rows of a table with a fitted model; write their scores.

    Parameters
    ----------
    model_path : Path
        A fitted folder, or a model file.
    request : TableRequest
        Offset and covariates as in the fit unless given.
    out : Path
        The CSV file of the scores.
    runtime : Runtime
    """
    check_target(out.parent, [out.name])
    if not runtime.force:
        check_is_scores(out)
    fitted = open_fitted(model_path)
    table = align(load_table(as_in_fit(request, fitted)), fitted)
    scores, deviations, said = project(fitted.model, table)
    names = {"row": safe_cells(table.frame.row_names, raw=runtime.raw)}
    write_atomically(out.parent, {out.name: lambda path: write_components(path, scores, deviations, names)})
    found = {"model_file": str(fitted.place), "n_components": scores.shape[1], "warnings": said}
    _tell_file("transform", fitted, table, out, runtime, found)


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
    warnings = fitted.summary.get("warnings", ())
    files = {REPORT_FILE: lambda path: write_folder_report(fitted.model, table, path, warnings=warnings)}
    write_atomically(target, files)
    _tell_file("report", fitted, table, target / REPORT_FILE, runtime, {"warnings": ()})


def _tell_file(
    command: str, fitted: Fitted, table: InputTable, file: Path, runtime: Runtime, found: dict[str, Any]
) -> None:
    """Print the model, the table, the written file and the warnings."""
    name = type(fitted.model).__name__
    if runtime.as_json:
        emit(command, {**table.content(), "model": name, **found, "file": str(file)})
        return
    console = make_console()
    print_input(table, console, name)
    print_warnings(found["warnings"], console)
    print_files(file, (), console)


def _reading(fitted: Fitted) -> dict[str, Any]:
    reading = dict(fitted.summary.get("reading", {}))
    return {name: tuple(value) if isinstance(value, list) else value for name, value in reading.items()}


def _find_source(fitted: Fitted, source: str | None) -> str:
    """Path of the table of the fit."""
    if source is not None:
        return source
    place = fitted.summary.get("path")
    if place is not None:
        file = os.path.normpath(fitted.place.parent.resolve() / place)
        if os.path.exists(file) or place in loaders():
            return file if os.path.exists(file) else str(place)
    where = "it is not known where" if place is None else f"it is no longer at {file}"
    raise FileNotFoundError(
        f"the report needs the table of the fit, and {where}. Say where it is: --table FILE."
    )


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
    place = f"Larger sets need files in the folder that {FOLDER_VARIABLE} names ({where}) or at {ADDRESS_VARIABLE}."
    console.print(Text(place), soft_wrap=True)
    console.print(Text("All commands accept a name in place of a file: anypca fit penguins"), soft_wrap=True)


def _describe(name: str, loader: Any, folder: str | None) -> dict[str, Any]:
    """Describe a data set without loading it."""
    variants = [key for key in SPECS if key.startswith(f"{name}_") and key not in loaders()]
    specs = [SPECS[key] for key in (name, *variants) if key in SPECS]
    places = {place for spec in specs for place in (spec.X, spec.target, spec.features)}
    files = sorted({place.partition(":")[0] for place in places if place is not None})
    lacking = [file for file in files if folder is None or not (Path(folder) / file).is_file()]
    summary = (loader.__doc__ or "").strip().partition("\n")[0].rstrip(".")
    return {
        "name": name,
        "loader": f"anypca.datasets.{loader.__name__}",
        "summary": summary,
        "files": files,
        "is_found": not lacking,
    }


def _where(row: dict[str, Any]) -> str:
    if not row["files"]:
        return "in the package"
    return "yes" if row["is_found"] else "no"

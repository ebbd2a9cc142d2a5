"""``anypca transform`` and ``anypca report``: what is done with a fitted folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from anypca.cli._folder import REPORT_FILE, Fitted, open_fitted, write_folder_report
from anypca.cli._json import emit
from anypca.cli._outcome import scores_frame
from anypca.cli._session import Runtime, project
from anypca.cli._show import show_notes, show_warnings
from anypca.cli._table import Table, TableRequest, load_table
from anypca.io import check_target, write_atomically
from anypca.io._frame import numbered, quoted


def run_transform(model_path: Path, request: TableRequest, out: Path, runtime: Runtime) -> None:
    """Project the rows of a table with a fitted model; write their scores.

    Parameters
    ----------
    model_path : Path
        A fitted folder, or a model file.
    request : TableRequest
        Offset and covariates are those of the fit unless given.
    out : Path
        The CSV file of the scores.
    runtime : Runtime
    """
    check_target(out.parent, [out.name])
    fitted = open_fitted(model_path)
    table = align(load_table(as_in_fit(request, fitted)), fitted)
    scores, deviations, said = project(fitted.model, table)
    result = scores_frame(scores, deviations, table.frame.row_names)
    write_atomically(
        out.parent, {out.name: lambda path: result.to_csv(path, index=False, float_format="%.10g")}
    )
    content = {
        "source": table.source,
        "model": type(fitted.model).__name__,
        "model_file": str(fitted.place),
        "rows": table.frame.n_rows,
        "n_components": scores.shape[1],
        "notes": list(table.frame.notes),
        "warnings": list(said),
        "file": str(out),
    }
    _tell("transform", content, runtime)


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
    content = {
        "source": table.source,
        "model": type(fitted.model).__name__,
        "rows": table.frame.n_rows,
        "notes": list(table.frame.notes),
        "warnings": [],
        "file": str(target / REPORT_FILE),
    }
    _tell("report", content, runtime)


def as_in_fit(request: TableRequest, fitted: Fitted) -> TableRequest:
    """A request with the offset and the covariates of the fit, unless it has its own.

    Parameters
    ----------
    request : TableRequest
    fitted : Fitted

    Returns
    -------
    request : TableRequest
    """
    summary = fitted.summary
    return replace(
        request,
        offset=summary.get("offset") if request.offset is None else request.offset,
        covariates=request.covariates or tuple(summary.get("covariates", ())),
        levels={name: tuple(levels) for name, levels in summary.get("covariate_levels", {}).items()},
    )


def align(table: Table, fitted: Fitted) -> Table:
    """A table with the columns of the fit, in their order.

    Parameters
    ----------
    table : Table
    fitted : Fitted

    Returns
    -------
    table : Table
        Columns that the fit does not know are left out; those that the table lacks are missing, if the model
        can do without.

    Raises
    ------
    ValueError
        If no column is known, or the model needs all of them.
    """
    frame, names = table.frame, fitted.column_names
    n_columns = int(fitted.model.n_features_in_)
    if names is None or frame.column_names == numbered("x", n_columns):
        if frame.n_columns != n_columns:
            raise ValueError(
                f"{table.source}: the model was fitted to {n_columns} columns; this table has {frame.n_columns}. "
                "Give a table with the same columns."
            )
        return table if names is None else replace(table, frame=replace(frame, column_names=names))
    known = [name for name in names if name in frame.column_names]
    lacking = [name for name in names if name not in frame.column_names]
    if not known:
        raise ValueError(
            f"{table.source}: no column of the fit is in this table; the fit has {quoted(names)}, the table "
            f"{quoted(frame.column_names)}. Give a table with the same column names."
        )
    if lacking and not fitted.model.__sklearn_tags__().input_tags.allow_nan:
        raise ValueError(
            f"{table.source}: {type(fitted.model).__name__} needs all columns of the fit; {quoted(lacking)} are not in "
            "this table. Add them."
        )
    return _rearrange(table, names, lacking)


def _rearrange(table: Table, names: tuple[str, ...], lacking: list[str]) -> Table:
    frame = table.frame
    place = {name: j for j, name in enumerate(frame.column_names)}
    ignored = [name for name in frame.column_names if name not in set(names)]
    notes = list(frame.notes)
    if ignored:
        notes.append(f"columns that the fit does not know are left out: {quoted(ignored)}")
    if lacking:
        notes.append(f"columns of the fit that the table lacks are taken as missing: {quoted(lacking)}")
    index = np.array([place.get(name, -1) for name in names])
    offset = table.offset
    if offset is not None and offset.ndim == 2:
        offset = np.where(index >= 0, offset[:, index], 0.0)
    moved = frame.take_columns(index, names)
    return replace(table, frame=replace(moved, notes=tuple(notes)), offset=offset)


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


def _tell(command: str, content: dict[str, Any], runtime: Runtime) -> None:
    if runtime.as_json:
        emit(command, content)
        return
    console = Console(highlight=False)
    console.print(
        Text(content["source"], style="bold"), Text(f"with {content['model']}: {content['rows']} rows")
    )
    show_notes(content["notes"], console)
    show_warnings(content["warnings"], console)
    console.print(Text(f"written to {content['file']}"), soft_wrap=True)

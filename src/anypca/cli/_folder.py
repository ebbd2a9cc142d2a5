"""The folder that a fit leaves behind: reading it, and its report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from anypca._words import numbered, quoted
from anypca.cli._input_table import InputTable, labels_of
from anypca.cli._requests import TableRequest
from anypca.io._manifest import MANIFEST, changed_files, read_manifest
from anypca.io.atomic import recover
from anypca.io.frame import describe_missing
from anypca.io.model_files import load
from anypca.models._description import describe
from anypca.report import write_report
from anypca.selection import Diagnostic

MODEL_FILE = "model.anypca"
SUMMARY_FILE = "summary.json"
REPORT_FILE = "report.html"


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model read from a folder, with what the fit said of itself."""

    model: Any
    summary: Mapping[str, Any]
    """The content of summary.json; empty if the folder of the model file has none."""
    place: Path
    """The model file."""

    @property
    def column_names(self) -> tuple[str, ...] | None:
        """Names of the columns of the fit, where known."""
        names = self.summary.get("column_names", describe(self.model).feature_names)
        return None if names is None else tuple(map(str, names))


def open_fitted(path: Path) -> Fitted:
    """Read the model of a fitted folder, or a model file.

    Parameters
    ----------
    path : Path
        The folder, or the file.

    Returns
    -------
    fitted : Fitted

    Raises
    ------
    FileNotFoundError
        If there is no model.
    ValueError
        If the files cannot be read.
    """
    place = path / MODEL_FILE if path.is_dir() else path
    if not place.exists():
        what = f"{path} holds no {MODEL_FILE}" if path.is_dir() else f"there is no file {path}"
        raise FileNotFoundError(f"{what}. Give the folder that anypca fit wrote, or the {MODEL_FILE} in it.")
    recover(place.parent)
    before = read_manifest(place.parent)
    fitted = Fitted(load(place), _read_summary(place.parent / SUMMARY_FILE), place)
    _check_whole(place, before)
    return fitted


def _check_whole(place: Path, before: Mapping[str, str]) -> None:
    """Refuse a model and a summary that do not belong together: half copied, changed, or replaced while being read."""
    spoilt = changed_files(place.parent, [place.name, SUMMARY_FILE])
    if spoilt:
        raise ValueError(
            f"{place.parent} is incomplete: {', '.join(spoilt)} does not fit {MANIFEST}. Copy the folder again, fit "
            f"again, or remove {MANIFEST} if you changed the file yourself."
        )
    if read_manifest(place.parent) != before:
        raise ValueError(f"{place.parent} was replaced while it was read. Do it again.")


def _read_summary(path: Path) -> Mapping[str, Any]:
    if not path.exists():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is no JSON document: {error}. Fit again, or remove it.") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} is not what anypca fit writes. Fit again, or remove it.")
    return content


def as_in_fit(request: TableRequest, fitted: Fitted) -> TableRequest:
    """A request with the offset, the covariates and the codes for missing cells of the fit, unless it has its own.

    Parameters
    ----------
    request : TableRequest
    fitted : Fitted

    Returns
    -------
    request : TableRequest
    """
    summary = fitted.summary
    # What the fit took as an amount is one in a few new rows too, whatever they look like.
    layout = describe(fitted.model).layout
    has_labels = layout is not None and bool(layout.labels)
    known = {
        "keep": fitted.column_names or (),
        "codes": summary.get("missing_codes", {}),
        "categories": has_labels,
    }
    return replace(
        request,
        reading={**known, **request.reading},
        offset=summary.get("offset") if request.offset is None else request.offset,
        covariates=request.covariates or tuple(summary.get("covariates", ())),
        levels={name: tuple(levels) for name, levels in summary.get("covariate_levels", {}).items()},
    )


def align(table: InputTable, fitted: Fitted) -> InputTable:
    """A table with the columns of the fit, in their order.

    Parameters
    ----------
    table : InputTable
    fitted : Fitted

    Returns
    -------
    table : InputTable
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
    # Text in a column that held numbers in the fit says nothing.
    strange = set(frame.labels) - set(labels_of(fitted.model))
    known = [name for name in names if name in frame.column_names and name not in strange]
    lacking = [name for name in names if name not in known]
    if not known:
        raise ValueError(
            f"{table.source}: no column of the fit is in this table; the fit has {quoted(names)}, the table "
            f"{quoted(frame.column_names)}. Give a table with the same column names."
        )
    if lacking and not describe(fitted.model).handles_missing:
        raise ValueError(
            f"{table.source}: {type(fitted.model).__name__} needs all columns of the fit; {quoted(lacking)} are not in "
            "this table. Add them."
        )
    return _rearrange(table, names, lacking)


def _rearrange(table: InputTable, names: tuple[str, ...], lacking: list[str]) -> InputTable:
    frame = table.frame
    place = {name: j for j, name in enumerate(frame.column_names)}
    ignored = [name for name in frame.column_names if name not in set(names)]
    notes = list(frame.notes)
    if ignored:
        notes.append(f"columns that the fit does not know are left out: {quoted(ignored)}")
    if lacking:
        notes.append(f"columns of the fit that the table lacks are taken as missing: {quoted(lacking)}")
    index = np.array([-1 if name in lacking else place[name] for name in names])
    offset = table.offset
    if offset is not None and offset.ndim == 2:
        offset = np.where(index >= 0, offset[:, index], 0.0)
    moved = frame.take_columns(index, names)
    return replace(table, frame=replace(moved, notes=tuple(notes)), offset=offset)


def write_folder_report(
    model: Any,
    table: InputTable,
    path: Path,
    *,
    warnings: Sequence[str] = (),
    code: str | None = None,
    findings: Sequence[Diagnostic] | None = None,
) -> None:
    """Write the report on a model and its table.

    Parameters
    ----------
    model : fitted estimator
    table : InputTable
    path : Path
        Of the HTML file.
    warnings : sequence of str
        Of the fit.
    code : str, optional
        The command that does it again.
    findings : sequence of Diagnostic, optional
        Result of `anypca.selection.diagnose`, if it has run already.
    """
    frame = table.frame
    counted_there = describe_missing(frame.values, frame.column_names)
    extras = {name: values for name, values in frame.extras.items() if values.ndim == 1}
    # Known classes come first: the report opens with the first column it is given.
    metadata = dict(sorted(extras.items(), key=lambda item: item[0] != "class"))
    write_report(
        model,
        path,
        table.as_input(model),
        **table.companions(model),
        row_names=frame.row_names,
        feature_names=frame.column_names,
        metadata=metadata or None,
        title=f"{type(model).__name__} of {table.source}",
        # The report counts missing cells itself.
        notes=[
            *(note for note in frame.notes if note not in counted_there),
            *(f"warning: {warning}" for warning in warnings),
        ],
        code=code,
        findings=findings,
    )

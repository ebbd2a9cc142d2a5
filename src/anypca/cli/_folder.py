"""The folder that a fit leaves behind: reading it, and its report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anypca.cli._table import Table
from anypca.io.model_files import load
from anypca.report import write_report

MODEL_FILE = "model.anypca"
SUMMARY_FILE = "summary.json"
REPORT_FILE = "report.html"


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model read from a folder, with what the fit said of itself."""

    model: Any
    summary: Mapping[str, Any]
    """The content of summary.json; empty for a model file without one beside it."""
    place: Path
    """The model file."""

    @property
    def column_names(self) -> tuple[str, ...] | None:
        """Names of the columns of the fit, where known."""
        names = self.summary.get("column_names", getattr(self.model, "feature_names_in_", None))
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
    return Fitted(load(place), _read_summary(place.parent / SUMMARY_FILE), place)


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


def write_folder_report(
    model: Any, table: Table, path: Path, *, warnings: Sequence[str] = (), code: str | None = None
) -> None:
    """Write the report on a model and its table.

    Parameters
    ----------
    model : fitted estimator
    table : Table
    path : Path
        Of the HTML file.
    warnings : sequence of str
        Of the fit.
    code : str, optional
        The command that does it again.
    """
    frame = table.frame
    extras = {name: values for name, values in frame.extras.items() if values.ndim == 1}
    # Known classes come first: the report opens with the first column it is given.
    metadata = dict(sorted(extras.items(), key=lambda item: item[0] != "class"))
    write_report(
        model,
        path,
        table.as_input(model),
        **table.companions(model.transform),
        row_names=frame.row_names,
        feature_names=frame.column_names,
        metadata=metadata or None,
        title=f"{type(model).__name__} of {table.source}",
        notes=[*frame.notes, *(f"warning: {warning}" for warning in warnings)],
        code=code,
    )

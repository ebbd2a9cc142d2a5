"""The table of a command: from a file or a data set, with offset and covariates."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from anypca import datasets
from anypca._typing import Floats, Ints
from anypca._words import counted, numbered, quoted
from anypca.cli._models import Shape
from anypca.cli._requests import TableRequest
from anypca.columns.labels import Labels
from anypca.io import Frame, read_table
from anypca.io.frame import as_extra, describe_missing
from anypca.models._description import describe

_LOGARITHM = re.compile(r"\s*log\((.+)\)\s*")


@dataclass(frozen=True, eq=False)
class InputTable:
    """A numeric table with its companions."""

    source: str
    """What it is called when it is spoken of."""
    place: str
    """Where it came from: an absolute path, or the name of a data set."""
    frame: Frame
    offset: Floats | None = None
    """(n_rows,) or (n_rows, n_columns)."""
    is_offset_asked: bool = False
    """False for an offset that came with a data set: models that cannot use it are fitted without."""
    covariates: Floats | None = None
    """(n_rows, n_covariates), text as one column for each level but the first."""
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Levels of covariates of text."""
    groups: tuple[str, ...] | None = None
    """A known class of each row."""

    @property
    def shape(self) -> Shape:
        """What the defaults of models depend on."""
        frame = self.frame
        return Shape(frame.n_columns, frame.is_counts, frame.column_names, not frame.is_sparse, frame.hints)

    def as_input(self, model: Any = None) -> Any:
        """The table with its names, so that models can name a column in their messages.

        A model that was fitted to a table without names (sparse, or on a cluster) gets it without.
        """
        is_nameless = model is not None and describe(model).feature_names is None
        if self.frame.is_sparse or is_nameless:
            return self.frame.values
        table, known = self._table.copy(deep=False), labels_of(model)
        for j, name in enumerate(self.frame.column_names):
            if name not in self.frame.labels and name in known:
                # Labels that look like numbers, in a file that has no others.
                table.isetitem(j, table.iloc[:, j].map("{:g}".format, na_action="ignore"))
        return table

    @cached_property
    def _table(self) -> Any:
        return self.frame.to_pandas()

    def companions(self, model: Any) -> dict[str, Any]:
        """``offset`` and ``covariates`` as keyword arguments, those that there are and that a model takes."""
        found = describe(model)
        taken = {
            "offset": self.offset if found.takes_offset else None,
            "covariates": self.covariates if found.takes_covariates else None,
        }
        return {name: value for name, value in taken.items() if value is not None}

    def content(self) -> dict[str, Any]:
        """What every JSON document says of the table."""
        return {
            "source": self.source,
            "rows": self.frame.n_rows,
            "columns": self.frame.n_columns,
            "missing_fraction": self.frame.missing_fraction,
            "notes": list(self.frame.notes),
        }


def labels_of(model: Any) -> dict[str, Labels]:
    """What a fitted model knows of labels, by name of the column."""
    layout = None if model is None else describe(model).layout
    if layout is None or layout.table_names is None:
        return {}
    return {layout.table_names[j]: labels for j, labels in layout.labels}


def order_labels(table: InputTable, by_column: Sequence[tuple[str, str]]) -> InputTable:
    """A table with the orders of labels that a user gives, as in ``size=S<M<L``.

    Parameters
    ----------
    table : InputTable
    by_column : sequence of (str, str)
        Patterns of column names and families, or labels in their order.

    Returns
    -------
    table : InputTable

    Raises
    ------
    ValueError
        If labels are lacking, or the column is to be ordinal and has no order.
    """
    frame = table.frame
    values, labels = frame.values, dict(frame.labels)
    for pattern, family in by_column:
        for j, name in enumerate(frame.column_names):
            if name in labels and fnmatchcase(name, pattern):
                labels[name], order = _ordered(name, labels[name], family)
                values = values if values is not frame.values else values.copy()
                seen = ~np.isnan(values[:, j])
                values[seen, j] = order[values[seen, j].astype(int)]
    return replace(table, frame=replace(frame, values=values, labels=labels))


def _ordered(name: str, labels: Labels, family: str) -> tuple[Labels, Ints]:
    """Labels in the order that a family says, and the new number of each."""
    same = np.arange(len(labels.levels))
    if "<" in family:
        levels = tuple(level.strip() for level in family.split("<"))
        lacking = [level for level in map(str, labels.levels) if level not in levels]
        if lacking:
            raise ValueError(
                f"--family {name}={family}: the column also holds {quoted(lacking)}. Name all labels."
            )
        used = [level for level in levels if level in map(str, labels.levels)]
        order = np.array([used.index(str(level)) for level in labels.levels])
        return replace(labels, levels=tuple(used), is_ordered=True), order
    if family == "ordinal" and not labels.is_ordered and len(same) > 2:
        example = "<".join(map(str, labels.levels[:3]))
        raise ValueError(
            f"--family {name}=ordinal: the order of {labels} is not known. Say it, as in --family '{name}={example}'."
        )
    return labels, same


def load_table(request: TableRequest) -> InputTable:
    """Read a table and its companions.

    Parameters
    ----------
    request : TableRequest

    Returns
    -------
    table : InputTable

    Raises
    ------
    ValueError, OSError
        If it cannot be had; the message says why and what to do.
    """
    name = None if request.offset is None else _column_of(request.offset)
    aside = tuple(dict.fromkeys([*([] if name is None else [name]), *request.covariates]))
    # A file of that name comes first: it is what the shell completes.
    is_dataset = request.source in loaders() and not Path(request.source).exists()
    table = _from_dataset(request.source) if is_dataset else _from_file(request, aside)
    lacking = [wanted for wanted in aside if wanted not in table.frame.extras]
    if lacking:
        known = quoted(sorted(table.frame.extras), most=8) or "nothing"
        raise ValueError(
            f"{request.source}: there is no {quoted(lacking)} outside of the table; there is {known}."
        )
    if request.offset is not None:
        table = replace(table, offset=_offset(request.offset, table.frame), is_offset_asked=True)
    return _with_covariates(table, request) if request.covariates else table


def place_seen_from(folder: Path, table: InputTable, request: TableRequest) -> str:
    """Where a table is, for the summary in a folder.

    Parameters
    ----------
    folder : Path
    table : InputTable
    request : TableRequest

    Returns
    -------
    place : str
        As seen from the folder if the user gave a relative path, so that both can move together.
    """
    if table.place == request.source or Path(request.source).is_absolute():
        return table.place
    try:
        return Path(os.path.relpath(table.place, folder.resolve())).as_posix()
    except ValueError:  # another drive
        return table.place


def drop_constant(table: InputTable) -> InputTable:
    """A table without the columns that have one value only: they tell nothing, and no model can use them.

    Parameters
    ----------
    table : InputTable

    Returns
    -------
    table : InputTable
    """
    constant = table.frame.constant_columns
    if not constant.any() or constant.all():
        return table
    names = [name for name, drop in zip(table.frame.column_names, constant, strict=True) if drop]
    reason = "it has one value only" if len(names) == 1 else "they have one value only each"
    note = f"{counted(len(names), 'column')} left out: {quoted(names)} ({reason})"
    offset = table.offset
    if offset is not None and offset.ndim == 2:
        offset = offset[:, ~constant]
    # The cells of those columns are not missed any more.
    before = describe_missing(table.frame.values, table.frame.column_names)
    kept = tuple(name for name in table.frame.column_names if name not in names)
    frame = table.frame.take_columns(np.flatnonzero(~constant), kept)
    said = [note for note in frame.notes if note not in before]
    notes = (*said, note, *describe_missing(frame.values, frame.column_names))
    return replace(table, frame=replace(frame, notes=notes), offset=offset)


def _from_file(request: TableRequest, aside: tuple[str, ...]) -> InputTable:
    path = Path(request.source)
    try:
        frame = read_table(path, aside=aside, **request.reading)
    except FileNotFoundError as error:
        if path.suffix == "" and len(path.parts) == 1:
            raise FileNotFoundError(
                f"{error} It is no data set either: anypca datasets lists them."
            ) from error
        raise
    return InputTable(path.name, str(path.resolve()), frame)


def loaders() -> dict[str, Callable[..., Any]]:
    """The loaders of data sets by the names of the sets.

    Returns
    -------
    loaders : dict of str to callable
    """
    return {
        name.partition("_")[2]: getattr(datasets, name)
        for name in datasets.__all__
        if name.startswith(("load_", "fetch_")) and _needs_nothing(getattr(datasets, name))
    }


def _needs_nothing(loader: Callable[..., Any]) -> bool:
    """Whether a loader can be called without arguments."""
    parameters = inspect.signature(loader).parameters.values()
    return all(parameter.default is not parameter.empty for parameter in parameters)


def _from_dataset(name: str) -> InputTable:
    data = loaders()[name]()
    n_rows, n_columns = data.X.shape
    extras: dict[str, Any] = {key: np.asarray(value) for key, value in data.covariates.items()}
    groups = None
    if data.target is not None:
        groups = tuple(data.target_names[code] for code in data.target)
        extras["class"] = np.array(groups, dtype=object)
    extras = {key: as_extra(value) for key, value in extras.items() if len(value) == n_rows}
    notes = () if data.offset is None else ("the offset of the data set is used by models that take one",)
    values, labels = (data.X, {}) if data.X.dtype != object else _encode_labels(data.to_frame())
    names = tuple(data.feature_names[:n_columns])
    frame = Frame(values, names, numbered("", n_rows), notes, extras, labels=labels)
    return InputTable(name, name, frame, offset=data.offset, groups=groups)


def _encode_labels(table: Any) -> tuple[Floats, dict[str, Labels]]:
    """Replace the labels of a data frame by their positions among the sorted levels, NaN if missing."""
    labels = {}
    for name in table.select_dtypes(object):
        kinds = table[name].astype("category").cat
        labels[name] = Labels(tuple(kinds.categories), is_ordered=False)
        table[name] = kinds.codes.where(kinds.codes >= 0)
    return table.to_numpy(dtype=float), labels


def _column_of(offset: str) -> str:
    found = _LOGARITHM.fullmatch(offset)
    return found.group(1).strip() if found else offset


def _offset(wanted: str, frame: Frame) -> Floats:
    """The offset as numbers; the logarithm is taken here when asked for."""
    name = _column_of(wanted)
    values = _numbers(frame, name, "--offset")
    if values.ndim == 2 and values.shape[1] != frame.n_columns:
        raise ValueError(
            f"--offset {name}: expected a value for each row or each cell, shape ({frame.n_rows}, "
            f"{frame.n_columns}); got shape {values.shape}."
        )
    if not _LOGARITHM.fullmatch(wanted):
        return values
    if np.any(values <= 0):
        row = int(np.argwhere(values <= 0)[0][0])
        raise ValueError(
            f"--offset {wanted}: a logarithm needs values > 0; row {frame.row_names[row]!r} has "
            f"{values[row] if values.ndim == 1 else values[row].min():g}. Mend it or leave the row out."
        )
    return np.asarray(np.log(values))


def _numbers(frame: Frame, name: str, option: str) -> Floats:
    """An extra column of complete numbers."""
    values = frame.extras[name]
    if values.dtype.kind == "O":
        raise ValueError(f"{option} {name}: expected numbers; the column holds text such as {values[0]!r}.")
    if np.isnan(values).any():
        row = int(np.argwhere(np.isnan(values))[0][0])
        raise ValueError(
            f"{option} {name}: row {frame.row_names[row]!r} has no value. Fill it in or leave the row out."
        )
    return np.asarray(values, dtype=float)


def _with_covariates(table: InputTable, request: TableRequest) -> InputTable:
    parts, levels = [], {}
    for name in request.covariates:
        if table.frame.extras[name].dtype.kind != "O":
            parts.append(_numbers(table.frame, name, "--covariates").reshape(table.frame.n_rows, -1))
            continue
        block, levels[name] = _encode(table.frame, name, request.levels.get(name))
        parts.append(block)
    notes = [
        f"covariate {name!r} is text: one column for each of {quoted(kinds[1:])}"
        for name, kinds in levels.items()
    ]
    frame = replace(table.frame, notes=(*table.frame.notes, *notes))
    return replace(table, frame=frame, covariates=np.hstack(parts), levels=levels)


def _encode(frame: Frame, name: str, given: tuple[str, ...] | None) -> tuple[Floats, tuple[str, ...]]:
    """A column of text as indicators of its levels but the first."""
    cells = frame.extras[name]
    for row, cell in enumerate(cells):
        if cell is None or (given is not None and cell not in given):
            what = "has no value" if cell is None else f"is {cell!r}, which the fit has not seen"
            remedy = "Fill it in" if cell is None or given is None else f"Use one of {quoted(given)}"
            raise ValueError(
                f"--covariates {name}: row {frame.row_names[row]!r} {what}. {remedy} or leave the row out."
            )
    levels = tuple(sorted(set(cells))) if given is None else given
    if len(levels) < 2:
        raise ValueError(f"--covariates {name}: all rows have the value {levels[0]!r}. Leave it out.")
    return np.array([[float(cell == level) for level in levels[1:]] for cell in cells]), levels

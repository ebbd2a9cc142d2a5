"""Columns of text, answers and categories of data frames as numbers, and back."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import date, time
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca._words import is_date, is_number, listed
from anypca.columns.labels import BOOLEAN, DATES, Labels, label_text
from anypca.engine._convert import is_from
from anypca.exceptions import DataConversionWarning

LabelMap = Mapping[int, Labels]


def as_frame(X: Any) -> Any:
    """A table of pyarrow as a frame of pandas, in which its dictionaries are categories; anything else as it is."""
    return X.to_pandas() if is_from(X, "pyarrow") and hasattr(X, "to_pandas") else X


def find_labels(X: Any) -> dict[int, Labels]:
    """The columns of a frame, or of an array of objects, that hold labels in place of numbers.

    Parameters
    ----------
    X : table of shape (n_samples, n_features)

    Returns
    -------
    dict of int to Labels
        By number of the column: text, yes/no answers (bool) and categories, each with the labels that occur, and dates.
        Columns of numbers that are written as text, and those that mix text and numbers, are not among them.
    """
    X = as_frame(X)
    found = {j: labels_of(_column(X, j)) for j, kind in enumerate(_kinds(X)) if not _is_numeric(kind)}
    return {j: labels for j, labels in found.items() if labels is not None}


def encode(X: Any, labels: LabelMap) -> Any:
    """The table with numbers in place of labels.

    Parameters
    ----------
    X : table of shape (n_samples, n_features)
    labels : mapping of int to Labels
        By number of the column. Columns of numbers in their place are left as they are.

    Returns
    -------
    table
        Of the same kind; NaN for empty cells and, with a warning, for labels that are not among the known ones.
    """
    X = as_frame(X)
    # Arrays of numbers have no kinds; columns that are lacking are found out later.
    kinds = dict(enumerate(_kinds(X))) if labels else {}
    if _is_lazy(X):
        named = {j: known for j, known in labels.items() if j in kinds and not _is_numeric(kinds[j])}
        return _encode_lazily(X, named) if named else X
    numbers = {
        j: number_cells(cells_of(_column(X, j)), known, _name(X, j))
        for j, known in labels.items()
        if j in kinds and not _is_numeric(kinds[j])
    }
    return _with_columns(X, numbers) if numbers else X


def decode(
    table: Floats,
    labels: LabelMap,
    like: Any,
    names: Iterable[str],
    outside: Collection[int] = (),
    own: Any = None,
) -> Any:
    """A table of numbers with labels in place of theirs, the nearest where they are means.

    Parameters
    ----------
    table : ndarray of shape (n_rows, n_features)
    labels : mapping of int to Labels
    like : "pandas", "polars", data frame or array
        What is to be made; a frame of pandas with as many rows also gives its index.
    names : iterable of str
        Of the columns.
    outside : collection of int
        Columns with labels that are in no model.
    own : table of shape (n_rows, n_features), optional
        Where the cells of those come from; they are empty without.

    Returns
    -------
    DataFrame, or ndarray of objects
    """
    columns: dict[str, Any] = {}
    for j, name in enumerate(names):
        if j in outside:
            columns[name] = read_cells(own, j) if holds_labels(own) else [None] * len(table)
        else:
            columns[name] = _labels_at(table[:, j], labels[j]) if j in labels else table[:, j]
    like = as_frame(like)
    if (isinstance(like, str) and like == "polars") or is_from(like, "polars"):
        import polars

        return polars.DataFrame(columns, strict=False)
    if not (isinstance(like, str) or is_from(like, "pandas")):
        return np.column_stack([np.array(column, dtype=object) for column in columns.values()])
    return _pandas_frame(columns, labels, like)


def _pandas_frame(columns: Mapping[str, Any], labels: LabelMap, like: Any) -> Any:
    import pandas

    frame = pandas.DataFrame(columns)
    for j, known in labels.items():
        if known.kind == "category":
            kind = pandas.CategoricalDtype(list(known.levels), ordered=known.is_ordered)
            frame.isetitem(j, frame.iloc[:, j].astype(kind))
        elif known.kind == "bool" and not frame.iloc[:, j].isna().any():
            frame.isetitem(j, frame.iloc[:, j].astype(bool))
    if hasattr(like, "index") and len(like) == len(frame):
        frame.index = like.index
    return frame


def _labels_at(values: Floats, known: Labels) -> list[Any]:
    last = len(known.levels) - 1
    return [
        None if np.isnan(value) else known.levels[int(np.clip(np.rint(value), 0, last))]
        for value in values.tolist()
    ]


def holds_labels(X: Any) -> bool:
    """Whether the columns of a table can contain labels: a data frame, or an array of objects."""
    return not _is_lazy(X) and bool(_kinds(as_frame(X)))


def _is_lazy(X: Any) -> bool:
    """Whether a table is a query of polars, whose rows are read when they are needed."""
    return is_from(X, "polars") and hasattr(X, "collect_schema") and not hasattr(X, "get_columns")


def _kinds(X: Any) -> list[Any]:
    """The types of the columns of a frame or of an array of objects; none of anything else."""
    if _is_lazy(X):
        return list(X.collect_schema().dtypes())
    if (is_from(X, "polars") and hasattr(X, "get_columns")) or (
        is_from(X, "pandas") and hasattr(X, "columns")
    ):
        return list(X.dtypes)
    is_objects = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind == "O"
    return [X.dtype] * X.shape[1] if is_objects else []


def _column(X: Any, j: int) -> Any:
    if isinstance(X, np.ndarray):
        return X[:, j]
    if _is_lazy(X):
        return X.select(_name(X, j)).collect().to_series()
    return X.to_series(j) if is_from(X, "polars") else X.iloc[:, j]


def _name(X: Any, j: int) -> str:
    if _is_lazy(X):
        return str(X.collect_schema().names()[j])
    return str(X.columns[j]) if hasattr(X, "columns") else f"x{j}"


def named_columns(X: Any) -> list[tuple[str, Any]] | None:
    """Names and columns of a data frame in memory; ``None`` for anything else."""
    X = as_frame(X)
    if isinstance(X, np.ndarray) or not hasattr(X, "columns") or not holds_labels(X):
        return None
    return [(_name(X, j), _column(X, j)) for j in range(len(_kinds(X)))]


def read_cells(X: Any, j: int) -> list[Any]:
    """The cells of a column of a frame or of an array of objects, ``None`` where empty."""
    return cells_of(_column(as_frame(X), j))


def cells_of(column: Any) -> list[Any]:
    """The cells as plain objects, ``None`` where empty."""
    values = column.to_list() if hasattr(column, "to_list") else column.tolist()
    return [None if _is_empty(value) else value for value in values]


def _is_empty(value: Any) -> bool:
    if isinstance(value, str):
        return not value.strip()
    # NaN differs from itself; pandas' NA and NaT are known by their names, which spares importing pandas.
    if value is None or (isinstance(value, float) and value != value):
        return True
    return type(value).__name__ in ("NAType", "NaTType")


def _is_numeric(kind: Any) -> bool:
    """Whether a column of this type holds numbers, also sparse ones; objects and categories are not numbers."""
    if hasattr(kind, "is_numeric"):  # polars
        return bool(kind.is_numeric())
    return hasattr(kind, "fill_value") or getattr(kind, "kind", "O") in "iuf"


def labels_of(column: Any) -> Labels | None:
    """The labels of a column, ``None`` if it holds numbers or what is no table's."""
    kind = getattr(column.dtype, "kind", "O")
    if kind == "b" or str(column.dtype) == "Boolean":
        return BOOLEAN
    if kind == "M" or str(column.dtype).startswith(("Date", "Time")):  # of numpy and pandas, or polars
        return DATES
    if kind in "mc":
        return None
    try:
        counts = Counter(cell for cell in cells_of(column) if cell is not None)
    except TypeError:  # something that is no label: the engine names it
        return None
    categories = categories_of(column)
    if categories is not None:
        return _of_categories(counts, *categories)
    if counts and all(isinstance(cell, bool | np.bool_) for cell in counts):
        return BOOLEAN
    if counts and all(isinstance(cell, date | time) for cell in counts):
        return DATES
    if not counts or not all(isinstance(cell, str) for cell in counts) or all(map(is_number, counts)):
        return None
    return DATES if all(map(is_date, counts)) else label_text(counts)


def categories_of(column: Any) -> tuple[list[Any], bool] | None:
    """The declared categories of a column and whether they are ordered; ``None`` for other columns."""
    if is_from(column, "polars"):
        kind = str(column.dtype)
        if kind.startswith("Enum"):
            return list(column.dtype.categories), True
        return (column.unique().drop_nulls().sort().to_list(), False) if kind.startswith("Categor") else None
    dtype = column.dtype
    is_category = hasattr(dtype, "categories") and hasattr(dtype, "ordered")
    return (dtype.categories.tolist(), bool(dtype.ordered)) if is_category else None


def _of_categories(counts: Mapping[Any, int], declared: list[Any], is_ordered: bool) -> Labels | None:
    """The categories that occur: ordered, two as they were declared, or by how often they do."""
    used = [level for level in declared if counts.get(level)]
    if not used or not all(isinstance(level, str | bool | int | float) for level in used):
        return None
    # The most frequent category comes first: the question for it has the most answers of both kinds.
    if not is_ordered and len(used) > 2:
        used.sort(key=lambda level: -counts[level])
    return Labels(tuple(used), is_ordered=is_ordered, kind="category")


def number_cells(cells: list[Any], known: Labels, name: str) -> Floats:
    """The numbers of labels, NaN where a cell is empty and, with a warning, where its label is not known."""
    # Labels of columns that are left out are not kept: any numbers will do.
    numbers = known.numbers or {cell: number for number, cell in enumerate(dict.fromkeys(cells))}
    found = np.array([np.nan if cell is None else numbers.get(cell, -1) for cell in cells], dtype=float)
    _warn_of_strange({str(cells[row]) for row in np.flatnonzero(found == -1)}, known, name)
    return np.where(found == -1, np.nan, found)


def _warn_of_strange(labels: set[str], known: Labels, name: str) -> None:
    """Warn of labels that a column did not hold in fit."""
    if labels:
        warnings.warn(
            f"column {name!r} holds {listed(sorted(labels), form=repr)}, which it did not hold in fit; there it had "
            f"{known}. Such cells are taken as missing.",
            DataConversionWarning,
            stacklevel=6,
        )


def _encode_lazily(X: Any, labels: LabelMap) -> Any:
    """A query with numbers in place of labels; reads only the distinct labels of each column."""
    import polars

    columns = []
    for j, known in labels.items():
        name = _name(X, j)
        # Labels of columns that are left out are not kept: any number will do.
        numbers = known.numbers or {}
        if numbers:
            cells = cells_of(X.select(polars.col(name).unique()).collect().to_series())
            _warn_of_strange(
                {str(cell) for cell in cells if cell is not None} - set(map(str, numbers)), known, name
            )
            keys, values = [str(label) for label in numbers], [float(number) for number in numbers.values()]
            text = polars.col(name).cast(polars.String)
            # polars writes answers as true and false.
            old = [key.lower() for key in keys] if known.kind == "bool" else keys
            columns.append(
                text.replace_strict(old, values, default=None, return_dtype=polars.Float64).alias(name)
            )
        else:
            columns.append(polars.lit(0.0).alias(name))
    return X.with_columns(columns)


def _with_columns(X: Any, numbers: Mapping[int, Floats]) -> Any:
    if is_from(X, "polars"):
        import polars

        return X.with_columns([polars.Series(X.columns[j], values) for j, values in numbers.items()])
    if isinstance(X, np.ndarray):
        table = X.copy()
        for j, values in numbers.items():
            table[:, j] = values
        return table
    frame = X.copy(deep=False)
    for j, values in numbers.items():
        frame.isetitem(j, values)
    return frame

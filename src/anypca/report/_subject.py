"""Data of a report: a fitted model with its table, in the same form for all models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from anypca._typing import Bools, Floats, Ints
from anypca._words import numbered
from anypca.columns import Layout
from anypca.columns.encoding import holds_labels, read_cells
from anypca.columns.reading import choose_rows, correlate, read_table, take_rows
from anypca.engine import Block, Data, Summary, executor_for, summarise
from anypca.linalg import largest
from anypca.models._description import Description, describe
from anypca.models._row_methods import model_predictor
from anypca.selection import Diagnostic

#: More points than this hide each other, and drawing them takes seconds.
MOST_ROWS = 5000
#: Entries of the shown rows: 160 MB in float64.
_MOST_ENTRIES = 20_000_000


@dataclass(frozen=True, eq=False)
class TableFacts:
    """The whole table in numbers."""

    n_rows: int
    n_columns: int
    column_names: tuple[str, ...]
    summary: Summary
    zero_rows: Ints
    """Rows whose observed entries are all 0."""

    @property
    def n_missing(self) -> Ints:
        """Missing cells of each column, shape (n_columns,)."""
        return np.asarray(self.n_rows - self.summary.n_observed)

    @property
    def missing_share(self) -> float:
        """Share of missing cells, in [0, 1]."""
        return float(self.n_missing.sum() / (self.n_rows * self.n_columns))

    @property
    def constant(self) -> Bools:
        """Columns with a single value, shape (n_columns,)."""
        return np.asarray(self.summary.minimum == self.summary.maximum)


@dataclass(frozen=True, eq=False)
class Sample:
    """The rows that the report shows: all, or some drawn at random."""

    index: Ints
    """Their numbers in the table (n_shown,)."""
    table: Any
    """The rows in the type of the caller's table, for ``transform``."""
    values: Floats
    """The same as an array with NaN where a cell is missing (n_shown, n_columns)."""
    companions: dict[str, Floats]
    """``offset`` and ``covariates`` of these rows, where given."""
    row_names: tuple[str, ...]
    metadata: dict[str, np.ndarray[Any, Any]]
    """Further columns to colour by."""

    @property
    def n_rows(self) -> int:
        return len(self.index)


def read_facts(data: Data, feature_names: Sequence[str]) -> TableFacts:
    """Describe a table in two passes over its blocks.

    Parameters
    ----------
    data : Data
    feature_names : sequence of str of length n_features

    Returns
    -------
    TableFacts
    """
    with executor_for(data, None) as executor:
        summary = summarise(data, executor)
        zero_rows = np.concatenate(executor.collect(_zero_rows, data))
    return TableFacts(data.n_samples, data.n_features, tuple(feature_names), summary, zero_rows)


def _zero_rows(block: Block) -> Ints:
    x, observed = block.read()
    is_active = x != 0 if observed is None else (x != 0) & observed
    return np.asarray(block.start + np.flatnonzero(~is_active.any(axis=1)))


def draw_sample(
    X: Any,
    shape: tuple[int, int],
    *,
    companions: Mapping[str, Any],
    row_names: Sequence[Any] | None,
    metadata: Any,
) -> Sample:
    """The rows to show: all of a small table, otherwise a random choice that is the same every time.

    Parameters
    ----------
    X : table of shape (n_samples, n_features)
    shape : tuple of two ints
        Of the table.
    companions : mapping
        ``offset`` and ``covariates`` of all rows, where given.
    row_names : sequence of length n_samples or None
        The index of a data frame, or row1, row2, ... when not given.
    metadata : data frame, mapping of names to columns, or None

    Returns
    -------
    Sample
    """
    n, p = shape
    # However wide the table is, some hundred rows are shown.
    size = min(n, MOST_ROWS, max(500, _MOST_ENTRIES // p))
    index = choose_rows(n, size)
    names = _check_row_names(X, row_names, n)
    columns = {name: values[index] for name, values in read_metadata(metadata, n).items()}
    table = X if size == n else take_rows(X, index)
    some = {key: _as_array(take_rows(value, index)) for key, value in companions.items()}
    values = read_table(table).astype(float)
    return Sample(index, table, values, some, tuple(names[i] for i in index), columns)


def read_metadata(metadata: Any, n_rows: int) -> dict[str, np.ndarray[Any, Any]]:
    """Columns by name, each of length ``n_rows``.

    Raises
    ------
    TypeError
        If it is neither a data frame nor a mapping.
    ValueError
        If a column has another length.
    """
    if metadata is None:
        return {}
    if not (isinstance(metadata, Mapping) or hasattr(metadata, "columns")):
        raise TypeError(
            f"metadata must be a data frame or a dict of columns; got {type(metadata).__name__}. "
            "Pass {'name': values}."
        )
    names = list(getattr(metadata, "columns", metadata))
    # By position: names of a pandas frame may repeat.
    values = [
        metadata.iloc[:, j] if hasattr(metadata, "iloc") else metadata[name] for j, name in enumerate(names)
    ]
    columns = {str(name): np.asarray(cells) for name, cells in zip(names, values, strict=True)}
    for name, cells in columns.items():
        if cells.shape != (n_rows,):
            raise ValueError(
                f"metadata column {name!r} has shape {cells.shape}; the table has {n_rows} rows. Give one value a row."
            )
    return columns


def with_labels(model: Any, metadata: Any, X: Any) -> Any:
    """Columns to colour by: the given ones and columns of labels in the table, unless most labels are unique.

    Parameters
    ----------
    model : fitted estimator
    metadata : data frame, mapping of names to columns, or None
    X : table of shape (n_samples, n_features)
        As the user gave it.
    """
    layout = describe(model).layout
    if layout is None or not layout.labels or not holds_labels(X):
        return metadata
    names = layout.table_names or numbered("x", layout.n_features)
    cells = {names[j]: read_cells(X, j) for j, _ in layout.labels}
    kinds = {name: found for name, found in cells.items() if len(set(found)) <= max(2, len(found) // 2)}
    given = read_metadata(metadata, len(X)) if metadata is not None else {}
    return {**{name: np.array(found, dtype=object) for name, found in kinds.items()}, **given}


def _check_row_names(X: Any, row_names: Sequence[Any] | None, n_rows: int) -> list[str]:
    if row_names is None and hasattr(X, "iloc") and list(X.index) != list(range(n_rows)):
        row_names = list(X.index)
    names = list(map(str, numbered("row", n_rows) if row_names is None else row_names))
    if len(names) != n_rows:
        raise ValueError(f"there are {len(names)} row names for {n_rows} rows. Give one name per row.")
    return names


def _as_array(values: Any) -> Floats:
    return np.asarray(values.toarray() if hasattr(values, "toarray") else values, dtype=float)


@dataclass(frozen=True, eq=False)
class Subject:
    """A fitted model with its table, as the report needs them."""

    model: Any
    title: str
    notes: tuple[str, ...]
    code: str | None
    facts: TableFacts
    sample: Sample
    scores: Floats
    """(n_shown, n_components)."""
    std: Floats | None
    """Posterior standard deviations of the scores, same shape."""
    findings: tuple[Diagnostic, ...] = ()
    """Findings in the residuals that can cause false components, with remedies."""

    @cached_property
    def description(self) -> Description:
        """Result of `describe` for the model."""
        return describe(self.model)

    @property
    def name(self) -> str:
        """Name of the model's class."""
        return self.description.name

    @property
    def n_components(self) -> int:
        return int(self.scores.shape[1])

    @property
    def component_names(self) -> tuple[str, ...]:
        """``component 1``, ``component 2``, ..."""
        return numbered("component ", self.n_components)

    @cached_property
    def weights(self) -> Floats:
        """Loadings, or correlations of columns and scores in place of them (n_components, n_columns)."""
        found = self.description.loadings
        return correlate(self.sample.values, self.scores)[0] if found is None else found

    @cached_property
    def weight_names(self) -> tuple[str, ...]:
        """Names of the columns of `weights`."""
        names = self.facts.column_names
        return names if self.description.loadings is None else self.description.loading_names(names)

    @cached_property
    def layout(self) -> Layout:
        """How the columns of the model come from the columns of the table."""
        return self.description.layout or Layout(self.facts.n_columns)

    @cached_property
    def model_names(self) -> tuple[str, ...]:
        """Names of the columns of the model."""
        return self.layout.names_for(self.facts.column_names)

    def strongest(self, component: int, most: int) -> Ints:
        """The columns with the largest weights that are not 0 in units of their noise, by decreasing size."""
        found = self.description.strengths
        return largest(self.weights[component] if found is None else found[component], most)

    @property
    def has_arrows(self) -> bool:
        """Whether components are directions of the columns."""
        return self.description.loadings is not None and not self.description.has_pieces

    @property
    def parameters(self) -> dict[str, Any]:
        """Constructor parameters."""
        return dict(self.model.get_params(deep=False))

    def predict(self, scores: Floats) -> Floats | None:
        """Linear predictor of the model's columns in the first shown rows if they had these scores (n_rows, k).

        ``None`` for models without a map from scores to rows.
        """
        companions = {name: values[: len(scores)] for name, values in self.sample.companions.items()}
        return model_predictor(self.model, scores, **companions)


def check_companions(model: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given offset and covariates, if the model accepts them.

    Raises
    ------
    TypeError
        If the model does not accept such an argument.
    """
    found = describe(model)
    wanted = {name: value for name, value in given.items() if value is not None}
    for name in wanted:
        if not getattr(found, f"takes_{name}"):
            raise TypeError(f"{found.name} has no {name}. Leave out {name}= in report.")
    return wanted


def column_names(
    model: Any, given: Sequence[Any] | None, from_table: Sequence[str] | None
) -> tuple[str, ...]:
    """Names of the columns: given, of the table, of the fit, or x1, x2, ...

    Raises
    ------
    ValueError
        If there are not as many as columns.
    """
    n = int(model.n_features_in_)
    sources = (given, from_table, describe(model).feature_names)
    names = next((names for names in sources if names is not None), numbered("x", n))
    if len(names) != n:
        raise ValueError(f"there are {len(names)} column names; the model was fitted to {n} columns.")
    return tuple(map(str, names))

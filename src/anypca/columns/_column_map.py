"""Which columns of a model come from which column of a table, and what they are called."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from anypca._typing import Ints
from anypca._words import listed, quoted
from anypca.columns.forms import Form, number_text
from anypca.columns.labels import Labels


@dataclass(frozen=True)
class ColumnMap:
    """Where the columns of a model come from; see `anypca.columns.layout.Layout` for the parameters."""

    n_features: int
    forms: tuple[tuple[int, Form], ...] = ()
    table_names: tuple[str, ...] | None = field(default=None, kw_only=True)
    labels: tuple[tuple[int, Labels], ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "forms", tuple(sorted(self.forms, key=lambda pair: pair[0])))
        columns = [column for column, _ in self.forms]
        if any(not 0 <= column < self.n_features for column in columns) or len(set(columns)) < len(columns):
            raise ValueError(
                f"forms are given to columns from 0 to {self.n_features - 1}, each once; got {columns}."
            )
        absent = {column for column, form in self.forms if form.is_left_out}
        if len(absent) == self.n_features:
            why = listed(list(dict.fromkeys(form.reason or form.name for _, form in self.forms)))
            raise ValueError(
                f"every column of X is left out ({quoted(self._table_labels)}: {why}), which leaves nothing to fit. "
                "Give a table with a column that varies, or name families for the columns that matter."
            )
        bad = [source for _, form in self.forms for source in form.told_by if source in absent]
        if bad:
            raise ValueError(
                f"column {bad[0]} is left out and cannot be the source of a copy or a combination."
            )

    @property
    def is_identity(self) -> bool:
        """Whether every column enters as it is."""
        return not self.forms

    @cached_property
    def is_one_to_one(self) -> bool:
        """Whether no column enters as several."""
        return all(len(form.parts) <= 1 for _, form in self.forms)

    @cached_property
    def widths(self) -> Ints:
        """For each column of the table, how many columns it has in the model; shape (n_features,)."""
        widths = np.ones(self.n_features, dtype=np.intp)
        for column, form in self.forms:
            widths[column] = len(form.parts)
        return widths

    @cached_property
    def starts(self) -> Ints:
        """For each column of the table, its first column in the model; shape (n_features,)."""
        return np.cumsum(self.widths) - self.widths

    @cached_property
    def sources(self) -> Ints:
        """For each column of the model, the column of the table that it comes from; shape (n_columns,)."""
        return np.repeat(np.arange(self.n_features), self.widths)

    @property
    def n_columns(self) -> int:
        """Number of columns of the model."""
        return int(self.widths.sum())

    @property
    def left_out(self) -> dict[int, Form]:
        """The columns that are not in the model, with what they are instead."""
        return {column: form for column, form in self.forms if form.is_left_out}

    @cached_property
    def _table_labels(self) -> tuple[str, ...]:
        return self.table_names or tuple(f"x{j}" for j in range(self.n_features))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of the model."""
        return self.names_for(self._table_labels)

    def number(self, column: int | str) -> int:
        """The number of a column of the table that is given by its name or its number."""
        names = self.table_names or ()
        return names.index(column) if column in names else int(column)

    def categories(self, column: int | str) -> tuple[Any, ...]:
        """The categories of a column of labels, or of a nominal one, given by its name or its number.

        They are in the order of their numbers; columns of other kinds have none.
        """
        number = self.number(column)
        labels, form = dict(self.labels).get(number), dict(self.forms).get(number)
        return getattr(form, "levels", ()) if labels is None else labels.levels

    def names_for(self, table_names: tuple[str, ...]) -> tuple[str, ...]:
        """The same when the columns of the table have these names."""
        if self.is_identity:
            return table_names
        forms, known = dict(self.forms), dict(self.labels)
        parts = [
            forms[j].labels(name, known[j].text if j in known else number_text) if j in forms else (name,)
            for j, name in enumerate(table_names)
        ]
        return tuple(part for group in parts for part in group)

    def reported_names(self, table_names: tuple[str, ...]) -> tuple[str, ...]:
        """Names of the columns that loadings are reported for: the table's, or the model's where these are more."""
        return table_names if self.is_one_to_one else self.names_for(table_names)

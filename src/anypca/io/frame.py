"""A table of numbers with names, and notes on how it was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from anypca._words import counted, quoted
from anypca.columns.labels import Labels


@dataclass(frozen=True, eq=False)
class Frame:
    """A numeric table as read from a file.

    Equality is identity; tables are not compared entry by entry.

    See Also
    --------
    read_table : reads it.
    """

    values: Any
    """Dense (n_rows, n_columns) array with NaN where a cell is empty, or a CSR array of the same shape."""
    column_names: tuple[str, ...]
    row_names: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """Sentences on omissions, repairs and guesses; empty if the file was read without changes."""
    extras: Mapping[str, Any] = field(default_factory=dict)
    """Further columns besides the table, by name: arrays of length n_rows, of numbers (two-dimensional
    ones too) or of text with ``None`` where a cell is empty."""
    codes: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Numbers that mean missing values because they are far from all others, by column."""
    labels: Mapping[str, Labels] = field(default_factory=dict)
    """Labels of the numbers in columns of text and categories, by column."""
    hints: Mapping[str, str] = field(default_factory=dict)
    """Families that the names of columns suggest, by column: ``"nominal"`` for codes such as ``region``."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.values.shape[0])

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return int(self.values.shape[1])

    @property
    def is_sparse(self) -> bool:
        """Whether ``values`` is a CSR array."""
        return bool(sparse.issparse(self.values))

    @property
    def n_missing(self) -> int:
        """Number of missing cells."""
        return int(np.count_nonzero(np.isnan(self.values.data if self.is_sparse else self.values)))

    @property
    def missing_fraction(self) -> float:
        """Share of missing cells, in [0, 1]."""
        return float(self.n_missing / max(1, self.n_rows * self.n_columns))

    @property
    def is_counts(self) -> bool:
        """Whether all cells that are not missing are whole numbers of 0 or more."""
        stored: Any = self.values.data if self.is_sparse else self.values[~np.isnan(self.values)]
        return bool(np.all(np.isnan(stored) | ((stored >= 0) & (stored == np.floor(stored)))))

    @property
    def constant_columns(self) -> Any:
        """Which columns have one value only, shape (n_columns,); those without any are not among them."""
        if self.is_sparse:
            low, high = (
                part.toarray().ravel() for part in (self.values.min(axis=0), self.values.max(axis=0))
            )
        else:
            observed = ~np.isnan(self.values)
            low = np.min(self.values, axis=0, where=observed, initial=np.inf)
            high = np.max(self.values, axis=0, where=observed, initial=-np.inf)
        return low == high

    def to_pandas(self) -> Any:
        """The table as a data frame of pandas, with categories where columns hold labels; not of a sparse one.

        Returns
        -------
        table : pandas.DataFrame
        """
        import pandas

        table = pandas.DataFrame(self.values, columns=list(self.column_names), copy=False)
        for name, labels in self.labels.items():
            if name in self.column_names:
                j = self.column_names.index(name)
                codes = np.where(np.isnan(self.values[:, j]), -1, self.values[:, j]).astype(int)
                kinds = pandas.Categorical.from_codes(codes, list(labels.levels), ordered=labels.is_ordered)
                table.isetitem(j, kinds)
        return table

    def take_columns(self, index: Any, names: tuple[str, ...]) -> Frame:
        """The table with other columns.

        Parameters
        ----------
        index : array-like of int of shape (n_new,)
            Numbers of columns; -1 for one without any value.
        names : tuple of str, length n_new

        Returns
        -------
        frame : Frame
        """
        index = np.asarray(index)
        lacks = index < 0
        values = self.values[:, np.maximum(index, 0)]
        if lacks.any():
            # Missing cells are stored ones: such columns are dense.
            values = np.where(lacks, np.nan, values.toarray() if self.is_sparse else values)
        return replace(self, values=values, column_names=names)


def as_extra(values: Any) -> Any:
    """A further column besides the table: numbers as float64, anything else as text."""
    return values.astype(float) if values.dtype.kind in "biuf" else values.astype(str).astype(object)


def describe_missing(values: Any, names: tuple[str, ...]) -> list[str]:
    """A note on missing cells, if there are any.

    Parameters
    ----------
    values : ndarray or sparse array of shape (n_rows, n_columns)
    names : tuple of str, length n_columns

    Returns
    -------
    notes : list of str
    """
    if sparse.issparse(values):
        stored = values.tocoo()
        lacking = np.bincount(stored.coords[1][np.isnan(stored.data)], minlength=len(names))
    else:
        lacking = np.isnan(values).sum(axis=0)
    count = int(lacking.sum())
    if count == 0:
        return []
    where = [name for name, number in zip(names, lacking, strict=True) if number]
    verb = "is" if count == 1 else "are"
    return [f"{counted(count, 'cell')} {verb} missing, in {counted(len(where), 'column')}: {quoted(where)}"]

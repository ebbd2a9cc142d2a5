"""A table of numbers with names, and what was done to get it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from anypca._typing import Floats


@dataclass(frozen=True, eq=False)
class Frame:
    """A numeric table as read from a file.

    Equality is identity: comparing two tables entry by entry is the caller's business.
    """

    values: Floats | Any
    """Dense (n_rows, n_columns) array with NaN where a cell is empty, or a CSR array of the same shape."""
    column_names: tuple[str, ...]
    row_names: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """Plain sentences on what was left out, repaired or guessed; empty when the file was taken as it is."""
    extras: Mapping[str, Any] = field(default_factory=dict)
    """What is known of the rows besides the table, by name: arrays of length n_rows, of numbers (two-dimensional
    ones too) or of text with ``None`` where a cell is empty."""

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

    def select_columns(self, columns: Any, *, note: str | None = None) -> Frame:
        """The table with some of its columns only.

        Parameters
        ----------
        columns : array-like of int or of bool
        note : str, optional
            Why, for ``notes``.

        Returns
        -------
        frame : Frame
        """
        chosen = np.arange(self.n_columns)[np.asarray(columns)]
        names = tuple(self.column_names[j] for j in chosen)
        notes = self.notes if note is None else (*self.notes, note)
        return replace(self, values=self.values[:, chosen], column_names=names, notes=notes)


def numbered(prefix: str, count: int) -> tuple[str, ...]:
    """Names for what has none: ``prefix1``, ``prefix2``, ... counted from 1 as people count rows.

    Parameters
    ----------
    prefix : str
    count : int

    Returns
    -------
    names : tuple of str, length ``count``
    """
    return tuple(f"{prefix}{i}" for i in range(1, count + 1))


def quoted(names: list[str] | tuple[str, ...], most: int = 5) -> str:
    """A list of names for a message, cut after ``most`` of them.

    Parameters
    ----------
    names : sequence of str
    most : int
        How many names are spelled out.

    Returns
    -------
    text : str
    """
    shown = ", ".join(repr(str(name)) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def counted(number: int, noun: str) -> str:
    """``1 row``, ``2 rows``.

    Parameters
    ----------
    number : int
    noun : str

    Returns
    -------
    text : str
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


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

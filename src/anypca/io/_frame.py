"""A table of numbers with names, and what was done to get it."""

from __future__ import annotations

from dataclasses import dataclass
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
    def missing_fraction(self) -> float:
        """Share of missing cells, in [0, 1]."""
        stored = self.values.data if self.is_sparse else self.values
        return float(np.count_nonzero(np.isnan(stored)) / max(1, self.n_rows * self.n_columns))


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

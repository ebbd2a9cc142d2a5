"""Families whose columns have parameters of their own, besides a dispersion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from anypca._typing import Bools, Floats, Ints
from anypca.families._base import Family


@dataclass(frozen=True)
class ColumnFamily(Family):
    """Parameters are tuples: with one entry for each column, or with a single one for all columns.

    They are ``None`` until they are estimated from a table. Given parameters stay fixed.
    """

    #: Names of the fields that hold them; all are ``None`` or none is.
    per_column: ClassVar[tuple[str, ...]]

    is_estimated: bool = field(default=False, repr=False, compare=False, kw_only=True)
    """The parameters come from a table, and fits may change them."""

    def _check_columns(self, allows: Callable[[Floats], Bools], needs: str, remedy: str = "") -> None:
        """Make a tuple of the first of these fields, if it is given, or raise."""
        name = self.per_column[0]
        given = getattr(self, name)
        if given is None:
            return
        found = np.atleast_1d(np.asarray(given, dtype=float))
        if not allows(found).all():
            raise ValueError(f"{type(self).__name__} needs {needs}; got {name}={given!r}. {remedy}".rstrip())
        object.__setattr__(self, name, tuple(found.tolist()))

    def n_estimated(self, n_features: int) -> int:
        """Return how many parameters of columns a table has estimated."""
        if not self.is_estimated:
            return 0
        entries = getattr(self, self.per_column[0])
        return sum(map(self._count_free, entries)) * (n_features if len(entries) == 1 else 1)

    def _count_free(self, entry: Any) -> int:
        """Free numbers in the parameters of a column."""
        return 1

    @property
    def _n_columns(self) -> int:
        """How many columns have parameters of their own; 1 if all have the same, 0 while they are not known."""
        first = getattr(self, self.per_column[0])
        return 0 if first is None else len(first)

    def take(self, index: slice | Ints) -> Self:
        if self._n_columns <= 1 or (isinstance(index, slice) and index == slice(0, self._n_columns)):
            return self
        picked = np.arange(self._n_columns)[index].tolist()
        taken: dict[str, Any] = {
            name: tuple(getattr(self, name)[j] for j in picked) for name in self.per_column
        }
        return replace(self, **taken)

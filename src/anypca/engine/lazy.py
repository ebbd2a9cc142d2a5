"""Rows of polars' lazy frames, such as scans of parquet files, read block by block."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.engine._convert import as_matrix


@dataclass(frozen=True)
class LazySource:
    """Rows of a lazy frame; each reading runs its query for these rows."""

    frame: Any
    """polars.LazyFrame of numeric columns whose rows have an order."""
    dtype: np.dtype[Any]
    first: int = 0
    """Row of the frame that is row 0 here."""

    def read(self, start: int, stop: int) -> Floats:
        """Rows start..stop as a new C-contiguous array (stop - start, n_columns), NaN where missing."""
        rows = self.frame.slice(self.first + start, stop - start).collect()
        return np.array(as_matrix(rows).values, dtype=self.dtype, order="C", copy=True)

    def matrix(self, start: int, stop: int) -> Floats:
        """The same as `read`."""
        return self.read(start, stop)

    def rows(self, start: int, stop: int) -> LazySource:
        """The same rows as a source of their own."""
        del stop
        return LazySource(self.frame, self.dtype, self.first + start)


@dataclass(frozen=True)
class LazyTable:
    """A lazy frame with the shape and the type of an array.

    Parameters
    ----------
    frame : polars.LazyFrame

    Raises
    ------
    ValueError
        If a column holds no numbers; the message names it.
    """

    frame: Any
    ndim: int = field(default=2, init=False)

    def __post_init__(self) -> None:
        for name, kind in self._schema.items():
            if not (kind.is_numeric() or str(kind) == "Boolean"):
                raise ValueError(
                    f"column {name!r} of X is of type {kind}; numbers are needed. Leave it out, or convert it with "
                    ".cast(polars.Float64)."
                )

    @cached_property
    def _schema(self) -> Any:
        return self.frame.collect_schema()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self._schema.names())

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns; the rows are counted once."""
        import polars

        return int(self.frame.select(polars.len()).collect().item()), len(self.names)

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 if all columns are, float64 otherwise, since any cell may be null."""
        kinds = {str(kind) for kind in self._schema.dtypes()}
        return np.dtype(np.float32 if kinds == {"Float32"} else np.float64)

    def source(self, dtype: np.dtype[Any]) -> LazySource:
        """The rows, read in a type."""
        return LazySource(self.frame, dtype)

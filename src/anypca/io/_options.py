"""How a file is to be read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReadOptions:
    """What a user says of a file; ``None`` and empty where it is to be found out."""

    delimiter: str | None = None
    decimal: str | None = None
    header: bool | None = None
    id_column: str | None = None
    """The column of row names."""
    missing: tuple[str, ...] = ()
    """Cells that stand for a missing value, besides the usual ones."""
    aside: tuple[str, ...] = ()
    """Columns that are not part of the table; they go to ``Frame.extras``."""
    part: str | None = None
    """Sheet of a workbook, layer of an h5ad file, array of an npz file."""

    @property
    def missing_numbers(self) -> tuple[float, ...]:
        """Those of ``missing`` that are numbers: -9 also stands for -9.0."""
        return tuple(number for number in map(_number, self.missing) if number is not None)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None

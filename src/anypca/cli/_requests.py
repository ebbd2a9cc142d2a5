"""Options of a command: table, model and runtime."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class TableRequest:
    """The table, and options to read it."""

    source: str
    """Path of a file, or name of a data set."""
    reading: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of `anypca.io.read_table`."""
    offset: str | None = None
    """A column, or ``log(column)``."""
    covariates: tuple[str, ...] = ()
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Levels of text covariates, as stored by a fit."""


@dataclass(frozen=True)
class ModelRequest:
    """The model and its parameters."""

    name: str = "auto"
    family: str = "auto"
    n_components: int | None = None
    seed: int = 0
    threads: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Further parameters of the estimator."""
    by_column: tuple[tuple[str, str], ...] = ()
    """Families of some columns: patterns of names with a family each; the last match applies."""


@dataclass(frozen=True)
class Runtime:
    """Options of execution and output."""

    as_json: bool = False
    has_bar: bool | None = None
    """Whether there is a progress bar; ``None``: if stderr is a terminal."""
    dask: str | None = None
    """Address of a Dask scheduler."""
    force: bool = False
    """Whether to replace files that anypca did not write."""
    raw: bool = False
    """Whether to write names that look like formulas without escaping."""
    checkpoint: Path | None = None
    """File for the progress of the fit."""
    command: str = ""
    """The command as a line for a shell."""

    @property
    def shows_bar(self) -> bool:
        """Whether a progress bar is drawn."""
        return sys.stderr.isatty() if self.has_bar is None else self.has_bar

    @property
    def is_watched(self) -> bool:
        """Whether progress is shown: by a bar, or by a line now and then."""
        return self.has_bar is not False

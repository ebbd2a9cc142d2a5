"""What a user asks for: a table, a model, and how the command runs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class TableRequest:
    """Which table a user wants, and how it is to be read."""

    source: str
    """Path of a file, or name of a data set."""
    reading: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of `anypca.io.read_table`."""
    offset: str | None = None
    """A column, or ``log(column)``."""
    covariates: tuple[str, ...] = ()
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Levels of covariates of text, where a fit has settled them."""


@dataclass(frozen=True)
class ModelRequest:
    """Which model a user wants, and how it is to be set up."""

    name: str = "auto"
    family: str = "auto"
    n_components: int | None = None
    seed: int = 0
    threads: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Further parameters of the estimator."""
    by_column: tuple[tuple[str, str], ...] = ()
    """Families of some columns: patterns of their names, and a family each; the last that fits counts."""


@dataclass(frozen=True)
class Runtime:
    """How a command runs and talks."""

    as_json: bool = False
    has_bar: bool | None = None
    """Whether there is a progress bar; ``None``: if stderr is a terminal."""
    dask: str | None = None
    """Address of a Dask scheduler."""
    force: bool = False
    """Whether files of others may be replaced."""
    raw: bool = False
    """Whether names that a spreadsheet takes for formulas are written as they are."""
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

"""Answers of repeated runs, kept by cell.

With the environment variable ``ANYPCA_CELLS`` naming a JSON file, finished cells are written there and are not
computed again, so that a long study can be interrupted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments._common import Options, repeat


class Cells:
    """Answers by cell, in memory and in a file if one is named.

    Parameters
    ----------
    study : str
        Whose answers they are; part of their names in the file.
    options : Options
        Quick forms keep nothing.
    first : int
        Added to the seed of full forms, where quick forms or the writing of the study have used the first ones.
    """

    def __init__(self, study: str, options: Options, first: int = 0) -> None:
        self.study = study
        self.options = options if options.quick else replace(options, seed=options.seed + first)
        name = os.environ.get("ANYPCA_CELLS")
        self.path = Path(name) if name and not options.quick else None
        self.answers: dict[str, list[Any]] = {}
        if self.path is not None and self.path.exists():
            self.answers = json.loads(self.path.read_text())

    def get(self, function: Callable[..., Any], cell: Sequence[Any], n_runs: int) -> list[Any]:
        """Answers of the first runs of a cell, computed where they are missing.

        Parameters
        ----------
        function : callable
            ``function(*cell, seed)`` gives what JSON can hold; called with the option's seed and those that follow.
        cell : sequence
            Names the cell within the study.
        n_runs : int

        Returns
        -------
        list
        """
        key = " | ".join([self.study, *map(str, cell), f"seed {self.options.seed}"])
        known = self.answers.get(key, [])
        if len(known) < n_runs:
            tasks = [(*cell, self.options.seed + i) for i in range(len(known), n_runs)]
            known = [*known, *repeat(function, tasks, self.options)]
            self.answers[key] = known
            self._write()
        return known[:n_runs]

    def _write(self) -> None:
        if self.path is None:
            return
        fresh = self.path.with_suffix(".new")
        fresh.write_text(json.dumps(self.answers, indent=0) + "\n")
        fresh.replace(self.path)


def tally(answers: Any) -> str:
    """How often each answer was given, in words."""
    values, counts = np.unique(np.asarray(answers).astype(int), return_counts=True)
    return ", ".join(f"{value} x {count}" for value, count in zip(values, counts, strict=True))

"""Finished runs as lines of JSON, so that a long study can be stopped and goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import joblib


class Journal:
    """Answers by name of the run, in memory and in a file of JSON lines if one is named.

    Parameters
    ----------
    path : Path or None
        Read at the start if it is there; every finished run is appended. A last line that was cut is done again.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.known: dict[str, Any] = {}
        lines = path.read_text().splitlines() if path is not None and path.exists() else []
        for line in lines:
            try:
                name, answer = json.loads(line)
            except json.JSONDecodeError:
                continue
            self.known[name] = answer

    def run(
        self, function: Callable[..., Any], tasks: Sequence[tuple[str, tuple[Any, ...]]], n_jobs: int
    ) -> list[Any]:
        """``function(*arguments)`` of all named tasks, in their order; those that are known are not run again."""
        open_tasks = [(name, arguments) for name, arguments in tasks if name not in self.known]
        calls = (joblib.delayed(_named)(function, name, arguments) for name, arguments in open_tasks)
        for name, answer in joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered")(calls):
            self._keep(name, answer)
        return [self.known[name] for name, _ in tasks]

    def _keep(self, name: str, answer: Any) -> None:
        self.known[name] = answer
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps([name, answer]) + "\n")


def _named(function: Callable[..., Any], name: str, arguments: tuple[Any, ...]) -> tuple[str, Any]:
    return name, function(*arguments)

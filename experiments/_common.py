"""What the experiments share: options, tables of ours beside the paper's, targets, results as JSON and Markdown.

An experiment is a module of this folder with a docstring (its first line is the title) and a function
``run(options) -> Outcome``. It ends with::

    if __name__ == "__main__":
        raise SystemExit(run_module(__name__))

so that ``python -m experiments.NAME`` prints its tables and exits with 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import operator
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from experiments._origin import Origin, origin_of

FIRST_SEED = (
    "first seed; repeated runs use this one and the next, so that other draws are a hundred further on"
)
_PACKAGES = ("anypca", "numpy", "scipy", "scikit-learn")
_COMPARISONS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "==": operator.eq}


@dataclass(frozen=True)
class Options:
    """How an experiment is run."""

    quick: bool = False
    """A reduced form of at most 10 s on one core; its targets are those that the reduced form can show."""
    n_jobs: int = 1
    """Processes for repeated runs."""
    pictures: Path | None = None
    """Folder for PNG files; ``None`` draws nothing."""
    seed: int = 0
    n_runs: int | None = None
    """Tables of a cell in studies that let it be chosen; ``None`` is their own number."""

    def picture(self, name: str) -> Path | None:
        """Where a picture goes, its folder made; ``None`` when none is wanted."""
        if self.pictures is None:
            return None
        self.pictures.mkdir(parents=True, exist_ok=True)
        return self.pictures / name


@dataclass(frozen=True)
class Table:
    """Rows of text and numbers under headings."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[Any]]

    def as_text(self) -> str:
        """With aligned columns, for a terminal."""
        cells = [list(map(str, self.head)), *([format_cell(cell) for cell in row] for row in self.rows)]
        widths = [max(len(row[j]) for row in cells) for j in range(len(self.head))]
        lines = ["  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in cells]
        lines.insert(1, "  ".join("-" * w for w in widths))
        return "\n".join([self.title, *lines])

    def as_markdown(self) -> str:
        """As a Markdown table."""
        lines = [f"{self.title}", "", "| " + " | ".join(map(str, self.head)) + " |"]
        lines.append("|" + "---|" * len(self.head))
        lines += ["| " + " | ".join(format_cell(cell) for cell in row) + " |" for row in self.rows]
        return "\n".join(lines)


@dataclass(frozen=True)
class Target:
    """A number that must reach a bound, as ``Target("mean F-score, n = 50", 0.997, ">=", 0.995)``."""

    name: str
    ours: float
    comparison: str
    bound: float

    @property
    def is_met(self) -> bool:
        """Whether the bound is reached; NaN never does."""
        return bool(_COMPARISONS[self.comparison](self.ours, self.bound))

    def as_text(self) -> str:
        """One line: the name, the value, the bound and the verdict."""
        verdict = "met" if self.is_met else "MISSED"
        values = f"{format_cell(self.ours)} {self.comparison} {format_cell(self.bound)}"
        return f"{self.name}: {values} ({verdict})"


@dataclass(frozen=True)
class Outcome:
    """What an experiment found."""

    tables: Sequence[Table]
    targets: Sequence[Target] = ()
    notes: Sequence[str] = ()
    """Sentences about differences from the paper's setting."""
    pictures: Sequence[str] = ()
    """Names of the files written to ``options.pictures``."""
    is_whole: bool = False
    """All of it goes to the results whatever the seed, which is drawn once the code is frozen."""

    @property
    def is_met(self) -> bool:
        """Whether every target is met."""
        return all(target.is_met for target in self.targets)


@dataclass(frozen=True)
class Record:
    """An outcome with when and with what it was computed."""

    name: str
    title: str
    outcome: Outcome
    options: Options
    seconds: float
    date: str = field(default_factory=lambda: datetime.date.today().isoformat())
    origin: Origin = field(default_factory=Origin)
    is_resumed: bool = False
    """Whether answers may come from an earlier run of the same study (`experiments._cells`)."""

    @property
    def section(self) -> str:
        """Heading in the results; a run with another seed stands beside the first."""
        return self.name + (f", seed {self.options.seed}" if self.options.seed else "")

    def as_dict(self) -> dict[str, Any]:
        """Plain types, for JSON."""
        targets = [
            {"name": t.name, "ours": t.ours, "comparison": t.comparison, "bound": t.bound, "met": t.is_met}
            for t in self.outcome.targets
        ]
        tables = [
            {"title": t.title, "head": list(t.head), "rows": [list(row) for row in t.rows]}
            for t in self.outcome.tables
        ]
        return {
            "name": self.name,
            "title": self.title,
            "quick": self.options.quick,
            "seed": self.options.seed,
            "date": self.date,
            "commit": self.origin.commit,
            "code": self.origin.code,
            "versions": versions(),
            "seconds": round(self.seconds, 2),
            "met": self.outcome.is_met,
            "targets": targets,
            "tables": tables,
            "notes": list(self.outcome.notes),
            "pictures": list(self.outcome.pictures),
        }

    def as_text(self) -> str:
        """For a terminal."""
        parts = [f"{self.name}: {self.title}"]
        parts += [table.as_text() for table in self.outcome.tables]
        parts += [f"note: {note}" for note in self.outcome.notes]
        parts.append("\n".join(target.as_text() for target in self.outcome.targets) or "no targets")
        return "\n\n".join(parts) + f"\n({self.seconds:.1f} s)"

    def as_markdown(self) -> str:
        """A section of ``RESULTS.md``; that of another seed has the targets only, unless the outcome is to be whole."""
        used = ", ".join(f"{name} {number}" for name, number in versions().items())
        kept = ", with answers kept from earlier runs" if self.is_resumed else ""
        run = f"Run on {self.date} in {self.seconds:.0f} s{kept} {self.origin.as_text()} with {used}."
        parts = [f"## {self.section}", f"{self.title} {run}"]
        is_whole = not self.options.seed or self.outcome.is_whole
        if is_whole:
            parts += [table.as_markdown() for table in self.outcome.tables]
            parts += list(self.outcome.notes)
        if self.outcome.targets:
            parts.append("\n".join(f"- {target.as_text()}" for target in self.outcome.targets))
        parts += [f"![{name}](pictures/{name})" for name in self.outcome.pictures if is_whole]
        return "\n\n".join(parts) + "\n"


def run_module(name: str, argv: Sequence[str] | None = None) -> int:
    """Run one experiment from the command line.

    Parameters
    ----------
    name : str
        ``__name__`` of the experiment's module.
    argv : sequence of str or None
        Arguments; ``None`` for those of the process.

    Returns
    -------
    int
        0 when every target is met, else 1.
    """
    module = sys.modules[name]
    title = (module.__doc__ or "").strip().split("\n")[0]
    parser = argparse.ArgumentParser(description=title)
    add_arguments(parser)
    parser.add_argument("--out", type=Path, help="write the results to this JSON file")
    arguments = parser.parse_args(argv)
    spec = getattr(module, "__spec__", None)
    short = (spec.name if spec is not None else name).rpartition(".")[2]
    record = measure(short, title, module.run, options_from(arguments))
    print(record.as_text())
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(record.as_dict(), indent=2, default=_plain) + "\n")
    return 0 if record.outcome.is_met else 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments that every way of running an experiment has."""
    parser.add_argument("--quick", action="store_true", help="reduced form, at most 10 s")
    parser.add_argument("--jobs", type=int, default=1, help="processes for repeated runs")
    parser.add_argument("--seed", type=int, default=0, help=FIRST_SEED)
    parser.add_argument("--runs", type=int, help="tables of a cell, in studies that let it be chosen")
    parser.add_argument("--pictures", type=Path, help="folder for PNG files; none are drawn without it")


def options_from(arguments: argparse.Namespace) -> Options:
    """Options from what `add_arguments` declared."""
    return Options(arguments.quick, arguments.jobs, arguments.pictures, arguments.seed, arguments.runs)


def measure(name: str, title: str, run: Callable[[Options], Outcome], options: Options) -> Record:
    """Run an experiment and record how long it took, and with which code."""
    # Before the run, which may take long enough for the files to change under it.
    origin, is_resumed = origin_of(name), "ANYPCA_CELLS" in os.environ and not options.quick
    start = time.perf_counter()
    outcome = run(options)
    return Record(
        name, title, outcome, options, time.perf_counter() - start, origin=origin, is_resumed=is_resumed
    )


def load_experiment(name: str) -> tuple[str, Callable[[Options], Outcome]]:
    """Title and function of the experiment of that name."""
    module = importlib.import_module(f"experiments.{name}")
    return (module.__doc__ or "").strip().split("\n")[0], module.run


def fit_quietly(model: Any, X: Any, **companions: Any) -> Any:
    """The fitted model; one that stopped at its largest number of iterations still has an answer, which counts.

    So has one whose residuals put another family in place of a given one, which results say where it matters. Hidden
    entries are judged by their probabilities, so that expectations need no trials.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="family: .* in place of ")
        return model.fit(X, **companions)


def repeat(function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]], options: Options) -> list[Any]:
    """``function(*a)`` for every tuple, in ``options.n_jobs`` processes, results in order.

    Parameters
    ----------
    function : callable
        Must fix its own seed from its arguments, so that the number of processes changes nothing.
    arguments : iterable of tuple
    options : Options

    Returns
    -------
    list
    """
    if options.n_jobs == 1:
        return [function(*a) for a in arguments]
    tasks = (joblib.delayed(function)(*a) for a in arguments)
    return list(joblib.Parallel(n_jobs=options.n_jobs)(tasks))


def versions() -> dict[str, str]:
    """Python's and the packages' versions."""
    return {"Python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}


def format_cell(cell: Any) -> str:
    """Numbers with four digits, everything else as it is; ``None`` is an empty cell."""
    if cell is None:
        return ""
    if isinstance(cell, float | np.floating):
        # Log-likelihoods differ in their last digits: large numbers keep their decimals.
        return f"{cell:.1f}" if abs(cell) >= 1e4 else f"{cell:.4g}"
    return str(cell)


def _plain(value: Any) -> Any:
    """NumPy numbers and arrays as Python's, for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"cannot write {type(value).__name__} to JSON")

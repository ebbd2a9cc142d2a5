"""From a job to files and a printed account."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from anypca.cli._outcome import Outcome
from anypca.cli._progress import progress
from anypca.cli._report import write_report
from anypca.cli._show import show
from anypca.datasets import load_digits_counts
from anypca.io import Frame, check_target, read_table, write_atomically

_FILES = ("scores.csv", "loadings.csv", "summary.json", "scree.png", "biplot.png")


@dataclass(frozen=True)
class Job:
    """What a user asked for."""

    model: str
    family: str
    n_components: int
    folder: Path
    seed: int
    verbose: bool


def _epca(job: Job) -> Any:
    from anypca import EPCA

    return EPCA(job.n_components, family=job.family, random_state=job.seed, verbose=int(job.verbose))


def _ppca(job: Job) -> Any:
    from anypca import PPCA

    if job.family not in {"auto", "gaussian"}:
        raise ValueError(
            f"--model ppca is for real values (gaussian) and cannot use --family {job.family}. "
            "Use --model epca."
        )
    return PPCA(job.n_components, random_state=job.seed, verbose=int(job.verbose))


MODELS: dict[str, Callable[[Job], Any]] = {"epca": _epca, "ppca": _ppca}


def run_fit(
    file: Path,
    job: Job,
    *,
    delimiter: str | None = None,
    decimal: str | None = None,
    header: bool | None = None,
) -> None:
    """Read a table, fit, write, print.

    Parameters
    ----------
    file : Path
    job : Job
    delimiter, decimal, header : optional
        As in `anypca.io.read_table`.
    """
    # What cannot be written is better known before a long fit.
    check_target(job.folder, _FILES)
    frame = read_table(file, delimiter=delimiter, decimal=decimal, header=header)
    outcome = _fit(frame, job, source=file.name)
    _finish(outcome, job, dict(_writers(outcome)))


def run_demo(job: Job) -> None:
    """Fit scikit-learn's digits, write everything and a report, print.

    Parameters
    ----------
    job : Job
    """
    check_target(job.folder, (*_FILES, "report.html"))
    digits = load_digits_counts()
    rows = tuple(f"digit{i}" for i in range(1, len(digits.X) + 1))
    frame = Frame(digits.X, digits.feature_names, rows)
    kinds = None if digits.target is None else digits.target.tolist()
    outcome = _fit(frame, job, source="scikit-learn's handwritten digits", groups=kinds)
    writers = dict(_writers(outcome))
    # Last, since it embeds the pictures written before it.
    writers["report.html"] = lambda path: write_report(outcome, path, pictures=path.parent)
    _finish(outcome, job, writers)


def _fit(frame: Frame, job: Job, *, source: str, groups: Sequence[Any] | None = None) -> Outcome:
    table = _as_input(frame)
    model = MODELS[job.model](job)
    with warnings.catch_warnings(record=True) as caught, progress(Console(stderr=True), is_shown=job.verbose):
        warnings.simplefilter("always")
        model.fit(table)
        scores, deviations = _transform(model, table)
    # The same warning from fit and transform is one warning to a reader.
    said = tuple(dict.fromkeys(" ".join(str(item.message).split()) for item in caught))
    return Outcome(source, model, frame, scores, deviations, said, job.seed, groups)


def _as_input(frame: Frame) -> Any:
    """The table with its names, so that models can name a column in their messages."""
    if frame.is_sparse:
        return frame.values
    import pandas

    return pandas.DataFrame(frame.values, columns=list(frame.column_names), copy=False)


def _transform(model: Any, table: Any) -> tuple[Any, Any]:
    """Scores and, where the model has a posterior, their standard deviations."""
    if "return_std" in inspect.signature(model.transform).parameters:
        scores, deviations = model.transform(table, return_std=True)
        return np.asarray(scores), np.asarray(deviations)
    return np.asarray(model.transform(table)), None


def _writers(outcome: Outcome) -> zip[tuple[str, Callable[[Path], None]]]:
    writers = (
        outcome.write_scores,
        outcome.write_loadings,
        outcome.write_summary,
        outcome.write_scree,
        outcome.write_biplot,
    )
    return zip(_FILES, writers, strict=True)


def _finish(outcome: Outcome, job: Job, writers: dict[str, Callable[[Path], None]]) -> None:
    """Write all files, then say what was found: an account of files that do not exist would be false."""
    write_atomically(job.folder, writers)
    show(outcome, Console(highlight=False))
    Console(highlight=False, markup=False, soft_wrap=True).print(
        f"written to {job.folder}: {', '.join(writers)}"
    )

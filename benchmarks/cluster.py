"""What a sweep costs on a cluster: ``python -m benchmarks.cluster [--workers W]``, a local one with processes.

The cost model of ``docs/scale.md``, checked: of a sweep of EPCA with m = k + 1 coefficients to a column, the shared
parameters travel to the workers once, 8 p (2 m + 1) bytes and the code, and a sum of 8 p (m (m + 1) / 2 + 2 m + 2)
bytes comes back. Seconds are those of a sweep beyond the processor time that the same sweep takes in memory, divided by
the workers; the first visit, in which workers import the package, is told apart. Exits with 1 if a sweep takes more
than 0.1 s beyond its work on the small table, or if more bytes travel than the model says.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import cloudpickle
import dask.array as da
import distributed
import numpy as np

from anypca import EPCA
from anypca.engine.dask import DaskExecutor

TARGET = 0.1
# The code of a sweep, and the frames of arrays, in bytes.
_CODE = 20_000


@contextmanager
def watched(notes: list[dict[str, float]]) -> Iterator[None]:
    """Note the time and the bytes of every sweep."""
    original = DaskExecutor.sweep

    def sweep(executor: DaskExecutor, function: Any, *arguments: Any, **others: Any) -> Any:
        start = time.perf_counter()
        found = original(executor, function, *arguments, **others)
        seconds = time.perf_counter() - start
        out, back = len(cloudpickle.dumps(function)), len(cloudpickle.dumps(found[1]))
        notes.append({"seconds": seconds, "out": out, "back": back})
        return found

    DaskExecutor.sweep = sweep  # type: ignore[method-assign]
    try:
        yield
    finally:
        DaskExecutor.sweep = original  # type: ignore[method-assign]


def measure(n: int, p: int, k: int, workers: int) -> dict[str, float]:
    """Sweeps of EPCA on Poisson counts in six chunks."""
    rng, m = np.random.default_rng(0), k + 1
    table = rng.poisson(np.exp(0.4 * rng.normal(size=(n, 3)) @ rng.normal(size=(3, p)))).astype(float)
    model, notes = EPCA(k, family="poisson", max_iter=20, tol=1e-12, n_jobs=1), []
    warnings.simplefilter("ignore")
    start = time.process_time()
    model.fit(table)
    work = time.process_time() - start
    with watched(notes):
        model.fit(da.from_array(table, chunks=(-(-n // 6), p)))
    later = notes[1:]
    return {
        "n": n,
        "p": p,
        "k": k,
        "visits": len(notes),
        "first visit": notes[0]["seconds"],
        "seconds beyond the work": float(np.mean([note["seconds"] for note in later]))
        - work / len(notes) / workers,
        "bytes out": max(note["out"] for note in later),
        "bytes out by the model": 8 * p * (2 * m + 1),
        "bytes back": max(note["back"] for note in later),
        "bytes back by the model": 8 * p * (m * (m + 1) // 2 + 2 * m + 2),
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args(arguments)
    with (
        distributed.LocalCluster(
            n_workers=options.workers, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
    ):
        report = [measure(*size, options.workers) for size in ((6000, 60, 3), (6000, 1000, 10))]
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    slow = report[0]["seconds beyond the work"] > TARGET
    large = any(
        one[f"bytes {way}"] > 1.05 * one[f"bytes {way} by the model"] + _CODE
        for one in report
        for way in ("out", "back")
    )
    return int(slow or large)


if __name__ == "__main__":
    sys.exit(main())

"""What a sweep costs on a cluster: ``python -m benchmarks.cluster [--workers W] [--weak]``, a local one with processes.

The cost model of ``docs/scale.md``, checked: of a sweep of EPCA with m = k + 1 coefficients to a column, the shared
parameters travel to the workers once, 8 p (2 m + 1) bytes and the code, and a sum of 8 p (m (m + 1) / 2 + 2 m + 2)
bytes comes back. Seconds are those of a sweep beyond the processor time that the same sweep takes in memory, divided by
the workers; the first visit, in which workers import the package, is told apart. Processor seconds are those of client,
scheduler and workers together, which other programs on the machine hardly change. Exits with 1 if a sweep takes more
than 0.1 s beyond its work on the small table, or if more bytes travel than the model says. With ``--weak`` it is about
1, 2 and 8 workers alone, each with a chunk of 2000 x 1000: processor seconds of a sweep by worker, which the model says
to be the same. Workers keep the memory that they free, as ``docs/scale.md`` advises.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import cloudpickle
import dask.array as da
import distributed
import numpy as np

from anypca import EPCA
from anypca.engine.dask import DaskExecutor

TARGET = 0.1
#: Dask has workers hand freed memory back to the system at once; with these the C library keeps it for the next sweep.
KEEPING = {"MALLOC_TRIM_THRESHOLD_": str(2**28), "MALLOC_MMAP_THRESHOLD_": str(2**25)}
# The code of a sweep, and the frames of arrays, in bytes.
_CODE = 20_000


def processor_seconds() -> float:
    """Of the client, with its scheduler, and the workers."""
    return time.process_time() + sum(distributed.default_client().run(time.process_time).values())


@contextmanager
def watched(notes: list[dict[str, float]]) -> Iterator[None]:
    """Note the time and the bytes of every sweep, and the processor time up to the first one's end."""
    originals = DaskExecutor.sweep, DaskExecutor.sum

    def watch(original: Callable[..., Any], executor: DaskExecutor, function: Any, *arguments: Any) -> Any:
        start = time.perf_counter()
        found = original(executor, function, *arguments)
        seconds = time.perf_counter() - start
        total = found[1] if original is originals[0] else found
        out, back = len(cloudpickle.dumps(function)), len(cloudpickle.dumps(total))
        until = 0.0 if notes else processor_seconds()
        notes.append({"seconds": seconds, "out": out, "back": back, "until": until})
        return found

    watching = [functools.partialmethod(functools.partial(watch, one)) for one in originals]
    DaskExecutor.sweep, DaskExecutor.sum = watching  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        DaskExecutor.sweep, DaskExecutor.sum = originals  # type: ignore[method-assign]


def measure(n: int, p: int, k: int, workers: int, chunks: int = 6) -> dict[str, float]:
    """Sweeps of EPCA on Poisson counts in some chunks."""
    rng, m = np.random.default_rng(0), k + 1
    table = rng.poisson(np.exp(0.4 * rng.normal(size=(n, 3)) @ rng.normal(size=(3, p)))).astype(float)
    model, notes = EPCA(k, family="poisson", ridge=1.0, max_iter=20, tol=1e-12, n_jobs=1), []
    warnings.simplefilter("ignore")
    start = time.process_time()
    model.fit(table)
    work = time.process_time() - start
    with watched(notes):
        model.fit(da.from_array(table, chunks=(-(-n // chunks), p)))
        processor = processor_seconds() - notes[0]["until"]
    later = notes[1:]
    return {
        "n": n,
        "p": p,
        "k": k,
        "workers": workers,
        "visits": len(notes),
        "first visit": notes[0]["seconds"],
        "seconds beyond the work": float(np.mean([note["seconds"] for note in later]))
        - work / len(notes) / workers,
        "processor seconds": processor / len(later),
        "processor seconds in memory": work / len(notes),
        "bytes out": max(note["out"] for note in later),
        "bytes out by the model": 8 * p * (2 * m + 1),
        "bytes back": max(note["back"] for note in later),
        "bytes back by the model": 8 * p * (m * (m + 1) // 2 + 2 * m + 2),
    }


@contextmanager
def processes(number: int) -> Iterator[None]:
    """A local cluster with so many workers, each a process with one thread."""
    os.environ.update(KEEPING)
    with (
        distributed.LocalCluster(n_workers=number, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster),
    ):
        yield


def scale_weakly(size: tuple[int, int, int], numbers: tuple[int, ...] = (1, 2, 8)) -> list[dict[str, float]]:
    """Sweeps with one chunk for each worker."""
    (n, p, k), report = size, []
    for number in numbers:
        with processes(number):
            report.append(measure(n * number, p, k, number, chunks=number))
    return report


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--weak", action="store_true")
    options = parser.parse_args(arguments)
    if options.weak:
        sys.stdout.write(json.dumps(scale_weakly((2000, 1000, 10)), indent=2) + "\n")
        return 0
    with processes(options.workers):
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

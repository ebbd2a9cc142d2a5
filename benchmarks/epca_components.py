"""EPCA with many components, and its start, against an earlier version of the same code.

Poisson counts of rank k, 4000 x 1000 with 90 % zeros. For k = 10, 30, 50 and 100 it prints the time of a sweep, the
time to gaps of 1e-2 and 1e-3 and, for k = 10, what part of a fit is spent before its first sweep; then the peak of what
a fit to 2000 x 16 000 counts with 50 components allocates. The gap is the relative distance of deviance plus penalty to
the smallest value that either version reached. Each fit runs in a process of its own, on one thread; times are
processor times, and versions take turns. With ``--pbmc`` it is about blood cells alone, 3774 x 2000 frequent genes,
k = 10, log mean counts of the cells as offset, to gaps of 1e-3 and 1e-4.

Run with ``python -m benchmarks.epca_components --rival SOURCES``, where SOURCES is the folder ``src`` of a checkout of
the version to compare with; without it ratios to the earlier version are left out. ``--json FILE`` keeps all figures.
It exits with 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
import time
import tracemalloc
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import gammaln, xlogy

from benchmarks.tables import make_table

GAPS = (1e-2, 1e-3)
#: Largest time of a sweep in units of one with 10 components.
SWEEPS = {50: 4.0, 100: 8.0}
#: Least factor by which the earlier version takes longer, for each gap.
FASTER = {10: (1.0, 1.0), 30: (2.0, 2.0), 50: (3.5, 2.5), 100: (10.0, None)}
#: Largest part of a fit with 10 components before its first sweep.
START = 0.15
#: Largest peak of what a fit allocates, in MB (of 10^6 bytes).
MEMORY = 150.0
#: Largest times on blood cells to gaps of 1e-3 and 1e-4, in units of the earlier version's to 1e-3.
CELLS = {1e-3: 0.65, 1e-4: 1.2}
# Sweeps of a fit that only tells how small the deviance gets.
_MAX_ITER = 60


class _Clock(logging.Handler):
    """Notes processor time and objective of the logged iterations of a fit."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.notes: list[tuple[float, float]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.notes.append((time.process_time(), float(record.__dict__["objective"])))


def _note_start(moments: list[float]) -> None:
    """Let the loop of a fit note when it begins."""
    from anypca.solvers import Loop

    run = Loop.run

    def noted(self: Any, *arguments: Any) -> Any:
        if self.callback is not None:
            moments.append(time.process_time())
        return run(self, *arguments)

    Loop.run = noted  # type: ignore[method-assign]


def cells() -> tuple[Any, Any]:
    """Counts of the 2000 genes that most blood cells have, and the logarithms of the cells' means."""
    from anypca.datasets import load_pbmc_facs

    counts = load_pbmc_facs().X.tocsc()
    table = (
        counts[:, np.sort(np.argsort(-np.diff(counts.indptr), kind="stable")[:2000])].tocsr().astype(float)
    )
    return table, np.log(table.sum(axis=1) / table.shape[1])


def fit(n: int, p: int, k: int, max_iter: int, tol: float, *, is_traced: bool = False) -> dict[str, Any]:
    """What one fit took, to blood cells if ``n`` is 0; its memory where allocations are traced, which takes time."""
    from anypca import EPCA

    # The same variance of the predictor for every k.
    table, offset = (make_table(n, p, k, size=0.3 * np.sqrt(10 / k)), None) if n else cells()
    saturated = float((xlogy(table.data, table.data) - table.data - gammaln(table.data + 1)).sum())
    clock, moments = _Clock(), []
    logger = logging.getLogger("anypca")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(clock)
    _note_start(moments)
    warnings.simplefilter("ignore")
    # What importing and a first small fit take is not counted.
    EPCA(1, family="poisson", ridge=1.0, n_jobs=1, max_iter=2).fit(table[:50, :20].toarray() + np.eye(50, 20))
    moments.clear()
    if is_traced:
        tracemalloc.start()
    start = time.process_time()
    EPCA(k, family="poisson", ridge=1.0, n_jobs=1, max_iter=max_iter, tol=tol, verbose=1).fit(
        table, offset=offset
    )
    trace = [(moment - start, 2.0 * (saturated - value)) for moment, value in clock.notes]
    return {
        "start": moments[0] - start,
        "trace": trace,
        "total": time.process_time() - start,
        "memory": tracemalloc.get_traced_memory()[1] / 1e6,
    }


def run(sources: str | None, *sizes: float, options: Sequence[str] = ()) -> dict[str, Any]:
    """`fit` in a process of its own, with this version or the one in ``sources``."""
    paths = [sources] if sources else []
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")]),
    }
    command = [sys.executable, "-m", "benchmarks.epca_components", *options, "--worker", *map(str, sizes)]
    root = Path(__file__).parents[1]
    done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def time_to(found: dict[str, Any], goal: float) -> float:
    """Processor time until a deviance was reached."""
    return next((moment for moment, value in found["trace"] if value <= goal), np.inf)


def sweep_of(found: dict[str, Any]) -> float:
    """Processor time of a sweep, those included that were not accepted."""
    moments = [moment for moment, _ in found["trace"]]
    return (moments[-1] - moments[0]) / (len(moments) - 1)


def compare(k: int, sources: str | None, size: tuple[int, int]) -> dict[str, Any]:
    """Time of a sweep and to the gaps with k components, of both versions."""
    fits = {"ours": run(None, *size, k, _MAX_ITER, 1e-6)}
    if sources:
        fits["earlier"] = run(sources, *size, k, _MAX_ITER, 1e-6)
    best = min(value for found in fits.values() for _, value in found["trace"])
    figures: dict[str, Any] = {"k": k}
    for name, found in fits.items():
        figures[name] = {
            "sweep": sweep_of(found),
            "gaps": [time_to(found, best * (1.0 + gap)) for gap in GAPS],
            "end": found["trace"][-1][1] / best - 1.0,
            "sweeps": len(found["trace"]),
        }
    return figures


def judged(name: str, value: float, target: float, *, at_most: bool) -> bool:
    """Print a figure beside its target; whether it is missed."""
    missed = not (value <= target if at_most else value >= target)
    word = "at most" if at_most else "at least"
    print(f"{name}: {value:.3g} ({word} {target:g}){' MISSED' if missed else ''}", flush=True)
    return missed


def judge(figures: dict[int, dict[str, Any]]) -> bool:
    """Print the ratios; whether a target is missed."""
    missed = False
    for k, target in SWEEPS.items():
        if k in figures and 10 in figures:
            ratio = figures[k]["ours"]["sweep"] / figures[10]["ours"]["sweep"]
            missed |= judged(f"sweep, k = {k} against 10", ratio, target, at_most=True)
    for k, found in figures.items():
        for i, target in enumerate(FASTER.get(k, ())):
            if "earlier" in found and target is not None:
                ratio = found["earlier"]["gaps"][i] / found["ours"]["gaps"][i]
                missed |= judged(f"to {GAPS[i]:g}, k = {k}, against earlier", ratio, target, at_most=False)
    return missed


def show(figures: dict[str, Any]) -> None:
    """Print the seconds of one number of components."""
    for name in ("ours", "earlier"):
        if name in figures:
            found = figures[name]
            gaps = ", ".join(
                f"{gap:g} in {moment:.2f} s" for gap, moment in zip(GAPS, found["gaps"], strict=True)
            )
            print(
                f"k = {figures['k']:>3} {name:<8} sweep {found['sweep']:.3f} s, {gaps}; {found['sweeps']} sweeps, "
                f"gap at the end {found['end']:.1e}",
                flush=True,
            )


def start_share(size: tuple[int, int], sources: str | None) -> dict[str, float]:
    """Part of a whole fit with 10 components before its first sweep, of both versions."""
    fits = {"ours": run(None, *size, 10, 500, 1e-5)}
    if sources:
        fits["earlier"] = run(sources, *size, 10, 500, 1e-5)
    return {name: found["start"] / found["total"] for name, found in fits.items()}


def compare_cells(sources: str) -> bool:
    """Print the times on blood cells; whether a target is missed."""
    # The earlier version need not show how small the deviance gets.
    fits = [run(source, 0, 0, 10, sweeps, 1e-6) for source, sweeps in ((None, 150), (sources, 20))]
    best = min(value for found in fits for _, value in found["trace"])
    missed, unit = False, time_to(fits[1], best * (1.0 + 1e-3))
    for gap, target in CELLS.items():
        ratio = time_to(fits[0], best * (1.0 + gap)) / unit
        missed |= judged(f"cells to {gap:g} against earlier to 0.001", ratio, target, at_most=True)
    return missed


def main(argv: Sequence[str] | None = None) -> int:
    """Print all figures; 1 if a target is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rival", help="sources of an earlier version")
    parser.add_argument("--components", type=int, nargs="+", default=[10, 30, 50, 100])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="a small run that checks no target")
    parser.add_argument("--pbmc", action="store_true", help="blood cells alone; needs --rival")
    parser.add_argument("--traced", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--worker", type=float, nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.worker:
        n, p, k, max_iter = map(int, options.worker[:4])
        print(json.dumps(fit(n, p, k, max_iter, options.worker[4], is_traced=options.traced)))
        return 0
    if options.pbmc:
        return int(compare_cells(options.rival))
    size, wide = ((300, 60), (100, 300)) if options.quick else ((4000, 1000), (2000, 16_000))
    figures: dict[int, dict[str, Any]] = {}
    for k in options.components:
        figures[k] = compare(k, options.rival, size)
        show(figures[k])
    missed = judge(figures)
    start = start_share(size, options.rival)
    missed |= judged("part of a fit before its first sweep, k = 10", start["ours"], START, at_most=True)
    memory = run(None, *wide, min(50, options.components[-1]), 15, 1e-5, options=["--traced"])["memory"]
    missed |= judged("peak memory beyond the table, MB of 10^6 bytes", memory, MEMORY, at_most=True)
    if options.json:
        options.json.write_text(json.dumps({"fits": figures, "start": start, "memory": memory}, indent=1))
    return int(missed and not options.quick)


if __name__ == "__main__":
    raise SystemExit(main())

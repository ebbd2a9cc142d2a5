"""Time to a given bound and peak memory: PLNPCA against ``pyPLNmodels`` from PyPI.

Both maximise the same variational bound (intercept, offsets, independent posteriors); that of pyPLNmodels is brought to
our constants, since it replaces ``log y!`` by Stirling's formula. Each fit runs in a process of its own, with the same
number of threads, and notes the bound after every iteration with the time since the call (processor time of one
thread by default, since that of a busy machine's clock tells little). pyPLNmodels runs far beyond its own stop, until
``--cap`` seconds or ``--iterations``, to show its best.

Two gaps are looked at: 1e-4 below the best bound of either program, and 1e-4 below the best of pyPLNmodels. Where
pyPLNmodels does not get there, its time is a lower bound. Memory is the largest resident size of the process, libraries
included.

Run with ``python -m benchmarks.peers.plnpca [--python INTERPRETER]``, where the interpreter is one that can import
pyPLNmodels (it needs torch); exits with 1 if pyPLNmodels takes less than 5 times as long or less than twice the memory.
``--quick`` is a small run without targets.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

TARGET, MEMORY_TARGET, GAP = 5.0, 2.0, 1e-4
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Run(NamedTuple):
    """The course of a fit."""

    seconds: list[float]
    bounds: list[float]
    total: float
    """Seconds of the whole call."""
    megabytes: float

    def reach(self, goal: float) -> float | None:
        """Seconds until a bound; ``None`` if it is not reached."""
        return next((s for s, b in zip(self.seconds, self.bounds, strict=True) if b >= goal), None)

    @property
    def best(self) -> float:
        return max(self.bounds)


def clock_of(threads: int) -> Callable[[], float]:
    """Processor time for one thread, else the wall's."""
    return time.process_time if threads == 1 else time.perf_counter


def work_anypca(table: Any, options: argparse.Namespace) -> tuple[list[float], list[float], float]:
    """Fit PLNPCA at its defaults."""
    import logging

    from anypca import PLNPCA

    clock = clock_of(options.threads)
    notes: list[tuple[float, float]] = []

    class Note(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            notes.append((clock() - start, float(record.__dict__["objective"])))

    logger = logging.getLogger("anypca")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(Note())
    model = PLNPCA(int(table["rank"]), n_jobs=options.threads, verbose=1)
    start = clock()
    model.fit(table["counts"], offset=table["offset"])
    total = clock() - start
    return [s for s, _ in notes], [b for _, b in notes], total


def work_pyplnmodels(table: Any, options: argparse.Namespace) -> tuple[list[float], list[float], float]:
    """Fit pyPLNmodels until the cap."""
    import torch
    from pyPLNmodels import PlnPCA
    from pyPLNmodels.calculations.elbos import _log_stirling
    from scipy.special import gammaln

    torch.set_num_threads(options.threads)
    clock = clock_of(options.threads)
    seconds: list[float] = []
    bounds: list[float] = []
    start = clock()
    model = PlnPCA(table["counts"].astype(float), offsets=table["offset"], rank=int(table["rank"]))
    plain = model._trainstep

    def step() -> Any:
        value = plain()
        seconds.append(clock() - start)
        bounds.append(float(value))
        if seconds[-1] > options.cap:
            raise KeyboardInterrupt
        return value

    model._trainstep = step
    with contextlib.suppress(KeyboardInterrupt):
        model.fit(maxiter=options.iterations, tol=0.0)
    total = clock() - start
    counts = torch.as_tensor(table["counts"].astype(float))
    change = float(_log_stirling(counts).sum()) - float(gammaln(table["counts"] + 1.0).sum())
    return seconds, [b + change for b in bounds], total


WORKERS = {"anypca": work_anypca, "pyPLNmodels": work_pyplnmodels}


def work(options: argparse.Namespace) -> int:
    """What a process does: fit one program to the stored table, write the course."""
    with np.load(options.table) as table:
        seconds, bounds, total = WORKERS[options.worker](dict(table), options)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    Path(options.result).write_text(json.dumps([seconds, bounds, total, peak]))
    return 0


def start_worker(program: str, python: str, table: Path, options: argparse.Namespace) -> Run:
    """Run a program in a process of its own."""
    result = table.with_suffix(f".{program}.json")
    command = [python, str(Path(__file__).resolve()), "--worker", program, "--table", str(table)]
    command += ["--result", str(result), "--threads", str(options.threads)]
    command += ["--cap", str(options.cap), "--iterations", str(options.iterations)]
    environment = os.environ | dict.fromkeys(_THREADS, str(options.threads))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{program} failed: {done.stderr.strip().splitlines()[-1:]}")
    return Run(*json.loads(result.read_text()))


def simulate(n: int, p: int, rank: int) -> dict[str, Any]:
    """Counts of low rank with efforts by row, mean about 5."""
    rng = np.random.default_rng(0)
    loadings, intercept = 0.4 * rng.normal(size=(p, rank)), 0.5 + 0.7 * rng.normal(size=p)
    offset = np.repeat(0.5 * rng.normal(size=(n, 1)), p, axis=1)
    counts = rng.poisson(np.exp(offset + intercept + rng.normal(size=(n, rank)) @ loadings.T))
    return {"counts": counts, "offset": offset, "rank": rank}


def tables(*, quick: bool) -> dict[str, dict[str, Any]]:
    """The tables of the comparison by name; oaks where the data folder is known."""
    if quick:
        return {"simulated 80 x 20, rank 2": simulate(80, 20, 2)}
    found = {"simulated 1000 x 500, rank 8": simulate(1000, 500, 8)}
    try:
        from anypca.datasets import load_oaks

        oaks = load_oaks()
        found = {"oaks 116 x 114, rank 5": {"counts": oaks.X, "offset": oaks.offset, "rank": 5}} | found
    except FileNotFoundError as error:
        print(f"oaks are left out: {error}")
    return found


def compare(name: str, table: dict[str, Any], options: argparse.Namespace) -> tuple[float, float]:
    """Print the lines of one table; the smallest ratio of times and the ratio of memory."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.npz"
        np.savez(path, **table)
        ours = sorted(
            (start_worker("anypca", sys.executable, path, options) for _ in range(options.repetitions)),
            key=lambda run: run.total,
        )[options.repetitions // 2]
        theirs = start_worker("pyPLNmodels", options.python, path, options)
    print(f"\n{name}")
    for program, run in (("anypca", ours), ("pyPLNmodels", theirs)):
        print(
            f"  {program:<12} best bound {run.best:>14.2f} in {run.total:>7.2f} s, "
            f"{len(run.bounds)} iterations, peak {run.megabytes:.0f} MB"
        )
    best = max(ours.best, theirs.best)
    ratios = []
    for label, top in (("the best of both", best), ("the best of pyPLNmodels", theirs.best)):
        goal = top - GAP * abs(top)
        mine, other = ours.reach(goal), theirs.reach(goal)
        sign = ">" if other is None else ""
        used = theirs.total if other is None else other
        ratios.append(used / mine if mine else 0.0)
        print(
            f"  {GAP:g} below {label}: anypca {mine if mine is None else round(mine, 3)} s, pyPLNmodels "
            f"{sign}{used:.2f} s, ratio {sign}{ratios[-1]:.1f}",
            flush=True,
        )
    return min(ratios), theirs.megabytes / ours.megabytes


def can_import(python: str) -> str:
    """Empty if an interpreter has pyPLNmodels, else why not."""
    done = subprocess.run([python, "-c", "import pyPLNmodels"], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["it does not start"])[-1]


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Command line options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", default=sys.executable, help="an interpreter that can import pyPLNmodels")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cap", type=float, default=40.0, help="seconds after which pyPLNmodels is stopped")
    parser.add_argument("--iterations", type=int, default=5000, help="iterations of pyPLNmodels")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a small run that checks no target")
    for name in ("--worker", "--table", "--result"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.quick:
        options.cap, options.iterations, options.repetitions = 3.0, 200, 1
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Print the comparison; 1 if a target is missed, 2 if pyPLNmodels cannot be imported."""
    options = parse(argv)
    if options.worker:
        return work(options)
    reason = can_import(options.python)
    if reason:
        print(
            f"pyPLNmodels cannot be imported by {options.python}: {reason}. Make an environment with "
            "pip install torch pyPLNmodels 'setuptools<81' and pass its interpreter with --python."
        )
        return 2
    found = [compare(name, table, options) for name, table in tables(quick=options.quick).items()]
    fastest, memory = min(ratio for ratio, _ in found), min(ratio for _, ratio in found)
    missed = not options.quick and (fastest < TARGET or memory < MEMORY_TARGET)
    print(
        f"\npyPLNmodels takes at least {fastest:.1f} times as long (target {TARGET:g}) and {memory:.1f} times the "
        f"memory (target {MEMORY_TARGET:g}){': MISSED' * missed}"
    )
    return int(missed)


if __name__ == "__main__":
    raise SystemExit(main())

"""Tables ten times larger than the memory that a fit may take: ``python -m benchmarks.out_of_core [--megabytes M]``.

A child process maps a table from disk, makes itself at home (imports, a fit of a small table), and then may take M more
megabytes of private memory, which the operating system enforces (``RLIMIT_DATA``); the pages of the mapped file are not
private. It fits one model after the other to the table of 10 M megabytes, a few sweeps each: what a fit takes does not
grow with their number. Exits with 1 if one of them fails. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from anypca import EPCA, GPCA, GSPPCA, PLNPCA, PPCA, PiecewisePCA, SePCA

FACTOR = 10
_FEW: dict[str, Any] = {"max_iter": 2, "n_jobs": 1}
MODELS: dict[str, Callable[[], Any]] = {
    "PPCA": lambda: PPCA(2, n_jobs=1),
    "EPCA": lambda: EPCA(2, family="poisson", ridge=1.0, **_FEW),
    "PLNPCA": lambda: PLNPCA(2, **_FEW),
    "GPCA": lambda: GPCA(2, family="poisson", bound=4.0, **_FEW),
    "GSPPCA": lambda: GSPPCA(2, **_FEW),
    "SePCA": lambda: SePCA(2, family="poisson", **_FEW),
    "PiecewisePCA": lambda: PiecewisePCA(1, **_FEW),
}


def write(path: Path, megabytes: float, columns: int) -> None:
    """Counts of two components."""
    rng, rows = np.random.default_rng(0), int(FACTOR * megabytes * 2**20 / (8 * columns))
    table = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(rows, columns))
    loadings = 0.5 * rng.normal(size=(2, columns))
    for start in range(0, rows, 1000):
        n = min(1000, rows - start)
        table[start : start + n] = rng.poisson(np.exp(rng.normal(size=(n, 2)) @ loadings))
    table.flush()


def private_bytes() -> int:
    """Private memory of this process."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmData"))
    return 1024 * int(line.split()[1])


def child(names: list[str], path: Path, megabytes: float) -> dict[str, Any]:
    """Fit the models under the limit: seconds, or why not."""
    table = np.load(path, mmap_mode="r")
    warnings.simplefilter("ignore")
    for name in names:
        MODELS[name]().fit(np.array(table[:300]))
    limit = private_bytes() + int(megabytes * 2**20)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    found: dict[str, Any] = {}
    for name in names:
        start = time.process_time()
        try:
            MODELS[name]().fit(table)
        except MemoryError as error:
            found[name] = f"MemoryError: {error}"
        else:
            found[name] = time.process_time() - start
    return found


def run(names: list[str], megabytes: float, columns: int) -> dict[str, Any]:
    """Write the table and fit in a child; all that it says."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.npy"
        write(path, megabytes, columns)
        command = [sys.executable, "-m", "benchmarks.out_of_core", "--megabytes", str(megabytes)]
        command += ["--table", str(path), "--models", *names]
        # The C library hands back at once what is freed: else what it keeps would be memory beyond the limit.
        environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        return dict.fromkeys(names, done.stderr.strip()[-500:] or f"exit code {done.returncode}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=24.0)
    parser.add_argument("--columns", type=int, default=200)
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--table", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.table is not None:
        sys.stdout.write(json.dumps(child(options.models, options.table, options.megabytes)))
        return 0
    report = run(options.models, options.megabytes, options.columns)
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    return int(any(isinstance(found, str) for found in report.values()))


if __name__ == "__main__":
    sys.exit(main())

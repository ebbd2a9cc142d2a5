"""What SePCA's fits cost against the version before the work on ordinary tables (commit 51f71f2).

The environment variable ``ANYPCA_BASELINE`` names the folder ``src`` of a checkout of that commit; without it only the
present version is timed. Each kind of table is fitted in a process of its own, versions take turns, and what counts is
processor time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

import anypca
from experiments._common import Options, Outcome, Table, Target, run_module
from experiments._truth_designs import Cell, draw

N_TABLES = 3
SIZES = ((200, 60), (300, 20), (100, 30))
#: Of each kind the family, and the largest ratio of times.
KINDS: Mapping[str, tuple[str, float]] = {
    "gaussian": ("gaussian", 3.0),
    "negative binomial": ("negative_binomial", 2.0),
    "bernoulli": ("bernoulli", 2.0),
}
#: What a worker runs: the first fit, which loads libraries, is not timed.
_WORKER = """
import json, sys, time, warnings
import numpy as np
from anypca import SePCA
warnings.simplefilter("ignore")
tables = np.load(sys.argv[1])
fit = lambda X: SePCA(family=sys.argv[2], n_jobs=1).fit(X)
fit(tables["0"][:40, :8])
start, ranks = time.process_time(), []
for name in tables.files:
    ranks.append(int(fit(tables[name]).n_components_))
print(json.dumps([time.process_time() - start, ranks]))
"""


class Timed(NamedTuple):
    """Processor time of the tables of a kind, and the dimensions that were found."""

    seconds: float
    ranks: list[int]


def measure(sources: Path, tables: Path, family: str) -> Timed:
    """The fits of one version, in a process of its own on one thread."""
    one = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    environment = {**os.environ, **one, "PYTHONPATH": str(sources)}
    command = [sys.executable, "-c", _WORKER, str(tables), family]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return Timed(*json.loads(done.stdout))


def draw_tables(kind: str, options: Options) -> dict[str, np.ndarray]:
    """Tables of all sizes, by number."""
    sizes, n_tables = (SIZES[2:], 1) if options.quick else (SIZES, N_TABLES)
    cells = [Cell(kind, n, p, 3) for n, p in sizes for _ in range(n_tables)]
    rng = np.random.default_rng([options.seed, list(KINDS).index(kind), 163])
    return {str(number): draw(cell, rng).X for number, cell in enumerate(cells)}


def run(options: Options) -> Outcome:
    """Times of both versions."""
    baseline, ours = os.environ.get("ANYPCA_BASELINE"), Path(anypca.__file__).parents[1]
    rows, targets = [], []
    for kind, (family, most) in list(KINDS.items())[: 1 if options.quick else None]:
        with tempfile.TemporaryDirectory() as folder:
            tables = Path(folder) / "tables.npz"
            np.savez(tables, **draw_tables(kind, options))  # type: ignore[arg-type]
            now = measure(ours, tables, family)
            before = measure(Path(baseline), tables, family) if baseline else None
        ratio = now.seconds / before.seconds if before else None
        right = [sum(rank == 3 for rank in each.ranks) if each else None for each in (now, before)]
        earlier = before.seconds if before else None
        rows.append((kind, len(now.ranks), now.seconds, earlier, ratio, *right))
        if ratio is not None:
            targets.append(Target(f"processor time over that of 51f71f2, {kind}", ratio, "<=", most))
    head = ("tables of", "number", "s", "s of 51f71f2", "ratio", "right", "right at 51f71f2")
    notes = [] if baseline else ["ANYPCA_BASELINE is not set: there is nothing to compare with."]
    return Outcome([Table("Fits of rank 3 at m = 5", head, rows)], targets, notes, is_whole=True)


if __name__ == "__main__":
    raise SystemExit(run_module(__name__))

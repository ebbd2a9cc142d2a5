"""How near a stream comes to the fit of the whole table: ``python -m benchmarks.streaming [--quick] [--json FILE]``.

Blocks of 200 rows, after a first one of 600, go through ``partial_fit`` once; then one further sweep over the whole
table starts from there. The gap is that of the objective to the optimum of a fit to the whole table, relative to what
this gains over the model without components; the angle is the largest principal one to its loadings. Exits with 1 when
a target is missed. The gaussian tables miss 30 % of their entries; their figures have no target,
and their further pass is several, since dispersions are estimated anew.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg

from anypca import EPCA

# Of the mean over the seeds, Poisson: gap and angle after one epoch, and after one further pass.
TARGETS = {"epoch_gap": 1e-3, "epoch_angle": 3.0, "pass_gap": 1e-4, "pass_angle": 1.5}
FIRST, BLOCK = 600, 200
# A quick run has less than half as many blocks, and fewer columns to tell the scores by.
QUICK_SLACK = 2.0


def make_table(family: str, n: int, p: int, k: int, seed: int) -> Any:
    """Rows with scores of unit variance and loadings of decreasing size."""
    rng = np.random.default_rng(seed)
    sizes = np.linspace(0.45, 0.15, k) if family == "poisson" else np.linspace(0.6, 0.25, k)
    eta = rng.normal(size=(n, k)) @ (rng.normal(size=(p, k)) * sizes).T + 0.6 * rng.normal(size=p)
    if family == "poisson":
        return rng.poisson(np.exp(eta - 0.7)).astype(float)
    return np.where(rng.random((n, p)) < 0.3, np.nan, eta + rng.normal(size=(n, p)))


def blocks(table: Any) -> Iterator[Any]:
    """The rows as they come."""
    yield table[:FIRST]
    for start in range(FIRST, table.shape[0], BLOCK):
        yield table[start : start + BLOCK]


def angle(a: Any, b: Any) -> float:
    """Largest principal angle between the rows of two matrices, in degrees."""
    return float(np.degrees(scipy.linalg.subspace_angles(a.T, b.T)[0]))


def measure(family: str, n: int, p: int, k: int, seed: int) -> dict[str, float]:
    """Gaps and angles of one table."""
    table = make_table(family, n, p, k, seed)
    settings = {"family": family, "n_jobs": 1}
    batch = EPCA(k, **settings, tol=1e-6).fit(table)
    null = EPCA(0, **settings).fit(table)
    model = EPCA(k, **settings)
    for block in blocks(table):
        model.partial_fit(block)
    best, span = batch.objective_trace_[-1], batch.objective_trace_[-1] - null.objective_trace_[-1]
    found = {"epoch_angle": angle(model.components_, batch.components_)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one sweep does not converge
        after = EPCA(k, **settings, init=model, max_iter=2).fit(table)
    # The first value is that of the stream's loadings, with rows at their optima.
    found["epoch_gap"] = float((best - after.objective_trace_[0]) / span)
    found["pass_gap"] = float((best - after.objective_trace_[-1]) / span)
    found["pass_angle"] = angle(after.components_, batch.components_)
    return found


def run(families: tuple[str, ...], n: int, p: int, k: int, seeds: range) -> dict[str, Any]:
    """Means over the seeds, by family."""
    report: dict[str, Any] = {"n": n, "p": p, "k": k, "seeds": list(seeds), "targets": TARGETS}
    for family in families:
        runs = [measure(family, n, p, k, seed) for seed in seeds]
        report[family] = {name: float(np.mean([one[name] for one in runs])) for name in TARGETS}
    return report


def missed(report: dict[str, Any], slack: float = 1.0) -> list[str]:
    """Targets, times a factor for smaller tables, that the Poisson tables miss."""
    return [name for name, most in TARGETS.items() if not report["poisson"][name] <= slack * most]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    size = (3000, 60, 3, range(1)) if options.quick else (6000, 150, 5, range(5))
    report = run(("poisson",) if options.quick else ("poisson", "gaussian"), *size)
    report["missed"] = missed(report, QUICK_SLACK if options.quick else 1.0)
    text = json.dumps(report, indent=2)
    sys.stdout.write(text + "\n")
    if options.json is not None:
        options.json.write_text(text + "\n", encoding="utf-8")
    return 1 if report["missed"] else 0


if __name__ == "__main__":
    sys.exit(main())

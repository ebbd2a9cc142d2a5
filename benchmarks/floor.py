"""Time of a sweep against the floor of its own matrix products and exponentials.

Poisson EPCA on a sparse table (90 % zeros), k = 10. A sweep computes two linear predictors, two exponentials and two
sums of values, gradients and curvatures; the floor does exactly these dense products and exponentials, in the same
tiles, on the same number of threads, and nothing else. Both are measured in turn in one run; the best of the
repetitions counts, since other programs can only slow either down.

Run with ``python -m benchmarks.floor``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from anypca.engine import Block, check_data
from anypca.families import Poisson
from anypca.linalg import packed_size
from anypca.models._bilinear.alternating import Shared
from anypca.models._bilinear.evaluator import Coefficients
from anypca.models._bilinear.passes import Pass
from anypca.models._bilinear.problem import BilinearProblem
from anypca.models._bilinear.start import null_coefficients, residual_loadings
from anypca.models._block_view import open_block
from anypca.models._context import open_context
from anypca.priors import Ridge
from benchmarks.tables import make_table

TARGET = 2.0


@dataclass(frozen=True)
class Nothing:
    """A statistic that costs nothing to add."""

    def __add__(self, other: Nothing) -> Nothing:
        return self


def floor_of(block: Block, k: int) -> Nothing:
    """The dense products and exponentials of one step on one block."""
    rows = open_block(block, fit_intercept=True, family=Poisson())
    m = k + 1
    design = np.ones((rows.n_rows, m))
    joint = np.full((rows.n_features, m), -0.1)
    by_rows = np.ones((rows.n_features, 1 + k + packed_size(k)))
    by_columns = np.ones((rows.n_rows, 1 + m + packed_size(m)))
    for tile in rows.tiles():
        np.exp(design @ joint[tile].T) @ by_rows[tile]
    for tile in rows.tiles():
        np.exp(design @ joint[tile].T).T @ by_columns
    return Nothing()


def best(function: Callable[[], object], repetitions: int) -> float:
    """Smallest wall time of several calls."""
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def measure(
    n_samples: int, n_features: int, k: int, n_jobs: int | None, repetitions: int
) -> tuple[float, float]:
    """Seconds of a sweep and of its floor."""
    table = make_table(n_samples, n_features, k)
    family = Poisson()
    with open_context(check_data(table), n_jobs) as session:
        data, executor = session.data, session.executor
        ones = np.ones(n_features)
        visit = Pass(session, fit_intercept=True)
        fixed = np.log(np.maximum(session.summary.mean, 1e-3))[:, None]
        start = Coefficients(np.zeros((n_features, 0)), fixed, ones)
        null = null_coefficients(family, start, visit, tol=1e-5)
        loadings = residual_loadings(family, null, visit, k, np.random.default_rng(0))
        ridge = np.ones(k)
        problem = BilinearProblem(family, Ridge(ridge), Ridge(np.append(ridge, 0.0)), ridges=(1.0, 1.0))
        loop = session.loop(problem, max_iter=5, tol=1e-12)
        result, local, _ = loop.run(Shared(Coefficients(loadings, null.fixed, ones)))
        shared = Shared(result.shared.coefficients)
        sweep, floor = np.inf, np.inf
        for _ in range(repetitions):
            sweep = min(
                sweep, best(lambda: executor.sweep(lambda b, z: problem.step(b, shared, z), data, local), 1)
            )
            floor = min(floor, best(lambda: executor.sweep(lambda b, _: (None, floor_of(b, k)), data), 1))
    return sweep, floor


def main() -> int:
    """Print a row per size; non-zero exit if the ratio at n = 16000 is above the target."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[4000, 16000, 64000])
    parser.add_argument("--features", type=int, default=1000)
    parser.add_argument("--components", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--repetitions", type=int, default=7)
    options = parser.parse_args()
    print(f"{'n':>7} {'sweep s':>9} {'floor s':>9} {'ratio':>6} {'ns per entry':>13}")
    missed = False
    for n in options.sizes:
        sweep, floor = measure(n, options.features, options.components, options.jobs, options.repetitions)
        per_entry = sweep / n / options.features * 1e9
        print(f"{n:>7} {sweep:>9.3f} {floor:>9.3f} {sweep / floor:>6.2f} {per_entry:>13.1f}", flush=True)
        missed |= n == 16000 and sweep / floor > TARGET
    return int(missed)


if __name__ == "__main__":
    raise SystemExit(main())

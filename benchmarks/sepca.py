"""Time of a variational sweep and of a whole variational fit against exponential-family PCA.

Two tables with five components: 2000 x 500 bits and 4000 x 1000 Poisson counts. A sweep of `SePCA` is timed against a
sweep of `EPCA` with the same number of components, each with the update of the columns that follows it; a whole fit of
`SePCA` that starts at 20 components against a fit of `EPCA` at the rank that it selects. Both are measured in turn in
one run, on one thread, in processor time; the best of the repetitions counts, since other programs can only slow
either down.

Run with ``python -m benchmarks.sepca``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from anypca import EPCA, SePCA
from anypca.columns import resolve_family
from anypca.datasets import make_low_rank
from anypca.engine import check_data
from anypca.families import Family
from anypca.families.mixed import known_dispersion
from anypca.linalg import pack_symmetric
from anypca.models._bilinear.alternating import Shared
from anypca.models._bilinear.evaluator import Coefficients
from anypca.models._bilinear.passes import Pass
from anypca.models._bilinear.problem import BilinearProblem
from anypca.models._bilinear.start import mean_coefficients, null_coefficients, residual_loadings
from anypca.models._context import FitContext, open_context
from anypca.models.sepca._posterior import Loadings
from anypca.models.sepca._sweep import VariationalProblem
from anypca.priors import Ridge

SWEEP_TARGET = 3.0
FIT_TARGET = 10.0
TABLES = {"bernoulli": (2000, 500), "poisson": (4000, 1000)}
TRUTH = 5
START = 20
# Sweeps before the one that is timed: the first ones halve steps, which neither method does later on.
_WARM_UP = 10


def seconds(function: Callable[[], object]) -> float:
    """Processor time of a call."""
    start = time.process_time()
    function()
    return time.process_time() - start


def sweep_of(problem: Any, shared: Any, session: FitContext, *, accelerate: bool) -> Callable[[], Any]:
    """One sweep and its update after the warm-up, to be called again and again from the same point."""
    loop = session.loop(problem, max_iter=_WARM_UP, tol=1e-12, accelerate=accelerate)
    result, local, stats = loop.run(shared)
    at = problem.update(result.shared, stats).shared

    def sweep() -> Any:
        _, stats = session.executor.sweep(
            lambda block, rows: problem.step(block, at, rows), session.data, local
        )
        return problem.update(at, stats)

    return sweep


def sweeps(session: FitContext, family: Family, k: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """A sweep of EPCA and one of the variational posterior, with k components."""
    visit = Pass(session, fit_intercept=True)
    p = session.data.n_features
    ones = known_dispersion(family, p)
    fixed = mean_coefficients(family, session.summary, 0, fit_intercept=True)
    start = Coefficients(np.zeros((p, 0)), fixed, ones)
    null = null_coefficients(family, start, visit, tol=1e-5)
    loadings = residual_loadings(family, null, visit, k, np.random.default_rng(0))
    ridge = np.ones(k)
    point = BilinearProblem(family, Ridge(ridge), Ridge(np.append(ridge, 0.0)), ridges=(1.0, 1.0))
    mean = np.hstack([loadings, null.fixed])
    precision = np.tile(pack_symmetric(1e3 * np.eye(k + 1)), (p, 1))
    posterior = Loadings.starting(
        mean, precision, 1.0 / (loadings**2).mean(axis=0), ones, np.zeros((p, 1)), ones
    )
    return (
        sweep_of(point, Shared(Coefficients(loadings, null.fixed, ones)), session, accelerate=True),
        sweep_of(VariationalProblem(family), posterior, session, accelerate=False),
    )


def compare_sweeps(table: np.ndarray, name: str, k: int, repetitions: int) -> float:
    """Print both times of a sweep, return their ratio."""
    theirs = ours = np.inf
    with open_context(check_data(table), 1) as session:
        plain, variational = sweeps(session, resolve_family(name, table.shape[1]), k)
        for _ in range(repetitions):
            theirs, ours = min(theirs, seconds(plain)), min(ours, seconds(variational))
    ratio = ours / theirs
    print(
        f"{name}, sweep at {k} components: vb {ours:.3f} s, EPCA {theirs:.3f} s, "
        f"ratio {ratio:.2f} (at most {SWEEP_TARGET:g})",
        flush=True,
    )
    return ratio


def compare_fits(table: np.ndarray, name: str, repetitions: int) -> float:
    """Print both times of a fit, return their ratio."""
    model = SePCA(START, family=name, n_jobs=1)
    ours = theirs = np.inf
    for _ in range(repetitions):
        ours = min(ours, seconds(partial(model.fit, table)))
        rival = EPCA(model.n_components_, family=name, ridge=1.0, n_jobs=1)
        theirs = min(theirs, seconds(partial(rival.fit, table)))
    ratio = ours / theirs
    print(
        f"{name}, fit from {START} components to {model.n_components_} (truth {TRUTH}): vb {ours:.2f} s, "
        f"EPCA {theirs:.2f} s in {rival.n_iter_} sweeps, ratio {ratio:.2f} (at most {FIT_TARGET:g})",
        flush=True,
    )
    return ratio


def main() -> int:
    """Print all ratios; non-zero exit if one is above its target."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--components", type=int, nargs="+", default=[5, 10, 20])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--fits", type=int, default=1, help="repetitions of the whole fits")
    parser.add_argument("--shrink", type=int, default=1, help="divide the sides of the tables by this")
    options = parser.parse_args()
    missed = False
    with threadpool_limits(1):
        for name, shape in TABLES.items():
            n, p = (side // options.shrink for side in shape)
            table = make_low_rank(n, p, TRUTH, family=name, random_state=0).X
            for k in options.components:
                missed |= compare_sweeps(table, name, k, options.repetitions) > SWEEP_TARGET
            missed |= compare_fits(table, name, options.fits) > FIT_TARGET
    return int(missed)


if __name__ == "__main__":
    raise SystemExit(main())

"""Whole fits of SePCA against an earlier version of the same code.

Five tables: trees and their fungi (oaks, 116 x 114 counts), handwritten digits (1797 x 64 counts up to 16), a mixed
table of 5000 x 60 (real, counts, yes/no), 1000 x 1000 Poisson counts and 2000 x 200 bits. Each fit runs in a process of
its own, on one thread; times are processor times, and versions take turns. What counts is the geometric mean of the
ratios, and that both versions choose the same number of components. ``--large`` adds fits without a rival that must end
in a given time: 200 000 x 12 mixed entries on two threads, and the documents of four newsgroups.

Run with ``python -m benchmarks.sepca_fits --rival SOURCES``, where SOURCES is the folder ``src`` of a checkout of the
version to compare with. It exits with 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

#: Largest geometric mean of the times, and largest single one, in units of the earlier version's.
MEAN, WORST = 0.5, 1.0
#: Largest wall-clock time of the large fits, in seconds, and their number of threads.
LARGE = {"tall": (60.0, 2), "newsgroups4": (180.0, 2)}


def oaks(_: int) -> tuple[Any, dict[str, Any]]:
    """Counts of fungi on trees."""
    from anypca.datasets import load_oaks

    return np.asarray(load_oaks().X), {"family": "negative_binomial"}


def digits(shrink: int) -> tuple[Any, dict[str, Any]]:
    """Counts of ink in cells of pictures."""
    from sklearn.datasets import load_digits

    return load_digits().data[:: 20 if shrink > 1 else 1], {"family": "poisson"}


def mixed(n: int, p: int, seed: int) -> tuple[Any, dict[str, Any]]:
    """A third of real columns, counts and yes/no answers each, of rank 4."""
    rng = np.random.default_rng(seed)
    eta = 0.7 * rng.standard_normal((n, 4)) @ rng.standard_normal((4, p)) + 0.3 * rng.standard_normal(p)
    third = p // 3
    real = eta[:, :third] + rng.standard_normal((n, third))
    counts = rng.poisson(np.exp(np.minimum(eta[:, third : 2 * third], 6.0)))
    bits = rng.random((n, p - 2 * third)) < 1.0 / (1.0 + np.exp(-eta[:, 2 * third :]))
    names = ["gaussian"] * third + ["poisson"] * third + ["bernoulli"] * (p - 2 * third)
    return np.hstack([real, counts, bits]), {"family": names}


def drawn(family: str, n: int, p: int) -> tuple[Any, dict[str, Any]]:
    """A table of rank 5."""
    from anypca.datasets import make_low_rank

    return make_low_rank(n, p, 5, family=family, random_state=0).X, {"family": family}


TABLES: dict[str, Callable[[int], tuple[Any, dict[str, Any]]]] = {
    "oaks": oaks,
    "digits": digits,
    "mixed": lambda shrink: mixed(5000 // shrink, 60, 0),
    "poisson": lambda shrink: drawn("poisson", 1000 // shrink, 1000 // shrink),
    "bernoulli": lambda shrink: drawn("bernoulli", 2000 // shrink, 200 // shrink),
}


def newsgroups(_: int) -> tuple[Any, dict[str, Any]]:
    """Words of posts to four newsgroups, yes or no."""
    from anypca.datasets import load_newsgroups4

    return (load_newsgroups4().X > 0).astype(float), {"family": "bernoulli"}


LARGE_TABLES: dict[str, Callable[[int], tuple[Any, dict[str, Any]]]] = {
    "tall": lambda shrink: mixed(200_000 // shrink, 12, 0),
    "newsgroups4": newsgroups,
}


def fit(name: str, shrink: int, n_jobs: int) -> dict[str, float]:
    """Times and the dimension of one fit."""
    from anypca import SePCA

    warnings.simplefilter("ignore")
    # What importing and a first small fit take is not counted.
    SePCA(1, n_jobs=1, family="poisson").fit(np.random.default_rng(0).poisson(3.0, (30, 5)))
    table, options = {**TABLES, **LARGE_TABLES}[name](shrink)
    start, wall = time.process_time(), time.perf_counter()
    model = SePCA(n_jobs=n_jobs, random_state=0, **options).fit(table)
    seconds, elapsed = time.process_time() - start, time.perf_counter() - wall
    return {
        "seconds": seconds,
        "elapsed": elapsed,
        "components": model.n_components_,
        "evidence": model.evidence_,
        "sweeps": model.n_iter_,
    }


def run(sources: str | None, name: str, shrink: int, n_jobs: int = 1) -> dict[str, float]:
    """`fit` in a process of its own, with this version or the one in ``sources``."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([*([sources] if sources else []), os.environ.get("PYTHONPATH", "")]),
    }
    command = [sys.executable, "-m", "benchmarks.sepca_fits", "--worker", name, str(shrink), str(n_jobs)]
    root = Path(__file__).parents[1]
    done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def compare(name: str, sources: str, shrink: int) -> tuple[float, bool]:
    """Print both fits; the ratio of their times, and whether they chose the same dimension."""
    ours, earlier = run(None, name, shrink), run(sources, name, shrink)
    ratio = ours["seconds"] / earlier["seconds"]
    print(
        f"{name}: {ours['seconds']:.1f} s (earlier {earlier['seconds']:.1f}), ratio {ratio:.2f}; components "
        f"{ours['components']:.0f} ({earlier['components']:.0f}), evidence {ours['evidence']:.2f} "
        f"({earlier['evidence']:.2f})",
        flush=True,
    )
    return ratio, ours["components"] == earlier["components"]


def judge(ratios: Sequence[float]) -> bool:
    """Print the mean ratio and the worst; whether a target is missed."""
    mean, worst = float(np.exp(np.log(ratios).mean())), max(ratios)
    missed = mean > MEAN or worst > WORST
    print(
        f"geometric mean {mean:.2f} (at most {MEAN:g}), worst {worst:.2f} (at most {WORST:g})"
        f"{' MISSED' if missed else ''}",
        flush=True,
    )
    return missed


def fit_large(name: str) -> bool:
    """Print the wall-clock time of a large fit; whether its target is missed."""
    limit, n_jobs = LARGE[name]
    found = run(None, name, 1, n_jobs)
    missed = found["elapsed"] > limit
    print(
        f"{name}: {found['elapsed']:.0f} s on {n_jobs} threads (at most {limit:g}), {found['seconds']:.0f} s of "
        f"processor time, {found['components']:.0f} components, evidence {found['evidence']:.2f}"
        f"{' MISSED' if missed else ''}",
        flush=True,
    )
    return missed


def main(argv: Sequence[str] | None = None) -> int:
    """Print all figures; 1 if a target is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rival", help="sources of an earlier version")
    parser.add_argument("--tables", nargs="+", choices=[*TABLES], default=[*TABLES])
    parser.add_argument("--shrink", type=int, default=1, help="divide the sides of the tables by this")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.worker:
        name, shrink, n_jobs = options.worker
        print(json.dumps(fit(name, int(shrink), int(n_jobs))))
        return 0
    missed = False
    if options.rival:
        found = [compare(name, options.rival, options.shrink) for name in options.tables]
        missed = judge([ratio for ratio, _ in found]) or not all(same for _, same in found)
    if options.large:
        missed |= any([fit_large(name) for name in LARGE])
    return int(missed)


if __name__ == "__main__":
    raise SystemExit(main())

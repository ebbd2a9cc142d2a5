"""Time of a fit of piecewise PCA with 20 starts against scikit-learn's Gaussian mixture with as many.

The hinge: 500 rows, 3 columns, 2 latent dimensions, 2 pieces; the mixture has 5 components. Both are measured in turn
in one run, on one thread, in processor time; the best of the repetitions counts.

Run with ``python -m benchmarks.piecewise``.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from anypca import PiecewisePCA

TARGET = 5.0


def make_hinge(n_samples: int, seed: int = 0) -> np.ndarray:
    """Points (x, y, |x|) with noise of standard deviation 0.1."""
    rng = np.random.default_rng(seed)
    w = rng.standard_normal((n_samples, 2))
    return np.column_stack([w, np.abs(w[:, 0])]) + 0.1 * rng.standard_normal((n_samples, 3))


def seconds(function: Callable[[], object]) -> float:
    """Processor time of a call."""
    start = time.process_time()
    function()
    return time.process_time() - start


def main() -> int:
    """Print both times; non-zero exit if their ratio is above the target."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    X = make_hinge(options.rows)
    ours, theirs = PiecewisePCA(n_init=20, n_jobs=1), GaussianMixture(5, n_init=20, random_state=0)
    fit = mixture = np.inf
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a mixture component that did not converge is not our concern
        for _ in range(options.repetitions):
            mixture = min(mixture, seconds(lambda: theirs.fit(X)))
            fit = min(fit, seconds(lambda: ours.fit(X)))
    ratio = fit / mixture
    print(f"piecewise {fit:.2f} s, mixture {mixture:.2f} s, ratio {ratio:.1f} (at most {TARGET:g})")
    print(f"log-likelihood {ours.log_likelihood_:.2f}, mixture {theirs.score(X) * len(X):.2f}")
    print(f"{ours.n_iter_} iterations, converged: {ours.converged_}")
    return int(ratio > TARGET)


if __name__ == "__main__":
    raise SystemExit(main())

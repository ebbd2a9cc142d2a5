"""Coverage: 90 % posterior intervals of the natural parameters at held-out entries of simulated tables.

Tables of the designs of `experiments.sepca_robust`, 100 x 50 with two components, of which 10 % of the entries are
hidden. At these the interval of the linear predictor comes from the posterior alone: for the variational posterior from
its exact mean and variance under a normal shape, for NUTS from the quantiles of the draws. The dimension is chosen by
the model.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.stats

from anypca import SePCA
from anypca.exceptions import ConvergenceWarning
from experiments._cells import Cells, tally
from experiments._common import Options, Outcome, Table, Target, run_module
from experiments._held_out import Masked, mask
from experiments.sepca_robust import Cell, draw

RANK = 2
LEVEL = 0.9
#: Cells by the family that is fitted.
CELLS = {
    "gaussian": Cell("Gaussian, equal noise", RANK, 100),
    "poisson": Cell("Poisson, mean 1.6", RANK, 100),
    "bernoulli": Cell("Bernoulli", RANK, 100),
}
#: Least and largest share that a method may cover.
BOUNDS = {"vb": (0.80, 0.96), "hmc": (0.85, 0.95)}
_MAX_COMPONENTS = 8


def run(options: Options) -> Outcome:
    """Shares of hidden entries whose true predictor lies in its interval."""
    n_runs = {"vb": 4} if options.quick else {"vb": 50, "hmc": 5}
    cells = Cells("sepca_coverage", options)
    rows, targets = [], []
    for family in CELLS:
        for method, count in n_runs.items():
            found = cells.get(cover_once, (method, family), count)
            shares, widths, ranks = (np.array(values) for values in zip(*found, strict=True))
            covered = float(shares.mean())
            rows.append(
                (family, method, count, covered, shares.min(), shares.max(), widths.mean(), tally(ranks))
            )
            low, high = BOUNDS[method]
            targets.append(Target(f"{family}, {method}: covered", covered, ">=", low))
            targets.append(Target(f"{family}, {method}: covered", covered, "<=", high))
    head = ("family", "method", "tables", "covered", "least", "most", "mean width", "chosen q")
    title = f"90 % intervals of natural parameters at held-out entries, truth q = {RANK}"
    return Outcome([Table(title, head, rows)], targets)


def cover_once(method: str, family: str, seed: int) -> tuple[float, float, int]:
    """Share of hidden entries covered, mean width of the intervals, chosen dimension."""
    drawn = draw(CELLS[family], seed)
    masked = mask(drawn.X, seed)
    with warnings.catch_warnings():
        # Chains that have not met yet are part of what is measured.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SePCA(_MAX_COMPONENTS, family=family, inference=method, n_jobs=1).fit(masked.X)
        low, high = INTERVALS[method](model, masked)
    truth = drawn.eta[masked.rows, masked.columns]
    return float(np.mean((low <= truth) & (truth <= high))), float(np.mean(high - low)), model.n_components_


def variational_interval(model: Any, masked: Masked) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the intervals at the hidden entries, from the posterior's mean and variance of the predictor."""
    mean, std = model.entry_posterior(masked.X, masked.rows, masked.columns)
    half = scipy.stats.norm.ppf(0.5 + LEVEL / 2.0) * std
    return mean - half, mean + half


def sampled_interval(model: Any, masked: Masked) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the intervals at the hidden entries, from quantiles of the draws."""
    low, high = np.quantile(masked.draws(model), [0.5 - LEVEL / 2.0, 0.5 + LEVEL / 2.0], axis=0)
    return low, high


INTERVALS: Mapping[str, Callable[[Any, Masked], tuple[np.ndarray, np.ndarray]]] = {
    "vb": variational_interval,
    "hmc": sampled_interval,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    return run_module(__name__, argv)


if __name__ == "__main__":
    raise SystemExit(main())

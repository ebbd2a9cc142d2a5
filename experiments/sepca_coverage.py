"""Coverage of 90 % posterior intervals: natural parameters at held-out entries of simulated tables, loadings, scores.

Tables of the designs of `experiments.sepca_robust`, 100 x 50 with two components, of which 10 % of the entries are
hidden. At these the interval of the linear predictor comes from the posterior alone: for the variational posterior from
its exact mean and variance under a normal shape, for NUTS from the quantiles of the draws. The dimension is chosen by
the model.

Loadings are compared with the truth in the orthogonal basis in which the model reports, in tables of 20 columns with
components of different strengths; equal ones may be turned into each other. Scores are compared with those of the true
predictors in the coordinates of the sample: centred, of unit variance and uncorrelated over the rows of the table, as
the model reports them. Tables with another dimension have no such truth: they are counted and left out.

``--runs N`` asks the variational posterior alone for hidden entries, on N tables of each family; with the environment
variable ``ANYPCA_CELLS`` naming a JSON file, finished cells are kept there and are not computed again.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy.optimize
import scipy.stats
from scipy.special import expit

from anypca import SePCA
from anypca.exceptions import ConvergenceWarning
from experiments._cells import Cells, tally
from experiments._common import Options, Outcome, Table, Target, fit_quietly, run_module
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
BOUNDS = {"vb": (0.85, 0.95), "hmc": (0.85, 0.95)}
#: The same of a few tables.
QUICK_BOUNDS = (0.80, 0.96)
_MAX_COMPONENTS = 8
#: Tables of each family and number of rows, of 40 loadings each; at least 3000 intervals are asked for.
N_LOADING_TABLES, N_COLUMNS, N_ROWS = 80, 20, (100, 500)
#: By family the intercept and the standard deviations of the loadings of two components.
STRENGTHS = {
    "gaussian": (0.0, (1.5, 0.8)),
    "poisson": (1.0, (0.7, 0.4)),
    "bernoulli": (0.0, (2.5, 1.5)),
}
LOADING_BOUNDS, SCORE_BOUNDS = (0.85, 0.93), (0.85, 0.95)


def run(options: Options) -> Outcome:
    """Shares of hidden entries, loadings and scores that lie in their intervals."""
    entries, loadings = _run_entries(options), _run_loadings(options)
    return Outcome([*entries.tables, *loadings.tables], [*entries.targets, *loadings.targets])


def _run_loadings(options: Options) -> Outcome:
    cells = Cells("sepca_coverage loadings", options)
    rows, targets = [], []
    for family in STRENGTHS:
        for n in N_ROWS[:1] if options.quick else N_ROWS:
            count = 3 if options.quick else N_LOADING_TABLES
            answers = cells.get(cover_loadings, (family, n), count)
            found = np.array([each for each in answers if each is not None]).reshape(-1, 2)
            covered, scores = found.mean(axis=0)
            n_intervals = 2 * N_COLUMNS * len(found)
            rows.append((family, n, len(found), count, n_intervals, covered, scores))
            if not options.quick:
                targets += _within(f"{family}, n = {n}: loadings", covered, LOADING_BOUNDS)
                targets += _within(f"{family}, n = {n}: scores", scores, SCORE_BOUNDS)
                targets.append(Target(f"{family}, n = {n}: intervals", float(n_intervals), ">=", 3000.0))
    head = (
        "family",
        "n",
        "tables of the right dimension",
        "of",
        "intervals",
        "loadings covered",
        "scores covered",
    )
    return Outcome([Table("90 % intervals of loadings and scores, truth q = 2", head, rows)], targets)


def _within(name: str, value: float, bounds: tuple[float, float]) -> list[Target]:
    return [Target(name, float(value), ">=", bounds[0]), Target(name, float(value), "<=", bounds[1])]


def cover_loadings(family: str, n: int, seed: int) -> tuple[float, float] | None:
    """Shares of loadings and of scores covered in one table; ``None`` if the dimension is another one."""
    rng = np.random.default_rng([seed, n, list(STRENGTHS).index(family)])
    intercept, strengths = STRENGTHS[family]
    loadings, z = rng.normal(size=(N_COLUMNS, RANK)) * strengths, rng.normal(size=(n, RANK))
    eta = intercept + z @ loadings.T
    X = OBSERVE[family](rng, eta)
    model = fit_quietly(SePCA(_MAX_COMPONENTS, family=family, n_jobs=1), X)
    if model.n_components_ != RANK:
        return None
    unit = np.sqrt(model.dispersion_) if family == "gaussian" else np.ones(N_COLUMNS)
    basis = np.linalg.svd(loadings / unit[:, None], full_matrices=False)[2].T
    truth = paired((loadings @ basis).T, model.components_)
    half = scipy.stats.norm.ppf(0.5 + LEVEL / 2.0)
    inside = np.abs(model.components_ - truth) < half * model.components_std_
    scores, std = model.transform(X, return_std=True)
    known = np.abs(scores - sample_scores(eta / unit, model.components_ / unit)) < half * std
    return float(inside.mean()), float(known.mean())


def paired(truth: np.ndarray, found: np.ndarray) -> np.ndarray:
    """True components, (q, p), in the order and with the signs of those that were found.

    Models report in the order of explained deviance, which near components need not have by their sizes.
    """
    products = truth @ found.T
    order = scipy.optimize.linear_sum_assignment(-np.abs(products.T))[1]
    return truth[order] * np.sign(products[order, np.arange(len(found))])[:, None]


def sample_scores(eta: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Scores of these predictors as models report them: centred, of unit variance, their signs those of directions."""
    _, sizes, right = np.linalg.svd(eta - eta.mean(axis=0), full_matrices=False)
    right = paired(sizes[:RANK, None] * right[:RANK], directions)
    return np.sqrt(len(eta)) * (eta - eta.mean(axis=0)) @ (right / (right**2).sum(axis=1, keepdims=True)).T


#: How tables are drawn from their predictors, by family.
OBSERVE: Mapping[str, Callable[[np.random.Generator, np.ndarray], np.ndarray]] = {
    "gaussian": lambda rng, eta: eta + rng.normal(size=eta.shape),
    "poisson": lambda rng, eta: rng.poisson(np.exp(eta)).astype(float),
    "bernoulli": lambda rng, eta: (rng.random(eta.shape) < expit(eta)).astype(float),
}


def _run_entries(options: Options) -> Outcome:
    n_runs = {"vb": 50, "hmc": 5}
    if options.quick or options.n_runs:
        n_runs = {"vb": options.n_runs or 4}
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
            low, high = QUICK_BOUNDS if options.quick else BOUNDS[method]
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


if __name__ == "__main__":
    raise SystemExit(run_module(__name__))

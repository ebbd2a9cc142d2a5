"""Exact posterior means of small tables, whose rows are independent given few unknowns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, gammaln
from scipy.stats import norm

#: Log-likelihood of an entry with predictor eta, and its mean; noise has variance 1.
FAMILIES = {
    "gaussian": (lambda x, eta: norm.logpdf(x, eta), lambda eta: eta),
    "bernoulli": (lambda x, eta: x * eta - np.logaddexp(0.0, eta), expit),
    # Beyond predictors of 30 nothing is likely, and the exponential overflows.
    "poisson": (
        lambda x, eta: x * eta - np.exp(np.minimum(eta, 30.0)) - gammaln(x + 1.0),
        lambda eta: np.exp(np.minimum(eta, 30.0)),
    ),
    "exponential": (
        lambda x, eta: -x * np.exp(-np.maximum(eta, -30.0)) - eta,
        lambda eta: np.exp(np.minimum(eta, 30.0)),
    ),
}


class Grid(NamedTuple):
    """Nodes of what all rows share (A), and of what each row has of its own (E)."""

    weight: np.ndarray  # of shape (A,)
    eta: np.ndarray  # of shape (A, E, n_features)
    row_weight: np.ndarray  # of shape (A, E)


def normal_nodes(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights of the standard normal distribution."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n)
    return nodes, weights / weights.sum()


def quantile_nodes(distribution: Any, n: int) -> np.ndarray:
    """Return n equally likely values of a distribution of scipy."""
    return np.asarray(distribution.ppf((np.arange(n) + 0.5) / n))


def small_table(family: str, rng: np.random.Generator, p: int = 2) -> np.ndarray:
    """Draw four rows of a family."""
    X = rng.normal(0.0, 1.5, (4, p))
    return {
        "gaussian": X,
        "bernoulli": (X > 0.0).astype(float),
        "poisson": np.floor(np.abs(X)),
        "exponential": 0.1 + np.abs(X),
    }[family]


def solve(X: np.ndarray, family: str, grid: Grid, new: np.ndarray | None = None) -> tuple[np.ndarray, Any]:
    """Return posterior means of the entries' expectations, and the probabilities of new rows."""
    log_likelihood, mean = FAMILIES[family]
    log_weight, expectations = np.log(grid.weight), []

    def row(x: np.ndarray) -> np.ndarray:
        return np.asarray(grid.row_weight * np.exp(log_likelihood(x, grid.eta).sum(axis=-1)))

    for x in X:
        height = row(x)
        total = np.maximum(height.sum(axis=1), 1e-300)
        expectations.append(np.einsum("ae,aep->ap", height, mean(grid.eta)) / total[:, None])
        log_weight = log_weight + np.log(total)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    means = np.array([weight @ found for found in expectations])
    return means, None if new is None else np.array([weight @ row(x).sum(axis=1) for x in new])


def assert_drawn_means(model: Any, expected: np.ndarray) -> None:
    """Assert that the means of the draws of all entries are those expected, within Monte Carlo error."""
    draws = model.posterior_.posterior["expected"].values
    error = draws.std(axis=(0, 1)) / np.sqrt(model.ess_["expected"])
    distance = np.abs(draws.mean(axis=(0, 1)) - expected.ravel())
    # Effective sizes of some hundred draws are known to a quarter.
    assert (distance < 6.0 * error).all()

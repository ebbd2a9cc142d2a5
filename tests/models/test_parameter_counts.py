"""Numbers of free parameters: as many as there are directions in which the density of a row can change.

That number is the rank of a Jacobian of what the density depends on (means, covariances, noise, breakpoints) with
respect to all parameters. Rotations of the latent space change no density and so do not count.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.draws import generator

from anypca import EPCA, PLNPCA, PPCA, PiecewisePCA
from anypca.selection import select_rank

pytestmark = pytest.mark.filterwarnings("ignore::anypca.exceptions.ConvergenceWarning")

# With so many columns p (p + 1) / 2 covariances determine all loadings of up to 4 components.
P = 7


def n_directions(function: Callable[[np.ndarray], np.ndarray], n_parameters: int) -> int:
    """Return the rank of the Jacobian of a smooth function at a random point, by central differences."""
    point, steps = generator("point").normal(size=n_parameters), 1e-5 * np.eye(n_parameters)
    jacobian = [(function(point + step) - function(point - step)) / 2e-5 for step in steps]
    return int(np.linalg.matrix_rank(np.array(jacobian), tol=1e-6))


def normal_table(n: int = 40) -> np.ndarray:
    rng = generator("normal table")
    return rng.normal(size=(n, 4)) @ rng.normal(size=(4, P)) + 0.5 * rng.normal(size=(n, P))


def count_table(n: int = 40) -> np.ndarray:
    return generator("count table").poisson(np.exp(1.5 + 0.3 * normal_table(n))).astype(float)


def gaussian_density(parameters: np.ndarray, k: int, *, noise: bool = True) -> np.ndarray:
    """Return mean and covariance of probabilistic PCA."""
    W = parameters[P : P + P * k].reshape(P, k)
    return np.concatenate(
        [parameters[:P], (W @ W.T + (parameters[-1] if noise else 0.0) * np.eye(P)).ravel()]
    )


def pieces_density(parameters: np.ndarray, coupling: str, q: int, n_pieces: int, noise: bool) -> np.ndarray:
    """Return what ``N(mean_k + slope_k t, C_k C_k' + noise I)`` depends on in the slabs of t."""
    shared, own = np.split(parameters[: len(parameters) - noise], [0 if coupling == "free" else P * (q - 1)])
    others = np.broadcast_to(shared.reshape(-1, P, q - 1), (n_pieces, P, q - 1)) if shared.size else None
    if coupling == "free":
        maps = own.reshape(n_pieces, P, q + 1)
        slopes, means, others = maps[:, :, 0], maps[:, :, 1], maps[:, :, 2:]
    elif coupling == "shared":
        slopes, means = own.reshape(2, n_pieces, P)
    else:  # one line, and a change of slope at each hinge, wherever the hinges lie
        line, start, *changes = own.reshape(n_pieces + 1, P)
        bends = np.cumsum([np.zeros(P), *changes], axis=0)
        shifts = np.cumsum([np.zeros(P), *(c * hinge for hinge, c in enumerate(changes, 1))], axis=0)
        slopes, means = line + bends, start - shifts
    covariances = 0.0 if others is None else others @ np.swapaxes(others, 1, 2)
    covariances = covariances + (parameters[-1] if noise else 0.0) * np.eye(P)
    return np.concatenate([slopes.ravel(), means.ravel(), np.ravel(covariances)])


def n_of_pieces(coupling: str, q: int, n_pieces: int, *, noise: bool) -> int:
    size = {"free": n_pieces * (q + 1), "shared": q - 1 + 2 * n_pieces, "continuous": q + n_pieces}[coupling]
    return n_directions(lambda x: pieces_density(x, coupling, q, n_pieces, noise), P * size + noise)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_gaussian_models(k: int) -> None:
    expected = n_directions(lambda x: gaussian_density(x, k), P + P * k + 1)
    table = select_rank(PPCA(n_jobs=1), normal_table(), ranks=[k], criterion="aic").rows[0]
    assert table["n_parameters"] == expected
    np.testing.assert_allclose(table["aic"] + 2 * table["log_likelihood"], 2 * expected)
    np.testing.assert_allclose(table["bic"] + 2 * table["log_likelihood"], np.log(40) * expected)
    assert PiecewisePCA(k, n_pieces=1, tol=10.0, n_jobs=1).fit(normal_table()).n_parameters_ == expected


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("n_covariates", [0, 2])
def test_plnpca(k: int, n_covariates: int) -> None:
    covariates = generator("covariates").normal(size=(40, n_covariates)) if n_covariates else None
    model = PLNPCA(k, max_iter=2, n_jobs=1).fit(count_table(), covariates=covariates)
    expected = n_directions(lambda x: gaussian_density(x, k, noise=False), P + P * k) + P * n_covariates
    assert model.n_parameters_ == expected
    np.testing.assert_allclose(model.bic_ - model.aic_, (np.log(40) - 2) * expected)


@pytest.mark.parametrize("k", [1, 3])
def test_epca_with_scores_as_parameters(k: int) -> None:
    """The predictor of all entries is a matrix of rank k and a row of intercepts."""
    table = select_rank(EPCA(family="poisson", n_jobs=1), count_table(12), ranks=[k], criterion="aic").rows[0]

    def predictor(parameters: np.ndarray) -> np.ndarray:
        scores, loadings, intercept = np.split(parameters, [12 * k, 12 * k + P * k])
        return (scores.reshape(12, k) @ loadings.reshape(k, P) + intercept).ravel()

    assert table["n_parameters"] == n_directions(predictor, 12 * k + P * k + P)


@pytest.mark.parametrize("coupling", ["continuous", "shared", "free"])
@pytest.mark.parametrize(("q", "n_pieces"), [(1, 2), (3, 2), (4, 3)], ids=str)
def test_pieces(coupling: str, q: int, n_pieces: int) -> None:
    """Breakpoints that are fitted count, and a noise variance that a model has."""
    options = {"n_pieces": n_pieces, "coupling": coupling, "n_init": 1, "tol": 10.0, "n_jobs": 1}
    expected, X = n_of_pieces(coupling, q, n_pieces, noise=True), normal_table(80)
    for breakpoints, more in (("quantile", 0), ("fit", n_pieces - 1)):
        model = PiecewisePCA(q, breakpoints=breakpoints, **options).fit(X)
        assert model.n_parameters_ == expected + more
        np.testing.assert_allclose(model.bic_ - model.aic_, (np.log(80) - 2) * (expected + more))
    if q == 3:
        counts = PiecewisePCA(q, family="poisson", **options).fit(count_table(80))
        assert counts.n_parameters_ == n_of_pieces(coupling, q, n_pieces, noise=False)

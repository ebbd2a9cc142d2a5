"""Numbers of free parameters: as many as there are directions in which the density of a row can change.

That number is the rank of a Jacobian of what the density depends on (means, covariances, noise, breakpoints) with
respect to all parameters. Rotations of the latent space change no density and so do not count.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.draws import generator

from anypca import PLNPCA, PPCA, PiecewisePCA
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


@pytest.mark.parametrize(
    ("coupling", "expected"),
    [("continuous", (22, 35, 47, 34)), ("shared", (29, 42, 61, 41)), ("free", (29, 55, 97, 54))],
)
def test_pieces(coupling: str, expected: tuple[int, ...]) -> None:
    """Ranks of the Jacobians of slopes, means and covariances of all pieces, which do not depend on the table."""
    options = {"coupling": coupling, "n_init": 1, "tol": 10.0, "n_jobs": 1}
    for (q, n_pieces), number in zip(((1, 2), (3, 2), (4, 3)), expected, strict=False):
        for breakpoints, more in (("quantile", 0), ("fit", n_pieces - 1)):
            model = PiecewisePCA(q, n_pieces=n_pieces, breakpoints=breakpoints, **options).fit(
                normal_table(80)
            )
            assert model.n_parameters_ == number + more
    counts = PiecewisePCA(3, family="poisson", **options).fit(count_table(80))
    assert counts.n_parameters_ == expected[-1]

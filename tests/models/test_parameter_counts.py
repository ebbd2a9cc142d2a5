"""Numbers of free parameters: as many as there are directions in which what a model says of rows can change.

That number is the rank of a Jacobian, here of what the density of a row depends on (means, covariances, noise,
breakpoints) with respect to all parameters. Rotations of the latent space change no density and so do not count.
"""

from __future__ import annotations

import numpy as np
import pytest

from anypca import EPCA, PLNPCA, PPCA, PiecewisePCA
from anypca.selection import select_rank

pytestmark = pytest.mark.filterwarnings("ignore::anypca.exceptions.ConvergenceWarning")

# With so many columns p (p + 1) / 2 covariances tell all loadings of up to 4 components apart.
P = 7
LATENT = [1, 2, 3, 4]


def n_directions(function, n_parameters):
    """Rank of the Jacobian of ``function`` at a random point, by central differences of a smooth function."""
    point, h = np.random.default_rng(0).normal(size=n_parameters), 1e-5
    steps = h * np.eye(n_parameters)
    jacobian = [(function(point + step) - function(point - step)) / (2 * h) for step in steps]
    return int(np.linalg.matrix_rank(np.array(jacobian), tol=1e-6))


def normal_table(n=40):
    rng = np.random.default_rng(1)
    return rng.normal(size=(n, 4)) @ rng.normal(size=(4, P)) + 0.5 * rng.normal(size=(n, P))


def count_table(n=40):
    return np.random.default_rng(2).poisson(np.exp(1.5 + 0.3 * normal_table(n)))


def gaussian_density(parameters, k):
    """Mean and covariance of probabilistic PCA."""
    mean, loadings, noise = np.split(parameters, [P, P + P * k])
    W = loadings.reshape(P, k)
    return np.concatenate([mean, (W @ W.T + noise * np.eye(P)).ravel()])


def pieces_of(coupling, parameters, q, n_pieces):
    """Slopes along t, means and other loadings of each piece: (K, P), (K, P), (K, P, q - 1)."""
    if coupling == "free":
        maps = parameters.reshape(n_pieces, P, q + 1)
        return maps[:, :, 0], maps[:, :, 1], maps[:, :, 2:]
    shared = np.broadcast_to(parameters[: P * (q - 1)].reshape(P, q - 1), (n_pieces, P, q - 1))
    own = parameters[P * (q - 1) :]
    if coupling == "shared":
        slopes, means = own.reshape(2, n_pieces, P)
        return slopes, means, shared
    # One line, and a change of slope at each hinge; where hinges lie does not change the number of directions.
    line, start, *changes = own.reshape(n_pieces + 1, P)
    hinges = np.arange(1.0, n_pieces)
    slopes = np.array([line + sum(changes[:k]) for k in range(n_pieces)])
    means = np.array(
        [
            start - sum(c * hinge for c, hinge in zip(changes[:k], hinges, strict=False))
            for k in range(n_pieces)
        ]
    )
    return slopes, means, shared


def n_of_pieces(coupling, q, n_pieces, *, has_noise, fits_breakpoints):
    """Directions of ``N(mean_k + slope_k t, C_k C_k' + noise I)`` in the slabs of t, and of their edges."""
    size = {"free": n_pieces * (q + 1), "shared": q - 1 + 2 * n_pieces, "continuous": q + n_pieces}[coupling]

    def density(parameters):
        slopes, means, others = pieces_of(coupling, parameters[: P * size], q, n_pieces)
        noise = parameters[-1] if has_noise else 0.0
        covariances = others @ np.swapaxes(others, 1, 2) + noise * np.eye(P)
        return np.concatenate([slopes.ravel(), means.ravel(), covariances.ravel()])

    return n_directions(density, P * size + has_noise) + (n_pieces - 1) * fits_breakpoints


@pytest.mark.parametrize("k", LATENT)
def test_ppca(k):
    table = select_rank(PPCA(n_jobs=1), normal_table(), ranks=[k], criterion="aic").rows[0]
    assert table["n_parameters"] == n_directions(lambda x: gaussian_density(x, k), P + P * k + 1)
    penalty = table["aic"] + 2 * table["log_likelihood"]
    np.testing.assert_allclose(penalty, 2 * table["n_parameters"])
    np.testing.assert_allclose(table["bic"] + 2 * table["log_likelihood"], np.log(40) * table["n_parameters"])


@pytest.mark.parametrize("k", LATENT)
@pytest.mark.parametrize("n_covariates", [0, 2])
def test_plnpca(k, n_covariates):
    """Coefficients of the fixed features, and the covariance of the log rates."""
    covariates = np.random.default_rng(3).normal(size=(40, n_covariates)) if n_covariates else None
    model = PLNPCA(k, max_iter=2, n_jobs=1).fit(count_table(), covariates=covariates)
    n_fixed = P * (1 + n_covariates)

    def density(parameters):
        W = parameters[n_fixed:].reshape(P, k)
        return np.concatenate([parameters[:n_fixed], (W @ W.T).ravel()])

    assert model.n_parameters_ == n_directions(density, n_fixed + P * k)
    gap = model.bic_ - model.aic_
    np.testing.assert_allclose(gap, (np.log(40) - 2) * model.n_parameters_)


@pytest.mark.parametrize("k", [1, 3])
def test_epca_with_scores_as_parameters(k):
    """The predictor of all entries: a matrix of rank k and a row of intercepts."""
    table = select_rank(EPCA(family="poisson", n_jobs=1), count_table(12), ranks=[k], criterion="aic").rows[0]

    def predictor(parameters):
        scores, loadings, intercept = np.split(parameters, [12 * k, 12 * k + P * k])
        return (scores.reshape(12, k) @ loadings.reshape(k, P) + intercept).ravel()

    assert table["n_parameters"] == n_directions(predictor, 12 * k + P * k + P)


@pytest.mark.parametrize("coupling", ["continuous", "shared", "free"])
@pytest.mark.parametrize(("q", "n_pieces"), [(1, 2), (3, 2), (4, 3)], ids=str)
@pytest.mark.parametrize("breakpoints", ["quantile", "fit"])
def test_gaussian_pieces(coupling, q, n_pieces, breakpoints):
    model = PiecewisePCA(
        q, n_pieces=n_pieces, coupling=coupling, breakpoints=breakpoints, n_init=1, tol=10.0, n_jobs=1
    ).fit(normal_table(80))
    expected = n_of_pieces(coupling, q, n_pieces, has_noise=True, fits_breakpoints=breakpoints == "fit")
    assert model.n_parameters_ == expected
    np.testing.assert_allclose(model.bic_ - model.aic_, (np.log(80) - 2) * expected)


@pytest.mark.parametrize("coupling", ["continuous", "shared", "free"])
def test_pieces_of_counts_have_no_noise_variance(coupling):
    model = PiecewisePCA(3, coupling=coupling, family="poisson", n_init=1, tol=10.0, n_jobs=1)
    expected = n_of_pieces(coupling, 3, 2, has_noise=False, fits_breakpoints=False)
    assert model.fit(count_table(80)).n_parameters_ == expected


@pytest.mark.parametrize("k", LATENT)
def test_one_piece_is_ppca(k):
    model = PiecewisePCA(k, n_pieces=1, tol=10.0, n_jobs=1).fit(normal_table())
    assert model.n_parameters_ == n_directions(lambda x: gaussian_density(x, k), P + P * k + 1)

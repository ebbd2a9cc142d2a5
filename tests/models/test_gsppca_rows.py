"""What a fitted globally sparse PCA says of rows: the answers of one multivariate normal distribution."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from anypca import GSPPCA
from anypca.engine import check_data
from anypca.models._session import open_session
from anypca.models.gsppca._noise import Moments
from anypca.models.gsppca._standardiser import make_standardiser
from anypca.models.gsppca._start import rotate_table, start_posterior

N, P, Q, D = 40, 12, 6, 2


def make_table(seed=0):
    """Rows of the model with six active columns in different units."""
    rng = np.random.default_rng(seed)
    loadings = rng.normal(size=(P, D)) * (np.arange(P) < Q)[:, None]
    X = rng.normal(size=(N, D)) @ loadings.T + 0.5 * rng.normal(size=(N, P)) + rng.normal(size=P)
    return X * np.geomspace(0.5, 2.0, P)


def eigenvalues(X):
    """Of the covariance with divisor n, decreasing."""
    return np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2 / len(X)


def ml_noise(X):
    """Mean of the p - d smallest eigenvalues."""
    return eigenvalues(X)[D:].sum() / (P - D)


def bc_noise(X):
    """The same plus its bias; the excess a of an eigenvalue l over the noise s solves l = (a + s)(1 + c s / a)."""
    s, c = ml_noise(X), P / len(X)
    a = np.array([np.roots([1.0, (1 + c) * s - value, c * s**2]).max() for value in eigenvalues(X)[:D]])
    bias = np.sqrt(c / 2) * (D + s * np.sum(1 / a))
    return s + bias * s * np.sqrt(2 * c) / (P - D)


@pytest.fixture(params=[False, True], ids=["as it is", "scaled"])
def model(request):
    return GSPPCA(D, n_features_to_select=Q, scale=request.param, tol=1e-2, n_jobs=1).fit(make_table())


def signal_covariance(model):
    """Of the predictor in the units of the table."""
    U = model.components_ * model.scale_
    excess = model.explained_variance_ - model.noise_variance_
    assert (excess > 0).all()
    return (U.T * excess) @ U


def noise_covariance(model):
    return np.diag(model.noise_variance_ * model.scale_**2)


@pytest.mark.parametrize("scale", [False, True], ids=["as it is", "scaled"])
@pytest.mark.parametrize("method", ["bc", "ml", "jl"])
def test_noise_is_estimated_as_asked_for(method, scale):
    X = make_table()
    seen = (X - X.mean(axis=0)) / X.std(axis=0) if scale else X
    expected = {"bc": bc_noise(seen), "ml": ml_noise(seen), "jl": np.median(seen.var(axis=0))}
    assert expected["bc"] > 1.05 * expected["ml"]  # they are far apart on this table
    model = GSPPCA(D, noise=method, scale=scale, tol=1e-1, n_jobs=1).fit(X)
    np.testing.assert_allclose(model.noise_variance_, expected[method], rtol=1e-9)


def test_the_em_starts_from_principal_components_at_the_corrected_noise():
    X = make_table()
    with open_session(check_data(X), 1) as session:
        table = make_standardiser(session.summary, float(N), scale=False)
        equivalent = rotate_table(session, table, D)
    moments = Moments(equivalent.values, X.var(axis=0), float(N))
    start = start_posterior(equivalent, moments, D)
    values, noise = eigenvalues(X), bc_noise(X)
    np.testing.assert_allclose(start.noise, noise, rtol=1e-9)
    np.testing.assert_allclose(np.sum(start.loadings**2, axis=0), values[:D] - noise, rtol=1e-9)
    np.testing.assert_allclose(start.prior_variance, X.var(axis=0).sum() / (P * D), rtol=1e-12)


def test_log_density(model):
    X = make_table(1)
    covariance = signal_covariance(model) + noise_covariance(model)
    expected = multivariate_normal(model.mean_, covariance).logpdf(X)
    np.testing.assert_allclose(model.score_samples(X), expected, rtol=1e-10)


def conditional(mean, signal, noise, x):
    """Mean and covariance of the predictor given the observed entries of a row."""
    seen = ~np.isnan(x)
    gain = np.linalg.solve((signal + noise)[np.ix_(seen, seen)], signal[seen]).T
    return mean + gain @ (x - mean)[seen], signal - gain @ signal[seen]


def test_missing_entries_are_those_of_the_conditional_normal(model):
    X = make_table(2)
    X[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    signal, noise = signal_covariance(model), noise_covariance(model)
    filled, std = model.impute(X, return_std=True)
    rows, columns = np.nonzero(np.isnan(X))
    mean, deviation = model.entry_posterior(X, rows, columns)
    for i, x in enumerate(X):
        expected, covariance = conditional(model.mean_, signal, noise, x)
        gone = np.isnan(x)
        np.testing.assert_allclose(filled[i], np.where(gone, expected, x), rtol=1e-9, atol=1e-9)
        variance = np.where(gone, np.diag(covariance) + np.diag(noise), 0.0)
        np.testing.assert_allclose(std[i], np.sqrt(variance), rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(mean[rows == i], expected[gone], rtol=1e-9, atol=1e-9)
        # Columns that were not selected have a predictor without variance.
        spread = np.sqrt(np.maximum(np.diag(covariance)[gone], 0.0))
        np.testing.assert_allclose(deviation[rows == i], spread, rtol=1e-7, atol=1e-7)
    np.testing.assert_array_equal(model.impute(X), filled)


def test_scores_are_projections_that_err_by_the_noise(model):
    """In units of the standardised table: x = U' t + e has the projection t + U e."""
    scores, std = model.transform(make_table(), return_std=True)
    standardised = (make_table() - model.mean_) / model.scale_
    np.testing.assert_allclose(scores, standardised @ model.components_.T, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(std, np.sqrt(model.noise_variance_), rtol=1e-12)
    rng = np.random.default_rng(4)
    t = rng.normal(size=(20_000, D)) * np.sqrt(model.explained_variance_ - model.noise_variance_)
    errors = rng.normal(size=(20_000, P)) * np.sqrt(model.noise_variance_)
    drawn = (t @ model.components_ + errors) * model.scale_ + model.mean_
    np.testing.assert_allclose((model.transform(drawn) - t).std(axis=0), std[0], rtol=0.03)


def test_draws_have_the_moments_of_the_model(model):
    drawn = model.sample(40_000, random_state=0)
    covariance = signal_covariance(model) + noise_covariance(model)
    size = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(drawn.mean(axis=0), model.mean_, atol=0.03 * size.max())
    np.testing.assert_allclose(
        np.cov(drawn.T) / np.outer(size, size), covariance / np.outer(size, size), atol=0.03
    )

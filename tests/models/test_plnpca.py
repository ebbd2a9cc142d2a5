"""PLNPCA: its variational bound and the maximum of it, what it reports, and paths over ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import gammaln
from scipy.stats import norm
from sklearn.linear_model import PoissonRegressor
from tests.draws import generator, seed
from tests.models.tables import is_monotone, punch

from anypca import PLNPCA

N, P = 60, 10
TIGHT: dict[str, Any] = {"tol": 1e-7, "max_iter": 5000, "n_jobs": 1}
# The objective of PLNmodels.
FREE: dict[str, Any] = {"ridge": 0.0, "coef_scale": None}
# Rounding may keep tight fits above tol, at the same optimum.
pytestmark = pytest.mark.filterwarnings("ignore:.* stalled:sklearn.exceptions.ConvergenceWarning")


def draw(*key: Any, n: int = N, p: int = P) -> tuple[np.ndarray, dict[str, Any]]:
    """Counts of rank two, and their offset by row and covariate."""
    rng = generator("counts of rank two", *key)
    offset, covariate = 0.7 * rng.normal(size=n), rng.normal(size=(n, 1))
    loadings, slope = 0.6 * rng.normal(size=(2, p)), 0.4 * rng.normal(size=(1, p))
    z = offset[:, None] + 1.0 + covariate @ slope + rng.normal(size=(n, 2)) @ loadings
    return rng.poisson(np.exp(z)), {"offset": offset, "covariates": covariate}


X, COMPANIONS = draw()


@pytest.fixture(scope="module")
def model() -> PLNPCA:
    return PLNPCA(2, **TIGHT, **FREE).fit(X, **COMPANIONS)


@pytest.mark.parametrize(("ridge", "coef_scale"), [(0.0, 0.0), (0.0, np.inf), (0.7, 0.2)])
def test_the_bound_is_at_its_maximum(ridge: float, coef_scale: float) -> None:
    """With a ridge of 0 and no prior on coefficients it is the objective of PLNmodels."""
    model = PLNPCA(2, ridge=ridge, coef_scale=coef_scale, **TIGHT).fit(X, **COMPANIONS)
    k, design = 2, np.column_stack([np.ones(N), COMPANIONS["covariates"]])
    on_coef = (COMPANIONS["covariates"].std() / coef_scale) ** 2 if coef_scale else 0.0
    on_columns = np.array([ridge, ridge, 0.0, on_coef])

    def minus(vector: np.ndarray) -> tuple[float, np.ndarray]:
        rows, columns = vector[: 2 * N * k].reshape(2, N, k), vector[2 * N * k :].reshape(P, k + 2)
        (m, log_s), c, b = rows, columns[:, :k], columns[:, k:]
        s = np.exp(log_s)
        z = COMPANIONS["offset"][:, None] + design @ b.T + m @ c.T
        rates = np.exp(np.minimum(z + 0.5 * s @ (c**2).T, 50.0))
        value = (X * z - rates - gammaln(X + 1)).sum() - 0.5 * (m**2 + s - log_s - 1).sum()
        value -= 0.5 * (on_columns * columns**2).sum()
        gap = X - rates
        on_rows = np.stack([gap @ c - m, 0.5 * (1 - s * (1 + rates @ c**2))])
        slope = np.hstack([gap.T @ m - (rates.T @ s) * c, gap.T @ design]) - on_columns * columns
        return -value, -np.concatenate([on_rows.ravel(), slope.ravel()])

    start = 0.3 * generator("start").normal(size=2 * N * k + P * (k + 2))
    found = minimize(minus, start, jac=True, method="L-BFGS-B", options={"maxiter": 3000, "maxfun": 5000})
    np.testing.assert_allclose(model.objective_trace_[-1], -found.fun, atol=0.5)


def fixed_predictor(model: PLNPCA, given: dict[str, Any]) -> np.ndarray:
    return given["offset"][:, None] + model.intercept_ + given["covariates"] @ model.coef_.T


@pytest.mark.parametrize("missing", [0.0, 0.15], ids=["complete", "missing"])
def test_the_bound_of_one_component_by_its_definition(missing: float, rng: np.random.Generator) -> None:
    """Equal to quadrature under the posterior, below the likelihood, stationary in its variances and intercepts."""
    counts = punch(X.astype(float), missing, rng) if missing else X.astype(float)
    model = PLNPCA(1, **TIGHT, **FREE).fit(counts, **COMPANIONS)
    size = np.sqrt(np.trace(model.latent_covariance_))
    loadings = size * model.components_[0]
    np.testing.assert_allclose(model.latent_covariance_, np.outer(loadings, loadings), rtol=1e-4, atol=1e-6)
    scores, std = (part[:, 0] / size for part in model.transform(counts, return_std=True, **COMPANIONS))
    seen, x = ~np.isnan(counts), np.nan_to_num(counts)
    base = fixed_predictor(model, COMPANIONS)
    rates = np.exp(base + np.outer(scores, loadings) + 0.5 * np.outer(std**2, loadings**2)) * seen
    np.testing.assert_allclose(std**2, 1.0 / (1.0 + rates @ loadings**2), rtol=1e-4)
    np.testing.assert_allclose(scores, (x - rates) @ loadings, rtol=0, atol=1e-3)
    np.testing.assert_allclose(rates.sum(axis=0), x.sum(axis=0), rtol=1e-4)
    gap = (x - rates).T @ scores - rates.T @ std**2 * loadings
    np.testing.assert_allclose(gap, 0.0, atol=1e-3 * x.sum())
    np.testing.assert_allclose(np.mean(scores**2 + std**2), 1.0, rtol=1e-4)
    np.testing.assert_allclose(model.entropy_, norm.entropy(0, std).sum(), rtol=1e-4)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    w = scores[:, None] + std[:, None] * nodes
    eta = base[:, None] + w[:, :, None] * loadings
    terms = (x[:, None] * eta - np.exp(eta) - gammaln(x[:, None] + 1)) * seen[:, None]
    joint = terms.sum(axis=2) + norm.logpdf(w)
    log_ratio = joint - norm.logpdf(w, scores[:, None], std[:, None])
    bound = log_ratio @ weights / weights.sum()
    found = model.score_samples(counts, **COMPANIONS)
    np.testing.assert_allclose(found, bound, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.sum(), model.objective_trace_[-1], rtol=1e-9)
    likelihood = np.logaddexp.reduce(log_ratio + np.log(weights / weights.sum()), axis=1)
    assert np.all(found <= likelihood + 1e-9)


def test_components_are_the_svd_of_the_predictor(model: PLNPCA) -> None:
    scores = model.transform(X, **COMPANIONS)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(scores.mean(axis=0), 0.0, atol=1e-4)
    np.testing.assert_allclose(np.cov(scores.T, bias=True), np.diag(model.explained_variance_), atol=1e-3)
    values, vectors = np.linalg.eigh(model.latent_covariance_)
    assert np.all(np.abs(values[:-2]) < 1e-8 * values[-1])
    np.testing.assert_allclose(
        vectors[:, -2:] @ vectors[:, -2:].T, model.components_.T @ model.components_, atol=1e-8
    )


def test_criteria(model: PLNPCA) -> None:
    bound, n_parameters = model.objective_trace_[-1], P * (2 + 2) - 1
    assert model.n_parameters_ == n_parameters
    np.testing.assert_allclose(model.bic_, -2 * bound + n_parameters * np.log(N))
    np.testing.assert_allclose(model.aic_, -2 * bound + 2 * n_parameters)
    np.testing.assert_allclose(model.icl_, model.bic_ + 2 * model.entropy_)
    weights = np.tile([1.0, 2.0, 0.0], N // 3)
    rows = np.repeat(np.arange(N), weights.astype(int))
    weighted = PLNPCA(2, **TIGHT, **FREE).fit(X, **COMPANIONS, sample_weight=weights)
    twice = PLNPCA(2, **TIGHT, **FREE).fit(
        X[rows], **{name: value[rows] for name, value in COMPANIONS.items()}
    )
    np.testing.assert_allclose([weighted.bic_, weighted.icl_], [twice.bic_, twice.icl_], rtol=1e-6)


def test_pseudo_r2_compares_with_regressions(model: PLNPCA) -> None:
    means = model.inverse_transform(model.transform(X, **COMPANIONS), **COMPANIONS)
    effort, covariates = np.exp(COMPANIONS["offset"]), COMPANIONS["covariates"]
    null = np.empty(X.shape)
    for j in range(P):
        # Rates with weights are counts with offsets.
        fit = PoissonRegressor(alpha=0.0, tol=1e-10, max_iter=1000)
        null[:, j] = effort * fit.fit(covariates, X[:, j] / effort, effort).predict(covariates)

    def likelihood(mu: np.ndarray) -> float:
        return float((X * np.log(np.where(X > 0, mu, 1.0)) - mu).sum())

    least, most = likelihood(null), likelihood(X.astype(float))
    np.testing.assert_allclose(model.pseudo_r2_, (likelihood(means) - least) / (most - least), atol=1e-5)
    np.testing.assert_allclose(model.percent_variance_.sum(), 100 * model.pseudo_r2_)
    np.testing.assert_allclose(model.explained_deviance_ratio_, model.percent_variance_ / 100)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_dependent_covariates_warn_and_change_nothing(fit_intercept: bool) -> None:
    base = COMPANIONS["covariates"]
    extra = [np.ones(N), 2 * base + 1] if fit_intercept else [-3 * base]
    plain = PLNPCA(1, fit_intercept=fit_intercept, **TIGHT).fit(X, covariates=base)
    model = PLNPCA(1, fit_intercept=fit_intercept, **TIGHT)
    with pytest.warns(UserWarning, match="linear combinations") as found:
        model.fit(X, covariates=np.column_stack([base, *extra]))
    assert found[0].filename == __file__
    np.testing.assert_allclose(model.objective_trace_[-1], plain.objective_trace_[-1], rtol=1e-9)
    np.testing.assert_allclose(model.components_, plain.components_, atol=1e-5)
    np.testing.assert_array_equal(model.coef_[:, 1:], 0.0)
    assert model.n_parameters_ == plain.n_parameters_


def test_a_path_over_ranks() -> None:
    counts, companions = draw("path", n=120, p=12)
    path = PLNPCA(n_jobs=1).path(counts, [3, 1, 2, 2], **companions)
    np.testing.assert_array_equal(path.ranks, [1, 2, 3])
    assert np.diff(path.log_likelihood).min() > 0
    assert np.diff(path.r2).min() > 0
    assert path.select_rank("bic") == path.ranks[np.argmin(path.bic)]
    best = path.best("bic")
    assert best.n_components == best.n_components_ == path.select_rank("bic")
    alone = PLNPCA(2, n_jobs=1).fit(counts, **companions)
    np.testing.assert_allclose(path.models[1].objective_trace_[-1], alone.objective_trace_[-1], atol=0.5)
    np.testing.assert_allclose(path.bic.min(), best.bic_)
    assert set(path.as_dict()) == {"ranks", "log_likelihood", "n_parameters", "bic", "icl", "aic", "r2"}


def test_samples_have_the_moments_of_the_model(rng: np.random.Generator) -> None:
    """Rates are log-normal with the reported covariance; the model has fewer rows than its moments need."""
    loadings = 0.3 * rng.normal(size=(2, 5))
    model = PLNPCA(2, n_jobs=1).fit(rng.poisson(np.exp(1.0 + rng.normal(size=(80, 2)) @ loadings)))
    n, covariance = 100_000, model.latent_covariance_
    drawn = model.sample(n, random_state=seed())
    mean = np.exp(model.intercept_ + 0.5 * np.diag(covariance))
    expected = np.outer(mean, mean) * np.expm1(covariance) + np.diag(mean)
    size = np.sqrt(np.diag(expected))
    assert np.abs((drawn.mean(axis=0) - mean) / size).max() < 6 / np.sqrt(n)
    # Counts have heavier tails than normal draws.
    np.testing.assert_allclose(
        np.cov(drawn.T) / np.outer(size, size), expected / np.outer(size, size), atol=0.06
    )
    assert model.sample(3, random_state=1).shape == (3, 5)


def test_the_truth_is_recovered(rng: np.random.Generator) -> None:
    loadings = np.linalg.qr(rng.normal(size=(20, 2)))[0] * [4.0, 2.0]
    counts = rng.poisson(np.exp(2.0 + rng.normal(size=(500, 2)) @ loadings.T))
    model = PLNPCA(2, n_jobs=1).fit(counts)
    cosines = np.abs(np.sum(model.components_.T * loadings / [4.0, 2.0], axis=0))
    assert cosines.min() > 0.95
    # Of variances of 500 normal draws a standard error is 6 %.
    np.testing.assert_allclose(model.explained_variance_, [16.0, 4.0], rtol=0.35)


HARD = {
    "zero column": np.column_stack([X, np.zeros(N)]),
    "zero row": np.vstack([X, np.zeros((1, P))]),
    "huge counts": X * 10**6,
    "one column": X[:, :1],
    "constant": np.full((10, 4), 7),
    "all zero but one": np.eye(6)[:, :3] * [1, 0, 0] + [[0, 0, 0]] * 6,
    "fewer rows than columns": X[:4],
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("counts", HARD.values(), ids=HARD.keys())
def test_hard_tables_stay_finite(counts: np.ndarray) -> None:
    model = PLNPCA(1, n_jobs=1, max_iter=300).fit(counts)
    assert is_monotone(model.objective_trace_)
    assert np.isfinite(model.transform(counts)).all()
    assert np.isfinite(model.components_).all()
    assert model.pseudo_r2_ <= 1.0


BAD = {
    "too many components": (lambda: PLNPCA(11).fit(X), "Choose at most 10"),
    "empty ranks": (lambda: PLNPCA().path(X, []), "ranks is empty"),
    "large rank": (lambda: PLNPCA().path(X, [1, 99]), "from 1 to min"),
    "fraction of a rank": (lambda: PLNPCA().path(X, [1.5]), "integers"),
    "unknown criterion": (lambda: PLNPCA(n_jobs=1).path(X, [1]).best("waic"), "'bic', 'icl', 'aic'"),
}


@pytest.mark.parametrize(("call", "message"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_named(call: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        call()

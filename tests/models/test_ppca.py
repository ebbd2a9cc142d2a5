"""PPCA: scikit-learn's PCA on complete tables, the likelihood of the observed entries, and the laws of one normal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.decomposition import PCA
from tests.draws import seed
from tests.models.tables import assert_moments, draw_real, is_monotone, punch

from anypca import PPCA

K = 3
SHAPES = {"tall": (200, 12), "wide": (25, 60), "square": (20, 20)}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("n_components", [1, 3, 8])
def test_equals_scikit_learn(shape: tuple[int, int], n_components: int, rng: np.random.Generator) -> None:
    X = draw_real(rng, *shape)
    model, pca = PPCA(n_components).fit(X), PCA(n_components, svd_solver="full").fit(X)
    for name in ("mean_", "noise_variance_", "explained_variance_", "explained_variance_ratio_"):
        np.testing.assert_allclose(getattr(model, name), getattr(pca, name), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(model.score_samples(X), pca.score_samples(X), rtol=1e-8)
    np.testing.assert_allclose(model.get_covariance(), pca.get_covariance(), atol=1e-8)
    np.testing.assert_allclose(model.get_precision(), pca.get_precision(), atol=1e-8)
    np.testing.assert_allclose(
        model.components_.T @ model.components_, pca.components_.T @ pca.components_, atol=1e-8
    )
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(n_components), atol=1e-12)
    np.testing.assert_array_equal(model.intercept_, model.mean_)


@pytest.mark.parametrize("n_components", [0.5, 0.9, 0.99, "mle"])
def test_chooses_as_many_components_as_scikit_learn(n_components: Any, rng: np.random.Generator) -> None:
    X = draw_real(rng, 300, 15)
    pca = PCA(n_components, svd_solver="full").fit(X)
    model = PPCA(n_components).fit(X)
    assert model.n_components_ == pca.n_components_
    np.testing.assert_allclose(model.noise_variance_, pca.noise_variance_, rtol=1e-8)
    if n_components != "mle":
        missing = PPCA(n_components, tol=1e-3).fit(punch(X, 0.01, rng))
        assert abs(missing.n_components_ - model.n_components_) <= 1


def test_full_rank_reproduces_the_sample_covariance(rng: np.random.Generator) -> None:
    X = draw_real(rng, 100, 6)
    model = PPCA(6).fit(X)
    np.testing.assert_allclose(model.get_covariance(), np.cov(X.T), rtol=1e-9, atol=1e-9)
    expected = multivariate_normal(X.mean(axis=0), np.cov(X.T)).logpdf(X)
    np.testing.assert_allclose(model.score_samples(X), expected, rtol=1e-8)


# The fit


def observed_likelihood(X: np.ndarray, mean: np.ndarray, loadings: np.ndarray, noise: float) -> float:
    """Log-likelihood of the observed entries of rows N(mean, loadings loadings' + noise I)."""
    covariance = loadings @ loadings.T + noise * np.eye(len(mean))
    total = 0.0
    for x in X:
        seen = ~np.isnan(x)
        gap, part = (x - mean)[seen], covariance[np.ix_(seen, seen)]
        total -= 0.5 * (gap @ np.linalg.solve(part, gap) + np.linalg.slogdet(2 * np.pi * part)[1])
    return total


def maximum_likelihood(model: PPCA, n: int, p: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean, loadings and noise with the divisors of the likelihood."""
    share = (n - 1) / n
    signal = (model.explained_variance_ - model.noise_variance_) * share
    k = model.n_components_
    noise = model.noise_variance_ * share * (min(n, p) - k) / (p - k)
    excess = np.sqrt(signal + model.noise_variance_ * share - noise)
    return model.mean_, model.components_.T * excess, noise


def few_patterns(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    X = X.copy()
    X[:20, 0], X[20:50, 2:4] = np.nan, np.nan
    return X


GAPS = {
    "none": (60, lambda X, rng: X),
    "random": (60, lambda X, rng: punch(X, 0.3, rng)),
    "few-patterns": (60, few_patterns),
    "wide": (9, lambda X, rng: punch(X, 0.1, rng)),
}


@pytest.mark.parametrize("gaps", GAPS)
def test_the_fit_maximises_the_likelihood_of_the_observed_entries(
    gaps: str, rng: np.random.Generator
) -> None:
    n, hide = GAPS[gaps]
    X, p, k = hide(draw_real(rng, n, 7 if n == 60 else 12, (3.0, 1.8)), rng), 7 if n == 60 else 12, 2
    model = PPCA(k, tol=1e-8 if gaps != "none" else 1e-5).fit(X)
    assert model.converged_
    assert is_monotone(model.objective_trace_, 1e-12)
    mean, loadings, noise = maximum_likelihood(model, n, p)
    best = observed_likelihood(X, mean, loadings, noise)
    np.testing.assert_allclose(model.objective_trace_[-1], best, rtol=1e-10)
    at = np.concatenate([mean, loadings.ravel(), [np.log(noise)]])

    def value(point: np.ndarray) -> float:
        w = point[p:-1].reshape(p, k)
        return observed_likelihood(X, point[:p], w, float(np.exp(point[-1])))

    scale = 1e-4
    for j in range(len(at)):
        move = scale * (np.arange(len(at)) == j)
        up, down = value(at + move), value(at - move)
        # A difference of values of the second order, against their curvature.
        assert abs(up - down) <= 1e-2 * (2 * best - up - down) + 1e-11 * abs(best)


def test_imputation_is_nearly_as_good_as_with_the_true_parameters(rng: np.random.Generator) -> None:
    axes = np.linalg.qr(rng.standard_normal((12, K)))[0] * [4.0, 3.0, 2.0]
    full = rng.standard_normal((800, K)) @ axes.T + rng.standard_normal((800, 12))
    X = punch(full, 0.2, rng)
    covariance = axes @ axes.T + np.eye(12)
    oracle = full.copy()
    for row, gone in zip(oracle, np.isnan(X), strict=True):
        seen = ~gone
        row[gone] = covariance[np.ix_(gone, seen)] @ np.linalg.solve(
            covariance[np.ix_(seen, seen)], row[seen]
        )
    filled = PPCA(K).fit(X).impute(X)
    error, bound = (np.sqrt(np.mean((guess - full)[np.isnan(X)] ** 2)) for guess in (filled, oracle))
    assert error < 1.06 * bound


HARD = {
    "noise": lambda rng: rng.standard_normal((60, 8)),
    "constant-columns": lambda rng: np.where(np.arange(8) % 4 == 1, 3.0, rng.standard_normal((60, 8))),
    "little-noise": lambda rng: draw_real(rng, 60, 8, (4.0, 2.0)) * 1e-3,
    "repeated-columns": lambda rng: np.hstack([rng.standard_normal((60, 4))] * 2),
    "huge": lambda rng: 1e6 * rng.standard_normal((60, 8)) + 1e7,
    "tiny": lambda rng: 1e-9 * rng.standard_normal((60, 8)),
    "unequal-scales": lambda rng: rng.standard_normal((60, 8)) * 10.0 ** np.arange(-4, 4),
    "heavy-tails": lambda rng: rng.standard_t(1.5, size=(60, 8)),
    "wide": lambda rng: rng.standard_normal((12, 40)),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("table", HARD)
def test_hard_tables_with_gaps(table: str, rng: np.random.Generator) -> None:
    X = punch(HARD[table](rng), 0.3, rng)
    model = PPCA(K, max_iter=300).fit(X)
    assert len(model.objective_trace_) == model.n_iter_
    assert is_monotone(model.objective_trace_, 1e-12)
    assert np.isfinite(model.impute(X)).all()
    assert np.isfinite(model.score(X))


def test_constant_table_gives_a_finite_model() -> None:
    X = np.full((10, 4), 7.0)
    model = PPCA(2).fit(X)
    np.testing.assert_array_equal(model.mean_, np.full(4, 7.0))
    np.testing.assert_allclose(model.transform(X), np.zeros((10, 2)))
    assert np.isfinite(model.score(X))
    np.testing.assert_array_equal(model.explained_variance_ratio_, [0.0, 0.0])


# Rows


def direct_posterior(model: PPCA, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the scores of one row, from the joint normal of scores and observed entries."""
    seen = ~np.isnan(x)
    prior = np.diag(model.explained_variance_ - model.noise_variance_)
    cross = prior @ model.components_[:, seen]
    gain = cross @ np.linalg.inv(model.get_covariance()[np.ix_(seen, seen)])
    return gain @ (x - model.mean_)[seen], prior - gain @ cross.T


@pytest.mark.parametrize("share", [0.0, 0.4], ids=["complete", "missing"])
def test_rows_follow_one_normal_distribution(share: float, rng: np.random.Generator) -> None:
    full = draw_real(rng, 60, 10)
    model = PPCA(K).fit(full)
    X = punch(full[:20], share, rng) if share else full[:20].copy()
    X[3:6, :5] = np.nan if share else X[3:6, :5]
    scores, std = model.transform(X, return_std=True)
    filled, error = model.impute(X, return_std=True)
    densities, covariances = model.score_samples(X), model.posterior_covariance(X)
    if not share:
        np.testing.assert_array_equal(covariances, model.posterior_covariance())
        covariances = np.broadcast_to(covariances, (20, K, K))
    C = model.get_covariance()
    for i, x in enumerate(X):
        mean, covariance = direct_posterior(model, x)
        np.testing.assert_allclose(scores[i], mean, atol=1e-9)
        np.testing.assert_allclose(covariances[i], covariance, atol=1e-9)
        np.testing.assert_allclose(std[i] ** 2, np.diag(covariance), atol=1e-9)
        gone, seen = np.isnan(x), ~np.isnan(x)
        normal = multivariate_normal(model.mean_[seen], C[np.ix_(seen, seen)])
        np.testing.assert_allclose(densities[i], normal.logpdf(x[seen]), rtol=1e-9)
        np.testing.assert_array_equal(filled[i, seen], x[seen])
        np.testing.assert_array_equal(error[i, seen], 0.0)
        gain = C[np.ix_(gone, seen)] @ np.linalg.inv(C[np.ix_(seen, seen)])
        expected = model.mean_[gone] + gain @ (x - model.mean_)[seen]
        np.testing.assert_allclose(filled[i, gone], expected, atol=1e-9)
        variance = np.diag(C[np.ix_(gone, gone)] - gain @ C[np.ix_(seen, gone)])
        np.testing.assert_allclose(error[i, gone] ** 2, variance, atol=1e-9)


def test_samples_have_the_moments_of_the_model(rng: np.random.Generator) -> None:
    model = PPCA(K).fit(draw_real(rng))
    assert_moments(model.sample(40_000, random_state=seed()), model.mean_, model.get_covariance())


@pytest.mark.parametrize(
    ("n_components", "X", "weight", "message"),
    [
        ("mle", np.eye(5, 9), None, "needs at least as many rows as columns; X has 5 rows and 9"),
        (1, np.eye(3), [0.1, 0.2, 0.3], r"sample weights sum to 0\.6.*Rescale"),
    ],
    ids=["evidence", "weights-of-a-distribution"],
)
def test_too_few_rows_are_refused(n_components: Any, X: np.ndarray, weight: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PPCA(n_components).fit(X, sample_weight=weight)

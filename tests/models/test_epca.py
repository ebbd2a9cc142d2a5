"""EPCA: what it recovers, what its methods return, how it speaks."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from scipy.stats import multivariate_normal
from sklearn.decomposition import PCA

from anypca import EPCA, PPCA
from anypca.datasets import make_low_rank
from anypca.exceptions import DataConversionWarning, NonFiniteError, NotFittedError
from anypca.families import Bernoulli, Gaussian, Mixed, Poisson

N, P = 300, 10


def counts(**changes: Any) -> Any:
    settings = {"family": "poisson", "signal": 0.7, "intercept": 1.0, "random_state": 0, **changes}
    return make_low_rank(N, P, 2, **settings)


@pytest.fixture(scope="module")
def poisson() -> EPCA:
    return EPCA(2, family="poisson", n_jobs=1, tol=1e-8).fit(counts().X)


@pytest.fixture(scope="module")
def gaussian() -> EPCA:
    return EPCA(2, family="gaussian", n_jobs=1, tol=1e-8).fit(counts(family="gaussian", dispersion=0.5).X)


def angle(found: np.ndarray, expected: np.ndarray) -> float:
    """Sine of the largest angle between the row spaces of two matrices."""
    bases = [np.linalg.qr(rows.T)[0] for rows in (found, expected)]
    cosines = np.linalg.svd(bases[0].T @ bases[1], compute_uv=False)
    return float(np.sqrt(max(1.0 - cosines.min() ** 2, 0.0)))


# Gaussian tables: principal components


@pytest.mark.parametrize("ridge", [0.0, 1.0])
def test_gaussian_is_ppca(ridge: float) -> None:
    X = counts(family="gaussian", dispersion=0.5).X
    model, expected = EPCA(2, family="gaussian", ridge=ridge, tol=1e-9, n_jobs=1).fit(X), PPCA(2).fit(X)
    assert angle(model.components_, expected.components_) < 1e-7
    np.testing.assert_allclose(model.components_, expected.components_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(model.intercept_, X.mean(axis=0), rtol=0, atol=1e-6)
    np.testing.assert_allclose(model.dispersion_, expected.noise_variance_, rtol=0.02)


def test_gaussian_without_a_ridge_projects_like_pca() -> None:
    X = counts(family="gaussian", dispersion=0.5).X
    model, expected = EPCA(2, family="gaussian", ridge=0.0, tol=1e-9, n_jobs=1).fit(X), PCA(2).fit(X)
    signs = np.sign(np.sum(model.components_ * expected.components_, axis=1))
    np.testing.assert_allclose(model.transform(X), expected.transform(X) * signs, rtol=0, atol=1e-6)
    shares = expected.explained_variance_ratio_
    np.testing.assert_allclose(model.explained_deviance_ratio_, shares, rtol=1e-6)


def test_a_ridge_shrinks_gaussian_scores_by_the_noise() -> None:
    # The two ridges soften the singular values of X / sigma by the ridge.
    X = counts(family="gaussian", dispersion=0.5).X
    model = EPCA(2, family=Gaussian(variance=0.25), ridge=3.0, tol=1e-9, n_jobs=1).fit(X)
    singular = np.linalg.svd((X - X.mean(axis=0)) / 0.5, compute_uv=False)[:2]
    found = 0.5 * (singular - 3.0)
    np.testing.assert_allclose(np.sqrt(N * model.explained_variance_), found, rtol=1e-6)


# Reported form


@pytest.mark.parametrize("family", ["gaussian", "poisson", "bernoulli", "gamma"])
def test_components_are_orthonormal_ordered_and_signed(family: str) -> None:
    X = counts(family=family, dispersion=0.3).X
    model = EPCA(3, family=family, n_jobs=1).fit(X)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(3), atol=1e-10)
    assert np.all(np.diff(model.explained_deviance_ratio_) <= 0)
    assert np.all(model.explained_deviance_ratio_ >= 0)
    assert model.explained_deviance_ratio_.sum() <= 1.0
    total = 1.0 - model.deviance_ / model.null_deviance_
    np.testing.assert_allclose(model.explained_deviance_ratio_.sum(), total, rtol=1e-10)
    largest = np.abs(model.components_).argmax(axis=1)
    assert np.all(model.components_[np.arange(3), largest] > 0)
    assert model.n_components_ == 3
    assert model.n_features_in_ == P


@pytest.mark.parametrize("family", ["poisson", "gaussian", "gamma", "binomial(20)"])
@pytest.mark.parametrize(("missing", "most"), [(0.0, 0.1), (0.5, 0.15)], ids=["complete", "half"])
def test_known_components_are_recovered(family: str, missing: float, most: float) -> None:
    drawn = make_low_rank(
        800, 12, 2, family=family, signal=0.8, dispersion=0.3, intercept=1.5, missing=missing, random_state=3
    )
    keep = np.isfinite(drawn.X).any(axis=1)
    model = EPCA(2, family=family, ridge=1.0, n_jobs=1).fit(drawn.X[keep])
    assert angle(model.components_, drawn.components) < most


def test_answers_need_many_columns() -> None:
    # A yes or no tells little of a score: twelve of them are not enough, forty are.
    drawn = make_low_rank(800, 40, 2, family="bernoulli", signal=1.2, random_state=3)
    model = EPCA(2, family="bernoulli", ridge=4.0, n_jobs=1).fit(drawn.X)
    assert angle(model.components_, drawn.components) < 0.35


def test_missing_cells_are_predicted_better_than_by_means() -> None:
    drawn = counts(missing=0.2, random_state=4)
    truth = np.exp(drawn.eta)
    model = EPCA(2, family="poisson", n_jobs=1).fit(drawn.X)
    filled = model.impute(drawn.X)
    hidden = np.isnan(drawn.X)
    np.testing.assert_array_equal(filled[~hidden], drawn.X[~hidden])
    assert np.all(np.isfinite(filled))
    means = np.broadcast_to(np.nanmean(drawn.X, axis=0), filled.shape)
    error, usual = (np.mean((guess - truth)[hidden] ** 2) for guess in (filled, means))
    assert error < 0.6 * usual
    error, usual = (np.mean(np.log((guess / truth)[hidden]) ** 2) for guess in (filled, means))
    assert error < 0.6 * usual
    complete = counts().X
    np.testing.assert_array_equal(model.impute(complete), complete)


# Offsets and covariates


def test_an_exposure_as_offset_is_taken_out() -> None:
    rng = np.random.default_rng(5)
    drawn = counts()
    exposure = rng.uniform(0.2, 5.0, N)
    X = rng.poisson(np.exp(drawn.eta) * exposure[:, None]).astype(float)
    model = EPCA(2, family="poisson", n_jobs=1).fit(X, offset=np.log(exposure))
    assert angle(model.components_, drawn.components) < 0.2
    centre = drawn.intercept + drawn.scores.mean(axis=0) @ drawn.components
    np.testing.assert_allclose(model.intercept_, centre, rtol=0, atol=0.15)


def test_offsets_of_rows_entries_and_sparse_ones_agree() -> None:
    X = counts().X
    row = np.random.default_rng(6).integers(0, 2, N) * 0.5
    wide = np.repeat(row[:, None], P, axis=1)
    settings: dict[str, Any] = {"family": "poisson", "tol": 1e-8, "n_jobs": 1}
    first = EPCA(2, **settings).fit(X, offset=row)
    for offset in (row[:, None], wide, sp.csr_array(wide)):
        other = EPCA(2, **settings).fit(X, offset=offset)
        np.testing.assert_allclose(other.components_, first.components_, rtol=0, atol=1e-6)
        np.testing.assert_allclose(
            other.transform(X, offset=offset), first.transform(X, offset=row), rtol=0, atol=1e-5
        )


def test_an_offset_of_zero_is_none() -> None:
    X = counts().X
    settings: dict[str, Any] = {"family": "poisson", "tol": 1e-8, "n_jobs": 1}
    none, zero = EPCA(2, **settings).fit(X), EPCA(2, **settings).fit(X, offset=np.zeros(N))
    np.testing.assert_allclose(zero.components_, none.components_, rtol=0, atol=1e-8)
    np.testing.assert_allclose(zero.objective_trace_[-1], none.objective_trace_[-1], rtol=1e-12)


@pytest.mark.parametrize("family", ["poisson", "gaussian", "binomial(20)"])
def test_coefficients_of_covariates_are_recovered(family: str) -> None:
    rng = np.random.default_rng(7)
    drawn = make_low_rank(1000, 12, 1, family=family, signal=0.4, intercept=1.0, random_state=7)
    covariates = rng.standard_normal((1000, 2))
    effects = rng.uniform(-0.7, 0.7, (12, 2))
    X = drawn.family.sample(drawn.eta + covariates @ effects.T, np.full(12, 0.3), rng)
    model = EPCA(1, family=family, n_jobs=1).fit(X, covariates=covariates)
    assert model.coef_.shape == (12, 2)
    np.testing.assert_allclose(model.coef_, effects, rtol=0, atol=0.08)


def test_without_an_intercept_the_origin_is_zero() -> None:
    X = counts().X
    model = EPCA(2, family="poisson", fit_intercept=False, n_jobs=1).fit(X)
    np.testing.assert_array_equal(model.intercept_, 0.0)
    np.testing.assert_allclose(model.inverse_transform(np.zeros((1, 2))), 1.0)


# Means, samples, densities


def test_inverse_transform_gives_means(poisson: EPCA) -> None:
    scores = poisson.transform(counts().X)
    expected = np.exp(poisson.intercept_ + scores @ poisson.components_)
    np.testing.assert_allclose(poisson.inverse_transform(scores), expected, rtol=1e-12)
    # Intercepts are free, so the fitted means of each column add up to the data.
    np.testing.assert_allclose(expected.sum(axis=0), counts().X.sum(axis=0), rtol=1e-5)


def test_gaussian_log_likelihood_is_the_exact_marginal(gaussian: EPCA) -> None:
    X = counts(family="gaussian", random_state=8).X[:20]
    X[3, :4] = np.nan
    loadings = gaussian.components_.T
    covariance = (loadings * gaussian.explained_variance_) @ loadings.T + np.diag(gaussian.dispersion_)
    found = gaussian.score_samples(X)
    for x, value in zip(X, found, strict=True):
        seen = np.isfinite(x)
        normal = multivariate_normal(gaussian.intercept_[seen], covariance[np.ix_(seen, seen)])
        np.testing.assert_allclose(value, normal.logpdf(x[seen]), rtol=1e-9)
    np.testing.assert_allclose(gaussian.score(X), found.mean(), rtol=1e-12)


@pytest.mark.parametrize("family", ["poisson", "bernoulli", "negative_binomial(2)", "gamma(2)"])
def test_log_likelihood_agrees_with_quadrature(family: str) -> None:
    X = counts(family=family, intercept=0.5).X
    model = EPCA(1, family=family, n_jobs=1).fit(X)
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    scores = np.sqrt(model.explained_variance_[0]) * nodes
    eta = model.intercept_ + scores[:, None] * model.components_[0]
    entries = np.repeat(X[:30, None, :], len(nodes), axis=1)
    rows = model.family_.log_likelihood(entries, np.repeat(eta[None], 30, axis=0), model.dispersion_).sum(
        axis=2
    )
    log_weights = np.log(weights / weights.sum())
    exact = np.logaddexp.reduce(rows + log_weights, axis=1)
    # Laplace's approximation errs by the skewness and kurtosis of the posterior: hundredths, up to two tenths
    # for rows with few counts.
    error = model.score_samples(X[:30]) - exact
    assert np.abs(error).max() < 0.25
    assert np.abs(error).mean() < 0.05


def test_samples_have_the_moments_of_the_model(gaussian: EPCA) -> None:
    X = gaussian.sample(40_000, random_state=0)
    loadings = gaussian.components_.T
    covariance = (loadings * gaussian.explained_variance_) @ loadings.T + np.diag(gaussian.dispersion_)
    np.testing.assert_allclose(X.mean(axis=0), gaussian.intercept_, rtol=0, atol=0.04)
    np.testing.assert_allclose(np.cov(X.T), covariance, rtol=0, atol=0.1)


def test_samples_of_counts_are_counts(poisson: EPCA) -> None:
    X = poisson.sample(20_000, random_state=1)
    assert X.shape == (20_000, P)
    np.testing.assert_array_equal(X, np.round(X))
    spread = (poisson.components_.T**2) @ poisson.explained_variance_
    np.testing.assert_allclose(X.mean(axis=0), np.exp(poisson.intercept_ + 0.5 * spread), rtol=0.1)


def test_gaussian_standard_deviations_are_exact() -> None:
    X = counts(family="gaussian", dispersion=0.5).X
    model = EPCA(2, family="gaussian", ridge=0.0, n_jobs=1, tol=1e-9).fit(X)
    _, std = model.transform(X, return_std=True)
    # Orthonormal loadings and no prior: every score is as uncertain as an entry.
    np.testing.assert_allclose(std, np.sqrt(model.dispersion_[0]), rtol=1e-8)
    X[0, :5] = np.nan
    _, std = model.transform(X[:1], return_std=True)
    seen = model.components_[:, 5:]
    expected = np.sqrt(np.diag(np.linalg.inv(seen @ seen.T)) * model.dispersion_[0])
    np.testing.assert_allclose(std[0], expected, rtol=1e-8)


def test_standard_deviations_shrink_with_information(poisson: EPCA) -> None:
    X = counts().X[:50]
    _, std = poisson.transform(X, return_std=True)
    assert np.all(std > 0)
    holes = X.copy()
    holes[:, ::2] = np.nan
    _, wide = poisson.transform(holes, return_std=True)
    assert np.all(wide > std)


# Sparse scores


def test_l1_scores_have_zeros_more_with_more_strength() -> None:
    X = counts().X[:100]
    shares, traces = [], []
    for strength in (3.0, 10.0, 1e4):
        model = EPCA(
            2, family="poisson", score_penalty="l1", l1_strength=strength, max_iter=3000, n_jobs=1
        ).fit(X)
        shares.append(float((model.transform(X) == 0.0).mean()))
        traces.append(model.objective_trace_)
        # A component without scores has no direction.
        expected = 1.0 if shares[-1] < 1.0 else 0.0
        np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), expected, rtol=1e-6)
    assert 0.0 < shares[0] < shares[1] < shares[2] == 1.0
    assert all(np.diff(trace).min(initial=0.0) >= -1e-9 * (1 + abs(trace[-1])) for trace in traces)


# Families


KINDS = ["poisson", "bernoulli", "gaussian", "gaussian", "gamma"]


def _table() -> pd.DataFrame:
    rng = np.random.default_rng(9)
    z = rng.standard_normal(400)
    return pd.DataFrame(
        {
            "visits": rng.poisson(np.exp(0.5 * z + 1.0)).astype(float),
            "answer": (rng.random(400) < 1 / (1 + np.exp(-z))).astype(float),
            "height": 170.0 + 8.0 * z + 4.0 * rng.standard_normal(400),
            "weight": 70.0 + 6.0 * z + 5.0 * rng.standard_normal(400),
            "amount": np.exp(0.4 * z) * rng.gamma(3.0, 1.0, 400),
        }
    )


def test_families_as_list_and_dict_agree() -> None:
    X = _table()
    by_list = EPCA(1, family=KINDS, n_jobs=1).fit(X)
    chosen = {"visits": "poisson", "answer": Bernoulli(), 4: "gamma", "default": "gaussian"}
    by_name = EPCA(1, family=chosen, n_jobs=1).fit(X)
    assert isinstance(by_name.family_, Mixed)
    np.testing.assert_allclose(by_name.components_, by_list.components_, rtol=0, atol=1e-6)
    assert by_list.family_report_ is None


def test_auto_chooses_and_says_why() -> None:
    X = _table()
    model = EPCA(1, family="auto", n_jobs=1).fit(X)
    members = [model.family_.columns(slice(j, j + 1)).name for j in range(5)]
    assert members[1:4] == KINDS[1:4]
    assert members[4] in {"gamma", "log_normal"}
    assert members[0] in {"poisson", "negative_binomial"}
    report = str(model.family_report_)
    for name in X.columns:
        assert name in report


def test_columns_in_large_units_do_not_take_over_nor_vanish() -> None:
    X = _table()
    metres = X.assign(height=X["height"] / 100.0)
    models = [EPCA(1, family=KINDS, n_jobs=1, tol=1e-7).fit(table) for table in (X, metres)]
    scores = [model.transform(table)[:, 0] for model, table in zip(models, (X, metres), strict=True)]
    assert abs(np.corrcoef(scores)[0, 1]) > 0.9999
    ratio = models[0].dispersion_[2] / models[1].dispersion_[2]
    np.testing.assert_allclose(ratio, 1e4, rtol=1e-3)


def test_fractions_warn_in_count_columns() -> None:
    X = counts().X
    X[0, 3] = 1.5
    with pytest.warns(DataConversionWarning, match=r"'poisson' is for integers; column 3 holds 1"):
        EPCA(1, family="poisson", n_jobs=1).fit(X)


# scikit-learn's habits


def test_names_and_containers_of_the_output() -> None:
    X = pd.DataFrame(counts().X, columns=[f"gene{j}" for j in range(P)])
    model = EPCA(2, family="poisson", n_jobs=1).fit(X)
    assert list(model.get_feature_names_out()) == ["epca0", "epca1"]
    assert list(model.feature_names_in_) == list(X.columns)
    frame = model.set_output(transform="pandas").transform(X)
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == ["epca0", "epca1"]
    assert frame.index.equals(X.index)
    table = model.set_output(transform="polars").transform(X)
    assert isinstance(table, pl.DataFrame)
    plain = model.set_output(transform="default").transform(X)
    np.testing.assert_array_equal(table.to_numpy(), plain)


def test_other_columns_are_refused() -> None:
    X = pd.DataFrame(counts().X, columns=[f"gene{j}" for j in range(P)])
    model = EPCA(2, family="poisson", n_jobs=1).fit(X)
    with pytest.raises(ValueError, match="feature names"):
        model.transform(X.rename(columns={"gene0": "other"}))
    with pytest.raises(ValueError, match="feature names"):
        model.transform(X[X.columns[::-1]])
    with pytest.raises(ValueError, match=r"9 features|feature names"):
        model.transform(X.iloc[:, 1:])


def test_new_rows_need_what_the_training_rows_had(poisson: EPCA) -> None:
    X = counts().X
    with pytest.raises(ValueError, match="without an offset"):
        poisson.transform(X, offset=np.zeros(N))
    with pytest.raises(ValueError, match="0 covariates"):
        poisson.transform(X, covariates=np.zeros((N, 1)))
    model = EPCA(1, family="poisson", n_jobs=1).fit(X, offset=np.zeros(N), covariates=np.arange(N) / N)
    with pytest.raises(ValueError, match="with an offset"):
        model.score_samples(X, covariates=np.arange(N) / N)
    scores = model.fit_transform(X, offset=np.zeros(N), covariates=np.arange(N) / N)
    means = model.inverse_transform(scores[:3], offset=np.zeros(3), covariates=np.arange(3) / N)
    assert means.shape == (3, P)


@pytest.mark.parametrize("max_iter", [3, 500], ids=["stopped early", "converged"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"n_components": 0},
        {"ridge": 0.0},
        {"whiten": True},
        {"fit_intercept": False},
        {"n_components": 0.5},
        {"family": "bernoulli"},
        {"family": "gaussian"},
        {"family": "student_t"},
        {"score_penalty": "l1"},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::anypca.exceptions.ConvergenceWarning")
def test_fit_transform_is_fit_then_transform(changes: dict[str, Any], max_iter: int) -> None:
    X = counts().X
    X = np.minimum(X, 1.0) if changes.get("family") == "bernoulli" else X
    model = EPCA(**{"n_components": 2, "family": "poisson", "n_jobs": 1, "max_iter": max_iter, **changes})
    rng = np.random.default_rng(0)
    given = {"offset": 0.1 * rng.normal(size=N), "covariates": rng.normal(size=(N, 1))}
    scores = model.fit_transform(X, sample_weight=rng.integers(0, 3, N), **given)
    np.testing.assert_allclose(scores, model.transform(X, **given), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("ridge", [0.0, 1.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fit_transform_of_missing_entries_and_precisions(ridge: float, dtype: Any) -> None:
    X = counts(missing=0.2).X.astype(dtype)
    X[3] = np.nan  # without a ridge all scores are equally likely, and transform has zeros
    model = EPCA(2, family="poisson", ridge=ridge, n_jobs=1)
    scores = model.fit_transform(X)
    assert scores.dtype == dtype
    tol = 10 * np.sqrt(np.finfo(dtype).eps) if dtype == np.float32 else 1e-9
    np.testing.assert_allclose(scores, model.transform(X), rtol=tol, atol=tol)


def test_fit_transform_solves_rows_once(monkeypatch: pytest.MonkeyPatch) -> None:
    X = counts().X
    expected = EPCA(2, family="poisson", n_jobs=1).fit(X).transform(X)
    monkeypatch.setattr(EPCA, "transform", None)
    frame = EPCA(2, family="poisson", n_jobs=1).set_output(transform="pandas").fit_transform(pd.DataFrame(X))
    assert list(frame.columns) == ["epca0", "epca1"]
    np.testing.assert_allclose(frame, expected, rtol=1e-9, atol=1e-9)
    scores = EPCA(2, family="poisson", n_jobs=1).fit_transform(sp.csr_array(X))
    np.testing.assert_allclose(scores, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("method", ["transform", "score_samples", "impute", "inverse_transform"])
def test_methods_before_fit(method: str) -> None:
    with pytest.raises(NotFittedError):
        getattr(EPCA(), method)(np.ones((3, 2)))


def test_values_outside_the_support_are_named(poisson: EPCA) -> None:
    X = counts().X
    X[5, 2] = -1.0
    message = r"Negative values in data: family 'poisson' needs values >= 0; X\[5, 2\] is -1"
    with pytest.raises(ValueError, match=message):
        EPCA(2, family="poisson").fit(X)
    with pytest.raises(ValueError, match=message):
        poisson.transform(X)


def test_too_many_components_are_refused() -> None:
    with pytest.raises(ValueError, match="n_components=11 is more than"):
        EPCA(11, family="poisson").fit(counts().X)


def test_all_components_may_be_asked_for() -> None:
    X = counts(family="gaussian").X[:6]
    model = EPCA(6, family=Gaussian(variance=1.0), n_jobs=1).fit(X)
    assert model.components_.shape == (6, P)
    assert np.all(np.isfinite(model.transform(X)))


def test_verbose_logs_every_iteration(caplog: pytest.LogCaptureFixture) -> None:
    X = counts().X
    with caplog.at_level(logging.INFO, logger="anypca"):
        model = EPCA(2, family="poisson", verbose=1, n_jobs=1).fit(X)
    # A rough iteration whose value rounding had raised is told again with the exact one.
    told = [record.iteration for record in caplog.records]
    assert told == sorted(told)
    assert sorted(set(told)) == list(range(1, model.n_iter_ + 1))
    assert caplog.records[-1].objective == model.objective_trace_[-1]
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="anypca"):
        silent = EPCA(2, family="poisson", n_jobs=1).fit(X)
    assert not caplog.records
    np.testing.assert_array_equal(silent.components_, model.components_)


def test_a_diverged_model_refuses_rows_it_cannot_weigh(poisson: EPCA) -> None:
    import copy

    broken = copy.deepcopy(poisson)
    fixed = broken._fit.coefficients.fixed
    fixed[:, 0] = 800.0
    broken._fit.coefficients.__dict__.pop("joint", None)
    broken._fit.coefficients.__dict__.pop("_working", None)
    with pytest.raises(NonFiniteError, match="row 0 overflows"):
        broken.transform(counts().X)


def test_poisson_object_equals_its_name() -> None:
    X = counts().X
    np.testing.assert_array_equal(
        EPCA(1, family=Poisson(), n_jobs=1).fit(X).components_,
        EPCA(1, family="poisson", n_jobs=1).fit(X).components_,
    )


def test_without_penalty_the_objective_is_the_log_likelihood() -> None:
    """With all constants, so that fits of different families can be compared."""
    rng = np.random.default_rng(6)
    X = rng.poisson(np.exp(0.3 * rng.normal(size=(40, 1)) @ rng.normal(size=(1, 6)) + 2.0)).astype(float)
    model = EPCA(1, family="poisson", ridge=0.0, n_jobs=1).fit(X)
    np.testing.assert_allclose(model.objective_trace_[-1], model.plug_in_log_likelihood(X).sum(), rtol=1e-8)

"""Globally sparse PCA as an estimator: what it selects, what it returns, odd tables."""

from __future__ import annotations

import logging
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectFromModel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from anypca import GSPPCA
from anypca.exceptions import ConvergenceWarning, NotFittedError
from anypca.models.gsppca._noise import Moments, estimate_noise


def make_table(n=60, p=20, d=3, q=8, noise=0.4, seed=0):
    """Rows of the model, the first q columns active."""
    rng = np.random.default_rng(seed)
    loadings = rng.normal(size=(p, d)) * (np.arange(p) < q)[:, None]
    return rng.normal(size=(n, d)) @ loadings.T + noise * rng.normal(size=(n, p)) + rng.normal(size=p)


def fit(X, n_components=3, **options):
    return GSPPCA(n_components, n_jobs=1, **options).fit(X)


@pytest.mark.parametrize("noise", ["bc", "ml", "jl"])
@pytest.mark.parametrize("shape", [(60, 20), (40, 150)], ids=["tall", "wide"])
def test_finds_the_active_columns(shape, noise):
    model = fit(make_table(*shape), noise=noise)
    np.testing.assert_array_equal(model.get_support(indices=True), np.arange(8))
    assert model.n_features_selected_ == 8
    np.testing.assert_array_equal(model.get_support(), model.support_)
    assert set(model.ranking_[:8]) == set(range(8))
    assert np.argmax(model.evidence_path_) == 7
    assert model.relevance_.max() == 1.0
    assert model.relevance_.min() >= 0.0
    np.testing.assert_allclose(model.noise_variance_, 0.16, rtol=0.15 if noise != "jl" else 0.25)


def test_evidence_with_noise_in_the_active_columns():
    X = make_table(noise=1.0, seed=1)
    plain, noisy = fit(X), fit(X, evidence="noisy")
    np.testing.assert_array_equal(noisy.ranking_, plain.ranking_)
    assert not np.allclose(noisy.evidence_path_, plain.evidence_path_)
    assert set(noisy.get_support(indices=True)) <= set(range(9))
    np.testing.assert_array_equal(fit(make_table(), evidence="noisy").get_support(indices=True), np.arange(8))


def test_trace_rises_and_says_how_it_ended():
    model = fit(make_table())
    assert np.diff(model.objective_trace_).min() >= -1e-9 * abs(model.objective_trace_[-1])
    assert model.converged_
    assert len(model.objective_trace_) == model.n_iter_
    assert model.status_.startswith("converged")


def test_warns_when_stopped_early():
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model = GSPPCA(3, max_iter=2, n_jobs=1).fit(make_table())
    assert not model.converged_


def test_components_are_those_of_pca_on_the_selected_columns():
    X = make_table()
    model = fit(X)
    pca = PCA(3, svd_solver="full").fit(X[:, model.support_])
    for ours, theirs in zip(model.components_[:, model.support_], pca.components_, strict=True):
        np.testing.assert_allclose(ours * np.sign(ours @ theirs), theirs, atol=1e-9)
    np.testing.assert_allclose(model.explained_variance_, pca.explained_variance_, rtol=1e-10)
    share = pca.explained_variance_.sum() / X.var(axis=0, ddof=1).sum()
    np.testing.assert_allclose(model.explained_variance_ratio_.sum(), share, rtol=1e-10)
    np.testing.assert_array_equal(model.components_[:, ~model.support_], 0.0)
    scores = np.abs(model.transform(X))
    np.testing.assert_allclose(scores, np.abs(pca.transform(X[:, model.support_])), atol=1e-9)
    leading = np.argmax(np.abs(model.components_), axis=1)
    assert (model.components_[np.arange(3), leading] > 0).all()


def test_inverse_transform_leaves_other_columns_at_their_mean():
    X = make_table()
    model = fit(X)
    back = model.inverse_transform(model.transform(X))
    np.testing.assert_allclose(back[:, ~model.support_], np.tile(X.mean(0)[~model.support_], (60, 1)))
    assert np.mean((back - X)[:, model.support_] ** 2) < 0.3


@pytest.mark.parametrize("q", [1, 2, 13, 20])
def test_number_of_columns_on_request(q):
    model = fit(make_table(), n_features_to_select=q)
    assert model.support_.sum() == model.n_features_selected_ == q
    np.testing.assert_array_equal(np.sort(model.ranking_[:q]), model.get_support(indices=True))
    assert model.n_components_ == min(3, q)
    assert model.latent_dimension_ == 3
    assert model.transform(make_table()).shape == (60, min(3, q))


def test_dimension_by_evidence():
    model = GSPPCA(n_jobs=1).fit(make_table(100, 30, d=4, q=12))
    assert model.latent_dimension_ == 4
    np.testing.assert_array_equal(model.n_components_grid_, np.arange(1, 8))
    assert model.evidence_grid_.argmax() == 3
    np.testing.assert_allclose(model.evidence_grid_[3], model.objective_trace_[-1])


def test_sparse_prior_selects_no_more_than_the_uniform_one():
    X = make_table(15, 120, noise=1.0)
    uniform, few = (fit(X, prior=prior) for prior in ("uniform", "sparse"))
    assert uniform.inclusion_probability_ == 0.5
    assert few.inclusion_probability_ < 0.1
    assert few.n_features_selected_ <= uniform.n_features_selected_
    np.testing.assert_allclose(few.evidence_path_, uniform.evidence_path_)


def test_scaling_is_standardising_first():
    X = make_table() * np.geomspace(0.01, 100, 20)
    scaled = fit(X, scale=True)
    by_hand = fit(StandardScaler().fit_transform(X))
    np.testing.assert_array_equal(scaled.support_, by_hand.support_)
    np.testing.assert_allclose(
        scaled.transform(X), by_hand.transform(StandardScaler().fit_transform(X)), atol=1e-8
    )
    np.testing.assert_allclose(scaled.scale_, X.std(axis=0))
    np.testing.assert_array_equal(np.sort(scaled.ranking_[:8]), np.arange(8))
    back = scaled.inverse_transform(scaled.transform(X))
    chosen = scaled.support_
    assert np.mean(((back - X) / X.std(axis=0))[:, chosen] ** 2) < 0.3


def test_constant_columns_are_never_selected():
    X = make_table()
    padded = np.insert(X, [0, 10, 20], [0.1, 0.0, -7e6], axis=1)
    model, plain = fit(padded), fit(X)
    constant = [0, 11, 22]
    assert not model.support_[constant].any()
    np.testing.assert_array_equal(model.relevance_[constant], 0.0)
    np.testing.assert_array_equal(np.delete(model.support_, constant), plain.support_)
    np.testing.assert_allclose(model.evidence_path_, plain.evidence_path_, rtol=1e-9)
    assert len(model.ranking_) == 20
    assert np.isfinite(model.transform(padded)).all()
    scaled = fit(padded, scale=True)
    assert np.isfinite(scaled.transform(padded)).all()


def test_duplicated_columns_share_their_fate():
    X = make_table()
    model = fit(np.hstack([X, X]))
    np.testing.assert_allclose(model.relevance_[:20], model.relevance_[20:], rtol=1e-6, atol=1e-12)
    np.testing.assert_array_equal(model.support_[:20], model.support_[20:])
    assert model.support_.sum() == 16


def test_fewer_active_columns_than_components():
    model = fit(make_table(q=2, d=2), n_components=5, n_features_to_select=2)
    np.testing.assert_array_equal(model.get_support(indices=True), [0, 1])
    assert model.components_.shape == (2, 20)
    assert np.isfinite(model.evidence_path_).all()


def test_fewer_rows_than_components():
    X = make_table(6, 40)
    model = fit(X, n_components=10)
    assert model.n_components_ <= 5
    assert model.latent_dimension_ == 10
    assert np.isfinite(model.evidence_path_).all()
    assert model.noise_variance_ > 0


def test_rows_of_zeros():
    X = make_table() - make_table().mean(axis=0)
    X[7:12] = 0.0
    model = fit(X)
    np.testing.assert_array_equal(model.get_support(indices=True), np.arange(8))
    assert np.isfinite(model.evidence_path_).all()


def test_exact_low_rank():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2)) @ rng.normal(size=(2, 9))
    model = fit(X, n_components=2)
    assert np.isfinite(model.objective_trace_).all()
    selected = X[:, model.support_]
    np.testing.assert_allclose(model.explained_variance_.sum(), selected.var(axis=0, ddof=1).sum(), rtol=1e-8)


def test_many_more_columns_than_rows():
    model = fit(make_table(40, 3000, d=5, q=40, noise=0.4), n_components=5, tol=1e-2)
    chosen = model.get_support(indices=True)
    assert chosen.max() < 40  # none of the 2960 others
    assert len(chosen) >= 37
    assert len(model.evidence_path_) == 3000


def test_columns_in_another_order():
    X = make_table()
    order = np.random.default_rng(1).permutation(20)
    plain, shuffled = fit(X), fit(X[:, order])
    np.testing.assert_array_equal(shuffled.support_, plain.support_[order])
    np.testing.assert_allclose(shuffled.relevance_, plain.relevance_[order], atol=1e-6)


@pytest.mark.parametrize("kind", ["csr", "float32", "fortran", "frame", "dask"])
def test_containers(kind):
    X = np.round(make_table(), 2)
    if kind == "csr":
        other = sparse.csr_array(X)
    elif kind == "float32":
        other = X.astype(np.float32)
    elif kind == "fortran":
        other = np.asfortranarray(X)
    elif kind == "frame":
        other = pd.DataFrame(X, columns=[f"g{j}" for j in range(20)])
    else:
        other = pytest.importorskip("dask.array").from_array(X, chunks=(25, 20))
    model, plain = fit(other), fit(X)
    np.testing.assert_array_equal(model.support_, plain.support_)
    tolerance = 1e-3 if kind == "float32" else 1e-6
    np.testing.assert_allclose(model.transform(other), plain.transform(X), atol=tolerance)
    assert model.transform(other).dtype == (np.float32 if kind == "float32" else np.float64)


def test_weights_repeat_rows():
    X = make_table()
    weight = np.random.default_rng(3).integers(0, 3, 60)
    weighted = GSPPCA(3, n_jobs=1).fit(X, sample_weight=weight)
    repeated = fit(np.repeat(X, weight, axis=0))
    np.testing.assert_array_equal(weighted.support_, repeated.support_)
    np.testing.assert_allclose(weighted.evidence_path_, repeated.evidence_path_, rtol=1e-8)
    np.testing.assert_allclose(weighted.explained_variance_, repeated.explained_variance_, rtol=1e-8)


def test_large_tables_are_streamed(monkeypatch):
    """Where the whole spectrum is too large a problem, the EM passes over the rows as they are."""
    from anypca.solvers import closed_form

    X = make_table(130, 120)
    whole = fit(X, tol=1e-5)
    calls, leading = [], closed_form._leading

    def spy(*arguments):
        calls.append(1)
        return leading(*arguments)

    monkeypatch.setattr(closed_form, "_DENSE_LIMIT", 60)
    monkeypatch.setattr(closed_form, "_leading", spy)
    streamed = fit(X, tol=1e-5)
    assert len(calls) == 2  # once for the start, once for the selected columns
    np.testing.assert_array_equal(streamed.support_, whole.support_)
    np.testing.assert_allclose(streamed.relevance_, whole.relevance_, atol=1e-4)
    np.testing.assert_allclose(streamed.components_, whole.components_, atol=1e-6)


def test_density_is_that_of_the_gaussian_model():
    X = make_table()
    model = fit(X, scale=True)
    U, scale = model.components_, model.scale_
    wide = (U.T * np.maximum(model.explained_variance_ - model.noise_variance_, 0.0)) @ U
    covariance = (wide + model.noise_variance_ * np.eye(20)) * np.outer(scale, scale)
    expected = multivariate_normal(model.mean_, covariance).logpdf(X)
    np.testing.assert_allclose(model.score_samples(X), expected, rtol=1e-9)
    np.testing.assert_allclose(model.score(X), expected.mean(), rtol=1e-9)
    drawn = model.sample(20000, random_state=0)
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=0.08 * covariance.max())


def test_names():
    frame = pd.DataFrame(make_table(), columns=[f"gene {j}" for j in range(20)])
    model = fit(frame)
    assert list(model.get_feature_names_out()) == ["gsppca0", "gsppca1", "gsppca2"]
    assert list(model.get_feature_names_out(selected=True)) == [f"gene {j}" for j in range(8)]
    scores = clone(model).set_output(transform="pandas").fit_transform(frame)
    assert list(scores.columns) == ["gsppca0", "gsppca1", "gsppca2"]
    unnamed = fit(frame.to_numpy())
    assert list(unnamed.get_feature_names_out(selected=True)) == [f"x{j}" for j in range(8)]
    given = [f"v{j}" for j in range(20)]
    assert list(unnamed.get_feature_names_out(given, selected=True)) == given[:8]
    with pytest.raises(ValueError, match=r"number of features \(20\)"):
        unnamed.get_feature_names_out(["a"], selected=True)
    with pytest.raises(ValueError, match="feature_names_in_"):
        model.get_feature_names_out(given, selected=True)


def test_as_a_selector_in_a_pipeline():
    frame = pd.DataFrame(make_table(), columns=[f"gene {j}" for j in range(20)])
    selector = SelectFromModel(GSPPCA(3, n_jobs=1), importance_getter="support_", threshold=0.5)
    pipeline = make_pipeline(selector, StandardScaler()).set_output(transform="pandas")
    assert list(pipeline.fit_transform(frame).columns) == [f"gene {j}" for j in range(8)]


def test_pickles_and_clones():
    X = make_table()
    model = fit(X)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    assert not hasattr(clone(model), "support_")


def test_progress_is_logged(caplog):
    with caplog.at_level(logging.INFO, logger="anypca"):
        fit(make_table(), verbose=1)
    assert any("GSPPCA iteration" in message for message in caplog.messages)


def test_missing_entries_are_refused_by_name():
    frame = pd.DataFrame(make_table(), columns=[f"gene {j}" for j in range(20)])
    frame.iloc[5, 4] = np.nan
    with pytest.raises(
        ValueError, match=r"X\[5, 4\] \(column 'gene 4'\) is NaN; GSPPCA needs every entry.*impute"
    ):
        GSPPCA(3, n_jobs=1).fit(frame)
    model = fit(frame.fillna(0.0))
    with pytest.raises(ValueError, match=r"X\[5, 4\].*NaN"):
        model.transform(frame)
    assert not model.__sklearn_tags__().input_tags.allow_nan


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 21}, "n_components=21 is more than n_features allows. Choose at most 20"),
        ({"n_features_to_select": 21}, "n_features_to_select=21 must be at most 20"),
        ({"n_components": "all"}, "n_components"),
        ({"noise": "mle"}, "Did you mean 'ml'"),
        ({"prior": "sparsity"}, "Did you mean 'sparse'"),
    ],
    ids=str,
)
def test_wrong_parameters(options, message):
    with pytest.raises(ValueError, match=message):
        GSPPCA(**{"n_components": 3, **options}).fit(make_table())


def test_constant_tables_and_single_rows_are_refused():
    with pytest.raises(ValueError, match="all 4 columns of X are constant"):
        GSPPCA(1).fit(np.ones((5, 4)))
    with pytest.raises(ValueError, match="1 sample"):
        GSPPCA(1).fit(np.ones((1, 4)))
    padded = np.insert(make_table(), [0], [1.0], axis=1)
    with pytest.raises(ValueError, match="21 columns, 1 of them constant"):
        GSPPCA(1, n_features_to_select=21).fit(padded)


@pytest.mark.parametrize("method", ["get_support", "get_feature_names_out", "sample"])
def test_methods_need_a_fit(method):
    with pytest.raises(NotFittedError):
        getattr(GSPPCA(), method)()


def test_noise_estimates():
    values = np.array([9.0, 5.0, 1.2, 1.0, 0.8, 0.6])
    variances = np.array([4.0, 4.0, 4.0, 2.0, 1.8, 1.8])
    moments = Moments(values, variances, 30.0)
    plain = (17.6 - 14.0) / 4
    np.testing.assert_allclose(estimate_noise(moments, 2, "ml"), plain)
    np.testing.assert_allclose(estimate_noise(moments, 2, "jl"), 3.0)


@pytest.mark.parametrize("method", ["ml", "bc", "jl"])
@pytest.mark.parametrize("d", [1, 3, 30])
def test_noise_is_positive_with_few_eigenvalues(method, d):
    moments = Moments(np.array([3.0, 1.0]), np.full(40, 0.1), 3.0)
    assert 0 < estimate_noise(moments, d, method) < 1.0


def test_bias_correction_removes_the_bias():
    rng = np.random.default_rng(0)
    plain, corrected = [], []
    for _ in range(40):
        X = make_table(40, 80, d=4, q=40, noise=1.0, seed=rng.integers(10**6))
        X = X - X.mean(axis=0)
        values = np.linalg.svd(X, compute_uv=False) ** 2 / 40
        moments = Moments(values, np.mean(X**2, axis=0), 40.0)
        plain.append(estimate_noise(moments, 4, "ml"))
        corrected.append(estimate_noise(moments, 4, "bc"))
    bias_plain, bias_corrected = np.mean(plain) - 39 / 40, np.mean(corrected) - 39 / 40
    assert bias_plain < -0.05
    assert abs(bias_corrected) < 0.5 * abs(bias_plain)

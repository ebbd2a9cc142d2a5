"""PPCA on complete tables, and what a fitted model says about rows."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from anypca import PPCA

K = 3
SHAPES = {"tall": (200, 12), "wide": (25, 60), "square": (20, 20)}


def make_table(n=200, p=12, *, noise=1.0, seed=0):
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((p, K)) * [3.0, 2.0, 1.5]
    return rng.standard_normal((n, K)) @ W.T + noise * rng.standard_normal((n, p)) + rng.uniform(-5, 5, p)


def punch(X, share, seed=1):
    X = X.copy()
    X[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    return X


def assert_same_model(model, other, rtol=1e-8, atol=1e-8):
    np.testing.assert_allclose(model.mean_, other.mean_, rtol=rtol, atol=atol)
    np.testing.assert_allclose(model.noise_variance_, other.noise_variance_, rtol=rtol)
    np.testing.assert_allclose(model.explained_variance_, other.explained_variance_, rtol=rtol)
    projection = model.components_.T @ model.components_
    np.testing.assert_allclose(projection, other.components_.T @ other.components_, atol=atol)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("n_components", [1, 3, 8])
def test_equals_scikit_learn(shape, n_components):
    X = make_table(*shape)
    model, pca = PPCA(n_components).fit(X), PCA(n_components, svd_solver="full").fit(X)
    assert_same_model(model, pca)
    np.testing.assert_allclose(model.explained_variance_ratio_, pca.explained_variance_ratio_, rtol=1e-8)
    np.testing.assert_allclose(model.score(X), pca.score(X), rtol=1e-8)
    np.testing.assert_allclose(model.score_samples(X), pca.score_samples(X), rtol=1e-8)
    np.testing.assert_allclose(model.get_covariance(), pca.get_covariance(), atol=1e-8)
    np.testing.assert_allclose(model.get_precision(), pca.get_precision(), atol=1e-8)
    np.testing.assert_allclose(np.abs(model.components_ @ pca.components_.T), np.eye(n_components), atol=1e-8)


@pytest.mark.parametrize("n_components", [0.5, 0.9, 0.99, "mle"])
def test_chooses_as_many_components_as_scikit_learn(n_components):
    X = make_table(300, 15)
    pca = PCA(n_components, svd_solver="full").fit(X)
    model = PPCA(n_components).fit(X)
    assert model.n_components_ == pca.n_components_
    assert_same_model(model, pca)


@pytest.mark.parametrize(
    ("shape", "expected"), [((50, 6), 5), ((6, 50), 4), ((7, 7), 5)], ids=["tall", "wide", "square"]
)
def test_default_number_leaves_a_noise_variance(shape, expected):
    model = PPCA().fit(np.random.default_rng(0).standard_normal(shape))
    assert model.n_components_ == expected
    assert model.noise_variance_ > 1e-3


def test_full_rank_reproduces_the_sample_covariance():
    X = make_table(100, 6)
    model = PPCA(6).fit(X)
    np.testing.assert_allclose(model.get_covariance(), np.cov(X.T), rtol=1e-9)
    expected = multivariate_normal(X.mean(axis=0), np.cov(X.T)).logpdf(X)
    np.testing.assert_allclose(model.score_samples(X), expected, rtol=1e-8)


def as_memmap(X, folder):
    np.save(folder / "x.npy", X)
    return np.load(folder / "x.npy", mmap_mode="r")


def as_dask(X, folder):
    array = pytest.importorskip("dask.array")
    return array.from_array(X, chunks=(70, -1))


def as_frame(X, folder):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(X)


KINDS = {
    "fortran": lambda X, _: np.asfortranarray(X),
    "csr": lambda X, _: scipy.sparse.csr_array(X),
    "csc matrix": lambda X, _: scipy.sparse.csc_matrix(X),
    "memmap": as_memmap,
    "dask": as_dask,
    "pandas": as_frame,
    "list": lambda X, _: X.tolist(),
}


@pytest.mark.parametrize("share", [0.0, 0.1], ids=["complete", "missing"])
@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_tables_agree(kind, share, tmp_path):
    X = make_table()
    X[np.abs(X) < 0.5] = 0.0
    X = punch(X, share)
    dense = PPCA(K, tol=1e-8).fit(X)
    table = KINDS[kind](X, tmp_path)
    model = PPCA(K, tol=1e-8).fit(table)
    assert_same_model(model, dense)
    np.testing.assert_allclose(model.transform(table), dense.transform(X), atol=1e-7)
    np.testing.assert_allclose(model.score(table), dense.score(X), rtol=1e-9)
    np.testing.assert_allclose(model.impute(table), dense.impute(X), atol=1e-7)


@pytest.mark.parametrize("share", [0.0, 0.1], ids=["complete", "missing"])
def test_single_precision_is_close_and_kept(share):
    X = punch(make_table(), share)
    double, single = PPCA(K).fit(X), PPCA(K).fit(X.astype(np.float32))
    assert_same_model(single, double, rtol=1e-5, atol=1e-5)
    scores, std = single.transform(X.astype(np.float32), return_std=True)
    assert scores.dtype == std.dtype == np.float32
    assert single.inverse_transform(scores).dtype == np.float32
    assert single.impute(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(scores, double.transform(X), atol=1e-4)


@pytest.mark.parametrize("share", [0.0, 0.2], ids=["complete", "missing"])
@pytest.mark.parametrize("shape", [(60, 8), (15, 40)], ids=["tall", "wide"])
def test_weight_counts_rows(shape, share):
    X = punch(make_table(*shape), share)
    weight = np.random.default_rng(2).integers(0, 4, len(X))
    weighted = PPCA(2, tol=1e-9).fit(X, sample_weight=weight)
    repeated = PPCA(2, tol=1e-9).fit(np.repeat(X, weight, axis=0))
    assert_same_model(weighted, repeated, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(weighted.objective_trace_[-1], repeated.objective_trace_[-1], rtol=1e-10)


@pytest.mark.parametrize("share", [0.0, 0.2], ids=["complete", "missing"])
def test_threads_do_not_change_the_result(share):
    X = punch(make_table(3000, 300), share)[:, :100]
    one, two = PPCA(K, n_jobs=1).fit(X), PPCA(K, n_jobs=2).fit(X)
    assert_same_model(one, two)
    np.testing.assert_allclose(one.transform(X), two.transform(X), atol=1e-8)


def test_axes_are_orthonormal_ordered_and_signed():
    model = PPCA(5).fit(make_table())
    U = model.components_
    np.testing.assert_allclose(U @ U.T, np.eye(5), atol=1e-12)
    assert (np.diff(model.explained_variance_) <= 0).all()
    assert (U[np.arange(5), np.abs(U).argmax(axis=1)] > 0).all()
    assert 0 < model.explained_deviance_ratio_.sum() < 1
    np.testing.assert_array_equal(model.explained_deviance_ratio_, model.explained_variance_ratio_)
    np.testing.assert_array_equal(model.intercept_, model.mean_)


def test_closed_form_objective_is_the_likelihood_with_divisor_n():
    X = make_table()
    model = PPCA(K).fit(X)
    n = len(X)
    ml = model.get_covariance() * (n - 1) / n
    expected = multivariate_normal(X.mean(axis=0), ml).logpdf(X).sum()
    np.testing.assert_allclose(model.objective_trace_, [expected], rtol=1e-12)
    assert model.converged_
    assert model.n_iter_ == 1


def test_scores_are_shrunk_projections():
    X = make_table()
    model, pca = PPCA(K).fit(X), PCA(K).fit(X)
    shrinkage = 1 - model.noise_variance_ / model.explained_variance_
    expected = (X - pca.mean_) @ model.components_.T * shrinkage
    np.testing.assert_allclose(model.transform(X), expected, atol=1e-10)


def test_scores_tend_to_the_projection_as_the_noise_vanishes():
    distances = []
    for noise in (1.0, 1e-2, 1e-4):
        X = make_table(noise=noise)
        model = PPCA(K).fit(X)
        projection = (X - X.mean(axis=0)) @ model.components_.T
        distances.append(np.abs(model.transform(X) - projection).max())
    assert distances[0] > 1e-2
    assert distances[1] < 1e-3 * distances[0]
    assert distances[2] < 1e-7 * distances[0]


def direct_posterior(model, x):
    """Mean and covariance of the scores of one row, from the joint normal of scores and observed entries."""
    seen = ~np.isnan(x)
    prior = np.diag(model.explained_variance_ - model.noise_variance_)
    cross = prior @ model.components_[:, seen]
    gain = cross @ np.linalg.inv(model.get_covariance()[np.ix_(seen, seen)])
    return gain @ (x - model.mean_)[seen], prior - gain @ cross.T


@pytest.mark.parametrize("share", [0.0, 0.4], ids=["complete", "missing"])
def test_posterior_matches_the_joint_normal(share):
    X = make_table()
    model = PPCA(K).fit(X)
    X = punch(X[:20], share)
    X[3:6, :5] = np.nan
    means, covariances = zip(*(direct_posterior(model, x) for x in X), strict=True)
    scores, std = model.transform(X, return_std=True)
    np.testing.assert_allclose(scores, means, atol=1e-9)
    np.testing.assert_allclose(model.posterior_covariance(X), covariances, atol=1e-9)
    np.testing.assert_allclose(std**2, np.diagonal(covariances, axis1=1, axis2=2), atol=1e-9)


def test_complete_rows_share_one_posterior_covariance():
    X = make_table()
    model = PPCA(K).fit(X)
    assert model.posterior_covariance(X).shape == (K, K)
    np.testing.assert_allclose(model.posterior_covariance(X), direct_posterior(model, X[0])[1], atol=1e-9)
    np.testing.assert_array_equal(model.posterior_covariance(), model.posterior_covariance(X))


def test_densities_are_those_of_the_observed_entries():
    X = punch(make_table(), 0.4)
    model = PPCA(K).fit(X)
    covariance = model.get_covariance()
    for x, actual in zip(X[:30], model.score_samples(X[:30]), strict=True):
        seen = ~np.isnan(x)
        expected = multivariate_normal(model.mean_[seen], covariance[np.ix_(seen, seen)]).logpdf(x[seen])
        np.testing.assert_allclose(actual, expected, rtol=1e-9)
    np.testing.assert_allclose(model.score(X), model.score_samples(X).mean())


def test_imputation_is_the_conditional_normal():
    full = make_table()
    model = PPCA(K).fit(full)
    X = punch(full, 0.3)
    filled, std = model.impute(X, return_std=True)
    missing = np.isnan(X)
    np.testing.assert_array_equal(filled[~missing], X[~missing])
    np.testing.assert_array_equal(std[~missing], 0.0)
    covariance = model.get_covariance()
    for i in range(20):
        gone, seen = missing[i], ~missing[i]
        gain = covariance[np.ix_(gone, seen)] @ np.linalg.inv(covariance[np.ix_(seen, seen)])
        mean = model.mean_[gone] + gain @ (X[i] - model.mean_)[seen]
        variance = np.diag(covariance[np.ix_(gone, gone)] - gain @ covariance[np.ix_(seen, gone)])
        np.testing.assert_allclose(filled[i, gone], mean, atol=1e-9)
        np.testing.assert_allclose(std[i, gone] ** 2, variance, atol=1e-9)
    np.testing.assert_array_equal(model.impute(full), full)


def test_a_row_without_entries_has_the_prior():
    X = make_table()
    model = PPCA(K).fit(X)
    empty = np.full((1, X.shape[1]), np.nan)
    scores, std = model.transform(empty, return_std=True)
    np.testing.assert_array_equal(scores, np.zeros((1, K)))
    np.testing.assert_allclose(std[0] ** 2, model.explained_variance_ - model.noise_variance_, rtol=1e-12)
    np.testing.assert_allclose(model.impute(empty)[0], model.mean_)
    np.testing.assert_allclose(model.score_samples(empty), [0.0], atol=1e-12)


def test_samples_have_the_moments_of_the_model():
    model = PPCA(K).fit(make_table())
    drawn = model.sample(40000, random_state=0)
    covariance = model.get_covariance()
    scale = np.sqrt(np.diag(covariance))
    assert np.abs((drawn.mean(axis=0) - model.mean_) / scale).max() < 5 / np.sqrt(40000)
    assert np.abs((np.cov(drawn.T) - covariance) / np.outer(scale, scale)).max() < 8 / np.sqrt(40000)
    np.testing.assert_array_equal(model.sample(3, random_state=1), model.sample(3, random_state=1))
    np.testing.assert_array_equal(model.sample(3, random_state=np.random.default_rng(1)).shape, (3, 12))


def test_inverse_transform_adds_the_mean_to_the_components():
    X = make_table()
    model = PPCA(K).fit(X)
    scores = model.transform(X)
    np.testing.assert_allclose(model.inverse_transform(scores), scores @ model.components_ + model.mean_)
    with pytest.raises(ValueError, match=r"one column per component; got \(200, 2\)"):
        model.inverse_transform(scores[:, :2])


def test_constant_table_gives_a_finite_model():
    X = np.full((10, 4), 7.0)
    model = PPCA(2).fit(X)
    np.testing.assert_array_equal(model.mean_, np.full(4, 7.0))
    np.testing.assert_allclose(model.transform(X), np.zeros((10, 2)))
    assert np.isfinite(model.score(X))
    np.testing.assert_array_equal(model.explained_variance_ratio_, [0.0, 0.0])


def test_works_in_pipelines_searches_and_copies():
    X = make_table()
    pipeline = make_pipeline(StandardScaler(), PPCA(2)).fit(X)
    assert list(pipeline.get_feature_names_out()) == ["ppca0", "ppca1"]
    search = GridSearchCV(PPCA(), {"n_components": [1, 3, 6]}, cv=3).fit(X)
    assert search.best_params_ == {"n_components": 3}
    model = PPCA(2).fit(X)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.transform(X), model.transform(X))
    assert not hasattr(clone(model), "components_")


BAD_PARAMETERS = {
    "zero components": (dict(n_components=0), r"n_components.*must be an int in the range \[1"),
    "fraction of one": (dict(n_components=1.0), r"n_components.*Got 1\.0"),
    "negative fraction": (dict(n_components=-0.5), r"n_components.*Got -0\.5"),
    "unknown string": (dict(n_components="mel"), r"n_components.*Did you mean 'mle'\?"),
    "string far off": (dict(n_components="xyzzy"), r"n_components.*Got 'xyzzy' instead\.$"),
    "too many": (
        dict(n_components=13),
        r"n_components=13 is more than .* Choose at most 12",
    ),
    "negative tol": (dict(tol=-1.0), r"'tol' parameter"),
    "no iterations": (dict(max_iter=0), r"'max_iter' parameter"),
    "text for threads": (dict(n_jobs="two"), r"'n_jobs' parameter"),
    "no threads": (dict(n_jobs=0), r"n_jobs must not be 0"),
    "seed": (dict(random_state="a"), r"'random_state' parameter"),
}


@pytest.mark.parametrize(("parameters", "message"), BAD_PARAMETERS.values(), ids=BAD_PARAMETERS)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        PPCA(**parameters).fit(make_table())


def test_evidence_needs_as_many_rows_as_columns():
    with pytest.raises(ValueError, match="needs at least as many rows as columns; X has 25 rows and 60"):
        PPCA("mle").fit(make_table(25, 60))


@pytest.mark.parametrize(
    ("X", "weight", "message"),
    [
        (np.ones((1, 3)), None, r"at least 2 rows; X has 1 sample"),
        (np.eye(3), [0, 0, 1], r"at least 2 rows; X has 1 sample"),
        (np.eye(3), [0.1, 0.2, 0.3], r"sample weights sum to 0\.6.*Rescale"),
    ],
    ids=["one row", "one weighted row", "weights of a distribution"],
)
def test_too_few_rows_are_refused(X, weight, message):
    with pytest.raises(ValueError, match=message):
        PPCA(1).fit(X, sample_weight=weight)

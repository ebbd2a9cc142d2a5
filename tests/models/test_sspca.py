"""Structured sparse PCA as an estimator: what it selects, what it returns, odd tables."""

from __future__ import annotations

import pickle
import warnings

import dask.array as da
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import PCA

from anypca import SSPCA
from anypca.exceptions import ConvergenceWarning


def make_table(n=60, p=20, d=3, q=8, noise=0.4, seed=0):
    """Rows of d components in the first q columns, and noise in all."""
    rng = np.random.default_rng(seed)
    loadings = rng.normal(size=(p, d)) * (np.arange(p) < q)[:, None]
    return rng.normal(size=(n, d)) @ loadings.T + noise * rng.normal(size=(n, p)) + rng.normal(size=p)


def make_patterns(n=200, noise=0.3, seed=0):
    """Two components in columns 0-3 and two in columns 4-8 of 12."""
    rng = np.random.default_rng(seed)
    W = np.zeros((12, 4))
    W[:4, :2], W[4:9, 2:] = 8.0 * rng.normal(size=(4, 2)), rng.normal(size=(5, 2))
    return rng.normal(size=(n, 4)) @ W.T + noise * rng.normal(size=(n, 12))


def fit(X, n_components=3, **options):
    return SSPCA(n_components, n_jobs=1, **({"n_penalties": 6} | options)).fit(X)


@pytest.mark.parametrize("constraint", ["ball", "orthogonal"])
@pytest.mark.parametrize("criterion", ["press", "row"])
@pytest.mark.parametrize("shape", [(60, 20), (40, 60)], ids=["tall", "wide"])
def test_finds_the_active_columns(shape, criterion, constraint):
    model = fit(make_table(*shape), criterion=criterion, constraint=constraint, n_penalties=15)
    np.testing.assert_array_equal(model.get_support(indices=True), np.arange(8))
    assert model.n_features_selected_ == 8
    assert set(model.ranking_[:8]) == set(range(8))
    np.testing.assert_array_equal(model.relevance_ > 0, model.support_)
    assert model.relevance_.max() == 1.0
    assert model.cv_errors_.shape == (5, 15)
    assert model.penalty_path_[0] < model.penalty_ < model.penalty_path_[-1]


@pytest.mark.parametrize("exponent", [0.5, 0.8])
def test_the_quasi_norm_finds_them_too(exponent):
    model = fit(make_table(), exponent=exponent, n_penalties=15)
    np.testing.assert_array_equal(model.get_support(indices=True), np.arange(8))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"constraint": "orthogonal"},
        {"n_patterns": 2},
        {"n_patterns": 3},
        {"exponent": 0.5},
        {"exponent": 0.9},
    ],
    ids=str,
)
@pytest.mark.parametrize("share", [0.02, 0.1, 0.4])
def test_the_objective_never_rises(options, share):
    X = make_table(n=30, p=15)
    largest = np.sqrt(3 * X.var(axis=0).max() / len(X)) / X.shape[1]
    model = fit(X, penalty=share * largest, **options)
    assert np.diff(model.objective_trace_).min(initial=0.0) >= -1e-13 * abs(model.objective_trace_[-1])
    assert model.converged_
    assert len(model.objective_trace_) == model.n_iter_


def test_components_are_those_of_pca_on_the_selected_columns():
    X = make_table()
    model = fit(X)
    pca = PCA(3, svd_solver="full").fit(X[:, model.support_])
    for ours, theirs in zip(model.components_[:, model.support_], pca.components_, strict=True):
        np.testing.assert_allclose(ours * np.sign(ours @ theirs), theirs, atol=1e-9)
    np.testing.assert_allclose(model.explained_variance_, pca.explained_variance_, rtol=1e-9)
    share = pca.explained_variance_.sum() / X.var(axis=0, ddof=1).sum()
    np.testing.assert_allclose(model.explained_variance_ratio_.sum(), share, rtol=1e-9)
    np.testing.assert_array_equal(model.components_[:, ~model.support_], 0.0)
    np.testing.assert_allclose(
        model.transform(X), (X - X.mean(axis=0)) @ model.components_.T, atol=1e-12 * np.abs(X).max()
    )


def test_the_way_back_is_least_squares():
    X = make_table()
    model = fit(X)
    scores, centred = model.transform(X), X - X.mean(axis=0)
    best = centred - scores @ np.linalg.lstsq(scores, centred, rcond=None)[0]
    np.testing.assert_allclose(X - model.inverse_transform(scores), best, atol=1e-9)
    np.testing.assert_allclose(model.score_samples(X), -(best**2).sum(axis=1), rtol=1e-8)


def test_two_patterns_are_told_apart():
    model = fit(make_patterns(), 4, n_patterns=2, n_features_to_select=9)
    np.testing.assert_array_equal(np.flatnonzero(model.patterns_[0]), np.arange(4))
    np.testing.assert_array_equal(np.flatnonzero(model.patterns_[1]), np.arange(4, 9))
    np.testing.assert_array_equal(model.support_, np.arange(12) < 9)
    for pattern, components in zip(
        model.patterns_, (model.components_[:2], model.components_[2:]), strict=True
    ):
        np.testing.assert_array_equal(components[:, ~pattern], 0.0)
        np.testing.assert_allclose(components @ components.T, np.eye(2), atol=1e-6)


@pytest.mark.parametrize("wanted", [1, 5, 8, 13, 20])
@pytest.mark.parametrize(
    "options", [{}, {"constraint": "orthogonal"}, {"n_patterns": 3}, {"exponent": 0.5}], ids=str
)
def test_exactly_as_many_variables_as_asked_for(wanted, options):
    model = fit(make_table(), n_features_to_select=wanted, **options)
    assert model.n_features_selected_ == wanted
    assert np.isfinite(model.components_).all()
    if wanted == 8:
        np.testing.assert_array_equal(model.get_support(indices=True), np.arange(8))


def test_from_the_largest_penalty_on_nothing_is_left():
    X = make_table()
    largest = fit(X).penalty_path_[-1]
    with pytest.warns(UserWarning, match="no variable was selected.*Lower penalty"):
        model = fit(X, penalty=largest * (1 + 1e-9))
    np.testing.assert_array_equal(model.components_, 0.0)
    np.testing.assert_array_equal(model.transform(X), 0.0)
    np.testing.assert_allclose(model.inverse_transform(np.zeros((2, 3))), np.tile(X.mean(axis=0), (2, 1)))
    assert fit(X, penalty=0.95 * largest).n_features_selected_ >= 1


def test_no_penalty_is_pca():
    X = make_table()
    model, pca = fit(X, penalty=0.0), PCA(3, svd_solver="full").fit(X)
    assert model.support_.all()
    np.testing.assert_allclose(model.explained_variance_, pca.explained_variance_, rtol=1e-9)
    np.testing.assert_allclose(
        np.abs(model.penalised_components_ @ pca.components_.T).argmax(axis=1), [0, 1, 2]
    )


@pytest.mark.parametrize(
    "make",
    [
        sparse.csr_array,
        lambda X: da.from_array(X, chunks=(17, -1)),
        lambda X: X[np.random.default_rng(1).permutation(len(X))],
        lambda X: X.astype(np.float32),
    ],
    ids=["sparse", "dask", "permuted", "float32"],
)
def test_the_container_and_the_order_of_rows_change_nothing(make):
    X = make_table().astype(np.float32).astype(float)
    model, other = fit(X), fit(make(X))
    np.testing.assert_array_equal(model.support_, other.support_)
    # The penalty is a share of the largest one, which is summed in another order.
    np.testing.assert_allclose(model.penalty_, other.penalty_, rtol=1e-6)
    np.testing.assert_allclose(model.components_, other.components_, atol=1e-6)


def test_the_order_of_columns_changes_nothing():
    X = make_table()
    order = np.random.default_rng(2).permutation(X.shape[1])
    model, other = fit(X), fit(X[:, order])
    np.testing.assert_array_equal(model.support_[order], other.support_)
    np.testing.assert_allclose(model.penalty_, other.penalty_, rtol=1e-12)


@pytest.mark.parametrize("criterion", ["press", "row"])
def test_a_weight_is_a_number_of_copies(criterion):
    X, weight = make_table(n=40), np.random.default_rng(0).integers(0, 4, 40)
    model = SSPCA(3, n_jobs=1, n_penalties=6, criterion=criterion).fit(X, sample_weight=weight)
    other = fit(np.repeat(X, weight, axis=0), criterion=criterion)
    np.testing.assert_allclose(model.cv_errors_, other.cv_errors_, rtol=1e-6)
    np.testing.assert_allclose(model.components_, other.components_, atol=1e-8)


def test_the_seed_draws_the_folds_only():
    X = make_table()
    first, again, other = (fit(X, random_state=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.cv_errors_, again.cv_errors_)
    assert not np.array_equal(first.cv_errors_, other.cv_errors_)
    first, other = (fit(X, n_features_to_select=8, random_state=seed) for seed in (0, 1))
    np.testing.assert_array_equal(first.components_, other.components_)


def hard_tables():
    rng = np.random.default_rng(0)
    X = make_table(n=12, p=6, q=3)
    yield pytest.param(np.ones((5, 4)), id="constant")
    yield pytest.param(np.vstack([np.zeros((9, 4)), np.ones((1, 4))]), id="one-odd-row")
    yield pytest.param(np.hstack([X, X]), id="copies")
    yield pytest.param(np.hstack([X, np.ones((12, 3))]), id="constant-columns")
    yield pytest.param(rng.normal(size=(3, 8)), id="three-rows")
    yield pytest.param(1e100 * X, id="huge")
    yield pytest.param(1e-100 * X, id="tiny")
    yield pytest.param(np.outer(rng.normal(size=10), rng.normal(size=5)), id="rank-one")


@pytest.mark.parametrize("X", list(hard_tables()))
@pytest.mark.parametrize(
    "options", [{}, {"constraint": "orthogonal"}, {"exponent": 0.5}, {"n_patterns": 2}], ids=str
)
@pytest.mark.parametrize("penalty", ["auto", 0.0, 1e-300])
def test_odd_tables_give_finite_numbers(X, options, penalty):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "no variable was selected")
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SSPCA(2, penalty=penalty, n_penalties=6, n_jobs=1, max_iter=50, **options).fit(X)
        scores = model.transform(X)
        assert np.isfinite(model.inverse_transform(scores)).all()
    for name in ("components_", "penalised_components_", "explained_variance_ratio_", "objective_trace_"):
        assert np.isfinite(getattr(model, name)).all(), name
    assert np.diff(model.objective_trace_).min(initial=0.0) >= -1e-12 * abs(model.objective_trace_[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 7}, "n_components=7 is more than min.*Choose at most 6"),
        ({"n_patterns": 3}, "n_patterns=3 is more than n_components=2.*fewer patterns"),
        ({"n_features_to_select": 6}, "n_features_to_select=6 must be at most 5.*Ask for fewer"),
        ({"criterion": "cell"}, "criterion"),
        ({"exponent": 0.0}, "exponent"),
        ({"exponent": 1.5}, "exponent"),
    ],
    ids=str,
)
def test_bad_settings_are_explained(options, message):
    X = make_table(n=9, p=6)
    X[:, 2] = 1.0
    with pytest.raises(ValueError, match=message):
        SSPCA(**({"n_components": 2} | options)).fit(X)


def test_bad_tables_are_explained():
    with pytest.raises(ValueError, match="SSPCA needs at least 2 rows; X has 1 sample"):
        SSPCA(1).fit(np.ones((1, 3)))
    X = make_table()
    X[3, 4] = np.nan
    with pytest.raises(ValueError, match=r"X\[3, 4\].* is NaN; SSPCA needs every entry"):
        SSPCA(1).fit(X)


def test_warns_when_stopped_early():
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model = fit(make_table(), penalty=1e-3, max_iter=2)
    assert not model.converged_


def test_names_clones_and_pickles():
    X = make_table()
    model = fit(X, n_features_to_select=8)
    np.testing.assert_array_equal(model.get_feature_names_out(), ["sspca0", "sspca1", "sspca2"])
    np.testing.assert_array_equal(model.get_feature_names_out(selected=True), [f"x{j}" for j in range(8)])
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    np.testing.assert_array_equal(clone(model).fit(X).components_, model.components_)


def test_copies_of_a_row_share_a_fold():
    from anypca.models.sspca._cross_validation import draw_folds

    X = make_table(n=23)
    folds = draw_folds(np.vstack([X, X]), 5, np.random.default_rng(0))
    np.testing.assert_array_equal(folds[:23], folds[23:])
    np.testing.assert_array_equal(np.sort(np.bincount(folds[:23])), [4, 4, 5, 5, 5])

"""Sparse eigenvectors: the best that there are, proved; deflation; as an estimator."""

from __future__ import annotations

import os
from itertools import combinations
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
from scipy import sparse
from sklearn.decomposition import PCA

from anypca import SPCA
from anypca.datasets import load_pitprops
from anypca.models._gaussian.gram import StoredGram
from anypca.models.spca._deflation import DEFLATIONS, deflate, start_deflation
from anypca.models.spca._eigen import _gershgorin, _heuristic, _Search, find_sparse_vector

needs_data = pytest.mark.skipif(
    not Path(os.environ.get("ANYPCA_DATA", "") or "/nonexistent").is_dir(),
    reason="ANYPCA_DATA names no folder of data files",
)


def draw(seed, p=8, rank=12):
    """A random covariance matrix."""
    rows = np.random.default_rng(seed).normal(size=(rank, p)) * np.linspace(0.5, 1.5, p)
    return rows.T @ rows


def opened(matrix, shift=0.0):
    S = start_deflation(StoredGram(matrix), np.diag(matrix).copy(), float(np.linalg.eigvalsh(matrix)[-1]))
    return S if shift == 0.0 else type(S)(**{**vars(S), "shift": shift})


def exhaustive(matrix, k):
    """The largest eigenvalue of all k x k submatrices."""
    return max(
        np.linalg.eigvalsh(matrix[np.ix_(chosen, chosen)])[-1]
        for chosen in combinations(range(len(matrix)), k)
    )


def fit(X, n_nonzero, **options):
    return SPCA(n_nonzero=n_nonzero, method="eigen", **({"n_jobs": 1} | options)).fit(X)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("k", [1, 2, 4, 7, 8])
def test_what_is_proved_is_the_best_of_all(seed, k):
    matrix = draw(seed)
    found = find_sparse_vector(opened(matrix), k, max_nodes=10_000)
    np.testing.assert_allclose(found.value, exhaustive(matrix, k), rtol=1e-12)
    assert found.is_optimal
    assert found.upper_bound == found.value
    assert np.count_nonzero(found.vector) <= k
    np.testing.assert_allclose(found.vector @ matrix @ found.vector, found.value, rtol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(found.vector), 1.0, rtol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_so_it_is_when_variances_are_negative(seed):
    matrix = draw(seed) - draw(seed + 100)
    shift = -float(np.linalg.eigvalsh(matrix)[0])
    for k in (2, 4):
        found = find_sparse_vector(opened(matrix, shift), k, max_nodes=10_000)
        np.testing.assert_allclose(found.value, exhaustive(matrix, k), rtol=1e-12)
        assert found.is_optimal


@pytest.mark.parametrize("max_nodes", [0, 1, 3, 10, 30])
def test_the_bound_is_above_the_best_however_early_the_search_ends(max_nodes):
    for seed in range(8):
        matrix = draw(seed, p=9, rank=4)
        found = find_sparse_vector(opened(matrix), 4, max_nodes=max_nodes)
        best = exhaustive(matrix, 4)
        assert found.value <= best * (1 + 1e-12)
        assert found.upper_bound >= best * (1 - 1e-12)
        if found.is_optimal:
            np.testing.assert_allclose(found.value, best, rtol=1e-11)


@pytest.mark.parametrize("is_semidefinite", [True, False])
def test_branch_and_bound_needs_no_good_start(is_semidefinite):
    for seed in range(8):
        matrix = draw(seed, p=9)
        if not is_semidefinite:
            np.fill_diagonal(matrix, 0.0)
        worst = min(
            combinations(range(9), 4),
            key=lambda chosen: np.linalg.eigvalsh(matrix[np.ix_(chosen, chosen)])[-1],
        )
        value = float(np.linalg.eigvalsh(matrix[np.ix_(worst, worst)])[-1])
        early = _Search(matrix, 4, is_semidefinite).run(np.array(worst), value, 2)
        assert early[2] >= exhaustive(matrix, 4) * (1 - 1e-12)
        support, found, bound = _Search(matrix, 4, is_semidefinite).run(np.array(worst), value, 10_000)
        np.testing.assert_allclose(found, exhaustive(matrix, 4), rtol=1e-12)
        assert bound == found
        assert len(set(support)) == 4


def test_the_heuristics_are_seldom_beaten():
    matrices = [draw(seed) for seed in range(20)]
    values = [np.linalg.eigvalsh(opened(m).block(_heuristic(opened(m), 3)))[-1] for m in matrices]
    missed = [value < exhaustive(m, 3) * (1 - 1e-12) for value, m in zip(values, matrices, strict=True)]
    assert sum(missed) <= 2  # about 1 of 100 such problems is missed


@pytest.mark.parametrize("forced", [(), (2,), (1, 5)], ids=str)
def test_gershgorin_is_above_every_support(forced):
    matrix = draw(3) - draw(4)
    free = [j for j in range(8) if j not in forced]
    index = [*forced, *free]
    bound = _gershgorin(matrix[np.ix_(index, index)], len(forced), 4)
    for more in combinations(free, 4 - len(forced)):
        chosen = [*forced, *more]
        assert np.linalg.eigvalsh(matrix[np.ix_(chosen, chosen)])[-1] <= bound * (1 + 1e-12)
    assert _gershgorin(np.ones((8, 8)), len(forced), 4) == 4.0  # where it is exact


@pytest.mark.parametrize("deflation", DEFLATIONS)
def test_deflations_are_what_is_written(deflation):
    S, rng = draw(0), np.random.default_rng(1)
    current, before, found = S, np.zeros((8, 0)), opened(S)
    for _ in range(3):
        a = rng.normal(size=8)
        a /= np.linalg.norm(a)
        found = deflate(found, a, deflation)
        value, image, unit = a @ current @ a, current @ a, np.eye(8)
        if deflation == "schur":
            current = current - np.outer(image, image) / value
        elif deflation == "hotelling":
            current = current - value * np.outer(a, a)
        else:
            q = a
            if deflation == "orthogonalised":
                q = a - before @ (before.T @ a)
                q /= np.linalg.norm(q)
            current = (unit - np.outer(q, q)) @ current @ (unit - np.outer(q, q))
            before = np.column_stack([before, q])
        np.testing.assert_allclose(found.block(np.arange(8)), current, atol=1e-12 * np.abs(S).max())
        np.testing.assert_allclose(found.times(np.eye(8)), current, atol=1e-12 * np.abs(S).max())
        np.testing.assert_allclose(found.diagonal, np.diag(current), atol=1e-12 * np.abs(S).max())
        least = float(np.linalg.eigvalsh(current)[0])
        assert least + found.shift >= -1e-12 * np.abs(S).max()
        assert float(np.linalg.eigvalsh(current)[-1]) <= found.ceiling * (1 + 1e-12)


@needs_data
def test_pit_props_for_every_number_of_loadings():
    matrix = load_pitprops().X
    for k in range(1, 14):
        model = fit(matrix, k, n_components=1, input="gram")
        assert model.optimal_.all()
        np.testing.assert_allclose(model.eigenvalues_[0], exhaustive(matrix, k), rtol=1e-10)
        assert model.upper_bound_[0] == model.eigenvalues_[0]


@needs_data
@pytest.mark.parametrize(
    ("deflation", "variance"), [("projection", 74.2), ("orthogonalised", 74.2), ("schur", 75.1)]
)
def test_pit_props_six_components(deflation, variance):
    model = fit(load_pitprops().X, 4, n_components=6, input="gram", deflation=deflation)
    np.testing.assert_allclose(100 * model.explained_variance_ratio_.sum(), variance, atol=0.06)
    assert (model.n_nonzero_ <= 4).all()
    assert model.optimal_.all()


def make_table(n=40, p=12, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)) @ rng.normal(size=(3, p)) + 0.3 * rng.normal(size=(n, p))


def test_all_loadings_are_principal_components():
    X = make_table()
    model, pca = fit(X, None, n_components=4), PCA(4, svd_solver="full").fit(X)
    np.testing.assert_allclose(model.explained_variance_, pca.explained_variance_, rtol=1e-8)
    np.testing.assert_allclose(np.abs(model.components_), np.abs(pca.components_), atol=1e-6)
    assert model.optimal_.all()


def test_under_schur_eigenvalues_are_adjusted_variances():
    model = fit(make_table(), [5, 4, 3])
    np.testing.assert_allclose(model.eigenvalues_, model.explained_variance_, rtol=1e-8)
    np.testing.assert_array_equal(model.n_nonzero_, [5, 4, 3])
    assert np.diff(model.objective_trace_).min() > 0
    assert model.converged_
    np.testing.assert_array_equal(model.penalty_, 0.0)


def test_it_has_more_variance_than_the_elastic_net():
    X = make_table()
    ours, theirs = fit(X, 3, n_components=1), SPCA(1, n_nonzero=3, n_jobs=1).fit(X)
    assert ours.explained_variance_[0] >= theirs.explained_variance_[0] * (1 - 1e-12)
    assert theirs.optimal_ is None


@pytest.mark.parametrize(
    "make",
    [
        sparse.csr_array,
        lambda X: da.from_array(X, chunks=(17, -1)),
        lambda X: X[::-1],
        lambda X: X.astype(np.float32),
    ],
    ids=["sparse", "dask", "reversed", "float32"],
)
def test_the_container_and_the_order_of_rows_change_nothing(make):
    X = make_table().astype(np.float32).astype(float)
    model, other = fit(X, 4, n_components=2), fit(make(X), 4, n_components=2)
    np.testing.assert_allclose(model.components_, other.components_, atol=1e-6)


def test_a_gram_matrix_that_is_not_held_gives_the_same(monkeypatch):
    X = make_table()
    model = fit(X, 4, n_components=3, max_nodes=0)
    monkeypatch.setattr("anypca.models.spca._start._SMALL_GRAM", 5)
    other = fit(X, 4, n_components=3, max_nodes=0)
    np.testing.assert_allclose(model.components_, other.components_, atol=1e-9)
    np.testing.assert_allclose(model.upper_bound_, other.upper_bound_, rtol=1e-9)


def test_many_columns_are_searched_among_the_most_promising():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 300))
    X[:, 7:15] += 3.0 * rng.normal(size=(50, 1))
    model = fit(X, 8, n_components=1)
    np.testing.assert_array_equal(np.flatnonzero(model.components_[0]), np.arange(7, 15))
    assert model.upper_bound_[0] >= model.eigenvalues_[0]


def test_nothing_is_left_beyond_the_rank():
    X = np.outer(np.random.default_rng(0).normal(size=10), np.arange(1.0, 5.0))
    with pytest.warns(UserWarning, match="all loadings of component"):
        model = fit(X, 4, n_components=2)
    np.testing.assert_array_equal(model.components_[1], 0.0)
    assert np.isfinite(model.inverse_transform(model.transform(X))).all()
    with pytest.warns(UserWarning, match="all loadings of component"):
        constant = fit(np.ones((5, 3)), 2, n_components=1)
    np.testing.assert_array_equal(constant.components_, 0.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"penalty": 0.1}, "method='eigen' has no penalty. Give n_nonzero"),
        ({"n_nonzero": 13}, "n_nonzero must hold integers from 1 to the number of columns, 12"),
        ({"deflation": "shur"}, "Did you mean 'schur'"),
        ({"method": "eigenvalue"}, "Did you mean 'eigen'"),
        ({"max_nodes": -1}, "max_nodes"),
    ],
    ids=str,
)
def test_bad_settings_are_explained(options, message):
    with pytest.raises(ValueError, match=message):
        SPCA(**({"n_components": 1, "method": "eigen"} | options)).fit(make_table())

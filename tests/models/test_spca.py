"""SPCA: the alternation of the criterion, numbers of loadings, the best sparse eigenvectors, known answers."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import ElasticNet
from tests.models.tables import is_monotone

from anypca import SPCA
from anypca.datasets import load_pitprops

COUNTS = [7, 4, 4, 1, 1, 1]


def make_table(rng: np.random.Generator, n: int = 120, noise: float = 0.2) -> np.ndarray:
    """Three scores, each behind its own columns, and two columns of noise."""
    scores = np.linalg.qr(rng.standard_normal((n, 3)))[0] * np.sqrt(n) * [3.0, 2.0, 1.2]
    pattern = np.zeros((3, 12))
    pattern[0, :5], pattern[1, 5:8], pattern[2, 8:10] = 1.0, [1, -1, 1], [1, 1]
    return scores @ pattern + noise * rng.standard_normal((n, 12)) + rng.uniform(-3, 3, 12)


def mixed_table(rng: np.random.Generator, n: int = 80, p: int = 10) -> np.ndarray:
    return rng.standard_normal((n, p)) @ rng.standard_normal((p, p))


# The criterion


def regression(X: np.ndarray, a: np.ndarray, penalty: float, ridge: float) -> np.ndarray:
    """The sparse loadings for one axis: scikit-learn divides squares by 2 n."""
    if np.isinf(ridge):
        target = X.T @ (X @ a)
        return np.sign(target) * np.maximum(np.abs(target) - 0.5 * penalty, 0.0)
    n = len(X)
    alpha = 0.5 * penalty / n + ridge / n
    net = ElasticNet(
        alpha=alpha, l1_ratio=0.5 * penalty / n / alpha, fit_intercept=False, tol=1e-10, max_iter=100_000
    )
    return np.asarray(net.fit(X, X @ a).coef_)


def alternate(X: np.ndarray, penalties: Any, ridge: float, n_iter: int) -> tuple[np.ndarray, float]:
    """Sparse loadings after alternations from the principal axes, and their criterion."""
    A = np.linalg.svd(X, full_matrices=False)[2][: len(penalties)].T
    for _ in range(n_iter):
        B = np.column_stack(
            [regression(X, a, penalty, ridge) for a, penalty in zip(A.T, penalties, strict=True)]
        )
        left, _, right = np.linalg.svd(X.T @ (X @ B), full_matrices=False)
        A = left @ right
    cost = penalties @ np.abs(B).sum(axis=0)
    if np.isinf(ridge):
        return B, float(-2 * np.sum(A * (X.T @ (X @ B))) + np.sum(B**2) + cost)
    return B, float(np.sum((X - X @ B @ A.T) ** 2) + ridge * np.sum(B**2) + cost)


@pytest.mark.parametrize("ridge", [1e-6, 1.0, np.inf])
def test_a_fit_ends_where_alternations_of_scikit_learn_do(ridge: float, rng: np.random.Generator) -> None:
    X = make_table(rng, noise=0.5)
    penalties = np.array([40.0, 30.0, 20.0]) * (20.0 if np.isinf(ridge) else 1.0)
    model = SPCA(penalty=penalties, ridge=ridge).fit(X)
    B, criterion = alternate(X - X.mean(axis=0), penalties, ridge, 150)
    expected = (B / np.linalg.norm(B, axis=0)).T
    signs = np.sign(np.sum(model.components_ * expected, axis=1))
    np.testing.assert_allclose(model.components_ * signs[:, None], expected, atol=1e-5)
    np.testing.assert_allclose(model.objective_trace_[-1], -criterion, rtol=1e-7)
    assert is_monotone(model.objective_trace_, 1e-12)


@pytest.mark.parametrize("shape", [(60, 8), (15, 30)], ids=["tall", "wide"])
@pytest.mark.parametrize(
    "options", [{}, {"ridge": np.inf}, {"penalty": 1e-7, "ridge": 1.0}, {"method": "eigen"}], ids=str
)
def test_without_penalty_components_are_principal(
    shape: tuple[int, int], options: dict[str, Any], rng: np.random.Generator
) -> None:
    X = rng.standard_normal(shape) * np.geomspace(4, 1, shape[1])
    model, pca = SPCA(4, **options).fit(X), PCA(4).fit(X)
    np.testing.assert_allclose(np.abs(model.components_ @ pca.components_.T), np.eye(4), atol=1e-5)
    np.testing.assert_allclose(model.explained_variance_, pca.explained_variance_, rtol=1e-6)
    np.testing.assert_allclose(model.explained_variance_ratio_, pca.explained_variance_ratio_, rtol=1e-6)


def test_adjusted_variances_and_the_way_back_are_regressions_on_scores(rng: np.random.Generator) -> None:
    X = make_table(rng, noise=1.0)
    model, Xc = SPCA(3, penalty=100.0).fit(X), X - X.mean(axis=0)
    Z = model.transform(X)
    np.testing.assert_allclose(Z, Xc @ model.components_.T, atol=1e-10)
    expected = []
    for j in range(3):
        rest = Z[:, j] - Z[:, :j] @ np.linalg.lstsq(Z[:, :j], Z[:, j])[0] if j else Z[:, 0]
        expected.append(rest @ rest / (len(X) - 1))
    np.testing.assert_allclose(model.explained_variance_, expected, rtol=1e-9)
    total = X.var(axis=0, ddof=1).sum()
    np.testing.assert_allclose(model.explained_variance_ratio_, np.array(expected) / total, rtol=1e-9)
    best = Z @ np.linalg.lstsq(Z, Xc)[0] + X.mean(axis=0)
    np.testing.assert_allclose(model.inverse_transform(Z), best, atol=1e-9)
    np.testing.assert_allclose(model.score_samples(X), -np.sum((X - best) ** 2, axis=1), atol=1e-8)
    assert not np.any(np.signbit(model.components_) & (model.components_ == 0))


# Numbers of loadings


@pytest.mark.parametrize("ridge", [1e-6, 1.0, np.inf])
def test_finds_the_columns_behind_each_score(ridge: float, rng: np.random.Generator) -> None:
    model = SPCA(n_nonzero=[5, 3, 2], ridge=ridge).fit(make_table(rng))
    supports = [np.flatnonzero(row).tolist() for row in model.components_]
    assert supports == [[0, 1, 2, 3, 4], [5, 6, 7], [8, 9]]
    assert model.converged_


@pytest.mark.parametrize("ridge", [1e-6, 1.0, np.inf])
@pytest.mark.parametrize("count", [1, 3, 8])
def test_numbers_of_loadings_are_met_at_the_penalties_reported(
    count: int, ridge: float, rng: np.random.Generator
) -> None:
    X = mixed_table(rng)
    model = SPCA(3, n_nonzero=count, ridge=ridge).fit(X)
    assert model.n_nonzero_.tolist() == [count] * 3
    assert model.converged_
    first, Xc = SPCA(1, n_nonzero=count, ridge=ridge, tol=1e-10).fit(X), X - X.mean(axis=0)
    axis = Xc.T @ (Xc @ first.components_[0])
    b = regression(Xc, axis / np.linalg.norm(axis), first.penalty_[0], ridge)
    np.testing.assert_allclose(b / np.linalg.norm(b), first.components_[0], atol=1e-4)
    each = SPCA(n_nonzero=[count] * 3, ridge=ridge).fit(X)
    np.testing.assert_array_equal(each.components_, model.components_)


@pytest.mark.parametrize(
    "options", [{"penalty": 60.0}, {"n_nonzero": [5, 3, 2]}, {"method": "eigen"}], ids=str
)
def test_constant_columns_and_matrices_of_inner_products(
    options: dict[str, Any], rng: np.random.Generator
) -> None:
    X = make_table(rng)
    model = SPCA(3, **options).fit(X)
    padded = SPCA(3, **options).fit(np.column_stack([X, np.full(len(X), 7.0)]))
    assert not padded.components_[:, -1].any()
    np.testing.assert_allclose(padded.components_[:, :-1], model.components_, atol=1e-6)
    Xc = pd.DataFrame(X - X.mean(axis=0), columns=[f"v{j}" for j in range(12)])
    gram = SPCA(3, input="gram", **options).fit(Xc.T @ Xc)
    np.testing.assert_allclose(gram.components_, model.components_, atol=1e-6)
    np.testing.assert_allclose(gram.explained_variance_ratio_, model.explained_variance_ratio_, rtol=1e-6)
    assert gram.feature_names_in_.tolist() == list(Xc.columns)
    with pytest.raises(ValueError, match="no rows to transform"):
        SPCA(3, input="gram", **options).fit_transform(Xc.T @ Xc)
    with pytest.raises(ValueError, match="sample_weight is for rows"):
        SPCA(3, input="gram", **options).fit(Xc.T @ Xc, sample_weight=np.ones(12))


def test_what_cannot_be_met_warns(rng: np.random.Generator) -> None:
    X = make_table(rng)
    for options in ({"penalty": 1.0}, {"method": "eigen", "n_nonzero": 2}):
        with pytest.warns(UserWarning, match="all loadings of component"):
            model = SPCA(1, **options).fit(np.ones((10, 3)))
        np.testing.assert_array_equal(model.components_, 0.0)
        np.testing.assert_array_equal(model.explained_variance_ratio_, 0.0)
    with pytest.warns(UserWarning, match=r"component\(s\) 1 are 0: the penalty is too large"):
        model = SPCA(penalty=[1.0, 1e9]).fit(X)
    assert np.isfinite(model.inverse_transform(model.transform(X))).all()
    with pytest.warns(UserWarning, match=r"fewer than asked for.*Increase ridge"):
        SPCA(1, n_nonzero=10, ridge=0.0).fit(X[:6])


# Known answers


def test_published_numbers_of_the_pit_props() -> None:
    """Zou, Hastie and Tibshirani (2006), table 3."""
    matrix = load_pitprops().X
    model = SPCA(penalty=[0.06, 0.16, 0.1, 0.5, 0.5, 0.5], input="gram").fit(matrix)
    assert model.n_nonzero_.tolist() == COUNTS
    published = [28.0, 14.0, 13.3, 7.4, 6.8, 6.2]
    np.testing.assert_allclose(100 * model.explained_variance_ratio_, published, atol=0.1)
    first = [-0.477, -0.476, 0, 0, 0.177, 0, -0.250, -0.344, -0.416, -0.400, 0, 0, 0]
    np.testing.assert_allclose(np.abs(model.components_[0]), np.abs(first), atol=4e-3)
    by_number = SPCA(n_nonzero=COUNTS, input="gram").fit(matrix)
    assert by_number.n_nonzero_.tolist() == COUNTS
    for k in (3, 6):
        best = SPCA(1, n_nonzero=k, method="eigen", input="gram").fit(matrix)
        np.testing.assert_allclose(best.eigenvalues_[0], exhaustive(matrix, k), rtol=1e-10)


# Sparse eigenvectors


def draw_matrix(rng: np.random.Generator, p: int = 8, rank: int = 12) -> np.ndarray:
    """A random covariance matrix."""
    rows = rng.normal(size=(rank, p)) * np.linspace(0.5, 1.5, p)
    return rows.T @ rows


def exhaustive(matrix: np.ndarray, k: int) -> float:
    """The largest eigenvalue of all k x k submatrices."""
    p = len(matrix)
    return max(
        np.linalg.eigvalsh(matrix[np.ix_(some, some)])[-1] for some in map(list, combinations(range(p), k))
    )


def deflated(S: np.ndarray, a: np.ndarray, before: list[np.ndarray], deflation: str) -> np.ndarray:
    """What a direction leaves of a matrix, as it is written."""
    if deflation == "schur":
        return S - np.outer(S @ a, S @ a) / (a @ S @ a)
    if deflation == "hotelling":
        return S - (a @ S @ a) * np.outer(a, a)
    q = a
    if deflation == "orthogonalised":
        for other in before:
            q = q - other * (other @ q)
        q = q / np.linalg.norm(q)
        before.append(q)
    P = np.eye(len(S)) - np.outer(q, q)
    return P @ S @ P


@pytest.mark.parametrize("deflation", ["schur", "hotelling", "projection", "orthogonalised"])
@pytest.mark.parametrize("k", [1, 2, 4, 7])
def test_sparse_eigenvectors_are_the_best_of_all(deflation: str, k: int, rng: np.random.Generator) -> None:
    for _ in range(3):
        matrix = draw_matrix(rng)
        model = SPCA(
            3, n_nonzero=k, method="eigen", input="gram", deflation=deflation, max_nodes=100_000, n_jobs=1
        ).fit(matrix)
        assert model.optimal_.all()
        np.testing.assert_array_equal(model.upper_bound_, model.eigenvalues_)
        np.testing.assert_array_equal(model.penalty_, 0.0)
        left, before = matrix, []
        for a, value in zip(model.components_, model.eigenvalues_, strict=True):
            assert np.count_nonzero(a) <= k
            np.testing.assert_allclose(a @ left @ a, value, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(value, exhaustive(left, k), rtol=1e-9, atol=1e-9)
            left = deflated(left, a, before, deflation)
        if deflation == "schur":
            np.testing.assert_allclose(model.eigenvalues_, model.explained_variance_, rtol=1e-8)


@pytest.mark.parametrize("max_nodes", [0, 1, 3, 10, 30])
def test_the_bound_is_above_the_best_however_early_the_search_ends(
    max_nodes: int, rng: np.random.Generator
) -> None:
    for _ in range(8):
        matrix = draw_matrix(rng, p=9, rank=4)
        model = SPCA(1, n_nonzero=4, method="eigen", input="gram", max_nodes=max_nodes).fit(matrix)
        best = exhaustive(matrix, 4)
        assert model.eigenvalues_[0] <= best * (1 + 1e-10)
        assert model.upper_bound_[0] >= best * (1 - 1e-10)
        if model.optimal_[0]:
            np.testing.assert_allclose(model.eigenvalues_[0], best, rtol=1e-10)


# Errors


BAD = {
    "both": ({"n_nonzero": 2, "penalty": 1.0}, "not both"),
    "too many": ({"n_nonzero": 13}, "integers from 1 to the number of columns, 12; got 13"),
    "length": ({"n_components": 3, "n_nonzero": [2, 2]}, "one for each of the 3 components"),
    "negative": ({"penalty": [1.0, -1.0]}, "finite and >= 0"),
    "rank": ({"n_components": 13}, r"n_components=13 is more than min.* Choose at most 12"),
    "penalty of eigenvectors": (
        {"method": "eigen", "penalty": 0.1},
        "method='eigen' has no penalty.*n_nonzero",
    ),
}


@pytest.mark.parametrize(("parameters", "message"), BAD.values(), ids=BAD)
def test_bad_parameters_are_named(parameters: dict[str, Any], message: str, rng: np.random.Generator) -> None:
    with pytest.raises(ValueError, match=message):
        SPCA(**parameters).fit(make_table(rng))


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((3, 4)), r"square matrix; X has shape \(3, 4\)"),
        (np.array([[1.0, 0.5], [0.2, 1.0]]), r"symmetric matrix; X\[0, 1\] is 0.5 and X\[1, 0\] is 0.2"),
        (np.array([[1.0, 2.0], [2.0, 1.0]]), "positive semi-definite"),
    ],
    ids=["shape", "symmetry", "sign"],
)
def test_bad_matrices_of_inner_products_are_named(matrix: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SPCA(1, input="gram").fit(matrix)

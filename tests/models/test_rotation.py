"""Rotated components: simple structure is found, fitted values stay, deviations and shares come along."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.draws import generator

from anypca import EPCA, PPCA, KernelPCA, SePCA
from anypca.datasets import make_low_rank

METHODS = ["varimax", "quartimax", "promax", "oblimin"]
each_method = pytest.mark.parametrize("method", METHODS)


def simple_table(correlation: float = 0.0, n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Draw three groups of four columns, each carried by one of three factors."""
    rng = generator("simple structure", n)
    covariance = np.full((3, 3), correlation) + (1 - correlation) * np.eye(3)
    factors = rng.multivariate_normal(np.zeros(3), covariance, size=n)
    loadings = np.kron(np.diag([1.2, 1.0, 0.8]), np.ones(4))
    return factors @ loadings + 0.4 * rng.normal(size=(n, 12)), factors


@each_method
def test_groups_of_columns_are_found(method: str) -> None:
    rotated = PPCA(3).fit(simple_table(n=1000)[0]).rotate(method)
    large = np.abs(rotated.components_) > 0.5
    assert_array_equal(large, np.kron(np.eye(3), np.ones(4)).astype(bool))
    assert np.all(rotated.components_[large] > 0)


@pytest.mark.parametrize("method", ["promax", "oblimin"])
def test_correlated_factors_are_found(method: str) -> None:
    X, factors = simple_table(0.5, n=2000)
    rotated = PPCA(3).fit(X).rotate(method)
    # Promax is known to leave a part of the correlation in the loadings.
    assert_allclose(rotated.score_correlations_, np.corrcoef(factors.T), atol=0.2)
    assert_allclose(np.diag(rotated.score_correlations_), 1.0)
    assert np.all(np.diag(np.corrcoef(rotated.transform(X).T, factors.T)[:3, 3:]) > 0.95)


@each_method
@pytest.mark.parametrize("model", [PPCA(3), EPCA(3, family="poisson")], ids=["PPCA", "EPCA"])
def test_fitted_values_stay(method: str, model: Any) -> None:
    X = make_low_rank(60, 8, 3, family="poisson", random_state=generator("rotated counts")).X.astype(float)
    rotated, scores = model.fit(X).rotate(method), model.transform(X)
    assert_allclose(rotated.transform(X) @ rotated.components_, scores @ model.components_, atol=1e-8)
    assert_allclose(
        rotated.inverse_transform(rotated.transform(X)), model.inverse_transform(scores), rtol=1e-7, atol=1e-7
    )
    shares = rotated.explained_deviance_ratio_
    assert_allclose(shares.sum(), model.describe().explained.sum())
    assert np.all(np.diff(shares) <= 1e-12)
    if method in ("varimax", "quartimax"):
        assert_allclose(rotated.matrix_ @ rotated.matrix_.T, np.eye(3), atol=1e-10)
        assert_allclose(rotated.score_correlations_, np.eye(3), atol=1e-10)


def _varimax(A: np.ndarray) -> float:
    return -float(((A**2 - (A**2).mean(axis=0)) ** 2).sum())


def _quartimax(A: np.ndarray) -> float:
    return -float((A**4).sum())


def _quartimin(A: np.ndarray) -> float:
    return float((A**2).sum(axis=1) @ (A**2).sum(axis=1) - (A**4).sum())


@pytest.mark.parametrize(
    ("method", "criterion"),
    [("varimax", _varimax), ("quartimax", _quartimax), ("oblimin", _quartimin)],
)
def test_no_small_turn_improves_the_criterion(method: str, criterion: Any, rng: np.random.Generator) -> None:
    X = rng.normal(size=(80, 3)) @ rng.normal(size=(3, 9)) + 0.3 * rng.normal(size=(80, 9))
    rotated = PPCA(3).fit(X).rotate(method, normalize=False)
    A, T = rotated.components_.T, rotated.matrix_
    unrotated = A @ T.T
    for _ in range(20):
        change = 1e-3 * rng.normal(size=(3, 3))
        if method == "oblimin":
            turn = T + change
            turn = turn / np.linalg.norm(turn, axis=0)
        else:
            turn = np.linalg.qr(T + T @ (change - change.T))[0]
        found = criterion(np.linalg.solve(turn, unrotated.T).T)
        assert found >= criterion(A) - 1e-9 * abs(criterion(A))


def test_deviations_come_along() -> None:
    X = make_low_rank(80, 8, 2, family="poisson", random_state=generator("rotated deviations")).X
    model = SePCA(2, family="poisson").fit(X)
    rotated = model.rotate("varimax")
    assert rotated.components_std_.shape == rotated.components_.shape
    assert_allclose((rotated.components_std_**2).sum(), (model.components_std_**2).sum())
    std, before = (each.transform(X, return_std=True)[1] for each in (rotated, model))
    assert_allclose((std**2).sum(axis=1), (before**2).sum(axis=1))


@pytest.mark.parametrize("normalize", [True, False])
def test_units_of_a_column_change_nothing(normalize: bool) -> None:
    X, _ = simple_table(n=150)
    factor = np.r_[1e5, np.ones(11)]
    ours, theirs = (
        SePCA(3, family="gaussian", tol=1e-6).fit(table).rotate("varimax", normalize=normalize)
        for table in (X, X * factor)
    )
    assert_allclose(theirs.explained_deviance_ratio_, ours.explained_deviance_ratio_, rtol=1e-3)
    assert_allclose(theirs.components_ / factor, ours.components_, atol=5e-3)


def test_what_cannot_be_rotated() -> None:
    X, _ = simple_table(n=40)
    with pytest.raises(ValueError, match=r"'varimix'.*varimax"):
        PPCA(2).fit(X).rotate("varimix")
    with pytest.raises(ValueError, match="KernelPCA has no components"):
        KernelPCA(2).fit(X).rotate()

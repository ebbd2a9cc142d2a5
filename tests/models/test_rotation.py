"""Rotated components: simple structure is found, fitted values stay, deviations and shares come along."""

from __future__ import annotations

import numpy as np
import pytest

import anypca
from anypca.datasets import make_low_rank
from anypca.linalg import nearest_orthonormal, varimax
from anypca.models import _rotation
from anypca.models._description import describe
from anypca.plotting import plot_biplot, plot_loadings, plot_scores, plot_scree

RNG = np.random.default_rng(0)
METHODS = list(_rotation.METHODS)


def simple_table(correlation=0.0, n=400):
    """Three groups of four columns, each carried by one of three factors."""
    covariance = np.full((3, 3), correlation) + (1 - correlation) * np.eye(3)
    factors = np.random.default_rng(1).multivariate_normal(np.zeros(3), covariance, size=n)
    loadings = np.kron(np.diag([1.0, 0.9, 0.8]), np.ones(4))
    return factors @ loadings + 0.5 * np.random.default_rng(2).normal(size=(n, 12)), factors


@pytest.mark.parametrize("method", METHODS)
def test_groups_of_columns_are_found(method):
    X, _ = simple_table()
    rotated = anypca.PPCA(3).fit(X).rotate(method)
    large = np.abs(rotated.components_) > 0.6
    np.testing.assert_array_equal(large, np.kron(np.eye(3), np.ones(4)).astype(bool))
    assert (rotated.components_[large] > 0).all()
    assert (np.abs(rotated.components_[~large]) < 0.12).all()


@pytest.mark.parametrize("method", ["promax", "oblimin"])
def test_correlated_factors_are_found(method):
    X, factors = simple_table(0.5, n=2000)
    rotated = anypca.PPCA(3).fit(X).rotate(method)
    # Promax is known to leave a part of the correlation in the loadings.
    np.testing.assert_allclose(rotated.correlations_, np.corrcoef(factors.T), atol=0.15)
    np.testing.assert_allclose(np.diag(rotated.correlations_), 1.0)
    found = np.corrcoef(rotated.transform(X).T, factors.T)[:3, 3:]
    assert (np.diag(found) > 0.95).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "make", [lambda: anypca.PPCA(3), lambda: anypca.EPCA(3, family="poisson")], ids=["ppca", "epca"]
)
def test_fitted_values_stay(method, make):
    X = make_low_rank(60, 8, 3, family="poisson", random_state=0).X
    model = make().fit(X)
    rotated = model.rotate(method)
    scores = model.transform(X)
    np.testing.assert_allclose(
        rotated.transform(X) @ rotated.components_, scores @ model.components_, atol=1e-8
    )
    np.testing.assert_allclose(
        rotated.inverse_transform(rotated.transform(X)), model.inverse_transform(scores), atol=1e-8
    )
    total = describe(model).explained.sum()
    np.testing.assert_allclose(rotated.explained_deviance_ratio_.sum(), total)
    assert (np.diff(rotated.explained_deviance_ratio_) <= 0).all()


@pytest.mark.parametrize("method", ["varimax", "quartimax"])
def test_orthogonal_rotations_keep_scores_uncorrelated(method):
    X, _ = simple_table()
    rotated = anypca.PPCA(3).fit(X).rotate(method)
    np.testing.assert_allclose(rotated.matrix_ @ rotated.matrix_.T, np.eye(3), atol=1e-10)
    np.testing.assert_allclose(rotated.correlations_, np.eye(3), atol=1e-10)


def test_varimax_is_that_of_the_classical_algorithm():
    simple = np.kron(np.eye(4), np.ones((5, 1))) + 0.2 * RNG.normal(size=(20, 4))
    loadings = simple @ nearest_orthonormal(RNG.normal(size=(4, 4)))
    ours, theirs = _rotation.METHODS["varimax"](loadings), varimax(loadings)
    value = [_rotation._varimax(loadings @ turn)[0] for turn in (ours, theirs)]
    # The classical one stops by its gain; from another start it may be another mode, hence the values.
    assert value[0] <= value[1] + 1e-4 * abs(value[1])


@pytest.mark.parametrize("criterion", [_rotation._varimax, _rotation._quartimax, _rotation._quartimin])
def test_gradients(criterion):
    loadings, direction = RNG.normal(size=(7, 3)), RNG.normal(size=(7, 3))
    step = 1e-6
    slope = (criterion(loadings + step * direction)[0] - criterion(loadings - step * direction)[0]) / (
        2 * step
    )
    np.testing.assert_allclose((criterion(loadings)[1] * direction).sum(), slope, rtol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_every_step_goes_down(method, monkeypatch):
    values = []
    descend = _rotation._descend

    def watch(evaluate, project, size):
        values.append(evaluate(np.eye(size))[0])
        turn = descend(evaluate, project, size)
        values.append(evaluate(turn)[0])
        return turn

    monkeypatch.setattr(_rotation, "_descend", watch)
    anypca.PPCA(3).fit(simple_table()[0]).rotate(method)
    assert values[1] < values[0]


def test_deviations_come_along():
    X = make_low_rank(80, 8, 2, family="poisson", random_state=0).X
    model = anypca.SePCA(3, family="poisson").fit(X)
    rotated = model.rotate("varimax")
    assert rotated.components_std_.shape == rotated.components_.shape
    np.testing.assert_allclose((rotated.components_std_**2).sum(), (model.components_std_**2).sum())
    _, std = rotated.transform(X, return_std=True)
    _, before = model.transform(X, return_std=True)
    np.testing.assert_allclose((std**2).sum(axis=1), (before**2).sum(axis=1))


@pytest.mark.parametrize("k", [0, 1])
def test_few_components(k):
    X = RNG.normal(size=(60, 5)) + (3 * RNG.normal(size=(60, 1)) if k else 0)
    model = anypca.SePCA(3, family="gaussian").fit(X)
    assert model.n_components_ == k
    for method in METHODS:
        assert model.rotate(method).components_.shape == (k, 5)


def test_pictures_reports_and_files_take_a_rotation(tmp_path):
    X, _ = simple_table(n=60)
    rotated = anypca.PPCA(3).fit(X).rotate("promax")
    plot_biplot(rotated, rotated.transform(X))
    plot_scores(rotated, rotated.transform(X))
    plot_loadings(rotated)
    plot_scree(rotated)
    rotated.report(tmp_path / "report.html", X)
    assert "promax" in (tmp_path / "report.html").read_text(encoding="utf-8")
    anypca.save(rotated, tmp_path / "model")
    again = anypca.load(tmp_path / "model")
    np.testing.assert_array_equal(again.transform(X), rotated.transform(X))


def test_what_cannot_be_rotated():
    X, _ = simple_table(n=40)
    with pytest.raises(ValueError, match=r"unknown rotation 'varimix'\. Choose one of varimax"):
        anypca.PPCA(2).fit(X).rotate("varimix")
    with pytest.raises(ValueError, match="KernelPCA has no components that are directions"):
        anypca.KernelPCA(2).fit(X).rotate()


@pytest.mark.parametrize("normalize", [True, False])
def test_units_of_a_column_change_nothing(normalize):
    X, _ = simple_table(n=150)
    large = X * np.r_[1e5, np.ones(11)]
    ours, theirs = (
        _rotation.rotate(anypca.SePCA(random_state=0).fit(table), "varimax", normalize=normalize)
        for table in (X, large)
    )
    np.testing.assert_allclose(theirs.explained_deviance_ratio_, ours.explained_deviance_ratio_, rtol=1e-3)
    np.testing.assert_allclose(theirs.components_[:, 1:], ours.components_[:, 1:], atol=5e-3)

"""SePCA by joint modes, the published algorithm: fixed points, the weight of the data, and paths over weights."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import subspace_angles
from tests.models.sepca_tables import draw, fit, hide, orthogonal
from tests.models.tables import is_monotone

from anypca import ModeOptions, SePCA
from anypca.datasets import make_prototype_bits

FAMILIES = ["gaussian", "poisson", "bernoulli", "binomial(8)", "negative_binomial", "gamma"]


def fit_mode(X: Any, family: str, k: int = 4, companions: Any = (), **settings: Any) -> SePCA:
    """Fit a joint mode; settings of the mode and of the estimator are told apart by their names."""
    names = {field.name for field in fields(ModeOptions)}
    options = ModeOptions(**{name: settings.pop(name) for name in names & settings.keys()})
    return fit(X, family, k, companions, inference=options, **settings)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_dimension_is_found_and_the_objective_never_falls(family: str, rng: np.random.Generator) -> None:
    X = hide(draw(family, rng, 150, 25), rng, 0.1)
    model = SePCA(6, family=family, inference="map", n_jobs=1)
    scores = model.fit_transform(X)
    # Joint modes keep a component of noise in two of a hundred such tables.
    assert 2 <= model.n_components_ <= 3
    assert model.converged_
    assert is_monotone(model.objective_trace_, 1e-9)
    assert np.isfinite(model.evidence_)
    assert (model.components_std_ > 0).all()
    again, std = model.transform(X, return_std=True)
    np.testing.assert_allclose(again, scores, atol=1e-7)
    assert (std > 0).all()
    np.testing.assert_allclose(model.transform(X[:5]), scores[:5], atol=1e-7)


@pytest.mark.parametrize(("size", "nu"), [(2.5, 1.0), (4.0, 1.0), (3.0, 0.4)], ids=str)
def test_gaussian_singular_values_shrink_to_the_fixed_point(
    size: float, nu: float, rng: np.random.Generator
) -> None:
    """g (sigma - g) = D / nu, and components with sigma below 2 sqrt(D / nu) leave."""
    n, p = 40, 10
    left, right = (orthogonal(rng, m, 2) / np.sqrt(m) for m in (n, p))
    limit = 2.0 * np.sqrt(p / nu)
    sigma = np.array([size, 0.9]) * limit
    X = (left * sigma) @ right.T
    model = fit_mode(X, "gaussian", 2, nu=nu, dispersion=1.0, fit_intercept=False, tol=1e-10)
    assert model.n_components_ == 1
    fitted = np.linalg.norm(model.inverse_transform(model.transform(X)))
    expected = 0.5 * (sigma[0] + np.sqrt(sigma[0] ** 2 - 4 * p / nu))
    np.testing.assert_allclose(fitted, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("family", "nu"), [("gaussian", 0.3), ("gaussian", 1.0), ("poisson", 0.3), ("bernoulli", 0.3)]
)
def test_the_mode_is_stationary(family: str, nu: float, rng: np.random.Generator) -> None:
    """Of scores that are reported with unit mean square the prior has the precision D / (nu n)."""
    X = draw(family, rng, 90)
    n, p = X.shape
    model = fit_mode(X, family, nu=nu, dispersion=0.3, tol=1e-10)
    assert model.n_components_ >= 1
    scores, W, b = model.transform(X), model.components_, model.intercept_
    np.testing.assert_allclose((scores**2).mean(axis=0), 1.0, rtol=0.01)
    gradient = model.family_.evaluate(X, scores @ W + b, model.dispersion_, order=1).gradient
    np.testing.assert_allclose(gradient @ W.T, p / (nu * n) * scores, atol=1e-4)
    # Relevance is D over squared loadings.
    held = p * W / (W**2).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(nu * scores.T @ gradient, held, atol=0.01 * np.abs(held).max())
    np.testing.assert_allclose(gradient.sum(axis=0), 0.0, atol=1e-3 * n)


def test_noise_stays_with_weight_one_but_not_with_the_scaled_weight(rng: np.random.Generator) -> None:
    X = rng.standard_normal((200, 10))
    full, scaled, auto = (fit_mode(X, "gaussian", 8, nu=nu, dispersion=1.0) for nu in (1.0, "scaled", "auto"))
    assert full.n_components_ >= 4
    # nu* puts the limit at the edge of noise, 2 sqrt(D / nu*) = sqrt(n) + sqrt(D), which little of it exceeds.
    assert scaled.n_components_ <= 1
    assert scaled.nu_ == auto.nu_ == pytest.approx(4 * 10 / (np.sqrt(200) + np.sqrt(10)) ** 2)


def test_sparse_tables_threads_and_weights(rng: np.random.Generator) -> None:
    X = draw("poisson", rng, 60)
    weight = np.where(np.arange(60) < 15, 2.0, 1.0)
    settings: dict[str, Any] = {"tol": 1e-8}
    dense, twice = (fit_mode(table, "poisson", **settings) for table in (X, np.vstack([X, X[:15]])))
    for found, expected in (
        (fit_mode(X, "poisson", n_jobs=2, **settings), dense),
        (fit_mode(sp.csr_array(X), "poisson", **settings), dense),
        (fit_mode(X, "poisson", 4, {"sample_weight": weight}, **settings), twice),
    ):
        assert found.nu_ == pytest.approx(expected.nu_)
        assert found.n_components_ == expected.n_components_ == 2
        assert found.joint_log_likelihood_ == pytest.approx(expected.joint_log_likelihood_, rel=1e-6)
        assert subspace_angles(found.components_.T, expected.components_.T).max() < 1e-2


@pytest.mark.parametrize("criterion", ["evidence", "joint"])
def test_a_path_takes_the_weight_with_the_largest_criterion(criterion: str, rng: np.random.Generator) -> None:
    X = make_prototype_bits(3, samples_per_prototype=20, flip=0.1, random_state=rng).X
    weights = [0.25, 0.5, 2.0]
    model = fit_mode(X, "bernoulli", 5, nu_path=weights, nu_criterion=criterion, fit_intercept=False)
    fits = {nu: fit_mode(X, "bernoulli", 5, nu=nu, fit_intercept=False) for nu in weights}
    name = {"evidence": "evidence_", "joint": "joint_log_likelihood_"}[criterion]
    values = {nu: getattr(found, name) for nu, found in fits.items()}
    assert sorted(model.nu_path_) == weights
    for nu, found in fits.items():
        assert model.nu_path_[nu] == (pytest.approx(values[nu], rel=1e-7), found.n_components_)
    assert model.nu_ == max(values, key=values.get)
    np.testing.assert_allclose(model.components_, fits[model.nu_].components_, atol=1e-7)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"nu_path": []}, "nu_path must hold weights"),
        ({"nu_path": [0.1, 0.0]}, "nu_path"),
    ],
    ids=str,
)
def test_bad_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit_mode(np.eye(6), "poisson", **settings)

"""Penalties of scores and loadings in EPCA and GPCA: those by name, and those that a user writes."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import anypca
from anypca import EPCA, GPCA
from anypca.datasets import make_low_rank
from anypca.exceptions import ConvergenceWarning
from anypca.families import Bernoulli, Gaussian, Poisson
from anypca.linalg import PackedCholesky, packed_diagonal
from anypca.priors import L1, AdaptiveL0, Entrywise, Group, NewtonStep, Prior, Ridge, Scad, priors

FAMILIES = {"gaussian": Gaussian(), "poisson": Poisson(), "bernoulli": Bernoulli()}
#: A new prior is tested here by being registered.
NAMES = list(priors)
FOR_SCORES = [name for name in NAMES if priors.create(name).leaves_zero]


@dataclass(frozen=True, eq=False)
class Logarithm(Entrywise):
    """A user's penalty of single entries: its value and its slope are all there is to write."""

    strength: float = 1.0
    name = "logarithm"

    def penalty(self, size: np.ndarray) -> np.ndarray:
        return self.strength * np.log1p(size)

    def slope(self, size: np.ndarray) -> np.ndarray:
        return self.strength / (1.0 + size)


@dataclass(frozen=True, eq=False)
class Rounded(Prior):
    """A user's penalty of rows, ``sqrt(1 + ||u||^2) - 1``: its value and the step under a majorising ridge."""

    strength: float = 1.0
    name = "rounded"
    is_isotropic = True

    def value(self, u: np.ndarray) -> np.ndarray:
        return self.strength * (np.sqrt(1.0 + (u**2).sum(axis=1)) - 1.0)

    def newton(self, u: np.ndarray, gradient: np.ndarray, curvature: np.ndarray) -> NewtonStep:
        ridge = self.strength / np.sqrt(1.0 + (u**2).sum(axis=1, keepdims=True))
        total = curvature.copy()
        total[:, packed_diagonal(u.shape[1])] += ridge
        slope = gradient - ridge * u
        step = PackedCholesky(total, u.shape[1]).solve(slope)
        return NewtonStep(step, (slope * step).sum(axis=1))


def draw(family: str, n: int = 80, p: int = 8, **changes: Any) -> np.ndarray:
    return make_low_rank(n, p, 2, family=family, signal=0.8, random_state=0, **changes).X


def sparse_truth(family: str) -> np.ndarray:
    """A table of 20 columns, of which the first 10 are in one of two components each."""
    rng = np.random.default_rng(0)
    loadings = np.zeros((2, 20))
    loadings[0, :5], loadings[1, 5:10] = 0.8, 0.8
    eta = rng.normal(size=(300, 2)) @ loadings * (3.0 if family == "bernoulli" else 1.0)
    return FAMILIES[family].sample(eta, 0.2, rng)


def assert_monotone(model: Any) -> None:
    trace = model.objective_trace_
    assert np.diff(trace).min(initial=0.0) >= -1e-10 * (1.0 + np.abs(trace).max())


# EPCA


@pytest.mark.usefixtures("uncalibrated")
@pytest.mark.parametrize("family", list(FAMILIES))
@pytest.mark.parametrize("loadings", [*NAMES, Logarithm(2.0), Rounded(2.0)], ids=str)
@pytest.mark.parametrize("scores", [*FOR_SCORES, Logarithm(), Rounded()], ids=str)
def test_objectives_never_fall(family: str, scores: str | Prior, loadings: str | Prior) -> None:
    X = draw(family, 60, 6, missing=0.1)
    # Monotone is every sweep, whether or not so few of them end at a maximum.
    model = EPCA(2, family=family, score_penalty=scores, loading_penalty=loadings, n_jobs=1, max_iter=40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X)
    assert_monotone(model)
    assert len(model.objective_trace_) > 1


@pytest.mark.parametrize("family", list(FAMILIES))
@pytest.mark.parametrize(
    ("penalty", "strength"), [("l1", 40.0), ("scad", 20.0), ("group", 40.0), ("adaptive_l0", 8.0)]
)
def test_supports_are_found(family: str, penalty: str, strength: float) -> None:
    X = sparse_truth(family)
    model = EPCA(2, family=family, loading_penalty=penalty, loading_strength=strength, n_jobs=1).fit(X)
    assert model.converged_
    used = model.components_ != 0
    np.testing.assert_array_equal(used.any(axis=0), np.arange(20) < 10)
    if penalty == "group":
        np.testing.assert_array_equal(used.all(axis=0), used.any(axis=0))
        np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(2), atol=1e-10)
        assert abs(np.corrcoef(model.transform(X).T)[0, 1]) < 1e-3
    else:
        np.testing.assert_array_equal(used.sum(axis=1), 5)
        np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1.0, rtol=1e-12)


def objective(model: EPCA, X: np.ndarray, scores: np.ndarray, loadings: np.ndarray) -> float:
    """The penalised log-likelihood, less the fit's constants, of a poisson model with unpenalised intercepts."""
    eta = model.intercept_ + scores @ loadings.T
    likelihood = Poisson().log_likelihood(X, eta, np.ones(X.shape[1])).sum()
    return float(
        likelihood - Scad(2.0).value(loadings).sum() - 0.5 * (loadings**2).sum() - 0.5 * (scores**2).sum()
    )


def test_a_fit_is_a_maximum_of_the_objective_as_it_is_written() -> None:
    X = draw("poisson")
    model = EPCA(
        2, family="poisson", loading_penalty="scad", loading_strength=2.0, n_jobs=1, tol=1e-8, max_iter=5000
    )
    model.fit(X)
    # Back to the coordinates of the fit: its ridge makes scores and loadings of a component equally large, but for
    # what scad adds, so that the scale is found by trying.
    scores = model.transform(X)
    scales = np.exp(np.linspace(-6.0, 6.0, 4001))
    best = []
    for a in range(2):
        z, w = scores[:, a : a + 1], model.components_[a : a + 1].T
        cost = [
            float(Scad(2.0).value(s * w).sum() + 0.5 * ((s * w) ** 2).sum() + 0.5 * ((z / s) ** 2).sum())
            for s in scales
        ]
        best.append(scales[int(np.argmin(cost))])
    size = np.array(best)
    found = objective(model, X, scores / size, model.components_.T * size)
    np.testing.assert_allclose(found, model.objective_trace_[-1], rtol=1e-6)
    rng = np.random.default_rng(0)
    for _ in range(50):
        nearby = scores / size + 1e-2 * rng.normal(size=scores.shape)
        loadings = model.components_.T * size + 1e-2 * rng.normal(size=(X.shape[1], 2))
        assert objective(model, X, nearby, loadings) < found


@pytest.mark.parametrize("penalty", ["ridge", Ridge(), Ridge(np.ones(2))], ids=["name", "number", "array"])
def test_a_ridge_is_a_ridge_however_it_is_said(penalty: str | Prior) -> None:
    X = draw("poisson")
    plain = EPCA(2, family="poisson", ridge=3.0, n_jobs=1).fit(X)
    other = EPCA(
        2, family="poisson", ridge=3.0, score_penalty=penalty, loading_penalty=penalty, n_jobs=1
    ).fit(X)
    np.testing.assert_array_equal(other.components_, plain.components_)


def test_a_ridge_of_each_side_is_a_ridge_of_their_geometric_mean() -> None:
    X = draw("poisson")
    plain = EPCA(2, family="poisson", ridge=3.0, n_jobs=1, tol=1e-8).fit(X)
    other = EPCA(
        2,
        family="poisson",
        ridge=1.0,
        score_penalty=Ridge(9.0),
        loading_penalty=Ridge(1.0),
        n_jobs=1,
        tol=1e-8,
    ).fit(X)
    np.testing.assert_allclose(other.components_, plain.components_, atol=1e-5)
    np.testing.assert_allclose(other.transform(X), plain.transform(X), atol=1e-4)


def test_a_ridge_of_single_columns_shrinks_these() -> None:
    X = draw("poisson")
    heavy = Ridge(1.0, np.where(np.arange(8) < 2, 1e4, 1.0))
    model = EPCA(2, family="poisson", loading_penalty=heavy, n_jobs=1, max_iter=3000).fit(X)
    assert_monotone(model)
    assert np.abs(model.components_[:, :2]).max() < 0.05 * np.abs(model.components_).max()


def test_strengths_multiply() -> None:
    X = draw("poisson")
    settings: dict[str, Any] = {"family": "poisson", "n_jobs": 1, "tol": 1e-7, "max_iter": 3000}
    named = EPCA(
        2, loading_penalty="group", loading_strength=6.0, score_penalty="l1", l1_strength=2.0, **settings
    )
    given = EPCA(2, loading_penalty=Group(3.0), loading_strength=2.0, score_penalty="l1(2)", **settings)
    np.testing.assert_allclose(named.fit(X).components_, given.fit(X).components_, atol=1e-5)


@pytest.mark.parametrize("scores", ["l1", "scad", "group", Logarithm(), Rounded()], ids=str)
def test_new_rows_have_the_scores_of_training_rows(scores: str | Prior) -> None:
    """Transform solves rows under the penalty of the fit, in the coordinates of the report."""
    X = draw("poisson")
    model = EPCA(
        2, family="poisson", score_penalty=scores, l1_strength=2.0, n_jobs=1, tol=1e-8, max_iter=5000
    ).fit(X)
    found = model.transform(X)
    np.testing.assert_allclose(np.mean(found**2, axis=0), model.explained_variance_, rtol=1e-3)
    if scores in ("l1", "scad"):
        assert 0 < np.sum(found == 0) < found.size
    deviance = Poisson().deviance(X, model.intercept_ + found @ model.components_).sum()
    np.testing.assert_allclose(deviance, model.deviance_, rtol=1e-5)
    assert np.all(np.isfinite(model.transform(X, return_std=True)[1]))


@pytest.mark.parametrize("penalty", ["l1", "scad", "group"])
def test_units_of_gaussian_columns_do_not_matter(penalty: str) -> None:
    X = draw("gaussian")
    settings: dict[str, Any] = {"family": "gaussian", "loading_penalty": penalty, "loading_strength": 5.0}
    one, other = (
        EPCA(2, n_jobs=1, tol=1e-7, max_iter=3000, **settings).fit(scale * X) for scale in (1.0, 1e3)
    )
    np.testing.assert_allclose(other.components_, one.components_, atol=1e-4)
    np.testing.assert_array_equal(other.components_ == 0, one.components_ == 0)


def test_covariates_and_intercepts_are_free() -> None:
    rng = np.random.default_rng(0)
    c = rng.normal(size=(200, 1))
    X = rng.poisson(np.exp(1.0 + c @ np.full((1, 6), 0.5)))
    model = EPCA(1, family="poisson", loading_penalty="l1", loading_strength=1e4, n_jobs=1).fit(
        X, covariates=c
    )
    np.testing.assert_array_equal(model.components_, 0.0)
    np.testing.assert_allclose(model.coef_[:, 0], 0.5, atol=0.1)
    plain = EPCA(0, family="poisson", n_jobs=1).fit(X, covariates=c)
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-4)
    np.testing.assert_allclose(model.intercept_, plain.intercept_, atol=1e-4)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        (
            {"score_penalty": "l1", "ridge": 0.0},
            "score_penalty='l1' .* needs ridge > 0: .* holds the loadings",
        ),
        ({"loading_penalty": "group", "ridge": 0.0}, "needs ridge > 0: .* holds the scores"),
        (
            {"loading_penalty": "scad", "score_penalty": "l1", "ridge": 0.0},
            "needs ridge > 0: .* holds the loadings",
        ),
        ({"score_penalty": "adaptive_l0"}, "keeps scores at zero"),
        ({"loading_penalty": "lasso"}, "loading_penalty='lasso'.*Did you mean 'l1'"),
        ({"loading_penalty": L1(np.array([1.0, 2.0]))}, "loading_penalty must treat all components alike"),
        ({"loading_strength": -1.0}, "loading_strength"),
    ],
)
def test_errors_say_what_to_do(settings: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        EPCA(2, family="poisson", **settings).fit(draw("poisson"))


def test_without_a_ridge_two_penalties_that_grow_are_enough() -> None:
    model = EPCA(
        2, family="poisson", ridge=0.0, score_penalty="l1", loading_penalty="l1", n_jobs=1, max_iter=3000
    )
    assert_monotone(model.fit(draw("poisson")))


# What a user writes, from one file to a saved model


@pytest.mark.parametrize("family", list(FAMILIES))
@pytest.mark.parametrize("prior", [Logarithm(), Rounded()], ids=str)
def test_a_prior_of_a_user_serves_gpca_too(family: str, prior: Prior) -> None:
    model = GPCA(2, family=family, penalty=prior, alpha=0.05, n_jobs=1).fit(draw(family))
    assert model.converged_
    assert_monotone(model)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(2), atol=1e-10)
    if isinstance(prior, Entrywise):
        strong = clone(model).set_params(alpha=0.5).fit(draw(family))
        assert np.count_nonzero(strong.components_) < model.components_.size


def test_a_registered_prior_is_known_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priors, "_factories", dict(priors._factories))
    priors.register(Logarithm)
    X = draw("poisson")
    settings: dict[str, Any] = {"family": "poisson", "n_jobs": 1}
    for model, other in (
        (EPCA(2, loading_penalty="logarithm", **settings), EPCA(2, loading_penalty=Logarithm(), **settings)),
        (GPCA(2, penalty="logarithm(2)", **settings), GPCA(2, penalty=Logarithm(2.0), **settings)),
    ):
        np.testing.assert_array_equal(model.fit(X).components_, other.fit(X).components_)


def test_penalties_are_searched_like_other_parameters() -> None:
    X = draw("poisson")
    grid = {"loading_penalty": ["l1", Group()], "loading_strength": [1.0, 5.0]}
    search = GridSearchCV(EPCA(2, family="poisson", n_jobs=1, max_iter=3000), grid, cv=2).fit(X)
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))


@pytest.mark.parametrize(
    "model",
    [
        EPCA(2, family="poisson", score_penalty="scad", loading_penalty=Group(2.0), n_jobs=1, max_iter=3000),
        EPCA(2, family="poisson", loading_penalty=AdaptiveL0(0.1, 2.0), n_jobs=1),
        GPCA(2, family="poisson", penalty=Scad(2.0, flat=0.5), n_jobs=1),
        GPCA(2, family="poisson", penalty="group", n_jobs=1),
    ],
    ids=str,
)
def test_saved_models_keep_their_penalty(model: Any, tmp_path: Path) -> None:
    X = draw("poisson")
    model.fit(X)
    anypca.save(model, tmp_path / "model.skops")
    again = anypca.load(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    refitted = clone(again).fit(X)
    np.testing.assert_array_equal(refitted.components_, model.components_)

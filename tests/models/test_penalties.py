"""Penalties of scores and loadings in EPCA and GPCA: those by name, and those that a user writes."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from tests.draws import seed
from tests.models.tables import is_monotone

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


def draw(family: str, n: int = 80, p: int = 8) -> np.ndarray:
    return np.asarray(make_low_rank(n, p, 2, family=family, signal=0.8, random_state=seed()).X)


def sparse_truth(family: str, rng: np.random.Generator) -> np.ndarray:
    """A table of 20 columns, of which the first 10 are in one of two components each."""
    loadings = np.zeros((2, 20))
    loadings[0, :5], loadings[1, 5:10] = 1.0, 0.8
    scores = np.linalg.qr(rng.normal(size=(300, 2)))[0] * np.sqrt(300)
    return FAMILIES[family].sample(scores @ loadings * (3.0 if family == "bernoulli" else 1.0), 0.2, rng)


# EPCA


CYCLE = [*FOR_SCORES, Logarithm(), Rounded()]
PENALTIES = [
    (loading, CYCLE[(i + shift) % len(CYCLE)])
    for i, loading in enumerate([*NAMES, Logarithm(2.0), Rounded(2.0)])
    for shift in (0, 2)
]


@pytest.mark.parametrize("family", list(FAMILIES))
@pytest.mark.parametrize(("loadings", "scores"), PENALTIES, ids=str)
def test_objectives_never_fall(family: str, scores: str | Prior, loadings: str | Prior) -> None:
    # Monotone is every sweep, whether or not so few of them end at a maximum.
    model = EPCA(2, family=family, score_penalty=scores, loading_penalty=loadings, n_jobs=1, max_iter=40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(draw(family, 60, 6))
    assert is_monotone(model.objective_trace_)
    assert len(model.objective_trace_) > 1


@pytest.mark.parametrize("family", list(FAMILIES))
@pytest.mark.parametrize(
    ("penalty", "strength"), [("l1", 40.0), ("scad", 20.0), ("group", 40.0), ("adaptive_l0", 8.0)]
)
def test_supports_are_found(family: str, penalty: str, strength: float, rng: np.random.Generator) -> None:
    X = sparse_truth(family, rng)
    model = EPCA(
        2, family=family, loading_penalty=penalty, loading_strength=strength, n_jobs=1, max_iter=2000
    ).fit(X)
    used = model.components_ != 0
    wrong = used.any(axis=0) != (np.arange(20) < 10)
    assert wrong.sum() <= 2
    if penalty == "group":
        np.testing.assert_array_equal(used.all(axis=0), used.any(axis=0))
        np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(2), atol=1e-10)
        assert abs(np.corrcoef(model.transform(X).T)[0, 1]) < 1e-2
    else:
        np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1.0, rtol=1e-12)


def test_a_fit_is_a_maximum_of_the_objective_as_it_is_written(rng: np.random.Generator) -> None:
    X = draw("poisson")
    settings: dict[str, Any] = {"loading_penalty": "scad", "loading_strength": 2.0, "ridge": 1.0}
    model = EPCA(2, family="poisson", n_jobs=1, tol=1e-8, max_iter=5000, **settings).fit(X)

    def cost(scores: np.ndarray, loadings: np.ndarray) -> float:
        squares = (loadings**2).sum() + (scores**2).sum()
        return float(Scad(2.0).value(loadings).sum() + 0.5 * squares)

    def objective(scores: np.ndarray, loadings: np.ndarray) -> float:
        eta = model.intercept_ + scores @ loadings.T
        likelihood = Poisson().log_likelihood(X, eta, np.ones(X.shape[1])).sum()
        return float(likelihood - cost(scores, loadings))

    # The ridge makes scores and loadings of a component equally large, except for what scad adds: try scales.
    scores, loadings = model.transform(X), model.components_.T
    trial = np.exp(np.linspace(-6.0, 6.0, 4001))
    size = np.array(
        [trial[np.argmin([cost(scores[:, [a]] / s, s * loadings[:, [a]]) for s in trial])] for a in range(2)]
    )
    found = objective(scores / size, loadings * size)
    np.testing.assert_allclose(found, model.objective_trace_[-1], rtol=1e-6)
    for _ in range(50):
        nearby = scores / size + 1e-2 * rng.normal(size=scores.shape)
        assert objective(nearby, loadings * size + 1e-2 * rng.normal(size=loadings.shape)) < found


@pytest.mark.parametrize("penalty", ["ridge", Ridge(), Ridge(np.ones(2))], ids=["name", "number", "array"])
def test_a_ridge_is_a_ridge_however_it_is_given(penalty: str | Prior) -> None:
    X = draw("poisson")
    settings: dict[str, Any] = {"family": "poisson", "n_jobs": 1, "tol": 1e-8}
    plain = EPCA(2, ridge=3.0, **settings).fit(X)
    other = EPCA(2, ridge=3.0, score_penalty=penalty, loading_penalty=penalty, **settings).fit(X)
    np.testing.assert_array_equal(other.components_, plain.components_)
    # Ridges of the two sides are a ridge of their geometric mean.
    mean = EPCA(2, ridge=1.0, score_penalty=Ridge(9.0), loading_penalty=Ridge(1.0), **settings).fit(X)
    np.testing.assert_allclose(mean.components_, plain.components_, atol=1e-4)
    np.testing.assert_allclose(mean.transform(X), plain.transform(X), atol=1e-3)
    heavy = Ridge(1.0, np.where(np.arange(8) < 2, 1e4, 1.0))
    shrunk = EPCA(2, loading_penalty=heavy, max_iter=3000, family="poisson", n_jobs=1).fit(X)
    assert is_monotone(shrunk.objective_trace_)
    assert np.abs(shrunk.components_[:, :2]).max() < 0.05 * np.abs(shrunk.components_).max()


def test_stronger_penalties_of_scores_leave_more_zeros() -> None:
    X, shares = draw("poisson"), []
    for strength in (3.0, 10.0, 1e4):
        model = EPCA(2, family="poisson", score_penalty="l1", l1_strength=strength, max_iter=5000, n_jobs=1)
        shares.append(float((model.fit(X).transform(X) == 0.0).mean()))
        # A component without scores has no direction.
        assert set(np.round(np.linalg.norm(model.components_, axis=1), 6)) <= {0.0, 1.0}
    assert 0.0 < shares[0] < shares[1] <= shares[2] == 1.0


@pytest.mark.filterwarnings("ignore:.* stalled:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("scores", ["l1", "scad", "group", Logarithm(), Rounded()], ids=str)
def test_new_rows_have_the_scores_of_training_rows(scores: str | Prior) -> None:
    """Transform solves rows under the penalty of the fit, in the coordinates of the report."""
    X = draw("poisson")
    model = EPCA(
        2, family="poisson", score_penalty=scores, l1_strength=2.0, n_jobs=1, tol=1e-7, max_iter=5000
    ).fit(X)
    found = model.transform(X)
    np.testing.assert_allclose(np.mean(found**2, axis=0), model.explained_variance_, rtol=2e-3)
    deviance = Poisson().deviance(X, model.intercept_ + found @ model.components_).sum()
    np.testing.assert_allclose(deviance, model.deviance_, rtol=1e-4)
    assert np.all(np.isfinite(model.transform(X, return_std=True)[1]))


def test_covariates_and_intercepts_are_free(rng: np.random.Generator) -> None:
    c = rng.normal(size=(200, 1))
    X = rng.poisson(np.exp(1.0 + c @ np.full((1, 6), 0.5)))
    given: dict[str, Any] = {"family": "poisson", "n_jobs": 1}
    model = EPCA(1, loading_penalty="l1", loading_strength=1e4, **given).fit(X, covariates=c)
    np.testing.assert_array_equal(model.components_, 0.0)
    plain = EPCA(0, **given).fit(X, covariates=c)
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-4)
    np.testing.assert_allclose(model.intercept_, plain.intercept_, atol=1e-4)


BAD = [
    ({"score_penalty": "l1", "ridge": 0.0}, "score_penalty='l1' .* needs ridge > 0: .* holds the loadings"),
    ({"loading_penalty": "group", "ridge": 0.0}, "needs ridge > 0: .* holds the scores"),
    ({"loading_penalty": "scad", "score_penalty": "l1", "ridge": 0.0}, "needs ridge > 0: .*the loadings"),
    ({"score_penalty": "adaptive_l0"}, "keeps scores at zero"),
    ({"loading_penalty": "lasso"}, "loading_penalty='lasso'.*Did you mean 'l1'"),
    ({"loading_penalty": L1(np.array([1.0, 2.0]))}, "loading_penalty must treat all components alike"),
    ({"loading_strength": -1.0}, "loading_strength"),
]


@pytest.mark.parametrize(("settings", "match"), BAD)
def test_errors_say_what_to_do(settings: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        EPCA(2, family="poisson", **settings).fit(draw("poisson"))


# What a user writes, from one file to a saved model


def test_a_registered_prior_is_found_by_its_name() -> None:
    """It may take the place of one that is there, which is put back here."""

    class Registered(Logarithm):
        name = "l1"

    X = draw("poisson")
    settings: dict[str, Any] = {"family": "poisson", "n_jobs": 1}
    priors.register(Registered)
    try:
        epca = EPCA(2, loading_penalty="l1", **settings).fit(X)
        gpca = GPCA(2, penalty="l1(2)", bound=4.0, **settings).fit(X)
    finally:
        priors.register(L1)
    for model, other in (
        (epca, EPCA(2, loading_penalty=Logarithm(), **settings)),
        (gpca, GPCA(2, penalty=Logarithm(2.0), bound=4.0, **settings)),
    ):
        np.testing.assert_array_equal(model.components_, other.fit(X).components_)


@pytest.mark.parametrize(
    "model",
    [
        EPCA(2, family="poisson", score_penalty="scad", loading_penalty=Group(2.0), tol=1e-2, max_iter=3000),
        EPCA(2, family="poisson", loading_penalty=AdaptiveL0(0.1, 2.0), tol=1e-3),
        GPCA(2, family="poisson", penalty=Scad(2.0, flat=0.5), bound=4.0, tol=1e-3),
        GPCA(2, family="poisson", penalty="group", bound=4.0, tol=1e-3),
    ],
    ids=str,
)
def test_saved_models_keep_their_penalty(model: Any, tmp_path: Path) -> None:
    X = draw("poisson")
    model.set_params(n_jobs=1).fit(X)
    anypca.save(model, tmp_path / "model.skops")
    again = anypca.load(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    np.testing.assert_array_equal(clone(again).fit(X).components_, model.components_)

"""BEPCA: exact posteriors of small tables, reproducible draws, and what is reported of them."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import pytest
from scipy.stats import invgamma
from tests.draws import seed
from tests.models.quadrature import (
    FAMILIES,
    Grid,
    assert_drawn_means,
    normal_nodes,
    quantile_nodes,
    small_table,
    solve,
)

from anypca import BEPCA
from anypca.datasets import make_prototype_bits
from anypca.exceptions import ConvergenceWarning
from anypca.families import Gaussian

for module in ("nutpie", "arviz", "polyagamma"):
    pytest.importorskip(module)


def fit(X: Any, k: int = 1, **settings: Any) -> BEPCA:
    """Fit by short chains; they may be too short for a small R-hat, which is no matter here."""
    chosen = {"n_draws": 20, "n_tune": 20, "n_chains": 2, "n_jobs": 1, "random_state": seed(0), **settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return BEPCA(k, **chosen).fit(X)


def loading_nodes(family: str, value: float, weight: float) -> tuple[np.ndarray, np.ndarray]:
    """The conjugate prior: as many observations of a value as ``weight`` says."""
    nodes = np.linspace(-7.0, 4.0, 45)
    # The term in the values alone does not depend on the nodes.
    mass = np.exp(weight * FAMILIES[family][0](value, nodes))
    mass /= mass.sum()
    kept = mass > 1e-12
    return nodes[kept], mass[kept]


def grid_of(X: np.ndarray, family: str, fit_intercept: bool) -> Grid:
    """Loadings, an intercept, mean and variance of the scores; then scores of a row."""
    value = float(FAMILIES[family][1](np.zeros(1))[0])
    axes = [loading_nodes(family, value, 4.0)] * X.shape[1]
    axes += [loading_nodes(family, float(X.mean()), 1.0)] if fit_intercept else []
    axes += [normal_nodes(8), (quantile_nodes(invgamma(10.0, scale=2.5), 8), np.full(8, 1 / 8))]
    nodes = [part.ravel() for part in np.meshgrid(*(axis[0] for axis in axes), indexing="ij")]
    weights = np.meshgrid(*(axis[1] for axis in axes), indexing="ij")
    own, own_weight = normal_nodes(10)
    scores = nodes[-2][:, None] + np.sqrt(nodes[-1])[:, None] * own
    w = np.stack(nodes[: X.shape[1]], axis=-1)
    eta = scores[..., None] * w[:, None] + (nodes[X.shape[1]][:, None, None] if fit_intercept else 0.0)
    weight = np.prod([part.ravel() for part in weights], axis=0)
    return Grid(weight, eta, np.broadcast_to(own_weight, scores.shape))


@pytest.mark.parametrize(
    ("family", "sampler", "fit_intercept"),
    [
        ("gaussian", "gibbs", False),
        ("gaussian", "gibbs", True),
        ("bernoulli", "gibbs", False),
        ("bernoulli", "nuts", False),
        ("poisson", "auto", True),
        ("exponential", "auto", False),
    ],
)
def test_draws_have_the_posterior(
    family: str, sampler: str, fit_intercept: bool, rng: np.random.Generator
) -> None:
    X = small_table(family, rng, 1 if fit_intercept else 2)
    settings = {"dispersion": 1.0, "fit_intercept": fit_intercept, "sampler": sampler}
    model = fit(X, family=family, n_draws=400, n_tune=150, n_chains=4, **settings)
    new = np.array([[0.0] * X.shape[1], [1.0] * X.shape[1]]) + (family == "exponential")
    means, probabilities = solve(X, family, grid_of(X, family, fit_intercept), new)
    assert_drawn_means(model, means)
    # Of new rows an average over 64 of the draws is reported.
    np.testing.assert_allclose(np.exp(model.score_samples(new)), probabilities, rtol=0.25)


@pytest.fixture(scope="module")
def bits() -> Any:
    return make_prototype_bits(missing=0.1, random_state=seed(11))


@pytest.fixture(scope="module")
def model(bits: Any) -> BEPCA:
    return fit(bits.X, 5, family="bernoulli", fit_intercept=False, n_draws=100, n_tune=60)


def test_bits_are_predicted_nearly_as_by_the_truth(model: BEPCA, bits: Any) -> None:
    rows, columns = np.nonzero(np.isnan(bits.X))
    answers = bits.complete[rows, columns]
    found = model.entry_log_likelihood(bits.X, rows, columns, answers)
    truth = np.log(np.where(bits.complete == 1, bits.mean, 1 - bits.mean)[rows, columns])
    assert found.mean() > truth.mean() - 0.2
    filled = model.impute(bits.X)[rows, columns]
    np.testing.assert_allclose(np.where(answers == 1, filled, 1 - filled), np.exp(found), atol=1e-10)


def test_what_is_reported_are_moments_of_the_draws(model: BEPCA, bits: Any) -> None:
    draws = model.posterior_.posterior
    n, p = bits.X.shape
    assert draws["scores"].shape == (2, 100, n, 5)
    assert draws["loadings"].shape == (2, 100, 5, p)
    loadings = draws["loadings"].values
    np.testing.assert_allclose(loadings.mean(axis=(0, 1)), model.components_, atol=1e-9)
    np.testing.assert_allclose(loadings.std(axis=(0, 1)), model.components_std_, rtol=0.01)
    np.testing.assert_allclose((draws["scores"].values ** 2).mean(axis=2), 1.0, atol=1e-8)
    assert set(model.r_hat_) == set(model.ess_)
    assert len(model.objective_trace_) == model.n_iter_ == 100
    assert model.rank_ == max(model.bic_by_rank_, key=model.bic_by_rank_.get)
    assert sorted(model.bic_by_rank_) == list(range(6))
    # Three prototypes, of which no two are alike.
    assert 2 <= model.rank_ <= 4


def test_answers_about_rows_are_probabilities(model: BEPCA, bits: Any, rng: np.random.Generator) -> None:
    X = np.tile(rng.integers(0, 2, 16).astype(float), (5, 1))
    X[:4, :2] = [[0, 0], [0, 1], [1, 0], [1, 1]]
    X[4, :2] = np.nan
    found = np.exp(model.score_samples(X))
    np.testing.assert_allclose(found[:4].sum(), found[4], rtol=0.15)
    drawn = model.sample(4000, random_state=seed(0))
    assert set(np.unique(drawn)) == {0.0, 1.0}
    np.testing.assert_allclose(drawn.mean(axis=0), np.nanmean(bits.X, axis=0), atol=0.2)


def test_units_of_real_columns_do_not_matter(rng: np.random.Generator) -> None:
    X = rng.standard_normal((40, 1)) @ rng.uniform(1.0, 2.0, (1, 5)) + rng.standard_normal((40, 5))
    scale = np.array([1.0, 10.0, 0.1, 1.0, 1.0])
    plain, scaled = (
        fit(table, 1, family=[Gaussian(float(v)) for v in variances])
        for table, variances in ((X, np.ones(5)), (X * scale, scale**2))
    )
    sign = np.sign(scaled.components_[0, 0] * plain.components_[0, 0])  # the largest loading is another
    np.testing.assert_allclose(sign * scaled.components_, plain.components_ * scale, rtol=1e-5)
    np.testing.assert_allclose(sign * scaled.transform(X * scale), plain.transform(X), atol=1e-5)


def test_dispersions_and_intercepts(rng: np.random.Generator) -> None:
    X = 20.0 + 2.0 * rng.standard_normal((80, 1)) * rng.choice([-1.0, 1.0], 6) + rng.standard_normal((80, 6))
    model = fit(X, family="gaussian")
    # The standard error is 7 %.
    assert model.dispersion_[0] == pytest.approx(1.0, abs=0.4)
    np.testing.assert_allclose(model.intercept_, X.mean(axis=0), atol=1.0)
    given, known = (fit(X, family=family, dispersion=2.5) for family in ("gaussian", Gaussian(0.7)))
    np.testing.assert_array_equal([given.dispersion_[0], known.dispersion_[0]], [2.5, 0.7])
    assert not fit(X, family="gaussian", fit_intercept=False).intercept_.any()


def test_chains_that_disagree_are_reported(bits: Any) -> None:
    """Ten draws from a far start cannot agree."""
    with pytest.warns(ConvergenceWarning, match="R-hat"):
        model = BEPCA(4, family="bernoulli", n_draws=10, n_tune=1, random_state=seed(0)).fit(bits.X)
    assert not model.converged_


@pytest.mark.parametrize("name", ["nutpie", "arviz"])
def test_missing_modules_are_named_with_the_remedy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"anypca\[mcmc\]"):
        fit(np.eye(5), family="poisson")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sampler": "gibbs"}, "sampler='gibbs'"),
        ({"prior_value": 0.0}, "prior_value"),
        ({"n_components": 99}, "n_components=99"),
        ({"n_draws": 10**9}, "fewer draws"),
    ],
    ids=str,
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BEPCA(**{"family": "poisson", **settings}).fit(np.eye(12, 4) + 1.0)

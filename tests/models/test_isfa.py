"""ISFA: exact posteriors of small tables, the numbers of factors, and what is reported of draws."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy.stats import gamma
from tests.draws import seed
from tests.models.quadrature import Grid, assert_drawn_means, normal_nodes, quantile_nodes, small_table, solve

from anypca import ISFA
from anypca.datasets import make_prototype_bits
from anypca.exceptions import ConvergenceWarning

for module in ("nutpie", "arviz", "polyagamma"):
    pytest.importorskip(module)


def fit(X: Any, **settings: Any) -> ISFA:
    """Fit by a short chain; it may be too short for a small R-hat, which is no matter here."""
    chosen = {"n_draws": 20, "n_tune": 20, "n_chains": 1, "n_jobs": 1, "random_state": seed(0), **settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return ISFA(**chosen).fit(X)


def grid_of_one_factor() -> Grid:
    """Two loadings of precision tau ~ Gamma(1, 4), the share of rows with the factor, and what a row has of it."""
    nodes, weights = normal_nodes(24)
    a, b, tau, share = (
        part.ravel()
        for part in np.meshgrid(
            nodes, nodes, quantile_nodes(gamma(1.0, scale=0.25), 30), (np.arange(6) + 0.5) / 6, indexing="ij"
        )
    )
    weight = np.multiply.outer(np.outer(weights, weights), np.full((30, 6), 1 / 180)).ravel()
    loadings = np.stack([a, b], axis=-1) / np.sqrt(tau)[:, None]
    own, own_weight = normal_nodes(14)
    own, own_weight = np.r_[0.0, own], np.r_[0.0, own_weight]
    row_weight = share[:, None] * own_weight
    row_weight[:, 0] = 1.0 - share
    return Grid(weight, own[:, None] * loadings[:, None], row_weight)


@pytest.mark.parametrize(
    ("family", "mask"),
    [
        ("gaussian", "scores"),
        ("bernoulli", "scores"),
        ("bernoulli", "loadings"),
        ("poisson", "scores"),
        ("exponential", "loadings"),
    ],
)
def test_draws_of_one_factor_have_the_posterior(family: str, mask: str, rng: np.random.Generator) -> None:
    Z = small_table(family, rng)
    means, _ = solve(Z, family, grid_of_one_factor())
    settings = {"sampler": "finite", "max_factors": 1, "concentration": 1.0, "fit_intercept": False}
    turn = (lambda table: table.T) if mask == "loadings" else (lambda table: table)
    drawn = {"n_draws": 300, "n_chains": 4, "dispersion": 1.0}
    model = fit(turn(Z), family=family, mask=mask, **settings, **drawn)
    assert_drawn_means(model, turn(means))
    assert model.n_factors_.max() <= 1


@pytest.fixture(scope="module")
def bits() -> Any:
    return make_prototype_bits(missing=0.1, random_state=seed(12))


@pytest.fixture(scope="module", params=["scores", "loadings"])
def model(request: pytest.FixtureRequest, bits: Any) -> ISFA:
    return fit(bits.X, family="bernoulli", fit_intercept=False, mask=request.param, n_draws=30, n_tune=150)


def test_bits_are_predicted_nearly_as_by_the_truth(model: ISFA, bits: Any) -> None:
    rows, columns = np.nonzero(np.isnan(bits.X))
    found = model.entry_log_likelihood(bits.X, rows, columns, bits.complete[rows, columns]).mean()
    truth = np.where(bits.complete == 1, bits.mean, 1 - bits.mean)[rows, columns]
    assert found > np.log(truth).mean() - 0.25


def test_what_is_reported_follows_from_the_draws(model: ISFA, bits: Any) -> None:
    k, (n, p) = model.n_components_, bits.X.shape
    assert model.n_factors_.shape == model.n_used_.shape == (1, 30)
    assert (model.n_used_ <= model.n_factors_).all()
    assert k == np.bincount(model.n_used_.ravel()).argmax()
    np.testing.assert_array_equal(model.posterior_.sample_stats["n_used"].values, model.n_used_)
    assert model.components_.shape == model.components_std_.shape == (k, p)
    assert model.inclusion_.shape == (k, n if model.mask == "scores" else p)
    assert ((model.inclusion_ >= 0) & (model.inclusion_ <= 1)).all()
    scores, std = model.transform(bits.X, return_std=True)
    assert scores.shape == std.shape == (n, k)
    assert model.inverse_transform(scores).shape == (n, p)
    assert set(np.unique(model.sample(50, random_state=0))) <= {0.0, 1.0}
    if model.mask == "loadings":
        np.testing.assert_array_equal(model.components_ == 0, model.inclusion_ < 0.5)
        assert model.describe().has_sparse_loadings


def test_answers_about_rows_are_probabilities(model: ISFA, rng: np.random.Generator) -> None:
    X = np.tile(rng.integers(0, 2, 16).astype(float), (5, 1))
    X[:4, :2] = [[0, 0], [0, 1], [1, 0], [1, 1]]
    X[4, :2] = np.nan
    found = np.exp(model.score_samples(X))
    np.testing.assert_allclose(found[:4].sum(), found[4], rtol=0.3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"n_draws": 5}, "n_draws"), ({"mask": "rows"}, "mask"), ({"concentration": 0.0}, "concentration")],
    ids=str,
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ISFA(family="bernoulli", **settings).fit(np.eye(6))

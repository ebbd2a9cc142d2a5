"""VAE: probabilistic PCA as its linear case, its likelihood against quadrature, and what is reported of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm, poisson
from tests.draws import seed
from tests.models.tables import is_monotone

from anypca import PPCA, VAE
from anypca.datasets import make_low_rank
from anypca.families import families

pytestmark = [
    pytest.mark.filterwarnings("ignore::anypca.exceptions.ConvergenceWarning"),
]
MIXED = ["gaussian", "poisson", "bernoulli", "negative_binomial", "gamma", "gaussian"]
FAMILIES = [*(family for name in families for family in families[name].examples()), MIXED]


def draw(family: Any, rng: np.random.Generator, n: int = 60, signal: float = 0.8) -> np.ndarray:
    X = make_low_rank(n, 6, 2, family=family, signal=signal, dispersion=0.3, random_state=rng).X
    return np.asarray(X)


def with_holes(X: np.ndarray) -> np.ndarray:
    rows = np.arange(len(X))
    X = X.copy()
    X[rows, rows % X.shape[1]] = np.nan
    return X


def fit(X: Any, family: Any, k: int = 2, *, offset: Any = None, **settings: Any) -> VAE:
    chosen = {"max_iter": 12, "score_draws": 30, "random_state": seed(0), "n_jobs": 1, **settings}
    return VAE(k, family=family, **chosen).fit(X, offset=offset)


# The model


@pytest.mark.parametrize("k", [1, 2])
def test_without_hidden_layers_rows_are_normal(k: int, rng: np.random.Generator) -> None:
    """Means of latents give the loadings; rows then have one normal distribution, as in probabilistic PCA."""
    X = 3.0 + 5.0 * draw("gaussian", rng, 200)
    model = fit(X, "gaussian", k, hidden_layer_sizes=(), score_draws=200)
    b = model.inverse_transform(np.zeros((1, k)))[0]
    W = model.inverse_transform(np.eye(k)) - b
    noise = np.diag(model.dispersion_)
    # The resolution of columns that are no lattice enters as a constant of each.
    exact = multivariate_normal(b, W.T @ W + noise).logpdf(X)
    np.testing.assert_allclose(model.score_samples(X), exact, atol=1e-6)
    precision = np.eye(k) + W @ np.linalg.solve(noise, W.T)
    expected = np.linalg.solve(precision, W @ np.linalg.solve(noise, (X - b).T)).T
    scores, std = model.transform(X, return_std=True)
    np.testing.assert_allclose(scores, expected, atol=1e-6)
    np.testing.assert_allclose(
        std, np.broadcast_to(np.sqrt(np.diag(np.linalg.inv(precision))), std.shape), rtol=1e-6
    )
    # It starts at the maximum of the likelihood, whose divisor is the number of rows.
    assert model.score(X) == pytest.approx(PPCA(k).fit(X).score(X), abs=0.1)


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_the_likelihood_and_the_modes_are_those_of_quadrature(family: str, rng: np.random.Generator) -> None:
    X = draw(family, rng)
    model = fit(X, family, 1, hidden_layer_sizes=8, score_draws=1000, learning_rate_init=0.01)
    grid = np.linspace(-7.0, 7.0, 1401)
    means, scores = model.inverse_transform(grid[:, None]), model.transform(X)

    def height(rows: np.ndarray, means: np.ndarray, z: np.ndarray) -> np.ndarray:
        if family == "gaussian":
            values = norm.logpdf(rows, means, np.sqrt(model.dispersion_))
        else:
            values = poisson.logpmf(rows, means)
        return np.asarray(values.sum(axis=-1) + norm.logpdf(z))

    heights = height(X[:, None], means, grid)
    exact = logsumexp(heights, axis=1) + np.log(grid[1] - grid[0])
    np.testing.assert_allclose(model.score_samples(X), exact, atol=0.25)
    assert model.score(X) == pytest.approx(exact.mean(), abs=0.05)
    # Scores are modes, nearly always the highest of several.
    here, near = (
        height(X, model.inverse_transform(scores + step), scores[:, 0] + step) for step in (0.0, 0.01)
    )
    assert (here > near - 1e-9).all() or (near - here).max() < 1e-3
    assert np.mean(here > heights.max(axis=1) - 1e-3) > 0.9


def test_a_bend_is_found_where_a_plane_misses_it(rng: np.random.Generator) -> None:
    t = rng.standard_normal((400, 1))
    X = np.hstack([t, np.sin(2.0 * t), 0.5 * t]) + 0.2 * rng.standard_normal((400, 3))
    model = fit(X[:300], "gaussian", 1, hidden_layer_sizes=8, max_iter=100, learning_rate_init=0.02)
    assert model.score(X[300:]) > PPCA(1).fit(X[:300]).score(X[300:]) + 0.1


# Training


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_every_family_is_trained_and_nothing_becomes_infinite(family: Any, rng: np.random.Generator) -> None:
    X = with_holes(draw(family, rng))
    model = fit(X, family, hidden_layer_sizes=4, max_iter=3, score_draws=10)
    assert is_monotone(model.objective_trace_)
    assert model.objective_trace_.shape == (model.n_iter_,)
    drawn = model.sample(5, random_state=0)
    for found in (*model.transform(X, return_std=True), model.score_samples(X), model.impute(X), drawn):
        assert np.isfinite(found).all()
    assert np.isfinite(model.components_).all()
    assert (model.dispersion_ > 0).all()
    assert 0 <= model.explained_deviance_ratio_.sum() <= 1


def test_likelihoods_follow_the_seed_and_do_not_depend_on_other_rows(rng: np.random.Generator) -> None:
    X = draw("poisson", rng)
    one, two, csr = (fit(table, "poisson") for table in (X, X, sparse.csr_array(X)))
    values = one.score_samples(X)
    np.testing.assert_array_equal(two.score_samples(X), values)
    np.testing.assert_allclose(csr.transform(X), one.transform(X), atol=1e-6)
    np.testing.assert_allclose(one.score_samples(X[3:5]), values[3:5], atol=1e-7)


def test_training_ends_without_progress(rng: np.random.Generator) -> None:
    X = draw("gaussian", rng)
    done = fit(X, "gaussian", 1, hidden_layer_sizes=(), n_iter_no_change=3, max_iter=1000)
    assert done.converged_
    assert done.n_iter_ < 1000


@pytest.mark.parametrize(
    ("family", "dispersion"), [("gaussian", 0.3), ("gamma", 0.3), ("negative_binomial", 0.3)]
)
def test_the_dispersion_is_estimated(family: str, dispersion: float, rng: np.random.Generator) -> None:
    X = make_low_rank(
        500, 8, 1, family=family, signal=0.7, intercept=1.0, dispersion=dispersion, random_state=rng
    ).X
    model = fit(X, family, 1, hidden_layer_sizes=4, max_iter=40)
    np.testing.assert_allclose(model.dispersion_, dispersion, rtol=0.5)


# Rows


def test_offsets_shift_the_predictor(rng: np.random.Generator) -> None:
    effort = rng.standard_normal(200)
    eta = effort[:, None] + 1.0 + 0.7 * rng.standard_normal((200, 1)) * rng.choice([-1.0, 1.0], 6)
    X = rng.poisson(np.exp(eta)).astype(float)
    model = fit(X, "poisson", 1, offset=effort)
    scores = model.transform(X, offset=effort)
    more, less = (model.inverse_transform(scores, offset=effort + step) for step in (1.0, 0.0))
    np.testing.assert_allclose(more, np.e * less, rtol=1e-9)
    assert abs(np.corrcoef(scores[:, 0], effort)[0, 1]) < 0.5
    with pytest.raises(ValueError, match="offset"):
        model.transform(X)


def test_hidden_entries_are_predicted_better_than_by_means(rng: np.random.Generator) -> None:
    X = make_low_rank(300, 12, 2, family="gaussian", signal=2.0, dispersion=0.3, random_state=rng).X
    hidden = rng.random(X.shape) < 0.2
    holes = np.where(hidden, np.nan, X)
    model = fit(holes, "gaussian", max_iter=20)
    filled, std = model.impute(holes, return_std=True)
    error = (filled - X)[hidden]
    assert np.mean(error**2) < 0.5 * np.mean((X - X.mean(axis=0))[hidden] ** 2)
    assert 0.5 < np.mean((error / std[hidden]) ** 2) < 1.8


def test_limits_of_size(rng: np.random.Generator) -> None:
    X = draw("gaussian", rng)
    assert fit(X, "gaussian", 9, max_iter=2).n_components_ == 6
    assert np.isfinite(fit(X[:3], "gaussian", 4, max_iter=2).transform(X)).all()
    with pytest.raises(ValueError, match="at least 2 rows"):
        fit(X[:1], "gaussian")

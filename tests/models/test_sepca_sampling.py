"""SePCA by sampling: exact posteriors where they are known, and what is reported of the draws."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from tests.draws import seed
from tests.models.sepca_tables import draw, fit, orthogonal

from anypca import SamplerOptions, SePCA
from anypca.exceptions import ConvergenceWarning

for module in ("nutpie", "arviz"):
    pytest.importorskip(module)


def fit_draws(X: Any, family: Any, k: int = 1, companions: Any = (), **settings: Any) -> SePCA:
    """Fit by short chains; they may be too short for a small R-hat, which is no matter here."""
    chosen = {"random_state": seed(0), **settings}
    options = {"n_draws": 40, "n_tune": 40, "n_chains": 2}
    options |= {name: chosen.pop(name) for name in options.keys() & chosen.keys()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return fit(X, family, k, companions, inference=SamplerOptions(**options), **chosen)


def test_intercepts_and_slopes_alone_have_their_exact_posterior(rng: np.random.Generator) -> None:
    """Least squares, whose priors are flat beside sixty rows."""
    covariate, offset = orthogonal(rng, 60, 1), rng.standard_normal(60)
    X = 3.0 + offset[:, None] + covariate * [1.0, -1.0, 0.5] + rng.standard_normal((60, 3))
    companions = {"covariates": covariate, "offset": offset}
    model = fit_draws(X, "gaussian", 0, companions, dispersion=1.0, n_draws=300, n_tune=100, n_chains=4)
    design = np.hstack([np.ones((60, 1)), covariate])
    expected = np.linalg.lstsq(design, X - offset[:, None], rcond=None)[0]
    exact = np.sqrt(np.diag(np.linalg.inv(design.T @ design)))
    draws = model.posterior_.posterior
    for k, name in enumerate(("intercept", "coef")):
        found = draws[name].values.reshape(-1, 3)
        # Twelve hundred draws, at least two hundred of them independent; priors pull by less than a fifth of an error.
        np.testing.assert_allclose(found.mean(axis=0), expected[k], atol=exact[k] * 0.6)
        np.testing.assert_allclose(found.std(axis=0), exact[k], rtol=0.3)
    assert draws["scores"].shape == (4, 300, 60, 0)


@pytest.fixture(scope="module")
def X() -> np.ndarray:
    return draw("poisson", np.random.default_rng(seed(3)), 40, 8, 1)


@pytest.fixture(scope="module")
def model(X: np.ndarray) -> SePCA:
    return fit_draws(X, "poisson", 2)


def test_what_is_reported_are_moments_of_the_draws(model: SePCA, X: np.ndarray) -> None:
    k, (n, p) = model.n_components_, X.shape
    posterior = model.posterior_.posterior
    assert posterior["scores"].shape == (2, 40, n, k)
    loadings = posterior["loadings"].values
    assert loadings.shape == (2, 40, k, p)
    # Signs are those of the report or those of the alignment.
    np.testing.assert_allclose(np.abs(loadings.mean(axis=(0, 1))), np.abs(model.components_), atol=1e-8)
    np.testing.assert_allclose(loadings.std(axis=(0, 1)), model.components_std_, rtol=0.02)
    np.testing.assert_allclose(posterior["intercept"].values.mean(axis=(0, 1)), model.intercept_, atol=1e-8)
    assert set(model.r_hat_) == set(model.ess_) == {"scores", "loadings", "intercept"}
    assert model.r_hat_["loadings"].shape == (k, p)
    assert np.isnan(model.evidence_)
    assert 0 < model.explained_deviance_ratio_.sum() <= 1


def test_the_variational_posterior_is_near(model: SePCA, X: np.ndarray) -> None:
    near = fit(X, "poisson", 2)
    assert near.n_components_ == model.n_components_ == 1
    ratio = np.abs(near.components_ - model.components_) / model.components_std_
    # The mean of some ten independent draws strays by a third of a standard deviation.
    assert np.median(ratio) < 1.5
    scores, std = model.transform(X, return_std=True)
    assert ((std > 0) & (std < 1)).all()
    assert np.corrcoef(scores[:, 0], near.transform(X)[:, 0])[0, 1] > 0.95


def test_a_seed_gives_its_draws(rng: np.random.Generator) -> None:
    X = draw("poisson", rng, 12, 4, 1)
    a, b, c = (fit_draws(X, "poisson", 0, n_draws=10, n_tune=10, random_state=seed(s)) for s in (0, 0, 1))
    for name, other, is_same in (("intercept", b, True), ("intercept", c, False)):
        values = (one.posterior_.posterior[name].values for one in (a, other))
        assert np.array_equal(*values) == is_same


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_draws": 10**9}, "fewer draws"),
        ({"sparsity": 1.0}, "zero"),
    ],
    ids=str,
)
def test_bad_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit_draws(np.ones((6, 3)) + np.eye(6, 3), "poisson", **settings)

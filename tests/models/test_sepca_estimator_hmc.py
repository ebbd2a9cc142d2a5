"""SePCA by sampling, as its users see it: short chains on a small table."""

from __future__ import annotations

import importlib.util
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from anypca import SePCA
from anypca.datasets import make_low_rank

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("nutpie") is None or importlib.util.find_spec("arviz") is None,
    reason="needs nutpie and arviz",
)

N, P = 40, 8
OPTIONS = {"family": "poisson", "inference": "hmc", "n_draws": 40, "n_tune": 40, "n_chains": 2}


@pytest.fixture(scope="module")
def drawn():
    return make_low_rank(N, P, 1, family="poisson", intercept=1.5, signal=1.0, missing=0.05, random_state=0)


def fit(X):
    """Fit without a word about R-hat, for which these chains are too short."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return SePCA(2, **OPTIONS).fit(X)


@pytest.fixture(scope="module")
def model(drawn):
    return fit(drawn.X)


def test_dimension_and_fitted_attributes(model):
    assert model.n_components_ == 1
    assert model.components_.shape == model.components_std_.shape == (1, P)
    assert (model.components_std_ > 0).all()
    assert np.isnan(model.evidence_)
    assert model.evidence_by_rank_ == {}
    assert_allclose(model.explained_variance_, 1.0)
    assert 0 < model.explained_deviance_ratio_.sum() <= 1


def test_posterior_holds_the_draws(model):
    posterior = model.posterior_.posterior
    assert posterior["scores"].shape == (2, 40, N, 1)
    assert posterior["loadings"].shape == (2, 40, 1, P)
    assert posterior["intercept"].shape == (2, 40, P)
    mean = posterior["loadings"].values.mean(axis=(0, 1))
    assert_allclose(np.abs(mean), np.abs(model.components_), atol=1e-8)


def test_diagnostics_cover_every_variable(model):
    assert set(model.r_hat_) == set(model.ess_) == {"scores", "loadings", "intercept"}
    assert model.r_hat_["loadings"].shape == (1, P)
    assert max(float(values.max()) for values in model.r_hat_.values()) < 1.5
    assert min(float(values.min()) for values in model.ess_.values()) > 5


def test_scores_agree_with_the_draws_and_with_the_truth(model, drawn):
    scores, std = model.transform(drawn.X, return_std=True)
    draws = model.posterior_.posterior["scores"].values[..., 0]
    sign = np.sign(draws.mean(axis=(0, 1)) @ scores[:, 0])
    assert_allclose(scores[:, 0], sign * draws.mean(axis=(0, 1)), atol=0.5)
    assert abs(np.corrcoef(scores[:, 0], drawn.scores[:, 0])[0, 1]) > 0.9
    assert ((std > 0) & (std < 1)).all()


def test_the_variational_posterior_is_near(model, drawn):
    near = SePCA(2, family="poisson").fit(drawn.X)
    assert near.n_components_ == model.n_components_
    assert_allclose(near.components_, model.components_, atol=5 * model.components_std_.max())


def test_weight_of_the_data_is_refused(drawn):
    with pytest.raises(ValueError, match="inference='hmc' needs no weight"):
        SePCA(2, **OPTIONS, nu=0.5).fit(drawn.X)


@pytest.mark.parametrize("name", ["n_draws", "n_tune", "n_chains"])
def test_sizes_of_chains_are_positive(drawn, name):
    with pytest.raises(ValueError, match=f"'{name}' parameter"):
        SePCA(2, **(OPTIONS | {name: 0})).fit(drawn.X)

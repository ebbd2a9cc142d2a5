"""Autoencoder: principal components as its start and its linear case, its loss, and what is reported of rows."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pytest
from scipy import sparse
from sklearn.decomposition import PCA
from tests.draws import seed
from tests.models.tables import is_monotone

from anypca import Autoencoder
from anypca.exceptions import ConvergenceWarning

pytestmark = pytest.mark.filterwarnings("ignore::anypca.exceptions.ConvergenceWarning")
ACTIVATIONS = ["identity", "logistic", "tanh", "relu", "elu", "softplus"]


def fit(X: Any, k: int = 2, **settings: Any) -> Autoencoder:
    return Autoencoder(k, **{"max_iter": 60, "random_state": seed(0), "n_jobs": 1, **settings}).fit(X)


@pytest.fixture
def X(rng: np.random.Generator) -> np.ndarray:
    """A sheet that is bent along its first direction."""
    bent, flat = rng.standard_normal((2, 300, 1))
    table = np.hstack([bent, np.abs(bent), -bent, np.abs(bent) + bent, flat @ [[1.0, 0.5]]])
    return np.asarray(table + 0.1 * rng.standard_normal(table.shape))


def linear_share(X: np.ndarray, k: int = 2) -> float:
    return float(PCA(k).fit((X - X.mean(axis=0)) / X.std(axis=0)).explained_variance_ratio_.sum())


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_reconstruction_is_no_worse_than_that_of_principal_components(activation: str, X: np.ndarray) -> None:
    model = fit(X, activation=activation, alpha=0.0)
    assert model.r2_ >= linear_share(X) - 2e-3  # where activations are bent the start is not quite linear
    left = ((X - model.inverse_transform(model.transform(X))) / X.std(axis=0)) ** 2
    np.testing.assert_allclose(model.r2_, 1.0 - left.sum() / X.size, rtol=1e-9)
    np.testing.assert_allclose(model.score_samples(X), -left.sum(axis=1), rtol=1e-7)
    np.testing.assert_allclose(model.explained_deviance_ratio_.sum(), model.r2_, rtol=1e-6)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(2), atol=1e-10)


def test_without_hidden_layers_it_is_principal_component_analysis(X: np.ndarray) -> None:
    flat, bent = fit(X, hidden_layer_sizes=(), max_iter=300), fit(X, max_iter=300)
    np.testing.assert_allclose(flat.r2_, linear_share(X), atol=1e-3)
    assert bent.r2_ > flat.r2_ + 0.01
    # Latents are as straight as the reconstruction allows.
    pca = PCA(1).fit_transform((X - X.mean(axis=0)) / X.std(axis=0))[:, 0]
    assert abs(np.corrcoef(bent.transform(X)[:, 0], pca)[0, 1]) > 0.9
    latents = bent.transform(X)
    gram = latents.T @ latents
    np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-6 * gram.max())


def test_the_loss_never_rises_and_is_that_of_its_definition(X: np.ndarray) -> None:
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model = fit(X, max_iter=30, tol=0.0, alpha=0.0, linearity=0.0)
    assert is_monotone(model.objective_trace_)
    assert model.objective_trace_.shape == (model.n_iter_,)
    assert not model.converged_
    assert model.loss_ == -model.objective_trace_[-1]
    np.testing.assert_allclose(model.loss_, -0.5 * model.score(X), rtol=1e-8)
    assert fit(X, tol=0.1).converged_


def test_containers_blocks_weights_and_seeds(X: np.ndarray) -> None:
    # A few steps: rounding grows by a small factor in each.
    whole = fit(X, max_iter=4)
    for given in (sparse.csr_array(X), da.from_array(X, chunks=(70, -1)), X.tolist()):
        np.testing.assert_allclose(fit(given, max_iter=4).transform(X), whole.transform(X), atol=1e-5)
    np.testing.assert_array_equal(fit(X, max_iter=4).transform(X), whole.transform(X))
    weight = np.r_[np.full(100, 2.0), np.ones(200)]
    settings = {"max_iter": 4, "random_state": 0}
    one = Autoencoder(2, **settings).fit(X, sample_weight=weight)
    two = Autoencoder(2, **settings).fit(np.vstack([X[:100], X]))
    np.testing.assert_allclose([one.loss_, one.r2_], [two.loss_, two.r2_], rtol=1e-7)
    few, many = fit(X, init="random", max_iter=20), fit(X, init="random", max_iter=20, n_init=3)
    assert many.loss_ <= few.loss_


def test_constant_equal_and_few_columns_do_no_harm(X: np.ndarray) -> None:
    table = np.hstack([X, np.ones((300, 1)), X[:, :1]])
    assert np.isfinite(fit(table, 3, max_iter=20).transform(table)).all()
    constant = fit(np.ones((10, 3)), max_iter=5)
    assert constant.r2_ == 0
    np.testing.assert_array_equal(constant.inverse_transform(constant.transform(np.ones((10, 3)))), 1.0)
    assert fit(X[:20], 9, max_iter=3).n_components_ == 6


def test_bad_input_is_named(X: np.ndarray) -> None:
    with pytest.raises(ValueError, match="Did you mean 'identity'"):
        fit(X, latent_activation="linear")
    for hidden in (0, (8, 0), (2.5,), True, "8", None):
        with pytest.raises(ValueError, match="hidden_layer_sizes"):
            fit(np.ones((5, 3)), hidden_layer_sizes=hidden)

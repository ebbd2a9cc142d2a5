"""Streams: near the fit of the whole table after one epoch, whatever the container; checks of blocks."""

from __future__ import annotations

import pickle
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from tests.draws import generator

from anypca import EPCA, PLNPCA, PPCA, SePCA

#: Estimators with the family of their tables.
MODELS: dict[str, tuple[Any, str]] = {
    "EPCA": (lambda: EPCA(2, family="poisson", n_jobs=1), "poisson"),
    "EPCA of numbers": (lambda: EPCA(2, family="gaussian", n_jobs=1), "gaussian"),
    "EPCA of answers": (lambda: EPCA(2, family="bernoulli", n_jobs=1), "bernoulli"),
    "PPCA": (lambda: PPCA(2, n_jobs=1), "gaussian"),
    "PLNPCA": (lambda: PLNPCA(2, n_jobs=1), "poisson"),
    "SePCA": (lambda: SePCA(2, family="poisson", n_jobs=1), "poisson"),
}
each_model = pytest.mark.parametrize("name", MODELS)


@cache
def table(family: str, n: int = 1600, p: int = 20) -> np.ndarray:
    """Draw rows of two strong components; a fifth of the numbers and answers is missing."""
    rng = generator("stream", family, n)
    axes = np.linalg.qr(rng.normal(size=(p, 2)))[0] * np.sqrt(p)
    eta = rng.normal(size=(n, 2)) @ (axes * [0.8, 0.5]).T
    if family == "poisson":
        return rng.poisson(np.exp(eta)).astype(float)
    x = (
        eta + 0.5 * rng.normal(size=eta.shape)
        if family == "gaussian"
        else 1.0 * (rng.logistic(size=eta.shape) < 2 * eta)
    )
    return np.where(rng.random(eta.shape) < 0.2, np.nan, x)


def blocks(X: Any) -> list[Any]:
    return [X[:600], *(X[start : start + 200] for start in range(600, X.shape[0], 200))]


def streamed(make: Any, X: Any) -> Any:
    model = make()
    for block in blocks(X):
        model.partial_fit(block)
    return model


@cache
def whole(name: str) -> tuple[np.ndarray, Any, Any]:
    """Return a table, the model streamed, and the model fitted to all rows at once."""
    make, family = MODELS[name]
    X = table(family)
    return X, streamed(make, X), make().fit(X)


def angle(a: Any, b: Any) -> float:
    """Return the largest principal angle between the rows of two matrices, in degrees."""
    return float(np.degrees(scipy.linalg.subspace_angles(a.components_.T, b.components_.T)[0]))


@each_model
def test_a_stream_comes_near_the_fit_to_all_rows(name: str) -> None:
    X, model, batch = whole(name)
    assert (model.n_components_, model.n_samples_seen_) == (2, 1600)
    # Answers determine scores less than numbers do.
    assert angle(model, batch) < (12.0 if name == "EPCA of answers" else 5.0)
    assert model.score(X) > batch.score(X) - 0.1
    assert_allclose(model.explained_deviance_ratio_, batch.explained_deviance_ratio_, atol=0.03)


@each_model
def test_a_further_pass_starts_at_the_stream(name: str) -> None:
    X, model, batch = whole(name)
    again = MODELS[name][0]().set_params(init=model).fit(X)
    assert_allclose(again.score(X), batch.score(X), atol=1e-2)
    assert angle(again, batch) < 1.0


@each_model
def test_containers_copies_and_weights_agree(name: str) -> None:
    make, family = MODELS[name]
    X = np.nan_to_num(table(family, 800))
    dense, other, weighted = make(), make(), make()
    for block in blocks(X):
        dense.partial_fit(block)
        other = pickle.loads(pickle.dumps(other.partial_fit(sparse.csr_array(block))))
        weighted.partial_fit(np.vstack([block, block]), sample_weight=np.full(2 * len(block), 0.5))
    scale = np.abs(dense.components_).max()
    # The first block is fitted to tol, from sweeps whose order of sums, and so rounding, is another one.
    assert_allclose(other.components_, dense.components_, rtol=0, atol=1e-4 * scale)
    assert_allclose(other.transform(X[:5]), dense.transform(X[:5]), rtol=0, atol=1e-3)
    assert_allclose(weighted.components_, dense.components_, rtol=0, atol=1e-4 * scale)
    assert (dense.n_samples_seen_, weighted.n_samples_seen_) == (800, 1600)


def test_offsets_and_covariates_come_along(rng: np.random.Generator) -> None:
    rates, make = table("poisson"), lambda: EPCA(2, family="poisson", ridge=1.0, n_jobs=1)
    offset, covariates = 0.3 * rng.normal(size=len(rates)), rng.normal(size=(len(rates), 1))
    X = rng.poisson(rates * np.exp(offset[:, None] + covariates * np.linspace(-0.5, 0.5, 20))).astype(float)
    batch, model = make().fit(X, offset=offset, covariates=covariates), make()
    for part in np.split(np.arange(len(X)), 4):
        model.partial_fit(X[part], offset=offset[part], covariates=covariates[part])
    assert angle(model, batch) < 5.0
    assert np.corrcoef(model.coef_[:, 0], batch.coef_[:, 0])[0, 1] > 0.9
    with pytest.raises(ValueError, match="with an offset"):
        model.partial_fit(X[:100], covariates=covariates[:100])


def test_delayed_blocks() -> None:
    dask = pytest.importorskip("dask")
    X = table("poisson", 800)
    model = dask.delayed(MODELS["EPCA"][0]())
    for block in blocks(X):
        model = dask.delayed(EPCA.partial_fit)(model, dask.delayed(np.array)(block))
    found = model.compute(scheduler="synchronous")
    assert_array_equal(found.components_, streamed(MODELS["EPCA"][0], X).components_)


def test_fit_starts_afresh() -> None:
    X, make = table("poisson", 800), MODELS["EPCA"][0]
    model = streamed(make, X)
    assert_array_equal(model.fit(X).components_, make().fit(X).components_)
    assert model.partial_fit(X[:600]).n_samples_seen_ == 600


@pytest.mark.parametrize(
    ("block", "complaint"),
    [(np.full((5, 20), -1.0), ">= 0"), (np.ones((5, 19)), "19 features"), (np.full((5, 20), np.inf), "inf")],
    ids=["support", "columns", "infinite"],
)
def test_bad_blocks_change_nothing(block: Any, complaint: str) -> None:
    model = streamed(MODELS["EPCA"][0], table("poisson", 800))
    before = model.components_.copy()
    with pytest.raises(ValueError, match=complaint):
        model.partial_fit(block)
    assert_array_equal(model.components_, before)
    assert model.n_samples_seen_ == 800


def test_a_noise_far_below_the_mean_is_found(rng: np.random.Generator) -> None:
    X = 1e6 + rng.normal(size=(1000, 2)) @ rng.normal(size=(2, 10)) + 0.1 * rng.normal(size=(1000, 10))
    model = PPCA(2, n_jobs=1)
    for block in np.split(X, 5):
        model.partial_fit(block)
    assert_allclose(model.noise_variance_, 0.01, rtol=0.1)


def test_modes_and_draws_have_no_stream() -> None:
    assert not hasattr(SePCA(inference="map"), "partial_fit")
    with pytest.raises(AttributeError) as caught:
        SePCA(inference="hmc").partial_fit(table("poisson", 800))
    assert "inference='vb'" in str(caught.value.__cause__)

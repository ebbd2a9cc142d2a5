"""Weights of single entries: ones change nothing, zeros are missing entries, equal ones in a row are its weight."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from tests.draws import generator
from tests.models.tables import is_monotone

from anypca import EPCA, GPCA, PLNPCA, PPCA, SPCA, VAE
from anypca.datasets import make_low_rank

N, P = 60, 7
# Loadings are known to some multiple of the scaled gradient at which fits end.
_TIGHT: dict[str, Any] = {"tol": 1e-8, "max_iter": 5000, "n_jobs": 1}
FAMILIES = [
    "gaussian",
    "poisson",
    "bernoulli",
    "negative_binomial(3)",
    "gamma",
    "negative_binomial",
    "ordinal",
]
MODELS: dict[str, tuple[Any, str]] = {
    **{f"EPCA {family}": (lambda f=family: EPCA(2, family=f, **_TIGHT), family) for family in FAMILIES},
    "GPCA of counts": (lambda: GPCA(2, family="poisson", **_TIGHT), "poisson"),
    "GPCA of numbers": (lambda: GPCA(2, family="gaussian", **_TIGHT), "gaussian"),
    "PLNPCA": (lambda: PLNPCA(2, **{**_TIGHT, "tol": 1e-7}), "poisson"),
    "PPCA": (lambda: PPCA(2, **_TIGHT), "gaussian"),
}
each_model = pytest.mark.parametrize("name", MODELS)
# Rounding may keep tight fits above tol, at the same optimum.
pytestmark = pytest.mark.filterwarnings("ignore:.* stalled:sklearn.exceptions.ConvergenceWarning")


def draw(family: str) -> np.ndarray:
    name, rng = "poisson" if family == "ordinal" else family, generator("weighted entries", family)
    X = make_low_rank(N, P, 2, family=name, signal=0.8, dispersion=0.5, random_state=rng).X
    return np.minimum(X, 3.0) if family == "ordinal" else X


def assert_same(found: Any, expected: Any, tol: float = 1e-4) -> None:
    scale = np.abs(expected.components_).max()
    assert_allclose(found.components_, expected.components_, rtol=0, atol=tol * scale)
    assert_allclose(found.intercept_, expected.intercept_, rtol=0, atol=tol * scale)
    assert_allclose(found.objective_trace_[-1], expected.objective_trace_[-1], rtol=1e-8)
    for name in ("dispersion_", "deviance_", "noise_variance_"):
        if hasattr(expected, name):
            assert_allclose(getattr(found, name), getattr(expected, name), rtol=tol)


@each_model
def test_ones_change_nothing_and_zeros_are_missing(name: str, rng: np.random.Generator) -> None:
    make, family = MODELS[name]
    X, hidden = draw(family), rng.random((N, P)) < 0.15
    assert_same(make().fit(X, entry_weight=np.ones(X.shape)), make().fit(X))
    holes, weight = np.where(hidden, np.nan, X), (~hidden).astype(float)
    plain, weighted = make().fit(holes), make().fit(X, entry_weight=weight)
    assert_same(weighted, plain)
    assert_allclose(plain.transform(X, entry_weight=weight), plain.transform(holes), rtol=1e-6, atol=1e-6)
    both = make().fit_transform(X, entry_weight=weight)
    assert_allclose(both, weighted.transform(X, entry_weight=weight), rtol=1e-6, atol=1e-6)


@each_model
def test_traces_are_monotone(name: str, rng: np.random.Generator) -> None:
    make, family = MODELS[name]
    model = make().set_params(tol=1e-5).fit(draw(family), entry_weight=rng.uniform(0.0, 2.0, (N, P)))
    assert is_monotone(model.objective_trace_, 1e-9)


@pytest.mark.parametrize("family", FAMILIES[:-1])
def test_without_scores_equal_weights_in_a_row_are_its_weight(family: str, rng: np.random.Generator) -> None:
    """With scores they differ: the penalty of a row's scores counts once, whatever the weights of its entries."""
    X, rows = draw(family), rng.uniform(0.5, 2.0, N)
    by_entry = EPCA(0, family=family, **_TIGHT).fit(X, entry_weight=np.repeat(rows[:, None], P, axis=1))
    by_row = EPCA(0, family=family, **_TIGHT).fit(X, sample_weight=rows)
    assert_allclose(by_entry.intercept_, by_row.intercept_, rtol=1e-6, atol=1e-6)
    assert_allclose(by_entry.dispersion_, by_row.dispersion_, rtol=1e-6)


@pytest.mark.parametrize("name", ["GPCA of counts", "GPCA of numbers"])
def test_equal_weights_in_a_row_are_its_weight_in_projections(name: str, rng: np.random.Generator) -> None:
    """Projections have no penalty of scores; axes within the space depend on weights of rows only."""
    make, family = MODELS[name]
    X, rows = draw(family), rng.uniform(0.5, 2.0, N)
    by_row, by_entry = (
        make().fit(X, sample_weight=rows),
        make().fit(X, entry_weight=np.repeat(rows[:, None], P, 1)),
    )
    planes = [model.components_.T @ model.components_ for model in (by_row, by_entry)]
    assert_allclose(planes[1], planes[0], rtol=0, atol=1e-3)
    assert_allclose(by_entry.objective_trace_[-1], by_row.objective_trace_[-1], rtol=1e-7)


def test_projections_of_numbers_are_weighted_least_squares(rng: np.random.Generator) -> None:
    X, weight = draw("gaussian"), rng.uniform(0.1, 3.0, (N, P))
    model = GPCA(2, family="gaussian", n_jobs=1).fit(X)
    W = model.components_.T
    for scores, x, w in zip(model.transform(X, entry_weight=weight), X, np.sqrt(weight), strict=True):
        expected = np.linalg.lstsq(w[:, None] * W, w * (x - model.intercept_), rcond=None)[0]
        assert_allclose(scores, expected, rtol=1e-6, atol=1e-8)


def test_an_entry_of_weight_two_was_seen_twice(rng: np.random.Generator) -> None:
    """Scores under PPCA are the posterior mean of a row in which entries were measured again with the same result."""
    X, weight = draw("gaussian"), rng.integers(1, 4, (N, P))
    model = PPCA(2, n_jobs=1).fit(X, entry_weight=weight.astype(float))
    W, mean, noise = model.components_.T, model.mean_, model.noise_variance_
    covariance = model.get_covariance() - noise * np.eye(P)  # of rows without noise
    share = (N - 1) / N  # variances are unbiased, the likelihood has its maximum without the correction
    found = model.inverse_transform(model.transform(X, entry_weight=weight.astype(float)))
    total = 0.0
    for x, times, fitted in zip(X, weight, found, strict=True):
        again = np.repeat(np.arange(P), times)
        marginal = covariance[np.ix_(again, again)] + noise * np.eye(len(again))
        gain = covariance[:, again] @ np.linalg.solve(marginal, (x - mean)[again])
        assert_allclose(fitted - mean, W @ np.linalg.lstsq(W, gain, rcond=None)[0], rtol=1e-6, atol=1e-8)
        total += multivariate_normal(mean[again], share * marginal).logpdf(x[again])
    assert model.objective_trace_[-1] == pytest.approx(total, rel=1e-6)


@pytest.mark.parametrize("kind", ["sparse", "memmap", "integers"])
def test_containers_agree(kind: str, tmp_path: Path, rng: np.random.Generator) -> None:
    X, weight = draw("poisson"), rng.integers(0, 3, (N, P)).astype(float)
    np.save(tmp_path / "weight.npy", weight)
    table: Any = {"sparse": sp.csr_array(X), "integers": X.astype(int)}.get(kind, X)
    stored = np.load(tmp_path / "weight.npy", mmap_mode="r")
    given = {"sparse": sp.csr_array(weight), "memmap": stored}.get(kind, weight)
    make = MODELS["EPCA poisson"][0]
    assert_same(make().fit(table, entry_weight=given), make().fit(X, entry_weight=weight))


def test_what_has_no_weights_of_entries_refuses_them() -> None:
    X = draw("poisson")
    ones = np.ones(X.shape)
    with pytest.raises(ValueError, match="Dask"):
        EPCA(2).fit(da.from_array(X), entry_weight=ones)
    with pytest.raises(ValueError, match="no observed entry"):
        EPCA(2, family="poisson").fit(X, entry_weight=0.0 * ones)
    with pytest.warns(match="max_iter"):
        model = VAE(1, max_iter=2, n_jobs=1).fit(X)
    with pytest.raises(ValueError, match="VAE has no weights of entries"):
        model.transform(X, entry_weight=ones)
    with pytest.raises(TypeError, match="entry_weight"):
        SPCA(1).fit(X, entry_weight=ones)

"""Weights of single entries: ones change nothing, zeros are missing entries, equal ones in a row are its weight."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import multivariate_normal

from anypca import EPCA, GPCA, PLNPCA, PPCA, SPCA, VAE
from anypca.datasets import make_low_rank
from anypca.engine import Table, check_data
from anypca.engine.executors import executor_for
from anypca.engine.summary import summarise
from anypca.families import resolve_family
from anypca.models._bilinear.evaluator import BlockEvaluator, Coefficients
from anypca.models._gaussian.posterior import Parameters, Patterns, find_posterior
from anypca.models._opened import open_block
from anypca.models.gpca._projection import Subspace, project

N, P = 60, 7
# Loadings are known to some multiple of the scaled gradient at which fits end, see `test_epca_invariance.py`.
TIGHT = {"tol": 1e-8, "max_iter": 3000, "n_jobs": 1}
FAMILIES = [
    "gaussian",
    "poisson",
    "bernoulli",
    "negative_binomial(3)",
    "gamma",
    "negative_binomial",
    "ordinal",
]


def draw(family: str) -> np.ndarray:
    name = "poisson" if family == "ordinal" else family
    X = make_low_rank(N, P, 2, family=name, signal=0.8, dispersion=0.5, random_state=0).X
    return np.minimum(X, 3.0) if family == "ordinal" else X


def fit(X: Any, family: str, weight: Any = None, **changes: Any) -> EPCA:
    rows = changes.pop("sample_weight", None)
    model = EPCA(2, family=family, **{**TIGHT, **changes})
    return model.fit(X, entry_weight=weight, sample_weight=rows)


def assert_same(found: EPCA, expected: EPCA, tol: float = 1e-5) -> None:
    np.testing.assert_allclose(found.components_, expected.components_, rtol=0, atol=tol)
    np.testing.assert_allclose(found.intercept_, expected.intercept_, rtol=0, atol=10 * tol)
    np.testing.assert_allclose(found.dispersion_, expected.dispersion_, rtol=tol)
    np.testing.assert_allclose(found.objective_trace_[-1], expected.objective_trace_[-1], rtol=1e-9)
    np.testing.assert_allclose(found.deviance_, expected.deviance_, rtol=tol)


@pytest.mark.parametrize("family", FAMILIES)
def test_ones_change_nothing_and_zeros_are_missing(family: str) -> None:
    X = draw(family)
    assert_same(fit(X, family, np.ones(X.shape)), fit(X, family))
    hidden = np.random.default_rng(1).random(X.shape) < 0.15
    assert_same(fit(X, family, (~hidden).astype(float)), fit(np.where(hidden, np.nan, X), family))


@pytest.mark.parametrize("family", ["gaussian", "poisson", "bernoulli", "gamma"])
def test_equal_weights_in_a_row_are_the_weight_of_the_row(family: str) -> None:
    """But for the penalty of the row's scores, which counts as often as the row does, and once with entry weights."""
    X, rng = draw(family), np.random.default_rng(2)
    rows = rng.uniform(0.5, 2.0, N)
    points, joint = rng.normal(size=(N, 2)), rng.normal(size=(P, 3))
    coefficients = Coefficients(joint[:, :2], joint[:, 2:], np.full(P, 0.7))
    kind = resolve_family(family, P)

    def sums(**weights: Any) -> tuple[Any, Any]:
        block = check_data(X, **weights).blocks[0]
        evaluator = BlockEvaluator(kind, coefficients, open_block(block, fit_intercept=True, family=kind))
        return evaluator.row_sums(points), evaluator.column_sums(points)

    by_row, by_entry = sums(sample_weight=rows), sums(entry_weight=np.repeat(rows[:, None], P, axis=1))
    for part in ("value", "gradient", "curvature"):
        of_row, of_entries = (getattr(found[0], part) for found in (by_row, by_entry))
        np.testing.assert_allclose(of_entries, of_row * np.reshape(rows, (-1, *(1,) * (of_row.ndim - 1))))
        np.testing.assert_allclose(
            getattr(by_entry[1], part), getattr(by_row[1], part), rtol=1e-10, atol=1e-10
        )


def test_without_scores_they_are_the_same_fit() -> None:
    X, rows = draw("negative_binomial"), np.random.default_rng(2).uniform(0.5, 2.0, N)
    settings = {**TIGHT, "family": "negative_binomial"}
    by_entry = EPCA(0, **settings).fit(X, entry_weight=np.repeat(rows[:, None], P, axis=1))
    by_row = EPCA(0, **settings).fit(X, sample_weight=rows)
    np.testing.assert_allclose(by_entry.intercept_, by_row.intercept_, rtol=1e-6)
    np.testing.assert_allclose(by_entry.dispersion_, by_row.dispersion_, rtol=1e-6)


def test_known_errors_are_used() -> None:
    """A tenth of the entries has ten times the error: weights by its inverse square halve what the fit misses."""
    rng = np.random.default_rng(3)
    truth = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 12))
    error = np.where(rng.random(truth.shape) < 0.1, 5.0, 0.5)
    X = truth + error * rng.normal(size=truth.shape)
    missed = []
    for weight in (np.ones(X.shape), 0.25 / error**2):
        model = EPCA(2, family="gaussian", ridge=1.0, n_jobs=1).fit(X, entry_weight=weight)
        axes = np.linalg.svd(truth, full_matrices=False)[2][:2]
        missed.append(np.linalg.norm(axes - axes @ model.components_.T @ model.components_))
    assert missed[1] < 0.5 * missed[0]
    assert model.dispersion_[0] == pytest.approx(0.25 / weight.mean(), rel=0.15)


def _memmap(values: np.ndarray, folder: Path) -> np.memmap:
    np.save(folder / "values.npy", values)
    return np.load(folder / "values.npy", mmap_mode="r")


@pytest.mark.parametrize("kind", ["sparse", "memmap", "integers", "blocks"])
def test_containers_agree(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X = draw("poisson")
    weight = np.random.default_rng(4).integers(0, 3, X.shape).astype(float)
    expected = fit(X, "poisson", weight)
    if kind == "blocks":
        monkeypatch.setattr("anypca.engine.data.default_block_rows", lambda n_features, itemsize: 7)
    table: Any = {"sparse": sp.csr_array(X), "integers": X.astype(int)}.get(kind, X)
    given = {"sparse": sp.csr_array(weight), "memmap": _memmap(weight, tmp_path)}.get(kind, weight)
    assert_same(fit(table, "poisson", given), expected)


def test_moments_are_weighted() -> None:
    rng = np.random.default_rng(5)
    X, weight = rng.normal(size=(30, 4)), rng.uniform(0.0, 2.0, (30, 4))
    rows = rng.uniform(0.5, 1.5, 30)
    data = check_data(X, entry_weight=weight, sample_weight=rows, block_rows=8)
    with executor_for(data, 1) as executor:
        found = summarise(data, executor)
    total = rows[:, None] * weight
    mean = (total * X).sum(axis=0) / total.sum(axis=0)
    np.testing.assert_allclose(found.weight, total.sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(
        found.variance, (total * (X - mean) ** 2).sum(axis=0) / found.weight, rtol=1e-10
    )


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.ones(N), r"entry_weight must have shape \(60, 7\)"),
        (np.full((N, P), -1.0), "negative weights"),
        (np.full((N, P), np.nan), "entry_weight"),
        (np.zeros((N, P)), "no observed entry"),
    ],
    ids=["rows", "negative", "nan", "zeros"],
)
def test_weights_that_are_none(weight: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit(draw("poisson"), "poisson", weight)


def test_dask_says_no() -> None:
    X = draw("poisson")
    with pytest.raises(ValueError, match="Dask"):
        EPCA(2).fit(da.from_array(X), entry_weight=np.ones(X.shape))


OTHERS: dict[str, Any] = {
    "GPCA of counts": lambda: GPCA(2, family="poisson", tol=1e-8, max_iter=3000, n_jobs=1),
    "GPCA of numbers": lambda: GPCA(2, family="gaussian", tol=1e-8, max_iter=3000, n_jobs=1),
    "PLNPCA": lambda: PLNPCA(2, tol=1e-7, max_iter=3000, n_jobs=1),
    "PPCA": lambda: PPCA(2, tol=1e-8, max_iter=5000, n_jobs=1),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_models_take_ones_and_zeros(name: str) -> None:
    X, make = draw("poisson"), OTHERS[name]
    hidden = np.random.default_rng(1).random(X.shape) < 0.15
    holed, weight = np.where(hidden, np.nan, X), (~hidden).astype(float)
    for plain, weighted in (
        (make().fit(X), make().fit(X, entry_weight=np.ones(X.shape))),
        (make().fit(holed), make().fit(X, entry_weight=weight)),
    ):
        np.testing.assert_allclose(weighted.components_, plain.components_, rtol=0, atol=1e-4)
        np.testing.assert_allclose(weighted.intercept_, plain.intercept_, rtol=0, atol=1e-4)
        np.testing.assert_allclose(weighted.objective_trace_[-1], plain.objective_trace_[-1], rtol=1e-8)
    np.testing.assert_allclose(
        plain.transform(X, entry_weight=weight), plain.transform(holed), rtol=1e-9, atol=1e-9
    )
    both = make().fit_transform(X, entry_weight=weight)
    np.testing.assert_allclose(both, weighted.transform(X, entry_weight=weight))


@pytest.mark.parametrize("family", ["poisson", "gaussian"])
def test_equal_weights_in_a_row_are_the_weight_of_the_row_in_projections(family: str) -> None:
    """Scores have no penalty there."""
    X, rows = draw("poisson"), np.random.default_rng(2).uniform(0.5, 2.0, N)
    make = OTHERS["GPCA of counts" if family == "poisson" else "GPCA of numbers"]
    by_row = make().fit(X, sample_weight=rows)
    by_entry = make().fit(X, entry_weight=np.repeat(rows[:, None], P, axis=1))
    # Within the space axes are those of uncorrelated scores, to which only weights of rows matter.
    by_row, by_entry = ((model.components_.T @ model.components_, model) for model in (by_row, by_entry))
    np.testing.assert_allclose(by_entry[0], by_row[0], rtol=0, atol=1e-4)
    np.testing.assert_allclose(by_entry[1].objective_trace_[-1], by_row[1].objective_trace_[-1], rtol=1e-8)


def test_an_entry_of_weight_two_was_seen_twice() -> None:
    """The marginal density of a row in which some entries were measured again with the same result."""
    rng = np.random.default_rng(6)
    W, mean, noise = rng.normal(size=(P, 2)), rng.normal(size=P), 0.4
    X, weight = rng.normal(size=(5, P)), rng.integers(1, 4, (5, P)).astype(float)
    found = find_posterior(Table(X, None), Parameters(mean, W, noise), Patterns(None, None), weight)
    for x, times, value, score in zip(X, weight.astype(int), found.log_likelihood, found.mean, strict=True):
        again = np.repeat(np.arange(P), times)
        covariance = W[again] @ W[again].T + noise * np.eye(len(again))
        assert value == pytest.approx(multivariate_normal(mean[again], covariance).logpdf(x[again]))
        gain = W[again].T @ np.linalg.solve(covariance, x[again] - mean[again])
        np.testing.assert_allclose(score, gain)


@pytest.mark.parametrize("name", ["GPCA of numbers", "PPCA"])
def test_other_models_use_known_errors(name: str) -> None:
    rng = np.random.default_rng(3)
    truth = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 12))
    error = np.where(rng.random(truth.shape) < 0.1, 5.0, 0.5)
    X, axes, missed = truth + error * rng.normal(size=truth.shape), np.linalg.svd(truth)[2][:2], []
    for weight in (np.ones(X.shape), 0.25 / error**2):
        found = OTHERS[name]().set_params(tol=1e-5).fit(X, entry_weight=weight).components_
        missed.append(np.linalg.norm(axes - axes @ found.T @ found))
    assert missed[1] < 0.5 * missed[0]


def test_monotone_with_weights() -> None:
    X, weight = draw("poisson"), np.random.default_rng(7).uniform(0.0, 2.0, (N, P))
    for make in OTHERS.values():
        trace = make().set_params(tol=1e-6).fit(X, entry_weight=weight).objective_trace_
        assert np.diff(trace).min(initial=0.0) >= -1e-9 * abs(trace[-1])


def test_models_without_weights_of_entries_say_so() -> None:
    X = draw("poisson")
    model = VAE(1, max_iter=2, n_jobs=1)
    with pytest.warns(match="max_iter"):
        model.fit(X)
    with pytest.raises(ValueError, match="VAE has no weights of entries"):
        model.transform(X, entry_weight=np.ones(X.shape))
    with pytest.raises(TypeError, match="entry_weight"):
        SPCA(1).fit(X, entry_weight=np.ones(X.shape))


def test_projections_are_weighted_least_squares() -> None:
    rng = np.random.default_rng(0)
    saturated, weight, intercept = rng.normal(size=(4, 6)), rng.uniform(0.1, 3.0, (4, 6)), rng.normal(size=6)
    loadings = np.linalg.qr(rng.normal(size=(6, 2)))[0]
    rows: Any = SimpleNamespace(
        saturated=saturated,
        observed=None,
        entry=weight,
        weigh=lambda terms: terms * weight,
        only_observed=lambda terms: terms,
    )
    found = project(rows, Subspace(loadings, intercept, intercept))
    for scores, row, w in zip(found.scores, saturated - intercept, np.sqrt(weight), strict=True):
        expected = np.linalg.lstsq(w[:, None] * loadings, w * row, rcond=None)[0]
        np.testing.assert_allclose(scores, expected, rtol=1e-10)

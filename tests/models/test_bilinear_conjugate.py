"""Newton steps by conjugate gradients: their products, their preconditioner, and the optimum they lead to."""

from __future__ import annotations

import tracemalloc
import warnings
from dataclasses import replace
from typing import Any

import dask.array as da
import numpy as np
import pytest

from anypca import EPCA
from anypca.datasets import make_low_rank
from anypca.engine import check_data, executor_for
from anypca.exceptions import ConvergenceWarning
from anypca.families import Family, Gaussian, NegativeBinomial, Poisson, families
from anypca.models._bilinear.alternating import Shared
from anypca.models._bilinear.conjugate import MOST_EXACT, ConjugateProblem, Metric
from anypca.models._bilinear.evaluator import Coefficients
from anypca.models._bilinear.problem import BilinearProblem
from anypca.models._opened import open_block
from anypca.models.epca import _fit
from anypca.priors import Ridge
from anypca.solvers import Loop, Status

N, P, K = 40, 9, 3
RIDGE = 0.7


def draw(family: Any, *, missing: bool = False, n: int = N, p: int = P, k: int = 2) -> np.ndarray:
    X = make_low_rank(n, p, k, family=family, signal=0.7, dispersion=0.3, random_state=1).X
    if missing:
        X[np.random.default_rng(2).random(X.shape) < 0.2] = np.nan
    return X


def companions() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    return {
        "sample_weight": rng.integers(1, 4, N).astype(float),
        "offset": rng.normal(size=(N, P)) * 0.3,
        "covariates": rng.normal(size=(N, 2)),
    }


def problem_and_point(family: Family, *, missing: bool) -> tuple[Any, ...]:
    """A conjugate problem on one block with all companions, and a point."""
    rng = np.random.default_rng(4)
    X = draw(family, missing=missing)
    data = check_data(X, **companions())
    problem = ConjugateProblem(
        family,
        Ridge(np.full(K, RIDGE)),
        Ridge(np.array([RIDGE] * K + [0.0] * 3)),
        ridges=(RIDGE, np.full(P, RIDGE)),
    )
    coefficients = Coefficients(0.4 * rng.normal(size=(P, K)), 0.3 * rng.normal(size=(P, 3)), np.full(P, 0.3))
    return problem, data.blocks[0], coefficients, 0.5 * rng.normal(size=(N, K)), ~np.isnan(X)


@pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])
@pytest.mark.parametrize("family", [Poisson(), Gaussian(), NegativeBinomial()], ids=lambda f: f.name)
def test_products_are_those_of_the_curvature(family: Family, missing: bool) -> None:
    problem, block, coefficients, points, observed = problem_and_point(family, missing=missing)
    rows = open_block(block, fit_intercept=True, family=family)
    evaluator = problem.evaluator(coefficients, rows)
    design = np.hstack([points, rows.features])
    eta = design @ coefficients.joint.T + block.offset()
    x = np.where(observed, block.values(), 1.0)
    terms = family.evaluate(x, eta, coefficients.dispersion)
    curvature = np.where(observed, terms.curvature, 0.0)
    on_rows = np.where(observed, family.newton_curvature(x, eta, terms, coefficients.dispersion), 0.0)
    rng = np.random.default_rng(5)
    entry, direction = evaluator.entry(points), rng.normal(size=(N, K))
    expected = np.einsum("ij,ja,jb,ib->ia", on_rows, coefficients.loadings, coefficients.loadings, direction)
    # Products with the curvature are in single precision where the likelihood is linear in the entries.
    np.testing.assert_allclose(evaluator.row_products(entry.curvature, direction), expected, atol=1e-5)
    np.testing.assert_allclose(entry.totals, on_rows.sum(axis=1), rtol=1e-5)
    gradient = np.where(observed, terms.gradient, 0.0) @ coefficients.loadings
    np.testing.assert_allclose(entry.gradient, gradient, rtol=1e-9, atol=1e-9)
    along = rng.normal(size=(P, K + 3))
    weighted = curvature * rows.weights[:, None]
    expected = np.einsum("ij,ia,ib,jb->ja", weighted, design, design, along)
    np.testing.assert_allclose(evaluator.column_products(points, along), expected, rtol=1e-4, atol=1e-4)
    found = evaluator.column_sums(points).curvature[:, 0]
    np.testing.assert_allclose(found, weighted.sum(axis=0), rtol=1e-9)


@pytest.mark.parametrize("n_fixed", [0, 1, 3])
def test_preconditioner_solves_curvatures_of_rank_one(n_fixed: int) -> None:
    rng = np.random.default_rng(6)
    design = rng.normal(size=(30, K + n_fixed)) + 1.0
    gram = design.T @ design / 30
    scale, ridge = rng.uniform(0.5, 5.0, P), rng.uniform(0.1, 2.0, (P, 1))
    right = rng.normal(size=(P, K + n_fixed))
    found = Metric.of(gram, K).solve(right, scale, ridge)
    penalty = np.repeat([1.0, 0.0], [K, n_fixed])
    matrices = scale[:, None, None] * gram + ridge[:, :, None] * np.diag(penalty)
    np.testing.assert_allclose(np.einsum("jab,jb->ja", matrices, found), right, rtol=1e-8, atol=1e-8)


def test_rows_start_with_newton_steps() -> None:
    # At the origin all rows of a table without offsets have one curvature, and the preconditioner is exact.
    family = Poisson()
    conjugate, _, coefficients, *_ = problem_and_point(family, missing=False)
    data = check_data(draw(family), covariates=np.zeros((N, 2)))
    exact = BilinearProblem(family, conjugate.score_prior, conjugate.loading_prior, ridges=conjugate.ridges)
    found, _ = conjugate.step(data.blocks[0], Shared(coefficients), None)
    expected, _ = exact.step(data.blocks[0], Shared(coefficients), None)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def fit(X: Any, *, conjugate: bool, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> EPCA:
    monkeypatch.setattr(_fit, "MOST_EXACT", 0 if conjugate else 100)
    names = ("sample_weight", "offset", "covariates")
    extra = {name: settings.pop(name) for name in names if name in settings}
    return EPCA(K, **{"n_jobs": 1, "tol": 1e-7, "max_iter": 3000, **settings}).fit(X, **extra)


def assert_same(found: EPCA, expected: EPCA) -> None:
    """Both end at one optimum; their gradients per entry of 1e-7 leave predictors right to a hundred times that."""
    assert found.converged_
    assert np.all(np.diff(found.objective_trace_) >= -1e-10 * abs(found.objective_trace_[-1]))
    np.testing.assert_allclose(found.objective_trace_[-1], expected.objective_trace_[-1], rtol=1e-8)
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-4)
    np.testing.assert_allclose(found.intercept_, expected.intercept_, atol=1e-4)
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-4)


EVERY = [family for name in families for family in families[name].examples()[:1]]


@pytest.mark.parametrize("family", EVERY, ids=lambda family: family.name)
def test_optimum_is_that_of_newton_steps(family: Family) -> None:
    data = check_data(draw(family, k=K))
    priors = Ridge(np.full(K, 2.0)), Ridge(np.array([2.0] * K + [0.0]))
    exact = BilinearProblem(family, *priors, ridges=(2.0, np.full(P, 2.0)))
    conjugate = ConjugateProblem(family, *priors, ridges=(2.0, np.full(P, 2.0)))
    rng = np.random.default_rng(7)
    start = Coefficients(0.3 * rng.normal(size=(P, K)), np.zeros((P, 1)), np.full(P, 0.5))

    def solve(problem: BilinearProblem, shared: Shared, local: Any) -> tuple[Any, Any]:
        with executor_for(data, 1) as executor:
            loop = Loop(problem, data, executor, max_iter=3000, tol=1e-7)
            result, rows, _ = loop.run(shared, local)
        assert result.converged
        slack = 1e-12 * (1.0 + np.abs(result.trace[-1]))
        assert np.all(np.diff(result.trace) >= -slack)
        return result, rows

    expected, rows = solve(exact, Shared(start), None)
    # From near by, since some families have several optima.
    moved = expected.shared.coefficients.joint * rng.uniform(0.9, 1.1, (P, K + 1))
    found, _ = solve(conjugate, Shared(start.with_joint(moved)), rows)
    np.testing.assert_allclose(found.trace[-1], expected.trace[-1], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])
@pytest.mark.parametrize("name", ["sample_weight", "offset", "covariates"])
def test_companions_are_honoured(name: str, missing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    X = draw("poisson", missing=missing)
    settings = {"family": "poisson", "ridge": 3.0, "monkeypatch": monkeypatch, name: companions()[name]}
    found, expected = (fit(X, conjugate=is_conjugate, **settings) for is_conjugate in (True, False))
    assert_same(found, expected)


# A ridge of 0.01 leaves scores of 360 here, whose rounding hides gains that a gradient of 1e-7 stands for.
@pytest.mark.parametrize("settings", [{"ridge": 0.1}, {"fit_intercept": False}], ids=str)
def test_settings_are_honoured(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    X = draw("bernoulli", n=150, p=12, k=K)
    settings = {"family": "bernoulli", "ridge": 1.0, "monkeypatch": monkeypatch, **settings}
    found, expected = (fit(X, conjugate=is_conjugate, **settings) for is_conjugate in (True, False))
    assert_same(found, expected)


def test_dask_gives_the_fit_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    X = draw("poisson", k=K)
    settings = {"family": "poisson", "conjugate": True, "monkeypatch": monkeypatch}
    assert_same(fit(da.from_array(X, chunks=(15, -1)), **settings), fit(X, **settings))


def test_the_same_again_is_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    X = draw("poisson", k=K)
    settings = {"family": "poisson", "conjugate": True, "monkeypatch": monkeypatch}
    one, other = (fit(X, **settings, tol=1e-3) for _ in range(2))
    np.testing.assert_array_equal(one.components_, other.components_)


def test_many_components_take_no_memory_for_their_pairs() -> None:
    p, k = 1500, 80
    X = np.random.default_rng(0).poisson(1.0, (120, p)).astype(float)
    model = EPCA(k, family="poisson", n_jobs=1, max_iter=3, tol=1.0)
    tracemalloc.start()
    try:
        model.fit(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # One number for each pair and column would be 39 MB.
    assert peak < 25e6


def test_a_predictor_that_overflows_is_left_by_the_penalty() -> None:
    problem, block, coefficients, points, _ = problem_and_point(Poisson(), missing=False)
    far = points.copy()
    far[0] = 1e4
    new, _ = problem.step(block, Shared(coefficients), far)
    assert np.all(np.isfinite(new))
    assert np.abs(new[0]).max() < 1e4


def test_status_is_told() -> None:
    model = EPCA(20, family="poisson", n_jobs=1, tol=1e-3).fit(draw("poisson", n=60, p=30))
    assert model.status_ == Status.CONVERGED.value


@pytest.mark.parametrize("k", [2, MOST_EXACT + 1])
@pytest.mark.parametrize("ridge", [0.0, 1.0])
@pytest.mark.parametrize("missing", [0.0, 0.2], ids=["complete", "missing"])
def test_rows_that_start_in_single_precision_end_at_the_same_modes(k, ridge, missing):
    drawn = make_low_rank(
        60, 80, 2, family="poisson", signal=0.7, intercept=1.0, missing=missing, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a model to score rows with need not be the best
        model = EPCA(k, family="poisson", ridge=ridge, max_iter=4, n_jobs=1).fit(drawn.X)
    assert model._fit.problem.starts_rough
    found = model.transform(drawn.X)
    model._fit = replace(model._fit, problem=replace(model._fit.problem, starts_rough=False))
    expected = model.transform(drawn.X)
    # The value of a row is flat at its mode: half of its digits tell where that is.
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    np.testing.assert_array_equal(model.transform(drawn.X[:7]).shape, (7, k))

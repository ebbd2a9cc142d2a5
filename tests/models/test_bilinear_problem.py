"""The joint objective: sweeps against L-BFGS, the pieces of a sweep against each other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from anypca import EPCA
from anypca.datasets import make_low_rank
from anypca.engine import check_data, executor_for
from anypca.families import Bernoulli, Family, Gaussian, NegativeBinomial, Poisson, combine, families
from anypca.linalg import balance
from anypca.models._bilinear.alternating import Gauge, Shared
from anypca.models._bilinear.dispersion import noise_units
from anypca.models._bilinear.evaluator import Coefficients
from anypca.models._bilinear.problem import BilinearProblem
from anypca.priors import L1, Ridge
from anypca.solvers import Loop
from anypca.solvers.lbfgs import lbfgs

N, P, K = 25, 7, 2
RIDGE = 0.5

FAMILIES = [family for name in families for family in families[name].examples()]
MIXED = combine([(Poisson(), Bernoulli(), Gaussian(), NegativeBinomial())[column % 4] for column in range(P)])


def family_id(family: Family) -> str:
    return family.name if family is MIXED else repr(family).replace("=None", "")


def draw(family: Family, missing: float = 0.0, seed: int = 0) -> np.ndarray:
    """A table of rank two, every row with an observed entry, shape (N, P)."""
    X = make_low_rank(N, P, 2, family=family, signal=0.7, dispersion=0.3, random_state=seed).X
    hide = np.random.default_rng(seed).random(X.shape) < missing
    hide[np.arange(N), np.arange(N) % P] = False
    X[hide] = np.nan
    return X


@dataclass(frozen=True)
class Joint:
    """The penalised log-likelihood of scores and coefficients in one vector, written out on dense arrays."""

    family: Family
    X: np.ndarray
    dispersion: np.ndarray
    ridge: float = RIDGE
    offset: np.ndarray | float = 0.0
    weights: np.ndarray | float = 1.0

    def split(self, vector: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        n, p = self.X.shape
        k = (vector.size - p) // (n + p)
        return vector[: n * k].reshape(n, k), vector[n * k :].reshape(p, k + 1)

    def value_and_gradient(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        scores, joint = self.split(vector)
        k = scores.shape[1]
        weights = np.broadcast_to(self.weights, len(scores))[:, None]
        design = np.hstack([scores, np.ones((len(scores), 1))])
        seen = ~np.isnan(self.X)
        x = np.where(seen, self.X, 1.0)
        eta = design @ joint.T + self.offset
        found = self.family.evaluate(x, eta, self.dispersion, order=1)
        slope = np.where(seen, found.gradient, 0.0)
        likelihood = np.where(seen, self.family.log_likelihood(x, eta, self.dispersion), 0.0)
        on_loadings = self.ridge / noise_units(self.family, self.dispersion)[:, None]
        penalty = 0.5 * ((self.ridge * weights * scores**2).sum() + (on_loadings * joint[:, :k] ** 2).sum())
        on_scores = weights * (slope @ joint[:, :k] - self.ridge * scores)
        on_joint = (weights * slope).T @ design
        on_joint[:, :k] -= on_loadings * joint[:, :k]
        value = float((weights * likelihood).sum() - penalty)
        return value, np.concatenate([on_scores.ravel(), on_joint.ravel()])


def make_problem(family: Family, X: np.ndarray, dispersion: np.ndarray, **changes: Any) -> BilinearProblem:
    seen = ~np.isnan(X)
    base = np.where(seen, family.log_base(np.where(seen, X, 1.0), dispersion), 0.0).sum()
    problem = BilinearProblem(
        family,
        Ridge(np.full(K, RIDGE)),
        Ridge(np.array([RIDGE] * K + [0.0]), 1.0 / noise_units(family, dispersion)),
        constant=float(base),
        ridges=(RIDGE, RIDGE / noise_units(family, dispersion)),
    )
    return replace(problem, **changes)


def start(family: Family, X: np.ndarray, seed: int = 1) -> tuple[np.ndarray, Coefficients]:
    """Small random scores and loadings, intercepts at the means."""
    rng = np.random.default_rng(seed)
    known = family.known_dispersion(P)
    dispersion = np.where(np.isnan(known), 0.4, known)
    count = (~np.isnan(X)).sum(axis=0).astype(float)
    intercept = family.link(family.interior_mean(np.nansum(X, axis=0), count))
    loadings = 0.3 * rng.standard_normal((P, K))
    return 0.3 * rng.standard_normal((N, K)), Coefficients(loadings, intercept[:, None], dispersion)


def pack(scores: np.ndarray, coefficients: Coefficients) -> np.ndarray:
    return np.concatenate([scores.ravel(), coefficients.joint.ravel()])


ALL = pytest.mark.parametrize("family", [*FAMILIES, MIXED], ids=family_id)
MISSING = pytest.mark.parametrize("missing", [0.0, 0.3], ids=["complete", "missing"])


def test_the_reference_gradient_is_right() -> None:
    X = draw(Poisson(), missing=0.2)
    scores, coefficients = start(Poisson(), X)
    rng = np.random.default_rng(0)
    joint = Joint(Poisson(), X, coefficients.dispersion, weights=rng.random(N), offset=0.1)
    vector, direction = pack(scores, coefficients), rng.standard_normal(N * K + P * (K + 1))
    up, down = (joint.value_and_gradient(vector + h * direction)[0] for h in (1e-6, -1e-6))
    np.testing.assert_allclose((up - down) / 2e-6, joint.value_and_gradient(vector)[1] @ direction, rtol=1e-7)


@ALL
@MISSING
def test_sweeps_reach_the_optimum_of_lbfgs(family: Family, missing: float) -> None:
    X = draw(family, missing=missing)
    scores, coefficients = start(family, X)
    data = check_data(X)
    problem = make_problem(family, X, coefficients.dispersion)
    with executor_for(data, 1) as executor:
        # A few sweeps lead to the neighbourhood of one of the local optima, where both then start.
        near, local, _ = Loop(problem, data, executor, max_iter=8, tol=1e-8).run(
            Shared(coefficients), [scores]
        )
        common = near.shared.coefficients
        result, _, _ = Loop(problem, data, executor, max_iter=3000, tol=1e-8).run(Shared(common), local)
    reference = lbfgs(Joint(family, X, common.dispersion), pack(local[0], common), tol=1e-6)
    assert result.converged
    assert result.trace[-1] - result.trace[0] > 1e-6, "the start must leave something to do"
    np.testing.assert_allclose(result.trace[-1], reference.trace[-1], rtol=1e-7)


@ALL
@MISSING
def test_nothing_is_left_to_gain_after_a_fit(family: Family, missing: float) -> None:
    X = draw(family, missing=missing)
    model = EPCA(K, family=family, ridge=RIDGE, tol=1e-8, max_iter=3000, n_jobs=1).fit(X)
    # With the parameters of the columns that the table told.
    joint, scores = Joint(model.family_, X, model.dispersion_), model.transform(X)
    # Reported loadings have length one; the penalty is least where the two Gram matrices are equal.
    weighted = model.components_ / noise_units(family, model.dispersion_)
    matrix, inverse = balance(scores.T @ scores, weighted @ model.components_.T)
    loadings = model.components_.T @ inverse
    vector = pack(scores @ matrix, Coefficients(loadings, model.intercept_[:, None], model.dispersion_))
    value = joint.value_and_gradient(vector)[0]
    # The trace is that of log-probabilities of what is recorded: densities times the steps.
    steps = np.where(np.isnan(X), 0.0, family.log_step(np.nan_to_num(X, nan=1.0), model.resolution_)).sum()
    np.testing.assert_allclose(value + steps, model.objective_trace_[-1], rtol=1e-7)
    improved = lbfgs(joint, vector, tol=1e-6).trace[-1]
    assert improved - value <= 1e-7 * (1.0 + abs(value))


def test_fit_with_weights_and_offsets_is_optimal() -> None:
    X = draw(Poisson())
    rng = np.random.default_rng(3)
    weights, offset = rng.integers(1, 4, N).astype(float), 0.5 * rng.standard_normal((N, 1))
    model = EPCA(K, family="poisson", ridge=RIDGE, tol=1e-8, max_iter=3000, n_jobs=1)
    model.fit(X, sample_weight=weights, offset=offset[:, 0])
    found = model.transform(X, offset=offset[:, 0])
    scale = np.sqrt(np.sqrt(weights @ found**2))
    balanced = Coefficients(model.components_.T * scale, model.intercept_[:, None], model.dispersion_)
    joint = Joint(Poisson(), X, model.dispersion_, offset=offset, weights=weights)
    vector = pack(found / scale, balanced)
    value = joint.value_and_gradient(vector)[0]
    np.testing.assert_allclose(value, model.objective_trace_[-1], rtol=1e-9)
    assert lbfgs(joint, vector, tol=1e-6).trace[-1] - value <= 1e-9 * abs(value)


# Pieces of a sweep


@ALL
def test_objective_is_the_penalised_log_likelihood(family: Family) -> None:
    X = draw(family, missing=0.2)
    scores, coefficients = start(family, X)
    problem = make_problem(family, X, coefficients.dispersion)
    new, stats = problem.step(check_data(X).blocks[0], Shared(coefficients), scores)
    expected = Joint(family, X, coefficients.dispersion).value_and_gradient(pack(new, coefficients))[0]
    np.testing.assert_allclose(problem.objective(Shared(coefficients), stats), expected, rtol=1e-12)


@ALL
def test_statistics_of_blocks_add_up(family: Family) -> None:
    X = draw(family, missing=0.2)
    scores, coefficients = start(family, X)
    problem = make_problem(family, X, coefficients.dispersion)
    _, whole = problem.step(check_data(X).blocks[0], Shared(coefficients), scores)
    data = check_data(X, block_rows=7)
    parts = [
        problem.step(block, Shared(coefficients), scores[block.start : block.stop])[1]
        for block in data.blocks
    ]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    for name in ("exit_columns", "gradient", "curvature", "score_gram", "row_decrement", "n_entries"):
        found, expected = getattr(total, name), getattr(whole, name)
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11, err_msg=name)


@ALL
def test_a_gauge_leaves_the_predictor_as_it_is(family: Family) -> None:
    X = draw(family)
    scores, coefficients = start(family, X)
    problem = make_problem(family, X, coefficients.dispersion)
    new, stats = problem.step(check_data(X).blocks[0], Shared(coefficients), scores + 2.0)
    proposal = problem.update(Shared(coefficients), stats).shared
    assert isinstance(proposal.gauge, Gauge)
    plain = proposal.gauge.backward(proposal.coefficients)
    moved = proposal.gauge.apply(new, np.ones((N, 1)))
    found = np.hstack([moved, np.ones((N, 1))]) @ proposal.coefficients.joint.T
    expected = np.hstack([new, np.ones((N, 1))]) @ plain.joint.T
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(moved.mean(axis=0), 0.0, atol=1e-10)
    before = RIDGE * 0.5 * (new**2).sum() + problem.loading_prior.value(plain.joint).sum()
    after = RIDGE * 0.5 * (moved**2).sum() + problem.loading_prior.value(proposal.coefficients.joint).sum()
    assert after <= before * (1 + 1e-12)


def test_repair_halves_the_columns_that_got_worse() -> None:
    X = draw(Poisson())
    scores, coefficients = start(Poisson(), X)
    problem = make_problem(Poisson(), X, coefficients.dispersion, ridges=None)
    block, here = check_data(X.astype(int)).blocks[0], Shared(coefficients)
    local, before = problem.step(block, here, scores)
    proposal = problem.update(here, before).shared
    _, after = problem.step(block, proposal, local)
    assert problem.repair(here, proposal, before, after) is None
    spoiled = proposal.coefficients.joint.copy()
    spoiled[3] += 5.0
    far = Shared(coefficients.with_joint(spoiled))
    _, after = problem.step(block, far, local)
    repaired = problem.repair(here, far, before, after)
    assert repaired is not None
    expected = spoiled.copy()
    expected[3] = 0.5 * (spoiled[3] + coefficients.joint[3])
    np.testing.assert_allclose(repaired.coefficients.joint, expected, rtol=1e-12)


def test_steps_that_overflow_are_refused() -> None:
    # Loadings so large that a Newton step of the rows overshoots to overflow.
    X = np.array([[1e6, 0.0], [0.0, 1e6], [3.0, 1.0]])
    coefficients = Coefficients(np.array([[400.0], [-300.0]]), np.zeros((2, 1)), np.ones(2))
    problem = BilinearProblem(Poisson(), Ridge(np.zeros(1)), Ridge(np.zeros(2)))
    new, stats = problem.step(check_data(X).blocks[0], Shared(coefficients), np.zeros((3, 1)))
    assert np.all(np.isfinite(new))
    assert np.all(np.isfinite(stats.exit_columns))


def test_l1_objective_never_gets_worse() -> None:
    X = draw(Poisson())
    _, coefficients = start(Poisson(), X)
    problem = make_problem(
        Poisson(), X, coefficients.dispersion, score_prior=L1(np.full(K, 2.0)), ridges=None
    )
    data = check_data(X)
    with executor_for(data, 1) as executor:
        result, local, _ = Loop(problem, data, executor, max_iter=400, tol=1e-6).run(Shared(coefficients))
    assert np.diff(result.trace).min() >= -1e-9 * (1 + abs(result.trace[-1]))
    assert np.any(local[0] == 0.0)

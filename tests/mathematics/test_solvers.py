"""The loop and its steps on problems with known answers: statuses, monotone traces, linear systems, spectra, draws."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from tests.draws import generator, seed

from anypca.engine import Block, check_data, check_values, executor_for, summarise
from anypca.exceptions import ConvergenceWarning, NonFiniteError
from anypca.solvers import BlockProblem, Coordinates, Loop, Result, Status, Update, closed_form
from anypca.solvers._records import pack, unpack
from anypca.solvers.acceleration import two_loop
from anypca.solvers.closed_form import Centring, covariance_spectrum
from anypca.solvers.conjugate import conjugate_gradients
from anypca.solvers.lbfgs import lbfgs
from anypca.solvers.nuts import NutsOptions, sample_nuts

LEAST_CURVATURE = 0.01


@dataclass
class Quadratic(BlockProblem[np.ndarray, int, np.ndarray]):
    """Maximise ``-x' A x / 2 + b' x`` by steps ``x + rate (b - A x)``; the blocks only carry it along."""

    matrix: np.ndarray
    vector: np.ndarray
    rate: float = 1.0
    visited: list[np.ndarray] = field(default_factory=list)

    def step(self, block: Block, shared: np.ndarray, local: int | None) -> tuple[int, np.ndarray]:
        if block.start == 0:
            self.visited.append(shared)
        value = -0.5 * shared @ self.matrix @ shared + self.vector @ shared
        return (local or 0) + 1, np.array([block.n_rows / 10 * value])

    def update(self, shared: np.ndarray, stats: np.ndarray) -> Update[np.ndarray]:
        slope = self.vector - self.matrix @ shared
        return Update(shared + self.rate * slope, float(np.linalg.norm(slope)))

    def objective(self, shared: np.ndarray, stats: np.ndarray) -> float:
        return float(stats[0])

    def resolution(self, shared: np.ndarray, stats: np.ndarray) -> float:
        """Rounding of the sums of products: as many units in the last place as there are terms."""
        terms = 0.5 * abs(shared) @ abs(self.matrix) @ abs(shared) + abs(self.vector) @ abs(shared)
        return float(2 * len(shared) * np.finfo(float).eps * (1.0 + terms))

    def backtrack(
        self, shared: np.ndarray, proposal: np.ndarray, before: np.ndarray, after: np.ndarray
    ) -> Any:
        is_worse = after[0] < before[0] - self.resolution(shared, before)
        return 0.5 * (shared + proposal) if is_worse else None

    def coordinates(self, shared: np.ndarray, stats: np.ndarray) -> Coordinates | None:
        return Coordinates(shared, np.ones_like(shared))

    def with_coordinates(self, vector: np.ndarray, like: np.ndarray) -> np.ndarray:
        return vector


def slow(kind: type[Quadratic] = Quadratic, **changes: Any) -> Any:
    """Return a problem of condition number 100: plain steps need hundreds of sweeps."""
    rng = generator("slow")
    basis = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    matrix = basis @ np.diag(np.geomspace(LEAST_CURVATURE, 1.0, 6)) @ basis.T
    return kind(matrix, 1.0 + rng.random(6), **changes)


def run(problem: Any, *, block_rows: int | None = None, **options: Any) -> Result[np.ndarray]:
    data = check_data(np.zeros((10, 2)), block_rows=block_rows)
    with executor_for(data, 1) as executor:
        loop = Loop(problem, data, executor, **{"max_iter": 5000, "tol": 1e-8, **options})
        return loop.run(np.zeros(len(problem.vector)))[0]


@pytest.mark.parametrize("accelerate", [True, False], ids=["accelerated", "plain"])
@pytest.mark.parametrize("block_rows", [3, None])
def test_the_loop_ends_at_the_solution(accelerate: bool, block_rows: int | None) -> None:
    problem, seen = slow(), []
    result = run(problem, accelerate=accelerate, block_rows=block_rows, callback=seen.append)
    assert result.status is Status.CONVERGED
    assert result.converged
    assert result.criterion <= 1e-8
    # A gradient of tol over the smallest curvature is the largest error at which it stops.
    solution = np.linalg.solve(problem.matrix, problem.vector)
    np.testing.assert_allclose(result.shared, solution, rtol=0, atol=1e-8 / LEAST_CURVATURE)
    assert np.diff(result.trace).min() >= -2 * problem.resolution(result.shared, np.zeros(1))
    # The callback reports every iteration.
    assert [each.iteration for each in seen] == list(range(1, result.n_iter + 1))
    np.testing.assert_array_equal([each.objective for each in seen], result.trace)
    assert seen[-1].criterion == result.criterion
    assert {each.max_iter for each in seen} == {5000}


@pytest.mark.parametrize("max_iter", [1, 2, 7])
def test_max_iter_bounds_the_sweeps(max_iter: int) -> None:
    problem = slow()
    result = run(problem, max_iter=max_iter, accelerate=False)
    assert result.status is Status.MAX_ITER
    assert not result.converged
    assert result.n_iter == len(result.trace) == len(problem.visited) == max_iter
    # Criterion and trace belong to the point that is returned.
    assert result.criterion == problem.update(result.shared, np.zeros(1)).criterion
    value = result.shared @ (problem.vector - 0.5 * problem.matrix @ result.shared)
    assert result.trace[-1] == pytest.approx(value, rel=1e-12)


def test_overshooting_steps_are_repaired() -> None:
    """A step of three times the inverse curvature overshoots."""
    problem = slow(rate=3.0)
    result = run(problem, accelerate=False, max_iter=200, tol=1e-3)
    assert len(problem.visited) > result.n_iter
    assert np.diff(result.trace).min() >= -2 * problem.resolution(result.shared, np.zeros(1))
    assert result.trace[-1] > result.trace[0]


@dataclass
class Downhill(Quadratic):
    """Proposals go the wrong way, and cautious ones too if ``repairs``."""

    repairs: bool = True

    def update(self, shared: np.ndarray, stats: np.ndarray) -> Update[np.ndarray]:
        good = super().update(shared, stats)
        return Update(2.0 * shared - good.shared - 1.0, good.criterion)

    def backtrack(self, *points: Any) -> Any:
        return super().backtrack(*points) if self.repairs else None


@pytest.mark.parametrize("repairs", [True, False])
def test_the_loop_stalls_if_nothing_improves(repairs: bool) -> None:
    result = run(Downhill(np.eye(2), np.ones(2), repairs=repairs))
    assert result.status is Status.STALLED
    assert not result.converged
    np.testing.assert_array_equal(result.shared, np.zeros(2))
    assert len(result.trace) == 1


@dataclass
class Breaking(Quadratic):
    """The objective or the criterion is not finite from a given sweep on."""

    sweep: int = 1
    value: float = np.nan
    part: str = "objective"

    def objective(self, shared: np.ndarray, stats: np.ndarray) -> float:
        is_broken = self.part == "objective" and len(self.visited) >= self.sweep
        return self.value if is_broken else super().objective(shared, stats)

    def update(self, shared: np.ndarray, stats: np.ndarray) -> Update[np.ndarray]:
        found = super().update(shared, stats)
        is_broken = self.part == "criterion" and len(self.visited) >= self.sweep
        return Update(found.shared, self.value) if is_broken else found


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("part", "sweep"), [("objective", 1), ("objective", 4), ("criterion", 4)])
def test_non_finite_numbers_raise_with_the_iteration(part: str, sweep: int, value: float) -> None:
    iteration = sweep if part == "criterion" else sweep - 1
    with pytest.raises(NonFiniteError, match=rf"at iteration {iteration}\b"):
        run(slow(Breaking, sweep=sweep, value=value, part=part), accelerate=False)


@dataclass
class Overflowing(Quadratic):
    """Sums of points that are as far as half of the way to the solution are infinite, values are not."""

    def step(self, block: Block, shared: np.ndarray, local: int | None) -> tuple[int, np.ndarray]:
        n_steps, value = super().step(block, shared, local)
        is_far = 2.0 * np.linalg.norm(shared) > np.linalg.norm(np.linalg.solve(self.matrix, self.vector))
        return n_steps, np.append(value, np.inf if is_far else 0.0)


@pytest.mark.parametrize("accelerate", [True, False], ids=["accelerated", "plain"])
def test_points_with_infinite_sums_are_never_taken(accelerate: bool) -> None:
    problem = slow(Overflowing)
    result = run(problem, accelerate=accelerate)
    assert result.status is Status.STALLED
    assert np.isfinite(problem.step(check_data(np.zeros((10, 2))).blocks[0], result.shared, None)[1]).all()
    assert np.all(np.diff(result.trace) > 0)


# Quasi-Newton steps


def curvature_pairs(n_pairs: int, size: int = 5) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return steps on a quadratic function and the decreases of its gradient."""
    rng = generator("pairs")
    root = rng.standard_normal((size, size))
    return [(step, root @ root.T @ step + 0.1 * step) for step in rng.standard_normal((n_pairs, size))]


@pytest.mark.parametrize("n_pairs", [0, 1, 3])
def test_two_loops_are_the_bfgs_matrix(n_pairs: int) -> None:
    pairs, gradient = curvature_pairs(n_pairs), generator("gradient").standard_normal(5)
    weight = np.array([1.0, 0.5, 2.0, 0.3, 1.0])
    inverse = np.diag(1.0 / weight)
    if pairs:
        step, change = pairs[-1]
        inverse = inverse * (step @ change) / (change @ inverse @ change)
    for step, change in pairs:
        along = step @ change
        left = np.eye(len(step)) - np.outer(step, change) / along
        inverse = left @ inverse @ left.T + np.outer(step, step) / along
    found = two_loop(gradient, pairs, solve=lambda vector: vector / weight)
    np.testing.assert_allclose(found, inverse @ gradient, rtol=1e-9, atol=1e-10)
    # With residuals r = g / weight in place of gradients, products are weighted.
    residuals = [(step, change / weight) for step, change in pairs]
    same = two_loop(gradient / weight, residuals, product=lambda one, other: float((weight * one) @ other))
    np.testing.assert_allclose(same, found, rtol=1e-9, atol=1e-10)


# Ascent of functions


class Function:
    def __init__(self, function: Any) -> None:
        self.value_and_gradient = function


def rosenbrock(x: np.ndarray) -> tuple[float, np.ndarray]:
    first, second = 1.0 - x[0], x[1] - x[0] ** 2
    gradient = np.array([2.0 * first + 400.0 * x[0] * second, -200.0 * second])
    return float(-(first**2) - 100.0 * second**2), gradient


def test_lbfgs_finds_the_maximum_of_rosenbrock() -> None:
    begin = np.array([-1.2, 1.0])
    result = lbfgs(Function(rosenbrock), begin, tol=1e-9)
    assert result.status is Status.CONVERGED
    np.testing.assert_allclose(result.shared, [1.0, 1.0], rtol=1e-7)
    assert np.all(np.diff(result.trace) >= 0)
    assert result.n_iter == len(result.trace)
    assert result.trace[0] == rosenbrock(begin)[0]
    short = lbfgs(Function(rosenbrock), begin, max_iter=3)
    assert short.status is Status.MAX_ITER
    assert short.criterion > 1e-6
    rising = lbfgs(Function(rosenbrock), begin, least_gain=1e-9, max_iter=5)
    assert (rising.status, rising.converged) == (Status.RISING, False)


def test_lbfgs_stalls_on_wrong_gradients_and_raises_on_nan() -> None:
    assert lbfgs(Function(lambda x: (-float(x @ x), 2.0 * x)), np.ones(2)).status is Status.STALLED
    with pytest.raises(NonFiniteError, match="iteration 0"):
        lbfgs(Function(lambda x: (np.nan, x)), np.ones(2))


def test_nuts_draws_from_a_normal_density() -> None:
    """Means and variances within seven standard errors of independent draws, twice as wide for correlation."""
    pytest.importorskip("nutpie")
    precision = np.array([[2.0, 0.6], [0.6, 1.0]])
    centre = np.array([3.0, -1.0])

    def density(x: np.ndarray) -> tuple[float, np.ndarray]:
        slope = -precision @ (x - centre)
        return 0.5 * float((x - centre) @ slope), slope

    options = NutsOptions(n_draws=500, n_tune=300, n_chains=2, thin=2)
    one, two = (sample_nuts(density, np.zeros((1, 2)), options, seed=seed()) for _ in range(2))
    np.testing.assert_array_equal(one.position, two.position)
    assert one.position.shape == (2, 500, 2)
    assert not one.diverging.any()
    draws, covariance = one.position.reshape(-1, 2), np.linalg.inv(precision)
    np.testing.assert_allclose(draws.mean(axis=0), centre, atol=14 * np.sqrt(covariance.max() / 1000))
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=14 * covariance.max() * np.sqrt(2 / 1000))
    expected = [density(x)[0] for x in draws]
    np.testing.assert_allclose(one.stats["lp"].ravel(), expected, rtol=1e-10)
    nothing = sample_nuts(density, np.zeros((1, 0)), options, seed=0)
    assert nothing.position.shape == (2, 500, 0)


# Conjugate gradients


def linear_systems() -> tuple[np.ndarray, np.ndarray]:
    rng = generator("systems")
    roots = rng.normal(size=(6, 5, 5))
    return roots @ roots.transpose(0, 2, 1) + 0.1 * np.eye(5), rng.normal(size=(6, 5))


def solve(matrices: np.ndarray, right: np.ndarray, steps: int, tol: float = 0.0) -> np.ndarray:
    diagonal = np.einsum("iaa->ia", matrices)
    return conjugate_gradients(
        lambda p: np.einsum("iab,ib->ia", matrices, p),
        right,
        lambda r: r / np.where(diagonal > 0, diagonal, 1.0),
        max_steps=steps,
        tol=tol,
    )


def test_conjugate_gradients_solve_in_as_many_steps_as_unknowns() -> None:
    matrices, right = linear_systems()
    best = solve(matrices, right, 5)
    np.testing.assert_allclose(
        best, np.linalg.solve(matrices, right[:, :, None])[:, :, 0], rtol=1e-5, atol=1e-7
    )
    for steps in (1, 2, 3):  # before that, each step gains half of its slope
        found = solve(matrices, right, steps)
        slope = np.einsum("ia,ia->i", right, found)
        np.testing.assert_allclose(slope, np.einsum("ia,iab,ib->i", found, matrices, found), rtol=1e-9)
        assert np.all((slope > 0) & (slope < np.einsum("ia,ia->i", right, best)))
    # Systems are solved independently, and a loose tolerance saves steps.
    one = solve(matrices[2:3], right[2:3], 3)
    np.testing.assert_allclose(solve(matrices, right, 3)[2:3], one, rtol=1e-10)
    np.testing.assert_array_equal(solve(matrices, right, 5, tol=100.0), solve(matrices, right, 1))


def test_systems_without_a_solution_stay_at_zero() -> None:
    matrices, right = linear_systems()
    right[0] = 0.0
    matrices[1] = 0.0
    matrices[2] = np.inf
    with np.errstate(invalid="ignore"):
        found = solve(matrices, right, 4)
    assert np.all(found[:3] == 0.0)
    np.testing.assert_allclose(found[3:], solve(matrices[3:], right[3:], 4), rtol=1e-10)


# Records of checkpoints


def test_records_hold_values_of_the_package_and_nothing_else() -> None:
    values = [
        None,
        True,
        3,
        -0.0,
        float("inf"),
        "word",
        [1, (2.0, None)],
        {"a": {"b": 2**100}},
        Status.CONVERGED,
    ]
    assert unpack(pack(values)) == values
    update = unpack(pack(Update(np.arange(6.0).reshape(3, 2), 0.5)))
    assert isinstance(update, Update)
    np.testing.assert_array_equal(update.shared, np.arange(6.0).reshape(3, 2))
    for name in ("subprocess:Popen", "anypca.engine:check_data"):
        buffer = io.BytesIO()
        np.savez(buffer, tree=np.array(json.dumps({"type": name, "fields": {"args": "true"}})))
        with pytest.raises(ValueError, match=name.partition(":")[2]):
            unpack(buffer.getvalue())
    with pytest.raises(TypeError, match="function"):
        pack(lambda: None)


# Spectra of covariance matrices


def spectrum_of(
    X: np.ndarray, *, block_rows: int | None = None, n_components: int | None = None, weight: Any = None
):
    data = check_data(X, block_rows=block_rows, sample_weight=weight)
    with executor_for(data, 2) as executor:
        summary = summarise(data, executor)
        data, divisor = check_values(summary, data), len(X) if weight is None else np.sum(weight)
        centring = Centring(summary.mean)
        return covariance_spectrum(data, executor, centring, divisor=divisor, n_components=n_components)


@pytest.mark.parametrize("form", ["dense", "iterative"])
@pytest.mark.parametrize("block_rows", [None, 7])
@pytest.mark.parametrize(("n", "p"), [(300, 170), (170, 300)], ids=["tall", "wide"])
@pytest.mark.parametrize("is_weighted", [False, True], ids=["equal", "weighted"])
def test_spectra_equal_those_of_the_covariance(form, block_rows, n, p, is_weighted, rng, monkeypatch) -> None:
    if form == "iterative":
        monkeypatch.setattr(closed_form, "_DENSE_LIMIT", 50)
    if block_rows:  # several chunks of blocks
        monkeypatch.setattr(closed_form, "_CHUNK_ROWS", 2 * block_rows)
        monkeypatch.setattr(closed_form, "_CHUNK_BYTES", 8 * p * 2 * block_rows)
    X = (
        3.0
        + rng.normal(size=(n, 4)) * [9, 7, 5, 3] @ np.linalg.qr(rng.normal(size=(p, 4)))[0].T
        + rng.normal(size=(n, p))
    )
    weight = rng.uniform(0.1, 3, n) if is_weighted else None
    found = spectrum_of(
        X, block_rows=block_rows, n_components=4 if form == "iterative" else None, weight=weight
    )
    values, vectors = np.linalg.eigh(np.cov(X.T, ddof=0, aweights=weight))
    values, vectors = values[::-1], vectors[:, ::-1]
    k = len(found.values)
    assert k == (4 if form == "iterative" else min(n, p))
    np.testing.assert_allclose(found.values, values[:k], atol=1e-11 * values[0])
    np.testing.assert_allclose(found.trace, values.sum(), rtol=1e-11)
    np.testing.assert_allclose(np.abs(found.vectors[:, :4].T @ vectors[:, :4]), np.eye(4), atol=1e-8)
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(k), atol=1e-9)


def test_iterations_on_a_flat_spectrum_restart_and_warn_if_they_run_out(rng, monkeypatch) -> None:
    monkeypatch.setattr(closed_form, "_DENSE_LIMIT", 50)
    X = rng.standard_normal((300, 150))
    values = np.linalg.eigvalsh(np.cov(X.T, ddof=0))[::-1]
    np.testing.assert_allclose(spectrum_of(X, n_components=3).values, values[:3], rtol=1e-11)
    monkeypatch.setattr(closed_form, "_MAX_SWEEPS", 2)
    with pytest.warns(ConvergenceWarning, match="not found to full precision"):
        spectrum_of(X, n_components=3)


def test_spectra_of_tables_with_gaps_and_without_rank(rng) -> None:
    X = 3.0 + rng.normal(size=(40, 6))
    missing = rng.random(X.shape) < 0.2
    filled = np.where(missing, np.nanmean(np.where(missing, np.nan, X), axis=0), X)
    found = spectrum_of(np.where(missing, np.nan, X), block_rows=9)
    expected = np.linalg.eigvalsh(np.cov(filled.T, ddof=0))[::-1]
    np.testing.assert_allclose(found.values, expected, atol=1e-12 * expected[0])
    flat = spectrum_of(np.outer(np.arange(6.0), np.ones(9)))
    np.testing.assert_allclose(flat.vectors.T @ flat.vectors, np.eye(6), atol=1e-12)
    np.testing.assert_allclose(flat.values[1:], 0.0, atol=1e-12 * flat.values[0])

"""The loop: statuses, monotone traces, repairs, errors; on small problems with known answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from anypca.engine import Block, Data, check_data, executor_for
from anypca.exceptions import NonFiniteError
from anypca.solvers import BlockProblem, Coordinates, Loop, Progress, Result, Status, Update


@dataclass
class Quadratic(BlockProblem[np.ndarray, int, np.ndarray]):
    """Maximise ``-x' A x / 2 + b' x`` by steps ``x + P (b - A x)``; the blocks only carry it along.

    ``step`` evaluates the objective where it is; ``rate`` sets how fast the plain iteration is.
    """

    matrix: np.ndarray
    vector: np.ndarray
    rate: float = 1.0
    extrapolates: bool = True
    repairs: list[int] = field(default_factory=list)
    visited: list[np.ndarray] = field(default_factory=list)

    def step(self, block: Block, shared: np.ndarray, local: int | None) -> tuple[int, np.ndarray]:
        share = block.n_rows / 10
        value = -0.5 * shared @ self.matrix @ shared + self.vector @ shared
        if block.start == 0:
            self.visited.append(shared)
        return (local or 0) + 1, np.array([share * value])

    def update(self, shared: np.ndarray, stats: np.ndarray) -> Update[np.ndarray]:
        slope = self.vector - self.matrix @ shared
        return Update(shared + self.rate * slope, float(np.linalg.norm(slope)))

    def objective(self, shared: np.ndarray, stats: np.ndarray) -> float:
        return float(stats[0])

    def resolution(self, shared: np.ndarray, stats: np.ndarray) -> float:
        """What rounding can do to the sums of products in ``step``, whatever their order: as many ulps as terms."""
        terms = 0.5 * abs(shared) @ abs(self.matrix) @ abs(shared) + abs(self.vector) @ abs(shared)
        return float(2 * len(shared) * np.finfo(float).eps * (1.0 + terms))

    def repair(
        self, shared: np.ndarray, proposal: np.ndarray, before: np.ndarray, after: np.ndarray
    ) -> np.ndarray | None:
        if after[0] >= before[0] - self.resolution(shared, before):
            return None
        self.repairs.append(len(self.visited))
        return 0.5 * (shared + proposal)

    def coordinates(self, shared: np.ndarray, stats: np.ndarray) -> Coordinates | None:
        return Coordinates(shared, np.ones_like(shared)) if self.extrapolates else None

    def with_coordinates(self, vector: np.ndarray, like: np.ndarray) -> np.ndarray:
        return vector

    @property
    def solution(self) -> np.ndarray:
        return np.linalg.solve(self.matrix, self.vector)


LEAST_CURVATURE = 0.01


def _slow(**changes: Any) -> Quadratic:
    """Condition number 100: the plain iteration needs hundreds of sweeps."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    matrix = basis @ np.diag(np.geomspace(LEAST_CURVATURE, 1.0, 6)) @ basis.T
    return Quadratic(matrix, rng.standard_normal(6), **changes)


def _data(block_rows: int | None = None) -> Data:
    return check_data(np.zeros((10, 2)), block_rows=block_rows)


def _run(
    problem: Any, *, block_rows: int | None = None, **options: Any
) -> tuple[Result[np.ndarray], Any, Any]:
    data = _data(block_rows)
    settings = {"max_iter": 5000, "tol": 1e-8, **options}
    start = np.zeros(len(problem.vector))
    with executor_for(data, 1) as executor:
        return Loop(problem, data, executor, **settings).run(start)


def _assert_never_decreases(result: Result[np.ndarray], problem: Quadratic) -> None:
    """No sweep loses more than the rounding that the problem admits to, which is largest at the end."""
    slack = problem.resolution(result.shared, np.zeros(1))
    assert np.diff(result.trace).min() >= -2 * slack


def test_converges_to_the_solution() -> None:
    problem = _slow()
    result, _, _ = _run(problem)
    assert result.status is Status.CONVERGED
    assert result.converged
    assert result.criterion <= 1e-8
    assert result.n_iter == len(result.trace)
    # A gradient of tol over the smallest curvature is the largest error that stops.
    np.testing.assert_allclose(result.shared, problem.solution, rtol=0, atol=1e-8 / LEAST_CURVATURE)


@pytest.mark.parametrize("accelerate", [True, False], ids=["accelerated", "plain"])
def test_trace_never_decreases(accelerate: bool) -> None:
    problem = _slow()
    result, _, _ = _run(problem, accelerate=accelerate)
    _assert_never_decreases(result, problem)


def test_acceleration_saves_sweeps_and_finds_the_same() -> None:
    fast, slow = _slow(), _slow()
    accelerated, _, _ = _run(fast, accelerate=True)
    plain, _, _ = _run(slow, accelerate=False)
    assert plain.status is accelerated.status is Status.CONVERGED
    # Where the gradient is tol the objective lacks tol**2 over twice the smallest curvature, and rounding.
    lacking = 0.5 * 1e-8**2 / LEAST_CURVATURE + 2 * fast.resolution(plain.shared, np.zeros(1))
    np.testing.assert_allclose(accelerated.trace[-1], plain.trace[-1], rtol=0, atol=lacking)
    # The plain path needs log(1e10) / 0.01 sweeps, a quasi-Newton path a few for each of six directions: a factor
    # of five is far from both, so that rounding, which may add or spare a sweep, does not decide.
    assert accelerated.n_iter <= plain.n_iter / 5
    assert len(fast.visited) <= len(slow.visited) / 5, "rejected trials count as sweeps too"


def test_no_coordinates_no_extrapolation() -> None:
    without, _, _ = _run(_slow(extrapolates=False), accelerate=True)
    plain, _, _ = _run(_slow(), accelerate=False)
    np.testing.assert_array_equal(without.trace, plain.trace)


@pytest.mark.parametrize("max_iter", [1, 2, 7])
def test_max_iter_bounds_the_sweeps(max_iter: int) -> None:
    problem = _slow()
    result, _, _ = _run(problem, max_iter=max_iter, accelerate=False)
    assert result.status is Status.MAX_ITER
    assert not result.converged
    assert result.n_iter == len(result.trace) == len(problem.visited) == max_iter
    assert result.criterion > 1e-8


def test_criterion_belongs_to_the_returned_point() -> None:
    problem = _slow()
    result, _, stats = _run(problem, max_iter=5, accelerate=False)
    assert result.criterion == problem.update(result.shared, stats).criterion
    assert result.trace[-1] == problem.objective(result.shared, stats)


def test_the_last_sweep_may_converge() -> None:
    seen: list[Progress] = []
    _run(_slow(), accelerate=False, max_iter=40, callback=seen.append)
    # Halfway between the criteria of two sweeps, so that rounding does not decide which of them converges.
    tol = 0.5 * (seen[-2].criterion + seen[-1].criterion)
    assert _run(_slow(), accelerate=False, tol=tol, max_iter=40)[0].status is Status.CONVERGED
    assert _run(_slow(), accelerate=False, tol=tol, max_iter=39)[0].status is Status.MAX_ITER


def test_stops_at_once_at_a_stationary_start() -> None:
    problem = Quadratic(np.eye(2), np.zeros(2))
    result, _, _ = _run(problem)
    assert result.status is Status.CONVERGED
    assert result.n_iter == 1


def test_overshooting_steps_are_repaired() -> None:
    problem = _slow(rate=3.0)
    result, _, _ = _run(problem, accelerate=False, max_iter=200, tol=1e-3)
    assert problem.repairs, "a step of three times the inverse curvature must overshoot"
    _assert_never_decreases(result, problem)
    assert result.trace[-1] > result.trace[0]


@dataclass
class Uphill(Quadratic):
    """Proposals go the wrong way."""

    def update(self, shared: np.ndarray, stats: np.ndarray) -> Update[np.ndarray]:
        good = super().update(shared, stats)
        return Update(2.0 * shared - good.shared - 1.0, good.criterion)


@dataclass
class Unrepaired(Uphill):
    """... and the problem does not notice."""

    def repair(self, *_: Any) -> None:
        return None


@pytest.mark.parametrize("kind", [Uphill, Unrepaired], ids=["repairs-in-vain", "does-not-repair"])
def test_stalls_when_nothing_improves(kind: type[Quadratic]) -> None:
    problem = kind(np.eye(2), np.ones(2))
    problem.vector = np.ones(2)
    result, _, _ = _run(problem)
    assert result.status is Status.STALLED
    assert not result.converged
    np.testing.assert_array_equal(result.shared, np.zeros(2))
    assert len(result.trace) == 1


@dataclass
class Breaking(Quadratic):
    """Something becomes NaN or infinite at the given sweep."""

    sweep: int = 1
    value: float = np.nan
    part: str = "objective"

    def objective(self, shared: np.ndarray, stats: np.ndarray) -> float:
        broken = self.part == "objective" and len(self.visited) >= self.sweep
        return self.value if broken else super().objective(shared, stats)

    def update(self, shared: np.ndarray, stats: np.ndarray) -> Update[np.ndarray]:
        found = super().update(shared, stats)
        broken = self.part == "criterion" and len(self.visited) >= self.sweep
        return Update(found.shared, self.value) if broken else found


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf], ids=["nan", "inf", "minus-inf"])
@pytest.mark.parametrize(("part", "sweep"), [("objective", 1), ("objective", 4), ("criterion", 4)])
def test_non_finite_raises_with_the_iteration(part: str, sweep: int, value: float) -> None:
    problem = _slow()
    broken = Breaking(problem.matrix, problem.vector, sweep=sweep, value=value, part=part)
    iteration = sweep if part == "criterion" else sweep - 1
    with pytest.raises(NonFiniteError, match=rf"at iteration {iteration}\b"):
        _run(broken, accelerate=False)


def test_non_finite_extrapolation_is_only_refused() -> None:
    @dataclass
    class Fragile(Quadratic):
        """Finite where the plain iteration goes, NaN everywhere else."""

        safe: set[bytes] = field(default_factory=set)

        def update(self, shared: np.ndarray, stats: np.ndarray) -> Update[np.ndarray]:
            found = super().update(shared, stats)
            self.safe |= {shared.tobytes(), found.shared.tobytes()}
            return found

        def objective(self, shared: np.ndarray, stats: np.ndarray) -> float:
            known = not self.safe or shared.tobytes() in self.safe
            return super().objective(shared, stats) if known else np.nan

    problem = _slow()
    result, _, _ = _run(Fragile(problem.matrix, problem.vector), max_iter=60)
    plain, _, _ = _run(_slow(), max_iter=60, accelerate=False)
    np.testing.assert_array_equal(result.trace, plain.trace)


@dataclass
class Coarse(Quadratic):
    """Objective and gradient are known to a few digits only, and the problem knows what it can gain."""

    def objective(self, shared: np.ndarray, stats: np.ndarray) -> float:
        return float(np.round(stats[0], 6))

    def resolution(self, shared: np.ndarray, stats: np.ndarray) -> float:
        return 2e-6

    def update(self, shared: np.ndarray, stats: np.ndarray) -> Update[np.ndarray]:
        noise = 1e-4 * np.sin(1e6 * shared + len(self.visited))
        slope = self.vector - self.matrix @ shared + noise
        criterion = float(np.linalg.norm(slope))
        return Update(shared + self.rate * slope, criterion, gain=0.5 * criterion**2)


@pytest.mark.parametrize("accelerate", [True, False], ids=["accelerated", "plain"])
def test_ends_where_rounding_hides_the_gain(accelerate: bool) -> None:
    problem = Coarse(np.diag([1.0, 0.5]), np.array([1.0, 2.0]), rate=0.5)
    result, _, _ = _run(problem, tol=1e-12, max_iter=300, accelerate=accelerate)
    assert result.status is Status.PRECISION
    assert result.converged
    assert 1e-12 < result.criterion < 2.1e-3
    assert result.n_iter < 100
    np.testing.assert_allclose(result.trace[-1], 0.5 * problem.vector @ problem.solution, atol=5e-6)


def test_rounding_does_not_end_what_still_gets_better() -> None:
    # The gain is hidden from the start of the last stretch, but the gradient goes on falling to tol.
    problem = _slow(extrapolates=False)
    problem.resolution = lambda shared, stats: 1e-3  # type: ignore[method-assign]
    update = problem.update
    problem.update = lambda shared, stats: update(shared, stats)._replace(gain=1e-6)  # type: ignore[method-assign]
    result, _, _ = _run(problem, tol=1e-8)
    assert result.status is Status.CONVERGED


def test_locals_are_handed_on_from_sweep_to_sweep() -> None:
    problem = _slow()
    result, local, _ = _run(problem, block_rows=4, accelerate=False, max_iter=9)
    assert list(local) == [result.n_iter] * 3


def test_a_run_goes_on_from_known_sums_without_a_sweep() -> None:
    """Two runs that hand on their sums are one: no point is visited twice."""
    data, whole, halves = _data(), _slow(extrapolates=False), _slow(extrapolates=False)
    with executor_for(data, 1) as executor:
        once = Loop(whole, data, executor, max_iter=9, tol=0.0).run(np.zeros(len(whole.vector)))
        run = Loop(halves, data, executor, max_iter=5, tol=0.0).run
        first, local, stats = run(np.zeros(len(whole.vector)))
        again, _, _ = run(first.shared, local, stats)
    np.testing.assert_array_equal(again.shared, once[0].shared)
    np.testing.assert_array_equal(np.append(first.trace, again.trace[1:]), once[0].trace)
    assert len(halves.visited) == len(whole.visited) == 9


def test_a_run_goes_on_with_a_known_update() -> None:
    """A run that ended at its last sweep has told its proposal, which is not made again."""

    class Counted(Quadratic):
        def update(self, shared: np.ndarray, stats: np.ndarray) -> Update[np.ndarray]:
            self.repairs.append(0)
            return super().update(shared, stats)

    slow, data = _slow(), _data()
    problem = Counted(slow.matrix, slow.vector, extrapolates=False)
    with executor_for(data, 1) as executor:
        run = Loop(problem, data, executor, max_iter=3, tol=1e-8).run
        first, local, stats = run(np.zeros(len(slow.vector)))
        plain = run(first.shared, local, stats)[0]
        problem.repairs.clear()
        again = run(first.shared, local, stats, first.update)[0]
        unknown = run(first.shared, local, None, first.update)[0]
    np.testing.assert_array_equal(again.shared, plain.shared)
    assert len(problem.repairs) == 2 + 3
    # Without sums a run begins with a sweep, and the update is not known to belong to it.
    np.testing.assert_array_equal(unknown.shared, again.shared)
    assert _run(slow)[0].update is None


def test_blocks_do_not_matter() -> None:
    one, _, _ = _run(_slow())
    many, _, _ = _run(_slow(), block_rows=3)
    np.testing.assert_allclose(many.shared, one.shared, rtol=0, atol=2 * 1e-8 / LEAST_CURVATURE)


def test_callback_sees_every_iteration() -> None:
    seen: list[Progress] = []
    callback: Callable[[Progress], None] = seen.append
    result, _, _ = _run(_slow(), callback=callback, max_iter=12)
    assert [p.iteration for p in seen] == list(range(1, len(seen) + 1))
    np.testing.assert_array_equal([p.objective for p in seen], result.trace)
    assert {p.max_iter for p in seen} == {12}
    assert seen[-1].criterion == result.criterion


@dataclass
class Rough(Quadratic):
    """The same with values that are off by a hundredth of a unit, or by everything."""

    error: float = 0.01

    def objective(self, shared: np.ndarray, stats: np.ndarray) -> float:
        return float(stats[0]) + self.error

    def resolution(self, shared: np.ndarray, stats: np.ndarray) -> float:
        return 0.02


@dataclass
class Refined(Quadratic):
    """A problem with a rough form."""

    form: Rough | None = None

    def rough(self) -> Rough | None:
        return self.form


@pytest.mark.parametrize(("error", "is_used"), [(0.01, True), (np.nan, False)], ids=["rough", "not finite"])
def test_the_end_of_a_rough_start_is_exact(error: float, is_used: bool) -> None:
    plain = _slow()
    problem = Refined(plain.matrix, plain.vector, form=Rough(plain.matrix, plain.vector, error=error))
    found = _run(problem)[0]
    np.testing.assert_allclose(found.shared, plain.solution, atol=1e-6 / LEAST_CURVATURE)
    assert problem.form is not None
    assert (len(problem.form.visited) > 2) == is_used
    assert np.all(np.diff(found.trace) > -1e-12)
    # The last value is that of the exact problem.
    assert found.trace[-1] == pytest.approx(0.5 * plain.vector @ plain.solution, abs=1e-8)
    if not is_used:
        np.testing.assert_array_equal(found.trace, _run(plain)[0].trace)


@dataclass
class Overflowing(Rough):
    """Its value is finite where its other sums have overflowed, after a few sweeps."""

    def step(self, block: Block, shared: np.ndarray, local: int | None) -> tuple[int, np.ndarray]:
        rows, (value,) = super().step(block, shared, local)
        return rows, np.array([value, np.inf if len(self.visited) > 4 else 0.0])

    def update(self, shared: np.ndarray, stats: np.ndarray) -> Update[np.ndarray]:
        assert np.all(np.isfinite(stats))
        return super().update(shared, stats)


def test_rough_sweeps_end_where_their_sums_overflow() -> None:
    plain = _slow()
    problem = Refined(plain.matrix, plain.vector, form=Overflowing(plain.matrix, plain.vector))
    found = _run(problem)[0]
    np.testing.assert_allclose(found.shared, plain.solution, atol=1e-6 / LEAST_CURVATURE)
    assert problem.form is not None
    assert len(problem.form.visited) == 5


@pytest.mark.parametrize("max_iter", [1, 2, 3, 5])
def test_the_last_sweep_is_exact_however_few_there_are(max_iter: int) -> None:
    plain = _slow()
    problem = Refined(plain.matrix, plain.vector, form=Rough(plain.matrix, plain.vector))
    found = _run(problem, max_iter=max_iter)[0]
    value = found.shared @ (plain.vector - 0.5 * plain.matrix @ found.shared)
    assert found.trace[-1] == pytest.approx(value, abs=1e-12)
    assert found.n_iter <= max_iter


def test_an_exact_sweep_that_is_the_last_takes_a_step_too() -> None:
    plain = _slow(extrapolates=False)
    rough = Rough(plain.matrix, plain.vector, extrapolates=False)
    problem = Refined(plain.matrix, plain.vector, extrapolates=False, form=rough)
    found, expected = (_run(one, max_iter=5)[0] for one in (problem, plain))
    np.testing.assert_allclose(found.shared, expected.shared, rtol=1e-12)

"""What EPCA and PLNPCA have in common: points of rows, changes of latent coordinates, repairs of columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from anypca.datasets import make_low_rank
from anypca.engine import Block, check_data
from anypca.families import Poisson
from anypca.models._bilinear.alternating import AlternatingNewton, Gauge, Shared, intercept_shift
from anypca.models._bilinear.evaluator import Coefficients
from anypca.models._bilinear.problem import BilinearProblem
from anypca.models._opened import open_block
from anypca.models.plnpca._problem import PLNProblem
from anypca.priors import Ridge

N, P, K = 20, 8, 2
PROBLEMS = {
    "EPCA": BilinearProblem(Poisson(), Ridge(1.0), Ridge(np.r_[np.ones(K), 0.0]), ridges=(1.0, 1.0)),
    "PLNPCA": PLNProblem(True, np.ones(1, dtype=bool)),
}
BOTH = pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)


def draw(dtype: type = np.float64) -> tuple[Block, Coefficients]:
    """Counts, and coefficients near those that they were drawn with."""
    drawn = make_low_rank(N, P, K, family="poisson", signal=0.8, intercept=1.0, random_state=0)
    coefficients = Coefficients(drawn.components.T.copy(), drawn.intercept[:, None].copy(), np.ones(P))
    return check_data(drawn.X.astype(dtype)).blocks[0], coefficients


def solve(problem: AlternatingNewton, block: Block, coefficients: Coefficients, index: slice = slice(None)):
    rows = open_block(block, fit_intercept=True, family=Poisson(), dense=True)
    evaluator = problem.evaluator(coefficients, rows.take(np.arange(N)[index]))
    return problem.solve_rows(evaluator, evaluator.origin)


@BOTH
def test_solved_rows_are_at_their_optimum(problem: AlternatingNewton) -> None:
    block, coefficients = draw()
    found = solve(problem, block, coefficients)
    assert found.converged.all()
    rows = open_block(block, fit_intercept=True, family=Poisson())
    evaluator = problem.evaluator(coefficients, rows)

    def value(points: np.ndarray) -> np.ndarray:
        return evaluator.row_values(points) - problem.score_prior.value(points)

    assert_allclose(value(found.points), found.value, rtol=1e-12)
    for step in 1e-3 * np.random.default_rng(0).normal(size=(10, *found.points.shape)):
        assert np.all(value(found.points + step) < found.value)


@BOTH
def test_rows_are_solved_each_on_its_own(problem: AlternatingNewton) -> None:
    block, coefficients = draw()
    whole, some = (solve(problem, block, coefficients, index) for index in (slice(None), slice(3, 9)))
    assert_allclose(some.points, whole.points[3:9], rtol=1e-9, atol=1e-12)


@BOTH
def test_values_in_single_precision_are_right_to_its_rounding(problem: AlternatingNewton) -> None:
    """The value is that of one point: likelihood and penalty apart would differ by the slope times the last step."""
    eps = float(np.finfo(np.float32).eps)
    exact = solve(problem, *draw())
    found = solve(replace(problem, eps=eps), *draw(np.float32))  # type: ignore[type-var]
    assert np.all(np.abs(found.value - exact.value) <= 32.0 * eps * (1.0 + np.abs(exact.value)))


@BOTH
def test_a_sweep_does_not_depend_on_the_coordinates_of_the_points(problem: AlternatingNewton) -> None:
    block, coefficients = draw()
    local, stats = problem.step(block, Shared(coefficients), None)
    moved = problem.regauge(coefficients, stats)
    assert moved.gauge is not None
    _, plain = problem.step(block, Shared(coefficients), local)
    _, there = problem.step(block, moved, local)
    assert_allclose(there.entry_columns, plain.entry_columns, rtol=1e-10)
    back = moved.gauge.backward(moved.coefficients)
    assert_allclose(back.joint, coefficients.joint, rtol=1e-10, atol=1e-12)


@BOTH
def test_columns_that_went_there_and_back_have_not_moved(problem: AlternatingNewton) -> None:
    """A change of coordinates rounds; such a column must not be repaired again and again."""
    block, coefficients = draw()
    here = Shared(coefficients)
    local, before = problem.step(block, here, None)
    proposal = problem.regauge(coefficients, before)
    _, after = problem.step(block, proposal, local)
    spoiled = replace(after, entry_columns=after.entry_columns - 1.0)
    assert problem.repair(here, proposal, before, spoiled) is None


def test_a_gauge_moves_what_fixed_features_explain() -> None:
    rng = np.random.default_rng(1)
    features, scores = rng.normal(size=(N, 3)), rng.normal(size=(N, K))
    coefficients = Coefficients(rng.normal(size=(P, K)), rng.normal(size=(P, 3)), np.ones(P))
    matrix = rng.normal(size=(K, K))
    gauge = Gauge(rng.normal(size=(3, K)), matrix, np.linalg.inv(matrix))
    new = gauge.forward(coefficients)
    before = np.hstack([scores, features]) @ coefficients.joint.T
    after = np.hstack([gauge.apply(scores, features), features]) @ new.joint.T
    assert_allclose(after, before, rtol=1e-10, atol=1e-10)
    assert_allclose(gauge.backward(new).joint, coefficients.joint, rtol=1e-10, atol=1e-10)


def test_only_the_intercept_takes_the_centre_of_the_scores() -> None:
    centre = np.array([1.0, -2.0])
    assert_array_equal(intercept_shift(centre, 3), [centre, [0.0, 0.0], [0.0, 0.0]])
    assert intercept_shift(centre, 0).shape == (0, 2)

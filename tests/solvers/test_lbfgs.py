"""The reference solver on functions with known maxima."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from anypca.exceptions import NonFiniteError
from anypca.solvers import Status
from anypca.solvers.lbfgs import lbfgs


class _Function:
    def __init__(self, function: Callable[[np.ndarray], tuple[float, np.ndarray]]) -> None:
        self.value_and_gradient = function


def _rosenbrock(x: np.ndarray) -> tuple[float, np.ndarray]:
    first, second = 1.0 - x[0], x[1] - x[0] ** 2
    gradient = np.array([2.0 * first + 400.0 * x[0] * second, -200.0 * second])
    return float(-(first**2) - 100.0 * second**2), gradient


def test_finds_the_maximum_of_rosenbrock() -> None:
    result = lbfgs(_Function(_rosenbrock), np.array([-1.2, 1.0]), tol=1e-9)
    assert result.status is Status.CONVERGED
    np.testing.assert_allclose(result.shared, [1.0, 1.0], rtol=1e-7)
    assert np.all(np.diff(result.trace) >= 0)
    assert result.n_iter == len(result.trace)
    assert result.trace[0] == _rosenbrock(np.array([-1.2, 1.0]))[0]


def test_running_out_of_iterations_is_no_convergence() -> None:
    result = lbfgs(_Function(_rosenbrock), np.array([-1.2, 1.0]), max_iter=3)
    assert result.status is Status.MAX_ITER
    assert result.criterion > 1e-6


def test_a_wrong_gradient_stalls() -> None:
    result = lbfgs(_Function(lambda x: (-float(x @ x), 2.0 * x)), np.ones(2))
    assert result.status is Status.STALLED


def test_non_finite_raises() -> None:
    with pytest.raises(NonFiniteError, match="iteration 0"):
        lbfgs(_Function(lambda x: (np.nan, x)), np.ones(2))


def test_a_kink_is_reached_though_gradients_do_not_vanish() -> None:
    def tent(x: np.ndarray) -> tuple[float, np.ndarray]:
        return -float(np.abs(x).sum()) - 1.0, -np.sign(x)

    seen: list[int] = []
    result = lbfgs(
        _Function(tent),
        np.array([3.0, -2.0]),
        least_gain=1e-4,
        callback=lambda progress: seen.append(progress.iteration),
    )
    assert result.status is Status.PLATEAU
    assert result.converged
    assert seen == list(range(1, len(result.trace)))


def test_flat_steps_end_the_ascent_and_rising_ones_do_not() -> None:
    def hill(x: np.ndarray) -> tuple[float, np.ndarray]:
        return _rosenbrock(x)

    begin = np.array([-1.2, 1.0])
    early = lbfgs(_Function(hill), begin, least_gain=0.9, tol=1e-12)
    assert early.status is Status.PLATEAU
    assert early.trace[-1] - early.trace[-11] <= 0.9 * abs(early.trace[-1])
    spent = lbfgs(_Function(hill), begin, least_gain=1e-9, max_iter=5)
    assert spent.status is Status.RISING
    assert not spent.converged

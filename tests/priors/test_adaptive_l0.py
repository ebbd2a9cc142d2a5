"""The adaptive count of non-zeros: its value, its majoriser, where repeated steps end, exact zeros."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize

from anypca.linalg import pack_symmetric, unpack_symmetric
from anypca.priors import AdaptiveL0

SIZE = 3
PRECISION = np.array([0.5, 1.0, 2.0])
WEIGHT = np.array([0.3, 0.9, 0.0])
#: A wide delta, at which the logarithm is smooth on the scale of the tests' points.
DELTA = 1e-2


def _quadratics(n: int = 8, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points, gradients and packed curvatures of n quadratic models."""
    rng = np.random.default_rng(seed)
    roots = rng.standard_normal((n, SIZE, SIZE + 1))
    packed = np.array([pack_symmetric(matrix) for matrix in roots @ roots.transpose(0, 2, 1)])
    return rng.standard_normal((n, SIZE)), 2.0 * rng.standard_normal((n, SIZE)), packed


def _repeat(
    prior: AdaptiveL0, start: float, curvature: float, unpenalised: float, n_steps: int = 2000
) -> float:
    """Where repeated steps on ``-curvature (u - unpenalised)^2 / 2 - value(u)`` end."""
    u = np.array([[start]])
    packed = np.array([[curvature]])
    for _ in range(n_steps):
        u = u + prior.newton(u, curvature * (unpenalised - u), packed).step
    return float(u[0, 0])


def test_value_is_the_formula() -> None:
    u = _quadratics()[0]
    expected = [
        sum(
            0.5 * p * x * x + k * np.log(1.0 + x * x / DELTA)
            for x, p, k in zip(row, PRECISION, WEIGHT, strict=True)
        )
        for row in u
    ]
    np.testing.assert_allclose(AdaptiveL0(PRECISION, WEIGHT, DELTA).value(u), expected, rtol=1e-13)


def test_value_counts_non_zeros_in_units_of_log_delta() -> None:
    """Far above the root of delta an entry costs about ``-k log(delta)``, whatever its size; none costs nothing."""
    prior = AdaptiveL0(np.zeros(SIZE), np.ones(SIZE), 1e-100)
    u = np.array([[0.0, 0.0, 0.0], [2.0, 0.0, 0.0], [2.0, -0.5, 3.0]])
    np.testing.assert_allclose(prior.value(u) / np.log(1e100), [0.0, 1.0, 3.0], atol=0.02)


def test_step_solves_the_reweighted_ridge_by_finite_differences() -> None:
    """The step is Newton's on a function whose slope is that of the value: the ridge of weight 2k / (u^2 + delta)."""
    prior = AdaptiveL0(PRECISION, WEIGHT, DELTA)
    u, gradient, packed = _quadratics()
    found = prior.newton(u, gradient, packed)
    h = 1e-6
    for i, matrix in enumerate(unpack_symmetric(packed, SIZE)):
        steps = h * np.eye(SIZE)
        slope = (prior.value(u[i] + steps) - prior.value(u[i] - steps)) / (2.0 * h)
        ridge = np.diag(PRECISION + 2.0 * WEIGHT / (u[i] ** 2 + DELTA))
        expected = np.linalg.solve(matrix + ridge, gradient[i] - slope)
        np.testing.assert_allclose(found.step[i], expected, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(
            found.decrement[i], expected @ (matrix + ridge) @ expected, rtol=1e-6, atol=1e-8
        )


def test_majoriser_touches_and_lies_above() -> None:
    """``k u^2 / (u0^2 + delta)`` plus a constant: equal at u0, nowhere below the logarithm."""
    prior = AdaptiveL0(np.zeros(1), np.array([0.7]), DELTA)
    grid = np.linspace(-3.0, 3.0, 301)[:, None]
    for start in (0.0, 0.05, 0.8, -2.0):
        here = float(prior.value(np.array([[start]]))[0])
        above = here + 0.7 * (grid[:, 0] ** 2 - start**2) / (start**2 + DELTA)
        assert np.all(above >= prior.value(grid) - 1e-12)


@pytest.mark.parametrize("delta", [1e-8, 1e-2])
def test_repeated_steps_never_lose(delta: float) -> None:
    prior = AdaptiveL0(PRECISION, WEIGHT, delta)
    start, gradient, packed = _quadratics()
    matrices = unpack_symmetric(packed, SIZE)
    u, values = start, []
    for _ in range(60):
        moved = u - start
        slope = gradient - np.einsum("iab,ib->ia", matrices, moved)
        model = np.einsum("ia,ia->i", gradient, moved) - 0.5 * np.einsum(
            "ia,iab,ib->i", moved, matrices, moved
        )
        values.append(model - prior.value(u))
        u = u + prior.newton(u, slope, packed).step
    gains = np.diff(np.array(values), axis=0)
    assert gains.min() >= -1e-12 * np.abs(values).max()
    assert gains.max() > 0.1


@pytest.mark.parametrize(
    ("curvature", "unpenalised", "end"),
    [
        (1.0, 1.9, 0.0),
        (1.0, 2.1, 1.370156),
        (4.0, 1.05, 0.685078),
        (4.0, 3.0, 2.914214),
        (4.0, -3.0, -2.914214),
    ],
)
def test_where_repeated_steps_end(curvature: float, unpenalised: float, end: float) -> None:
    """Zero unless the unpenalised square exceeds 8 k / h, else the larger root; k = 1/2."""
    prior = AdaptiveL0(np.zeros(1), np.array([0.5]))
    found = _repeat(prior, unpenalised, curvature, unpenalised)
    np.testing.assert_allclose(found, end, atol=2e-6)
    square = unpenalised**2 - 8.0 * 0.5 / curvature
    root = 0.0 if square < 0 else np.sign(unpenalised) * (abs(unpenalised) + np.sqrt(square)) / 2.0
    np.testing.assert_allclose(found, root, atol=2e-6)


def test_end_is_a_local_optimum_of_the_value() -> None:
    prior = AdaptiveL0(np.array([0.2]), np.array([0.5]))
    found = _repeat(prior, 3.0, 4.0, 3.0)

    def loss(u: float) -> float:
        return 2.0 * (u - 3.0) ** 2 + float(prior.value(np.array([[u]]))[0])

    best = scipy.optimize.minimize_scalar(loss, bounds=(1.0, 3.0), method="bounded", options={"xatol": 1e-10})
    np.testing.assert_allclose(found, best.x, atol=1e-6)


def test_without_weight_it_is_a_ridge() -> None:
    u, gradient, packed = _quadratics()
    prior = AdaptiveL0(PRECISION, np.zeros(SIZE))
    step = prior.newton(u, gradient, packed).step
    slope = gradient - np.einsum("iab,ib->ia", unpack_symmetric(packed, SIZE), step) - PRECISION * (u + step)
    np.testing.assert_allclose(slope, 0.0, atol=1e-10)
    np.testing.assert_allclose(prior.value(u), 0.5 * u**2 @ PRECISION, rtol=1e-13)


def test_snap_makes_waiting_entries_exactly_zero() -> None:
    prior = AdaptiveL0(np.zeros(SIZE), WEIGHT)
    u = np.array([[9e-4, 1.1e-3, 9e-4], [-9e-4, -0.5, 0.0]])
    # The last coordinate has no price: what is small there is small, not zero.
    np.testing.assert_array_equal(prior.snap(u), [[0.0, 1.1e-3, 9e-4], [0.0, -0.5, 0.0]])


def test_steps_of_waiting_entries_reach_the_snap() -> None:
    prior = AdaptiveL0(np.zeros(1), np.array([0.5]))
    end = _repeat(prior, 1.9, 1.0, 1.9, n_steps=50)
    assert end != 0.0
    assert prior.snap(np.array([[end]]))[0, 0] == 0.0


def test_rows_do_not_depend_on_each_other() -> None:
    u, gradient, packed = _quadratics()
    prior = AdaptiveL0(PRECISION, WEIGHT)
    together = prior.newton(u, gradient, packed)
    alone = prior.newton(u[2:3], gradient[2:3], packed[2:3])
    np.testing.assert_allclose(together.step[2:3], alone.step, rtol=1e-9, atol=1e-12)

"""Penalties: values, Newton steps and the conditions of an optimum, over the registry and one by one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.optimize

from anypca.linalg import pack_symmetric, unpack_symmetric
from anypca.priors import L1, Prior, Ridge, priors

SIZE = 3

# Not convex, so that a step goes to the optimum of a majoriser: they have test files of their own.
NOT_CONVEX = {"adaptive_l0"}
# One or more instances of every other registered prior; a new one must be added here to be tested.
EXAMPLES: dict[str, list[Callable[[], Prior]]] = {
    "ridge": [
        lambda: Ridge(np.array([0.5, 1.0, 2.0])),
        lambda: Ridge(np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.1], [0.0, 0.1, 0.7]])),
        lambda: Ridge(np.zeros(SIZE)),
        lambda: Ridge(np.array([0.5, 1.0, 2.0]), 0.3),
    ],
    "l1": [
        lambda: L1(np.array([0.3, 0.9, 1.5])),
        lambda: L1(np.zeros(SIZE)),
    ],
}
CASES = [
    pytest.param(make, id=f"{name}-{number}")
    for name, makers in EXAMPLES.items()
    for number, make in enumerate(makers)
]


def _quadratics(n: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points, gradients and packed curvatures of n quadratic models."""
    rng = np.random.default_rng(seed)
    roots = rng.standard_normal((n, SIZE, SIZE + 1))
    matrices = roots @ roots.transpose(0, 2, 1)
    packed = np.array([pack_symmetric(matrix) for matrix in matrices])
    return rng.standard_normal((n, SIZE)), 2.0 * rng.standard_normal((n, SIZE)), packed


def _model(prior: Prior, u: np.ndarray, gradient: np.ndarray, matrix: np.ndarray) -> Callable[..., float]:
    """Minus the penalised model of one row, as a function of the step."""

    def loss(step: np.ndarray) -> float:
        penalty = float(prior.value((u + step)[None])[0])
        return float(-gradient @ step + 0.5 * step @ matrix @ step + penalty)

    return loss


def test_every_registered_prior_has_examples() -> None:
    assert set(EXAMPLES) | NOT_CONVEX == set(priors)


@pytest.mark.parametrize("make", CASES)
def test_value_is_a_convex_penalty(make: Callable[[], Prior]) -> None:
    prior = make()
    rng = np.random.default_rng(1)
    u, v = rng.standard_normal((2, 20, SIZE))
    assert prior.value(u).shape == (20,)
    assert np.all(prior.value(u) >= 0)
    np.testing.assert_array_equal(prior.value(np.zeros((2, SIZE))), 0.0)
    middle = prior.value(0.5 * (u + v))
    assert np.all(middle <= 0.5 * (prior.value(u) + prior.value(v)) + 1e-12)


@pytest.mark.parametrize("make", CASES)
def test_newton_reaches_the_optimum_of_the_model(make: Callable[[], Prior]) -> None:
    prior = make()
    u, gradient, packed = _quadratics()
    found = prior.newton(u, gradient, packed)
    for i, matrix in enumerate(unpack_symmetric(packed, SIZE)):
        loss = _model(prior, u[i], gradient[i], matrix)
        options = {"xatol": 1e-10, "fatol": 1e-14, "maxiter": 4000, "maxfev": 4000}
        other = scipy.optimize.minimize(loss, found.step[i] + 0.1, method="Nelder-Mead", options=options)
        assert loss(found.step[i]) <= other.fun + 1e-10
        # Nelder-Mead may stop early at a kink, so its point is only asked to be near.
        np.testing.assert_allclose(found.step[i], other.x, atol=1e-3)


@pytest.mark.parametrize("make", CASES)
def test_decrement_is_twice_the_gain(make: Callable[[], Prior]) -> None:
    prior = make()
    u, gradient, packed = _quadratics()
    found = prior.newton(u, gradient, packed)
    gains = [
        _model(prior, u[i], gradient[i], matrix)(np.zeros(SIZE))
        - _model(prior, u[i], gradient[i], matrix)(found.step[i])
        for i, matrix in enumerate(unpack_symmetric(packed, SIZE))
    ]
    np.testing.assert_allclose(found.decrement, 2.0 * np.array(gains), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("make", CASES)
def test_no_step_from_the_optimum(make: Callable[[], Prior]) -> None:
    prior = make()
    u, gradient, packed = _quadratics()
    first = prior.newton(u, gradient, packed).step
    matrices = unpack_symmetric(packed, SIZE)
    moved = gradient - np.einsum("iab,ib->ia", matrices, first)
    second = prior.newton(u + first, moved, packed)
    np.testing.assert_allclose(second.step, 0.0, atol=1e-7)
    np.testing.assert_allclose(second.decrement, 0.0, atol=1e-12)
    assert np.all(second.decrement >= 0)


@pytest.mark.parametrize("make", CASES)
def test_rows_do_not_depend_on_each_other(make: Callable[[], Prior]) -> None:
    prior = make()
    u, gradient, packed = _quadratics()
    together = prior.newton(u, gradient, packed)
    alone = prior.newton(u[2:3], gradient[2:3], packed[2:3])
    np.testing.assert_allclose(together.step[2:3], alone.step, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("make", CASES)
def test_without_curvature_the_step_is_finite(make: Callable[[], Prior]) -> None:
    prior = make()
    u, gradient, packed = _quadratics()
    packed[1] = 0.0
    found = prior.newton(u, gradient, packed)
    assert np.all(np.isfinite(found.step))
    assert np.all(found.decrement >= 0)


@pytest.mark.parametrize("make", CASES)
def test_a_huge_row_does_not_freeze_a_small_one(make: Callable[[], Prior]) -> None:
    prior = make()
    u, gradient, packed = _quadratics(n=2)
    packed[1] *= 1e14
    together = prior.newton(u, gradient, packed)
    alone = prior.newton(u[:1], gradient[:1], packed[:1])
    np.testing.assert_allclose(together.step[:1], alone.step, rtol=1e-7, atol=1e-9)


def test_ridge_stationarity() -> None:
    precision = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.1], [0.0, 0.1, 0.7]])
    u, gradient, packed = _quadratics()
    step = Ridge(precision).newton(u, gradient, packed).step
    matrices = unpack_symmetric(packed, SIZE)
    slope = gradient - np.einsum("iab,ib->ia", matrices, step) - (u + step) @ precision
    np.testing.assert_allclose(slope, 0.0, atol=1e-10)


def test_ridge_diagonal_is_a_full_matrix_too() -> None:
    diagonal = np.array([0.5, 1.0, 2.0])
    u, gradient, packed = _quadratics()
    short, full = Ridge(diagonal), Ridge(np.diag(diagonal))
    np.testing.assert_allclose(short.value(u), full.value(u), rtol=1e-14)
    for one, other in zip(short.newton(u, gradient, packed), full.newton(u, gradient, packed), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_ridge_strength_of_each_row() -> None:
    precision, strength = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.1], [0.0, 0.1, 0.7]]), np.arange(1.0, 7.0)
    u, gradient, packed = _quadratics()
    together = Ridge(precision, strength)
    found = together.newton(u, gradient, packed)
    for i, factor in enumerate(strength):
        alone = Ridge(factor * precision)
        expected = alone.newton(u[i : i + 1], gradient[i : i + 1], packed[i : i + 1])
        np.testing.assert_allclose(found.step[i], expected.step[0], rtol=1e-10)
        np.testing.assert_allclose(found.decrement[i], expected.decrement[0], rtol=1e-10)
        np.testing.assert_allclose(together.value(u)[i], alone.value(u)[i], rtol=1e-12)


def test_l1_subgradient_conditions() -> None:
    strength = np.array([0.3, 0.9, 1.5])
    u, gradient, packed = _quadratics(n=40)
    target = u + L1(strength).newton(u, gradient, packed).step
    matrices = unpack_symmetric(packed, SIZE)
    slope = gradient - np.einsum("iab,ib->ia", matrices, target - u)
    is_zero = target == 0.0
    assert 0 < is_zero.sum() < is_zero.size, "both kinds of coordinates are needed"
    bound = np.broadcast_to(strength, slope.shape)
    np.testing.assert_allclose(slope[~is_zero], (bound * np.sign(target))[~is_zero], atol=1e-7)
    assert np.all(np.abs(slope[is_zero]) <= bound[is_zero] + 1e-7)


def test_l1_is_soft_thresholding_for_diagonal_curvature() -> None:
    diagonal, strength = np.array([1.0, 2.0, 4.0]), np.array([0.5, 0.5, 0.5])
    gradient = np.array([[0.4, 3.0, -3.0]])
    packed = pack_symmetric(np.diag(diagonal))[None]
    step = L1(strength).newton(np.zeros((1, SIZE)), gradient, packed).step
    np.testing.assert_allclose(step, [[0.0, 1.25, -0.625]], atol=1e-12)


def test_l1_without_curvature_keeps_its_value() -> None:
    u = np.array([[1.0, -2.0, 0.5]])
    packed = pack_symmetric(np.diag([1.0, 0.0, 1.0]))[None]
    step = L1(np.ones(SIZE)).newton(u, np.zeros((1, SIZE)), packed).step
    assert step[0, 1] == 0.0


def test_strong_l1_gives_exact_zeros() -> None:
    u, gradient, packed = _quadratics()
    target = u + L1(np.full(SIZE, 1e6)).newton(u, gradient, packed).step
    np.testing.assert_array_equal(target, 0.0)

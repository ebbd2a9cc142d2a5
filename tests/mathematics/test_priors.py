"""Penalties: values, Newton steps and the conditions of an optimum, over the registry and one by one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.draws import generator

from anypca.linalg import pack_symmetric, unpack_symmetric
from anypca.priors import (
    L1,
    AdaptiveL0,
    Entrywise,
    Group,
    Leading,
    Prior,
    Ridge,
    Scad,
    Scaled,
    find_prior,
    priors,
)

SIZE = 3
FULL = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.1], [0.0, 0.1, 0.7]])

# Every registered prior as its name creates it, and further ones; one that is new is tested without being named here.
CONVEX: dict[str, Prior] = {
    "ridge-1": Ridge(),
    "ridge-diagonal": Ridge(np.array([0.5, 1.0, 2.0])),
    "ridge-full": Ridge(FULL),
    "ridge-0": Ridge(np.zeros(SIZE)),
    "ridge-weak": Ridge(np.array([0.5, 1.0, 2.0]), 0.3),
    "l1-1": L1(),
    "l1-unequal": L1(np.array([0.3, 0.9, 1.5])),
    "l1-0": L1(np.zeros(SIZE)),
    "group-1": Group(),
    "group-weak": Group(0.2),
    "group-0": Group(0.0),
    "scaled-l1": Scaled(L1(), 0.4, np.array([0.5, -1.0, 2.0])),
    "scaled-l1-ridge": Scaled(L1(), 0.4, 3.0, ridge=0.7),
    "scaled-group": Scaled(Group(), 2.0, np.array([0.5, 1.0, 2.0]), ridge=0.1),
    "scaled-0": Scaled(L1(), 0.0, 2.0, ridge=0.5),
    "leading-ridge": Leading(Ridge(), 1),
    "leading-l1": Leading(Scaled(L1(), 0.5, 2.0), 2),
    "leading-group": Leading(Group(), 1),
}
OTHERS: dict[str, Prior] = {
    "adaptive-wide": AdaptiveL0(np.array([0.5, 1.0, 2.0]), np.array([0.3, 0.9, 0.0]), 1e-2),
    "scad-wide": Scad(0.8, flat=3.0),
    "scaled-scad": Scaled(Scad(), 0.5, np.array([0.5, 1.0, 2.0]), ridge=0.3),
    "leading-scad": Leading(Scad(), 1),
}
REGISTERED = {name: priors.create(name) for name in priors}
CASES = [pytest.param(prior, id=name) for name, prior in (CONVEX | OTHERS | REGISTERED).items()]
CONVEX_CASES = [pytest.param(prior, id=name) for name, prior in CONVEX.items()]
ENTRYWISE = [case for case in CASES if isinstance(case.values[0], Entrywise)]


def _quadratics(n: int = 6) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points, gradients and packed curvatures of n quadratic models."""
    rng = generator("quadratics", n)
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


@pytest.mark.parametrize("prior", CASES)
def test_value_is_a_penalty_of_each_row(prior: Prior) -> None:
    u = generator("points").standard_normal((20, SIZE))
    value = prior.value(u)
    assert value.shape == (20,)
    assert np.all(value >= 0)
    np.testing.assert_array_equal(prior.value(np.zeros((2, SIZE))), 0.0)
    np.testing.assert_allclose(prior.value(u[:3]), value[:3], rtol=1e-13)
    assert np.all(prior.value(2.0 * u) >= value)


@pytest.mark.parametrize("prior", CASES)
def test_repeated_steps_never_lose_and_end_where_nothing_near_is_better(prior: Prior) -> None:
    start, gradient, packed = _quadratics()
    matrices = unpack_symmetric(packed, SIZE)
    losses = [_model(prior, start[i], gradient[i], matrix) for i, matrix in enumerate(matrices)]
    u, values = start, []
    for _ in range(200):
        values.append([loss(row) for loss, row in zip(losses, u - start, strict=True)])
        slope = gradient - np.einsum("iab,ib->ia", matrices, u - start)
        u = u + prior.newton(u, slope, packed).step
    assert np.diff(values, axis=0).max() <= 1e-10 * (1.0 + np.abs(values).max())
    rng = generator("near")
    for loss, row in zip(losses, u - start, strict=True):
        for scale in (1e-4, 1e-3, 1e-2):
            near = row + scale * rng.standard_normal((20, SIZE))
            assert min(loss(other) for other in near) >= loss(row) - 1e-8


@pytest.mark.parametrize("prior", CONVEX_CASES)
def test_decrement_is_twice_the_gain(prior: Prior) -> None:
    u, gradient, packed = _quadratics()
    found = prior.newton(u, gradient, packed)
    gains = [
        _model(prior, u[i], gradient[i], matrix)(np.zeros(SIZE))
        - _model(prior, u[i], gradient[i], matrix)(found.step[i])
        for i, matrix in enumerate(unpack_symmetric(packed, SIZE))
    ]
    np.testing.assert_allclose(found.decrement, 2.0 * np.array(gains), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("prior", CASES)
def test_without_curvature_the_step_is_finite(prior: Prior) -> None:
    u, gradient, packed = _quadratics()
    packed[1] = 0.0
    found = prior.newton(u, gradient, packed)
    assert np.all(np.isfinite(found.step))
    assert np.all(found.decrement >= 0)


@pytest.mark.parametrize("prior", CASES)
def test_a_huge_row_does_not_freeze_a_small_one(prior: Prior) -> None:
    u, gradient, packed = _quadratics(n=2)
    packed[1] *= 1e14
    together = prior.newton(u, gradient, packed)
    alone = prior.newton(u[:1], gradient[:1], packed[:1])
    np.testing.assert_allclose(together.step[:1], alone.step, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("prior", CASES)
def test_isotropic_priors_are_those_that_rotations_leave_alone(prior: Prior) -> None:
    u = generator("points").standard_normal((20, SIZE))
    turn = np.linalg.qr(generator("turn").standard_normal((SIZE, SIZE)))[0]
    if prior.is_isotropic:
        np.testing.assert_allclose(prior.value(u @ turn), prior.value(u), rtol=1e-12)
    expected = {Ridge: True, Group: True, L1: False, Scad: False, AdaptiveL0: False}
    if prior in REGISTERED.values() and type(prior) in expected:
        assert prior.is_isotropic == expected[type(prior)]


@pytest.mark.parametrize("prior", ENTRYWISE)
def test_slopes_are_derivatives_of_a_concave_penalty(prior: Entrywise) -> None:
    step = 1e-7
    # Off the places where a slope bends, and of SIZE columns, since strengths may differ between them.
    sizes = np.linspace(1e-3, 4.0, 397)[:, None] * np.ones(SIZE)
    numeric = (prior.penalty(sizes + step) - prior.penalty(sizes - step)) / (2.0 * step)
    np.testing.assert_allclose(prior.slope(sizes), numeric, atol=1e-5)
    for other in sizes[::40]:
        tangents = prior.penalty(sizes) + prior.slope(sizes) * (other - sizes)
        assert np.all(tangents >= prior.penalty(other[None]) - 1e-12)
    np.testing.assert_array_equal(prior.slopes(-sizes), prior.slope(sizes))


def test_scaled_slopes_are_derivatives() -> None:
    prior, step = Scaled(Scad(), 0.7, np.array([0.5, -1.0, 2.0])), 1e-7
    u = generator("points").standard_normal((50, SIZE))
    slopes = prior.slopes(u)
    assert slopes is not None
    for a, shift in enumerate(step * np.eye(SIZE)):
        numeric = (prior.value(u + shift) - prior.value(u - shift)) / (2.0 * step)
        np.testing.assert_allclose(slopes[:, a] * np.sign(u[:, a]), numeric, atol=1e-5)
    assert Scaled(Scad(), ridge=1.0).slopes(u) is None  # no longer concave
    assert Group().slopes(u) is None


@pytest.mark.parametrize(
    "prior", [Ridge(FULL), Ridge(2.0, np.arange(1.0, 7.0)), Scaled(Scad(flat=0.1), 2.0, 3.0, 1.5)]
)
def test_curvatures_are_second_derivatives(prior: Prior) -> None:
    u, step = 1.0 + generator("points").random((6, SIZE)), 1e-4  # where the last penalty is flat
    packed = np.broadcast_to(prior.curvature(u), (6, SIZE * (SIZE + 1) // 2))
    axes = step * np.eye(SIZE)
    for a in range(SIZE):
        for b in range(SIZE):
            up = prior.value(u + axes[a] + axes[b]) - prior.value(u + axes[a] - axes[b])
            down = prior.value(u - axes[a] + axes[b]) - prior.value(u - axes[a] - axes[b])
            expected = unpack_symmetric(packed, SIZE)[:, a, b]
            np.testing.assert_allclose((up - down) / (4.0 * step**2), expected, rtol=1e-5, atol=1e-6)


def test_scad_is_absolute_values_then_bends_then_is_flat() -> None:
    prior = Scad(2.0, flat=3.7, shape=3.7)  # knee 1
    expected = 2.0 * np.array([[0.5, 1.0, 0.5 * 4.7, 0.5 * 4.7]])
    np.testing.assert_allclose(prior.penalty(np.array([[0.5, 1.0, 3.7, 9.0]])), expected, rtol=1e-12)
    np.testing.assert_allclose(
        prior.slope(np.array([[0.0, 1.0, 2.35, 3.7]])), [[2.0, 2.0, 1.0, 0.0]], atol=1e-12
    )


def test_group_conditions_of_an_optimum() -> None:
    u, gradient, packed = _quadratics(n=60)
    u[:30] = 0.0
    gradient[:30] *= np.linspace(0.0, 3.0, 30)[:, None]
    prior = Group(2.0)
    target = u + prior.newton(u, gradient, packed).step
    slope = gradient - np.einsum("iab,ib->ia", unpack_symmetric(packed, SIZE), target - u)
    lengths = np.linalg.norm(target, axis=1)
    zero = lengths == 0.0
    assert 0 < zero.sum() < len(u), "both kinds of rows are needed"
    np.testing.assert_array_equal((target != 0).any(axis=1), (target != 0).all(axis=1))
    np.testing.assert_allclose(slope[~zero], 2.0 * target[~zero] / lengths[~zero, None], atol=1e-9)
    assert np.all(np.linalg.norm(slope[zero], axis=1) <= 2.0 + 1e-9)


@pytest.mark.parametrize(
    ("penalty", "error", "match"),
    [
        ("rigde", ValueError, "Did you mean 'ridge'. Choose one of .*group, l1,"),
        (3, TypeError, "score_penalty must be the name of a penalty"),
        (L1, TypeError, "anypca.priors.Prior"),
    ],
)
def test_what_is_no_prior_is_refused(penalty: object, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        find_prior(penalty, "score_penalty", 3)


def test_ridge_strength_of_each_row() -> None:
    precision, strength = FULL, np.arange(1.0, 7.0)
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


@pytest.mark.parametrize("kind", [L1, Scad, Group])
def test_strong_penalties_give_exact_zeros(kind: type[Prior]) -> None:
    u, gradient, packed = _quadratics()
    strong = Scaled(Scad(flat=1e3), 1e6) if kind is Scad else kind(1e6)  # type: ignore[call-arg]
    priors_ = [strong, Scaled(strong, 1.0, np.array([0.3, -0.7, 3.0])), Leading(Scaled(strong, unit=0.3), 1)]
    for prior, zeros in zip(priors_, (SIZE, SIZE, SIZE - 1), strict=True):
        target = u + prior.newton(u, gradient, packed).step
        np.testing.assert_array_equal(target[:, :zeros], 0.0)


# The adaptive count of entries that are not zero

PRECISION, WEIGHT, DELTA = np.array([0.5, 1.0, 2.0]), np.array([0.3, 0.9, 0.0]), 1e-2


def test_adaptive_value_is_the_formula_and_counts_in_units_of_log_delta() -> None:
    u = _quadratics()[0]
    expected = 0.5 * u**2 @ PRECISION + np.log(1.0 + u**2 / DELTA) @ WEIGHT
    np.testing.assert_allclose(AdaptiveL0(PRECISION, WEIGHT, DELTA).value(u), expected, rtol=1e-13)
    prior = AdaptiveL0(np.zeros(SIZE), np.ones(SIZE), 1e-100)
    u = np.array([[0.0, 0.0, 0.0], [2.0, 0.0, 0.0], [2.0, -0.5, 3.0]])
    np.testing.assert_allclose(prior.value(u) / np.log(1e100), [0.0, 1.0, 3.0], atol=0.02)


def test_adaptive_step_solves_the_reweighted_ridge() -> None:
    """The step is Newton's on a function with the slope of the value: the ridge of weight 2k / (u^2 + delta)."""
    prior = AdaptiveL0(PRECISION, WEIGHT, DELTA)
    u, gradient, packed = _quadratics()
    found = prior.newton(u, gradient, packed)
    h = 1e-6 * np.eye(SIZE)
    for i, matrix in enumerate(unpack_symmetric(packed, SIZE)):
        slope = (prior.value(u[i] + h) - prior.value(u[i] - h)) / 2e-6
        ridge = matrix + np.diag(PRECISION + 2.0 * WEIGHT / (u[i] ** 2 + DELTA))
        expected = np.linalg.solve(ridge, gradient[i] - slope)
        np.testing.assert_allclose(found.step[i], expected, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(found.decrement[i], expected @ ridge @ expected, rtol=1e-5, atol=1e-7)
    ridge = AdaptiveL0(PRECISION, np.zeros(SIZE))
    for one, other in zip(
        ridge.newton(u, gradient, packed), Ridge(PRECISION).newton(u, gradient, packed), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("curvature", "start"), [(1.0, 1.9), (1.0, 2.1), (4.0, 1.05), (4.0, 3.0), (4.0, -3.0)]
)
def test_where_repeated_adaptive_steps_end(curvature: float, start: float) -> None:
    """Zero unless the unpenalised square exceeds 8 k / h, else the larger root; k = 1/2."""
    prior, u = AdaptiveL0(np.zeros(1), np.array([0.5])), np.array([[start]])
    for _ in range(2000):
        u = u + prior.newton(u, curvature * (start - u), np.array([[curvature]])).step
    square = start**2 - 8.0 * 0.5 / curvature
    root = 0.0 if square < 0 else np.sign(start) * (abs(start) + np.sqrt(square)) / 2.0
    np.testing.assert_allclose(u, root, atol=2e-6)
    assert (prior.snap(u) == 0.0) == (square < 0)


def test_snap_makes_small_entries_that_have_a_price_exactly_zero() -> None:
    prior = AdaptiveL0(np.zeros(SIZE), WEIGHT)
    u = np.array([[9e-4, 1.1e-3, 9e-4], [-9e-4, -0.5, 0.0]])
    np.testing.assert_array_equal(prior.snap(u), [[0.0, 1.1e-3, 9e-4], [0.0, -0.5, 0.0]])
    np.testing.assert_array_equal(L1().snap(u), u)
    scaled = Leading(Scaled(REGISTERED["adaptive_l0"], unit=1e3), 1)
    np.testing.assert_array_equal(scaled.snap(np.array([[1e-2, 2.0, 1e-9]])), [[0.0, 2.0, 1e-9]])

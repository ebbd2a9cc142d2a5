"""The two-loop recursion against the BFGS matrix written out."""

from __future__ import annotations

import numpy as np
import pytest

from anypca.solvers.bfgs import is_concave_along, two_loop


def make_pairs(n_pairs: int, size: int = 5) -> list[tuple[np.ndarray, np.ndarray]]:
    """Steps on a quadratic function and the decreases of its gradient."""
    rng = np.random.default_rng(0)
    root = rng.standard_normal((size, size))
    steps = rng.standard_normal((n_pairs, size))
    return [(step, root @ root.T @ step + 0.1 * step) for step in steps]


def inverse_matrix(pairs: list[tuple[np.ndarray, np.ndarray]], start: np.ndarray) -> np.ndarray:
    """The inverse BFGS matrix, update by update."""
    inverse = start
    for step, change in pairs:
        along = step @ change
        left = np.eye(len(step)) - np.outer(step, change) / along
        inverse = left @ inverse @ left.T + np.outer(step, step) / along
    return inverse


@pytest.mark.parametrize("n_pairs", [0, 1, 3])
def test_two_loops_are_the_matrix(n_pairs: int) -> None:
    pairs, gradient = make_pairs(n_pairs), np.random.default_rng(1).standard_normal(5)
    inverse = np.diag([1.0, 2.0, 0.5, 3.0, 1.0])
    scale = 1.0
    if pairs:
        step, change = pairs[-1]
        scale = (step @ change) / (change @ inverse @ change)
    found = two_loop(gradient, pairs, solve=lambda vector: inverse @ vector)
    np.testing.assert_allclose(found, inverse_matrix(pairs, scale * inverse) @ gradient, rtol=1e-10)


def test_a_metric_is_a_change_of_units() -> None:
    pairs, gradient = make_pairs(3), np.random.default_rng(1).standard_normal(5)
    weight = np.array([1.0, 4.0, 0.25, 9.0, 1.0])
    # With residuals r = g / weight in place of gradients, products are weighted.
    residuals = [(step, change / weight) for step, change in pairs]
    found = two_loop(gradient / weight, residuals, product=lambda one, other: float((weight * one) @ other))
    expected = two_loop(gradient, pairs, solve=lambda vector: vector / weight)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_as_many_exact_steps_as_coordinates_find_the_optimum() -> None:
    rng = np.random.default_rng(2)
    root = rng.standard_normal((4, 4))
    matrix, optimum = root @ root.T + np.eye(4), rng.standard_normal(4)
    x, gradient, pairs = np.zeros(4), matrix @ optimum, []
    for _ in range(4):
        direction = two_loop(gradient, pairs)
        step = direction * (gradient @ direction) / (direction @ matrix @ direction)
        pairs.append((step, matrix @ step))
        x, gradient = x + step, gradient - matrix @ step
    np.testing.assert_allclose(x, optimum, rtol=1e-8)


def test_pairs_without_concavity_are_left_out_and_lengths_are_bounded() -> None:
    pairs, gradient = make_pairs(2), np.ones(5)
    convex = (pairs[0][0], -pairs[0][1])
    np.testing.assert_array_equal(two_loop(gradient, [convex, pairs[1]]), two_loop(gradient, pairs[1:]))
    flat = (np.ones(5), 1e-6 * np.ones(5))
    np.testing.assert_allclose(two_loop(np.eye(5)[0], [flat], longest=1.0)[1], 2e5 - 0.2, rtol=1e-6)
    assert is_concave_along(flat, 1e-3)
    assert not is_concave_along((np.ones(5), -np.ones(5)), 1e-3)
    assert not is_concave_along((np.zeros(5), np.ones(5)), 1e-3)
    across = (np.eye(5)[0], np.eye(5)[1] + 1e-4 * np.eye(5)[0])
    assert is_concave_along(across, 1e-5)
    assert not is_concave_along(across, 1e-3)

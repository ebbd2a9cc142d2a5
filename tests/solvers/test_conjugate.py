"""Conjugate gradients on many systems side by side."""

from __future__ import annotations

import numpy as np
import pytest

from anypca.solvers.conjugate import conjugate_gradients

N, M = 6, 5


def systems() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    roots = rng.normal(size=(N, M, M))
    return roots @ roots.transpose(0, 2, 1) + 0.1 * np.eye(M), rng.normal(size=(N, M))


def solve(matrices: np.ndarray, right: np.ndarray, steps: int, tol: float = 0.0) -> np.ndarray:
    diagonal = np.einsum("iaa->ia", matrices)
    return conjugate_gradients(
        lambda p: np.einsum("iab,ib->ia", matrices, p),
        right,
        lambda r: r / np.where(diagonal > 0, diagonal, 1.0),
        max_steps=steps,
        tol=tol,
    )


def test_as_many_steps_as_unknowns_solve() -> None:
    matrices, right = systems()
    expected = np.linalg.solve(matrices, right[:, :, None])[:, :, 0]
    np.testing.assert_allclose(solve(matrices, right, M), expected, rtol=1e-7)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_every_step_is_a_gain_of_half_its_slope(steps: int) -> None:
    matrices, right = systems()
    found = solve(matrices, right, steps)
    slope = np.einsum("ia,ia->i", right, found)
    np.testing.assert_allclose(slope, np.einsum("ia,iab,ib->i", found, matrices, found), rtol=1e-10)
    best = np.einsum("ia,ia->i", right, solve(matrices, right, M))
    assert np.all(slope > 0)
    assert np.all(slope < best)


def test_systems_do_not_see_each_other() -> None:
    matrices, right = systems()
    one = solve(matrices[2:3], right[2:3], 3)
    np.testing.assert_allclose(solve(matrices, right, 3)[2:3], one, rtol=1e-12)


def test_a_loose_tolerance_saves_steps() -> None:
    matrices, right = systems()
    np.testing.assert_array_equal(solve(matrices, right, M, tol=10.0), solve(matrices, right, 1))


def test_nothing_to_solve_and_what_overflows_stay() -> None:
    matrices, right = systems()
    right[0] = 0.0
    matrices[1] = 0.0
    matrices[2] = np.inf
    with np.errstate(invalid="ignore"):
        found = solve(matrices, right, 4)
    assert np.all(found[:3] == 0.0)
    np.testing.assert_allclose(found[3:], solve(matrices[3:], right[3:], 4), rtol=1e-12)

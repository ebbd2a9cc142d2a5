"""Extrapolation of fixed-point iterations."""

from __future__ import annotations

import numpy as np

from anypca.solvers.bfgs import QuasiNewton


def _linear_map(size: int = 5, radius: float = 0.98) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``x -> M x + c`` with a slow contraction, and its fixed point."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((size, size)))[0]
    matrix = basis @ np.diag(np.linspace(0.3, radius, size)) @ basis.T
    constant = rng.standard_normal(size)
    return matrix, constant, np.linalg.solve(np.eye(size) - matrix, constant)


def _error(n_steps: int, *, accelerate: bool, accept: bool = True) -> float:
    """Distance from the fixed point after some steps; a rejected proposal is followed by the plain step."""
    matrix, constant, solution = _linear_map()
    quasi = QuasiNewton()
    x = np.zeros(len(constant))
    for _ in range(n_steps):
        image = matrix @ x + constant
        proposal = quasi.propose(x, image, np.ones_like(x)) if accelerate else None
        if proposal is not None:
            quasi.judge(accepted=accept)
        x = image if proposal is None or not accept else proposal
    return float(np.linalg.norm(x - solution) / np.linalg.norm(solution))


def _propose_until(quasi: QuasiNewton, x: np.ndarray) -> tuple[np.ndarray, int]:
    """Plain steps until there is a proposal; the point reached and how many steps that took."""
    matrix, constant, _ = _linear_map(len(x))
    for wait in range(50):
        image = matrix @ x + constant
        proposal = quasi.propose(x, image, np.ones_like(x))
        x = image
        if proposal is not None:
            return x, wait
    raise AssertionError("no proposal in 50 steps")


def test_waits_before_it_proposes() -> None:
    quasi = QuasiNewton()
    x = np.zeros(2)
    assert quasi.propose(x, x + 1.0, np.ones(2)) is None
    assert quasi.propose(x + 1.0, x + 1.5, np.ones(2)) is None
    assert quasi.propose(x + 1.5, x + 1.75, np.ones(2)) is not None


def test_one_dimension_is_solved_by_the_first_proposal() -> None:
    quasi = QuasiNewton()
    x, proposal = np.array([1.0]), None
    while proposal is None:
        image = 0.9 * x
        proposal = quasi.propose(x, image, np.ones(1))
        x = image
    np.testing.assert_allclose(proposal, 0.0, atol=1e-12)


def test_a_linear_map_is_solved_much_faster() -> None:
    assert _error(30, accelerate=False) > 0.3
    assert _error(30, accelerate=True) < 1e-4


def test_rejected_proposals_do_no_harm() -> None:
    assert _error(30, accelerate=True, accept=False) == _error(30, accelerate=False)


def test_a_rejection_is_followed_by_a_plain_step() -> None:
    quasi = QuasiNewton()
    x, first = _propose_until(quasi, np.zeros(5))
    quasi.judge(accepted=False)
    x, second = _propose_until(quasi, x)
    assert first == 2
    assert second >= 1
    quasi.judge(accepted=True)
    assert _propose_until(quasi, x)[1] == 0


def test_repeated_rejections_forget_the_memory() -> None:
    quasi = QuasiNewton(depth=4)
    x = np.zeros(5)
    for _ in range(6):
        x, _ = _propose_until(quasi, x)
        quasi.judge(accepted=False)
    assert len(quasi._pairs) <= 2


def test_growing_residuals_lengthen_the_step() -> None:
    # The map runs away from its fixed point 0: nothing to aim at, but a direction to follow.
    quasi = QuasiNewton()
    x, lengths = np.array([1.0, -1.0]), []
    for _ in range(6):
        image = 1.2 * x
        proposal = quasi.propose(x, image, np.ones(2))
        if proposal is None:
            x = image
            continue
        lengths.append(float(np.linalg.norm(proposal - x) / np.linalg.norm(image - x)))
        quasi.judge(accepted=True)
        x = proposal
    np.testing.assert_allclose(lengths, [2.0, 4.0, 8.0, 16.0], rtol=1e-12)
    quasi.propose(x, 1.2 * x, np.ones(2))
    quasi.judge(accepted=False)
    assert quasi.propose(x, 1.2 * x, np.ones(2)) is None


def test_repeated_points_give_finite_proposals() -> None:
    quasi = QuasiNewton()
    x = np.ones(3)
    for _ in range(5):
        proposal = quasi.propose(x, x, np.ones(3))
        assert proposal is None or np.array_equal(proposal, x)


def test_non_finite_images_are_not_extrapolated() -> None:
    quasi = QuasiNewton()
    x, _ = _propose_until(quasi, np.zeros(5))
    broken = x.copy()
    broken[0] = np.nan
    assert quasi.propose(x, broken, np.ones(5)) is None


def test_proposals_do_not_depend_on_the_units() -> None:
    # Coordinates in other units, with the metric to match, are extrapolated to the same point.
    matrix, constant, _ = _linear_map()
    units = np.array([1e-3, 1.0, 1e3, 10.0, 0.1])
    plain, scaled = QuasiNewton(), QuasiNewton()
    x = np.zeros(5)
    for _ in range(8):
        image = matrix @ x + constant
        one = plain.propose(x, image, np.ones(5))
        other = scaled.propose(x * units, image * units, 1.0 / units)
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            np.testing.assert_allclose(other, one * units, rtol=1e-7, atol=1e-9 * units.max())
        x = image

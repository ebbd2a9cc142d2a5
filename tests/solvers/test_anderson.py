"""Extrapolation of fixed-point iterations."""

from __future__ import annotations

import numpy as np

from anypca.solvers._anderson import Anderson


def _linear_map(size: int = 5, radius: float = 0.95) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``x -> M x + c`` with a slow contraction, and its fixed point."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((size, size)))[0]
    matrix = basis @ np.diag(np.linspace(0.3, radius, size)) @ basis.T
    constant = rng.standard_normal(size)
    return matrix, constant, np.linalg.solve(np.eye(size) - matrix, constant)


def test_waits_before_it_proposes() -> None:
    anderson = Anderson()
    x = np.zeros(2)
    assert anderson.propose(x, x + 1.0, np.ones(2)) is None
    assert anderson.propose(x + 1.0, x + 1.5, np.ones(2)) is None
    assert anderson.propose(x + 1.5, x + 1.75, np.ones(2)) is not None


def test_solves_a_linear_map_in_as_many_steps_as_dimensions() -> None:
    matrix, constant, solution = _linear_map()
    anderson = Anderson()
    x = np.zeros(len(constant))
    for _ in range(9):
        image = matrix @ x + constant
        proposal = anderson.propose(x, image, np.ones_like(x))
        x = image if proposal is None else proposal
    np.testing.assert_allclose(x, solution, rtol=1e-6)
    plain = np.zeros(len(constant))
    for _ in range(9):
        plain = matrix @ plain + constant
    assert np.linalg.norm(x - solution) < 1e-4 * np.linalg.norm(plain - solution)


def test_rejection_drops_the_memory_and_pauses_longer_each_time() -> None:
    anderson = Anderson()
    matrix, constant, _ = _linear_map()
    waits = []
    x = np.zeros(len(constant))
    for _ in range(4):
        wait = 0
        while True:
            image = matrix @ x + constant
            proposal = anderson.propose(x, image, np.ones_like(x))
            x = image
            if proposal is not None:
                break
            wait += 1
        waits.append(wait)
        anderson.judge(accepted=False)
    assert waits[0] == waits[1] == 2
    assert waits == sorted(waits)
    assert waits[-1] > waits[0]


def test_acceptance_resets_the_pause() -> None:
    anderson = Anderson()
    matrix, constant, _ = _linear_map()
    x = np.zeros(len(constant))
    for accepted in (False, False, True):
        proposal = None
        while proposal is None:
            image = matrix @ x + constant
            proposal = anderson.propose(x, image, np.ones_like(x))
            x = image
        anderson.judge(accepted=accepted)
    image = matrix @ x + constant
    assert anderson.propose(x, image, np.ones_like(x)) is not None


def test_repeated_points_give_finite_proposals() -> None:
    anderson = Anderson()
    x = np.ones(3)
    proposals = [anderson.propose(x, x, np.ones(3)) for _ in range(5)]
    for proposal in proposals[2:]:
        assert proposal is not None
        np.testing.assert_array_equal(proposal, x)


def test_non_finite_images_are_not_extrapolated() -> None:
    anderson = Anderson()
    x = np.zeros(2)
    found = [anderson.propose(x + i, x + i + 1.0 / (i + 1), np.ones(2)) for i in range(3)]
    assert found[-1] is not None
    with np.errstate(invalid="ignore"):
        assert anderson.propose(x, np.array([np.nan, 1.0]), np.ones(2)) is None


def test_metric_decides_what_is_small() -> None:
    # Two coordinates with different rates: the heavier one is fitted better by a memory of one difference.
    rates = np.array([0.9, 0.5])
    errors = []
    for metric in (np.array([100.0, 1.0]), np.array([1.0, 100.0])):
        anderson = Anderson(depth=1)
        x = np.ones(2)
        proposal = None
        while proposal is None:
            proposal = anderson.propose(x, rates * x, metric)
            x = rates * x
        errors.append(np.abs(proposal))
    assert errors[0][0] < errors[1][0]
    assert errors[1][1] < errors[0][1]

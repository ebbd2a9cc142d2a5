"""Small linear algebra against numpy, one matrix at a time."""

from __future__ import annotations

import numpy as np
import pytest

from anypca.linalg import (
    PackedCholesky,
    balance,
    congruent,
    fix_signs,
    largest,
    leading_directions,
    pack_symmetric,
    packed_cross,
    packed_diagonal,
    packed_products,
    packed_squares,
    packed_times,
    procrustes,
    solve_spd,
    symmetric_power,
    unpack_symmetric,
    varimax,
)

SIZES = [1, 2, 5, 12]


def _spd(rng: np.random.Generator, n: int, size: int) -> np.ndarray:
    """n well-conditioned positive definite matrices."""
    roots = rng.standard_normal((n, size, size + 2))
    return roots @ roots.transpose(0, 2, 1) + 0.1 * np.eye(size)


def _packed(matrices: np.ndarray) -> np.ndarray:
    return np.array([pack_symmetric(matrix) for matrix in matrices])


# Packed forms


@pytest.mark.parametrize("size", SIZES)
def test_places_of_the_diagonal_and_of_a_block(rng: np.random.Generator, size: int) -> None:
    (matrix,) = _spd(rng, 1, size)
    packed = pack_symmetric(matrix)
    np.testing.assert_array_equal(packed[packed_diagonal(size)], np.diag(matrix))
    np.testing.assert_array_equal(packed[packed_cross(size, 1)], matrix[:1, 1:])


@pytest.mark.parametrize("size", SIZES)
def test_packed_products_sum_to_gram_matrices(rng: np.random.Generator, size: int) -> None:
    u = rng.standard_normal((9, size))
    weights = rng.random((3, 9))
    expected = np.einsum("ri,ia,ib->rab", weights, u, u)
    found = unpack_symmetric(weights @ packed_products(u), size)
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)


# Cholesky


@pytest.mark.parametrize("size", SIZES)
def test_cholesky_solves(rng: np.random.Generator, size: int) -> None:
    matrices, vectors = _spd(rng, 7, size), rng.standard_normal((7, size))
    found = PackedCholesky(_packed(matrices), size).solve(vectors)
    expected = np.linalg.solve(matrices, vectors[:, :, None])[:, :, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(solve_spd(matrices, vectors), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("size", SIZES)
def test_cholesky_inverse_and_determinant(rng: np.random.Generator, size: int) -> None:
    matrices = _spd(rng, 7, size)
    factor = PackedCholesky(_packed(matrices), size)
    np.testing.assert_allclose(factor.inverse(), np.linalg.inv(matrices), rtol=1e-9, atol=1e-11)
    np.testing.assert_array_equal(factor.inverse(slice(2, 5)), factor.inverse()[2:5])
    np.testing.assert_allclose(
        factor.log_determinant(), np.linalg.slogdet(matrices)[1], rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("size", SIZES)
def test_congruent_matrices(rng: np.random.Generator, size: int) -> None:
    matrices, change = _spd(rng, 4, size), rng.standard_normal((size, size))
    found = unpack_symmetric(congruent(_packed(matrices), change), size)
    np.testing.assert_allclose(found, change.T @ matrices @ change, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", SIZES)
def test_whitening_gives_the_quadratic_form(rng: np.random.Generator, size: int) -> None:
    matrices, vectors = _spd(rng, 7, size), rng.standard_normal((7, size))
    white = PackedCholesky(_packed(matrices), size).whiten(vectors)
    expected = np.einsum("ia,iab,ib->i", vectors, np.linalg.inv(matrices), vectors)
    np.testing.assert_allclose((white**2).sum(axis=1), expected, rtol=1e-10)


def test_cholesky_of_badly_scaled_matrices(rng: np.random.Generator) -> None:
    # Scaling rows and columns alike is harmless for Cholesky, whatever the units of the coordinates.
    scale = np.array([1e-9, 1.0, 1e9, 1e3])
    matrices = _spd(rng, 3, 4)
    vectors = rng.standard_normal((3, 4))
    plain = PackedCholesky(_packed(matrices), 4).solve(vectors)
    scaled = PackedCholesky(_packed(matrices * np.outer(scale, scale)), 4).solve(vectors * scale)
    np.testing.assert_allclose(scaled * scale, plain, rtol=1e-10)


@pytest.mark.parametrize("position", [0, 1, 2], ids=["first", "middle", "last"])
def test_null_directions_give_zero_steps(rng: np.random.Generator, position: int) -> None:
    matrices = _spd(rng, 5, 3)
    matrices[:, position] = matrices[:, :, position] = 0.0
    vectors = rng.standard_normal((5, 3))
    factor = PackedCholesky(_packed(matrices), 3)
    step = factor.solve(vectors)
    rest = [a for a in range(3) if a != position]
    np.testing.assert_array_equal(step[:, position], 0.0)
    reduced = matrices[:, rest][:, :, rest]
    expected = np.linalg.solve(reduced, vectors[:, rest][:, :, None])[:, :, 0]
    np.testing.assert_allclose(step[:, rest], expected, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(factor.log_determinant(), np.linalg.slogdet(reduced)[1], rtol=1e-12)


def test_collinear_coordinates_stay_finite(rng: np.random.Generator) -> None:
    # The second coordinate repeats the first: their sum is determined, their difference is not.
    u = rng.standard_normal((6, 1)) * np.array([1.0, 1.0])
    gradient = np.array([[1.0, 1.0]])
    step = PackedCholesky(packed_products(u).sum(axis=0, keepdims=True), 2).solve(gradient)
    assert np.all(np.isfinite(step))
    np.testing.assert_allclose(step.sum(), 1.0 / (u[:, 0] ** 2).sum(), rtol=1e-8)


def test_cholesky_without_coordinates() -> None:
    factor = PackedCholesky(np.zeros((4, 0)), 0)
    assert factor.solve(np.zeros((4, 0))).shape == (4, 0)
    assert factor.inverse().shape == (4, 0, 0)
    np.testing.assert_array_equal(factor.log_determinant(), np.zeros(4))


# Changes of basis


@pytest.mark.parametrize("power", [-1.0, -0.5, 0.5, 2.0])
def test_symmetric_power_inverts_itself(rng: np.random.Generator, power: float) -> None:
    matrix = _spd(rng, 1, 4)[0]
    found = symmetric_power(matrix, power)
    np.testing.assert_allclose(found, found.T, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(symmetric_power(found, 1.0 / power), matrix, rtol=1e-9, atol=1e-10)


def test_symmetric_power_keeps_null_directions(rng: np.random.Generator) -> None:
    u = rng.standard_normal((4, 2))
    matrix = u @ u.T
    np.testing.assert_allclose(symmetric_power(matrix, -1.0), np.linalg.pinv(matrix), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("last", [1.0, 1e-3, 1e-5])
def test_balance_minimises_the_sum_of_ridges(last: float, rng: np.random.Generator) -> None:
    """At constant product the least sum of squares is twice the nuclear norm, also if a component nearly vanishes."""
    scores, loadings = rng.standard_normal((30, 3)) * 4.0, rng.standard_normal((8, 3))
    scores[:, 2] *= last
    loadings[:, 2] *= last
    matrix, inverse = balance(scores.T @ scores, loadings.T @ loadings)
    found = ((scores @ matrix) ** 2).sum() + ((loadings @ inverse) ** 2).sum()
    expected = 2.0 * np.linalg.svd(scores @ loadings.T, compute_uv=False).sum()
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize(
    "broken",
    [np.diag([1.0, 0.0]), np.zeros((2, 2)), np.full((2, 2), np.nan)],
    ids=["singular", "zero", "nan"],
)
def test_balance_leaves_singular_matrices_alone(broken: np.ndarray) -> None:
    if np.isnan(broken).any():
        # Not finite: eigenvalues cannot be compared, nothing is changed.
        left, right = broken, np.eye(2)
    else:
        left, right = np.eye(2), broken
    matrix, inverse = balance(left, right)
    np.testing.assert_allclose(matrix @ inverse, np.eye(2), atol=1e-12)


# Conventions


def test_fix_signs_looks_at_the_largest_entry() -> None:
    components = np.array([[0.1, -3.0, 2.0], [1.0, 0.0, -0.5], [0.0, 0.0, 0.0]])
    np.testing.assert_array_equal(fix_signs(components), [-1.0, 1.0, 1.0])
    assert fix_signs(np.zeros((2, 0))).tolist() == [1.0, 1.0]


def test_largest_entries_come_first_and_zeros_not_at_all() -> None:
    values = np.array([0.0, -3.0, 1.0, 3.0, 0.5])
    np.testing.assert_array_equal(largest(values, 3), [1, 3, 2])
    np.testing.assert_array_equal(largest(values, 9), [1, 3, 2, 4])
    assert len(largest(values, -1)) == 0


def test_procrustes_is_the_best_orthogonal_matrix(rng: np.random.Generator) -> None:
    source, target = rng.standard_normal((2, 15, 3))
    found = procrustes(source, target)
    np.testing.assert_allclose(found.T @ found, np.eye(3), atol=1e-12)
    best = np.linalg.norm(source @ found - target)
    others = [np.linalg.qr(rng.standard_normal((3, 3)))[0] for _ in range(50)]
    assert all(np.linalg.norm(source @ other - target) >= best for other in others)


def _simplicity(loadings: np.ndarray) -> float:
    """Sum over columns of the variance of squared loadings: what varimax makes largest."""
    return float((loadings**2).var(axis=0).sum())


def test_varimax_finds_the_simple_structure_behind_a_rotation(rng: np.random.Generator) -> None:
    simple = np.zeros((24, 3))
    for component in range(3):
        simple[8 * component : 8 * (component + 1), component] = rng.uniform(0.5, 1.5, 8)
    turned = simple @ np.linalg.qr(rng.standard_normal((3, 3)))[0]
    found = turned @ varimax(turned)
    # Columns come back in some order and with some signs.
    order = np.argmax(np.abs(simple.T @ found), axis=1)
    assert sorted(order) == [0, 1, 2]
    np.testing.assert_allclose(np.abs(found[:, order]), simple, atol=1e-5)


def test_varimax_is_stationary(rng: np.random.Generator) -> None:
    loadings = rng.standard_normal((40, 3)) ** 3
    best = loadings @ varimax(loadings)
    for first, second in [(0, 1), (0, 2), (1, 2)]:
        for angle in (-1e-3, 1e-3):
            turn = np.eye(3)
            turn[[first, second], [first, second]] = np.cos(angle)
            turn[first, second], turn[second, first] = np.sin(angle), -np.sin(angle)
            assert _simplicity(best @ turn) <= _simplicity(best) + 1e-9


@pytest.mark.parametrize(("p", "n_calls"), [(30, 1), (60, 2)], ids=["known as a whole", "by products"])
def test_leading_directions_are_those_of_a_matrix_of_low_rank(
    rng: np.random.Generator, p: int, n_calls: int
) -> None:
    truth = np.linalg.qr(rng.standard_normal((p, 3)))[0]
    matrix = (truth * [9.0, 4.0, 1.0]) @ truth.T
    calls = []

    def multiply(basis: np.ndarray) -> np.ndarray:
        calls.append(basis.shape)
        return np.column_stack([matrix @ basis, np.arange(float(p))])

    vectors, values, rest = leading_directions(multiply, p, 3, rng, n_products=2)
    assert len(calls) == n_calls
    np.testing.assert_allclose(values, [9.0, 4.0, 1.0], rtol=1e-9)
    np.testing.assert_allclose(np.abs(vectors.T @ truth), np.eye(3), atol=1e-7)
    np.testing.assert_array_equal(rest[:, 0], np.arange(float(p)))


def test_packed_matrices_times_vectors(rng: np.random.Generator) -> None:
    full = rng.normal(size=(300, 4, 4))
    full = full + full.transpose(0, 2, 1)
    vectors = rng.normal(size=(300, 4))
    np.testing.assert_allclose(
        packed_times(pack_symmetric(full), vectors), np.einsum("iab,ib->ia", full, vectors)
    )
    np.testing.assert_allclose(
        packed_squares(pack_symmetric(full), vectors),
        np.einsum("ia,iab,ib->i", vectors, full, vectors),
        atol=1e-12,
    )

"""Small linear algebra for many rows at once, and the conventions that make an answer unique."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import scipy.linalg

from anypca._typing import Floats, Ints

# Extra directions of the range finder: with 5 to 10 of them the leading ones are found nearly as well as by all
# (Halko, Martinsson and Tropp 2011).
_OVERSAMPLING = 6
# Columns up to which all directions are found at once: one product with all of them takes about as long as three with
# a few, and its result depends on no random start.
_WHOLE = 32
# A pivot below this fraction of its diagonal entry, or an eigenvalue below this fraction of the largest, is rounding
# after a few thousand operations: far below any statistical scale.
_JITTER = 1e-12
# Null eigenvalues of a matrix that was just summed up come out at some units in the last place of the largest.
_NULL = 1e-14
# Matrices that are unpacked at once: 400 kB with 20 components, which stay in the cache.
_AT_ONCE = 128
# Of varimax: the gain per step falls geometrically, so this share of it leaves loadings right to five digits or so.
_VARIMAX_GAIN = 1e-9


@cache
def _triangle(size: int) -> tuple[Ints, Ints, Ints]:
    rows, cols = np.triu_indices(size)
    full = np.empty((size, size), dtype=np.intp)
    full[rows, cols] = full[cols, rows] = np.arange(rows.size)
    return rows, cols, full


def packed_size(size: int) -> int:
    """Number of entries of a packed symmetric matrix of the given size."""
    return size * (size + 1) // 2


def packed_products(u: Floats) -> Floats:
    """Products ``u_a u_b``, a <= b, of each row.

    Parameters
    ----------
    u : ndarray of shape (n, m)

    Returns
    -------
    ndarray of shape (n, m (m + 1) / 2)
        So that ``v @ packed_products(u)`` is the packed form of ``sum_i v_i u_i u_i'``: curvatures of all rows
        (or columns) of a bilinear model are one matrix product.
    """
    rows, cols, _ = _triangle(u.shape[1])
    # Taken and multiplied in place: a third of the time of an index, and one array less.
    products = u.take(rows, axis=1)
    products *= u.take(cols, axis=1)
    return products


@cache
def packed_diagonal(size: int) -> Ints:
    """Positions of the diagonal in a packed symmetric matrix, shape (m,)."""
    return np.diag(_triangle(size)[2])


@cache
def packed_position(size: int, part: int) -> Ints:
    """Positions of the leading ``part`` x ``part`` block of a packed matrix of the given size, in packed order."""
    rows, cols, _ = _triangle(part)
    return _triangle(size)[2][rows, cols]


@cache
def packed_cross(size: int, part: int) -> Ints:
    """Positions of the off-diagonal block: the first ``part`` rows, the other columns; (part, size - part)."""
    return _triangle(size)[2][:part, part:]


def pack_symmetric(matrix: Floats) -> Floats:
    """Symmetric matrices (..., m, m) in packed form (..., m (m + 1) / 2)."""
    rows, cols, _ = _triangle(matrix.shape[-1])
    return matrix[..., rows, cols]


def unpack_symmetric(packed: Floats, size: int) -> Floats:
    """Packed symmetric matrices (n, m (m + 1) / 2) as full ones (n, m, m)."""
    return packed[:, _triangle(size)[2]]


@cache
def _multiplicity(size: int) -> Floats:
    """How often each entry of a packed matrix stands in the whole one: 1 on the diagonal, else 2."""
    rows, cols, _ = _triangle(size)
    return np.where(rows == cols, 1.0, 2.0)


def doubled(packed: Floats, size: int) -> Floats:
    """Packed matrices with off-diagonal entries doubled: a plain product is then the inner product."""
    return np.asarray(packed * _multiplicity(size))


def packed_squares(packed: Floats, vectors: Floats) -> Floats:
    """``v' A v`` of packed symmetric matrices A, (n, m (m + 1) / 2), and vectors (n, m), shape (n,)."""
    return np.asarray(
        np.einsum("ia,ia,a->i", packed_products(vectors), packed, _multiplicity(vectors.shape[1]))
    )


def packed_times(packed: Floats, vectors: Floats) -> Floats:
    """Products of packed symmetric matrices (n, m (m + 1) / 2) with vectors (n, m), shape (n, m)."""
    products = np.empty_like(vectors)
    for start in range(0, len(packed), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        full = unpack_symmetric(packed[part], vectors.shape[1])
        products[part] = np.matmul(full, vectors[part, :, None])[:, :, 0]
    return products


def congruent(packed: Floats, matrix: Floats) -> Floats:
    """``matrix' A matrix`` of symmetric matrices A in packed form, (n, m (m + 1) / 2), for a matrix (m, m)."""
    n, size = len(packed), len(matrix)
    if n > _AT_ONCE:
        parts = [congruent(packed[start : start + _AT_ONCE], matrix) for start in range(0, n, _AT_ONCE)]
        return np.concatenate(parts)
    half = (unpack_symmetric(packed, size).reshape(n * size, size) @ matrix).reshape(n, size, size)
    # The transpose of a product of one symmetric factor brings the other side to the end, so that both are one product.
    whole = half.transpose(0, 2, 1).reshape(n * size, size) @ matrix
    return pack_symmetric(whole.reshape(n, size, size))


class PackedCholesky:
    """Cholesky factors of many small symmetric positive semi-definite matrices.

    The factorisation runs over the entries of the matrices with all matrices in the inner loop, which for sizes
    up to a few dozen is faster than one LAPACK call per matrix and needs no unpacking.

    Parameters
    ----------
    packed : ndarray of shape (n, m (m + 1) / 2)
        Upper triangles, row by row, as `packed_products` makes them.
    size : int
        m.

    Notes
    -----
    A direction without information (a pivot at rounding level) is left out: it yields a zero step, not an error.
    """

    def __init__(self, packed: Floats, size: int) -> None:
        self.size = size
        index = _triangle(size)[2]
        entries = np.ascontiguousarray(packed.T)
        self._factor = np.zeros((size, size, len(packed)))
        self._inverse_pivot = np.zeros((size, len(packed)))
        for j in range(size):
            column = entries[index[j:, j]]
            smallest = _JITTER * column[0]
            if j:
                column -= np.einsum("iln,ln->in", self._factor[j:, :j], self._factor[j, :j])
            usable = column[0] > smallest
            root = np.sqrt(np.where(usable, column[0], 1.0))
            self._inverse_pivot[j] = np.where(usable, 1.0 / root, 0.0)
            self._factor[j:, j] = column * self._inverse_pivot[j]

    def solve(self, vectors: Floats) -> Floats:
        """Solutions (n, m) for right-hand sides (n, m)."""
        forward = self.whiten(vectors).T
        solution = np.zeros_like(forward)
        for j in reversed(range(self.size)):
            known = np.einsum("ln,ln->n", self._factor[j + 1 :, j], solution[j + 1 :])
            solution[j] = (forward[j] - known) * self._inverse_pivot[j]
        return np.ascontiguousarray(solution.T)

    def whiten(self, vectors: Floats) -> Floats:
        """``L^-1 vectors``, shape (n, m): its squared length is ``vectors' A^-1 vectors``."""
        right = vectors.T
        forward = np.zeros(right.shape)
        for j in range(self.size):
            known = np.einsum("ln,ln->n", self._factor[j, :j], forward[:j])
            forward[j] = (right[j] - known) * self._inverse_pivot[j]
        return forward.T

    def log_determinant(self) -> Floats:
        """Log-determinants (n,), over the directions that carry information."""
        pivots = np.where(self._inverse_pivot > 0, self._inverse_pivot, 1.0)
        return np.asarray(-2.0 * np.log(pivots).sum(axis=0))

    def inverse(self, part: slice = slice(None)) -> Floats:
        """Inverses (n, m, m) of all or some of the matrices."""
        return unpack_symmetric(self.packed_inverse(part), self.size)

    def packed_inverse(self, part: slice = slice(None)) -> Floats:
        """The same in packed form, (n, m (m + 1) / 2); all matrices stay in the inner loop."""
        pivot, starts = self._inverse_pivot[:, part], packed_diagonal(self.size)
        triangle = np.zeros((self.size, self.size, pivot.shape[1]))
        for j in range(self.size):
            known = np.einsum("ln,lcn->cn", self._factor[j, :j, part], triangle[:j, :j])
            triangle[j, :j] = -known * pivot[j]
            triangle[j, j] = pivot[j]
        entries = np.empty((packed_size(self.size), pivot.shape[1]))
        for a, start in enumerate(starts):
            entries[start : start + self.size - a] = np.einsum(
                "ln,lbn->bn", triangle[a:, a], triangle[a:, a:]
            )
        return np.ascontiguousarray(entries.T)


def solve_spd(matrices: Floats, vectors: Floats) -> Floats:
    """Solve ``matrices[i] @ out[i] = vectors[i]``: (n, m, m) and (n, m)."""
    rows, cols, _ = _triangle(vectors.shape[1])
    return PackedCholesky(matrices[:, rows, cols], vectors.shape[1]).solve(vectors)


def symmetric_power(matrix: Floats, power: float) -> Floats:
    """A power of a symmetric positive semi-definite matrix; null directions stay null."""
    (found,) = symmetric_powers(matrix, power)
    return found


def symmetric_powers(matrix: Floats, *powers: float) -> list[Floats]:
    """Several powers of one matrix."""
    values, vectors = scipy.linalg.eigh(matrix)
    floor = max(values[-1], 0.0) * _NULL if values.size else 0.0
    base = np.where(values > floor, np.maximum(values, floor), 1.0)
    return [(vectors * np.where(values > floor, base**power, 0.0)) @ vectors.T for power in powers]


def balance(left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """The symmetric change of basis that makes two Gram matrices equal.

    Parameters
    ----------
    left, right : ndarray of shape (k, k)
        Gram matrices of scores Z and loadings W, weighted by their ridges.

    Returns
    -------
    matrix, inverse : ndarray of shape (k, k)
        R and its inverse: Z R and W R^-1 have equal (weighted) Gram matrices, which minimises the sum of the two
        ridges at constant Z W'. R is symmetric and near the identity when the matrices nearly agree, so iterates
        are not rotated. The identity where a Gram matrix is (nearly) singular.
    """
    identity = np.eye(len(left))
    if not (_is_well_conditioned(left) and _is_well_conditioned(right)):
        return identity, identity
    # P left P = right has the geometric mean of left^-1 and right as its positive solution, and R = P^(1/2). Singular
    # values of the product of two Cholesky factors are more accurate than eigenvalues of the matrix product.
    lower = np.linalg.cholesky(left)
    _, sizes, turned = np.linalg.svd(np.linalg.cholesky(right).T @ lower)
    half = scipy.linalg.solve_triangular(lower, turned.T, lower=True, trans="T")
    square = (half * sizes) @ half.T
    if not _is_well_conditioned(square):
        return identity, identity
    return symmetric_power(square, 0.5), symmetric_power(square, -0.5)


def _is_well_conditioned(matrix: Floats) -> bool:
    """Whether a symmetric matrix is safely positive definite."""
    values = np.linalg.eigvalsh(matrix)
    return bool(values.size and values[0] > _JITTER * values[-1])


def leading_directions(
    multiply: Callable[[Floats], Floats],
    n_features: int,
    n_components: int,
    rng: np.random.Generator,
    *,
    n_products: int,
) -> tuple[Floats, Floats, Floats]:
    """Leading eigenvectors of a large positive semi-definite matrix from a few products with it, nearly.

    Parameters
    ----------
    multiply : callable
        The matrix times an array (n_features, width); it may append further columns, which are handed back.
    n_features, n_components : int
    rng : numpy.random.Generator
        For the directions to begin with.
    n_products : int
        How often ``multiply`` is called; once for a small matrix, which is then known as a whole.

    Returns
    -------
    vectors : ndarray of shape (n_features, n_components)
    values : ndarray of shape (n_components,)
        Decreasing.
    rest : ndarray of shape (n_features, n_more)
        What the last call of ``multiply`` appended.
    """
    is_small = n_features <= max(n_components + _OVERSAMPLING, _WHOLE)
    width = n_features if is_small else n_components + _OVERSAMPLING
    basis = np.eye(width) if is_small else np.linalg.qr(rng.standard_normal((n_features, width)))[0]
    for _ in range(1 if is_small else n_products):
        found = multiply(basis)
        values, rotation = np.linalg.eigh(basis.T @ found[:, :width])
        # Ritz vectors, largest first; the next basis is the image in that order.
        basis = np.linalg.qr(found[:, :width] @ rotation[:, ::-1])[0]
    return basis[:, :n_components], values[::-1][:n_components], found[:, width:]


def fix_signs(components: Floats) -> Floats:
    """Signs (k,), +1 or -1, that make the largest-magnitude entry of each row positive."""
    if components.shape[1] == 0:
        return np.ones(len(components))
    leading = components[np.arange(len(components)), np.argmax(np.abs(components), axis=1)]
    return np.where(leading < 0, -1.0, 1.0)


def nearest_orthonormal(matrix: Floats) -> Floats:
    """The matrix with orthonormal columns, (n, k), that has the largest inner product with the given one."""
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    return np.asarray(left @ right)


def procrustes(source: Floats, target: Floats) -> Floats:
    """Orthogonal matrix (k, k) that brings ``source @ Q`` nearest to ``target``, both (n, k)."""
    return nearest_orthonormal(source.T @ target)


def varimax(loadings: Floats, max_iter: int = 200) -> Floats:
    """Orthogonal matrix (k, k) that makes the squares of ``loadings @ Q``, (n, k), differ most within columns."""
    k = loadings.shape[1]
    rotation: Floats = np.eye(k)
    gain = 0.0
    for _ in range(max_iter if k > 1 else 0):
        rotated = loadings @ rotation
        target = rotated**3 - rotated * (rotated**2).mean(axis=0)
        left, values, right = np.linalg.svd(loadings.T @ target)
        rotation = left @ right
        if values.sum() <= gain * (1.0 + _VARIMAX_GAIN):
            break
        gain = float(values.sum())
    return rotation


def largest(values: Floats | Ints, most: int) -> Ints:
    """Positions of the entries of largest magnitude that are not 0, largest first, shape (at most ``most``,)."""
    order: Ints = np.argsort(-np.abs(values), kind="stable")[: max(most, 0)]
    return np.asarray(order[values[order] != 0])

"""Sparse eigenvectors: the direction of largest variance with at most k non-zero loadings.

For a support I the best direction is the leading eigenvector of the submatrix S_I, so that the search is over
supports. Heuristics find a good support; branch and bound proves it optimal or bounds the optimality gap.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
import scipy.linalg

from anypca._typing import Floats, Ints
from anypca.models._gaussian.gram import Gram, StoredGram

# Columns beyond which greedy steps and swaps look at the most promising candidates only, so many of them: each is
# a small eigenproblem, and the cost of a step then does not grow with the width of the table.
_ALL_CANDIDATES = 60
_FEW_CANDIDATES = 20
# Steps of the power method, which ends when the support stays: some 5 as a rule.
_MAX_POWER = 200
# Columns of largest norm that the power method also starts from: its fixed points depend on the start.
_N_STARTS = 5
# Columns whose submatrices span the eigenvectors that it starts from, in large tables.
_START_COLUMNS = 200
# Columns up to which branch and bound is tried: each node is an eigenproblem of that size.
_MAX_PROVED = 200
# A value counts as larger beyond this share, some thousand units in the last place: sums of squares round so much.
_RTOL = 1e-12


@dataclass(frozen=True, eq=False)
class Deflated:
    """S = G - X Y' - Y X', known by its columns and products; G need not be held."""

    gram: Gram
    squares: Floats
    """Diagonal of G (p,)."""
    ceiling: float
    """The largest eigenvalue of G, which no deflation raises."""
    left: Floats
    """X (p, m), two columns or one for each direction taken out."""
    right: Floats
    """Y (p, m)"""
    taken: Floats
    """Directions of the deflations (p, m)."""
    shift: float = 0.0
    """What added to the diagonal makes S positive semi-definite."""

    @property
    def diagonal(self) -> Floats:
        """Diagonal of S, shape (p,)."""
        return np.asarray(self.squares - 2.0 * (self.left * self.right).sum(axis=1))

    def columns(self, index: Ints) -> Floats:
        """``S[:, index]``, shape (p, m)."""
        if isinstance(self.gram, StoredGram):
            found = self.gram.matrix[:, index]
        else:
            unit = np.zeros((len(self.squares), len(index)))
            unit[index, np.arange(len(index))] = 1.0
            found = self.gram.times(unit)
        return np.asarray(found - self.left @ self.right[index].T - self.right @ self.left[index].T)

    def block(self, index: Ints) -> Floats:
        """``S[index, index]``, exactly symmetric."""
        found = self.columns(index)[index]
        return np.asarray(0.5 * (found + found.T))

    def times(self, columns: Floats) -> Floats:
        """``S @ columns``, shape (p, m)."""
        low = self.left @ (self.right.T @ columns) + self.right @ (self.left.T @ columns)
        return np.asarray(self.gram.times(columns) - low)

    def without(self, taken: Floats, x: Floats, y: Floats) -> Deflated:
        """``S - x y' - y x'``, for the direction ``taken``; all (p,)."""
        return replace(
            self,
            left=np.column_stack([self.left, x]),
            right=np.column_stack([self.right, y]),
            taken=np.column_stack([self.taken, taken]),
        )


def start_deflation(gram: Gram, squares: Floats, ceiling: float) -> Deflated:
    """G itself, with nothing taken out."""
    nothing = np.zeros((len(squares), 0))
    return Deflated(gram, squares, ceiling, nothing, nothing, nothing)


def _schur(S: Deflated, a: Floats, image: Floats, value: float) -> Deflated:
    """S - Sa a'S / a'Sa: columns regressed on the score, whose rest is uncorrelated with it."""
    return S.without(a, image, image / (2.0 * value))


def _hotelling(S: Deflated, a: Floats, image: Floats, value: float) -> Deflated:
    """S - a'Sa aa': not positive semi-definite unless a is an eigenvector."""
    left = S.without(a, a, 0.5 * value * a)
    return replace(left, shift=S.shift + value)


def _project(S: Deflated, a: Floats, image: Floats, value: float) -> Deflated:
    """(I - aa') S (I - aa')."""
    return S.without(a, a, image - 0.5 * value * a)


def _project_orthogonally(S: Deflated, a: Floats, image: Floats, value: float) -> Deflated:
    """The same with the part of a that is orthogonal to what was taken out before."""
    q = a - S.taken @ (S.taken.T @ a)
    q /= np.linalg.norm(q) or 1.0
    image = S.times(q[:, None])[:, 0]
    return _project(S, q, image, float(q @ image))


#: Deflations: from S, a direction a, S a and a'Sa to the deflated matrix.
DEFLATIONS: dict[str, Callable[[Deflated, Floats, Floats, float], Deflated]] = {
    "schur": _schur,
    "hotelling": _hotelling,
    "projection": _project,
    "orthogonalised": _project_orthogonally,
}


def deflate(S: Deflated, a: Floats, deflation: str) -> Deflated:
    """Deflate S by a direction (p,).

    Parameters
    ----------
    S : Deflated
    a : ndarray of shape (p,)
        Of unit length, with a'Sa > 0.
    deflation : str
        A key of `DEFLATIONS`.

    Returns
    -------
    Deflated
    """
    image = S.times(a[:, None])[:, 0]
    return DEFLATIONS[deflation](S, a, image, float(a @ image))


@dataclass(frozen=True, eq=False)
class SparseVector:
    """A unit vector with few non-zero entries."""

    vector: Floats
    """(p,)"""
    value: float
    """a'Sa."""
    upper_bound: float
    """Upper bound of a'Sa for vectors with as few non-zero entries."""
    is_optimal: bool
    """Whether that is proved to be the value itself."""

    def scaled(self, factor: float) -> SparseVector:
        """The same for the matrix times a factor."""
        return replace(self, value=factor * self.value, upper_bound=factor * self.upper_bound)


def find_sparse_vectors(
    S: Deflated, counts: Sequence[int], deflation: str, max_nodes: int
) -> list[SparseVector]:
    """Compute sparse directions by successive deflation; zeros if the deflated matrix vanishes.

    Parameters
    ----------
    S : Deflated
    counts : sequence of int
        Largest number of non-zero entries of each.
    deflation : str
        How a direction is taken out, a key of `DEFLATIONS`.
    max_nodes : int
        Of each branch and bound.

    Returns
    -------
    list of SparseVector
    """
    found: list[SparseVector] = []
    rounding = len(S.diagonal) * float(np.finfo(float).eps) * S.ceiling
    for n_nonzero in counts:
        new = find_sparse_vector(S, n_nonzero, max_nodes=max_nodes)
        if new.value <= rounding:
            nothing = SparseVector(np.zeros(len(S.diagonal)), 0.0, 0.0, is_optimal=True)
            return found + [nothing] * (len(counts) - len(found))
        found.append(new)
        S = deflate(S, new.vector, deflation)
    return found


def find_sparse_vector(S: Deflated, n_nonzero: int, *, max_nodes: int) -> SparseVector:
    """Maximise a'Sa over unit vectors with at most ``n_nonzero`` non-zero entries.

    Parameters
    ----------
    S : Deflated
    n_nonzero : int
    max_nodes : int
        Of the branch and bound; 0 leaves the heuristics' answer unproved.

    Returns
    -------
    SparseVector
    """
    support = _heuristic(S, n_nonzero)
    value, bound = float(_leading(S.block(support))[0]), _outer_bound(S, n_nonzero)
    if max_nodes > 0 and len(S.diagonal) <= _MAX_PROVED:
        search = _Search(S.block(np.arange(len(S.diagonal))), n_nonzero, is_semidefinite=S.shift == 0.0)
        support, value, proved = search.run(support, value, max_nodes)
        bound = min(bound, proved)
    vector = np.zeros(len(S.diagonal))
    vector[support] = _leading(S.block(support))[1]
    is_optimal = bound <= value * (1.0 + _RTOL)
    return SparseVector(vector, value, value if is_optimal else bound, is_optimal)


def _leading(block: Floats) -> tuple[float, Floats]:
    """The largest eigenvalue and its vector."""
    last = len(block) - 1
    values, vectors = scipy.linalg.eigh(block, subset_by_index=(last, last), check_finite=False)
    return float(values[0]), vectors[:, 0]


def _outer_bound(S: Deflated, k: int) -> float:
    """Upper bound without a search: the largest eigenvalue of S, or a trace."""
    largest = np.sort(S.diagonal)[::-1][:k]
    return min(S.ceiling, float(largest.sum())) if S.shift == 0.0 else S.ceiling


def _heuristic(S: Deflated, k: int) -> Ints:
    """The best of a greedy support and of the fixed points of the truncated power method, improved by swaps."""
    if k >= len(S.diagonal):
        return np.arange(len(S.diagonal))
    found = [_greedy(S, k), *(_truncated_power(S, start, k) for start in _starts(S))]
    best = max(found, key=lambda support: _leading(S.block(support))[0])
    return _swap(S, best)


def _starts(S: Deflated) -> Iterator[Floats]:
    """Directions from which the power method begins: two eigenvectors, and the columns of largest norm."""
    some = np.argsort(-S.diagonal, kind="stable")[:_START_COLUMNS]
    columns = S.columns(some)
    left, _, _ = np.linalg.svd(columns, full_matrices=False)
    yield from left[:, :2].T
    longest = np.argsort(-np.linalg.norm(columns, axis=0), kind="stable")[:_N_STARTS]
    yield from columns[:, longest].T


def _greedy(S: Deflated, k: int) -> Ints:
    """Add the variable that raises the leading eigenvalue most, one after the other."""
    support = np.array([int(np.argmax(S.diagonal))])
    while len(support) < k:
        outside = _candidates(S, support)
        together = np.append(support, outside)
        block, kept = S.block(together), np.arange(len(support))
        trials = np.column_stack([np.tile(kept, (len(outside), 1)), np.arange(len(support), len(together))])
        support = together[trials[int(np.argmax(_leading_values(block, trials)))]]
    return support


def _candidates(S: Deflated, support: Ints) -> Ints:
    """Variables outside of a support: all, or those most correlated with its leading direction."""
    outside = np.setdiff1d(np.arange(len(S.diagonal)), support)
    if len(S.diagonal) <= _ALL_CANDIDATES:
        return outside
    vector = np.zeros(len(S.diagonal))
    vector[support] = _leading(S.block(support))[1]
    image = np.abs(S.times(vector[:, None])[outside, 0])
    return outside[np.argsort(-image, kind="stable")[:_FEW_CANDIDATES]]


def _leading_values(block: Floats, trials: Ints) -> Floats:
    """Largest eigenvalues of submatrices at positions ``trials`` (m, k), shape (m,)."""
    return np.asarray(np.linalg.eigvalsh(block[trials[:, :, None], trials[:, None, :]])[:, -1])


def _truncated_power(S: Deflated, start: Floats, k: int) -> Ints:
    """The support at which ``a <- k largest of S a`` stays; for positive semi-definite S the variance never falls."""
    vector, support = start, np.zeros(0, dtype=int)
    for _ in range(_MAX_POWER):
        image = S.times(vector[:, None])[:, 0] + S.shift * vector
        new = np.sort(np.argsort(-np.abs(image), kind="stable")[:k])
        vector = np.zeros_like(image)
        vector[new] = image[new] / (np.linalg.norm(image[new]) or 1.0)
        if np.array_equal(new, support):
            break
        support = new
    return support


def _swap(S: Deflated, support: Ints) -> Ints:
    """Exchange one variable for another while that raises the leading eigenvalue, the best exchange first."""
    while True:
        k = len(support)
        value, vector = _leading(S.block(support))
        leaving = np.argsort(np.abs(vector), kind="stable")
        if len(S.diagonal) > _ALL_CANDIDATES:
            leaving = leaving[:_FEW_CANDIDATES]
        together = np.append(support, _candidates(S, support))
        block, entering = S.block(together), np.arange(k, len(together))
        best, trial = value, None
        for i in leaving:
            kept = np.delete(np.arange(k), i)
            trials = np.column_stack([np.tile(kept, (len(entering), 1)), entering])
            values = _leading_values(block, trials)
            if values.max(initial=-np.inf) > best * (1.0 + _RTOL):
                best, trial = float(values.max()), trials[int(np.argmax(values))]
        if trial is None:
            return support
        support = together[trial]


@dataclass(frozen=True, eq=False)
class _Search:
    """Branch and bound over supports between forced variables and those with free ones."""

    matrix: Floats
    k: int
    is_semidefinite: bool

    def run(self, support: Ints, value: float, max_nodes: int) -> tuple[Ints, float, float]:
        """The best support, its value, and the largest bound left open: the value itself if none is."""
        numbers, best = count(), (support, value)
        queue = [self._node(np.zeros(0, dtype=int), np.arange(len(self.matrix)), next(numbers))]
        for _ in range(max_nodes):
            if not queue or -queue[0][0] <= best[1] * (1.0 + _RTOL):
                break
            _, _, forced, free, relaxed = heapq.heappop(queue)
            # "In" first: the candidate of largest weight in the relaxed vector.
            j = int(free[np.argmax(np.abs(relaxed[len(forced) :]))])
            rest = free[free != j]
            for inside in (np.append(forced, j), forced):
                if len(inside) == self.k or len(inside) + len(rest) <= self.k:
                    best = self._better(best, inside if len(inside) == self.k else np.append(inside, rest))
                    continue
                node = self._node(inside, rest, next(numbers))
                if -node[0] > best[1] * (1.0 + _RTOL):
                    heapq.heappush(queue, node)
        return *best, max(best[1], -queue[0][0]) if queue else best[1]

    def _better(self, best: tuple[Ints, float], leaf: Ints) -> tuple[Ints, float]:
        found = _leading(self.matrix[np.ix_(leaf, leaf)])[0]
        return (leaf, found) if found > best[1] * (1.0 + _RTOL) else best

    def _node(self, forced: Ints, free: Ints, number: int) -> tuple[float, int, Ints, Ints, Floats]:
        """Minus an upper bound of a'Sa, a number that breaks ties, the node, and the relaxed vector."""
        index, n_forced = np.append(forced, free), len(forced)
        block = self.matrix[np.ix_(index, index)]
        value, relaxed = _leading(block)
        bounds = [value, _gershgorin(block, n_forced, self.k)]
        if self.is_semidefinite:
            diagonal = np.diag(block)
            most = np.sort(diagonal[n_forced:])[::-1][: self.k - n_forced]
            bounds.append(float(diagonal[:n_forced].sum() + most.sum()))
        return -min(bounds), number, forced, free, relaxed


def _gershgorin(block: Floats, n_forced: int, k: int) -> float:
    """The largest sum of absolute entries of a row over k of its columns, the diagonal and the forced ones included."""
    sizes = np.abs(block)
    diagonal = np.diag(sizes).copy()
    np.fill_diagonal(sizes, 0.0)
    is_forced = np.arange(len(block)) < n_forced
    # Off the diagonal a forced row includes the other forced columns, a free row all forced columns.
    n_more = np.where(is_forced, k - n_forced, k - n_forced - 1)
    ordered = np.sort(sizes[:, n_forced:], axis=1)[:, ::-1]
    running = np.concatenate([np.zeros((len(block), 1)), np.cumsum(ordered, axis=1)], axis=1)
    more = running[np.arange(len(block)), np.clip(n_more, 0, ordered.shape[1])]
    return float((diagonal + sizes[:, :n_forced].sum(axis=1) + more).max())

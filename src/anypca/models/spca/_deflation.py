"""What is left of a matrix of inner products when a direction has been taken out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from anypca._typing import Floats, Ints
from anypca.models._gaussian.gram import Gram, StoredGram


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
    """The directions that were taken out (p, m)."""
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


#: From S, a direction a, S a and a'Sa to what is left.
DEFLATIONS: dict[str, Callable[[Deflated, Floats, Floats, float], Deflated]] = {
    "schur": _schur,
    "hotelling": _hotelling,
    "projection": _project,
    "orthogonalised": _project_orthogonally,
}


def deflate(S: Deflated, a: Floats, deflation: str) -> Deflated:
    """Take a direction (p,) out of S.

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

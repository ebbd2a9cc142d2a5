"""Pieces of the path of L1-penalised regressions: where a given number of entries differs from 0, from a warm start.

On a piece the support S and the signs s stay, and the minimiser of ``b'H b - 2 c'b + 2 level |b|_1`` is linear in
the level: ``b_S = u - level v`` with ``u = H_SS^-1 c_S`` and ``v = H_SS^-1 s``. The piece is the interval of levels on
which no entry changes sign and no column outside of S has ``|c - H b|`` above the level. Late in an alternation
supports do not change, and one small linear system is the whole work.

Efron, Hastie, Johnstone and Tibshirani (2004), Least angle regression, Ann. Statist. 32, section 3.1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from anypca._typing import Floats, Ints

#: Entries up to which each step of the path solves its own linear system: beyond, LARS with updates of one factor wins.
MOST_ENTRIES = 100
# Steps per entry before the path is given up; paths on which every entry leaves once need three.
_MOST_STEPS = 8
# Pivot, relative to the largest square of a column, below which nothing but rounding is left of a column.
_COLLINEAR = 1e-13
# Ends of a piece may change places by rounding where columns join together.
_ROUNDING = 1e-10


@dataclass(frozen=True)
class Piece:
    """A part of the path on which the support and the signs stay."""

    support: Ints
    constant: Floats
    """u, (n_support,)."""
    slope: Floats
    """v, (n_support,)."""
    low: float
    """Smallest level."""
    high: float
    """Largest level; below ``low`` where no level has this support with these signs."""
    joins: int | None
    """The column that enters at ``low``."""
    sign: float
    """With which it does."""
    leaves: int | None
    """The place in the support of the entry that is 0 at ``low``."""

    @property
    def is_there(self) -> bool:
        """Whether some level has this support with these signs."""
        return self.low <= self.high * (1.0 + _ROUNDING)

    def end(self, n_features: int) -> Floats:
        """The coefficients at ``low``, (n_features,)."""
        b = np.zeros(n_features)
        b[self.support] = self.constant - self.low * self.slope
        return b


def find_piece(matrix: Floats, target: Floats, support: Ints, signs: Floats) -> Piece | None:
    """The piece with a given support and signs; ``None`` where its columns are collinear.

    Parameters
    ----------
    matrix : ndarray of shape (m, m)
        H, positive semi-definite.
    target : ndarray of shape (m,)
        c.
    support : ndarray of int of shape (n_support,)
    signs : ndarray of shape (n_support,)
    """
    rows = matrix[support]
    try:
        factor = scipy.linalg.cho_factor(rows[:, support], check_finite=False)
    except scipy.linalg.LinAlgError:
        return None
    if (np.diag(factor[0]) ** 2).min() < _COLLINEAR * rows[:, support].diagonal().max():
        return None
    right = np.column_stack([target[support], signs])
    constant, slope = scipy.linalg.cho_solve(factor, right, check_finite=False).T
    rest, turn = target - constant @ rows, slope @ rows
    # Of r + level a <= level and -(r + level a) <= level; columns of the support are bounded by their signs.
    joining = np.concatenate([rest, -rest]), np.concatenate([1.0 - turn, 1.0 + turn])
    for part in (support, support + len(target)):
        joining[0][part], joining[1][part] = 0.0, 1.0
    low_join, high_join, place = _bounds(*joining)
    low_sign, high_sign, leaving = _bounds(-signs * constant, -signs * slope)
    low, high = max(low_join, low_sign, 0.0), min(high_join, high_sign)
    joins = leaves = None
    if low > 0:
        joins, leaves = (place, None) if low_join >= low_sign else (None, leaving)
    sign = 1.0 if place < len(target) else -1.0
    return Piece(
        support, constant, slope, low, high, None if joins is None else joins % len(target), sign, leaves
    )


def _bounds(values: Floats, factors: Floats) -> tuple[float, float, int]:
    """Smallest and largest level with ``values <= level * factors``, and which of them the smallest comes from."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = values / factors
    below = np.where(factors > 0, ratios, -np.inf)
    place = int(np.argmax(below))
    return float(below[place]), float(np.where(factors < 0, ratios, np.inf).min()), place


def walk_path(
    matrix: Floats, target: Floats, count: int, start: Floats | None
) -> tuple[Floats, float] | None:
    """The end of the piece with ``count`` entries, and its level; ``None`` where it was not found.

    Parameters
    ----------
    matrix : ndarray of shape (m, m)
    target : ndarray of shape (m,)
        Not all 0.
    count : int
    start : ndarray of shape (m,) or None
        Coefficients whose support and signs are tried first.
    """
    if start is not None and np.count_nonzero(start) == count:
        support = np.flatnonzero(start)
        piece = find_piece(matrix, target, support, np.sign(start[support]))
        if piece is not None and piece.is_there and piece.leaves is None:
            return piece.end(len(target)), piece.low
    return _walk_from_zero(matrix, target, count) if count <= MOST_ENTRIES else None


def _walk_from_zero(matrix: Floats, target: Floats, count: int) -> tuple[Floats, float] | None:
    """The first piece with ``count`` entries, or the last one where the path ends before."""
    support = np.array([int(np.argmax(np.abs(target)))])
    signs = np.sign(target[support])
    for _ in range(_MOST_STEPS * count):
        piece = find_piece(matrix, target, support, signs)
        if piece is None:
            return None
        if piece.leaves is not None:
            support, signs = np.delete(support, piece.leaves), np.delete(signs, piece.leaves)
        elif piece.joins is None or len(support) == count:
            return (piece.end(len(target)), piece.low) if piece.is_there else None
        else:
            support, signs = np.append(support, piece.joins), np.append(signs, piece.sign)
    return None

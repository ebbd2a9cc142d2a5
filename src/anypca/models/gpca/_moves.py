"""Two moves of orthonormal loadings that make exact zeros: thresholds and rotations."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from anypca._typing import Floats
from anypca.models.gpca._penalty import Penalty

_MAX_NEWTON = 100
_MAX_BISECTIONS = 120
_MAX_DOUBLINGS = 200
# Angles at which a pair of columns is looked at first, and zeros near the best of them that are tried.
_GRID = 64
_NEAREST = 32
# Cosine between two columns that is none.
_ORTHOGONAL = 1e-13
# A loading this small after a rotation is a zero with rounding.
_DUST = 1e-14
# A rotation must lower the penalty by more than rounding.
_LEAST_GAIN = 1e-12


def threshold_columns(
    old: Floats, gradient: Floats, thresholds: Floats, curvature: float
) -> tuple[Floats, float]:
    """Maximise ``sum_a (L u_a + g_a)' v_a - t_a' |v_a|`` over orthonormal v, column by column.

    Parameters
    ----------
    old, gradient, thresholds : ndarray of shape (p, k)
        Present loadings u, gradients g and thresholds t >= 0.
    curvature : float
        L; it is doubled while nothing would be left of some column.

    Returns
    -------
    new : ndarray of shape (p, k)
        Orthonormal, with exact zeros.
    curvature : float
        The one used.
    """
    for _ in range(_MAX_DOUBLINGS):
        target = curvature * old + gradient
        new = old.copy()
        for a in range(old.shape[1]):
            column = _threshold(target[:, a], thresholds[:, a], np.delete(new, a, axis=1))
            if column is None:
                break
            new[:, a] = column
        else:
            return new, curvature
        curvature *= 2.0
    return old, curvature


def _threshold(target: Floats, threshold: Floats, others: Floats) -> Floats | None:
    """The unit vector orthogonal to ``others`` that maximises ``target' u - threshold' |u|``; ``None`` if none gains.

    It is proportional to ``soft(target - others @ nu)`` with the multipliers nu that make it orthogonal: those that
    minimise half its squared length, a convex and piecewise quadratic function, by Newton steps.
    """
    nu = others.T @ target
    smallest = 1e-12 * float(np.linalg.norm(target))
    for _ in range(_MAX_NEWTON):
        vector = _soft(target - others @ nu, threshold)
        length = float(np.linalg.norm(vector))
        if length <= smallest:
            return None
        overlap = others.T @ vector
        if np.max(np.abs(overlap), initial=0.0) <= _ORTHOGONAL * length:
            return vector / length
        active = others[vector != 0]
        step = np.linalg.lstsq(active.T @ active, overlap, rcond=1e-14)[0]
        nu = nu + _reach(target - others @ nu, others @ step, threshold) * step
    return None


def _reach(start: Floats, direction: Floats, threshold: Floats) -> float:
    """How much of a step, at most 1, to go until the squared length no longer falls.

    Its slope is monotone along the step. Lengths themselves would tell the end to half of the digits only.
    """

    def is_beyond(part: float) -> bool:
        return bool(direction @ _soft(start - part * direction, threshold) < 0)

    if not is_beyond(1.0):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_MAX_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if is_beyond(middle) else (middle, high)
        if high - low <= np.finfo(float).eps * high:
            break
    return low


def _soft(vector: Floats, threshold: Floats) -> Floats:
    return np.asarray(np.sign(vector) * np.maximum(np.abs(vector) - threshold, 0.0))


def rotate_pairs(loadings: Floats, penalty: Penalty) -> tuple[Floats, Floats]:
    """Turn each pair of columns to an angle at which the penalty is smaller, if there is one.

    Parameters
    ----------
    loadings : ndarray of shape (p, k)
    penalty : Penalty

    Returns
    -------
    turned : ndarray of shape (p, k)
    rotation : ndarray of shape (k, k)
        ``turned = loadings @ rotation``; the identity when nothing is gained.
    """
    turned = loadings.copy()
    rotation = np.eye(loadings.shape[1])
    for pair in combinations(range(loadings.shape[1]), 2):
        both = turned[:, pair]
        angle = _best_angle(both, penalty)
        if angle == 0.0:
            continue
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        rotation[:, pair] = rotation[:, pair] @ turn
        moved = both @ turn
        turned[:, pair] = np.where(np.abs(moved) > _DUST, moved, 0.0)
    return turned, rotation


def _best_angle(both: Floats, penalty: Penalty) -> float:
    """Angle of the smallest penalty among those that make a loading zero; 0 for no gain.

    Between two such angles every |u| is a concave function of the angle, so that with the absolute values the minima
    are where loadings vanish. A quarter turn only exchanges the columns.
    """
    sizes = np.hypot(both[:, 0], both[:, 1])
    rows = np.flatnonzero(sizes > 0)
    if rows.size == 0:
        return 0.0
    zeros = np.mod(np.arctan2(both[rows, 1], both[rows, 0]), 0.5 * np.pi)

    def values(angles: Floats) -> Floats:
        cosine, sine = np.cos(angles), np.sin(angles)
        first = np.outer(both[:, 0], cosine) + np.outer(both[:, 1], sine)
        second = np.outer(both[:, 1], cosine) - np.outer(both[:, 0], sine)
        total: Floats = penalty.value(np.abs(first)).sum(axis=0) + penalty.value(np.abs(second)).sum(axis=0)
        return total

    if rows.size > 2 * _GRID:
        grid = np.arange(_GRID) * (0.5 * np.pi / _GRID)
        centre = grid[np.argmin(values(grid))]
        near = [np.argsort(_distance(zeros, angle))[:_NEAREST] for angle in (0.0, centre)]
        chosen = np.unique(np.concatenate(near))
        zeros = zeros[chosen]
    found = values(zeros)
    best = int(np.argmin(found))
    present = float(values(np.zeros(1))[0])
    is_better = found[best] < present * (1.0 - _LEAST_GAIN)
    return float(zeros[best]) if is_better else 0.0


def _distance(angles: Floats, angle: float) -> Floats:
    """Distance on the circle of quarter turns."""
    gap = np.mod(angles - angle, 0.5 * np.pi)
    return np.asarray(np.minimum(gap, 0.5 * np.pi - gap))

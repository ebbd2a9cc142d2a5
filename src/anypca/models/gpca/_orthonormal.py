r"""Steps of orthonormal loadings that increase a linear function minus a penalty.

With the present loadings U, the gradient G of the likelihood and its curvature L the function is
:math:`\langle L U + G, V \rangle - \sum_j p(v_j)` of matrices V with orthonormal columns and rows :math:`v_j`.

- A penalty of single loadings is replaced by its tangents. Column by column, the maximum over unit vectors orthogonal
  to the other columns is a soft-thresholded vector. Rotations of the columns do not change the likelihood, but they
  change such a penalty. Pairs of columns are rotated to its minimum, where some loading vanishes.
- Under any other penalty all rows move together, each to the optimum of a quadratic function. Its curvature, the same
  for all rows, are the Lagrange multipliers of the constraint.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from anypca._typing import Floats
from anypca.linalg import nearest_orthonormal, pack_symmetric, symmetric_power
from anypca.priors import Prior

# Newton steps to orthogonality to the other columns: a piecewise quadratic function is minimised in a few.
_MAX_NEWTON = 100
# Doublings of the curvature until no column is zero: beyond the range of double precision.
_MAX_DOUBLINGS = 200
# Updates of the multipliers. Each shrinks the error by about the ratio of penalty to curvature; projection to the
# nearest orthonormal basis removes the remaining error.
_MAX_MULTIPLIERS = 50
# Columns whose relative length is below this value count as zero: some thousand units in the last place.
_NOTHING = 1e-12
# Angles of the initial grid for a pair of columns, 1.4 degrees apart, and number of zeros near the best to try.
_GRID = 64
_NEAREST = 32
# Cosines this small are rounding: the columns are orthogonal.
_ORTHOGONAL = 1e-13
# A loading this small after a rotation is a zero with rounding.
_DUST = 1e-14
# A rotation must lower the penalty by more than rounding.
_LEAST_GAIN = 1e-12


class Improved(NamedTuple):
    """Loadings after a step."""

    stepped: Floats
    """(p, k), orthonormal columns."""
    turned: Floats
    """``stepped`` after rotations that decrease the penalty, shape (p, k)."""
    rotation: Floats
    """``turned = stepped @ rotation``, shape (k, k)."""
    curvature: float
    """Curvature used; it is doubled while some column would be zero."""


def improve(old: Floats, gradient: Floats, prior: Prior, curvature: float) -> Improved:
    """One step of the loadings, see the module's formula.

    Parameters
    ----------
    old, gradient : ndarray of shape (p, k)
        Present loadings U and gradient G.
    prior : Prior
    curvature : float
        L.
    """
    slopes = prior.slopes(old)
    if slopes is None:
        stepped, curvature = _with_enough(curvature, old, gradient, lambda c: _move_rows(c, old, prior))
        return Improved(stepped, stepped, np.eye(old.shape[1]), curvature)
    stepped, curvature = threshold_columns(old, gradient, slopes, curvature)
    return Improved(stepped, *rotate_pairs(stepped, prior), curvature)


def threshold_columns(
    old: Floats, gradient: Floats, thresholds: Floats, curvature: float
) -> tuple[Floats, float]:
    """Maximise ``sum_a (L u_a + g_a)' v_a - t_a' |v_a|`` over orthonormal v, column by column.

    Parameters
    ----------
    old, gradient, thresholds : ndarray of shape (p, k)
        Present loadings u, gradients g and thresholds t >= 0.
    curvature : float
        L.

    Returns
    -------
    new : ndarray of shape (p, k)
        Orthonormal, with exact zeros.
    curvature : float
        The one used.
    """

    def threshold_all(target: Floats) -> Floats | None:
        new = old.copy()
        for a in range(old.shape[1]):
            column = _threshold(target[:, a], thresholds[:, a], np.delete(new, a, axis=1))
            if column is None:
                return None
            new[:, a] = column
        return new

    return _with_enough(curvature, old, gradient, threshold_all)


def _with_enough(
    curvature: float, old: Floats, gradient: Floats, step: Callable[[Floats], Floats | None]
) -> tuple[Floats, float]:
    """``step(L u + g)`` with L doubled while it finds nothing, and that L."""
    for _ in range(_MAX_DOUBLINGS):
        new = step(curvature * old + gradient)
        if new is not None:
            return new, curvature
        curvature *= 2.0
    return old, curvature


def _move_rows(target: Floats, old: Floats, prior: Prior) -> Floats | None:
    r"""Maximise ``<target, V>`` less the penalty over orthonormal V; ``None`` if the penalty makes a column zero.

    With multipliers M, row j maximises :math:`c_j^\top v - v^\top M v / 2 - p(v)`. Without a penalty
    :math:`V = C M^{-1}` and :math:`M = (C^\top C)^{1/2}`; with one this formula is repeated, V M in place of C.
    """
    multipliers = symmetric_power(target.T @ target, 0.5)
    for _ in range(_MAX_MULTIPLIERS):
        packed = np.tile(pack_symmetric(multipliers), (len(old), 1))
        new = old + prior.newton(old, target - old @ multipliers, packed).step
        gram = new.T @ new
        if not np.linalg.eigvalsh(gram)[0] > _NOTHING:
            return None
        if np.max(np.abs(gram - np.eye(len(gram)))) <= _ORTHOGONAL:
            break
        multipliers = symmetric_power(multipliers @ gram @ multipliers, 0.5)
    return nearest_orthonormal(new)


def _threshold(target: Floats, threshold: Floats, others: Floats) -> Floats | None:
    """The unit vector orthogonal to ``others`` that maximises ``target' u - threshold' |u|``; ``None`` if none gains.

    It is proportional to ``soft(target - others @ nu)`` with the multipliers nu that make it orthogonal: those that
    minimise half its squared length, a convex and piecewise quadratic function, by Newton steps.
    """
    nu = others.T @ target
    smallest = _NOTHING * float(np.linalg.norm(target))
    for _ in range(_MAX_NEWTON):
        vector = _soft(target - others @ nu, threshold)
        length = float(np.linalg.norm(vector))
        if length <= smallest:
            return None
        overlap = others.T @ vector
        if np.max(np.abs(overlap), initial=0.0) <= _ORTHOGONAL * length:
            return vector / length
        active = vector != 0
        # Not through the normal equations: columns that nearly vanish on the active rows would be lost in rounding.
        step = np.linalg.lstsq(others[active], vector[active], rcond=None)[0]
        nu = nu + _reach(target - others @ nu, others @ step, threshold) * step
    return None


def _reach(start: Floats, direction: Floats, threshold: Floats) -> float:
    """Step size, at most 1, up to which the squared length decreases.

    Its slope is monotone along the step. Lengths themselves would locate the end to half of the digits only.
    """

    def slope(part: float) -> float:
        return float(direction @ _soft(start - part * direction, threshold))

    if slope(1.0) >= 0.0:
        return 1.0
    return float(brentq(slope, 0.0, 1.0, xtol=np.finfo(float).tiny)) if slope(0.0) > 0.0 else 0.0


def _soft(vector: Floats, threshold: Floats) -> Floats:
    return np.asarray(np.sign(vector) * np.maximum(np.abs(vector) - threshold, 0.0))


def rotate_pairs(loadings: Floats, prior: Prior) -> tuple[Floats, Floats]:
    """Rotate each pair of columns to an angle with a smaller penalty, if one exists.

    Parameters
    ----------
    loadings : ndarray of shape (p, k)
    prior : Prior
        Of single loadings, all of the same strength.

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
        angle = _best_angle(both, prior)
        if angle == 0.0:
            continue
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        rotation[:, pair] = rotation[:, pair] @ turn
        moved = both @ turn
        turned[:, pair] = np.where(np.abs(moved) > _DUST, moved, 0.0)
    return turned, rotation


def _best_angle(both: Floats, prior: Prior) -> float:
    """Among the angles that make a loading zero, the one with the smallest penalty; 0 if none decreases it.

    Between two such angles every |u| is a concave function of the angle, so that with the absolute values the minima
    are where loadings vanish. A quarter turn only exchanges the columns.
    """
    rows = both[np.any(both != 0.0, axis=1)]
    if len(rows) == 0:
        return 0.0
    zeros = np.mod(np.arctan2(rows[:, 1], rows[:, 0]), 0.5 * np.pi)
    if len(rows) > 2 * _GRID:
        grid = np.arange(_GRID) * (0.5 * np.pi / _GRID)
        centre = grid[np.argmin(_penalties(rows, grid, prior))]
        near = [np.argsort(_distance(zeros, angle))[:_NEAREST] for angle in (0.0, centre)]
        zeros = zeros[np.unique(np.concatenate(near))]
    found = _penalties(rows, zeros, prior)
    best = int(np.argmin(found))
    present = float(_penalties(rows, np.zeros(1), prior)[0])
    is_better = found[best] < present * (1.0 - _LEAST_GAIN)
    return float(zeros[best]) if is_better else 0.0


def _penalties(both: Floats, angles: Floats, prior: Prior) -> Floats:
    """Penalties of a pair of columns (p, 2) that is turned by each of the angles, shape (n_angles,)."""
    cosine, sine = np.cos(angles)[:, None], np.sin(angles)[:, None]
    first, second = cosine * both[:, 0] + sine * both[:, 1], cosine * both[:, 1] - sine * both[:, 0]
    values = prior.value(np.stack([first.ravel(), second.ravel()], axis=1))
    return np.asarray(values.reshape(first.shape).sum(axis=1))


def _distance(angles: Floats, angle: float) -> Floats:
    """Distance on the circle of quarter turns."""
    gap = np.mod(angles - angle, 0.5 * np.pi)
    return np.asarray(np.minimum(gap, 0.5 * np.pi - gap))

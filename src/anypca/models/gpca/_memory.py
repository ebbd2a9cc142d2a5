"""Limited-memory BFGS with a block-diagonal metric: what earlier steps tell of the next."""

from __future__ import annotations

import numpy as np

from anypca._typing import Floats
from anypca.linalg import PackedCholesky, unpack_symmetric

#: Steps and the decreases of the gradient along them, (p, m) each, oldest first.
Pairs = tuple[tuple[Floats, Floats], ...]

_DEPTH = 10
# Smallest cosine between a step and the change of the gradient that counts as curvature.
_LEAST_CURVATURE = 1e-8


def remember(pairs: Pairs, point: Floats, gradient: Floats, origin: tuple[Floats, Floats] | None) -> Pairs:
    """Add the step from ``origin`` (point and gradient) to where we are, if the objective is concave along it."""
    if origin is None:
        return pairs
    step, decrease = point - origin[0], origin[1] - gradient
    size = float(np.sqrt(np.vdot(step, step) * np.vdot(decrease, decrease)))
    if not float(np.vdot(step, decrease)) > _LEAST_CURVATURE * size:
        return pairs
    return (*pairs, (step, decrease))[-_DEPTH:]


def find_direction(metric: PackedCholesky, gradient: Floats, pairs: Pairs) -> Floats:
    """The two-loop recursion.

    Parameters
    ----------
    metric : PackedCholesky
        Curvatures of the rows of the parameters, to start from.
    gradient : ndarray of shape (p, m)
    pairs : tuple

    Returns
    -------
    ndarray of shape (p, m)
        An ascent direction; ``metric.solve(gradient)`` without memory.

    References
    ----------
    J. Nocedal (1980). Updating quasi-Newton matrices with limited storage. Mathematics of Computation 35.
    """
    right = gradient
    parts = []
    for step, decrease in reversed(pairs):
        part = np.vdot(step, right) / np.vdot(step, decrease)
        right = right - part * decrease
        parts.append(part)
    direction = metric.solve(right)
    if pairs:
        step, decrease = pairs[-1]
        direction *= np.vdot(step, decrease) / np.vdot(decrease, metric.solve(decrease))
    for (step, decrease), part in zip(pairs, reversed(parts), strict=True):
        direction = direction + (part - np.vdot(decrease, direction) / np.vdot(step, decrease)) * step
    return direction


def metric_square(curvature: Floats, vector: Floats) -> float:
    """``sum_j v_j' C_j v_j`` for packed C (p, m (m + 1) / 2) and v (p, m)."""
    matrices = unpack_symmetric(curvature, vector.shape[1])
    return float(np.einsum("ja,jab,jb->", vector, matrices, vector, optimize=True))

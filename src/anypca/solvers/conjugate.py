"""Preconditioned conjugate gradients on many small systems side by side."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from anypca._typing import Floats

#: Something linear that is done to a vector of each system, all of them as the rows of one array.
Linear = Callable[[Floats], Floats]


def conjugate_gradients(
    multiply: Linear, right: Floats, precondition: Linear, *, max_steps: int, tol: float
) -> Floats:
    """Solve ``H_i x_i = right_i`` for all rows i, nearly.

    Parameters
    ----------
    multiply : callable
        ``H_i p_i`` of the rows p of an array of shape (n, m); every H_i is symmetric and positive semi-definite.
    right : ndarray of shape (n, m)
        Its dtype is the dtype of the steps.
    precondition : callable
        An approximate solution, symmetric and positive definite likewise.
    max_steps : int
        Products with the matrices.
    tol : float
        Stop when the residuals, in the norm of the preconditioner and over all systems, are this part of their start.

    Returns
    -------
    ndarray of shape (n, m)
        x, for which ``right_i' x_i = x_i' H_i x_i``, less than at the solution, holds after any number of steps: a step
        that a quadratic model gains half of it from. A system whose product is not finite stays where it is.

    References
    ----------
    M. Hestenes, E. Stiefel (1952). Methods of conjugate gradients for solving linear systems. Journal of Research of
    the National Bureau of Standards 49.
    """
    solution, residual, dtype = np.zeros_like(right), right.copy(), right.dtype
    direction = scaled = precondition(residual).astype(dtype, copy=False)
    size = start = np.einsum("ia,ia->i", residual, scaled)
    for step in range(max_steps):
        image = multiply(direction).astype(dtype, copy=False)
        length = _quotient(size, np.einsum("ia,ia->i", direction, image))[:, None]
        solution += np.where(length > 0, length * direction, 0.0)  # 0 times an overflow would be NaN
        if step == max_steps - 1:
            break
        residual -= np.where(length > 0, length * image, 0.0)
        scaled = precondition(residual).astype(dtype, copy=False)
        last, size = size, np.where(length[:, 0] > 0, np.einsum("ia,ia->i", residual, scaled), 0.0)
        if size.sum() <= tol**2 * start.sum():
            break
        direction = scaled + _quotient(size, last)[:, None] * direction
    return solution


def _quotient(above: Floats, below: Floats) -> Floats:
    """``above / below`` where both are positive and finite, else 0: such a system is solved, or cannot be."""
    usable = (above > 0) & (below > 0) & np.isfinite(above) & np.isfinite(below)
    with np.errstate(over="ignore"):
        ratio = np.divide(above, below, out=np.zeros_like(above), where=usable)
    return np.where(np.isfinite(ratio), ratio, 0.0)

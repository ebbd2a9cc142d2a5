"""The two steps of the descent that end in a root of one variable."""

from __future__ import annotations

import numpy as np

from anypca._typing import Floats

# Newton's steps to the root of a function that is nearly linear; six give full precision, the limit is for rounding.
_MAX_NEWTON = 50
# Eigenvalues below this share of the largest are rounding: the direction is not there.
_NEGLIGIBLE = 1e-14
# Steps below this share of the root are rounding.
_STEP = 4.0 * np.finfo(float).eps


def directions(gram: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues (m,) and eigenvectors (k, m) of a Gram matrix, without directions that it has not."""
    values, basis = np.linalg.eigh(gram)
    used = values > _NEGLIGIBLE * max(float(values[-1]), 0.0)
    return values[used], basis[:, used]


def shrink_rows(target: Floats, gram: Floats, price: float) -> Floats:
    """Rows that minimise ``v' gram v / 2 - target' v + price |v|``, each exactly, shape (p, k).

    A row is zero if its target is not longer than the price. Else, with the eigenvalues L of the Gram matrix and the
    target b in their basis, its length t solves ``sum_k b_k^2 / (L_k t + price)^2 = 1``.
    """
    values, basis = directions(gram)
    b = target @ basis  # a direction without scores has no target either
    if price == 0.0:
        return np.asarray((b / values) @ basis.T)
    found = np.zeros_like(b)
    active = np.linalg.norm(b, axis=1) > price
    if active.any():
        t = _row_lengths(b[active] ** 2, values, price)[:, None]
        found[active] = t * b[active] / (values * t + price)
    return np.asarray(found @ basis.T)


def _row_lengths(squares: Floats, values: Floats, price: float) -> Floats:
    """The roots t >= 0 of ``sum_k squares_k / (values_k t + price)^2 = 1`` of each row, shape (rows,)."""
    # From below: with the largest value in the place of all the sum is smaller and the root closed.
    t = np.maximum(np.sqrt(squares.sum(axis=1)) - price, 0.0) / values.max()
    for _ in range(_MAX_NEWTON):
        # Newton's method on the inverse root of the sum, which is nearly linear in t.
        scale = values * t[:, None] + price
        terms = squares / scale**2
        total = terms.sum(axis=1)
        slope = (terms * (values / scale)).sum(axis=1) * total**-1.5
        step = (1.0 - total**-0.5) / slope
        t = np.maximum(t + step, 0.0)
        if np.all(np.abs(step) <= _STEP * t):
            break
    return np.asarray(t)


def bounded_inverse(gram: Floats, inner: Floats, bound: float) -> Floats:
    """``(gram + mu I)^-1`` with the least mu >= 0 for which the scores have a squared norm of at most ``bound``.

    ``inner`` is the Gram matrix of what the inverse is applied to. Directions that ``gram`` has not are left out.
    """
    values, basis = directions(gram)
    squares = np.maximum(np.einsum("ka,kl,la->a", basis, inner, basis), 0.0)
    mu = 0.0 if ((np.sqrt(squares) / values) ** 2).sum() <= bound else _multiplier(squares, values, bound)
    return np.asarray((basis / (values + mu)) @ basis.T)


def _multiplier(squares: Floats, values: Floats, bound: float) -> float:
    """The root mu of ``sum_k squares_k / (values_k + mu)^2 = bound``."""
    mu = max(float(np.sqrt(squares.sum() / bound)) - float(values.max()), 0.0)  # from below
    for _ in range(_MAX_NEWTON):
        scale = values + mu
        total = float((squares / scale**2).sum())
        slope = float((squares / scale**3).sum()) * total**-1.5
        step = (bound**-0.5 - total**-0.5) / slope
        mu = max(mu + step, 0.0)
        if abs(step) <= _STEP * (mu + float(values.max())):
            break
    return mu

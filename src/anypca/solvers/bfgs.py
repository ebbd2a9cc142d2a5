"""Limited-memory BFGS: what earlier steps tell of the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from anypca._typing import Floats

#: A step and the decrease of the gradient along it.
Pair = tuple[Floats, Floats]
Product = Callable[[Floats, Floats], float]


def _vdot(one: Floats, other: Floats) -> float:
    return float(np.vdot(one, other))


def two_loop(
    gradient: Floats,
    pairs: Sequence[Pair],
    *,
    solve: Callable[[Floats], Floats] = np.copy,
    product: Product = _vdot,
    longest: float = np.inf,
) -> Floats:
    """The direction in which the gradient of a function to maximise vanishes, by the two-loop recursion.

    Parameters
    ----------
    gradient : ndarray
        Of any shape.
    pairs : sequence of tuples of two arrays of that shape
        Steps and decreases of the gradient along them, oldest first. One that shows no concave function is left out.
    solve : callable
        The inverse curvature to start from.
    product : callable
        The inner product of a step and a gradient.
    longest : float
        Largest factor by which the newest pair lengthens what ``solve`` gives.

    Returns
    -------
    ndarray
        ``solve(gradient)`` without pairs.

    References
    ----------
    J. Nocedal (1980). Updating quasi-Newton matrices with limited storage. Mathematics of Computation 35.
    """
    curvatures = [(step, change, product(step, change)) for step, change in pairs]
    usable = [pair for pair in curvatures if pair[2] > 0]
    parts = []
    for step, change, along in reversed(usable):
        parts.append(product(step, gradient) / along)
        gradient = gradient - parts[-1] * change
    direction = solve(gradient)
    if usable:
        _, change, along = usable[-1]
        direction = direction * min(along / product(change, solve(change)), longest)
    for (step, change, along), part in zip(usable, reversed(parts), strict=True):
        direction = direction + (part - product(change, direction) / along) * step
    return direction


def is_concave_along(pair: Pair, least_cosine: float, product: Product = _vdot) -> bool:
    """Whether the gradient decreased along a step, by more than rounding could have it."""
    step, change = pair
    size = np.sqrt(product(step, step) * product(change, change))
    return bool(product(step, change) > least_cosine * size)

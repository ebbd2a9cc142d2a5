"""Limited-memory BFGS, also for the steps of a fixed-point iteration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.solvers.problem import BlockProblem

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


# Steps that are remembered. Fits of 300 x 60 tables with 4 components need as many sweeps with 4 or 16, more with 2.
_DEPTH = 8
# Plain steps before the first proposal, which has two pairs to go by; the same fits hardly depend on it (0 to 5).
_WARM_UP = 2
# Longest extrapolation in units of the plain step: what remains where each step leaves 99 % of the way.
_LONGEST = 100.0
# Parameters above which half as many pairs are kept, in single precision: they would be the largest part of a fit's
# memory, and a proposal is judged by the objective anyway.
_MANY = 2**18
# Smallest cosine between a step and the change of the residual that counts as curvature: far above rounding, and
# below what fits show (1e-6 to 0.1 give the same sweeps).
_LEAST_CURVATURE = 1e-3


class Extrapolator:
    """Limited-memory BFGS on the residuals of ``x -> g(x)``, the plain step being a preconditioned gradient.

    Near a maximum the residual ``g(x) - x`` shrinks along the path, and the memory of how it shrank predicts where
    it vanishes. Where it grows instead (the objective is not concave there, the path leaves a saddle) no fixed
    point lies ahead: the plain step is then lengthened, twice as far each time that helps.

    The caller decides by its objective whether a proposal is accepted. After a rejection half of the memory is
    dropped and the next step is a plain one.

    Parameters
    ----------
    depth : int
        Number of steps that are remembered.
    """

    def __init__(self, depth: int = _DEPTH) -> None:
        self.depth = depth
        self._pairs: list[Pair] = []
        self._last: tuple[Floats, Floats] | None = None
        self._stretch = 1.0
        self._is_stretched = False
        self._pause = _WARM_UP

    def extrapolate(self, problem: BlockProblem[Any, Any, Any], here: Any, there: Any, stats: Any) -> Any:
        """Extrapolated shared parameters from the present ones and a plain proposal; ``None`` for a plain step."""
        image = problem.coordinates(there, stats)
        if image is not None:
            image = image._replace(metric=image.vector)  # not two metrics in memory at a time
        point = problem.coordinates(here, stats)
        if point is None or image is None:
            return None
        vector = self.propose(point.vector, image.vector, point.metric)
        return None if vector is None else problem.with_coordinates(vector, there)

    def propose(self, x: Floats, image: Floats, metric: Floats) -> Floats | None:
        """An extrapolated point, or ``None`` for a plain step.

        Parameters
        ----------
        x, image : ndarray of shape (n,)
            The newest point and its image ``g(x)``.
        metric : ndarray of shape (n,)
            Square roots of the diagonal curvature; lengths and angles are measured with it.
        """
        residual = image - x
        weight = metric**2
        is_concave = self._remember(x, residual, weight)
        if self._pause > 0:
            self._pause -= 1
            return None
        self._is_stretched = not is_concave
        if not is_concave:
            self._stretch = min(2.0 * self._stretch, _LONGEST)
            candidate = x + self._stretch * residual
        elif self._pairs:
            # To where the residual vanishes, in the newest metric, which changes slowly along the path.
            candidate = x + two_loop(residual, self._pairs, product=_product_in(weight), longest=_LONGEST)
        else:
            return None
        return candidate if np.all(np.isfinite(candidate)) else None

    def judge(self, *, accepted: bool) -> None:
        """Record whether the last proposal was accepted."""
        if accepted:
            return
        self._pause = 1
        if self._is_stretched:
            self._stretch = max(self._stretch / 4.0, 1.0)
        else:
            self._pairs = self._pairs[len(self._pairs) // 2 + 1 :]

    def _remember(self, point: Floats, residual: Floats, weight: Floats) -> bool:
        """Store the newest step; False if the residual did not shrink along it."""
        last, self._last = self._last, (point, residual)
        if last is None:
            return True
        step, shrinkage = point - last[0], last[1] - residual
        if not is_concave_along((step, shrinkage), _LEAST_CURVATURE, _product_in(weight)):
            # A step or a change of nothing says nothing.
            return float(weight @ step**2) * float(weight @ shrinkage**2) == 0.0
        is_small = step.size <= _MANY
        pair, depth = (
            ((step, shrinkage), self.depth) if is_small else (_compact(step, shrinkage), self.depth // 2)
        )
        self._pairs = [*self._pairs, pair][-depth:]
        return True


def _compact(step: Floats, change: Floats) -> Pair:
    """A pair in single precision, scaled into its range; only the ratio of the two matters."""
    size = max(float(np.abs(step).max()), float(np.abs(change).max()), np.finfo(float).tiny)
    return (step / size).astype(np.float32), (change / size).astype(np.float32)


def _product_in(weight: Floats) -> Product:
    """The inner product of a metric with the given diagonal."""
    return lambda one, other: float((weight * one) @ other)

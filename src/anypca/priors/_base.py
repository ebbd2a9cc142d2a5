"""Interface of priors (penalties) on scores or loadings, and penalties that are sums over single entries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from anypca._registry import Registry
from anypca._typing import Bools, Floats
from anypca.linalg import PackedCholesky, packed_products, unpack_symmetric

#: Resolves names such as ``score_penalty="l1"``.
priors: Registry[Prior] = Registry(
    "penalty", {"lasso": "l1", "sparse": "l1", "l2": "ridge", "gaussian": "ridge", "group_lasso": "group"}
)


class NewtonStep(NamedTuple):
    """A step to the best point of a penalised quadratic model.

    See Also
    --------
    Prior : whose ``newton`` returns it.
    """

    step: Floats
    """(n, m): the proposed change."""
    decrement: Floats
    """(n,): twice the gain that the model expects, >= 0; zero at a stationary point."""


class Prior(ABC):
    """Minus the log density of the rows of a matrix ``u`` (n, m), without its constant.

    A subclass implements `value` and `newton`, for any number of rows and any row length m. One object therefore
    serves any number of components.

    See Also
    --------
    Entrywise : penalties that add up over entries.
    find_prior : a prior by its name.
    """

    name: str
    #: Whether a row's penalty depends on its length alone, so that latent coordinates may be rotated.
    is_isotropic: bool = False
    #: Whether the penalty is constant for large entries. Such a penalty does not identify the scale of scores relative
    #: to loadings, so that a model adds a ridge.
    is_bounded: bool = False
    #: Whether a step from zero, where scores start, can be nonzero.
    leaves_zero: bool = True

    @abstractmethod
    def value(self, u: Floats) -> Floats:
        """Penalty of each row, shape (n,)."""

    @abstractmethod
    def newton(self, u: Floats, gradient: Floats, curvature: Floats) -> NewtonStep:
        """Maximise ``gradient' d - d' curvature d / 2 - value(u + d)`` over d, row by row.

        A prior that is not convex may put a function that touches ``value`` at u and is nowhere below it in its
        place: repeated steps then never lose.

        Parameters
        ----------
        u : ndarray of shape (n, m)
        gradient : ndarray of shape (n, m)
            Of the log-likelihood at u, without the penalty.
        curvature : ndarray of shape (n, m (m + 1) / 2)
            Positive semi-definite, packed (see `anypca.linalg.packed_products`).
        """

    def curvature(self, u: Floats) -> Floats | float:
        """Curvature of the penalty at a mode, packed; absolute values have none."""
        return 0.0

    def slopes(self, u: Floats) -> Floats | None:
        """Slopes (n, m) of a penalty that is a concave function of the sizes of single entries, else ``None``."""
        return None

    def snap(self, u: Floats) -> Floats:
        """``u`` with exact zeros where entries only approach zero."""
        return u


def step_to(prior: Prior, u: Floats, target: Floats, gradient: Floats, curvature: Floats) -> NewtonStep:
    """The step from u to the optimum of its model, and the gain; arguments as in `Prior.newton`.

    See Also
    --------
    NewtonStep : what it returns.
    """
    step = target - u
    quadratic = np.einsum("ia,iab,ib->i", step, unpack_symmetric(curvature, u.shape[1]), step)
    gain = np.einsum("ia,ia->i", gradient, step) - 0.5 * quadratic + prior.value(u) - prior.value(target)
    # Rounding may leave a gain of -1e-17 at the optimum.
    return NewtonStep(step, 2.0 * np.maximum(gain, 0.0))


def find_prior(penalty: Any, parameter: str, n_components: int) -> Prior:
    """The prior requested by the user.

    Parameters
    ----------
    penalty : str or Prior
        A registered name, also with its strength as in ``"l1(0.5)"``, or an instance.
    parameter : str
        Whose value it is, for the error message.
    n_components : int
        Length of the rows it is meant for.

    Raises
    ------
    ValueError
        If there is no such name, the message lists them, or if it does not treat all components alike.
    TypeError
        If it is neither a text nor a prior.

    See Also
    --------
    Prior : what it finds.
    """
    prior = _create(penalty, parameter)
    probe = np.arange(1.0, n_components + 1.0)[None]
    # A fit orders its components, and a strength of its own would not know where its component went.
    if not np.allclose(prior.value(probe), prior.value(probe[:, ::-1]), rtol=1e-9):
        raise ValueError(
            f"{parameter} must treat all components alike, since their order is found by the fit; {penalty!r} does "
            "not. Give one strength for all of them."
        )
    return prior


def _create(penalty: Any, parameter: str) -> Prior:
    if isinstance(penalty, Prior):
        return penalty
    if not isinstance(penalty, str):
        raise TypeError(
            f"{parameter} must be the name of a penalty ({', '.join(priors)}) or an anypca.priors.Prior; "
            f"got {penalty!r}."
        )
    try:
        return priors.create(penalty)
    except ValueError as error:
        raise ValueError(f"{parameter}={penalty!r}: {error}") from None


def expand(numbers: Floats | float, size: int) -> Floats:
    """One number for each coordinate, shape (m,), from such an array or a single number."""
    return np.broadcast_to(np.asarray(numbers, dtype=float), (size,))


# Passes of coordinate descent between two linear solves: signs are mostly found in the first few.
_PASSES = 10
# Maximum linear solves to determine all signs; the next step corrects any signs that remain.
_MAX_ROUNDS = 20
# Squared move of a row, relative to its size, that is rounding: half of the digits of a move.
_SMALLEST_MOVE = 1e-20
# Curvature of a coordinate relative to the largest of its row that is rounding, as in `PackedCholesky`.
_LEAST_CURVATURE = 1e-12


class Entrywise(Prior):
    """``value(u) = sum_a penalty(|u_a|)`` with a concave, increasing function ``penalty``, 0 at 0.

    A subclass writes `penalty` and its derivative `slope`, all else follows: a concave function lies below its
    tangents, so that a step minimises the quadratic model plus ``sum_a slope(|u_a|) |v_a|``, a weighted lasso.

    See Also
    --------
    Prior : penalties that do not add up over entries.
    """

    @abstractmethod
    def penalty(self, size: Floats) -> Floats:
        """Penalty of each entry of the given sizes (n, m), >= 0."""

    @abstractmethod
    def slope(self, size: Floats) -> Floats:
        """Derivative of `penalty`, shape (n, m); never negative, nowhere increasing."""

    def value(self, u: Floats) -> Floats:
        return np.asarray(self.penalty(np.abs(u)).sum(axis=1))

    def slopes(self, u: Floats) -> Floats:
        return self.slope(np.abs(u))

    def newton(self, u: Floats, gradient: Floats, curvature: Floats) -> NewtonStep:
        return step_to(self, u, _minimise(u, gradient, curvature, self.slopes(u)), gradient, curvature)


def _minimise(u: Floats, gradient: Floats, packed: Floats, weights: Floats) -> Floats:
    """The weighted lasso: coordinate descent finds the signs, a linear solve the values; all rows together."""
    matrices = unpack_symmetric(packed, u.shape[1])
    diagonal = np.einsum("iaa->ia", matrices)
    # A direction without curvature has no finite optimum in the model; it keeps its value. Compared within
    # the row, since what a row can learn does not depend on its neighbours.
    free = diagonal > _LEAST_CURVATURE * diagonal.max(axis=1, keepdims=True, initial=0.0)
    point, slope = u.copy(), gradient.copy()
    for _ in range(_MAX_ROUNDS):
        for _ in range(_PASSES):
            largest = _descend(point, slope, matrices, free, weights)
            scale = 1.0 + np.max(point**2 * diagonal, axis=1, initial=0.0)
            if np.all(largest < _SMALLEST_MOVE * scale):
                return point
        point = _solve_for_signs(point, slope, packed, free, weights)
        slope = gradient - np.einsum("iab,ib->ia", matrices, point - u)
    return point


def _descend(point: Floats, slope: Floats, matrices: Floats, free: Bools, weights: Floats) -> Floats:
    """Optimise one coordinate after the other, in place; the largest squared move of each row in the metric."""
    largest = np.zeros(len(point))
    for a in range(point.shape[1]):
        size = np.where(free[:, a], matrices[:, a, a], 1.0)
        wanted = size * point[:, a] + slope[:, a]
        new = np.sign(wanted) * np.maximum(np.abs(wanted) - weights[:, a], 0.0) / size
        move = np.where(free[:, a], new - point[:, a], 0.0)
        point[:, a] += move
        slope -= matrices[:, :, a] * move[:, None]
        largest = np.maximum(largest, move**2 * size)
    return largest


def _solve_for_signs(point: Floats, slope: Floats, packed: Floats, free: Bools, weights: Floats) -> Floats:
    """The optimum among points of the same signs, in the rows where it has these signs.

    Coordinate descent alone crawls where coordinates are correlated.
    """
    signs = np.sign(point) * free
    factor = PackedCholesky(packed * packed_products(np.abs(signs)), point.shape[1])
    candidate = point + factor.solve(np.abs(signs) * slope - signs * weights)
    same = np.all(np.sign(candidate) == np.sign(point), axis=1)
    return np.where(same[:, None], candidate, point)

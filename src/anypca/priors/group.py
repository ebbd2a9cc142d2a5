"""Length of a row: whole rows of zeros."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats
from anypca.linalg import unpack_symmetric
from anypca.priors._base import NewtonStep, Prior, priors, step_to

# Newton steps for the length of a row. They converge from below and square their error; 50 are never used up.
_MAX_NEWTON = 50
# Curvature relative to the largest of its row that is rounding, as in `anypca.linalg.PackedCholesky`.
_LEAST_CURVATURE = 1e-12


@priors.register
@dataclass(frozen=True, eq=False)
class Group(Prior):
    r"""``value(u) = strength ||u||``: a row is zero as a whole or not at all.

    On loadings it takes columns of the table out of all components at once.

    Parameters
    ----------
    strength : float, default=1.0
        Weight of the penalty; 0 is none.

    See Also
    --------
    L1 : zeros for single entries.

    Notes
    -----
    With the strength s, the minimum v of ``v' C v / 2 - c' v + s ||v||`` is 0 if ``||c|| <= s``, else it solves
    :math:`(C + (s / r) I) v = c` with :math:`r = ||v||`. In the eigenvectors of C, with values :math:`\lambda`, the
    length r is where :math:`h(r) = (\sum_i c_i^2 / (\lambda_i r + s)^2)^{-1/2}` is 1. This function is concave
    and increasing, so that Newton's method approaches the root from below, where it starts.

    References
    ----------
    M. Yuan, Y. Lin (2006). Model selection and estimation in regression with grouped variables. Journal of the Royal
    Statistical Society B 68.
    """

    strength: float = 1.0
    name = "group"
    is_isotropic = True

    def value(self, u: Floats) -> Floats:
        return np.asarray(self.strength * np.linalg.norm(u, axis=1))

    def newton(self, u: Floats, gradient: Floats, curvature: Floats) -> NewtonStep:
        matrices = unpack_symmetric(curvature, u.shape[1])
        target = self._minimise(matrices, gradient + np.einsum("iab,ib->ia", matrices, u))
        return step_to(self, u, target, gradient, curvature)

    def _minimise(self, matrices: Floats, linear: Floats) -> Floats:
        """Minimum of ``v' C v / 2 - linear' v + strength ||v||`` for each row."""
        values, vectors = np.linalg.eigh(matrices)
        # The data have no information about a direction without curvature; its optimum is not finite, so set it to 0.
        known = values > _LEAST_CURVATURE * values.max(axis=1, keepdims=True, initial=0.0)
        c = np.where(known, np.einsum("iba,ib->ia", vectors, linear), 0.0)
        values = np.where(known, values, 1.0)
        return np.asarray(np.einsum("iba,ia->ib", vectors, self.shrink(values, c)))

    def shrink(self, values: Floats, c: Floats) -> Floats:
        """The minimum in the coordinates of the eigenvectors.

        Parameters
        ----------
        values : ndarray of shape (n, k)
            Eigenvalues of C of each row, positive.
        c : ndarray of shape (n, k)

        Returns
        -------
        ndarray of shape (n, k)
        """
        if self.strength == 0:
            return c / values
        target = np.zeros_like(c)
        alive = np.linalg.norm(c, axis=1) > self.strength
        values, c = values[alive], c[alive]
        length = _find_length(values, c, self.strength)[:, None]
        target[alive] = c * length / (values * length + self.strength)
        return target


def _find_length(values: Floats, c: Floats, strength: float) -> Floats:
    """The root r of ``h(r) = 1``, see `Group`, shape (n,)."""
    # From below: with the largest value in the place of all h is larger, and its root closed.
    length: Floats = (np.linalg.norm(c, axis=1) - strength) / values.max(axis=1, initial=np.finfo(float).tiny)
    for _ in range(_MAX_NEWTON):
        bottom = values * length[:, None] + strength
        inside = np.sum((c / bottom) ** 2, axis=1)
        step = inside * (np.sqrt(inside) - 1.0) / np.sum((c / bottom) ** 2 * values / bottom, axis=1)
        length += step
        if np.all(step <= np.finfo(float).eps * length):
            break
    return length

"""Priors made of priors: in other units, of another strength, on some of the coordinates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats
from anypca.linalg import PackedCholesky, packed_diagonal, packed_products, packed_size, unpack_symmetric
from anypca.priors._base import NewtonStep, Prior
from anypca.priors.ridge import Ridge


@dataclass(frozen=True, eq=False)
class Scaled(Prior):
    """``value(u) = strength * prior.value(u / unit) + ridge ||u / unit||^2 / 2``.

    Parameters
    ----------
    prior : Prior
        The penalty that is composed.
    strength : float, default=1.0
        At least 0.
    unit : float or ndarray that broadcasts to (n, m), default=1.0
        What the entries are measured in; never 0.
    ridge : float or ndarray of shape (m,) or (n, m), default=0.0
        Strength of an additional quadratic penalty.

    See Also
    --------
    Leading : another composition.
    """

    prior: Prior
    strength: float = 1.0
    unit: Floats | float = 1.0
    ridge: Floats | float = 0.0
    name = "scaled"

    @property
    def is_isotropic(self) -> bool:  # type: ignore[override]
        is_uniform = np.unique(self.ridge).size == 1
        return self.prior.is_isotropic and is_uniform and np.shape(self.unit)[-1:] in ((), (1,))

    @property
    def is_bounded(self) -> bool:  # type: ignore[override]
        return self.prior.is_bounded and not np.all(self.ridge)

    @property
    def leaves_zero(self) -> bool:  # type: ignore[override]
        return self.prior.leaves_zero

    def value(self, u: Floats) -> Floats:
        v = u / self.unit
        return np.asarray(self.strength * self.prior.value(v) + 0.5 * (self.ridge * v**2).sum(axis=1))

    def newton(self, u: Floats, gradient: Floats, curvature: Floats) -> NewtonStep:
        """The step of the prior itself in its own units, the ridge being part of the quadratic model."""
        unit, v = np.broadcast_to(self.unit, u.shape), u / self.unit
        prior, strength = (self.prior, self.strength) if self.strength > 0 else (Ridge(0.0), 1.0)
        curvature = curvature * packed_products(unit)
        curvature[:, packed_diagonal(u.shape[1])] += self.ridge
        found = prior.newton(v, (gradient * unit - self.ridge * v) / strength, curvature / strength)
        # What arrives at zero must do so exactly, which u - (u / unit) * unit is not.
        step = np.where(v + found.step == 0, -u, found.step * unit)
        return NewtonStep(step, strength * found.decrement)

    def curvature(self, u: Floats) -> Floats:
        unit, m = np.broadcast_to(self.unit, u.shape), u.shape[1]
        own = np.zeros((len(u), packed_size(m))) + self.strength * self.prior.curvature(u / unit)
        own[:, packed_diagonal(m)] += self.ridge
        return own / packed_products(unit)

    def slopes(self, u: Floats) -> Floats | None:
        slopes = self.prior.slopes(u / self.unit)
        return None if slopes is None or np.any(self.ridge) else self.strength * slopes / np.abs(self.unit)

    def snap(self, u: Floats) -> Floats:
        return np.where(self.prior.snap(u / self.unit) == 0, 0.0, u)


@dataclass(frozen=True, eq=False)
class Leading(Prior):
    """A prior on the leading coordinates of rows; the last ones, such as intercepts, are free.

    Parameters
    ----------
    prior : Prior
        The penalty that is composed.
    n_free : int
        At least 1.

    See Also
    --------
    Scaled : another composition.

    Notes
    -----
    In the quadratic model the free coordinates b are best at ``C_bb^-1 (g_b - C_bw d_w)`` for any step ``d_w`` of the
    others, which therefore see the gradient ``g_w - C_wb C_bb^-1 g_b`` and the curvature ``C_ww - C_wb C_bb^-1 C_bw``.
    """

    prior: Prior
    n_free: int
    name = "leading"

    def value(self, u: Floats) -> Floats:
        return self.prior.value(u[:, : -self.n_free])

    def newton(self, u: Floats, gradient: Floats, curvature: Floats) -> NewtonStep:
        k = u.shape[1] - self.n_free
        matrices = unpack_symmetric(curvature, u.shape[1])
        rows, cols = np.triu_indices(self.n_free)
        factor = PackedCholesky(matrices[:, k + rows, k + cols], self.n_free)
        alone = factor.solve(gradient[:, k:])
        # C_bb^-1 C_bw, shape (n, n_free, k).
        response = np.stack([factor.solve(matrices[:, k:, a]) for a in range(k)], axis=2)
        reduced = matrices[:, :k, :k] - matrices[:, :k, k:] @ response
        rows, cols = np.triu_indices(k)
        slope = gradient[:, :k] - np.einsum("iab,ib->ia", matrices[:, :k, k:], alone)
        found = self.prior.newton(u[:, :k], slope, reduced[:, rows, cols])
        free = alone - np.einsum("iba,ia->ib", response, found.step)
        gain = np.einsum("ib,ib->i", alone, gradient[:, k:])
        return NewtonStep(np.hstack([found.step, free]), found.decrement + gain)

    def snap(self, u: Floats) -> Floats:
        return np.hstack([self.prior.snap(u[:, : -self.n_free]), u[:, -self.n_free :]])

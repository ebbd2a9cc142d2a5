r"""Priors of the loadings in joint modes: the ARD precision :math:`\alpha_k` of components and a penalty.

A penalty :math:`\rho` takes :math:`\nu \lambda \sum_j \rho(c\, w_j)` from the objective, with the constant
:math:`c = \sqrt{D / (\nu N)}`: that is the size of a score where there is no penalty, so that it applies to loadings as
they belong to scores of unit size, and weighs against the likelihood as it does in `EPCA`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from anypca._typing import Floats
from anypca.models.sepca.map._options import ModeSettings
from anypca.priors import AdaptiveL0, Leading, Prior, Ridge, Scaled

# Squared length of loadings that have vanished; its inverse is still a number.
NOTHING = float(np.sqrt(np.finfo(float).tiny))
# Maximum factor by which the scale of a component changes in one search; rounds repeat until it is constant.
_REACH = 4.0
# Error of its logarithm: the objective is flat to rounding within the root of the machine's precision.
_SCALE_TOLERANCE = 1e-9


def relevance(loadings: Floats) -> Floats:
    """``alpha_k = D / ||w_k||^2``, infinite for a component without loadings, shape (k,)."""
    size = (loadings**2).sum(axis=0)
    return np.asarray(np.divide(len(loadings), size, out=np.full(len(size), np.inf), where=size > NOTHING))


@dataclass(frozen=True, eq=False)
class LoadingPrior:
    """The prior of the loadings at one weight of the data."""

    settings: ModeSettings
    nu: float
    unit: float
    """c, see above."""

    def make(self, alpha: Floats, n_fixed: int) -> Prior:
        """Of loadings and fixed coefficients in units of the data's weight; the fixed ones are free."""
        settings, nu = self.settings, self.nu
        if settings.penalty is not None and len(alpha):
            ridge = alpha / (nu * self.unit**2)
            prior = Scaled(settings.penalty, settings.strength, 1.0 / self.unit, ridge=ridge)
            return Leading(prior, n_fixed) if n_fixed else prior
        precision = np.concatenate([alpha / nu, np.zeros(n_fixed)])
        if settings.sparsity > 0:
            weight = np.concatenate([np.full(len(alpha), settings.sparsity / nu), np.zeros(n_fixed)])
            return AdaptiveL0(precision, weight, settings.delta)
        return Ridge(precision)

    def penalty(self, loadings: Floats) -> float:
        """Value of the penalty, which is subtracted from the log-likelihood."""
        if self.settings.penalty is None or not loadings.size:
            return 0.0
        return self.settings.strength * float(self.settings.penalty.value(self.unit * loadings).sum())

    def scale(self, loadings: Floats, size: Floats, n_nonzero: Floats) -> Floats:
        """Factors of the scores, and divisors of the loadings, that are best with the best relevance, shape (k,).

        Without a penalty ``||z||^2 = (D + 2 kappa #) / nu``. With one each component is searched for, the others
        as they are; the factor is 1 unless another is better.

        Parameters
        ----------
        loadings : ndarray of shape (n_features, k)
        size : ndarray of shape (k,)
            ``||z||^2`` of the scores.
        n_nonzero : ndarray of shape (k,)
        """
        usable = (size > NOTHING) & ((loadings**2).sum(axis=0) > NOTHING)
        price = len(loadings) + 2.0 * self.settings.sparsity * n_nonzero
        best = np.where(usable, np.sqrt(price / self.nu / np.where(usable, size, 1.0)), 1.0)
        if self.settings.penalty is None:
            return best
        scale = np.ones(len(size))
        for k in np.flatnonzero(usable):
            scale[k] = self._search(loadings / scale, float(size[k]), int(k))
        return scale

    def _search(self, loadings: Floats, size: float, k: int) -> float:
        """The best factor of component k."""

        def loss(step: float) -> float:
            trial = loadings.copy()
            trial[:, k] *= np.exp(-step)
            held = 0.5 * self.nu * size * float(np.exp(2.0 * step)) - len(loadings) * step
            return held + self.nu * self.penalty(trial)

        ends = -np.log(_REACH), np.log(_REACH)
        found = minimize_scalar(loss, bounds=ends, method="bounded", options={"xatol": _SCALE_TOLERANCE})
        return float(np.exp(found.x)) if found.fun < loss(0.0) else 1.0

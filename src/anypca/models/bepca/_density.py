r"""Joint log density of a table's factors, for samplers.

.. math:: \log p = \sum_{ij} \ell(x_{ij}, \eta_{ij}) + \sum_{jk} c_{jk}(t_{jk})
   - \tfrac12 \sum_{ik} \big[ (v_{ik} - m_k)^2 / s_k + \log s_k \big] - \tfrac{|m|^2}{2 S}
   - \sum_k \big[ a \log s_k + b / s_k \big], \qquad \eta = [V | F] T'

on the unconstrained parameters (V, T, m, log s), the Jacobian included. The conjugate prior of a coefficient is the
likelihood of pseudo-observations: :math:`c(t) = \nu\, \ell(x_0, t)`, that is :math:`\lambda t - \nu A(t)` with
:math:`\lambda = \nu x_0` where the family is canonical.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from anypca._typing import Floats
from anypca.families import Family
from anypca.models._bayes.density import likelihood_terms
from anypca.models._block_view import BlockView


class Factors(NamedTuple):
    """Unknowns of the model; leading axes, if any, are chains or draws."""

    scores: Floats
    """V, shape (..., n_samples, k)."""
    joint: Floats
    """T with the intercepts behind the loadings, shape (..., n_features, m)."""
    mean: Floats
    """m of the scores, shape (..., k)."""
    variance: Floats
    """s of the scores, shape (..., k)."""

    @property
    def loadings(self) -> Floats:
        """Loadings of the scores, shape (..., n_features, k)."""
        return self.joint[..., : self.scores.shape[-1]]

    @property
    def fixed(self) -> Floats:
        """Intercepts, shape (..., n_features, m - k)."""
        return self.joint[..., self.scores.shape[-1] :]


@dataclass(frozen=True, eq=False)
class FactorPrior:
    """Priors of coefficients and scores."""

    value: Floats
    """Pseudo-observations x0 of the coefficients, shape (m, n_features)."""
    weight: Floats
    """Their number nu, shape (m, 1)."""
    shape: float
    """a of the inverse gamma distribution of the scores' variances."""
    rate: float
    """b."""
    mean_variance: float = 1.0
    """S: the scores' means are of the order of the scores."""


@dataclass(frozen=True, eq=False)
class FactorDensity:
    """The density on flat positions (V, T, m, log s)."""

    family: Family
    rows: BlockView
    """The whole table, dense."""
    dispersion: Floats
    prior: FactorPrior
    n_components: int

    def __call__(self, position: Floats) -> tuple[float, Floats]:
        """Value and gradient at a position (dim,)."""
        value, gradient = self.evaluate(self.restore(position))
        return value, self.flatten(gradient)

    def evaluate(self, factors: Factors) -> tuple[float, Factors]:
        """Value, and gradient in V, T, m and log s; the value is -inf where an exponential overflows."""
        scores, joint, mean, variance = factors
        with np.errstate(over="ignore", invalid="ignore"):
            found = likelihood_terms(self.family, self.rows, self.dispersion, scores, joint)
            prior = self.family.evaluate(self.prior.value, joint.T.copy(), self.dispersion, order=1)
            residual = (scores - mean) / variance
            squares = np.einsum("ik,ik->k", residual, scores - mean)
            # The Jacobian of log s takes the exponent of the inverse gamma density from a + 1 to a.
            a, b = self.prior.shape, self.prior.rate
            gradient = Factors(
                found.scores - residual,
                found.joint + (self.prior.weight * prior.gradient).T,
                residual.sum(axis=0) - mean / self.prior.mean_variance,
                0.5 * (squares - len(scores)) - a + b / variance,
            )
            terms = (self.prior.weight * prior.value).sum()
            return float(found.value + terms) + self._log_scores(squares, mean, variance), gradient

    def _log_scores(self, squares: Floats, mean: Floats, variance: Floats) -> float:
        """Log prior of scores, given their squares in units of the variances, their means and log variances."""
        n, prior, logs = self.rows.n_rows, self.prior, np.log(variance)
        normal = -0.5 * (squares.sum() + n * logs.sum()) - 0.5 * float(mean @ mean) / prior.mean_variance
        return float(normal - prior.shape * logs.sum() - prior.rate * (1.0 / variance).sum())

    def flatten(self, gradient: Factors) -> Floats:
        """Derivatives in V, T, m, log s as one vector."""
        return np.concatenate([part.ravel() for part in gradient])

    def position(self, factors: Factors) -> Floats:
        """Where factors lie, shape (dim,)."""
        return self.flatten(factors._replace(variance=np.log(factors.variance)))

    def restore(self, position: Floats) -> Factors:
        """Factors at positions (..., dim)."""
        n, k = self.rows.n_rows, self.n_components
        m = k + self.rows.features.shape[1]
        ends = np.cumsum([n * k, self.rows.n_features * m, k])
        parts = np.split(position, ends, axis=-1)
        lead = position.shape[:-1]
        with np.errstate(over="ignore"):
            variance = np.exp(parts[3])
        return Factors(parts[0].reshape(*lead, n, k), parts[1].reshape(*lead, -1, m), parts[2], variance)

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
from typing import Any, NamedTuple

import numpy as np

from anypca._typing import Floats
from anypca.families import Family
from anypca.models._bayes.points import Point, likelihood_terms
from anypca.models._block_view import BlockView
from anypca.models._context import FitContext

# The prior of an intercept is one observation at the mean of its column: the least that keeps columns of one value
# finite.
_INTERCEPT_WEIGHT = 1.0
# Spread of the coefficients that chains start from, in units of their priors: small, since loadings need to find their
# signs, and not zero, where some of the gradient would vanish.
_SCATTER = 0.1


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
    def point(self) -> Point:
        """Scores and coefficients alone."""
        return Point(self.scores, self.joint)

    def take(self, index: Any) -> Factors:
        """Some along the leading axis."""
        return Factors(*(part[index] for part in self))


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


def make_prior(session: FitContext, family: Family, model: Any) -> FactorPrior:
    """The prior of a table: loadings centred where a predictor is 0, or at a given value; intercepts at the means."""
    p, k = session.data.n_features, model.n_components
    centre = family.mean(np.zeros(p)) if model.prior_value is None else np.full(p, model.prior_value)
    value, weight = np.tile(centre, (k, 1)), np.full((k, 1), model.prior_weight)
    if model.fit_intercept:
        summary = session.summary
        mean = family.smoothed_mean(summary.mean * summary.weight, summary.weight)
        value, weight = np.vstack([value, mean]), np.vstack([weight, [[_INTERCEPT_WEIGHT]]])
    with np.errstate(divide="ignore", invalid="ignore"):
        is_inside = np.isfinite(family.link(value))
    if not is_inside.all():
        raise ValueError(
            f"prior_value must be a mean that {family!r} can have, inside of its range; got {model.prior_value!r}. "
            "Leave it out for the mean of an entry whose predictor is 0."
        )
    return FactorPrior(value, weight, model.variance_shape, model.variance_rate)


def start_factors(session: FitContext, density: FactorDensity, n_starts: int) -> Factors:
    """Random scores, and coefficients about the modes of their priors; leading axis: starts."""
    n, k, rng = session.data.n_samples, density.n_components, session.rng
    prior = density.prior
    centre = density.family.link(prior.value)
    curvature = density.family.evaluate(prior.value, centre, density.dispersion, order=2).curvature
    spread = _SCATTER / np.sqrt(prior.weight * curvature)
    joint = centre + spread * rng.standard_normal((n_starts, *centre.shape))
    scores = rng.standard_normal((n_starts, n, k))
    return Factors(scores, np.swapaxes(joint, 1, 2), np.zeros((n_starts, k)), np.ones((n_starts, k)))

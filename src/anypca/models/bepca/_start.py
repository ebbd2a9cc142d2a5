"""The prior of a table, and where chains start."""

from __future__ import annotations

import numpy as np

from anypca.families import Family
from anypca.models._context import FitContext
from anypca.models.bepca._density import FactorDensity, FactorPrior, Factors
from anypca.models.bepca._settings import Settings

# The prior of an intercept is one observation at the mean of its column: the least that keeps columns of one value
# finite.
_INTERCEPT_WEIGHT = 1.0
# Spread of the coefficients that chains start from, in units of their priors: small, since loadings need to find their
# signs, and not zero, where some of the gradient would vanish.
_SCATTER = 0.1


def make_prior(session: FitContext, family: Family, settings: Settings) -> FactorPrior:
    """The prior of a table: loadings centred where a predictor is 0, or at a given value; intercepts at the means."""
    p, k = session.data.n_features, settings.n_components
    centre = family.mean(np.zeros(p)) if settings.prior_value is None else np.full(p, settings.prior_value)
    value, weight = np.tile(centre, (k, 1)), np.full((k, 1), settings.prior_weight)
    if settings.fit_intercept:
        summary = session.summary
        mean = family.interior_mean(summary.mean * summary.weight, summary.weight)
        value, weight = np.vstack([value, mean]), np.vstack([weight, [[_INTERCEPT_WEIGHT]]])
    with np.errstate(divide="ignore", invalid="ignore"):
        is_inside = np.isfinite(family.link(value))
    if not is_inside.all():
        raise ValueError(
            f"prior_value must be a mean that {family!r} can have, inside of its range; got {settings.prior_value!r}. "
            "Leave it out for the mean of an entry whose predictor is 0."
        )
    return FactorPrior(value, weight, settings.variance_shape, settings.variance_rate)


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

"""Positive amounts with log link."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammainc, gammaincc, gammaln

from anypca._typing import Floats, PerColumn
from anypca.families._base import families, like
from anypca.families._dispersed import Dispersed
from anypca.families._log_link import Amounts

#: Smallest dispersion to start an estimate from: amounts that vary by one part in 10 000 are hardly random.
_SMALL = 1e-8


@families.register
@dataclass(frozen=True)
class Gamma(Dispersed, Amounts):
    r"""Positive amounts with mean ``mu = exp(eta)`` and variance ``phi mu^2``.

    ``log p(x) = (-eta - x exp(-eta)) / phi + s log s + (s - 1) log x - log G(s)`` with shape s = 1/phi and G
    the gamma function. The domain is x > 0. The link is the logarithm, so that eta is any real number. The
    dispersion is phi. ``evaluate`` drops the terms without eta, which are those after the first.

    Chosen by ``family="auto"`` for positive numbers whose logarithms spread, where it has the larger log-mass than
    `LogNormal` and is more than two nats ahead of `Gaussian`.

    Parameters
    ----------
    shape : float, optional
        The shape 1/phi > 0; estimated when left out.

    See Also
    --------
    LogNormal : heavier in the tails.

    Examples
    --------
    >>> Gamma(shape=4.0).fixed_dispersion
    0.25
    """

    name = "gamma"
    dispersion_kind = "scale"
    given_by = "shape"
    is_reciprocal = True

    shape: float | None = None

    def _phi(self, dispersion: PerColumn, eta: Floats) -> Floats:
        return like(dispersion, eta)

    def log_base_measure(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        shape = 1.0 / like(dispersion, x)
        return np.asarray((shape - 1.0) * np.log(x) + shape * np.log(shape) - gammaln(shape))

    def log_interval_probability(
        self, x: Floats, eta: Floats, dispersion: PerColumn = 1.0, step: PerColumn = 1.0
    ) -> Floats:
        """Density times step if the noise is wider than the step and x is not close to zero, else exact."""
        found = super().log_interval_probability(x, eta, dispersion, step)
        phi, width = like(dispersion, eta), like(step, eta)
        with np.errstate(over="ignore"):
            is_coarse = (width > 2.0 * np.sqrt(phi) * np.exp(eta)) | (x < 2.0 * width)
        if np.any(is_coarse):
            exact = _interval(x - 0.5 * width, x + 0.5 * width, eta, phi).astype(found.dtype)
            found = np.where(is_coarse & np.isfinite(exact), exact, found)
        return found

    def finest_dispersion(self, mean: Floats, step: PerColumn) -> Floats:
        # Amounts that vary little are nearly normal with variance phi mean^2.
        return np.asarray((like(step, mean) / mean) ** 2 / (2.0 * np.pi), mean.dtype)

    def sample(self, eta: Floats, dispersion: PerColumn, rng: np.random.Generator) -> Floats:
        phi = np.asarray(dispersion, float)
        draw = rng.standard_gamma(1.0 / phi, size=eta.shape) * phi * np.exp(eta)
        # A shape far below 1 puts mass on numbers too small to hold; zero is outside the support.
        return np.asarray(np.maximum(draw, np.finfo(float).tiny))

    def dispersion_from_moments(self, mean: Floats, variance: Floats) -> Floats:
        return np.maximum(variance / (mean * mean), _SMALL)


def _interval(low: Floats, high: Floats, eta: Floats, phi: Floats) -> Floats:
    """Log-probability between two ends, from the tail in which it lies; minus infinity where it underflows."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        a, b = (np.maximum(end, 0.0) * np.exp(-eta) / phi for end in (low, high))
        below = gammainc(1.0 / phi, b) - gammainc(1.0 / phi, a)
        above = gammaincc(1.0 / phi, a) - gammaincc(1.0 / phi, b)
        found: Floats = np.log(np.where(gammainc(1.0 / phi, a) < 0.5, below, above))
    return found

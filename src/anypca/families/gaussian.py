"""Real numbers with identity link."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Bools, Floats, PerColumn
from anypca.families._base import NOT_ASKED, Evaluation, Family, families, filled, like
from anypca.families._dispersed import Dispersed, positive_or_none
from anypca.special import log_ndtr_difference

#: A deviation of less than this share of a step needs the interval's probability: from there on the density is right to
#: 0.003 nats, at 0.3 it is 0.14 and at 0.1 it is 5.8 above the largest that is possible on average.
_COARSE = 0.5


@dataclass(frozen=True)
class RealNumbers(Family):
    """Real numbers whose mean is eta, with noise in their units."""

    dispersion_kind = "scale"
    has_units = True
    support = "finite values"
    remedy = "Mark missing entries with NaN and remove infinite ones."

    def mean(self, eta: Floats, dispersion: PerColumn | None = None) -> Floats:
        return eta.copy()

    def link(self, mu: Floats, dispersion: PerColumn | None = None) -> Floats:
        return mu.copy()

    def in_support(self, x: Floats) -> Bools:
        return np.isfinite(x)

    def smoothed_mean(self, total: Floats, count: Floats) -> Floats:
        return total / count


@families.register
@dataclass(frozen=True, init=False, repr=False)
class Gaussian(Dispersed, RealNumbers):
    r"""Real numbers: ``log p(x) = -(x - eta)^2 / (2 v) - log(2 pi v) / 2``, mean ``eta``, variance v.

    The domain is every real number. The link is the identity. The dispersion is the variance v. ``evaluate`` drops
    ``-log(2 pi v) / 2``.

    Chosen by ``family="auto"`` for years and for numbers whose distribution no other family fits better; amounts that
    are within two nats of it are taken for real numbers too.

    Parameters
    ----------
    variance : float, optional
        Variance of the noise; estimated when left out.

    See Also
    --------
    StudentT : for outlying cells.

    Examples
    --------
    >>> Gaussian(variance=2.0).fixed_dispersion
    2.0
    """

    name = "gaussian"
    given_by = "noise_variance"

    # The argument is called variance, as users call it; that attribute is the variance function.
    noise_variance: float | None

    def __init__(self, variance: float | None = None) -> None:
        object.__setattr__(
            self, "noise_variance", positive_or_none(variance, "variance", type(self).__name__)
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(variance={self.noise_variance!r})"

    def evaluate(self, x: Floats, eta: Floats, dispersion: PerColumn = 1.0, *, order: int = 2) -> Evaluation:
        precision = 1.0 / like(dispersion, eta)
        value = x - eta
        with np.errstate(over="ignore"):
            if order == 0:
                value *= value
                value *= -0.5 * precision
                return Evaluation(value)
            gradient = value * precision
            value *= gradient
            value *= -0.5
        return Evaluation(value, gradient, filled(precision, eta) if order >= 2 else NOT_ASKED)

    def expected_log_likelihood(
        self, x: Floats, mean: Floats, variance: Floats, dispersion: PerColumn = 1.0
    ) -> Evaluation:
        """Exact: ``-((x - mean)^2 + variance) / (2 v)``."""
        found = self.evaluate(x, mean, dispersion)
        return found._replace(value=found.value - 0.5 * found.curvature * variance)

    def log_base_measure(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        return filled(-0.5 * np.log(2.0 * np.pi * like(dispersion, x)), x)

    def log_interval_probability(
        self, x: Floats, eta: Floats, dispersion: PerColumn = 1.0, step: PerColumn = 1.0
    ) -> Floats:
        """Density times step if the noise is wider than the step, else the exact probability of the interval."""
        found = self.log_likelihood(x, eta, dispersion) + self.log_step(x, step)
        spread, width = np.sqrt(like(dispersion, eta)), like(step, eta)
        is_coarse = np.broadcast_to(spread < _COARSE * width * self._slope(x), found.shape)
        if is_coarse.any():
            low, high = (self._standardised(x + side * width, eta, spread) for side in (-0.5, 0.5))
            found = np.where(is_coarse, log_ndtr_difference(low, high).astype(found.dtype), found)
        return found

    def _slope(self, x: Floats) -> PerColumn:
        """Derivative of the scale on which x is normal."""
        return 1.0

    def _standardised(self, x: Floats, eta: Floats, spread: Floats) -> Floats:
        """x in deviations from eta, on the scale on which it is normal."""
        with np.errstate(over="ignore"):
            return (x - eta) / spread

    def finest_dispersion(self, mean: Floats, step: PerColumn) -> Floats:
        # The density at its peak is 1 / sqrt(2 pi v).
        with np.errstate(over="ignore"):
            return np.asarray((like(step, mean) * self._slope(mean)) ** 2 / (2.0 * np.pi), mean.dtype)

    def saturated(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        return np.zeros_like(x)

    def variance(self, mu: Floats, dispersion: PerColumn = 1.0) -> Floats:
        return filled(like(dispersion, mu), mu)

    def sample(self, eta: Floats, dispersion: PerColumn, rng: np.random.Generator) -> Floats:
        return eta + np.sqrt(dispersion) * rng.standard_normal(eta.shape)

    def dispersion_from_moments(self, mean: Floats, variance: Floats) -> Floats:
        # A spread of a few units in the last place means a constant column, for which any variance works.
        rounding = 8.0 * np.finfo(variance.dtype).eps * np.abs(mean)
        return np.where(np.sqrt(variance) > rounding, variance, 1.0).astype(variance.dtype)

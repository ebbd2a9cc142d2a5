"""Real numbers with normal noise, rounded to steps that are not small relative to the noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import erfcx, ndtr

from anypca._typing import Floats, PerColumn
from anypca.families._base import (
    NOT_ASKED,
    Evaluation,
    Family,
    Total,
    families,
    filled,
    like,
    over_dispersion,
)
from anypca.families._columns import ColumnFamily
from anypca.families._dispersed import Dispersed
from anypca.families.gaussian import RealNumbers

#: The step before it is estimated from a table: whole numbers.
_START = (1.0,)
#: Least deviation of the noise before rounding, in steps. Below it eta is known up to an interval and no better, and
#: the likelihood tends to a box, which is flat or infinitely steep.
_LEAST = 0.1
#: Steps of less than this many deviations: a normal density with the same variance is within 1e-9 up to four of them.
_FINE = 0.01
_ROOT_HALF_PI, _ROOT_TWO_PI = np.sqrt(0.5 * np.pi), np.sqrt(2.0 * np.pi)


class _Interval(NamedTuple):
    """A standard normal on an interval, seen from the side on which its middle is."""

    log_interval_probability: Floats
    """Logarithm of the probability of the interval."""
    near: Floats
    far: Floats
    """Densities at the ends over that probability."""
    mean: Floats
    """Mean given the interval."""


@families.register
@dataclass(frozen=True)
class RoundedGaussian(Dispersed, ColumnFamily, RealNumbers):
    r"""Rounded real numbers: ``h p(x) = Phi((x + h/2 - eta) / s) - Phi((x - h/2 - eta) / s)`` with the step h.

    For whole numbers and lattices whose noise is below half a step: h p(x) is the probability of all values that are
    recorded as x. The domain is every real number and the link the identity. The dispersion is s^2, the variance of
    the noise before rounding, at least (h / 10)^2 in a fit. The variance of x is ``s^2 + h^2 / 12``. If s is far larger
    than h, this is the gaussian family with that variance. Mean, variance and draws use the density p, which averages
    over the position of the lattice of recorded values. ``evaluate`` drops ``-log h``. Its curvature is
    ``1 / (s^2 + h^2 / 12)``, at most the expected information.

    Not chosen by ``family="auto"``: the margin of a column does not show whether the noise is below half a step.
    Fit both families and compare ``evidence_`` with the value under `Gaussian`.

    Parameters
    ----------
    step : float, or tuple of one for each column, optional
        The steps h. Left out, fits take those with which the columns are recorded (``resolution_``), found or given.
    noise : float, optional
        The variance s^2 before rounding; estimated when left out.

    See Also
    --------
    Gaussian : for finely recorded columns.

    Examples
    --------
    >>> import numpy as np
    >>> family = RoundedGaussian(step=1.0)
    >>> float(np.exp(family.log_likelihood(np.array([3.0]), np.array([3.0]), 0.09))[0].round(4))
    0.9044
    """

    name = "rounded_gaussian"
    given_by = "noise"
    has_information = False
    expectation = "approximate"

    per_column = ("step",)

    step: Any = None
    noise: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_columns(
            lambda step: np.isfinite(step) & (step > 0),
            "step > 0 and finite",
            "Leave it out to take the steps with which columns are recorded.",
        )

    @classmethod
    def examples(cls) -> tuple[Family, ...]:
        return (cls(), cls(step=0.5))

    def initialised_from(self, low: Floats, high: Floats, steps: Floats, total: Total) -> Family:
        return self if self.step is not None else replace(self, step=tuple(steps.tolist()))

    def _steps(self) -> Floats:
        """One for each column, or a number."""
        steps = np.asarray(_START if self.step is None else self.step)
        return steps if steps.size > 1 else np.asarray(steps[0])

    def _spread(self, dispersion: PerColumn) -> Floats:
        """Deviation of the noise before rounding; in double precision, as is all that depends on intervals."""
        return np.asarray(np.sqrt(over_dispersion(dispersion, np.empty(0))))

    def evaluate(self, x: Floats, eta: Floats, dispersion: PerColumn = 1.0, *, order: int = 2) -> Evaluation:
        steps, spread = self._steps(), self._spread(dispersion)
        gap = np.subtract(x, eta, dtype=float)
        width, total = steps / spread, spread**2 + steps**2 / 12.0
        interval = _interval(np.abs(gap) / spread, np.maximum(width, _FINE))
        is_fine = np.broadcast_to(width < _FINE, gap.shape)
        with np.errstate(over="ignore"):
            normal = np.log(steps / np.sqrt(2.0 * np.pi * total)) - 0.5 * gap / total * gap
            value = np.where(is_fine, normal, interval.log_interval_probability).astype(eta.dtype)
            if order == 0:
                return Evaluation(value)
            slope = np.where(is_fine, gap / total, np.sign(gap) * interval.mean / spread).astype(eta.dtype)
        return Evaluation(value, slope, filled(1.0 / total, eta) if order >= 2 else NOT_ASKED)

    def observed_curvature(
        self, x: Floats, eta: Floats, found: Evaluation, dispersion: PerColumn = 1.0
    ) -> Floats:
        steps, spread = self._steps(), self._spread(dispersion)
        distance, width = np.abs(np.subtract(x, eta, dtype=float)) / spread, np.maximum(steps / spread, _FINE)
        _, near, far, mean = _interval(distance, width)
        # One less the variance given the interval, as a sum of two terms that are not negative.
        bend = near * (mean - (distance - 0.5 * width)) + far * (distance + 0.5 * width - mean)
        exact = np.clip(bend, 0.0, 1.0) / spread**2
        return np.where(steps / spread < _FINE, found.curvature, exact).astype(eta.dtype)

    def log_base_measure(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        return filled(-np.log(self._steps()), x)

    def finest_dispersion(self, mean: Floats, step: PerColumn) -> Floats:
        return filled((_LEAST * self._steps()) ** 2, mean)

    def saturated(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        return self.evaluate(x, x, dispersion, order=0).value

    def pearson(self, x: Floats, eta: Floats, dispersion: PerColumn = 1.0) -> Floats:
        """``(x - eta)^2`` over the variance."""
        with np.errstate(over="ignore"):
            gap = x - eta
            ratio: Floats = gap / self.variance(eta, dispersion) * gap
        return ratio

    def variance(self, mu: Floats, dispersion: PerColumn = 1.0) -> Floats:
        return filled(like(dispersion, mu) + self._steps() ** 2 / 12.0, mu)

    def sample(self, eta: Floats, dispersion: PerColumn, rng: np.random.Generator) -> Floats:
        rounding = self._steps() * (rng.random(eta.shape) - 0.5)
        return np.asarray(eta + np.sqrt(dispersion) * rng.standard_normal(eta.shape) + rounding)

    def dispersion_from_moments(self, mean: Floats, variance: Floats) -> Floats:
        return np.maximum(variance - self._steps() ** 2 / 12.0, self.finest_dispersion(mean, 1.0))


def _interval(distance: Floats, width: Floats) -> _Interval:
    """The interval of a width around a distance >= 0 from the mode; they broadcast.

    Everything is relative to the density at the near end, which underflows in the tails; if the mode lies inside,
    nothing cancels and the probabilities will do.
    """
    near, far = distance - 0.5 * width, distance + 0.5 * width
    is_inside = near < 0
    outside = np.maximum(near, 0.0)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        decay = np.exp(-distance * width)
        ratio = _ROOT_HALF_PI * (erfcx(outside / np.sqrt(2.0)) - decay * erfcx(far / np.sqrt(2.0)))
        mass = np.where(is_inside, ndtr(-near) - ndtr(-far), 1.0)
        peak = np.exp(-0.5 * near**2) / _ROOT_TWO_PI
        log_interval_probability = np.where(
            is_inside, np.log(mass), np.log(ratio / _ROOT_TWO_PI) - 0.5 * outside**2
        )
        at_near = np.where(is_inside, peak / mass, 1.0 / ratio)
        at_far = np.where(decay > 0, at_near * decay, 0.0)
    return _Interval(log_interval_probability, at_near, at_far, at_near - at_far)

"""Base class of the log-normal and the logit-normal family: normal numbers after a transformation."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats, PerColumn
from anypca.families._base import Evaluation
from anypca.families.gaussian import Gaussian


@dataclass(frozen=True, init=False, repr=False)
class TransformedNormal(Gaussian):
    """``t(x)`` is normal with mean eta, so that everything in eta is Gaussian and exact."""

    has_units = False

    @abstractmethod
    def _transformed(self, x: Floats) -> Floats:
        """``t(x)``, a new array."""

    @abstractmethod
    def _log_slope(self, x: Floats) -> Floats:
        """``log t'(x)``, by which a density of t(x) becomes one of x."""

    def evaluate(self, x: Floats, eta: Floats, dispersion: PerColumn = 1.0, *, order: int = 2) -> Evaluation:
        return super().evaluate(self._transformed(x), eta, dispersion, order=order)

    def log_base_measure(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        return super().log_base_measure(x, dispersion) + self._log_slope(x)

    def _slope(self, x: Floats) -> PerColumn:
        return np.exp(self._log_slope(x))

    def _standardised(self, x: Floats, eta: Floats, spread: Floats) -> Floats:
        low, high = self._range
        inside = (x > low) & (x < high)
        found = self._transformed(np.where(inside, x, 1.0 if high > 1.0 else 0.5 * high))
        return super()._standardised(np.where(inside, found, np.where(x > low, np.inf, -np.inf)), eta, spread)

    @property
    def _range(self) -> tuple[float, float]:
        """Ends of the domain."""
        return 0.0, np.inf

    def _normal(self, eta: Floats, dispersion: PerColumn, rng: np.random.Generator) -> Floats:
        """A draw of ``t(x)``."""
        return super().sample(eta, dispersion, rng)

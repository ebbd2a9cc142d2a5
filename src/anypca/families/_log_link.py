"""Base classes of families with a log link, ``mean = exp(eta)``: counts and positive amounts."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from anypca._typing import Bools, Floats, PerColumn
from anypca.families._base import NOT_ASKED, Evaluation, Family, filled

#: Largest count that differs from the next one in double precision.
_LARGEST = 2.0**53


@dataclass(frozen=True)
class LogLink(Family):
    """Families with mean ``exp(eta)``."""

    link_kind = "log"

    def mean(self, eta: Floats, dispersion: PerColumn | None = None) -> Floats:
        with np.errstate(over="ignore"):
            return np.exp(eta)

    def link(self, mu: Floats, dispersion: PerColumn | None = None) -> Floats:
        return np.log(mu)


@dataclass(frozen=True)
class Counts(LogLink):
    """Families of counts with a log link."""

    support = "values >= 0 and up to 2**53"
    remedy = "Use family='gaussian' for centred or transformed data."

    def in_support(self, x: Floats) -> Bools:
        # Double precision does not distinguish larger counts from their neighbours.
        return np.isfinite(x) & (x >= 0) & (x <= _LARGEST)

    def smoothed_mean(self, total: Floats, count: Floats) -> Floats:
        # Half a count instead of none: the log of a mean of zero is not a start.
        return np.maximum(total, 0.5) / count


@dataclass(frozen=True)
class Amounts(LogLink):
    """Families of positive amounts, ``log p(x) = shape (-eta - x exp(-eta))`` up to terms without eta.

    The expected information is the shape: on the log scale every mean is known equally well. At x = 0 the likelihood
    has no maximum, hence no deviance, so that zero is outside of the support.
    """

    support = "values > 0"
    remedy = "Use family='gaussian', or treat zeros as missing (NaN)."

    @abstractmethod
    def _phi(self, dispersion: PerColumn, eta: Floats) -> PerColumn:
        """The inverse of the shape in the dtype of eta, a number or one per column."""

    def evaluate(self, x: Floats, eta: Floats, dispersion: PerColumn = 1.0, *, order: int = 2) -> Evaluation:
        shape = 1.0 / self._phi(dispersion, eta)
        ratio = np.negative(eta, out=np.empty_like(eta))
        # A trial step may overflow: the value is then -inf, which the solver refuses.
        with np.errstate(over="ignore"):
            np.exp(ratio, out=ratio)
            ratio *= x
            value = eta + ratio
            value *= -shape
            if order == 0:
                return Evaluation(value)
            ratio -= 1.0
            if np.ndim(shape) or shape != 1.0:
                ratio *= shape
        return Evaluation(value, ratio, filled(shape, eta) if order >= 2 else NOT_ASKED)

    def expected_log_likelihood(
        self, x: Floats, mean: Floats, variance: Floats, dispersion: PerColumn = 1.0
    ) -> Evaluation:
        """Exact: ``shape (-mean - x exp(-mean + variance / 2))``."""
        shape = 1.0 / self._phi(dispersion, mean)
        ratio = x * np.exp(0.5 * variance - mean)
        return Evaluation(-shape * (mean + ratio), shape * (ratio - 1.0), shape * ratio)

    def observed_curvature(
        self, x: Floats, eta: Floats, found: Evaluation, dispersion: PerColumn = 1.0
    ) -> Floats:
        """``shape x exp(-eta)``: the gradient is ``shape (x exp(-eta) - 1)``, the expected information ``shape``."""
        return found.gradient + found.curvature

    def saturated(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        return (-np.log(x) - 1.0) / self._phi(dispersion, x)

    def variance(self, mu: Floats, dispersion: PerColumn = 1.0) -> Floats:
        with np.errstate(over="ignore"):
            return self._phi(dispersion, mu) * mu * mu

    def in_support(self, x: Floats) -> Bools:
        return np.isfinite(x) & (x > 0)

    def smoothed_mean(self, total: Floats, count: Floats) -> Floats:
        return total / count

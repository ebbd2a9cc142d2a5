"""Waiting times with log link."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Bools, Floats
from anypca.families._base import Evaluation, Family, families
from anypca.families.gamma import evaluate_positive, expect_positive, observed_positive


@families.register
@dataclass(frozen=True)
class Exponential(Family):
    r"""Positive amounts: ``log p(x) = -eta - x exp(-eta)``, mean ``exp(eta)``, variance ``exp(2 eta)``.

    The domain is x > 0 (at zero the likelihood has no maximum, hence no deviance); eta is any real number.
    ``evaluate`` drops nothing.

    Examples
    --------
    >>> import numpy as np
    >>> Exponential().variance(np.array([3.0])).tolist()
    [9.0]
    """

    name = "exponential"
    support = "values > 0"
    remedy = "Use family='gaussian', or treat zeros as missing (NaN)."

    def evaluate(
        self, x: Floats, eta: Floats, dispersion: Floats | float = 1.0, *, order: int = 2
    ) -> Evaluation:
        return evaluate_positive(x, eta, None, order)

    def expect(
        self, x: Floats, mean: Floats, variance: Floats, dispersion: Floats | float = 1.0
    ) -> Evaluation:
        """Exact: ``-mean - x exp(-mean + variance / 2)``."""
        return expect_positive(x, mean, variance, 1.0)

    def observed_curvature(self, found: Evaluation, dispersion: Floats | float = 1.0) -> Floats:
        return observed_positive(found)

    def log_base(self, x: Floats, dispersion: Floats | float = 1.0) -> Floats:
        return np.zeros_like(x)

    def saturated(self, x: Floats, dispersion: Floats | float = 1.0) -> Floats:
        return -np.log(x) - 1.0

    def mean(self, eta: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return np.exp(eta)

    def link(self, mu: Floats) -> Floats:
        return np.log(mu)

    def variance(self, mu: Floats, dispersion: Floats | float = 1.0) -> Floats:
        with np.errstate(over="ignore"):
            return mu * mu

    def in_support(self, x: Floats) -> Bools:
        return np.isfinite(x) & (x > 0)

    def sample(self, eta: Floats, dispersion: Floats | float, rng: np.random.Generator) -> Floats:
        return np.exp(eta) * rng.standard_exponential(eta.shape)

    def interior_mean(self, total: Floats, count: Floats) -> Floats:
        return total / count

"""Families whose log-likelihood is linear in x."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats, PerColumn
from anypca.families._base import NOT_ASKED, Evaluation, Family


@dataclass(frozen=True)
class CanonicalFamily(Family):
    """``log p(x) = x eta - A(eta)`` up to terms without eta, with dispersion 1.

    A subclass writes the cumulant A with its derivatives (mean and variance); the rest follows.
    """

    @abstractmethod
    def cumulant(self, eta: Floats, *, order: int = 2) -> Evaluation:
        """A(eta), A'(eta) and A''(eta); the arrays may be one and must not be changed."""

    def evaluate(self, x: Floats, eta: Floats, dispersion: PerColumn = 1.0, *, order: int = 2) -> Evaluation:
        # A trial step may overflow: the value is then -inf, which the solver refuses.
        with np.errstate(over="ignore"):
            found = self.cumulant(eta, order=order)
        value = x * eta
        value -= found.value
        return Evaluation(value, x - found.gradient if order >= 1 else NOT_ASKED, found.curvature)

    def expected_cumulant(self, mean: Floats, variance: Floats) -> Evaluation:
        """A under a normal distribution of eta, or a bound; its derivative in the mean, and twice that in the variance.

        By default the three nodes of `Family.expected_log_likelihood`. The arrays may be one and must not be changed.
        """
        found = Family.expected_log_likelihood(self, np.zeros_like(mean), mean, variance)
        return Evaluation(-found.value, -found.gradient, found.curvature)

    def expected_log_likelihood(
        self, x: Floats, mean: Floats, variance: Floats, dispersion: PerColumn = 1.0
    ) -> Evaluation:
        found = self.expected_cumulant(mean, variance)
        value = x * mean
        value -= found.value
        return Evaluation(value, x - found.gradient, found.curvature.copy())

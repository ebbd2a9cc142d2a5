"""Scores under a ridge with loadings under any other prior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.optimize

from anypca._typing import Floats
from anypca.models._bilinear.alternating import Gauge, Shared, SweepSums, intercept_shift
from anypca.models._bilinear.evaluator import Coefficients
from anypca.models._bilinear.problem import BilinearProblem

# Largest change of a component's size in one sweep, as a logarithm: it takes a few sweeps from any start.
_FARTHEST = 1.0
# A gain below this part of the penalties is rounding, and components stay as they are.
_LEAST_GAIN = 1e-12


@dataclass(frozen=True, eq=False)
class RescaledProblem(BilinearProblem):
    """Balances the penalties of scores and loadings where the loadings' prior does not allow rotations.

    ``score_prior`` is a ridge that treats all scores alike. Sweeps alone move the scale between the scores and the
    loadings of a component very slowly: on tables of counts they need 30 times as many.
    """

    def regauge(self, coefficients: Coefficients, stats: SweepSums) -> Shared:
        """Move the mean score into the intercept and choose the size of each component."""
        k = coefficients.loadings.shape[1]
        centre = stats.score_sum / stats.weight if self.fit_intercept else np.zeros(k)
        # The ridge of scores is quadratic and treats them alike: what it costs follows from their squares.
        squares = np.maximum(np.diag(stats.score_gram) - stats.weight * centre**2, 0.0)
        costs = squares * self.score_prior.value(np.ones((1, 1)))
        sizes, joint = np.ones(k), coefficients.joint.copy()
        for a in range(k):
            sizes[a] = self._best_size(joint, a, costs[a])
            joint[:, a] *= sizes[a]
        shift = intercept_shift(centre, coefficients.fixed.shape[1])
        gauge = Gauge(shift, np.diag(1.0 / sizes), np.diag(sizes))
        return Shared(gauge.forward(coefficients), gauge)

    def _best_size(self, joint: Floats, a: int, cost: float) -> float:
        """The factor of the loadings of component a at which the penalties, of its scores by ``cost``, are least."""

        def penalty(log_size: float) -> float:
            scaled = joint.copy()
            scaled[:, a] *= np.exp(log_size)
            return float(cost * np.exp(-2.0 * log_size) + self.loading_prior.value(scaled).sum())

        found = scipy.optimize.minimize_scalar(penalty, bounds=(-_FARTHEST, _FARTHEST), method="bounded")
        now = penalty(0.0)
        return float(np.exp(found.x)) if now - found.fun > _LEAST_GAIN * now else 1.0

"""The joint mode of scores and loadings of a bilinear exponential-family model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from anypca._typing import Floats
from anypca.families import Family
from anypca.linalg import balance
from anypca.models._bilinear.alternating import AlternatingNewton, Gauge, Shared, SweepSums, intercept_shift
from anypca.models._bilinear.evaluator import Coefficients
from anypca.priors import Prior


@dataclass(frozen=True, eq=False)
class BilinearProblem(AlternatingNewton[SweepSums]):
    r"""Maximise the penalised log-likelihood over scores Z and coefficients [W | B].

    .. math:: J = \sum_i s_i \Big( \sum_j \log p(x_{ij} | \eta_{ij}) - \pi(z_i) \Big) - \sum_j \rho(w_j, b_j)

    Parameters
    ----------
    family, score_prior, loading_prior, fit_intercept, constant, eps, precision
        See `AlternatingNewton`; the points of the rows are their scores.
    ridges : tuple of a float and an array of shape (n_features,) (or a float), or None
        Strengths of isotropic ridges on scores and on the loadings of each column when both priors are that. The
        latent coordinates can then be changed freely, and are chosen after each update to make the penalty least.
    starts_rough : bool
        Whether all but the last sweeps may be in single precision.
    """

    family: Family
    score_prior: Prior
    loading_prior: Prior
    fit_intercept: bool = True
    constant: float = 0.0
    ridges: tuple[float, Floats | float] | None = None
    eps: float = float(np.finfo(float).eps)
    precision: str | None = None
    starts_rough: bool = False

    def rough(self) -> Self | None:
        """The same in single precision."""
        if not self.starts_rough:
            return None
        eps = float(np.finfo(np.float32).eps)
        return replace(self, precision="float32", eps=eps, starts_rough=False)

    def regauge(self, coefficients: Coefficients, stats: SweepSums) -> Shared:
        """Move the mean score into the intercept and balance the two penalties at constant predictor."""
        if self.ridges is None or coefficients.loadings.shape[1] == 0:
            return Shared(coefficients)
        gauge = self._best_gauge(self.ridges, coefficients, stats)
        return Shared(gauge.forward(coefficients), gauge)

    def _best_gauge(
        self, ridges: tuple[float, Floats | float], coefficients: Coefficients, stats: SweepSums
    ) -> Gauge:
        loadings = coefficients.loadings
        centre = stats.score_sum / stats.weight if self.fit_intercept else np.zeros(loadings.shape[1])
        left = stats.score_gram - stats.weight * np.outer(centre, centre)
        # Without a ridge the scale is arbitrary: scores of unit size keep the steps well conditioned.
        has_ridge = ridges[0] > 0 and np.min(ridges[1]) > 0
        on_scores, on_loadings = ridges if has_ridge else (1.0 / stats.weight, 1.0 / len(loadings))
        right = loadings.T @ (loadings * np.reshape(on_loadings, (-1, 1)))
        shift = intercept_shift(centre, coefficients.fixed.shape[1])
        return Gauge(shift, *balance(on_scores * left, right))

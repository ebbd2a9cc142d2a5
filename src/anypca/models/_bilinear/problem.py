"""The joint mode of scores and loadings of a bilinear exponential-family model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from anypca._typing import Bools, Floats
from anypca.families import Family
from anypca.linalg import PackedCholesky, balance
from anypca.models._bilinear.alternating import AlternatingNewton, Gauge, Shared, SweepSums, intercept_shift
from anypca.models._bilinear.evaluator import BlockEvaluator, Coefficients
from anypca.priors import Prior, Ridge

# Steps with the curvature of the start: one or two are usual after a fit.
_MOST_STEPS = 4
# Part of the last gain that a step may still have to gain; where it is more, the start was not near.
_LEAST_PROGRESS = 0.1
# Gain that further steps may have, in units of what the objective resolves: scores then have nine digits.
_LEAST_GAIN = 1e-6


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
    fixed_ridge : ndarray of shape (n_features, n_fixed) or float
        The part of ``loading_prior`` on intercepts and coefficients of covariates when ``ridges`` are given.
    starts_rough : bool
        Whether all but the last sweeps may be in single precision.
    """

    family: Family
    score_prior: Prior
    loading_prior: Prior
    fit_intercept: bool = True
    constant: float = 0.0
    ridges: tuple[float, Floats | float] | None = None
    fixed_ridge: Floats | float = 0.0
    eps: float = float(np.finfo(float).eps)
    precision: str | None = None
    starts_rough: bool = False

    def low_precision(self) -> Self | None:
        """The same in single precision."""
        if not self.starts_rough:
            return None
        eps = float(np.finfo(np.float32).eps)
        return replace(self, precision="float32", eps=eps, starts_rough=False)

    def polish_rows(self, evaluator: BlockEvaluator, start: Floats) -> tuple[Floats, Bools]:
        """Modes of rows from points near to them, (rows, k), and which rows were not near enough, (rows,).

        The score prior must be a ridge. Steps have the curvature of the start, in single precision where the fit has
        begun so: that only decides how fast they arrive. Gradients are exact, and need no products of components.
        """
        prior = self.score_prior
        assert isinstance(prior, Ridge)
        is_open, is_left = np.ones(len(start), dtype=bool), np.zeros(len(start), dtype=bool)
        with np.errstate(all="ignore"):
            step, rate, factor = self._first_step(evaluator, start, prior)
            points, last = start + step, np.full(len(start), np.inf)
            for _ in range(_MOST_STEPS):
                some = evaluator if is_open.all() else evaluator.take(is_open)
                value, gradient = some.row_slopes(points[is_open])
                slope, slack = np.zeros(points.shape), np.full(len(points), np.inf)
                slope[is_open] = gradient - prior.times(points[is_open])
                slack[is_open] = self._slack(value)
                step = factor.solve(slope)
                points, gain = points + step, np.einsum("ia,ia->i", slope, step)
                is_left |= ~((gain <= _LEAST_PROGRESS * last) | (gain <= slack))
                is_open &= ~is_left & ~(gain * rate <= _LEAST_GAIN * slack)
                if not is_open.any():
                    break
                last = gain
        return points, is_left | is_open

    def _first_step(
        self, evaluator: BlockEvaluator, start: Floats, prior: Ridge
    ) -> tuple[Floats, Floats, PackedCholesky]:
        """A Newton step of rows, by which factor further ones with its curvature gain less and less, the curvature."""
        rows = evaluator.rows
        if self.starts_rough and rows.dtype == np.float64:
            evaluator = self.evaluator(evaluator.coefficients, rows.astype(np.dtype(np.float32)))
        sums = evaluator.row_sums(start, observed=True)
        factor = PackedCholesky(sums.curvature + prior.curvature(start), start.shape[1])
        slope = sums.gradient - prior.times(start)
        step = factor.solve(slope)
        # A step changes curvatures by about the root of its gain, and gains fall by the square of such a change.
        return step, np.minimum(np.einsum("ia,ia->i", slope, step), 1.0), factor

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

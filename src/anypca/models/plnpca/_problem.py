"""The variational bound of Poisson log-normal PCA as a problem of alternating Newton steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Bools, Floats
from anypca.families import Poisson
from anypca.linalg import PackedCholesky, packed_diagonal, packed_products, packed_size
from anypca.models._bilinear.alternating import AlternatingNewton, Gauge, RowFit, RowStep, Shared, SweepSums
from anypca.models._bilinear.coefficients import Coefficients
from anypca.models._bilinear.evaluator import BlockEvaluator
from anypca.models._opened import OpenedBlock
from anypca.models.plnpca._evaluator import CountEvaluator, Divergence, Posterior
from anypca.priors import Ridge

#: Added to counts and rates before logarithms: log(x + 1/2) is nearly unbiased for the logarithm of a rate.
HALF = 0.5


class PosteriorGauge(Gauge):
    """A gauge with a diagonal matrix, under which independent posteriors stay independent."""

    def apply(self, points: Floats, features: Floats) -> Floats:
        """Means and log variances in the new coordinates, shape (rows, 2 k)."""
        k = len(self.matrix)
        mean = super().apply(points[:, :k], features)
        return np.hstack([mean, points[:, k:] + 2.0 * np.log(np.diag(self.matrix))])


@dataclass(frozen=True, eq=False)
class CountSums(SweepSums):
    """What the blocks of a sweep add up to, with moments of posteriors and fixed features."""

    feature_gram: Floats
    """Weighted ``F' F``, shape (n_fixed, n_fixed)."""
    feature_mean: Floats
    """Weighted ``F' M``, shape (n_fixed, k)."""
    variance_sum: Floats
    """Weighted sum of variances, shape (k,)."""
    log_variance: float
    """Weighted sum of all log variances."""


@dataclass(frozen=True, eq=False)
class PLNProblem(AlternatingNewton[CountSums]):
    r"""Maximise the bound on the log-likelihood over posteriors (M, S) and coefficients [C | B].

    .. math:: J = \sum_i s_i \Big( \sum_j (y_{ij} z_{ij} - A_{ij} - \log y_{ij}!)
              - \tfrac12 \sum_k (m_{ik}^2 + s_{ik} - \log s_{ik} - 1) \Big)

    J is concave in a row's (m, log s) and in a column's (c, b), each given the other.

    Parameters
    ----------
    fit_intercept : bool
    kept : ndarray of bool of shape (n_fixed,)
        Fixed features whose coefficients are estimated; those of the others, which depend on them, stay.
    constant : float
        Sum of ``-log y!``, added to the objective.
    eps : float
        Relative rounding error of the blocks' arithmetic.
    """

    fit_intercept: bool
    kept: Bools
    constant: float = 0.0
    eps: float = float(np.finfo(float).eps)
    family = Poisson()
    score_prior = Divergence()
    loading_prior = Ridge(0.0)

    def evaluator(self, coefficients: Coefficients, rows: OpenedBlock) -> BlockEvaluator:
        return CountEvaluator(self.family, coefficients, rows)

    def add_up(self, rows: OpenedBlock, found: RowStep, stats: SweepSums) -> CountSums:
        mean, variance = Posterior.of(found.points)
        weighted = rows.features * rows.weights[:, None]
        log_variance = found.points[:, mean.shape[1] :]
        return CountSums(
            **vars(stats),
            feature_gram=weighted.T @ rows.features,
            feature_mean=weighted.T @ mean,
            variance_sum=rows.weights @ variance,
            log_variance=float(rows.weights @ log_variance.sum(axis=1)),
        )

    def column_slopes(self, stats: CountSums) -> tuple[Floats, Floats]:
        """Without slope and coupling where a fixed feature is left out."""
        if self.kept.all():
            return stats.gradient, stats.curvature
        kept = np.concatenate([np.ones(len(stats.score_sum)), self.kept])
        return stats.gradient * kept, stats.curvature * packed_products(kept[None])

    def regauge(self, coefficients: Coefficients, stats: CountSums) -> Shared:
        """Move what the fixed features explain of the means into B, and bring the second moments to 1.

        Neither changes the rates; both reduce the divergence from the prior as far as they can.
        """
        if coefficients.loadings.shape[1] == 0:
            return Shared(coefficients)
        shift, kept = np.zeros_like(stats.feature_mean), self.kept
        if kept.any():
            gram = stats.feature_gram[np.ix_(kept, kept)]
            shift[kept] = np.linalg.solve(gram, stats.feature_mean[kept])
        explained = np.einsum("da,da->a", shift, stats.feature_mean)
        second = np.diag(stats.score_gram) - explained + stats.variance_sum
        scale = np.sqrt(second / stats.weight)
        gauge = PosteriorGauge(shift, np.diag(1.0 / scale), np.diag(scale))
        return Shared(gauge.forward(coefficients), gauge)

    def posteriors(self, coefficients: Coefficients, rows: OpenedBlock) -> RowFit:
        """Posteriors of rows under fixed coefficients, each row to its own convergence."""
        evaluator = self.evaluator(coefficients, rows)
        with np.errstate(over="ignore", invalid="ignore"):
            start = _first_points(evaluator)
        return self.solve_rows(evaluator, start)


def _first_points(evaluator: BlockEvaluator) -> Floats:
    """One weighted regression of the log counts on the loadings, from the rates without components.

    From the prior, Newton steps on exponentials overshoot where counts are far above these rates.
    """
    rows, loadings = evaluator.rows, evaluator.coefficients.loadings
    n, k = rows.n_rows, loadings.shape[1]
    plain, absent = BlockEvaluator(evaluator.family, evaluator.coefficients, rows), np.zeros((n, k))
    slope, packed = np.zeros((n, k)), np.zeros((n, packed_size(k)))
    for tile in rows.tiles():
        x = np.asarray(rows.x[:, tile], dtype=float) + HALF
        residual = np.log(x) - np.log(plain.means(absent, tile) + HALF)
        if rows.observed is not None:
            x = np.where(rows.observed[:, tile], x, 0.0)
        slope += (x * residual) @ loadings[tile]
        packed += x @ packed_products(loadings[tile])
    diagonal = packed_diagonal(k)
    packed[:, diagonal] += 1.0
    mean = PackedCholesky(packed, k).solve(slope)
    # Where rates overflow without components the prior is the only start.
    usable = np.isfinite(mean).all(axis=1, keepdims=True)
    return Posterior(np.where(usable, mean, 0.0), np.where(usable, 1.0 / packed[:, diagonal], 1.0)).points

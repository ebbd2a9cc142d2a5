"""The variational bound of Poisson log-normal PCA, on a block of rows and as a problem of alternating Newton steps.

The point of a row holds the means M and the logarithms of the variances S of its posterior, both (rows, k). With
``z = o + F B' + M C'`` (offset, fixed features, means) the expected rates are ``A = exp(z + S (C * C)' / 2)``. They
equal the rates of Poisson counts with design ``[M | F | S]`` and coefficients ``[C | B | C * C / 2]``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from anypca._typing import Bools, Floats
from anypca.families import Poisson
from anypca.linalg import PackedCholesky, packed_diagonal, packed_products, packed_size
from anypca.models._bilinear.alternating import AlternatingNewton, Gauge, RowFit, RowStep, Shared, SweepSums
from anypca.models._bilinear.evaluator import BlockEvaluator, Coefficients, Operand, RowSums, Working
from anypca.models._block_view import BlockView, apply_entry_weights
from anypca.priors import NewtonStep, Prior, Ridge

# The logarithm of a variance moves by at most this in a step, a factor of 20: its curvature vanishes where the variance
# does, and Newton's step then says little.
_LONGEST_LOG_STEP = 3.0


class Posterior(NamedTuple):
    """Variational posteriors of rows: independent normals."""

    mean: Floats
    """M, shape (rows, k)."""
    variance: Floats
    """S, shape (rows, k)."""

    @classmethod
    def of(cls, points: Floats) -> Posterior:
        """From the points of rows (rows, 2 k)."""
        k = points.shape[1] // 2
        return cls(points[:, :k], np.exp(points[:, k:]))

    @property
    def points(self) -> Floats:
        """Means and log variances, shape (rows, 2 k)."""
        return np.hstack([self.mean, np.log(self.variance)])


@dataclass(frozen=True, eq=False)
class Divergence(Prior):
    """Kullback-Leibler divergence of posteriors from the standard normal distribution, a penalty on their points."""

    name = "divergence"

    def value(self, u: Floats) -> Floats:
        mean, variance = Posterior.of(u)
        return np.asarray(0.5 * (mean**2 + variance - u[:, mean.shape[1] :] - 1.0).sum(axis=1))

    def newton(self, u: Floats, gradient: Floats, curvature: Floats) -> NewtonStep:
        mean, variance = Posterior.of(u)
        k = mean.shape[1]
        slope = gradient + np.hstack([-mean, 0.5 * (1.0 - variance)])
        # Second derivatives of the divergence: 1 in the mean and s / 2 in log s.
        total = curvature.copy()
        total[:, packed_diagonal(2 * k)] += np.hstack([np.ones_like(mean), 0.5 * variance])
        step = PackedCholesky(total, 2 * k).solve(slope)
        decrement: Floats = np.einsum("ia,ia->i", slope, step)
        np.clip(step[:, k:], -_LONGEST_LOG_STEP, _LONGEST_LOG_STEP, out=step[:, k:])
        return NewtonStep(step, decrement)


def _extended(coefficients: Coefficients) -> tuple[Floats, Floats]:
    """``[C | B | C * C / 2]`` and, for the derivatives in means and variances, ``[C | C * C / 2]``."""
    half = 0.5 * coefficients.loadings**2
    return np.hstack([coefficients.joint, half]), np.hstack([coefficients.loadings, half])


class CountEvaluator(BlockEvaluator):
    """Poisson counts under posteriors of the rows; `means` are the expected rates A, 0 where entries are missing."""

    @cached_property
    def _working(self) -> Working:
        return self.coefficients.working(self.rows.dtype, _extended)

    def design(self, points: Floats) -> Floats:
        """``[M | F | S]`` in the block's precision, shape (rows, m + k)."""
        mean, variance = Posterior.of(points)
        return np.hstack([mean, self.rows.features, variance]).astype(self.rows.dtype, copy=False)

    def row_sums(self, points: Floats, *, observed: bool = False) -> RowSums:
        """The same, the derivatives in variances turned into those in their logarithms."""
        sums = super().row_sums(points, observed=observed)
        mean, variance = Posterior.of(points)
        k = mean.shape[1]
        scale = np.hstack([np.ones_like(mean), variance])
        gradient = sums.gradient * scale
        curvature = sums.curvature * packed_products(scale)
        # The second derivative of s in log s is s: the slope in s counts once more.
        curvature[:, packed_diagonal(2 * k)[k:]] -= gradient[:, k:]
        return sums._replace(gradient=gradient, curvature=curvature)

    def _column_operand(self, design: Floats, weights: Floats) -> Operand:
        m = self.coefficients.joint.shape[1]
        plain = Operand.of(design[:, :m], weights)
        return Operand(np.hstack([plain.stacked, design[:, m:] * weights[:, None]]), m)

    def _column_terms(self, sums: Floats) -> tuple[Floats, Floats, Floats]:
        r"""Values, gradients and curvatures of the columns from ``A' [1 | D | products of D | S]``, D = [M | F].

        The exact curvature is ``sum_i A_ij (u u' + diag(s_i))`` with ``u = d_i + s_i * c_j``. Here s_i within u is
        replaced by its mean under A, which keeps the curvature positive and saves the products of D and S.
        """
        loadings = self.coefficients.loadings
        m, k = self.coefficients.joint.shape[1], loadings.shape[1]
        total, first, second, spread = np.split(sums, np.cumsum([1, m, packed_size(m)]), axis=1)
        gradient = first.copy()
        gradient[:, :k] += spread * loadings
        shift = np.zeros_like(first)
        np.divide(spread * loadings, total, out=shift[:, :k], where=total > 0)
        # sum A (d + shift)(d + shift)' = second + total (mean + shift)(mean + shift)' - total mean mean'.
        mean = np.divide(first, total, out=np.zeros_like(first), where=total > 0)
        curvature = second + total * (packed_products(mean + shift) - packed_products(mean))
        curvature[:, packed_diagonal(m)[:k]] += spread
        return total[:, 0], gradient, curvature


def information_of(evaluator: BlockEvaluator, points: Floats, loadings: Floats) -> Floats:
    """``sum_j A c * c`` of each row for some loadings (n_features, k), shape (rows, k)."""
    found = np.zeros((evaluator.rows.n_rows, loadings.shape[1]))
    for tile in evaluator.rows.tiles():
        found += (
            apply_entry_weights(evaluator.rows, tile, evaluator.means(points, tile)) @ loadings[tile] ** 2
        )
    return found


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
    """Sums of a sweep over the blocks, with moments of posteriors and fixed features."""

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
              - \tfrac12 \sum_j \Big( r \|c_j\|^2 + \sum_d t_d b_{jd}^2 \Big)

    with the ridge r on loadings and prior precisions t of the fixed features' coefficients.

    J is concave in a row's (m, log s) and in a column's (c, b), each given the other.

    Parameters
    ----------
    fit_intercept : bool
    kept : ndarray of bool of shape (n_fixed,)
        Fixed features whose coefficients are estimated. The other features depend on these; their coefficients stay.
    ridge : float
        r.
    fixed_ridge : ndarray of shape (n_fixed,)
        t, 0 for the intercept.
    rank : int
        Number of components, k.
    constant : float
        Sum of ``-log y!``, added to the objective.
    eps : float
        Relative rounding error of the blocks' arithmetic.
    """

    fit_intercept: bool
    kept: Bools
    ridge: float
    fixed_ridge: Floats
    rank: int = 0
    constant: float = 0.0
    eps: float = float(np.finfo(float).eps)
    family = Poisson()
    score_prior = Divergence()

    @property
    def loading_prior(self) -> Prior:  # type: ignore[override]
        return Ridge(np.append(np.full(self.rank, self.ridge), self.fixed_ridge))

    def evaluator(self, coefficients: Coefficients, rows: BlockView) -> BlockEvaluator:
        return CountEvaluator(self.family, coefficients, rows)

    def add_up(self, rows: BlockView, found: RowStep, stats: SweepSums) -> CountSums:
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
        """The slopes of the columns, zero (as is their coupling) where a fixed feature is left out."""
        if self.kept.all():
            return stats.gradient, stats.curvature
        kept = np.concatenate([np.ones(len(stats.score_sum)), self.kept])
        return stats.gradient * kept, stats.curvature * packed_products(kept[None])

    def regauge(self, coefficients: Coefficients, stats: CountSums) -> Shared:
        """Move what the fixed features explain of the means into B, and choose the scale of each score.

        Neither changes the rates; each minimises the divergence plus the penalties.
        """
        loadings = coefficients.loadings
        if loadings.shape[1] == 0:
            return Shared(coefficients)
        shift = self._best_shift(coefficients, stats)
        left = stats.feature_gram @ shift - 2.0 * stats.feature_mean
        second = np.diag(stats.score_gram) + np.einsum("da,da->a", shift, left) + stats.variance_sum
        # The squared scale t of a score solves  r |c|^2 t^2 + n t - second = 0.
        cost = self.ridge * np.einsum("ja,ja->a", loadings, loadings)
        scale = np.sqrt(2.0 * second / (stats.weight + np.sqrt(stats.weight**2 + 4.0 * cost * second)))
        gauge = PosteriorGauge(shift, np.diag(1.0 / scale), np.diag(scale))
        return Shared(gauge.forward(coefficients), gauge)

    def _best_shift(self, coefficients: Coefficients, stats: CountSums) -> Floats:
        """S (n_fixed, k) that minimises the penalties of the means ``M - F S`` and of ``B + C S'``."""
        kept, loadings = self.kept, coefficients.loadings
        shift = np.zeros_like(stats.feature_mean)
        if not kept.any():
            return shift
        gram, right = stats.feature_gram[np.ix_(kept, kept)], stats.feature_mean[kept]
        precision, k = self.fixed_ridge[kept], loadings.shape[1]
        if not precision.any():
            shift[kept] = np.linalg.solve(gram, right)
            return shift
        right = right - precision[:, None] * (coefficients.fixed[:, kept].T @ loadings)
        # Unknowns are the columns of S, one below the other.
        system = np.kron(np.eye(k), gram) + np.kron(loadings.T @ loadings, np.diag(precision))
        shift[kept] = np.linalg.solve(system, right.T.ravel()).reshape(k, -1).T
        return shift

    def posteriors(self, coefficients: Coefficients, rows: BlockView) -> RowFit:
        """Posteriors of rows under fixed coefficients, each row to its own convergence."""
        evaluator = self.evaluator(coefficients, rows)
        return self.solve_rows(evaluator, self.first_points(evaluator))

    def first_points(self, evaluator: BlockEvaluator) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):
            return _regression_points(evaluator)


def _regression_points(evaluator: BlockEvaluator) -> Floats:
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
        weight = apply_entry_weights(rows, tile, x)
        slope += (weight * residual) @ loadings[tile]
        packed += weight @ packed_products(loadings[tile])
    diagonal = packed_diagonal(k)
    packed[:, diagonal] += 1.0
    mean = PackedCholesky(packed, k).solve(slope)
    # Where rates overflow without components the prior is the only start.
    usable = np.isfinite(mean).all(axis=1, keepdims=True)
    return Posterior(np.where(usable, mean, 0.0), np.where(usable, 1.0 / packed[:, diagonal], 1.0)).points

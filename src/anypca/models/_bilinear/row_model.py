"""Inference for new rows of bilinear models, and the base class of their estimators."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from anypca._typing import Bools, Floats, Ints
from anypca.engine import Block
from anypca.exceptions import ConvergenceWarning, NonFiniteError
from anypca.families import Family
from anypca.linalg import PackedCholesky
from anypca.models._bilinear.alternating import Gauge, RowFit
from anypca.models._bilinear.conjugate import nearby_modes
from anypca.models._bilinear.evaluator import Coefficients
from anypca.models._bilinear.problem import BilinearProblem
from anypca.models._block_view import BlockView, check_rows, fixed_features, open_block
from anypca.models._row_model import RowModel, draw_normal
from anypca.priors import Prior, Ridge


def check_solved(found: RowFit, numbers: Ints) -> None:
    """Raise where the fitted model gives a row no likelihood: the intercepts of such a fit have diverged."""
    bad = ~np.isfinite(found.value)
    if bad.any():
        raise NonFiniteError(
            f"the log-likelihood of row {numbers[np.argmax(bad)]} overflows under the fitted model, whose "
            "maximum likelihood estimate is infinite. Fit again with a larger ridge."
        )
    warn_unsolved(found.converged, numbers)


def warn_unsolved(converged: Bools, numbers: Ints) -> None:
    """Warn when some rows, of the given numbers in their table, ran out of steps before their optimum."""
    if not converged.all():
        warnings.warn(
            f"{int(np.sum(~converged))} rows, the first being row {numbers[np.argmin(converged)]}, have no "
            "converged scores: their likelihood may have no finite maximum. "
            "Fit again with a larger ridge, or leave them out.",
            ConvergenceWarning,
            stacklevel=2,
        )


def covariances(prior: Prior, found: RowFit) -> Floats:
    """Covariances of the scores, from the curvature at their modes (Laplace), shape (rows, k, k)."""
    precision = found.curvature + prior.curvature(found.points)
    return PackedCholesky(precision, found.points.shape[1]).inverse()


def standard_deviations(prior: Prior, found: RowFit) -> Floats:
    """Deviations of the scores, from the curvature at their modes (Laplace), shape (rows, k)."""
    variances: Floats = np.einsum("iaa->ia", covariances(prior, found))
    return np.sqrt(variances)


def integrate_rows(
    rows: BlockView, found: RowFit, prior: Ridge, family: Family, dispersion: Floats
) -> tuple[Floats, Floats]:
    """Marginal log-likelihoods of rows and entropies of their scores in prior units, by Laplace; (rows,) each.

    ``found`` are the modes under ``prior``, whose precision is diagonal.
    """
    base = family.log_base_measure(rows.x, dispersion)
    if rows.observed is not None:
        base = np.where(rows.observed, base, 0.0)
    k = found.points.shape[1]
    precision = PackedCholesky(found.curvature + prior.curvature(found.points), k)
    determinant = precision.log_determinant() - np.log(prior.precision).sum()
    joint: Floats = found.value + base.sum(axis=1)
    entropy: Floats = 0.5 * (k * np.log(2.0 * np.pi * np.e) - determinant)
    return joint - 0.5 * determinant, entropy


Solved = TypeVar("Solved")

# Smallest variance of a score relative to the largest: a component that has vanished, its scores being a millionth of
# the others', keeps a proper prior.
_LEAST_VARIANCE = 1e-12


@dataclass(frozen=True, eq=False)
class Reported:
    """The reported coefficients of a bilinear model, which define its predictor."""

    family: Family
    coefficients: Coefficients
    """Loadings, intercepts and covariates' coefficients, dispersions."""
    score_variance: Floats
    """Of the training scores, shape (k,): scores are drawn, and integrated out, with it."""
    fit_intercept: bool


class BilinearRowModel(RowModel[Solved]):
    """A model with ``eta = offset + b + covariates B' + Z W'``; a subclass solves rows."""

    reported: Reported

    @property
    def family(self) -> Family:  # type: ignore[override]
        return self.reported.family

    @property
    def dispersion(self) -> Floats:  # type: ignore[override]
        return self.reported.coefficients.dispersion

    def open(self, block: Block, names: Sequence[str] | None = None) -> BlockView:
        rows = open_block(block, fit_intercept=self.reported.fit_intercept)
        check_rows(self.family, rows, names)
        return rows

    def predictor(self, block: Block, scores: Floats) -> Floats:
        known = self.reported
        design = np.hstack([scores, fixed_features(block, fit_intercept=known.fit_intercept)])
        eta: Floats = design @ known.coefficients.joint.T
        offset = block.offset()
        if offset is not None:
            eta += offset
        return eta

    def draw_scores(self, n_samples: int, rng: np.random.Generator) -> Floats:
        variance = self.reported.score_variance
        return rng.standard_normal((n_samples, len(variance))) * np.sqrt(variance)


@dataclass(frozen=True, eq=False)
class ModeRowModel(BilinearRowModel[RowFit]):
    """Rows under fixed loadings, those that are reported: modes of the scores and the curvature there (Laplace)."""

    likelihood = "Laplace"
    reported: Reported
    problem: BilinearProblem
    """Its score prior is the score prior of the fit, in reported coordinates."""

    def solve(self, rows: BlockView) -> RowFit:
        return self._solve(rows, self.problem.score_prior)

    def scores(self, solved: RowFit) -> Floats:
        return solved.points

    def deviations(self, solved: RowFit) -> Floats:
        return standard_deviations(self.problem.score_prior, solved)

    def log_likelihood(self, rows: BlockView) -> Floats:
        return self.integrate(rows)[0]

    def integrate(self, rows: BlockView) -> tuple[Floats, Floats]:
        """Marginal log-likelihoods under normal scores of the training variances, and the scores' entropies."""
        largest = self.reported.score_variance.max(initial=0.0)
        variance = np.maximum(self.reported.score_variance, _LEAST_VARIANCE * (1.0 + largest))
        prior = Ridge(1.0 / variance)
        return integrate_rows(rows, self._solve(rows, prior), prior, self.family, self.dispersion)

    def entry_moments(
        self, rows: BlockView, solved: RowFit, index: Ints, columns: Ints
    ) -> tuple[Floats, Floats]:
        known = self.reported.coefficients
        z = np.hstack([solved.points[index], rows.features[index]])
        used, place = np.unique(index, return_inverse=True)
        some = solved._replace(points=solved.points[used], curvature=solved.curvature[used])
        covariance, w = covariances(self.problem.score_prior, some)[place], known.loadings[columns]
        return np.einsum("ea,ea->e", z, known.joint[columns]), np.einsum("ea,eab,eb->e", w, covariance, w)

    def draw_posterior(
        self,
        block: Block,
        rows: BlockView,
        solved: RowFit,
        rng: np.random.Generator,
        shared: np.random.Generator,
    ) -> Floats:
        covariance = covariances(self.problem.score_prior, solved)
        return self.predictor(block, draw_normal(solved.points, covariance, rng))

    @property
    def has_one_optimum(self) -> bool:
        """Whether modes do not depend on where their search starts, but for rows that leave directions open."""
        return self.family.is_concave and isinstance(self.problem.score_prior, Ridge)

    def solve_training(self, block: Block, local: Floats, gauge: Gauge) -> Floats:
        """Modes of rows of the training table in its precision, (rows, k), from where their fit has left them.

        ``gauge`` leads from the coordinates of ``local`` to reported ones.
        """
        problem = replace(self.problem, precision=None, eps=float(np.finfo(block.dtype).eps))
        rows = problem.open(block)
        evaluator = problem.evaluator(self.reported.coefficients, rows)
        start = gauge.apply(local, rows.features)
        points, is_left = problem.polish_rows(evaluator, start)
        if is_left.any():
            found = problem.solve_rows(evaluator.take(is_left), start[is_left])
            if not found.converged.all():
                return self.solve(self.open(block)).points.astype(block.dtype)
            points[is_left] = found.points
        return points.astype(block.dtype, copy=False)

    def _solve(self, rows: BlockView, prior: Prior) -> RowFit:
        """Modes of rows under a score prior."""
        problem = replace(self.problem, score_prior=prior, eps=float(np.finfo(rows.dtype).eps))
        evaluator = problem.evaluator(self.reported.coefficients, rows)
        is_rough = problem.starts_rough and rows.dtype == np.float64
        start = nearby_modes(problem, evaluator) if is_rough else evaluator.origin
        found = problem.solve_rows(evaluator, start, is_rough=is_rough)
        check_solved(found, rows.numbers)
        return found


def store_coefficients(model: Any, coefficients: Coefficients, coef_std: Floats | None = None) -> None:
    """Set the fitted attributes of an estimator with ``eta = offset + b + covariates B' + Z W'``."""
    first, fixed = int(model.fit_intercept), coefficients.fixed
    model.components_ = coefficients.loadings.T.copy()
    intercept = fixed[:, 0].copy() if first else np.zeros(len(fixed))
    model._store_fixed(intercept, fixed[:, first:], coef_std)
    model.dispersion_ = coefficients.dispersion
    model.n_components_ = len(model.components_)


def coefficient_deviations(precision: Floats, n_covariates: int) -> Floats:
    """Standard deviations of the last coefficients of each column given the scores, (n_features, n_covariates).

    Parameters
    ----------
    precision : ndarray of shape (n_features, m (m + 1) / 2)
        Of loadings, intercept and covariates, packed.
    n_covariates : int
    """
    m = int(np.sqrt(2 * precision.shape[1]))
    covariance = PackedCholesky(precision, m).inverse()
    variance = np.einsum("jaa->ja", covariance)[:, m - n_covariates :]
    return np.asarray(np.sqrt(np.maximum(variance, 0.0)))

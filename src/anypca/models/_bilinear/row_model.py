"""Fitted bilinear models as rows see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import Block
from anypca.families import Family
from anypca.models._bilinear.alternating import RowFit
from anypca.models._bilinear.coefficients import Coefficients
from anypca.models._bilinear.problem import BilinearProblem
from anypca.models._bilinear.rows import check_solved, covariances, integrate_rows, standard_deviations
from anypca.models._opened import OpenedBlock, fixed_features, open_block
from anypca.models._row_model import RowModel
from anypca.models._support import check_rows
from anypca.priors import Prior, Ridge

Solved = TypeVar("Solved")

# Smallest variance of a score relative to the largest: a component that has vanished, its scores being a millionth of
# the others', keeps a proper prior.
_LEAST_VARIANCE = 1e-12


@dataclass(frozen=True, eq=False)
class Reported:
    """The coefficients that a bilinear model reports: what its predictor is made of."""

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

    def open(self, block: Block, names: Sequence[str] | None = None) -> OpenedBlock:
        rows = open_block(block, fit_intercept=self.reported.fit_intercept)
        check_rows(self.family, rows, names)
        return rows

    def predictor(self, block: Block, scores: Floats) -> Floats:
        known = self.reported
        features = fixed_features(block, fit_intercept=known.fit_intercept)
        eta = scores @ known.coefficients.loadings.T + features @ known.coefficients.fixed.T
        offset = block.offset()
        return eta if offset is None else eta + offset

    def draw_scores(self, n_samples: int, rng: np.random.Generator) -> Floats:
        variance = self.reported.score_variance
        return rng.standard_normal((n_samples, len(variance))) * np.sqrt(variance)


@dataclass(frozen=True, eq=False)
class ModeRowModel(BilinearRowModel[RowFit]):
    """Rows under fixed loadings, those that are reported: modes of the scores and the curvature there (Laplace)."""

    likelihood = "Laplace"
    reported: Reported
    problem: BilinearProblem
    """Its score prior is that of the fit, in reported coordinates."""

    def solve(self, rows: OpenedBlock) -> RowFit:
        return self._solve(rows, self.problem.score_prior)

    def scores(self, solved: RowFit) -> Floats:
        return solved.points

    def deviations(self, solved: RowFit) -> Floats:
        return standard_deviations(self.problem.score_prior, solved)

    def log_likelihood(self, rows: OpenedBlock) -> Floats:
        return self.integrate(rows)[0]

    def integrate(self, rows: OpenedBlock) -> tuple[Floats, Floats]:
        """Marginal log-likelihoods under normal scores of the training variances, and the scores' entropies."""
        largest = self.reported.score_variance.max(initial=0.0)
        variance = np.maximum(self.reported.score_variance, _LEAST_VARIANCE * (1.0 + largest))
        prior = Ridge(1.0 / variance)
        return integrate_rows(rows, self._solve(rows, prior), prior, self.family, self.dispersion)

    def entry_moments(
        self, rows: OpenedBlock, solved: RowFit, index: Ints, columns: Ints
    ) -> tuple[Floats, Floats]:
        known = self.reported.coefficients
        z = np.hstack([solved.points[index], rows.features[index]])
        used, place = np.unique(index, return_inverse=True)
        some = solved._replace(points=solved.points[used], curvature=solved.curvature[used])
        covariance, w = covariances(self.problem.score_prior, some)[place], known.loadings[columns]
        return np.einsum("ea,ea->e", z, known.joint[columns]), np.einsum("ea,eab,eb->e", w, covariance, w)

    def _solve(self, rows: OpenedBlock, prior: Prior) -> RowFit:
        """Modes of rows under a score prior."""
        problem = replace(self.problem, score_prior=prior, eps=float(np.finfo(rows.dtype).eps))
        evaluator = problem.evaluator(self.reported.coefficients, rows)
        found = problem.solve_rows(evaluator, evaluator.origin)
        check_solved(found, rows.numbers)
        return found

"""What a fitted model says of rows: by a posterior of the loadings, or by their mode."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from anypca._typing import Floats, Ints
from anypca.families import Family
from anypca.linalg import PackedCholesky
from anypca.models._bilinear.kernel import Coefficients, Rows
from anypca.models._bilinear.problem import BilinearProblem
from anypca.models._bilinear.rows import (
    RowFit,
    check_solved,
    covariances,
    integrate_rows,
    solve_rows,
    standard_deviations,
    warn_unsolved,
)
from anypca.models.sepca._posterior import Loadings, Scores
from anypca.models.sepca._variational import VariationalProblem
from anypca.priors import Prior, Ridge


@dataclass(frozen=True, eq=False)
class PosteriorView:
    """Rows under a posterior of the loadings."""

    problem: VariationalProblem
    loadings: Loadings
    order: Ints
    """Of the reported components, shape (k,)."""
    signs: Floats
    """Of the reported components, shape (k,)."""

    def project(self, rows: Rows, start: int, *, with_std: bool) -> tuple[Floats, Floats]:
        """Posterior means and standard deviations."""
        found = self._posterior(rows, start)
        scores = found.mean[:, self.order] * self.signs
        if not with_std:
            return scores, scores
        inverse = PackedCholesky(found.precision, found.mean.shape[1]).inverse()
        return scores, np.sqrt(np.einsum("iaa->ia", inverse))[:, self.order]

    def log_likelihood(self, rows: Rows, start: int, family: Family, dispersion: Floats) -> Floats:
        """Lower bound of each row's, shape (rows,)."""
        scores = self._posterior(rows, start)
        base = family.log_base(rows.x, dispersion)
        if rows.observed is not None:
            base = np.where(rows.observed, base, 0.0)
        total: Floats = self.problem.row_bounds(rows, self.loadings, scores) + base.sum(axis=1)
        return total

    def predictor(self, rows: Rows, start: int, index: Ints, columns: Ints) -> tuple[Floats, Floats]:
        """Mean and variance at entries without the offset, (n_entries,) each: scores and loadings are independent."""
        scores, k = self._posterior(rows, start), self.loadings.n_components
        z = np.hstack([scores.mean, rows.features])[index]
        S = PackedCholesky(scores.precision, k).inverse()[index]
        w, C = self.loadings.mean[columns], self.loadings.covariance[columns]
        variance = np.einsum("ea,eab,eb->e", z, C, z)
        variance += np.einsum("ea,eab,eb->e", w[:, :k], S, w[:, :k])
        variance += np.einsum("eab,eab->e", S, C[:, :k, :k])
        return np.einsum("ea,ea->e", z, w), variance

    def _posterior(self, rows: Rows, start: int) -> Scores:
        problem = replace(self.problem, eps=float(np.finfo(rows.dtype).eps))
        scores, solved = problem.solve_rows(rows, self.loadings)
        warn_unsolved(solved, start)
        return scores


@dataclass(frozen=True, eq=False)
class ModeView:
    """Rows under fixed loadings, those that are reported."""

    problem: BilinearProblem
    """Its score prior is that of the fit."""
    coefficients: Coefficients

    def project(self, rows: Rows, start: int, *, with_std: bool) -> tuple[Floats, Floats]:
        """Modes under the prior of the fit, standard deviations from the curvature there."""
        prior = self.problem.score_prior
        found = self._solve(rows, start, prior)
        return found.scores, standard_deviations(prior, found) if with_std else found.scores

    def log_likelihood(self, rows: Rows, start: int, family: Family, dispersion: Floats) -> Floats:
        """Of each row with the scores integrated out by Laplace's approximation, shape (rows,)."""
        prior = Ridge(np.ones(self.coefficients.loadings.shape[1]))
        return integrate_rows(rows, self._solve(rows, start, prior), prior, family, dispersion)[0]

    def predictor(self, rows: Rows, start: int, index: Ints, columns: Ints) -> tuple[Floats, Floats]:
        """Mode at entries without the offset, and its variance if the loadings were known, (n_entries,) each."""
        prior = self.problem.score_prior
        found = self._solve(rows, start, prior)
        z = np.hstack([found.scores, rows.features])[index]
        w, loadings = self.coefficients.joint[columns], self.coefficients.loadings[columns]
        variance = np.einsum("ea,eab,eb->e", loadings, covariances(prior, found)[index], loadings)
        return np.einsum("ea,ea->e", z, w), variance

    def _solve(self, rows: Rows, start: int, prior: Prior) -> RowFit:
        problem = replace(self.problem, score_prior=prior, eps=float(np.finfo(rows.dtype).eps))
        found = solve_rows(problem, self.coefficients, rows)
        check_solved(found, start)
        return found

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

# Entries whose matrices are gathered together.
_ENTRIES_AT_ONCE = 8192


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
        used, index = np.unique(index, return_inverse=True)
        scores, k = self._posterior(rows, start, used), self.loadings.n_components
        design = np.hstack([scores.mean, rows.features[used]])
        covariance = PackedCholesky(scores.precision, k).inverse()
        asked, place = np.unique(columns, return_inverse=True)
        of_columns = PackedCholesky(self.loadings.precision[asked], design.shape[1]).inverse()
        mean, variance = np.empty(len(index)), np.empty(len(index))
        for first in range(0, len(index), _ENTRIES_AT_ONCE):
            part = slice(first, first + _ENTRIES_AT_ONCE)
            z, S = design[index[part]], covariance[index[part]]
            w, C = self.loadings.mean[columns[part]], of_columns[place[part]]
            mean[part] = np.einsum("ea,ea->e", z, w)
            variance[part] = (
                np.einsum("ea,eab,eb->e", z, C, z)
                + np.einsum("ea,eab,eb->e", w[:, :k], S, w[:, :k])
                + np.einsum("eab,eab->e", S, C[:, :k, :k])
            )
        return mean, variance

    def _posterior(self, rows: Rows, start: int, some: Ints | None = None) -> Scores:
        """q(z) of all rows of a block, or of some."""
        problem = replace(self.problem, eps=float(np.finfo(rows.dtype).eps))
        scores, solved = problem.solve_rows(rows if some is None else rows.take(some), self.loadings)
        converged = np.ones(rows.n_rows, dtype=bool)
        converged[slice(None) if some is None else some] = solved
        warn_unsolved(converged, start)
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

"""Rows under a posterior of the loadings."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import Block
from anypca.linalg import packed_diagonal, unpack_symmetric
from anypca.models._bilinear.row_model import BilinearRowModel, Reported, warn_unsolved
from anypca.models._block_view import BlockView, apply_entry_weights
from anypca.models._row_model import draw_normal, predictive_log_mass, with_offset
from anypca.models.sepca._posterior import Loadings, Scores, invert
from anypca.models.sepca._sweep import VariationalProblem


@dataclass(frozen=True, eq=False)
class PosteriorRowModel(BilinearRowModel[Scores]):
    """Rows under a variational posterior of the loadings."""

    likelihood = "bound"
    reported: Reported
    problem: VariationalProblem
    loadings: Loadings
    order: Ints
    """Of the reported components, shape (k,)."""
    signs: Floats
    """Of the reported components, shape (k,)."""

    def solve(self, rows: BlockView) -> Scores:
        problem = replace(self.problem, eps=float(np.finfo(rows.dtype).eps))
        scores, converged = problem.solve_rows(rows, self.loadings)
        warn_unsolved(converged, rows.numbers)
        return scores

    def scores(self, solved: Scores) -> Floats:
        return np.asarray(solved.mean[:, self.order] * self.signs)

    def deviations(self, solved: Scores) -> Floats:
        k = solved.mean.shape[1]
        return np.asarray(np.sqrt(invert(solved.precision, k)[0][:, packed_diagonal(k)])[:, self.order])

    def log_likelihood(self, rows: BlockView) -> Floats:
        """A lower bound of each row's, shape (rows,)."""
        base = apply_entry_weights(rows, slice(None), self.family.log_base_measure(rows.x, self.dispersion))
        bound: Floats = self.problem.row_bounds(rows, self.loadings, self.solve(rows)) + base.sum(axis=1)
        return bound

    def entry_log_likelihood(
        self, block: Block, rows: BlockView, index: Ints, columns: Ints, values: Floats, steps: Floats
    ) -> Floats:
        """Averaged over the posterior of scores and loadings."""
        solved = self.solve(rows)
        moments = with_offset(rows, index, columns, *self.entry_moments(rows, solved, index, columns))
        family, dispersion = self.family.take(columns), self.dispersion[columns]
        return predictive_log_mass(family, values, moments, dispersion, steps[columns])

    def draw_posterior(
        self,
        block: Block,
        rows: BlockView,
        solved: Scores,
        rng: np.random.Generator,
        shared: np.random.Generator,
    ) -> Floats:
        """Scores and loadings are drawn from their posteriors."""
        k = self.loadings.n_components
        covariance = unpack_symmetric(self.loadings.covariance, self.loadings.mean.shape[1])
        loadings = draw_normal(self.loadings.mean, covariance, shared)
        scores = draw_normal(solved.mean, unpack_symmetric(invert(solved.precision, k)[0], k), rng)
        eta: Floats = np.hstack([scores, rows.features]) @ loadings.T
        offset = block.offset()
        return eta if offset is None else eta + offset

    def entry_moments(
        self, rows: BlockView, solved: Scores, index: Ints, columns: Ints
    ) -> tuple[Floats, Floats]:
        """Scores and loadings are independent normal vectors."""
        k = self.loadings.n_components
        used, row = np.unique(index, return_inverse=True)
        S = unpack_symmetric(invert(solved.precision[used], k)[0], k)[row]
        z, w = np.hstack([solved.mean[index], rows.features[index]]), self.loadings.mean[columns]
        C = unpack_symmetric(self.loadings.covariance[columns], z.shape[1])
        variance = (
            np.einsum("ea,eab,eb->e", z, C, z)
            + np.einsum("ea,eab,eb->e", w[:, :k], S, w[:, :k])
            + np.einsum("eab,eab->e", S, C[:, :k, :k])
        )
        return np.einsum("ea,ea->e", z, w), variance

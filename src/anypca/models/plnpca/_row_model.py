"""A fitted Poisson log-normal model as rows see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import Block
from anypca.models._bilinear.alternating import RowFit
from anypca.models._bilinear.row_model import BilinearRowModel, Reported
from anypca.models._block_view import BlockView, apply_entry_weights, check_rows, open_block
from anypca.models.plnpca._fit import PLNFit
from anypca.models.plnpca._problem import Posterior


@dataclass(frozen=True, eq=False)
class CountRowModel(BilinearRowModel[RowFit]):
    """Rows of counts: independent normal posteriors in the coordinates of the fit."""

    likelihood = "bound"
    reported: Reported
    fit: PLNFit

    def open(self, block: Block, names: Sequence[str] | None = None) -> BlockView:
        rows = open_block(
            block, fit_intercept=self.reported.fit_intercept, family=self.fit.problem.family, dense=True
        )
        check_rows(self.family, rows, names)
        return rows

    def solve(self, rows: BlockView) -> RowFit:
        problem = replace(self.fit.problem, eps=float(np.finfo(rows.dtype).eps))
        return problem.posteriors(self.fit.coefficients, rows)

    def scores(self, solved: RowFit) -> Floats:
        return np.asarray(Posterior.of(solved.points).mean @ self.fit.canonical.gauge.matrix)

    def deviations(self, solved: RowFit) -> Floats:
        return np.asarray(np.sqrt(Posterior.of(solved.points).variance @ self.fit.canonical.gauge.matrix**2))

    def log_likelihood(self, rows: BlockView) -> Floats:
        """A lower bound of each row's, shape (rows,)."""
        base = apply_entry_weights(
            rows, slice(None), self.family.log_base_measure(np.asarray(rows.x, dtype=float))
        )
        return np.asarray(self.solve(rows).value + base.sum(axis=1))

    def expected(self, block: Block, rows: BlockView, solved: RowFit) -> Floats:
        """Expected rates under the posterior, which are above those at its mean."""
        evaluator = self.fit.problem.evaluator(self.fit.coefficients, rows)
        return self.family.mean(evaluator.predictor(solved.points, slice(None)))

    def entry_moments(
        self, rows: BlockView, solved: RowFit, index: Ints, columns: Ints
    ) -> tuple[Floats, Floats]:
        known, posterior = self.fit.coefficients, Posterior.of(solved.points[index])
        z = np.hstack([posterior.mean, rows.features[index]])
        variance = np.einsum("ea,ea->e", posterior.variance, known.loadings[columns] ** 2)
        return np.einsum("ea,ea->e", z, known.joint[columns]), variance

    def draw_posterior(
        self,
        block: Block,
        rows: BlockView,
        solved: RowFit,
        rng: np.random.Generator,
        shared: np.random.Generator,
    ) -> Floats:
        posterior = Posterior.of(solved.points)
        drawn = rng.normal(posterior.mean, np.sqrt(posterior.variance))
        return self.predictor(block, drawn @ self.fit.canonical.gauge.matrix)

    def draw_scores(self, n_samples: int, rng: np.random.Generator) -> Floats:
        """From the second moment of the posteriors: rows drawn have the log rates' covariance that is reported."""
        matrix, root = self.fit.canonical.gauge.matrix, np.linalg.cholesky(self.fit.second_moment)
        return np.asarray(rng.standard_normal((n_samples, len(matrix))) @ root.T @ matrix)

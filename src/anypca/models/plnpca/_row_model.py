"""A fitted Poisson log-normal model as rows see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import Block
from anypca.models._bilinear.row_model import BilinearRowModel, Reported
from anypca.models._opened import OpenedBlock
from anypca.models._support import check_rows
from anypca.models.plnpca._fit import PLNFit
from anypca.models.plnpca._kernel import CountRows, Kernel, open_counts
from anypca.models.plnpca._rows import RowFit, solve_rows


@dataclass(frozen=True, eq=False)
class CountRowModel(BilinearRowModel[RowFit]):
    """Rows of counts: independent normal posteriors in the coordinates of the fit."""

    likelihood = "bound"
    reported: Reported
    fit: PLNFit

    def open(self, block: Block, names: Sequence[str] | None = None) -> CountRows:
        rows = open_counts(block, fit_intercept=self.reported.fit_intercept, dense=True)
        check_rows(self.family, rows, names)
        return rows

    def solve(self, rows: OpenedBlock) -> RowFit:
        assert isinstance(rows, CountRows)
        problem = replace(self.fit.problem, eps=float(np.finfo(rows.dtype).eps))
        return solve_rows(problem, self.fit.coefficients, rows)

    def scores(self, solved: RowFit) -> Floats:
        return np.asarray(solved.state.mean @ self.fit.canonical.matrix)

    def deviations(self, solved: RowFit) -> Floats:
        return np.asarray(np.sqrt(solved.state.variance @ self.fit.canonical.matrix**2))

    def log_likelihood(self, rows: OpenedBlock) -> Floats:
        """A lower bound of each row's, shape (rows,)."""
        assert isinstance(rows, CountRows)
        return self.solve(rows).value + rows.log_base()

    def expected(self, block: Block, rows: OpenedBlock, solved: RowFit) -> Floats:
        """Expected rates under the posterior, which are above those at its mean."""
        assert isinstance(rows, CountRows)
        return Kernel(self.fit.coefficients, replace(rows, table=None)).rates(solved.state, slice(None))

    def entry_moments(
        self, rows: OpenedBlock, solved: RowFit, index: Ints, columns: Ints
    ) -> tuple[Floats, Floats]:
        known, state = self.fit.coefficients, solved.state.take(index)
        z = np.hstack([state.mean, rows.features[index]])
        variance = np.einsum("ea,ea->e", state.variance, known.loadings[columns] ** 2)
        return np.einsum("ea,ea->e", z, known.joint[columns]), variance

    def draw_scores(self, n_samples: int, rng: np.random.Generator) -> Floats:
        matrix = self.fit.canonical.matrix
        return np.asarray(rng.standard_normal((n_samples, len(matrix))) @ matrix)

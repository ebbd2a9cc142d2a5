"""Inference for rows under a fitted globally sparse model."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import Block, Table
from anypca.models._block_view import BlockView, check_complete
from anypca.models._gaussian.row_model import PrincipalRowModel, SolvedRows


@dataclass(frozen=True, eq=False)
class SparseRowModel(PrincipalRowModel):
    """Rows of ``x = centre + scale * (U' t + e)``: probabilistic PCA of standardised rows.

    The scores are projections on the components, as in PCA of the selected columns, and require complete rows.
    """

    centre: Floats
    """(n_features,)"""
    scale: Floats
    """(n_features,)"""

    @property
    def dispersion(self) -> Floats:  # type: ignore[override]
        return np.asarray(self.principal.noise * self.scale**2)

    def solve(self, rows: BlockView) -> SolvedRows:
        standardised = (rows.x.astype(np.float64) - self.centre) / self.scale
        return super().solve(replace(rows, table=Table(standardised, rows.observed)))

    def scores(self, solved: SolvedRows) -> Floats:
        _refuse_missing(solved.rows)
        return np.asarray(solved.posterior.centred @ self.principal.components.T)

    def deviations(self, solved: SolvedRows) -> Floats:
        """Deviations of true coordinates from the projections: the noise along the components, equal for all rows."""
        shape = (solved.rows.n_rows, len(self.principal.components))
        return np.full(shape, np.sqrt(self.principal.noise))

    def log_likelihood(self, rows: BlockView) -> Floats:
        _refuse_missing(rows)
        return np.asarray(super().log_likelihood(rows) - np.log(self.scale).sum())

    def predictor(self, block: Block, scores: Floats) -> Floats:
        return np.asarray(super().predictor(block, scores) * self.scale + self.centre)

    def expected(self, block: Block, rows: BlockView, solved: SolvedRows) -> Floats:
        """Conditional means given the observed entries."""
        return self.predictor(block, self.posterior_means(solved))

    def entry_moments(
        self, rows: BlockView, solved: SolvedRows, index: Ints, columns: Ints
    ) -> tuple[Floats, Floats]:
        mean, variance = super().entry_moments(rows, solved, index, columns)
        scale = self.scale[columns]
        return self.centre[columns] + scale * mean, scale**2 * variance


def _refuse_missing(rows: BlockView) -> None:
    check_complete(rows, "GSPPCA", remedy="impute of the fitted model")

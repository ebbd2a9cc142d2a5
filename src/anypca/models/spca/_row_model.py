"""A fitted sparse PCA as rows see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block
from anypca.models._complete import open_complete
from anypca.models._opened import OpenedBlock
from anypca.models._row_model import RowModel


@dataclass(frozen=True, eq=False)
class RegressionRowModel(RowModel[Floats]):
    """Scores by projection, rows from scores by the least squares regression of the training rows."""

    likelihood = "distance"
    components: Floats
    """(k, n_features)."""
    back: Floats
    """Coefficients of the regression, (k, n_features)."""
    centre: Floats
    """(n_features,)."""

    def open(self, block: Block, names: Sequence[str] | None = None) -> OpenedBlock:
        return open_complete(block, "SPCA", names)

    def solve(self, rows: OpenedBlock) -> Floats:
        return np.asarray((rows.x - self.centre) @ self.components.T)

    def log_likelihood(self, rows: OpenedBlock) -> Floats:
        """Negative squared distances of the rows from their reconstructions, shape (rows,)."""
        residuals = rows.x - self.centre - self.solve(rows) @ self.back
        return np.asarray(-np.einsum("ij,ij->i", residuals, residuals))

    def mean(self, block: Block, scores: Floats) -> Floats:
        return np.asarray(scores @ self.back + self.centre)

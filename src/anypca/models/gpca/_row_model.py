"""A fitted generalised PCA as rows see it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import Block
from anypca.families import Family
from anypca.models._block_view import BlockView, apply_entry_weights, observed_only
from anypca.models._row_model import RowModel
from anypca.models.gpca._projection import Subspace, project
from anypca.models.gpca._reader import Reader


@dataclass(frozen=True, eq=False)
class ProjectionRowModel(RowModel[Floats]):
    """Rows whose scores are projections of their saturated parameters."""

    likelihood = "plug-in"
    subspace: Subspace
    reader: Reader
    dispersion: Floats
    score_variance: Floats
    """Of the training scores, shape (k,); new ones are drawn with it."""

    @property
    def family(self) -> Family:  # type: ignore[override]
        return self.reader.family

    def solve(self, rows: BlockView) -> Floats:
        found = np.concatenate([project(some, self.subspace).scores for some in self.reader.split(rows)])
        if rows.observed is not None:  # rows without observed entries get the mean of all scores
            found[~rows.observed.any(axis=1)] = 0.0
        return found

    def scores(self, solved: Floats) -> Floats:
        return solved

    def log_likelihood(self, rows: BlockView) -> Floats:
        """Log-likelihood at the projection of each row, (rows,): scores have no distribution to integrate over."""
        # At missing entries eta may be anything, also too large for its exponential.
        eta = observed_only(rows, slice(None), self._predict(self.solve(rows)))
        terms = self.family.log_likelihood(rows.x.astype(np.float64), eta, self.dispersion)
        return np.asarray(apply_entry_weights(rows, slice(None), terms).sum(axis=1))

    def predictor(self, block: Block, scores: Floats) -> Floats:
        return self._predict(scores)

    def leverages(
        self, rows: BlockView, solved: Floats, eta: Floats, index: Ints, columns: Ints
    ) -> tuple[Floats, Floats]:
        """The predictor is a projection of the saturated parameters, which are the working values."""
        some = self.reader.split(rows.take(np.unique(index)))
        saturated = np.concatenate([part.saturated for part in some])
        place = np.unique(index, return_inverse=True)[1]
        leverage = np.einsum("ja,ja->j", self.subspace.loadings, self.subspace.loadings)
        return leverage[columns], saturated[place, columns] - eta

    def draw_scores(self, n_samples: int, rng: np.random.Generator) -> Floats:
        return rng.standard_normal((n_samples, len(self.score_variance))) * np.sqrt(self.score_variance)

    def _predict(self, scores: Floats) -> Floats:
        return np.asarray(scores @ self.subspace.loadings.T + self.subspace.intercept)

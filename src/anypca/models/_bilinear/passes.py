"""Single passes over the blocks: constants, residuals, deviances, dispersion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block
from anypca.families import Family
from anypca.models._bilinear.kernel import Coefficients, Kernel
from anypca.models._opened import OpenedBlock, observed_only, open_block
from anypca.models._session import Session


@dataclass(frozen=True, eq=False)
class Deviances:
    """Deviance of a model, of the model without components, and without each of them."""

    null: float
    full: float
    without: Floats
    """(k,)."""

    @property
    def shares(self) -> Floats:
        """Share of the null deviance explained by each component, summing to the whole model's share, (k,)."""
        # Without a ridge scores can be so large that a model without their component has an infinite deviance.
        largest = np.finfo(float).max / max(len(self.without), 1)
        unique = np.clip(self.without - self.full, 0.0, largest)
        if self.null <= 0 or not unique.sum() > 0:
            return np.zeros(len(unique))
        shares: Floats = max(1.0 - self.full / self.null, 0.0) * (unique / unique.sum())
        return shares


@dataclass(frozen=True, eq=False)
class Pass:
    """Visits the blocks with their scores and sums arrays.

    Parameters
    ----------
    session : Session
    fit_intercept : bool
    """

    session: Session
    fit_intercept: bool

    def sum(
        self, function: Callable[[OpenedBlock, Floats], Floats], local: Sequence[Any] | None = None
    ) -> Floats:
        """Sum of ``function(rows, scores)`` over the blocks; without locals the scores have no columns."""
        fit_intercept = self.fit_intercept

        def visit(block: Block, scores: Floats | None) -> Floats:
            rows = open_block(block, fit_intercept=fit_intercept)
            return function(rows, np.zeros((rows.n_rows, 0)) if scores is None else scores)

        found: Floats = self.session.sum(visit, local)
        return found

    def log_base(self, family: Family, dispersion: Floats) -> float:
        """Weighted sum of the likelihood's terms without eta."""

        def function(rows: OpenedBlock, scores: Floats) -> Floats:
            terms = observed_only(rows, slice(None), family.log_base(rows.x, dispersion))
            return np.array([rows.weights @ terms.sum(axis=1, dtype=float)])

        return float(self.sum(function)[0])

    def deviances(self, family: Family, coefficients: Coefficients, local: Sequence[Any] | None) -> Floats:
        """Deviance of the model, then of the model without each component: shape (k + 1,)."""

        def function(rows: OpenedBlock, scores: Floats) -> Floats:
            k = coefficients.loadings.shape[1]
            kernel = Kernel(family, coefficients, rows)
            saturated = observed_only(rows, slice(None), family.saturated(rows.x, coefficients.dispersion))
            found = np.full(k + 1, rows.weights @ saturated.sum(axis=1, dtype=float))
            found[0] -= rows.weights @ kernel.row_values(scores)
            for a in range(k):
                without = scores.copy()
                without[:, a] = 0.0
                found[a + 1] -= rows.weights @ kernel.row_values(without)
            return 2.0 * found

        return self.sum(function, local)

    def pearson(self, family: Family, coefficients: Coefficients, local: Sequence[Any] | None) -> Floats:
        """Weighted sum of squared Pearson residuals and weighted number of entries per column: (2, n_features)."""

        def function(rows: OpenedBlock, scores: Floats) -> Floats:
            kernel = Kernel(family, coefficients, rows)
            found = np.empty((2, rows.n_features))
            for tile in rows.tiles():
                # At missing entries eta may be anything, also too large for its exponential.
                eta = observed_only(rows, tile, kernel.predictor(scores, tile))
                dispersion = coefficients.dispersion[tile].astype(eta.dtype)
                terms = family.columns(tile).pearson(rows.x[:, tile], eta, dispersion)
                found[0, tile] = rows.weights @ observed_only(rows, tile, terms)
                found[1, tile] = rows.weights @ observed_only(rows, tile, np.ones_like(terms))
            return found

        return self.sum(function, local)

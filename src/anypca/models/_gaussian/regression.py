"""Scores by projection on components that need not be orthogonal, and the way back by regression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.linalg

from anypca._typing import Floats
from anypca.engine import Block
from anypca.models._block_view import BlockView, open_complete
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
    name: str
    """Of the estimator, for messages."""

    def open(self, block: Block, names: Sequence[str] | None = None) -> BlockView:
        return open_complete(block, self.name, names)

    def solve(self, rows: BlockView) -> Floats:
        return np.asarray((rows.x - self.centre) @ self.components.T)

    def log_likelihood(self, rows: BlockView) -> Floats:
        """Negative squared distances of the rows from their reconstructions, shape (rows,)."""
        residuals = rows.x - self.centre - self.solve(rows) @ self.back
        return np.asarray(-np.einsum("ij,ij->i", residuals, residuals))

    def mean(self, block: Block, scores: Floats) -> Floats:
        return np.asarray(scores @ self.back + self.centre)


class Regression(NamedTuple):
    """Regression of the columns of a table on its scores."""

    back: Floats
    """Least squares coefficients (k, n_features)."""
    squares: Floats
    """Squares of each score beyond the scores before it (k,)."""


def regress_on_scores(components: Floats, image: Floats) -> Regression:
    """The way back to the columns, from components (k, n_features) and ``G components'`` with G = X'X."""
    inner = components @ image
    return Regression(np.asarray(scipy.linalg.pinvh(inner) @ image.T), adjusted_squares(inner))


def adjusted_squares(inner: Floats) -> Floats:
    """Squared diagonal of the triangular factor of Z, from Z'Z (k, k).

    Entry j is the squared length of score j after its regression on the scores before it: what it adds.
    """
    values, vectors = scipy.linalg.eigh(inner)
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    triangle = np.linalg.qr(root, mode="r")
    return np.asarray(np.diag(triangle) ** 2)

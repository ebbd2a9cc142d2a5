"""Inference for new rows of a kernel PCA; pre-images by ridge regression of rows on features of their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from anypca._typing import Floats
from anypca.engine import Block
from anypca.models._block_view import BlockView, open_complete
from anypca.models._context import FitContext
from anypca.models._row_model import RowModel
from anypca.models.kernel._features import FEATURE_MAPS, Embedding, FeatureMap, KernelValues, chunks
from anypca.models.kernel._fit import Settings, all_rows, sample_rows
from anypca.models.kernel._kernels import Kernel


@dataclass(frozen=True)
class Preimage:
    """Scores to rows, by ridge regression on features of the scores."""

    feature_map: FeatureMap
    """Explicit features, or kernel values with all training scores."""
    coefficients: Floats
    """(n_basis, n_features)"""
    mean: Floats
    """(n_features,)"""

    def rows(self, scores: Floats) -> Floats:
        """(n, n_features) from (n, n_components)."""
        parts = chunks(scores, len(self.coefficients))
        return np.concatenate(
            [self.feature_map.features(part) @ self.coefficients + self.mean for part in parts]
        )


def learn_preimage(
    session: FitContext, settings: Settings, kernel: Kernel, embedding: Embedding, alpha: float
) -> Preimage:
    """Regress the rows on features of their scores, with the ridge ``alpha``."""
    mean, sample = session.summary.mean, embedding.scores(sample_rows(session))
    if isinstance(settings.gamma, str):  # a rule, applied to the scores
        kernel = settings.bind(sample, float(np.var(sample)))
    if settings.method not in FEATURE_MAPS:
        table = all_rows(session, dense=True)
        scores = embedding.scores(table)
        coefficients = _solve_ridge(kernel.between(scores, scores), table - mean, alpha)
        return Preimage(KernelValues(kernel, scores), coefficients, mean)
    feature_map = FEATURE_MAPS[settings.method](kernel, sample, settings.n_basis, session.rng)
    width = feature_map.features(sample[:1]).shape[1]

    def products(block: Block, _: None) -> Floats:
        found = np.zeros((width, width + len(mean)))
        for part in chunks(block.read().x.astype(np.float64, copy=False), width):
            features = feature_map.features(embedding.scores(part))
            found += features.T @ np.hstack([features, part - mean])
        return found

    sums = session.sum(products)
    return Preimage(feature_map, _solve_ridge(sums[:, :width], sums[:, width:], alpha), mean)


def _solve_ridge(matrix: Floats, right: Floats, alpha: float) -> Floats:
    """``(matrix + alpha I)^-1 right``; a least squares solution if that matrix is singular."""
    ridged = matrix + alpha * np.eye(len(matrix))
    try:
        return np.asarray(scipy.linalg.solve(ridged, right, assume_a="pos"))
    except scipy.linalg.LinAlgError:  # alpha = 0, or too small for rounding
        return np.asarray(scipy.linalg.lstsq(ridged, right)[0])


@dataclass(frozen=True, eq=False)
class KernelRowModel(RowModel[Floats]):
    """Scores in the space of a kernel, and the learned pre-images."""

    likelihood = "distance"
    embedding: Embedding
    preimage: Preimage | None

    def open(self, block: Block, names: Sequence[str] | None = None) -> BlockView:
        return open_complete(block, "KernelPCA", names)

    def solve(self, rows: BlockView) -> Floats:
        return self.embedding.scores(rows.x)

    def log_likelihood(self, rows: BlockView) -> Floats:
        """Negative squared distances of the rows from the span of the components, shape (rows,)."""
        x = rows.x.astype(np.float64)
        scores = self.embedding.scores(x)
        return np.asarray(np.einsum("ij,ij->i", scores, scores) - self.embedding.squares(x))

    def mean(self, block: Block, scores: Floats) -> Floats:
        if self.preimage is None:
            raise ValueError(
                "inverse_transform was not learned. Construct KernelPCA with fit_inverse_transform=True and fit "
                "again."
            )
        return self.preimage.rows(scores.astype(np.float64))

"""A fitted kernel PCA as rows see it, and the way back: rows regressed on features of their scores, with a ridge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from anypca._typing import Floats
from anypca.engine import Block, Statistics
from anypca.models._opened import OpenedBlock, open_complete
from anypca.models._row_model import RowModel
from anypca.models.kernel._embedding import Embedding, FeatureMap, KernelValues
from anypca.models.kernel._fit import Method
from anypca.models.kernel._kernels import Kernel
from anypca.models.kernel._read import all_rows, chunks, sample_rows


@dataclass(frozen=True)
class Preimage:
    """Scores to rows, by ridge regression on features of the scores."""

    features: FeatureMap | KernelValues
    """Explicit ones, or kernel values with all training scores."""
    coefficients: Floats
    """(n_basis, n_features)"""
    mean: Floats
    """(n_features,)"""

    def rows(self, scores: Floats) -> Floats:
        """(n, n_features) from (n, n_components)."""
        parts = chunks(scores, len(self.coefficients))
        rows = np.concatenate([self.features.features(part) @ self.coefficients for part in parts])
        return np.asarray(rows + self.mean)


@dataclass(frozen=True)
class _Products(Statistics):
    """Sums over rows of products of features with features, and with the rows."""

    gram: Floats
    cross: Floats


def learn_preimage(method: Method, kernel: Kernel, embedding: Embedding, alpha: float) -> Preimage:
    """Learn to rebuild rows from scores.

    Parameters
    ----------
    method : Method
        By which the embedding was found.
    kernel : Kernel
        Of the rows.
    embedding : Embedding
    alpha : float
        Ridge.

    Returns
    -------
    Preimage
    """
    session, mean = method.session, method.session.summary.mean
    sample = embedding.scores(sample_rows(session))
    if isinstance(method.settings.kernel.gamma, str):  # a rule, to be applied to the scores
        kernel = method.settings.kernel.bind(sample)
    feature_map = method.score_map(kernel, sample)
    if feature_map is None:
        table = all_rows(session, dense=True)
        scores = embedding.scores(table)
        coefficients = _solve_ridge(kernel.between(scores, scores), table - mean, alpha)
        return Preimage(KernelValues(kernel, scores), coefficients, mean)
    width = feature_map.features(sample[:1]).shape[1]

    def add(block: Block, _: None) -> _Products:
        gram, cross = np.zeros((width, width)), np.zeros((width, len(mean)))
        for part in chunks(block.read().x.astype(np.float64, copy=False), width):
            features = feature_map.features(embedding.scores(part))
            gram += features.T @ features
            cross += features.T @ (part - mean)
        return _Products(gram, cross)

    sums = session.sum(add)
    return Preimage(feature_map, _solve_ridge(sums.gram, sums.cross, alpha), mean)


def _solve_ridge(matrix: Floats, right: Floats, alpha: float) -> Floats:
    """``(matrix + alpha I)^-1 right``; a least squares solution where that matrix is singular."""
    matrix.flat[:: len(matrix) + 1] += alpha
    try:
        return np.asarray(scipy.linalg.solve(matrix, right, assume_a="pos"))
    except scipy.linalg.LinAlgError:  # alpha = 0, or too small for rounding
        return np.asarray(scipy.linalg.lstsq(matrix, right)[0])


@dataclass(frozen=True, eq=False)
class KernelRowModel(RowModel[Floats]):
    """Scores in the space of a kernel, and the learned way back."""

    likelihood = "distance"
    embedding: Embedding
    preimage: Preimage | None

    def open(self, block: Block, names: Sequence[str] | None = None) -> OpenedBlock:
        return open_complete(block, "KernelPCA", names)

    def solve(self, rows: OpenedBlock) -> Floats:
        return self.embedding.scores(rows.x)

    def log_likelihood(self, rows: OpenedBlock) -> Floats:
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

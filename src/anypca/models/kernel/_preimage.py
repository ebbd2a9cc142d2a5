"""The way back: rows regressed on features of their scores, with a ridge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.linalg

from anypca._typing import Floats
from anypca.engine import Block, Statistics
from anypca.models.kernel._embedding import Embedding
from anypca.models.kernel._kernels import Kernel
from anypca.models.kernel._maps import FeatureMap
from anypca.models.kernel._methods import Method, Rows, Task
from anypca.models.kernel._rows import all_rows, chunks


class Preimage(Protocol):
    """Scores to rows."""

    def rows(self, scores: Floats) -> Floats:
        """(n, n_features) from (n, n_components)."""


@dataclass(frozen=True)
class DualPreimage:
    """Kernel ridge regression on all training scores."""

    kernel: Kernel
    training: Floats
    """Training scores (n_train, n_components)."""
    coefficients: Floats
    """(n_train, n_features)"""
    mean: Floats
    """(n_features,)"""

    def rows(self, scores: Floats) -> Floats:
        parts = [
            self.kernel.between(part, self.training) @ self.coefficients
            for part in chunks(scores, len(self.training))
        ]
        return np.asarray(np.concatenate(parts) + self.mean)


@dataclass(frozen=True)
class FeaturePreimage:
    """Ridge regression on explicit features of scores."""

    feature_map: FeatureMap
    coefficients: Floats
    """(n_basis, n_features)"""
    mean: Floats

    def rows(self, scores: Floats) -> Floats:
        parts = [
            self.feature_map.features(part) @ self.coefficients
            for part in chunks(scores, len(self.coefficients))
        ]
        return np.asarray(np.concatenate(parts) + self.mean)


@dataclass(frozen=True)
class _Sums(Statistics):
    gram: Floats
    cross: Floats


def learn_preimage(
    method: Method,
    task: Task,
    rows: Rows,
    fitted: tuple[Kernel, Embedding],
    mean: Floats,
    alpha: float,
) -> Preimage:
    """Learn to rebuild rows from scores.

    Parameters
    ----------
    method : Method
    task : Task
    rows : Rows
        The training rows.
    fitted : tuple of Kernel and Embedding
    mean : ndarray of shape (n_features,)
        Of the columns; what is regressed is the difference from it.
    alpha : float
        Ridge.

    Returns
    -------
    Preimage
    """
    kernel, embedding = fitted
    sample = embedding.scores(rows.sample())
    kernel = task.kernel.rebind(kernel, sample)
    feature_map = method.score_map(task, kernel, sample)
    if feature_map is None:
        return _learn_dual(kernel, embedding, rows, mean, alpha)
    width = feature_map.features(sample[:1]).shape[1]

    def add(block: Block, _: Any) -> tuple[None, _Sums]:
        gram, cross = np.zeros((width, width)), np.zeros((width, len(mean)))
        for part in chunks(block.read().x.astype(np.float64, copy=False), width):
            features = feature_map.features(embedding.scores(part))
            gram += features.T @ features
            cross += features.T @ (part - mean)
        return None, _Sums(gram, cross)

    sums = rows.executor.sweep(add, rows.data)[1]
    return FeaturePreimage(feature_map, _solve_ridge(sums.gram, sums.cross, alpha), mean)


def _learn_dual(kernel: Kernel, embedding: Embedding, rows: Rows, mean: Floats, alpha: float) -> Preimage:
    table = all_rows(rows.data, rows.executor, dense=True)
    scores = embedding.scores(table)
    coefficients = _solve_ridge(kernel.between(scores, scores), table - mean, alpha)
    return DualPreimage(kernel, scores, coefficients, mean)


def _solve_ridge(matrix: Floats, right: Floats, alpha: float) -> Floats:
    """``(matrix + alpha I)^-1 right``; a least squares solution where that matrix is singular."""
    matrix.flat[:: len(matrix) + 1] += alpha
    try:
        return np.asarray(scipy.linalg.solve(matrix, right, assume_a="pos"))
    except scipy.linalg.LinAlgError:  # alpha = 0, or too small for rounding
        return np.asarray(scipy.linalg.lstsq(matrix, right)[0])

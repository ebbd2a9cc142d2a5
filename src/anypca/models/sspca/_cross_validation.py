"""Folds of rows, and errors of patterns on held-out rows.

Folds are of rows, not of entries as in `anypca.selection.cross_validate`: the model has no missing entries.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Bools, Floats, Ints

# Noise without left-over variance, and loadings without length, are at the level of rounding: half of the digits of a
# variance, all of a singular value's.
_SMALLEST_NOISE = 1e-10
_SMALLEST_SIZE = 1e-12


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """Errors of penalties, as shares of the largest one of their rows."""

    shares: Floats
    """Of the largest penalty, increasing, shape (n_penalties,)."""
    errors: Floats
    """Mean squared error of each fold, shape (n_folds, n_penalties)."""
    best: float
    """The chosen share."""


def draw_folds(rows: Floats, n_folds: int, rng: np.random.Generator) -> Ints:
    """The number of a fold for each row, (n,).

    Equal rows share a fold, so that a row's copies do not predict it and a weight of 2 is a row twice. The folds
    do not depend on the order of rows or columns: distinct rows draw in the order of their norms.
    """
    distinct, places = np.unique(rows, axis=0, return_inverse=True)
    order = np.argsort(np.linalg.norm(distinct, axis=1), kind="stable")
    numbers = np.empty(len(distinct), dtype=int)
    numbers[order] = rng.permutation(len(distinct)) % n_folds
    return np.asarray(numbers[places.ravel()])


def press_error(train: Floats, test: Floats, support: Bools, n_components: int) -> float:
    """Sum of squares of cells of test rows, each predicted from the other cells of its row.

    The rows of the support follow probabilistic PCA fitted to the training rows; with its precision matrix P the
    error of cell j is ``(P x)_j / P_jj``. Cells outside of the support are predicted by their mean, 0.
    """
    total = float((test[:, ~support] ** 2).sum())
    if support.any():
        precision = _precision(train[:, support], n_components)
        residuals = (test[:, support] @ precision) / np.diag(precision)
        total += float((residuals**2).sum())
    return total


def _precision(rows: Floats, n_components: int) -> Floats:
    """Inverse covariance (q, q), up to a factor, of probabilistic PCA of centred rows (n, q)."""
    q = rows.shape[1]
    values, vectors = np.linalg.eigh(rows.T @ rows)
    k = min(n_components, q - 1)
    # Without any left-over variance the noise is at the level of rounding.
    least = max(_SMALLEST_NOISE * float(values[-1]), float(np.finfo(float).tiny))
    noise = max(float(values[: q - k].mean()), least)
    axes, wide = vectors[:, q - k :], np.maximum(values[q - k :], noise)
    return np.asarray((np.eye(q) - (axes * (1.0 - noise / wide)) @ axes.T) / noise)


def row_error(test: Floats, loadings: Floats) -> float:
    """Sum of squared distances of test rows from the span of the loadings."""
    left, sizes, _ = np.linalg.svd(loadings, full_matrices=False)
    basis = left[:, sizes > _SMALLEST_SIZE * float(sizes[0])]
    residuals = test - (test @ basis) @ basis.T
    return float((residuals**2).sum())

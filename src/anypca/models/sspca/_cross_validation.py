"""How well patterns along the path of penalties predict rows that were left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from anypca._typing import Bools, Floats, Ints
from anypca.models.sspca._descent import State

# Noise without left-over variance, and loadings without length, are at the level of rounding: half of the digits of a
# variance, all of a singular value's.
_SMALLEST_NOISE = 1e-10
_SMALLEST_SIZE = 1e-12


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Rows in memory, with how many times each counts."""

    values: Floats
    """(n, p)"""
    weights: Floats
    """Positive, (n,)."""

    def take(self, where: Bools) -> WeightedRows:
        """The rows that a mask chooses."""
        return WeightedRows(self.values[where], self.weights[where])

    @property
    def mean(self) -> Floats:
        """Weighted means of the columns, shape (p,)."""
        return np.asarray(self.weights @ self.values / self.weights.sum())

    def centred(self, mean: Floats) -> Floats:
        """Less a mean and times the roots of the weights: sums over them count each row as often as it weighs."""
        return np.asarray((self.values - mean) * np.sqrt(self.weights)[:, None])


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """Errors of penalties, as shares of the largest one of their rows."""

    shares: Floats
    """Of the largest penalty, increasing, shape (n_penalties,)."""
    errors: Floats
    """Mean squared error of each fold, shape (n_folds, n_penalties)."""
    best: float
    """The chosen share."""


#: From centred rows (n, p), what they weigh together and shares of the largest penalty to the states along the path.
Path = Callable[[Floats, float, Floats], list[State]]
#: Mean square of cells of test rows (m, p), given training rows (n, p), a state, and what the test rows weigh.
Error = Callable[[Floats, Floats, State], float]


def cross_validate(
    rows: WeightedRows, folds: Ints, path: Path, shares: Floats, error: Error, *, is_cautious: bool
) -> CrossValidation:
    """Leave folds of rows out, and see how patterns of the others predict them.

    Parameters
    ----------
    rows : WeightedRows
    folds : ndarray of shape (n_samples,)
        Number of the fold of each row.
    path : callable
    shares : ndarray of shape (n_penalties,)
    error : callable
        Sum of squares of cells of the test rows.
    is_cautious : bool
        Take the largest penalty whose error is within a standard error of the smallest.

    Returns
    -------
    CrossValidation
    """
    errors = np.array([_fold_errors(rows, folds == fold, path, shares, error) for fold in np.unique(folds)])
    mean = errors.mean(axis=0)
    best = int(np.argmin(mean))
    if is_cautious:
        margin = errors[:, best].std(ddof=1) / np.sqrt(len(errors))
        best = int(np.flatnonzero(mean <= mean[best] + margin)[-1])
    return CrossValidation(shares, errors, float(shares[best]))


def draw_folds(rows: Floats, n_folds: int, rng: np.random.Generator) -> Ints:
    """The number of a fold for each row, (n,).

    Equal rows share a fold, so that a row's copies do not predict it and a weight of 2 is a row twice. Neither the
    order of rows nor that of columns matters: distinct rows draw in the order of their lengths.
    """
    distinct, places = np.unique(rows, axis=0, return_inverse=True)
    order = np.argsort(np.linalg.norm(distinct, axis=1), kind="stable")
    numbers = np.empty(len(distinct), dtype=int)
    numbers[order] = rng.permutation(len(distinct)) % n_folds
    return np.asarray(numbers[places.ravel()])


def _fold_errors(rows: WeightedRows, is_out: Bools, path: Path, shares: Floats, error: Error) -> Floats:
    """Mean squared errors of one fold along the path, shape (n_penalties,)."""
    train, test = rows.take(~is_out), rows.take(is_out)
    mean = train.mean
    known, left_out = train.centred(mean), test.centred(mean)
    states = path(known, float(train.weights.sum()), shares)
    n_cells = float(test.weights.sum()) * len(mean)
    return np.array([error(known, left_out, state) for state in states]) / n_cells


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

"""Draws with different numbers of factors, brought to the factors of one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from anypca._typing import Bools, Floats, Ints
from anypca.linalg import fix_signs

# Share of the rows (columns for masked loadings) that a factor must be used by to count: rows get factors of their own
# that come and go.
USED_SHARE = 0.05
# Cosine of two factors' parts of the predictor above which they are the same factor in two draws.
_SAME = 0.25


class Draw(NamedTuple):
    """Factors of a table, seen from the table; those that no row uses are left out."""

    scores: Floats
    """(n_samples, k)."""
    loadings: Floats
    """(n_features, k)."""
    used: Bools
    """Which factors count, shape (k,)."""
    shares: Floats
    """Of rows, or columns, that use each, shape (k,)."""
    precision: float
    """Of the side without mask."""


def most_frequent(numbers: Ints) -> int:
    """The number of factors in most draws, the smaller of two."""
    return int(np.bincount(numbers.ravel()).argmax())


def match_draws(draws: Sequence[Draw], log_likelihood: Floats, n_components: int) -> Floats:
    """Which factor of each draw is which component, with its sign.

    Parameters
    ----------
    draws : sequence of Draw
    log_likelihood : ndarray of shape (n_draws,)
        The best draw with the right number of factors is what the others are matched to.
    n_components : int

    Returns
    -------
    ndarray of shape (n_draws, n_components, largest k)
        1, -1 or 0: components are ``pick @ factors``. A component that a draw does not have is 0.
    """
    widest = max([1, *(draw.loadings.shape[1] for draw in draws)])
    picks = np.zeros((len(draws), n_components, widest))
    right = np.array([int(draw.used.sum()) == n_components for draw in draws])
    if n_components == 0:
        return picks
    best = draws[int(np.argmax(np.where(right, log_likelihood, -np.inf)))]
    chosen = np.flatnonzero(best.used)
    sizes = np.linalg.norm(best.loadings[:, chosen], axis=0) * np.linalg.norm(best.scores[:, chosen], axis=0)
    chosen = chosen[np.argsort(-sizes, kind="stable")]
    signs = fix_signs(best.loadings[:, chosen].T)
    for pick, draw in zip(picks, draws, strict=True):
        of_loadings = _cosines(best.loadings[:, chosen] * signs, draw.loadings)
        same = of_loadings * _cosines(best.scores[:, chosen] * signs, draw.scores)
        for a, b in zip(*linear_sum_assignment(-same), strict=True):
            if same[a, b] > _SAME:
                pick[a, b] = 1.0 if of_loadings[a, b] > 0 else -1.0
    return picks


def _cosines(left: Floats, right: Floats) -> Floats:
    """Between the columns of two matrices; 0 where one has no length."""
    lengths = np.outer(np.linalg.norm(left, axis=0), np.linalg.norm(right, axis=0))
    return np.divide(left.T @ right, lengths, out=np.zeros_like(lengths), where=lengths > 0)


def pad(array: Floats, width: int) -> Floats:
    """Zeros behind the last axis."""
    return np.concatenate([array, np.zeros((*array.shape[:-1], width - array.shape[-1]))], axis=-1)

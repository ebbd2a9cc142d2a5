"""Cut points between ordered levels: where they start, and which fit best."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from anypca._typing import Floats, Ints
from anypca.special import log1pexp

#: Pseudo-observations of each column, spread as its answers are: they keep cut points apart.
_SHRINKAGE = 2.0
#: Added to the number of answers of each level, so that rare levels have a finite logit (as in empirical logits).
_QUARTER = 0.25
#: Largest change of a cut point, in units of the logistic noise, that is no change worth another fit.
SETTLED = 0.01
#: Added to the information about a cut point, far below the information of one pseudo-observation.
_ROUNDING = 1e-10
#: Maximum Newton steps of the cut points (about five are usual) and maximum halvings of a step.
_MOST_STEPS, _MOST_HALVINGS = 30, 30


def counted(number: Ints, weights: Floats, n_numbers: int) -> Floats:
    """Weights of each number in each column, shape (n_columns, n_numbers)."""
    n_columns = number.shape[1]
    inside = np.clip(number, 0, n_numbers - 1) + n_numbers * np.arange(n_columns)
    found = np.bincount(inside.ravel(), weights.ravel().astype(float), minlength=n_columns * n_numbers)
    return np.asarray(found, float).reshape(n_columns, n_numbers)


def margin_cuts(counts: Floats) -> tuple[float, ...]:
    """Logits of the shares of answers up to each level but the last."""
    up_to = np.cumsum(counts + _QUARTER)
    share = up_to[:-1] / up_to[-1]
    return tuple((np.log(share) - np.log1p(-share)).tolist())


def best_cuts(cuts: Floats, counts: Floats, eta: Floats) -> Floats:
    """Cut points of one column given how often each level goes with each predictor, by Newton steps.

    Parameters
    ----------
    cuts : ndarray of shape (n_cuts,)
        Where to start.
    counts : ndarray of shape (n_cuts + 1, n_bins)
    eta : ndarray of shape (n_bins,)
    """
    seen = counts.sum()
    if not cuts.size or seen == 0:
        return cuts
    # Pseudo-observations at the mean predictor: their levels are spread as the column's.
    middle = int(np.argmin(np.abs(eta - counts.sum(axis=0) @ eta / seen)))
    counts = counts.copy()
    counts[:, middle] += _SHRINKAGE * counts.sum(axis=1) / seen
    value, gradient, hessian = _cut_terms(cuts, counts, eta)
    for _ in range(_MOST_STEPS):
        # Rounding of the diagonal keeps the system solvable where all predictors are far from a cut point.
        step = np.linalg.solve(hessian + _ROUNDING * np.eye(cuts.size), gradient)
        for _ in range(_MOST_HALVINGS):
            trial = cuts + step
            if (np.diff(trial) > 0).all():
                found = _cut_terms(trial, counts, eta)
                if found[0] >= value:
                    break
            step = 0.5 * step
        else:
            return cuts
        cuts, (value, gradient, hessian) = trial, found
        if np.abs(step).max() < 0.1 * SETTLED:
            break
    return cuts


def _cut_terms(cuts: Floats, counts: Floats, eta: Floats) -> tuple[float, Floats, Floats]:
    """Log-likelihood of a column, its gradient and minus its tridiagonal Hessian in the cut points."""
    edges = np.concatenate([[-np.inf], cuts, [np.inf]])
    above, below = edges[1:, None] - eta, edges[:-1, None] - eta
    gap = np.diff(cuts)
    # The term log(1 - exp(-gap)) of the levels between two cuts, its first and minus its second derivative.
    inner = counts[1:-1].sum(axis=1)
    first = 1.0 / np.expm1(gap)
    second = first * (1.0 + first)
    value = -(counts * (log1pexp(-above) + log1pexp(below))).sum() + inner @ np.log(-np.expm1(-gap))
    gradient = (counts * expit(-above)).sum(axis=1)[:-1] - (counts * expit(below)).sum(axis=1)[1:]
    diagonal = (counts * expit(above) * expit(-above)).sum(axis=1)[:-1]
    diagonal = diagonal + (counts * expit(below) * expit(-below)).sum(axis=1)[1:]
    gradient[1:] += inner * first
    gradient[:-1] -= inner * first
    diagonal[1:] += inner * second
    diagonal[:-1] += inner * second
    return (
        float(value),
        gradient,
        np.diag(diagonal) - np.diag(inner * second, 1) - np.diag(inner * second, -1),
    )

"""The likelihood part of the log densities that samplers of factor models draw from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anypca._typing import Floats
from anypca.families import Family
from anypca.models._bilinear.evaluator import weighted_terms
from anypca.models._block_view import BlockView


class LikelihoodTerms(NamedTuple):
    """Log-likelihood of a table and its gradient."""

    value: float
    scores: Floats
    """(n_samples, k)."""
    joint: Floats
    """Loadings, then intercept and covariates, shape (n_features, m)."""


def predictor(rows: BlockView, scores: Floats, joint: Floats) -> Floats:
    """eta at scores (..., n_samples, k) and coefficients (..., n_features, m), shape (..., n_samples, n_features)."""
    k = scores.shape[-1]
    eta: Floats = scores @ np.swapaxes(joint[..., :k], -1, -2)
    if rows.features.shape[1]:
        eta += rows.features @ np.swapaxes(joint[..., k:], -1, -2)
    return rows.shifted(eta)


def likelihood_terms(
    family: Family, rows: BlockView, dispersion: Floats, scores: Floats, joint: Floats
) -> LikelihoodTerms:
    """Value without constants and gradient; if an exponential overflows the value is -inf."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = family.evaluate(rows.x, predictor(rows, scores, joint), dispersion, order=1)
        found = weighted_terms(rows, slice(None), found)
        value = float(rows.weights @ found.value.sum(axis=1))
        slope = found.gradient * rows.weights[:, None]
        by_column = slope.T @ np.hstack([scores, rows.features])
        return LikelihoodTerms(value, slope @ joint[:, : scores.shape[1]], by_column)

"""What solved rows tell: whether they are solved, the posterior of their scores by Laplace's approximation."""

from __future__ import annotations

import warnings

import numpy as np

from anypca._typing import Bools, Floats, Ints
from anypca.exceptions import ConvergenceWarning, NonFiniteError
from anypca.families import Family
from anypca.linalg import PackedCholesky
from anypca.models._bilinear.alternating import RowFit
from anypca.models._opened import OpenedBlock
from anypca.priors import Prior, Ridge


def check_solved(found: RowFit, numbers: Ints) -> None:
    """Raise where the fitted model gives a row no likelihood: the intercepts of such a fit have diverged."""
    bad = ~np.isfinite(found.value)
    if bad.any():
        raise NonFiniteError(
            f"the log-likelihood of row {numbers[np.argmax(bad)]} overflows under the fitted model, whose "
            "maximum likelihood estimate is infinite. Fit again with a larger ridge."
        )
    warn_unsolved(found.converged, numbers)


def warn_unsolved(converged: Bools, numbers: Ints) -> None:
    """Warn when some rows, of the given numbers in their table, ran out of steps before their optimum."""
    if not converged.all():
        warnings.warn(
            f"{int(np.sum(~converged))} rows, the first being row {numbers[np.argmin(converged)]}, have no "
            "converged scores: their likelihood may have no finite maximum. "
            "Fit again with a larger ridge, or leave them out.",
            ConvergenceWarning,
            stacklevel=2,
        )


def covariances(prior: Prior, found: RowFit) -> Floats:
    """Of the scores, from the curvature at their modes (Laplace), shape (rows, k, k)."""
    precision = found.curvature + prior.curvature(found.points)
    return PackedCholesky(precision, found.points.shape[1]).inverse()


def standard_deviations(prior: Prior, found: RowFit) -> Floats:
    """Of the scores, from the curvature at their modes (Laplace), shape (rows, k)."""
    variances: Floats = np.einsum("iaa->ia", covariances(prior, found))
    return np.sqrt(variances)


def integrate_rows(
    rows: OpenedBlock, found: RowFit, prior: Ridge, family: Family, dispersion: Floats
) -> tuple[Floats, Floats]:
    """Marginal log-likelihoods of rows and entropies of their scores in prior units, by Laplace; (rows,) each.

    ``found`` are the modes under ``prior``, whose precision is diagonal.
    """
    base = family.log_base(rows.x, dispersion)
    if rows.observed is not None:
        base = np.where(rows.observed, base, 0.0)
    k = found.points.shape[1]
    precision = PackedCholesky(found.curvature + prior.curvature(found.points), k)
    determinant = precision.log_determinant() - np.log(prior.precision).sum()
    joint: Floats = found.value + base.sum(axis=1)
    entropy: Floats = 0.5 * (k * np.log(2.0 * np.pi * np.e) - determinant)
    return joint - 0.5 * determinant, entropy

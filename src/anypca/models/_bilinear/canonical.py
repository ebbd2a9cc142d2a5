"""The unique form in which a bilinear fit is reported."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats, Ints
from anypca.linalg import fix_signs
from anypca.models._bilinear.alternating import Gauge, SweepSums, intercept_shift
from anypca.models._bilinear.evaluator import Coefficients

# Components whose loadings vanish relative to the largest have a formal, not an infinite, score precision.
_SMALLEST = 1e-7


@dataclass(frozen=True, eq=False)
class Canonical:
    """Coefficients in reporting coordinates and the way there."""

    coefficients: Coefficients
    gauge: Gauge
    """From the solver's scores to the reported ones."""
    variance: Floats
    """Mean square of the reported scores, shape (k,)."""


def orthonormal(
    coefficients: Coefficients, stats: SweepSums, *, fit_intercept: bool, units: Floats | None = None
) -> Canonical:
    """Orthonormal loadings with uncorrelated scores, in order of decreasing score variance.

    The predictor ``Z W'`` stays as it is; this is its singular value decomposition, found from k x k matrices. With
    ``units`` (n_features,) that holds for the loadings over the units of their columns.
    """
    unit = np.ones((len(coefficients.loadings), 1)) if units is None else units[:, None]
    k = coefficients.loadings.shape[1]
    centre = stats.score_sum / stats.weight if fit_intercept else np.zeros(k)
    gram = stats.score_gram / stats.weight - np.outer(centre, centre)
    left, sizes, right = np.linalg.svd(coefficients.loadings / unit, full_matrices=False)
    to_basis = right.T * sizes
    variance, rotation = np.linalg.eigh(to_basis.T @ gram @ to_basis)
    rotation = rotation[:, ::-1]
    loadings = left @ rotation
    loadings[~coefficients.loadings.any(axis=1)] = (
        0.0  # of rounding: columns that are in no component stay so
    )
    signs = fix_signs(loadings.T)
    rotation = rotation * signs
    shift = intercept_shift(centre, coefficients.fixed.shape[1])
    # Only the way back is bounded: scores of a vanishing component can be huge, and the predictor must not change.
    bounded = np.maximum(sizes, max(_SMALLEST * sizes.max(initial=0.0), np.finfo(float).tiny ** 0.25))
    gauge = Gauge(shift, to_basis @ rotation, rotation.T @ (right / bounded[:, None]))
    fixed = coefficients.fixed + coefficients.loadings @ shift.T
    new = Coefficients(loadings * signs * unit, fixed, coefficients.dispersion)
    return Canonical(new, gauge, np.maximum(variance[::-1], 0.0))


def unit_loadings(coefficients: Coefficients, stats: SweepSums, units: Floats) -> Canonical:
    """Loadings of unit length, over the units of their columns, without a rotation: zero scores mean something."""
    free = coefficients.loadings / units[:, None]
    sizes = np.linalg.norm(free, axis=0)
    sizes = np.maximum(sizes, max(_SMALLEST * sizes.max(initial=0.0), np.finfo(float).tiny ** 0.25))
    sizes = sizes * fix_signs(free.T)
    shift = np.zeros((coefficients.fixed.shape[1], len(sizes)))
    gauge = Gauge(shift, np.diag(sizes), np.diag(1.0 / sizes))
    new = Coefficients(coefficients.loadings / sizes, coefficients.fixed, coefficients.dispersion)
    return Canonical(new, gauge, np.diag(stats.score_gram) / stats.weight * sizes**2)


def reorder(canonical: Canonical, order: Ints) -> Canonical:
    """The same with components in another order."""
    old = canonical.coefficients
    gauge = Gauge(canonical.gauge.shift, canonical.gauge.matrix[:, order], canonical.gauge.inverse[order])
    new = Coefficients(old.loadings[:, order], old.fixed, old.dispersion)
    return Canonical(new, gauge, canonical.variance[order])


def whitened(canonical: Canonical) -> Canonical:
    """Rescale scores to unit variance, and loadings inversely."""
    old, gauge = canonical.coefficients, canonical.gauge
    # Scores of a component that has vanished stay zero.
    sizes = np.where(canonical.variance > 0, np.sqrt(canonical.variance), 1.0)
    new = Coefficients(old.loadings * sizes, old.fixed, old.dispersion)
    scaled = Gauge(gauge.shift, gauge.matrix / sizes, gauge.inverse * sizes[:, None])
    return Canonical(new, scaled, canonical.variance / sizes**2)

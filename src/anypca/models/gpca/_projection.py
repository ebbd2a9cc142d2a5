r"""The model on rows: projection of saturated parameters, likelihood, derivatives.

The predictor of a row is :math:`\eta = \mu + U z` with orthonormal U. Its scores z are the least-squares
coefficients of :math:`\tilde\theta - \mu` on U over the observed entries, and over the missing ones, which are at
their column's mean, with half the weight; for a complete row :math:`z = U^\top(\tilde\theta - \mu)`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats
from anypca.engine import Statistics
from anypca.families import Family
from anypca.linalg import PackedCholesky, packed_position, packed_products, packed_size
from anypca.models.gpca._reader import SaturatedRows

# Weight with which the predictor of a missing entry is shrunk to the column mean; an observed entry has weight 1.
# The column mean predicts an entry with the variance of the column, the other entries of the row with the residual
# variance: the weight is a typical ratio of these variances. A weight near 0 would let the few other columns of a
# component determine it when its main column is missing.
PULL = 0.5


@dataclass(frozen=True, eq=False)
class Subspace:
    """The shared parameters."""

    loadings: Floats
    """U, orthonormal columns, shape (p, k)."""
    intercept: Floats
    """Main effects mu, shape (p,)."""
    typical: Floats
    """Predictors to which missing entries are shrunk; constant during a fit, shape (p,)."""


@dataclass(frozen=True, eq=False)
class Projection:
    """Rows projected on a subspace."""

    scores: Floats
    """z, shape (n, k)."""
    deviation: Floats
    """Saturated (where missing, typical) parameters less main effects, shape (n, p)."""
    trust: Floats | None
    """Weights of the entries, `PULL` where missing, shape (n, p); ``None`` for complete rows of weights 1."""
    normal: PackedCholesky | None
    """Normal equations of the rows; ``None`` where they are the identity."""

    def solve(self, right: Floats) -> Floats:
        """Solutions of the rows' normal equations, (n, k) from (n, k)."""
        return right if self.normal is None else self.normal.solve(right)

    def trusted(self, terms: Floats) -> Floats:
        """The terms (n, p) times the weights of their entries."""
        return terms if self.trust is None else terms * self.trust


def project(rows: SaturatedRows, at: Subspace) -> Projection:
    """Scores of rows."""
    U = at.loadings
    deviation = rows.saturated - at.intercept
    if rows.observed is None and rows.entry is None:
        return Projection(deviation @ U, deviation, None, None)
    k, trust = U.shape[1], rows.weigh(np.ones_like(deviation))
    if rows.observed is not None:
        deviation = np.where(rows.observed, deviation, at.typical - at.intercept)
        trust = np.where(rows.observed, trust, PULL)
    normal = PackedCholesky(trust @ packed_products(U), k)
    return Projection(normal.solve((deviation * trust) @ U), deviation, trust, normal)


@dataclass(frozen=True, eq=False)
class Sums(Statistics):
    """Sums over rows at given parameters; they add."""

    value: float
    """Log-likelihood without terms that are free of eta."""
    magnitude: float
    """Sum of absolute values, the scale of the rounding error of the value."""
    entries: float
    """Weighted number of observed entries."""
    weight: float
    gradient: Floats
    """Of the value in loadings and intercept, shape (p, k + 1)."""
    curvature: Floats
    """Gauss-Newton curvature of each column's loadings and intercept, shape (p, packed size of k + 1)."""
    score_sum: Floats
    """(k,)."""
    score_gram: Floats
    """(k, k)."""

    @classmethod
    def overflown(cls, at: Subspace) -> Sums:
        """Sums of rows whose likelihood underflows at a trial point, which is then refused."""
        p, k = at.loadings.shape
        curvature = np.zeros((p, packed_size(k + 1)))
        nothing = np.zeros((p, k + 1)), curvature, np.zeros(k), np.zeros((k, k))
        return cls(-np.inf, 0.0, 0.0, 0.0, *nothing)


def evaluate(family: Family, rows: SaturatedRows, at: Subspace) -> Sums:
    r"""Log-likelihood of rows with its derivatives in the loadings and the intercept.

    Notes
    -----
    With the gradient g in eta, weights N of the entries (1, and next to nothing where missing), deviations d of the
    saturated parameters from the main effects, :math:`y = (U^\top N U)^{-1} U^\top g` and residuals
    :math:`r = N(d - U z)` the derivatives of a row are

    .. math:: \partial U = (g - N U y) z^\top + r y^\top, \qquad \partial\mu = g - N U y.

    The curvature keeps of each column what it would have alone:
    :math:`v_j (z, 1)(z, 1)^\top + r_j^2 \, U^\top V U`, V = diag(v) being the curvature in eta.
    """
    found = project(rows, at)
    linear = found.scores @ at.loadings.T
    # At missing entries eta may be anything, also too large for its exponential.
    eta = rows.only_observed(linear + at.intercept)
    value, gradient, curvature = family.evaluate(rows.x, eta)
    value = rows.weigh(value)
    total = float(rows.weight @ value.sum(axis=1))
    gradient, curvature = rows.weigh(gradient), rows.weigh(curvature)
    with np.errstate(over="ignore", invalid="ignore"):  # of trial points, which are then refused
        magnitude = float(rows.weight @ (np.abs(value) + np.abs(gradient * eta)).sum(axis=1))
    if not np.isfinite(total + magnitude):
        return Sums.overflown(at)
    residual = found.trusted(found.deviation - linear)
    weighted = rows.weight[:, None] * found.scores
    return Sums(
        total,
        magnitude,
        rows.count(),
        float(rows.weight.sum()),
        _slopes(rows, at, found, gradient, residual),
        _curvatures(rows, at, found, curvature, residual),
        weighted.sum(axis=0),
        weighted.T @ found.scores,
    )


def _slopes(
    rows: SaturatedRows, at: Subspace, found: Projection, gradient: Floats, residual: Floats
) -> Floats:
    """Sums of the rows' derivatives in loadings and main effects, (p, k + 1)."""
    w, k = rows.weight[:, None], at.loadings.shape[1]
    back = found.solve(gradient @ at.loadings)
    slope = gradient - found.trusted(back @ at.loadings.T)
    steps = slope.T @ np.hstack([w * found.scores, w])
    steps[:, :k] += residual.T @ (w * back)
    return np.asarray(steps)


def _curvatures(
    rows: SaturatedRows, at: Subspace, found: Projection, curvature: Floats, residual: Floats
) -> Floats:
    """Sums of the rows' curvatures in each column's loadings and main effect, (p, packed size of k + 1)."""
    w, k = rows.weight[:, None], at.loadings.shape[1]
    design = np.hstack([found.scores, np.ones_like(w)])
    terms = curvature.T @ (w * packed_products(design))
    terms[:, packed_position(k + 1, k)] += (residual**2).T @ (w * (curvature @ packed_products(at.loadings)))
    return np.asarray(terms)

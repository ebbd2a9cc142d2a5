r"""Joint log density of scores and loadings, and coordinates in which it is nearly a unit normal.

.. math:: \log p(Z, K \mid \alpha) = \sum_{ij} s_i \ell(x_{ij}, \eta_{ij}) - \tfrac12 \|Z\|^2
   - \tfrac12 \sum_k \alpha_k \|w_k\|^2 - \tfrac12 \sum_{jf} \tau_{jf} b_{jf}^2, \qquad \eta = o + [Z | F] K'

with the coefficients :math:`K = [W | B]` of loadings, intercept and covariates, and row weights s on the likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg

from anypca._typing import Floats
from anypca.families import Family
from anypca.linalg import unpack_symmetric
from anypca.models._bayes.points import Point
from anypca.models._bilinear.evaluator import BlockEvaluator, Coefficients, weighted_terms
from anypca.models._opened import OpenedBlock

# Precision that is added to that of every coefficient where coordinates are chosen: a flat coefficient without
# information would have no scale. A standard deviation of 100 is wider than any that the data speak of.
_FLOOR = 1e-4
# Step of the differences between gradients, in coordinates of unit scale: their relative errors are of the order of its
# square, 1e-8, and of the rounding of a gradient over the step, 1e-12.
_STEP = 1e-4
# Largest factor by which coordinates are stretched along changes of the latent space. These turn scores and loadings,
# and a turn by more than a radian or so is not a straight line any more. On 40 x 10 counts with two components the
# slowest quantity has 1.2, 2.0, 3.0, 0.8 and 1.4 effective draws per 1000 gradients at factors 1, 2, 4, 8 and 16.
_MAX_STRETCH = 4.0


@dataclass(frozen=True, eq=False)
class JointDensity:
    """Log density of scores and coefficients under given relevances; see the module's formula.

    Parameters
    ----------
    family : Family
    rows : OpenedBlock
        The whole table, dense.
    dispersion : ndarray of shape (n_features,)
    alpha : ndarray of shape (k,)
        Prior precision of the components' loadings.
    fixed_precision : ndarray of shape (n_features, m - k)
        Prior precision of intercept and covariates, 0 where flat.
    """

    family: Family
    rows: OpenedBlock
    dispersion: Floats
    alpha: Floats
    fixed_precision: Floats

    @cached_property
    def prior_precision(self) -> Floats:
        """Prior precision of all coefficients, shape (n_features, m)."""
        return np.hstack([np.tile(self.alpha, (self.rows.n_features, 1)), self.fixed_precision])

    def predictor(self, point: Point) -> Floats:
        """eta, shape (n_samples, n_features)."""
        eta: Floats = point.scores @ point.loadings.T
        if self.rows.features.shape[1]:
            eta += self.rows.features @ point.fixed.T
        if self.rows.offset is not None:
            eta += self.rows.offset
        return eta

    def evaluate(self, point: Point) -> tuple[float, Point]:
        """Value and gradient; where an exponential overflows the value is -inf."""
        rows = self.rows
        with np.errstate(over="ignore", invalid="ignore"):
            found = self.family.evaluate(rows.x, self.predictor(point), self.dispersion, order=1)
            found = weighted_terms(rows, slice(None), found)
            slope = found.gradient
            value = float(found.value.sum() if rows.weight is None else rows.weight @ found.value.sum(axis=1))
            if rows.weight is not None:
                slope *= rows.weight[:, None]
            penalty = self.prior_precision * point.joint
            value -= 0.5 * float(np.vdot(point.scores, point.scores) + np.vdot(penalty, point.joint))
            by_column = slope.T @ point.scores
            if rows.features.shape[1]:
                by_column = np.concatenate([by_column, slope.T @ rows.features], axis=1)
            return value, Point(slope @ point.loadings - point.scores, by_column - penalty)

    def precisions(self, point: Point) -> tuple[Floats, Floats]:
        """Expected curvature of each row given the columns, (n, k, k), and of each column given the rows, (p, m, m)."""
        k, m = point.scores.shape[1], point.joint.shape[1]
        evaluator = BlockEvaluator(
            self.family, Coefficients(point.loadings, point.fixed, self.dispersion), self.rows
        )
        by_row = (
            unpack_symmetric(evaluator.row_sums(point.scores).curvature, k) * self.rows.weights[:, None, None]
        )
        by_column = unpack_symmetric(evaluator.column_sums(point.scores).curvature, m)
        return by_row + np.eye(k), by_column + np.eye(m) * self.prior_precision[:, :, None]


@dataclass(frozen=True, eq=False)
class Whitened:
    r"""The density in linear coordinates u in which it is nearly a unit normal around a centre.

    Within rows and columns, ``z_i = m_i + L_i v_i`` and ``k_j = v_j + L_j v_j`` with factors from the curvature of each
    row and column. Across them, a change of latent coordinates (shift, scale, shear, rotation) moves all scores one way
    and all coefficients the other and hardly changes the predictor; along these few directions, spanned by Q, the
    density is much wider than rows and columns alone suggest: ``v = u + Q (S - I) Q' u``.
    """

    density: JointDensity
    centre: Point
    row_factor: Floats
    """L of the rows, shape (n_samples, k, k)."""
    column_factor: Floats
    """L of the columns, shape (n_features, m, m)."""
    basis: Floats
    """Q, orthonormal, shape (dim, r)."""
    stretch: Floats
    """S - I, symmetric, shape (r, r)."""

    @classmethod
    def at(cls, density: JointDensity, centre: Point) -> Whitened:
        by_row, by_column = density.precisions(centre)
        # The floor changes coordinates only, not the density.
        by_column += _FLOOR * np.eye(by_column.shape[1])
        n_dims = centre.scores.size + centre.joint.size
        nothing = np.zeros((n_dims, 0)), np.zeros((0, 0))
        plain = cls(density, centre, _inverse_root(by_row), _inverse_root(by_column), *nothing)
        return plain._stretched() if centre.scores.shape[1] else plain

    def __call__(self, position: Floats) -> tuple[float, Floats]:
        """Value and gradient at u, flat."""
        value, gradient = self.density.evaluate(self.restore(position))
        # A trajectory may leave the finite range; the sampler rejects it.
        with np.errstate(over="ignore", invalid="ignore"):
            by_row = np.einsum("iab,ia->ib", self.row_factor, gradient.scores)
            by_column = np.einsum("jab,ja->jb", self.column_factor, gradient.joint)
            both = np.concatenate([by_row.ravel(), by_column.ravel()])
            return value, self._widen(both, self.stretch)

    def restore(self, position: Floats) -> Point:
        """The point at u; leading axes are draws."""
        (n, k), (p, m) = self.centre.scores.shape, self.centre.joint.shape
        lead = position.shape[:-1]
        position = self._widen(position, self.stretch)
        rows = position[..., : n * k].reshape(*lead, n, k)
        columns = position[..., n * k :].reshape(*lead, p, m)
        return Point(
            self.centre.scores + np.einsum("iab,...ib->...ia", self.row_factor, rows),
            self.centre.joint + np.einsum("jab,...jb->...ja", self.column_factor, columns),
        )

    def positions(self, draws: Point) -> Floats:
        """Coordinates u of points (s, n, k) and (s, p, m), shape (s, dim)."""
        moved = Point(draws.scores - self.centre.scores, draws.joint - self.centre.joint)
        identity = np.eye(len(self.stretch))
        return self._widen(self._within(moved), np.linalg.inv(identity + self.stretch) - identity)

    def _within(self, moved: Point) -> Floats:
        """Coordinates v of differences (s, n, k) and (s, p, m) to the centre, shape (s, dim)."""
        rows = np.linalg.solve(self.row_factor, moved.scores[..., None])
        columns = np.linalg.solve(self.column_factor, moved.joint[..., None])
        return np.hstack([rows.reshape(len(rows), -1), columns.reshape(len(columns), -1)])

    def _widen(self, vectors: Floats, stretch: Floats) -> Floats:
        """``v + Q stretch Q' v``; leading axes are draws."""
        if not len(stretch):
            return vectors
        return vectors + ((vectors @ self.basis) @ stretch) @ self.basis.T

    def _stretched(self) -> Whitened:
        """The same with S from the curvature along the changes of latent coordinates, by differences of gradients."""
        basis = np.linalg.qr(self._within(self._changes()).T)[0]
        differences = [self(_STEP * q)[1] - self(-_STEP * q)[1] for q in basis.T]
        curvature = -(basis.T @ np.stack(differences, axis=1)) / (2.0 * _STEP)
        values, vectors = scipy.linalg.eigh(0.5 * (curvature + curvature.T))
        # Never narrower than rows and columns say, and not so wide that a turn is no longer a straight line.
        scale = 1.0 / np.sqrt(np.clip(values, _MAX_STRETCH**-2, 1.0))
        return replace(self, basis=basis, stretch=(vectors * (scale - 1.0)) @ vectors.T)

    def _changes(self) -> Point:
        """Directions ``dZ = G E, dK = (-W E' on W's or B's columns)`` that keep the predictor to first order.

        G is the scores or a fixed feature and E has one entry: (m k, n, k) and (m k, p, m).
        """
        centre, k = self.centre, self.centre.scores.shape[1]
        design = np.hstack([centre.scores, self.density.rows.features])
        m = design.shape[1]
        scores = np.zeros((m, k, *centre.scores.shape))
        joint = np.zeros((m, k, *centre.joint.shape))
        for a in range(m):
            for b in range(k):
                scores[a, b, :, b] = design[:, a]
                joint[a, b, :, a] = -centre.joint[:, b]
        return Point(scores.reshape(m * k, *centre.scores.shape), joint.reshape(m * k, *centre.joint.shape))


def _inverse_root(precision: Floats) -> Floats:
    """L with ``L L' = precision^-1``, matrix by matrix."""
    return np.swapaxes(np.linalg.inv(np.linalg.cholesky(precision)), 1, 2)

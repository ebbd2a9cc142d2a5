r"""Joint log density of scores and loadings, and coordinates in which it is nearly a unit normal.

.. math:: \log p(Z, K \mid \alpha) = \sum_{ij} s_i \ell(x_{ij}, \eta_{ij}) - \tfrac12 \|Z\|^2
   - \tfrac12 \sum_k \alpha_k \|w_k\|^2 - \tfrac12 \sum_{jf} \tau_{jf} b_{jf}^2, \qquad \eta = o + [Z | F] K'

with the coefficients :math:`K = [W | B]` of loadings, intercept and covariates, and row weights s on the likelihood.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from anypca._typing import Bools, Floats
from anypca.engine import Block, Data, Executor, Table
from anypca.families import Family
from anypca.linalg import unpack_symmetric
from anypca.models._bilinear.kernel import Coefficients, Kernel, Rows, mask_missing, open_block
from anypca.models._bilinear.passes import Total

_FLOOR = 1e-4


class Point(NamedTuple):
    """Scores and coefficients; leading axes, if any, are draws."""

    scores: Floats
    """Z, shape (..., n_samples, k)."""
    joint: Floats
    """K, shape (..., n_features, m)."""

    @property
    def loadings(self) -> Floats:
        """W, shape (..., n_features, k)."""
        return self.joint[..., : self.scores.shape[-1]]

    @property
    def fixed(self) -> Floats:
        """B, shape (..., n_features, m - k)."""
        return self.joint[..., self.scores.shape[-1] :]


def collect_rows(data: Data, executor: Executor, *, fit_intercept: bool) -> Rows:
    """The whole table as one dense block in float64."""

    def visit(block: Block, _: Rows | None) -> tuple[Rows, Total]:
        return open_block(block, fit_intercept=fit_intercept), Total(np.zeros(1))

    parts: list[Rows] = executor.gather(executor.sweep(visit, data)[0])
    return Rows(
        Table(_stack([part.x for part in parts]), _stack_observed(parts)),
        None,
        None
        if parts[0].offset is None
        else _stack([part.offset for part in parts if part.offset is not None]),
        _stack([part.weights for part in parts]) if data.has_weights else None,
        _stack([part.features for part in parts]),
        data.n_features,
        np.dtype(float),
    )


def _stack(parts: Sequence[Floats]) -> Floats:
    return np.concatenate([np.asarray(part, dtype=float) for part in parts])


def _stack_observed(parts: Sequence[Rows]) -> Bools | None:
    if all(part.observed is None for part in parts):
        return None
    return np.concatenate(
        [np.ones(part.x.shape, dtype=bool) if part.observed is None else part.observed for part in parts]
    )


@dataclass(frozen=True, eq=False)
class JointDensity:
    """Log density of scores and coefficients under given relevances; see the module's formula.

    Parameters
    ----------
    family : Family
    rows : Rows
        The whole table, dense.
    dispersion : ndarray of shape (n_features,)
    alpha : ndarray of shape (k,)
        Prior precision of the components' loadings.
    fixed_precision : ndarray of shape (n_features, m - k)
        Prior precision of intercept and covariates, 0 where flat.
    """

    family: Family
    rows: Rows
    dispersion: Floats
    alpha: Floats
    fixed_precision: Floats

    @cached_property
    def prior_precision(self) -> Floats:
        """Of all coefficients, shape (n_features, m)."""
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
            if rows.observed is not None:
                found = mask_missing(found, rows.observed)
            slope = found.gradient
            assert slope is not None
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
        kernel = Kernel(self.family, Coefficients(point.loadings, point.fixed, self.dispersion), self.rows)
        by_row = (
            unpack_symmetric(kernel.row_sums(point.scores).curvature, k) * self.rows.weights[:, None, None]
        )
        by_column = unpack_symmetric(kernel.column_sums(point.scores).curvature, m)
        return by_row + np.eye(k), by_column + np.eye(m) * self.prior_precision[:, :, None]


@dataclass(frozen=True, eq=False)
class Whitened:
    """The density in coordinates u with ``z_i = m_i + L_i u_i`` and ``k_j = v_j + L_j u_j``.

    The factors come from the curvature of each row and column at a centre, so that scales and the correlations
    within a row or column are gone and the sampler has little left to learn.
    """

    density: JointDensity
    centre: Point
    row_factor: Floats
    """(n_samples, k, k)."""
    column_factor: Floats
    """(n_features, m, m)."""

    @classmethod
    def at(cls, density: JointDensity, centre: Point) -> Whitened:
        by_row, by_column = density.precisions(centre)
        # A flat coefficient without information would have no scale; the floor changes coordinates only.
        by_column += _FLOOR * np.eye(by_column.shape[1])
        return cls(density, centre, _inverse_root(by_row), _inverse_root(by_column))

    def __call__(self, position: Floats) -> tuple[float, Floats]:
        """Value and gradient at u, flat."""
        value, gradient = self.density.evaluate(self.restore(position))
        by_row = np.einsum("iab,ia->ib", self.row_factor, gradient.scores)
        by_column = np.einsum("jab,ja->jb", self.column_factor, gradient.joint)
        return value, np.concatenate([by_row.ravel(), by_column.ravel()])

    def restore(self, position: Floats) -> Point:
        """The point at u; leading axes are draws."""
        (n, k), (p, m) = self.centre.scores.shape, self.centre.joint.shape
        lead = position.shape[:-1]
        rows = position[..., : n * k].reshape(*lead, n, k)
        columns = position[..., n * k :].reshape(*lead, p, m)
        return Point(
            self.centre.scores + np.einsum("iab,...ib->...ia", self.row_factor, rows),
            self.centre.joint + np.einsum("jab,...jb->...ja", self.column_factor, columns),
        )

    def positions(self, draws: Point) -> Floats:
        """Coordinates u of points (s, n, k) and (s, p, m), shape (s, dim)."""
        rows = np.linalg.solve(self.row_factor, (draws.scores - self.centre.scores)[..., None])
        columns = np.linalg.solve(self.column_factor, (draws.joint - self.centre.joint)[..., None])
        return np.hstack([rows.reshape(len(rows), -1), columns.reshape(len(columns), -1)])


def _inverse_root(precision: Floats) -> Floats:
    """L with ``L L' = precision^-1``, matrix by matrix."""
    inverse: Floats = np.swapaxes(np.linalg.inv(np.linalg.cholesky(precision)), 1, 2)
    return inverse

r"""Composite evidence of nested sets of columns in the noiseless model.

With all other columns pure noise, the active part of a row, of norm R, has the density of W y with Gaussian W
(variance alpha) and y: a multivariate Bessel density. Rows are multiplied as if each had its own W. The shared W
makes them dependent, so the product is a composite (independence) likelihood, not the joint evidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, gammaln

from anypca._typing import Bools, Floats, Ints
from anypca.engine import Block, Statistics
from anypca.models._session import Session
from anypca.models.gsppca._standardiser import Standardiser
from anypca.special import log_bessel_k

# The density of a row grows without bound as its active part vanishes; norms are held above this share of their
# root mean square, which is the rounding of their squares, and rows that are at the mean in all columns are left out.
_SMALLEST_NORM = 1e-8
# Bessel functions are evaluated for this many (row, cardinality) pairs at a time: their temporary arrays, 256 kB each,
# stay in the cache. An eighth or eight times as many take a fifth more time.
_CHUNK = 2**15
# Cardinalities solved first; the others start from an interpolation of their solutions. With 12 or more of them two
# evaluations per cardinality are enough, where a start from moments needs three.
_N_COARSE = 48
# Steps in log(beta) are at most this long, a factor of 7 in beta, so that the first ones do not overshoot. Four or five
# steps are the rule; the limit on their number ends solves that rounding would keep going.
_LONGEST_STEP = 2.0
_MAX_NEWTON = 100
# At a step of this size in log(beta) the evidence is exact: its error is of second order.
_STEP_TOL = 1e-7
#: Probability that more columns than rows are active under the sparsity-inducing prior: the usual 5 %.
_LEVEL = 0.05


@dataclass(frozen=True)
class EvidencePath:
    """Composite evidence of the q most relevant columns, q = 1..p."""

    evidence: Floats
    """(p,)"""
    prior_variance: Floats
    """Best alpha of each cardinality, (p,)."""


@dataclass(frozen=True)
class RowSums(Statistics):
    """Sums over rows for some cardinalities, arrays (m,); they add over blocks."""

    weight: float
    """Number of rows that count."""
    log_norm: Floats
    log_bessel: Floats
    slope: Floats
    """``sum_i z_i r_i``"""
    curvature: Floats
    """``sum_i z_i^2 (r_i^2 + 2 nu r_i / z_i - 1)``, positive."""


def _constant(q: npt.ArrayLike, d: int, log_beta: npt.ArrayLike) -> Floats:
    """The part of the log density that does not depend on the row; ``beta = 1 / sqrt(alpha)``."""
    q = np.asarray(q, float)
    scale = 0.5 * (q + d) * np.asarray(log_beta)
    return np.asarray(
        scale - 0.5 * q * np.log(2.0 * np.pi) + (1.0 - 0.5 * d) * np.log(2.0) - gammaln(0.5 * d)
    )


@dataclass(frozen=True)
class CompositeEvidence:
    r"""Composite evidence along an order of the columns.

    Notes
    -----
    The log density of the active part of a row, of norm R, with q active columns, latent dimension d and prior
    variance alpha is

    .. math:: -\tfrac q2\log 2\pi + (1-\tfrac d2)\log 2 - \log\Gamma(\tfrac d2) - \tfrac{q+d}4\log\alpha
              + \tfrac{d-q}2\log R + \log K_{(q-d)/2}(R/\sqrt\alpha)

    The best alpha of a cardinality solves a strictly concave problem in s = log(beta), ``beta = 1 / sqrt(alpha)``,
    see `RowSums`: ``dl/ds = n d - slope``, ``d2l/ds2 = -curvature``. Newton's method, held within a bracket, runs for
    all cardinalities at once, one pass over the rows per step.
    """

    session: Session
    table: Standardiser
    order: Ints
    """Positions among the varying columns, most relevant first, (p,)."""
    n_components: int
    """Latent dimension."""
    noise: float
    """Variance of the inactive columns, the same for all cardinalities."""

    @cached_property
    def active(self) -> Floats:
        """Sums of squares of the 1, 2, ... most relevant columns, (p,)."""
        return np.cumsum(self.table.column_squares[self.order])

    @cached_property
    def inactive(self) -> Floats:
        """Sums of squares of the other columns, (p,)."""
        # They are summed from the far end, so that the last ones do not cancel.
        squares = self.table.column_squares[self.order]
        return np.append(np.cumsum(squares[::-1])[::-1][1:], 0.0)

    def path(self) -> EvidencePath:
        """Evidence of every cardinality, at its best alpha."""
        p = len(self.order)
        coarse = np.unique(np.geomspace(1, p, _N_COARSE).round().astype(int))
        start = self.moment_estimate(coarse)
        solved = self.solve(coarse, start)[0]
        everything = np.arange(1, p + 1)
        # Moment estimate and solution differ by an amount that varies slowly with the cardinality.
        gap = np.interp(np.log(everything), np.log(coarse), solved - start)
        log_beta, sums = self.solve(everything, self.moment_estimate(everything) + gap)
        return EvidencePath(self.value(everything, log_beta, sums), np.exp(-2.0 * log_beta))

    def moment_estimate(self, q: Ints) -> Floats:
        """log(beta) from ``E R^2 = alpha d q``, (m,)."""
        rows = self.table.n_rows
        floor = np.finfo(float).tiny
        return np.asarray(0.5 * np.log(self.n_components * rows * q / np.maximum(self.active[q - 1], floor)))

    def solve(self, q: Ints, start: Floats) -> tuple[Floats, RowSums]:
        """Maximise over log(beta) for some cardinalities, ascending.

        Parameters
        ----------
        q : ndarray of shape (m,)
        start : ndarray of shape (m,)

        Returns
        -------
        log_beta : ndarray of shape (m,)
        sums : RowSums
            At ``log_beta``.
        """
        s = np.array(start, dtype=float)
        low, high = np.full(len(q), -np.inf), np.full(len(q), np.inf)
        sums = self.row_sums(q, s)
        for _ in range(_MAX_NEWTON):
            gradient = sums.weight * self.n_components - sums.slope
            low, high = np.where(gradient > 0, s, low), np.where(gradient > 0, high, s)
            target = _newton_target(s, gradient, sums.curvature, low, high)
            todo: Bools = np.abs(target - s) > _STEP_TOL
            if not todo.any():
                break
            s = np.where(todo, target, s)
            sums = _replace(sums, todo, self.row_sums(q[todo], s[todo]))
        return s, sums

    def row_sums(self, q: Ints, log_beta: Floats) -> RowSums:
        """One pass over the rows: value, slope and curvature parts for cardinalities q at ``log_beta``, (m,)."""
        floor = _SMALLEST_NORM * np.sqrt(self.active[q - 1] / self.table.n_rows)
        least = _SMALLEST_NORM**2 * self.active[-1] / self.table.n_rows
        nu, beta = 0.5 * (q - self.n_components), np.exp(log_beta)
        table, order = self.table, self.order  # only what visit uses is sent to the workers

        def visit(block: Block, _: None) -> RowSums:
            rows = table.rows(block, weighted=False)[:, order]
            squares = np.cumsum(np.square(rows, out=rows), axis=1, out=rows)
            counts = (squares[:, -1] > least) & (block.weights > 0)
            return _sum_rows(squares[counts], block.weights[counts], q, nu, beta, floor)

        found: RowSums = self.session.sum(visit)
        return found

    def value(self, q: Ints, log_beta: Floats, sums: RowSums) -> Floats:
        """Composite evidence from the sums over rows, (m,)."""
        n = sums.weight
        active = n * _constant(q, self.n_components, log_beta)
        active += 0.5 * (self.n_components - q) * sums.log_norm + sums.log_bessel
        return np.asarray(active + self.inactive_value(q, n))

    def inactive_value(self, q: Ints, n_rows: float) -> Floats:
        """Log density of the columns left out, pure noise, over all rows, (m,)."""
        n_cells = n_rows * (len(self.order) - q)
        return np.asarray(
            -0.5 * self.inactive[q - 1] / self.noise - 0.5 * n_cells * np.log(2.0 * np.pi * self.noise)
        )


def _sum_rows(squares: Floats, weight: Floats, q: Ints, nu: Floats, beta: Floats, floor: Floats) -> RowSums:
    """`RowSums` of one block from running sums of squares (rows, p), a chunk of cardinalities at a time."""
    sums = np.zeros((4, len(q)))
    width = max(1, _CHUNK // max(1, len(squares)))
    for first in range(0, len(q), width):
        part = slice(first, first + width)
        norm = np.maximum(np.sqrt(squares[:, q[part] - 1]), floor[part])
        z, order = beta[part] * norm, nu[part]
        log_bessel = log_bessel_k(order, z)
        ratio = np.exp(log_bessel_k(order - 1.0, z) - log_bessel)
        slope = z * ratio
        # The derivative of the slope in log z, by Bessel's equation.
        curvature = slope**2 + 2.0 * order * slope - z * z
        for row, term in enumerate((np.log(norm), log_bessel, slope, curvature)):
            sums[row, part] = weight @ term
    return RowSums(float(weight.sum()), *sums)


def _newton_target(s: Floats, gradient: Floats, curvature: Floats, low: Floats, high: Floats) -> Floats:
    """Newton's points, shortened, and the middle of the bracket where they leave it."""
    safe = np.maximum(curvature, np.finfo(float).tiny)
    step = np.clip(gradient / safe, -_LONGEST_STEP, _LONGEST_STEP)
    target = s + step
    outside = (target < low) | (target > high)
    with np.errstate(invalid="ignore"):  # an open bracket has no middle, and is never left
        middle = 0.5 * (low + high)
    return np.where(outside, middle, target)


def _replace(sums: RowSums, where: Bools, new: RowSums) -> RowSums:
    """``sums`` with some cardinalities replaced."""
    fields = []
    for name in ("log_norm", "log_bessel", "slope", "curvature"):
        values = getattr(sums, name).copy()
        values[where] = getattr(new, name)
        fields.append(values)
    return RowSums(sums.weight, *fields)


def inclusion_probability(n_features: int, n_rows: float, prior: str) -> float:
    """Prior probability that a column is active.

    Parameters
    ----------
    n_features : int
        Number p of columns that vary.
    n_rows : float
        n
    prior : {"uniform", "sparse"}
        ``"uniform"``: all sets of columns are equally probable. ``"sparse"``: more than n of the p columns are
        active with probability 0.05 only; the same as uniform unless p is larger than about 2 n.

    Returns
    -------
    float
        In (0, 1/2].
    """
    n = round(n_rows)
    if prior == "uniform" or n >= n_features:
        return 0.5
    # P(Binomial(p, rho) > n) is the regularised incomplete beta function I_rho(n + 1, p - n).
    return min(0.5, float(betaincinv(n + 1, n_features - n, _LEVEL)))

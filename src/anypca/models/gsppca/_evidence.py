r"""Composite evidence of nested sets of columns.

All columns outside of a set are noise. The active part of a row is W y, with Gaussian W (variance alpha) and y,
without or with the noise of the other columns added. Rows are multiplied as if each had its own W. The shared W makes
them dependent, so the product is a composite (independence) likelihood, not the joint evidence.

For each set the evidence is maximised over :math:`s = -\tfrac12\log\alpha`, for all sets at once by Newton's method
within brackets, with one pass over the rows per step.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import betaincinv, gammainc, gammaln

from anypca._typing import Floats, Ints
from anypca.engine import Block
from anypca.models._context import FitContext
from anypca.models.gsppca._table import Standardiser
from anypca.special import log_bessel_k

# The density of a row grows without bound as its active part vanishes; norms are held above this share of their
# root mean square, the rounding of their squares, and rows that equal the mean in all columns are left out.
_SMALLEST_NORM = 1e-8
# Sets solved first; the others start from an interpolation of these solutions.
_N_COARSE = 48
# Longest step in s, a factor of 7 in 1 / sqrt(alpha), and the gain in nats below which a set has converged.
_LONGEST_STEP = 2.0
_LEAST_GAIN = 1e-6
_MAX_NEWTON = 100

#: From squared norms of active parts (n, m), sizes q (m,), the latent dimension, the noise of the active columns and s
#: (m,): log densities of the rows, their slopes in s and minus the second derivatives, (3, n, m).
Density = Callable[[Floats, Ints, int, float, Floats], Floats]


def noiseless_density(squares: Floats, q: Ints, d: int, noise: float, s: Floats) -> Floats:
    r"""Log density of active parts of norm R without noise, with its derivatives.

    .. math:: \tfrac{q+d}2 s - \tfrac q2\log 2\pi + (1-\tfrac d2)\log 2 - \log\Gamma(\tfrac d2)
              + \tfrac{d-q}2\log R + \log K_\nu(z), \qquad \nu = \tfrac{q-d}2, \; z = e^s R
    """
    nu, norm = 0.5 * (q - d), np.sqrt(squares)
    z = np.exp(s) * norm
    log_bessel = log_bessel_k(nu, z)
    ratio = z * np.exp(log_bessel_k(nu - 1.0, z) - log_bessel)
    constant = 0.5 * (q + d) * s - 0.5 * q * np.log(2.0 * np.pi) + (1.0 - 0.5 * d) * np.log(2.0)
    value = constant - gammaln(0.5 * d) - nu * np.log(norm) + log_bessel
    # The derivative of the ratio in log z follows from Bessel's equation.
    return np.stack([value, d - ratio, ratio**2 + 2.0 * nu * ratio - z * z])


# Nodes of the trapezoidal rule in log tau, and its range around log d: in units of 1 / sqrt(d), and at least so wide
# that rows of a twelfth or four times the typical size are within. The integrand falls exponentially to the left, where
# one more node replaces the tail, and doubly exponentially to the right. It agrees with adaptive quadrature to 1e-7.
_N_NODES = 240
_RANGE = (-15.0, 7.0)
_LEAST_RANGE = (-5.0, 3.0)


@functools.cache
def _nodes(d: int) -> tuple[Floats, Floats]:
    """log tau and log weights of a quadrature over the chi-squared distribution with d degrees of freedom."""
    low, high = (part / np.sqrt(d) for part in _RANGE)
    log_tau = np.log(d) + np.linspace(min(low, _LEAST_RANGE[0]), max(high, _LEAST_RANGE[1]), _N_NODES)
    weight = 0.5 * d * (log_tau - np.log(2.0)) - 0.5 * np.exp(log_tau) - gammaln(0.5 * d)
    weight += np.log(log_tau[1] - log_tau[0])
    weight[0] -= np.log(2.0)  # the trapezoidal rule; the other end has no weight
    # Below the range the density is a power of tau, whose mean there is this share of the limit.
    rest = np.log(gammainc(0.5 * d, 0.5 * np.exp(log_tau[0])))
    mean = log_tau[0] + np.log(d / (d + 2.0))
    return np.append(log_tau, mean), np.append(weight, rest)


def noisy_density(squares: Floats, q: Ints, d: int, noise: float, s: Floats) -> Floats:
    r"""Log density of active parts with noise, with its derivatives, by quadrature.

    Given :math:`\tau = |y|^2`, which is chi-squared with d degrees of freedom, an active part is normal with variance
    :math:`\sigma^2 + \alpha\tau` in all columns: the positive form of the integral over Bessel functions (theorem 1).
    """
    log_tau, log_weight = _nodes(d)
    signal = np.exp(log_tau - 2.0 * s[:, None])  # (m, nodes)
    variance = noise + signal
    half, half_q = 0.5 * squares[:, :, None] / variance, 0.5 * q[:, None]
    terms = log_weight - half_q * np.log(2.0 * np.pi * variance) - half
    top = terms.max(axis=2, keepdims=True)
    terms = np.exp(np.subtract(terms, top, out=terms), out=terms)
    total = terms.sum(axis=2)
    share = signal / variance
    slope = (half - half_q) * share  # of a term in log alpha
    bend = slope * (1.0 - share) - half * share**2 + slope**2
    mean, second = (np.einsum("nmt,nmt->nm", terms, part) / total for part in (slope, bend))
    return np.stack([np.log(total) + top[:, :, 0], -2.0 * mean, 4.0 * (mean**2 - second)])


#: Densities by name, the noise of active columns as a share of the noise of the others, and (row, set) pairs evaluated
#: at a time, whose temporary arrays stay in the cache.
EVIDENCES: dict[str, tuple[Density, float, int]] = {
    "noiseless": (noiseless_density, 0.0, 2**15),
    "noisy": (noisy_density, 1.0, 2**11),
}


@dataclass(frozen=True)
class CompositeEvidence:
    """Composite evidence along an order of the columns."""

    session: FitContext
    table: Standardiser
    order: Ints
    """Positions among the varying columns, most relevant first, (p,)."""
    n_components: int
    """Latent dimension."""
    noise: float
    """Variance of the inactive columns, the same for all sets."""
    kind: str
    """A key of `EVIDENCES`."""

    @property
    def active(self) -> Floats:
        """Sums of squares of the 1, 2, ... most relevant columns, (p,)."""
        return np.cumsum(self.table.column_squares[self.order])

    def path(self) -> Floats:
        """Evidence of the sets of 1, 2, ... columns at their best alpha, (p,)."""
        p = len(self.order)
        coarse = np.unique(np.geomspace(1, p, _N_COARSE).round().astype(int))
        q, start = np.arange(1, p + 1), self._moment_estimate(coarse)
        # Moment estimate and solution differ by an amount that varies slowly with the size of the set.
        gap = np.interp(np.log(q), np.log(coarse), self._solve(coarse, start)[0] - start)
        value, _, _, weight = self._solve(q, self._moment_estimate(q) + gap)[1]
        # Summed from the far end, so that the last sums do not cancel.
        inactive = np.append(np.cumsum(self.table.column_squares[self.order][::-1])[::-1][1:], 0.0)
        n_cells = weight * (p - q)
        return np.asarray(
            value - 0.5 * inactive / self.noise - 0.5 * n_cells * np.log(2.0 * np.pi * self.noise)
        )

    def _moment_estimate(self, q: Ints) -> Floats:
        """s from ``E R^2 = q (noise + alpha d)``, (m,)."""
        mean = np.maximum(self.active[q - 1] / (self.table.n_rows * q), np.finfo(float).tiny)
        excess = np.maximum(mean - EVIDENCES[self.kind][1] * self.noise, _SMALLEST_NORM * mean)
        return np.asarray(-0.5 * np.log(excess / self.n_components))

    def _solve(self, q: Ints, start: Floats) -> tuple[Floats, Floats]:
        """The best s of some sets (m,), and `_sums` there."""
        s, low, high = start.copy(), np.full(len(q), -np.inf), np.full(len(q), np.inf)
        sums = self._sums(q, s)
        for _ in range(_MAX_NEWTON):
            slope, least = sums[1], np.abs(sums[1]) / _LONGEST_STEP + np.finfo(float).tiny
            low, high = np.where(slope > 0, s, low), np.where(slope > 0, high, s)
            target = s + slope / np.maximum(sums[2], least)
            with np.errstate(invalid="ignore"):  # an open bracket has no middle, and is never left
                target = np.where((target < low) | (target > high), 0.5 * (low + high), target)
            todo = np.abs(slope * (target - s)) > _LEAST_GAIN
            if not todo.any():
                break
            s[todo] = target[todo]
            sums[:, todo] = self._sums(q[todo], s[todo])
        return s, sums

    def _sums(self, q: Ints, s: Floats) -> Floats:
        """The density and its derivatives summed over the rows, and the weight of these rows, (4, m)."""
        density, share, size = EVIDENCES[self.kind]
        active, d, noise = self.active / self.table.n_rows, self.n_components, share * self.noise
        floor, least = _SMALLEST_NORM**2 * active[q - 1], _SMALLEST_NORM**2 * active[-1]
        table, order = self.table, self.order  # only what visit uses is sent to the workers

        def visit(block: Block, _: None) -> Floats:
            rows = table.rows(replace(block, weight=None))[:, order]
            squares = np.cumsum(np.square(rows, out=rows), axis=1, out=rows)
            counts = (squares[:, -1] > least) & (block.weights > 0)
            squares, weight = squares[counts], block.weights[counts]
            found = np.full((4, len(q)), weight.sum())
            width = max(1, size // max(1, len(squares)))
            for part in (slice(first, first + width) for first in range(0, len(q), width)):
                norms = np.maximum(squares[:, q[part] - 1], floor[part])
                found[:3, part] = np.tensordot(density(norms, q[part], d, noise, s[part]), weight, (1, 0))
            return found

        return np.asarray(self.session.sum(visit))


#: Probability that more columns than rows are active under the sparsity-inducing prior: the usual 5 %.
_LEVEL = 0.05


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

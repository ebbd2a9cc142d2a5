r"""Composite evidence of nested sets of columns when the active ones have noise too.

The active part of a row, of norm R, is W y with the noise of the others added. Given :math:`\tau = |y|^2`, which has a
chi-squared distribution with d degrees of freedom, it is normal with the variance :math:`\sigma^2 + \alpha\tau` in all
columns; the integral over :math:`\tau` is the positive form of that over Bessel functions (theorem 1).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from scipy.special import gammainc, gammaln

from anypca._typing import Floats, Ints
from anypca.engine import Block
from anypca.models.gsppca._evidence import CompositeEvidence, EvidencePath

# Nodes of the trapezoidal rule in log tau, and its range around log d: in units of 1 / sqrt(d), and at least so wide
# that rows of a twelfth or four times the typical size are within. The integrand falls exponentially to the left, where
# one more node has what is missing, and doubly so to the right. 240 nodes agree with adaptive quadrature to 1e-7.
_N_NODES = 240
_RANGE = (-15.0, 7.0)
_LEAST_RANGE = (-5.0, 3.0)
# Largest number of (row, cardinality, node) triples at a time: 4 MB of an array.
_CHUNK = 2**19
# log(alpha) is searched between the moment estimate and this far below or above, in steps of the false position.
_WIDEST = 12.0
_MAX_STEPS = 60
# At a bracket of this size the evidence is exact: its error is of second order.
_TOL = 1e-6
# Cardinalities solved; from an interpolation of their solutions one step of Newton's method is enough for the others.
# Its curvature is a difference of slopes; where that is rounding the step is held short.
_N_COARSE = 24
_DIFFERENCE = 1e-3
_LONGEST_STEP = 0.5


@dataclass(frozen=True)
class NoisyEvidence:
    """Composite evidence along an order of the columns, with the noise of the inactive columns in all of them."""

    plain: CompositeEvidence
    """The rows, their order, the latent dimension and the noise."""

    def path(self) -> EvidencePath:
        """Evidence of every cardinality, at its best alpha."""
        p = len(self.plain.order)
        coarse = np.unique(np.geomspace(1, p, _N_COARSE).round().astype(int))
        q = np.arange(1, p + 1)
        log_alpha, value = self._improve_once(q, np.interp(np.log(q), np.log(coarse), self.solve(coarse)))
        n_rows = float(self.plain.table.n_rows)
        return EvidencePath(value + self.plain.inactive_value(q, n_rows), np.exp(log_alpha))

    def _improve_once(self, q: Ints, start: Floats) -> tuple[Floats, Floats]:
        """log(alpha) after a step of Newton's method from nearly the best, and the value there, (m,) each."""
        value, slope = self.row_sums(q, start)
        curvature = (self.row_sums(q, start + _DIFFERENCE)[1] - slope) / _DIFFERENCE
        step = np.divide(-slope, curvature, out=np.zeros_like(slope), where=curvature < 0.0)
        log_alpha = start + np.clip(step, -_LONGEST_STEP, _LONGEST_STEP)
        better = self.row_sums(q, log_alpha)[0]
        return np.where(better > value, log_alpha, start), np.maximum(better, value)

    def solve(self, q: Ints) -> Floats:
        """The best log(alpha) of some cardinalities, (m,): the root of the slope, by Illinois' false position."""
        plain = self.plain
        mean = plain.active[q - 1] / (plain.table.n_rows * q)
        excess = np.maximum(mean - plain.noise, np.exp(-_WIDEST) * np.maximum(mean, np.finfo(float).tiny))
        middle = np.log(excess / plain.n_components)
        low, high = middle - _WIDEST, middle + _WIDEST
        below, above = self.row_sums(q, low)[1], self.row_sums(q, high)[1]
        for _ in range(_MAX_STEPS):
            usable = (below > 0.0) & (above < 0.0)
            share = np.where(usable, below / np.where(usable, below - above, 1.0), 0.5)
            trial = low + share * (high - low)
            slope = self.row_sums(q, trial)[1]
            is_low = slope > 0.0
            # Illinois: an end that stays has half its value, so that it does not stay for ever.
            above, below = np.where(is_low, 0.5 * above, slope), np.where(is_low, slope, 0.5 * below)
            low, high = np.where(is_low, trial, low), np.where(is_low, high, trial)
            if np.all((high - low < _TOL) | (np.abs(slope) <= _TOL)):
                break
        return np.asarray(trial)

    def row_sums(self, q: Ints, log_alpha: Floats) -> Floats:
        """Log density of the active parts and its slope in log(alpha), summed over rows, (2, m)."""
        table, order = self.plain.table, self.plain.order  # only what visit uses is sent to the workers
        d, noise = self.plain.n_components, self.plain.noise

        def visit(block: Block, _: None) -> Floats:
            rows = table.rows(block, weighted=False)[:, order]
            squares = np.cumsum(np.square(rows, out=rows), axis=1, out=rows)[:, q - 1]
            width = max(1, _CHUNK // (_N_NODES * max(1, len(squares))))
            parts = [slice(first, first + width) for first in range(0, len(q), width)]
            return np.concatenate(
                [
                    np.tensordot(
                        _density(squares[:, at], q[at], d, noise, log_alpha[at]), block.weights, (1, 0)
                    )
                    for at in parts
                ],
                axis=1,
            )

        return np.asarray(self.plain.session.sum(visit))


@functools.cache
def _nodes(d: int) -> tuple[Floats, Floats]:
    """log tau and log weights of a quadrature over the chi-squared distribution with d degrees of freedom."""
    low, high = (part / np.sqrt(d) for part in _RANGE)
    log_tau = np.log(d) + np.linspace(min(low, _LEAST_RANGE[0]), max(high, _LEAST_RANGE[1]), _N_NODES)
    weight = 0.5 * d * (log_tau - np.log(2.0)) - 0.5 * np.exp(log_tau) - gammaln(0.5 * d)
    weight += np.log(log_tau[1] - log_tau[0])
    weight[0] -= np.log(2.0)  # the trapezoidal rule; the other end has no weight
    # Below the range the density is that of a power of tau, whose mean there is this share of the limit.
    rest = np.log(gammainc(0.5 * d, 0.5 * np.exp(log_tau[0])))
    mean = log_tau[0] + np.log(d / (d + 2.0))
    return np.append(log_tau, mean), np.append(weight, rest)


def _density(squares: Floats, q: Ints, d: int, noise: float, log_alpha: Floats) -> Floats:
    """Log density of active parts with squared norms ``squares`` (n, m), and its slope in log(alpha); (2, n, m)."""
    log_tau, log_weight = _nodes(d)
    signal = np.exp(log_alpha[:, None] + log_tau)  # (m, nodes)
    variance = noise + signal
    half = 0.5 * squares[:, :, None] / variance
    terms = log_weight - 0.5 * q[:, None] * np.log(2.0 * np.pi * variance) - half
    top = terms.max(axis=2, keepdims=True)
    terms = np.exp(np.subtract(terms, top, out=terms), out=terms)
    total = terms.sum(axis=2)
    half -= 0.5 * q[:, None]
    half *= signal / variance
    slope = np.einsum("nmt,nmt->nm", terms, half) / total
    return np.stack([np.log(total) + top[:, :, 0], slope])

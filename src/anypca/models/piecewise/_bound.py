"""The variational bound of piecewise Poisson PCA, row by row, and its derivatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, ndtr

from anypca._typing import Floats, Ints
from anypca.linalg import packed_products, unpack_symmetric
from anypca.models._opened import OpenedBlock, observed_only
from anypca.models.piecewise._pieces import Pieces

_ROOT_2PI = float(np.sqrt(2.0 * np.pi))


@dataclass(frozen=True)
class Counts:
    """Rows of counts with what the bound needs of them."""

    y: Floats
    """Counts, 0 where missing (rows, n_features)."""
    mask: Floats | None
    """1 where observed, 0 where missing; ``None`` for complete rows."""
    offset: Floats | None
    """(rows, n_features) or (rows, 1)"""
    base: Floats
    """``sum_j y_ij o_ij - log y_ij!`` (rows,)."""

    def take(self, rows: Ints) -> Counts:
        """Some of the rows."""
        return Counts(
            self.y[rows],
            None if self.mask is None else self.mask[rows],
            None if self.offset is None else self.offset[rows],
            self.base[rows],
        )


def read_counts(rows: OpenedBlock) -> Counts:
    """The counts of opened rows in float64."""
    y = observed_only(rows, slice(None), rows.x.astype(np.float64, copy=False))
    mask = None if rows.observed is None else rows.observed.astype(np.float64)
    base = -gammaln(y + 1.0).sum(axis=1)
    if rows.offset is None:
        return Counts(y, mask, None, base)
    offset = rows.offset.astype(np.float64, copy=False)
    return Counts(y, mask, offset, base + (y * offset).sum(axis=1))


class Slab(NamedTuple):
    """Moments of N(mean, std^2) on an interval, elementwise: of 1, x and x^2, and the density at its ends."""

    zeroth: Floats
    first: Floats
    second: Floats
    at_low: Floats
    at_high: Floats


def slab_moments(mean: Floats, std: Floats, low: float, high: float) -> Slab:
    """Moments on the interval (low, high), the density being 0 at infinite ends."""
    a, b = (low - mean) / std, (high - mean) / std
    # Upper tails are differences of small numbers only when taken from above.
    above = a > 0
    zeroth = np.where(above, ndtr(-a) - ndtr(-b), ndtr(b) - ndtr(a))
    at_low, at_high = (np.exp(-0.5 * z * z) / (_ROOT_2PI * std) for z in (a, b))
    first = mean * zeroth + std**2 * (at_low - at_high)
    low, high = (end if np.isfinite(end) else 0.0 for end in (low, high))
    second = (mean**2 + std**2) * zeroth + std**2 * ((mean + low) * at_low - (mean + high) * at_high)
    return Slab(zeroth, first, second, at_low, at_high)


class Rates(NamedTuple):
    """Expected rates of one piece, ``E[exp(theta_ij) 1_k]``, and what their derivatives need (rows, n_features)."""

    value: Floats
    """H"""
    first: Floats
    """``E[t exp(theta_ij) 1_k]``"""
    second: Floats
    """``E[t^2 exp(theta_ij) 1_k]``"""
    at_low: Floats
    """P at the lower end of the slab."""
    at_high: Floats


def find_rates(counts: Counts, matrix: Floats, low: float, high: float, m: Floats, s: Floats) -> Rates:
    """Expected rates of the piece with map ``matrix`` (n_features, q + 1) under N(m, diag s^2) of each row."""
    B = matrix[:, :-1]
    eta = m @ B.T + matrix[:, -1] + 0.5 * (s * s) @ (B * B).T
    if counts.offset is not None:
        eta += counts.offset
    scale = np.exp(eta)
    if counts.mask is not None:
        scale *= counts.mask
    std = s[:, -1:]
    # Under the measure tilted by exp(b t) the last coordinate is normal with this mean.
    tilted = m[:, -1:] + std**2 * B[:, -1]
    return Rates(*(scale * moment for moment in slab_moments(tilted, std, low, high)))


class Evaluation(NamedTuple):
    """The bound of each row, with derivatives with respect to m and log s."""

    value: Floats
    """(rows,)"""
    slope_m: Floats
    """(rows, q)"""
    slope_log_s: Floats
    """(rows, q)"""
    curvature_m: Floats
    """Positive definite model of minus the second derivative (rows, q, q)."""
    curvature_log_s: Floats
    """Likewise, diagonal (rows, q)."""


def evaluate(counts: Counts, pieces: Pieces, m: Floats, s: Floats) -> Evaluation:
    """The bound at q(w_i) = N(m_i, diag s_i^2).

    Parameters
    ----------
    counts : Counts
    pieces : Pieces
    m, s : ndarray of shape (rows, q)

    Returns
    -------
    Evaluation
        NaN or infinite in rows where rates overflow.
    """
    n, q = m.shape
    edges = pieces.edges
    value = counts.base - 0.5 * (m * m + s * s - 2.0 * np.log(s) - 1.0).sum(axis=1)
    slope_m, slope_s = -m, 1.0 / s - s
    curvature, bends = np.zeros((n, q * (q + 1) // 2)), np.zeros((n, q))
    for k, matrix in enumerate(pieces.maps):
        low, high = float(edges[k]), float(edges[k + 1])
        B = matrix[:, :-1]
        data_value, data_m, data_s = _data_part(counts, matrix, low, high, m, s)
        rates = find_rates(counts, matrix, low, high, m, s)
        value = value + data_value - rates.value.sum(axis=1)
        slope_m = slope_m + data_m - rates.value @ B
        slope_m[:, -1] -= (rates.at_low - rates.at_high).sum(axis=1)
        bend = rates.value @ (B * B)
        slope_s = slope_s - s * bend
        slope_s[:, -1] += data_s - _edge_bend(rates, B[:, -1], low, high, m[:, -1:], s[:, -1:])
        curvature += rates.value @ packed_products(B)
        bends += bend
    metric = unpack_symmetric(curvature, q) + np.eye(q)
    return Evaluation(value, slope_m, s * slope_s, metric, 2.0 * s * s * (1.0 + bends))


def _data_part(
    counts: Counts, matrix: Floats, low: float, high: float, m: Floats, s: Floats
) -> tuple[Floats, Floats, Floats]:
    """``sum_j y_j E[(mu_j + b_j'w) 1_k]``: value (rows,), slope in m (rows, q), slope in the last s (rows,)."""
    B = matrix[:, :-1]
    pull = counts.y @ B
    level = counts.y @ matrix[:, -1] + (pull[:, :-1] * m[:, :-1]).sum(axis=1)
    # Offsets are in `base`: the probabilities of the pieces sum to one, so they do not depend on m and s.
    slab = slab_moments(m[:, -1], s[:, -1], low, high)
    value = level * slab.zeroth + pull[:, -1] * slab.first
    low, high = (end if np.isfinite(end) else 0.0 for end in (low, high))
    mean, std = m[:, -1], s[:, -1]
    slope = np.empty_like(m)
    slope[:, :-1] = pull[:, :-1] * slab.zeroth[:, None]
    zeroth_m = slab.at_low - slab.at_high
    first_m = low * slab.at_low - high * slab.at_high + slab.zeroth
    slope[:, -1] = level * zeroth_m + pull[:, -1] * first_m
    bend_low, bend_high = -(low - mean) * slab.at_low / std**2, -(high - mean) * slab.at_high / std**2
    zeroth_s = std * (bend_high - bend_low)
    first_s = std * (high * bend_high - low * bend_low - slab.at_high + slab.at_low)
    return value, slope, level * zeroth_s + pull[:, -1] * first_s


def _edge_bend(rates: Rates, b: Floats, low: float, high: float, mean: Floats, std: Floats) -> Floats:
    """What the ends of the slab add to the derivative of the rates with respect to the last s (rows,)."""
    value = np.zeros(len(mean))
    for density, end, sign in ((rates.at_low, low, 1.0), (rates.at_high, high, -1.0)):
        if np.isfinite(end):
            value += sign * (density * ((end - mean) / std + std * b)).sum(axis=1)
    return value

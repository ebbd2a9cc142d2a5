"""Counts: the variational bound of each row, its derivatives, its maximum, and sums over rows for the maps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, ndtr

from anypca._typing import Floats, Ints
from anypca.linalg import packed_products, solve_spd, unpack_symmetric
from anypca.models._opened import OpenedBlock, observed_only
from anypca.models.piecewise._pieces import Pieces
from anypca.special import truncated_normal

_ROOT_2PI = float(np.sqrt(2.0 * np.pi))
# Longest steps in m, in prior standard deviations, and in log s. Rates are exponential: from far below the optimum a
# Newton step would overshoot by any factor, and halving would have to bring it back.
_LONGEST_M = 2.0
_LONGEST_LOG_S = 1.0
# A step that failed is tried at a quarter of its length; one that gains doubles the length again. After 12 failures,
# below 1e-7 of a Newton step, its gain drowns in the rounding of the bound.
_SHORTER = 0.25
_SHORTEST = 1e-7
# Posterior standard deviations at the start, in those of the prior: between rows that tell much and rows that tell
# nothing, and so small that most of the start lies in its slab.
_START_S = 0.3
# Steps after which the starts of a row, one in each piece, are compared, and further steps until a row is left where
# it is: of 400 rows of bent counts 62 needed more than 30 of these, 3 more than 200.
_STEPS_PER_START = 10
_MOST_STEPS = 400
# Scaled gradient at which a row's posterior is final: m and s are then right to about 1e-6 of s, its bound to 1e-12.
_ROW_TOL = 1e-6


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
    value = counts.base - 0.5 * (m * m + s * s - 2.0 * np.log(s) - 1.0).sum(axis=1)
    slope_m, slope_s = -m, 1.0 / s - s
    curvature, bends = np.zeros((n, q * (q + 1) // 2)), np.zeros((n, q))
    for matrix, low, high in pieces.slabs:
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


@dataclass(frozen=True)
class Scores:
    """The variational posterior N(m, diag s^2) of the latent points of a block's rows."""

    m: Floats
    """(rows, q)"""
    s: Floats
    """(rows, q)"""


def start_scores(counts: Counts, pieces: Pieces) -> Scores:
    """The best of one start per piece after a few steps: the bound may have a maximum in each of them.

    Parameters
    ----------
    counts : Counts
    pieces : Pieces

    Returns
    -------
    Scores
    """
    n, q = len(counts.y), pieces.n_components
    centres = truncated_normal(pieces.edges[:-1], pieces.edges[1:]).mean
    best, reached = Scores(np.zeros((n, q)), np.ones((n, q))), np.full(n, -np.inf)
    for centre in centres:
        m = np.zeros((n, q))
        m[:, -1] = centre
        found, evaluation = climb_rows(
            counts, pieces, Scores(m, np.full((n, q), _START_S)), max_steps=_STEPS_PER_START, tol=0.0
        )
        better = evaluation.value > reached
        reached = np.where(better, evaluation.value, reached)
        best = Scores(
            *(np.where(better[:, None], new, old) for new, old in ((found.m, best.m), (found.s, best.s)))
        )
    return best


def solve_scores(counts: Counts, pieces: Pieces) -> tuple[Scores, Evaluation]:
    """Each row to its own convergence."""
    return climb_rows(counts, pieces, start_scores(counts, pieces), max_steps=_MOST_STEPS, tol=_ROW_TOL)


def climb_rows(
    counts: Counts, pieces: Pieces, start: Scores, *, max_steps: int, tol: float
) -> tuple[Scores, Evaluation]:
    """Damped Newton steps on all rows at once; no row's bound ever decreases.

    Parameters
    ----------
    counts : Counts
    pieces : Pieces
    start : Scores
    max_steps : int
    tol : float
        A row is left alone when its scaled gradient is at most this.

    Returns
    -------
    scores : Scores
    evaluation : Evaluation
        At ``scores``.
    """
    m, log_s = start.m.copy(), np.log(start.s)
    with np.errstate(over="ignore", invalid="ignore"):  # overflowing trials are refused
        at = evaluate(counts, pieces, m, np.exp(log_s))
        length = np.ones(len(m))
        for _ in range(max_steps):
            step_m, step_s, gain = newton_step(at)
            active = np.flatnonzero((gain > tol**2) & (length > _SHORTEST))
            if not len(active):
                break
            t = length[active, None]
            trial_m, trial_s = m[active] + t * step_m[active], log_s[active] + t * step_s[active]
            part = counts if len(active) == len(m) else counts.take(active)
            trial = evaluate(part, pieces, trial_m, np.exp(trial_s))
            better = np.isfinite(trial.value) & (trial.value >= at.value[active])
            longer, shorter = np.minimum(1.0, 2.0 * length[active]), _SHORTER * length[active]
            length[active] = np.where(better, longer, shorter)
            rows = active[better]
            m[rows], log_s[rows] = trial_m[better], trial_s[better]
            for old, new in zip(at, trial, strict=True):
                old[rows] = new[better]
    return Scores(m, np.exp(log_s)), at


def newton_step(at: Evaluation) -> tuple[Floats, Floats, Floats]:
    """Steps in m and log s (rows, q), and the squared scaled gradient (rows,)."""
    step_m = solve_spd(at.curvature_m, at.slope_m)
    # The entropy alone bends by 2 s^2, which vanishes where a row is sure; a curvature of 1 keeps the step finite.
    step_s = at.slope_log_s / np.maximum(at.curvature_log_s, 1.0)
    gain = (step_m * at.slope_m).sum(axis=1) + (step_s * at.slope_log_s).sum(axis=1)
    size = np.sqrt((step_m**2).sum(axis=1, keepdims=True))
    step_m = step_m * np.minimum(1.0, _LONGEST_M / np.maximum(size, _LONGEST_M))
    return step_m, np.clip(step_s, -_LONGEST_LOG_S, _LONGEST_LOG_S), gain


def sum_columns(
    counts: Counts, pieces: Pieces, scores: Scores, weight: Floats
) -> tuple[Floats, Floats, Floats]:
    """Slopes (K, n_features, q + 1), curvatures (K, n_features, q + 1, q + 1) and occupancies (K,) of the pieces."""
    slopes, curvatures, occupancy = [], [], []
    m, s = scores.m, scores.s
    for matrix, low, high in pieces.slabs:
        slab = slab_moments(m[:, -1], s[:, -1], low, high)
        expected = np.column_stack([m[:, :-1] * slab.zeroth[:, None], slab.first, slab.zeroth])
        rates = find_rates(counts, matrix, low, high, m, s)
        moments, curvature = rate_moments(rates, matrix, scores, weight)
        slopes.append(counts.y.T @ (expected * weight[:, None]) - moments)
        curvatures.append(curvature)
        occupancy.append(weight @ slab.zeroth)
    return np.array(slopes), np.array(curvatures), np.array(occupancy)


def rate_moments(rates: Rates, matrix: Floats, scores: Scores, weight: Floats) -> tuple[Floats, Floats]:
    """Sums over rows of ``E[exp(theta) u 1_k]`` (n_features, q + 1) and ``E[exp(theta) u u' 1_k]`` (., q + 1, q + 1).

    Under the tilted measure the coordinates are independent, those before the last with mean ``m + b s^2``.
    """
    B = matrix[:, :-1]
    p, q = B.shape
    H, first, second = (part * weight[:, None] for part in (rates.value, rates.first, rates.second))
    m, v = scores.m[:, :-1], scores.s[:, :-1] ** 2
    outer = np.empty((p, q + 1, q + 1))
    for a in range(q - 1):
        for b in range(a, q - 1):
            products = np.column_stack(
                [m[:, a] * m[:, b], m[:, a] * v[:, b], v[:, a] * m[:, b], v[:, a] * v[:, b]]
            )
            factors = np.column_stack([np.ones(p), B[:, b], B[:, a], B[:, a] * B[:, b]])
            outer[:, a, b] = ((H.T @ products) * factors).sum(axis=1)
            if a == b:
                outer[:, a, a] += H.T @ v[:, a]
            outer[:, b, a] = outer[:, a, b]
    for weights, column in ((first, q - 1), (H, q)):
        part = weights.T @ m + B[:, :-1] * (weights.T @ v)
        outer[:, : q - 1, column] = outer[:, column, : q - 1] = part
    outer[:, q - 1, q - 1] = second.sum(axis=0)
    outer[:, q - 1, q] = outer[:, q, q - 1] = first.sum(axis=0)
    outer[:, q, q] = H.sum(axis=0)
    return outer[:, :, q], outer

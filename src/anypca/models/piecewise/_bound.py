"""The variational bound of each row, its derivatives, its maximum, and sums over rows for the maps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from anypca._typing import Floats
from anypca.linalg import packed_products, solve_spd, unpack_symmetric
from anypca.models.piecewise._pieces import Pieces
from anypca.models.piecewise._slabs import COARSE, Integrals, slab_moments
from anypca.models.piecewise._terms import Entries
from anypca.special import truncated_normal

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


def evaluate(rows: Entries, pieces: Pieces, m: Floats, s: Floats) -> Evaluation:
    """The bound at q(w_i) = N(m_i, diag s_i^2).

    Parameters
    ----------
    rows : Entries
    pieces : Pieces
    m, s : ndarray of shape (rows, q)

    Returns
    -------
    Evaluation
        NaN or infinite in rows where predictors overflow.
    """
    n, q = m.shape
    value = rows.base - 0.5 * (m * m + s * s - 2.0 * np.log(s) - 1.0).sum(axis=1)
    slope_m, slope_s = -m, 1.0 / s - s
    curvature, bends = np.zeros((n, q * (q + 1) // 2)), np.zeros((n, q))
    for matrix, low, high in pieces.slabs:
        B = matrix[:, :-1]
        terms = rows.terms(matrix, low, high, m, s)
        value = value + terms.value.sum(axis=1)
        slope_m[:, :-1] += terms.slope @ B[:, :-1]
        slope_m[:, -1] += terms.by_mean.sum(axis=1)
        slope_s[:, :-1] += s[:, :-1] * (terms.across @ B[:, :-1] ** 2)
        slope_s[:, -1] += terms.by_std.sum(axis=1)
        curvature -= terms.curvature @ packed_products(B)
        bends -= terms.curvature @ (B * B)
    metric = unpack_symmetric(curvature, q) + np.eye(q)
    return Evaluation(value, slope_m, s * slope_s, metric, 2.0 * s * s * (1.0 + bends))


@dataclass(frozen=True)
class Scores:
    """The variational posterior N(m, diag s^2) of the latent points of a block's rows."""

    m: Floats
    """(rows, q)"""
    s: Floats
    """(rows, q)"""


def start_scores(rows: Entries, pieces: Pieces, known: Scores | None = None) -> Scores:
    """The best of one start per piece after a few steps: the bound may have a maximum in each of them.

    Parameters
    ----------
    rows : Entries
    pieces : Pieces
    known : Scores or None
        Posteriors that are kept where they are better than all starts.

    Returns
    -------
    Scores
    """
    n, q = len(rows.x), pieces.n_components
    best = Scores(np.zeros((n, q)), np.ones((n, q))) if known is None else known
    reached = np.full(n, -np.inf) if known is None else evaluate(rows, pieces, known.m, known.s).value
    for centre in truncated_normal(pieces.edges[:-1], pieces.edges[1:]).mean:
        m = np.zeros((n, q))
        m[:, -1] = centre
        start = Scores(m, np.full((n, q), _START_S))
        found = climb_rows(replace(rows, rule=COARSE), pieces, start, max_steps=_STEPS_PER_START, tol=0.0)[0]
        value = evaluate(rows, pieces, found.m, found.s).value
        better = value > reached
        reached = np.where(better, value, reached)
        best = Scores(
            *(np.where(better[:, None], new, old) for new, old in ((found.m, best.m), (found.s, best.s)))
        )
    return best


def solve_scores(rows: Entries, pieces: Pieces) -> tuple[Scores, Evaluation]:
    """Each row to its own convergence."""
    return climb_rows(rows, pieces, start_scores(rows, pieces), max_steps=_MOST_STEPS, tol=_ROW_TOL)


def climb_rows(
    rows: Entries, pieces: Pieces, start: Scores, *, max_steps: int, tol: float
) -> tuple[Scores, Evaluation]:
    """Damped Newton steps on all rows at once; no row's bound ever decreases.

    Parameters
    ----------
    rows : Entries
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
        at = evaluate(rows, pieces, m, np.exp(log_s))
        length = np.ones(len(m))
        for _ in range(max_steps):
            step_m, step_s, gain = newton_step(at)
            active = np.flatnonzero((gain > tol**2) & (length > _SHORTEST))
            if not len(active):
                break
            t = length[active, None]
            trial_m, trial_s = m[active] + t * step_m[active], log_s[active] + t * step_s[active]
            part = rows if len(active) == len(m) else rows.take(active)
            trial = evaluate(part, pieces, trial_m, np.exp(trial_s))
            better = np.isfinite(trial.value) & (trial.value >= at.value[active])
            longer, shorter = np.minimum(1.0, 2.0 * length[active]), _SHORTER * length[active]
            length[active] = np.where(better, longer, shorter)
            moved = active[better]
            m[moved], log_s[moved] = trial_m[better], trial_s[better]
            for old, new in zip(at, trial, strict=True):
                old[moved] = new[better]
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


@dataclass(frozen=True)
class ColumnSums:
    """Sums over rows for the maps; u is the covariates, the latent point and a 1, together m numbers."""

    slope: Floats
    """``sum_i E[l' u_i 1_k]`` (K, n_features, m)."""
    curvature: Floats
    """A positive model of ``-sum_i E[l'' u_i u_i' 1_k]``, exact for rates (K, n_features, m, m)."""
    occupancy: Floats
    """Weighted probabilities of the pieces (K,)."""


def sum_columns(
    rows: Entries, pieces: Pieces, scores: Scores, weight: Floats, covariates: Floats
) -> ColumnSums:
    """Sums over rows at fixed posteriors; covariates count as coordinates that are known, (rows, n_covariates)."""
    known = Scores(np.hstack([covariates, scores.m]), np.hstack([np.zeros_like(covariates), scores.s]))
    slopes, curvatures, occupancy = [], [], []
    for matrix, low, high in pieces.slabs:
        terms = rows.terms(matrix, low, high, scores.m, scores.s)
        weighted = Integrals(*(part * weight[:, None] for part in terms))
        B = np.hstack([pieces.coef, matrix[:, :-1]])
        slopes.append(_sum_slopes(weighted, B, known))
        curvatures.append(_sum_curvatures(weighted, B, known, has_rates=rows.has_rates))
        occupancy.append(weight @ slab_moments(scores.m[:, -1], scores.s[:, -1], low, high).zeroth)
    return ColumnSums(np.array(slopes), np.array(curvatures), np.array(occupancy))


def _sum_slopes(terms: Integrals, B: Floats, known: Scores) -> Floats:
    """Slopes of the bound in the coefficients of each column, shape (n_features, m)."""
    m, v = known.m[:, :-1], known.s[:, :-1] ** 2
    others = terms.slope.T @ m + B[:, :-1] * (terms.across.T @ v)
    return np.column_stack([others, terms.slope_t.sum(axis=0), terms.slope.sum(axis=0)])


def _sum_curvatures(terms: Integrals, B: Floats, known: Scores, *, has_rates: bool) -> Floats:
    """Curvatures of the bound in the coefficients of each column, shape (n_features, m, m).

    Under the measure tilted by a rate the coordinates before t stay independent, with mean ``m + b s^2``.
    """
    p, q = B.shape
    H, first, second = -terms.curvature, -terms.curvature_t, -terms.curvature_tt
    m, v = known.m[:, :-1], known.s[:, :-1] ** 2
    # Rates grow by exp(b w), under which the mean of w moves by b s^2.
    tilt = B if has_rates else np.zeros_like(B)
    outer = np.empty((p, q + 1, q + 1))
    for a in range(q - 1):
        for b in range(a, q - 1):
            products = np.column_stack(
                [m[:, a] * m[:, b], m[:, a] * v[:, b], v[:, a] * m[:, b], v[:, a] * v[:, b]]
            )
            factors = np.column_stack([np.ones(p), tilt[:, b], tilt[:, a], tilt[:, a] * tilt[:, b]])
            outer[:, a, b] = ((H.T @ products) * factors).sum(axis=1)
            if a == b:
                outer[:, a, a] += H.T @ v[:, a]
            outer[:, b, a] = outer[:, a, b]
    for weights, column in ((first, q - 1), (H, q)):
        part = weights.T @ m + tilt[:, :-1] * (weights.T @ v)
        outer[:, : q - 1, column] = outer[:, column, : q - 1] = part
    outer[:, q - 1, q - 1] = second.sum(axis=0)
    outer[:, q - 1, q] = outer[:, q, q - 1] = first.sum(axis=0)
    outer[:, q, q] = H.sum(axis=0)
    return outer

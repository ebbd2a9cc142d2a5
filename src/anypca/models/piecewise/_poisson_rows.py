"""Row by row maximisation of the bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats
from anypca.linalg import solve_spd
from anypca.models.piecewise._bound import Counts, Evaluation, evaluate
from anypca.models.piecewise._pieces import Pieces
from anypca.special import truncated_normal

# Longest steps: the rates are exponential, a Newton step from far below overshoots.
_LONGEST_M = 2.0
_LONGEST_LOG_S = 1.0
# Shorter than this a step changes nothing that can be seen.
_SHORTEST = 1e-7
_STEPS_PER_START = 10
_MOST_STEPS = 400


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
    for centre in np.atleast_1d(centres):
        m = np.zeros((n, q))
        m[:, -1] = centre
        found, evaluation = climb_rows(
            counts, pieces, Scores(m, np.full((n, q), 0.3)), max_steps=_STEPS_PER_START, tol=0.0
        )
        better = evaluation.value > reached
        reached = np.where(better, evaluation.value, reached)
        best = Scores(
            *(np.where(better[:, None], new, old) for new, old in ((found.m, best.m), (found.s, best.s)))
        )
    return best


def solve_scores(counts: Counts, pieces: Pieces, tol: float = 1e-6) -> tuple[Scores, Evaluation]:
    """Each row to its own convergence."""
    return climb_rows(counts, pieces, start_scores(counts, pieces), max_steps=_MOST_STEPS, tol=tol)


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
            length[active] = np.where(better, np.minimum(1.0, 2.0 * length[active]), 0.25 * length[active])
            rows = active[better]
            m[rows], log_s[rows] = trial_m[better], trial_s[better]
            for old, new in zip(at, trial, strict=True):
                old[rows] = new[better]
    return Scores(m, np.exp(log_s)), at


def newton_step(at: Evaluation) -> tuple[Floats, Floats, Floats]:
    """Steps in m and log s (rows, q), and the squared scaled gradient (rows,)."""
    step_m = solve_spd(at.curvature_m, at.slope_m)
    step_s = at.slope_log_s / np.maximum(at.curvature_log_s, 1.0)
    gain = (step_m * at.slope_m).sum(axis=1) + (step_s * at.slope_log_s).sum(axis=1)
    size = np.sqrt((step_m**2).sum(axis=1, keepdims=True))
    step_m = step_m * np.minimum(1.0, _LONGEST_M / np.maximum(size, _LONGEST_M))
    return step_m, np.clip(step_s, -_LONGEST_LOG_S, _LONGEST_LOG_S), gain

"""Dispersions of a fit by the bound: between rounds of sweeps, at the posteriors that these have reached."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import Block
from anypca.families import Family
from anypca.models._bilinear.dispersion import has_settled
from anypca.models._opened import open_block
from anypca.models._session import Session
from anypca.models.piecewise._bound import Scores
from anypca.models.piecewise._pieces import Coefficients
from anypca.models.piecewise._problem import BoundProblem, BoundSums
from anypca.solvers import Result, Status

# Rounds of sweeps and dispersions; four to six are usual. The first is short, since columns without components vary far
# more than their noise, and each later one twice as long. How well the sweeps of a round are solved, and the relative
# change of a dispersion below which another would not change the picture, are those of `anypca.EPCA`.
_MAX_ROUNDS = 20
_FIRST_ROUND = 3
_ROUND_SOLVE_TOLERANCE = 1e-3
_ROUND_TOLERANCE = 0.01
# Times that rows are started anew at the end: once or twice is usual, since few rows have two modes.
_MOST_ENDS = 5
# Share of the bound below which what they gain is not worth further sweeps.
_LEAST_GAIN = 1e-6
# The first bracket of the search in the logarithm of a dispersion, how much narrower the next ones are, and how many:
# the last parabola is 0.06 wide, and its vertex right to 1e-4.
_BRACKET = 1.0
_NARROWER = 0.4
_N_BRACKETS = 4
# Limits of a shape (negative binomial 1/size): counts that nobody can tell from Poisson counts, and columns that are
# almost always zero. A scale stays above this share of what it is without components: below, columns are reproduced.
_SHAPES = (1e-4, 1e2)
_LEAST_SHARE = 1e-6


def open_groups(family: Family, n_features: int) -> list[Ints]:
    """Columns that share a dispersion to estimate: those of a family, but scales in a mixed table each by itself."""
    members = family.member_columns(n_features)
    groups: list[Ints] = []
    for member, columns in members:
        if member.fixed_dispersion is None:
            is_shared = member.dispersion_kind == "shape" or len(members) == 1
            groups += [columns] if is_shared else np.split(columns, len(columns))
    return groups


def run_rounds(
    problem: BoundProblem, start: Coefficients, session: Session
) -> tuple[BoundProblem, Result[Coefficients], BoundSums]:
    """Sweeps at fixed dispersions and dispersions at fixed posteriors, in turn: both raise the same bound.

    Returns
    -------
    problem : BoundProblem
        With the dispersions that were found.
    result : Result
        Its trace is that of all rounds.
    sums : BoundSums
    """
    local: Sequence[Any] | None = None
    trace: list[float] = []
    limits = _limits(problem, session)
    problem = replace(problem, dispersion=np.clip(problem.dispersion, *limits))
    rough = replace(session, tol=max(session.tol, _ROUND_SOLVE_TOLERANCE))
    for number in range(_MAX_ROUNDS if open_groups(problem.family, len(problem.dispersion)) else 0):
        budget = min(_FIRST_ROUND * 2**number, session.max_iter - len(trace) - 1)
        if budget < 1:
            break
        result, local, _ = rough.loop(problem, max_iter=budget).run(start, local)
        trace += result.trace.tolist()
        start, before = result.shared, problem.dispersion
        problem = replace(problem, dispersion=improve(problem, start, local, session, limits))
        is_settled = has_settled(problem.family, problem.dispersion, before, rtol=_ROUND_TOLERANCE)
        if is_settled and result.status is not Status.MAX_ITER:
            break
    return problem, *_finish(problem, start, local, trace, session)


def _finish(
    problem: BoundProblem,
    start: Coefficients,
    local: Sequence[Any] | None,
    trace: list[float],
    session: Session,
) -> tuple[Result[Coefficients], BoundSums]:
    """Sweeps to the end, and again where rows that are started anew find better posteriors than they were led to."""

    def refresh(block: Block, scores: Scores) -> Scores:
        return problem.refresh(block, start, scores)

    for _ in range(_MOST_ENDS):
        left = max(session.max_iter - len(trace), 1)
        result, local, sums = session.loop(problem, max_iter=left).run(start, local)
        is_same = len(trace) > 0 and result.trace[0] - trace[-1] <= _LEAST_GAIN * abs(trace[-1])
        trace = trace + result.trace.tolist()
        start = result.shared
        if len(sums.occupancy) == 1 or is_same or len(trace) >= session.max_iter:
            break
        local = session.map(refresh, local)
    return replace(result, trace=np.array(trace), n_iter=len(trace)), sums


def _limits(problem: BoundProblem, session: Session) -> tuple[Floats, Floats]:
    """Smallest and largest dispersion of each column, (n_features,) each."""
    summary = session.summary
    low, high = _LEAST_SHARE * problem.dispersion, np.full_like(problem.dispersion, np.inf)
    for member, columns in problem.family.member_columns(len(low)):
        if member.fixed_dispersion is not None:
            continue
        finest = member.finest_dispersion(summary.mean[columns], summary.resolution[columns])
        low[columns] = np.maximum(low[columns], finest)
        if member.dispersion_kind == "shape":
            low[columns], high[columns] = _SHAPES
    return low, high


def improve(
    problem: BoundProblem,
    shared: Coefficients,
    local: Sequence[Any],
    session: Session,
    limits: tuple[Floats, Floats],
) -> Floats:
    """Dispersions (n_features,) under which the bound is at least as high, at fixed maps and posteriors.

    Parameters
    ----------
    problem : BoundProblem
        With the present dispersions.
    shared : Coefficients
    local : sequence
        Posteriors of the blocks' rows.
    session : Session
    limits : tuple of two ndarray of shape (n_features,)

    Returns
    -------
    ndarray of shape (n_features,)
    """
    groups, pieces = open_groups(problem.family, len(problem.dispersion)), problem.pieces(shared)

    def dispersion(move: Floats) -> Floats:
        found = problem.dispersion.copy()
        for columns, step in zip(groups, move, strict=True):
            found[columns] *= np.exp(step)
        return np.clip(found, *limits)

    def value(move: Floats) -> Floats:
        trial = dispersion(move)

        def visit(block: Block, scores: Scores) -> Floats:
            rows = open_block(block)
            entries = problem.read(rows, pieces)
            return np.asarray(rows.weights @ entries.values(pieces, scores.m, scores.s, trial))

        with np.errstate(over="ignore", invalid="ignore"):
            by_column = session.sum(visit, local)
        return np.array([by_column[columns].sum() for columns in groups])

    return dispersion(highest(value, len(groups)))


def highest(value: Callable[[Floats], Floats], n: int) -> Floats:
    """Near 0, the points (n,) at which n functions of one number each are highest; never worse than 0."""
    best, width = np.zeros(n), _BRACKET
    reached = value(best)
    for _ in range(_N_BRACKETS):
        ends = [best - width, best + width]
        below, above = (value(end) for end in ends)
        bend = 2.0 * reached - below - above
        vertex = best + width * np.clip(
            np.divide(0.5 * (above - below), bend, out=np.zeros(n), where=bend > 0), -1.0, 1.0
        )
        for point, found in zip([*ends, vertex], [below, above, value(vertex)], strict=True):
            better = found > reached
            best, reached = np.where(better, point, best), np.where(better, found, reached)
        width *= _NARROWER
    return best

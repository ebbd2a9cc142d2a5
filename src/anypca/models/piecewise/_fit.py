"""From a session to fitted pieces, for each family; and what is told of a fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block
from anypca.families import Family, Gaussian, Poisson
from anypca.models._opened import observed_only, open_block
from anypca.models._session import Session
from anypca.models.piecewise._gaussian_ascent import climb, sum_rows
from anypca.models.piecewise._pieces import (
    COUPLINGS,
    Coefficients,
    Pieces,
    PieceSums,
    contract,
    make_canonical,
)
from anypca.models.piecewise._problem import GaussianProblem, PoissonProblem
from anypca.models.piecewise._row_model import GaussianRowModel, PieceRowModel, PoissonRowModel
from anypca.models.piecewise._settings import Settings
from anypca.models.piecewise._start import (
    MOST_ROWS,
    N_CONTINUED,
    choose_rows,
    draw_sample,
    fit_leading,
    read_rows,
    search_couplings,
    session_of,
)
from anypca.solvers import Result, Status

# Smallest noise variance, as a share of the mean variance: rows that lie on the pieces would have an infinite
# likelihood. Residuals of 1e-5 standard deviations stand out from rounding even where means are 1e6 of them.
_NOISE_FLOOR = 1e-10
# The same for logarithms of counts, which only give starts: residuals of 1e-3 standard deviations are finer than
# counts are.
_LOG_NOISE_FLOOR = 1e-6
# Added to counts before the logarithm; between the 3/8 of Anscombe's and the 1 of common use.
_PSEUDO_COUNT = 0.5
# Sweeps after which starts for counts are compared: on one of six tables of bent counts 3 sweeps took a start whose
# bound ended 15 lower, 30 found nothing better.
_COMPARE_SWEEPS = 10


@dataclass(frozen=True)
class Fit:
    """Fitted pieces, and how they were found."""

    pieces: Pieces
    result: Result[Coefficients]
    sums: PieceSums
    """At the fitted pieces."""
    n_restarts: int = 0
    """Starts given up because a piece lost its rows."""
    start_objectives: Floats = field(default_factory=lambda: np.empty(0))
    """Log-likelihoods of the starts after their EM steps, on the rows they were tried on."""

    @property
    def empty_pieces(self) -> list[int]:
        """Pieces without rows, counted from 0."""
        return self.sums.empty_pieces(self.pieces.n_components)

    def in_canonical_form(self, settings: Settings) -> Fit:
        """The same fit with its pieces rotated, and mirrored if need be, to what is reported."""
        is_free = settings.coupling == "free"
        pieces, is_mirrored = make_canonical(self.pieces, is_free=is_free, may_mirror=settings.may_mirror)
        if not is_mirrored:
            return replace(self, pieces=pieces)
        return replace(self, pieces=pieces, sums=replace(self.sums, occupancy=self.sums.occupancy[::-1]))


def fit_gaussian(settings: Settings, session: Session) -> Fit:
    """Fit real numbers by maximum likelihood.

    Parameters
    ----------
    settings : Settings
    session : Session

    Returns
    -------
    Fit
    """
    floor = _noise_floor(session, _NOISE_FLOOR)
    if settings.n_pieces == 1:
        return _fit_single(settings, session, floor)
    sample = draw_sample(session, settings.n_components + 1)
    search = search_couplings(settings, sample, floor)
    # The likelihood of a part of the rows does not belong into the trace.
    start = search.best if sample.is_whole else replace(search.best, trace=np.empty(0))
    fit = _finish(settings, search.problem, start, session)
    return replace(fit, n_restarts=search.n_restarts, start_objectives=search.scores)


def _noise_floor(session: Session, share: float) -> float:
    """Smallest noise variance, positive also where the variances of the columns underflow."""
    return max(share * float(np.mean(session.summary.variance)), float(np.finfo(np.float64).tiny))


def _fit_single(settings: Settings, session: Session, floor: float) -> Fit:
    """One piece is probabilistic PCA, whose maximum is known when no entry is missing."""
    problem = GaussianProblem(COUPLINGS[settings.coupling], settings.n_components, floor)
    principal = fit_leading(session, settings.n_components)[1].parameters
    maps = np.column_stack([principal.loadings, principal.mean])[None]
    start = contract(Pieces(maps, max(principal.noise, floor), np.empty(0)), problem.transfer)
    return _finish(settings, problem, Result(start, np.empty(0), Status.MAX_ITER, np.inf, 0), session)


def _finish(
    settings: Settings, problem: GaussianProblem, start: Result[Coefficients], session: Session
) -> Fit:
    """Take the chosen start to a stationary point on the whole table."""
    n_left = max(session.max_iter - len(start.trace), 1)
    rest = replace(session, max_iter=n_left)
    result = climb(problem, start, rest, fit_breakpoints=settings.fit_breakpoints)
    return Fit(problem.pieces(result.shared), result, sum_rows(problem, result.shared, session))


def fit_poisson(settings: Settings, session: Session) -> Fit:
    """Fit counts by maximising the variational bound, from Gaussian fits to their logarithms.

    Parameters
    ----------
    settings : Settings
    session : Session

    Returns
    -------
    Fit
    """
    chosen = choose_rows(session, MOST_ROWS)
    counts, weight, offset = read_rows(session, chosen)
    logs = session_of(session, np.log(counts + _PSEUDO_COUNT) - (0.0 if offset is None else offset), weight)
    problem = PoissonProblem(COUPLINGS[settings.coupling], settings.n_components)
    if settings.n_pieces == 1:
        start = fit_gaussian(settings, logs).result.shared
        return _maximise_bound(problem, start, session)
    sample = draw_sample(logs, settings.n_components + 1)
    search = search_couplings(settings, sample, _noise_floor(logs, _LOG_NOISE_FLOOR))
    is_whole = chosen.all() and not session.data.is_distributed
    part = session if is_whole else session_of(session, counts, weight, offset)
    start = _best_start(problem, [search.best.shared, *search.others][:N_CONTINUED], part)
    fit = _maximise_bound(problem, start, session)
    return replace(fit, n_restarts=search.n_restarts, start_objectives=search.scores)


def _best_start(problem: PoissonProblem, starts: list[Coefficients], session: Session) -> Coefficients:
    """Where the best of some starts is after a few sweeps."""
    tried = []
    for start in starts:
        loop = session.loop(problem, max_iter=_COMPARE_SWEEPS, is_reported=False)
        tried.append(loop.run(_without_noise(start))[0])
    return max(tried, key=lambda result: float(result.trace[-1])).shared


def _maximise_bound(problem: PoissonProblem, start: Coefficients, session: Session) -> Fit:
    result, _, sums = session.loop(problem).run(_without_noise(start))
    return Fit(problem.pieces(result.shared), result, sums)


def _without_noise(start: Coefficients) -> Coefficients:
    """Counts have no noise variance; 1 stands for it."""
    return replace(start, noise=1.0)


def check_reals(session: Session, *, has_offset: bool) -> None:
    """Raise on a table or an offset that the Gaussian model cannot be fitted to."""
    if has_offset:
        raise ValueError("offset= is for family='poisson'. For family='gaussian' subtract it from X.")
    if not np.any(session.summary.variance > 0):
        raise ValueError("all columns of X are constant: there is nothing to fit. Check how X was read.")


def check_counts(session: Session, *, has_offset: bool) -> None:
    """Raise on a table of counts to which no finite log rates can be fitted."""
    zero, names = np.flatnonzero(session.summary.mean == 0), session.data.feature_names
    if len(zero):
        name = "" if names is None else f" ({names[zero[0]]!r})"
        raise ValueError(
            f"column {zero[0]}{name} of X holds only zeros ({len(zero)} such columns): its log rate has no "
            "finite estimate. Drop these columns."
        )


@dataclass(frozen=True)
class Method:
    """How pieces are fitted to the entries of a family."""

    check_table: Callable[..., None]
    """``(session, has_offset=)``: raises on a table that the family has but the fit cannot use."""
    fit: Callable[[Settings, Session], Fit]
    row_model: Callable[[Pieces], PieceRowModel[Any]]
    can_fit_breakpoints: bool


#: To add a family, write its problem, its row model and its fit, and name them here.
METHODS: dict[type[Family], Method] = {
    Gaussian: Method(check_reals, fit_gaussian, GaussianRowModel, can_fit_breakpoints=True),
    Poisson: Method(check_counts, fit_poisson, PoissonRowModel, can_fit_breakpoints=False),
}


def pseudo_r2(family: Family, fit: Fit, session: Session) -> float:
    """``(L - L_min) / (L_max - L_min)``: L_max has one mean per entry, L_min one per column, at the fitted noise.

    A density that integrates those of the family is nowhere above their maximum, so the ratio is at most 1.
    """
    noise, intercept = fit.pieces.noise, family.link(_column_means(session))

    def visit(block: Block, _: None) -> Floats:
        rows = open_block(block)
        x = rows.x.astype(np.float64)
        eta = np.broadcast_to(intercept if rows.offset is None else intercept + rows.offset, x.shape)
        terms = family.saturated_log_likelihood(x, noise), family.log_likelihood(x, eta, noise)
        return np.array([rows.weights @ observed_only(rows, slice(None), t).sum(axis=1) for t in terms])

    best, worst = session.sum(visit)
    return float((fit.sums.log_likelihood - worst) / (best - worst)) if best > worst else 0.0


def _column_means(session: Session) -> Floats:
    """Means of the columns at an offset of 0: sums of entries over exposures, since offsets are logarithms."""

    def exposures(block: Block, _: None) -> Floats:
        rows = open_block(block)
        rates = np.ones((1, rows.n_features)) if rows.offset is None else np.exp(rows.offset.astype(float))
        shape = (rows.n_rows, rows.n_features)
        return np.asarray(rows.weights @ observed_only(rows, slice(None), np.broadcast_to(rates, shape)))

    summary = session.summary
    return np.asarray(summary.mean * (summary.weight / session.sum(exposures)))


def score_shares(model: PieceRowModel[Any], session: Session) -> Floats:
    """Shares of the variance of the posterior means along their own principal axes, decreasing (q,)."""

    def visit(block: Block, _: None) -> Floats:
        rows = open_block(block)
        u = np.column_stack([model.scores(model.solve(rows)), np.ones(rows.n_rows)])
        return np.asarray((u * rows.weights[:, None]).T @ u)

    sums = session.sum(visit)
    moments = sums / sums[-1, -1]
    covariance = moments[:-1, :-1] - np.outer(moments[:-1, -1], moments[:-1, -1])
    values = np.maximum(np.linalg.eigvalsh(covariance)[::-1], 0.0)
    return np.asarray(values / values.sum() if values.sum() > 0 else values)

"""From a session to fitted pieces, exactly or by the bound; and what is told of a fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block
from anypca.families import Family, Gaussian
from anypca.models._bilinear.evaluator import Coefficients as Null
from anypca.models._bilinear.passes import Pass
from anypca.models._bilinear.start import fixed_precision
from anypca.models._opened import OpenedBlock, observed_only, open_block
from anypca.models._session import Session, ignore
from anypca.models.piecewise._ascent import climb
from anypca.models.piecewise._gaussian_posterior import GaussianSums
from anypca.models.piecewise._pieces import (
    COUPLINGS,
    Coefficients,
    Pieces,
    PieceSums,
    contract,
    make_canonical,
)
from anypca.models.piecewise._problem import BoundProblem, GaussianProblem, open_groups
from anypca.models.piecewise._row_model import BoundRowModel, GaussianRowModel, PieceRowModel
from anypca.models.piecewise._settings import Settings
from anypca.models.piecewise._start import (
    MOST_ROWS,
    N_CONTINUED,
    choose_rows,
    draw_sample,
    fit_leading,
    null_model,
    search_couplings,
    subset,
    working_values,
)
from anypca.solvers import Result, Status

# Smallest noise variance, as a share of the mean variance: rows that lie on the pieces would have an infinite
# likelihood. Residuals of 1e-5 standard deviations stand out from rounding even where means are 1e6 of them.
_NOISE_FLOOR = 1e-10
# The same for predictors that single entries suggest, which only give starts: residuals of 1e-3 standard deviations are
# finer than counts are.
_WORKING_NOISE_FLOOR = 1e-6
# Steps after which starts of the bound are compared.
_COMPARE_STEPS = 6
# Tolerance of a fit of one piece that several are only compared with.
_STRAIGHT_TOL = 1e-3
# A dispersion stays above this share of what it is without components: below, columns are reproduced.
_LEAST_SHARE = 1e-6
# A shape (negative binomial 1/size) stays above this: nobody can tell smaller ones from Poisson counts.
_LEAST_SHAPE = 1e-4


@dataclass(frozen=True)
class Fit:
    """Fitted pieces, and how they were found."""

    pieces: Pieces
    result: Result[Coefficients]
    sums: PieceSums
    """At the fitted pieces."""
    dispersion: Floats
    """Of each column (n_features,)."""
    n_restarts: int = 0
    """Starts given up because a piece lost its rows."""
    start_objectives: Floats = field(default_factory=lambda: np.empty(0))
    """Log-likelihoods of the starts after their EM steps, on the rows they were tried on."""

    @property
    def empty_pieces(self) -> list[int]:
        """Pieces without rows, counted from 0."""
        return self.sums.empty_pieces(self.pieces.n_components)

    def in_canonical_form(self, settings: Settings) -> Fit:
        """The same fit with its pieces rotated or put in order, and mirrored if need be, to what is reported."""
        pieces, is_mirrored = make_canonical(
            self.pieces,
            is_free=settings.coupling == "free",
            may_mirror=settings.may_mirror,
            may_rotate=isinstance(self.sums, GaussianSums),
        )
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
    return _finish(settings, problem, _begin(start), session)


def _finish(
    settings: Settings, problem: GaussianProblem, start: Result[Coefficients], session: Session
) -> Fit:
    """Take the chosen start to a stationary point on the whole table."""
    n_left = max(session.max_iter - len(start.trace), 1)
    rest = replace(session, max_iter=n_left)
    result, sums = climb(problem, start, rest, fit_breakpoints=settings.fit_breakpoints)
    pieces = problem.pieces(result.shared)
    dispersion = np.full(session.data.n_features, pieces.noise)
    return Fit(pieces, result, sums, dispersion)


@dataclass(frozen=True)
class _Bound:
    """What the fits of one table by the bound share."""

    problem: BoundProblem
    part: Session
    """On the rows that starts are compared on."""
    session: Session
    """On the whole table."""

    def climb(self, starts: list[Coefficients], *, tol: float | None = None) -> Fit:
        """Take the best of some starts, after a few steps, to a stationary point on the whole table."""
        few = replace(self.part, max_iter=_COMPARE_STEPS, callback=ignore)
        if len(starts) > 1:
            tried = [climb(self.problem, _begin(start), few)[0] for start in starts]
            starts = [max(tried, key=lambda found: float(found.trace[-1])).shared]
        session = self.session if tol is None else replace(self.session, tol=tol, callback=ignore)
        result, sums = climb(self.problem, _begin(starts[0]), session, may_refresh=True)
        assert result.shared.dispersion is not None
        return Fit(self.problem.pieces(result.shared), result, sums, result.shared.dispersion)


def fit_bound(settings: Settings, session: Session) -> Fit:
    """Fit entries of any family by maximising the variational bound, from Gaussian fits to their predictors.

    Several pieces that hardly gain over one, which they contain, start again from it, and the better fit counts: few
    starts find the way back.

    Parameters
    ----------
    settings : Settings
    session : Session

    Returns
    -------
    Fit
    """
    null = null_model(settings.family, session)
    bound = _open_bound(settings, session, null)
    working, units = working_values(settings.family, bound.part, null)
    single = replace(settings, breakpoints=np.empty(0), fit_breakpoints=False)
    start = _from_working(fit_gaussian(single, working).result.shared, units, null)
    straight = bound.climb([start], tol=None if settings.n_pieces == 1 else max(session.tol, _STRAIGHT_TOL))
    if settings.n_pieces == 1:
        return straight
    sample = draw_sample(working, settings.n_components + 1)
    search = search_couplings(settings, sample, _noise_floor(working, _WORKING_NOISE_FLOOR))
    starts = [search.best.shared, *search.others][:N_CONTINUED]
    fit = bound.climb([_from_working(start, units, null, straight.dispersion) for start in starts])
    # One piece is a special case of several. Where these gain less than a nat for each coefficient of a bend, which
    # need not be there, the search may have ended far from it, and below what starts from there reach.
    n_bends = (settings.n_pieces - 1) * session.data.n_features
    if fit.result.trace[-1] < straight.result.trace[-1] + n_bends:
        near = bound.climb(_bendable(straight, settings, bound.problem))
        fit = max(fit, near, key=lambda one: float(one.result.trace[-1]))
    return replace(fit, n_restarts=search.n_restarts, start_objectives=search.scores)


def _begin(start: Coefficients) -> Result[Coefficients]:
    return Result(start, np.empty(0), Status.MAX_ITER, np.inf, 0)


def _open_bound(settings: Settings, session: Session, null: Null) -> _Bound:
    """The bound of a table without pieces yet."""
    chosen = choose_rows(session, MOST_ROWS)
    part = session if chosen.all() and not session.data.is_distributed else subset(session, chosen)
    problem = BoundProblem(
        COUPLINGS[settings.coupling],
        settings.n_components,
        settings.family,
        open_groups(settings.family, len(null.dispersion)),
        _floors(settings.family, null.dispersion, session),
        fixed_precision(settings.family, session, fit_intercept=False),
    )
    return _Bound(problem, part, session)


def _floors(family: Family, dispersion: Floats, session: Session) -> Floats:
    """Smallest dispersion of each column, (n_features,), from those of the model without components."""
    summary, floors = session.summary, _LEAST_SHARE * dispersion
    for member, columns in family.member_columns(len(floors)):
        finest = member.finest_dispersion(summary.mean[columns], summary.resolution[columns])
        floors[columns] = np.maximum(floors[columns], finest)
        if member.dispersion_kind == "shape":
            floors[columns] = _LEAST_SHAPE
    for columns in open_groups(family, len(floors)):
        floors[columns] = floors[columns].max()
    return floors


def _bendable(straight: Fit, settings: Settings, problem: BoundProblem) -> list[Coefficients]:
    """Starts that are still straight, each with another of the latent coordinates as t."""
    q = straight.pieces.n_components
    found = []
    for t in range(q):
        order = [*(j for j in range(q) if j != t), t, q]
        maps = np.repeat(straight.pieces.maps[:, :, order], settings.n_pieces, axis=0)
        pieces = replace(straight.pieces, maps=maps, breakpoints=settings.breakpoints)
        start = contract(pieces, problem.transfer)
        found.append(replace(start, dispersion=straight.dispersion))
    return found


def _from_working(
    start: Coefficients, units: Floats, null: Null, dispersion: Floats | None = None
) -> Coefficients:
    """Coefficients in the units of the predictors, those of covariates first; there is no common noise variance."""
    matrix = np.hstack([null.fixed[:, 1:], start.matrix * units[:, None]])
    return replace(
        start, matrix=matrix, noise=1.0, dispersion=null.dispersion if dispersion is None else dispersion
    )


def check_reals(family: Family, session: Session) -> None:
    """Raise on a table that the Gaussian model cannot be fitted to."""
    if not np.any(session.summary.variance > 0):
        raise ValueError("all columns of X are constant: there is nothing to fit. Check how X was read.")


def check_columns(family: Family, session: Session) -> None:
    """Raise on a column to which no finite predictor or no positive dispersion can be fitted."""
    summary, names = session.summary, session.data.feature_names
    with np.errstate(divide="ignore"):
        bad = ~np.isfinite(family.link(summary.mean))
    for columns in open_groups(family, len(bad)):
        bad[columns] |= ~np.any(summary.variance[columns] > 0)
    if bad.any():
        first = int(np.argmax(bad))
        name = "" if names is None else f" ({names[first]!r})"
        raise ValueError(
            f"column {first}{name} of X is constant at {summary.mean[first]:.6g} ({int(bad.sum())} such columns): "
            f"its predictor or dispersion has no finite estimate under family {family.name!r}. Drop these columns."
        )


@dataclass(frozen=True)
class Method:
    """How pieces are fitted."""

    check_table: Callable[[Family, Session], None]
    """Raises on a table that the family has but the fit cannot use."""
    fit: Callable[[Settings, Session], Fit]
    row_model: Callable[[Pieces, Family, Floats], PieceRowModel[Any]]
    """Of pieces, the family and the dispersions of the columns."""
    can_fit_breakpoints: bool


_EXACT = Method(check_reals, fit_gaussian, GaussianRowModel, can_fit_breakpoints=True)
_BOUND = Method(check_columns, fit_bound, BoundRowModel, can_fit_breakpoints=False)


def find_method(family: Family, *, has_companions: bool) -> Method:
    """Exact likelihoods for real numbers of unknown variance, without offsets and covariates; else the bound."""
    # Families that derive from the Gaussian are normal on another scale than that of their entries.
    is_exact = type(family) is Gaussian and family.fixed_dispersion is None and not has_companions
    return _EXACT if is_exact else _BOUND


def pseudo_r2(fit: Fit, settings: Settings, session: Session) -> float:
    """``(L - L_min) / (L_max - L_min)``: L_max has one mean per entry, L_min one per column, at the fitted noise.

    Covariates and offsets are in L_min too. A density that integrates those of the family is nowhere above their
    maximum, so the ratio is at most 1.
    """
    null = null_model(settings.family, session, fit.dispersion)
    family, visit = settings.family, Pass(session, fit_intercept=True)

    def saturated(rows: OpenedBlock, _: Floats) -> Floats:
        terms = family.saturated_log_likelihood(rows.x.astype(np.float64), fit.dispersion)
        return np.array([rows.weights @ observed_only(rows, slice(None), terms).sum(axis=1)])

    best, deviance = float(visit.sum(saturated)[0]), visit.deviance(family, null)
    return 1.0 - 2.0 * (best - fit.sums.log_likelihood) / deviance if deviance > 0 else 0.0


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

"""From a table to fitted pieces: random starts of a Gaussian model on a sample of the rows, then the fit itself."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count, islice
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from anypca._typing import Floats, Ints
from anypca.engine import Block, check_data, mark_missing, summarise
from anypca.families import Family
from anypca.families._dispersed import Dispersed
from anypca.models._bilinear.dispersion import noise_units, start_dispersion
from anypca.models._bilinear.evaluator import Coefficients as Null
from anypca.models._bilinear.passes import Pass
from anypca.models._bilinear.start import fixed_precision, mean_coefficients, null_coefficients
from anypca.models._block_view import BlockView, observed_only, open_block
from anypca.models._context import FitContext, ignore
from anypca.models._gaussian.principal import Principal, fit_principal
from anypca.models._gaussian.row_model import PrincipalRowModel
from anypca.models.piecewise._ascent import Climbed, PieceProblem, PieceSums, climb, compare
from anypca.models.piecewise._bound import BoundProblem, BoundRowModel
from anypca.models.piecewise._gaussian import GaussianProblem, GaussianRowModel, PieceRowModel
from anypca.models.piecewise._pieces import (
    COUPLINGS,
    Coefficients,
    Pieces,
    contract,
    make_canonical,
)
from anypca.solvers import Result

logger = logging.getLogger("anypca")

# Rows and entries that starts are compared on, about 30 MB; the chosen one is then fitted to the whole table.
_MOST_ROWS, _MOST_ENTRIES = 5000, 4_000_000
# Rows for each number that a regression of the start needs, however wide the table is.
_ROWS_PER_DIRECTION = 20
# Limits of probabilistic PCA with missing entries, which only has to give directions.
_PPCA_TOL, _PPCA_ITERATIONS = 1e-3, 100
# Steps after which all starts are compared, then the leading ones, and their number: starts rarely separate later.
_START_STEPS, _COMPARE_STEPS, _N_CONTINUED = 15, 50, 3
# Scaled gradient of the model without components: its deviance, the denominator of the pseudo-R2, is then right to
# working precision.
_NULL_TOL = 1e-8
# Furthest move of a random breakpoint, in shares of a piece's probability: below a half they keep their order.
_LARGEST_SHIFT = 0.45
# Smallest noise variance, as a share of the mean variance: rows that lie on the pieces would have an infinite
# likelihood. Residuals of 1e-5 standard deviations stand out from rounding even where means are 1e6 of them.
_NOISE_FLOOR = 1e-10
# The same for predictors that single entries suggest, which only give starts: residuals of 1e-3 standard deviations are
# finer than counts are.
_WORKING_NOISE_FLOOR = 1e-6
# Steps after which starts of the bound are compared.
_BOUND_STEPS = 6
# Tolerance of the fit of one piece, used only for comparison with several pieces.
_STRAIGHT_TOL = 1e-3
# Lower bound of a dispersion, as a share of its value without components: below, columns are reproduced.
_LEAST_SHARE = 1e-6
# Lower bound of a shape (negative binomial 1/size): smaller values are indistinguishable from Poisson counts.
_LEAST_SHAPE = 1e-4


@dataclass(frozen=True)
class Settings:
    """Specification of the model to fit."""

    n_components: int
    coupling: str
    breakpoints: Floats
    """(K - 1,): fixed, or where the fit starts."""
    fit_breakpoints: bool
    n_init: int
    family: Family
    is_exact: bool
    """Whether the likelihood is exact."""

    @property
    def n_pieces(self) -> int:
        """Number of pieces, K."""
        return len(self.breakpoints) + 1

    @property
    def may_mirror(self) -> bool:
        """Whether t may change its sign: not if that would move breakpoints that were given."""
        # Quantiles of symmetric probabilities are off by rounding, 1e-15; no fit resolves a shift of 1e-12.
        return self.fit_breakpoints or np.allclose(self.breakpoints, -self.breakpoints[::-1], 0.0, 1e-12)


def count_parameters(settings: Settings, pieces: Pieces) -> int:
    """Number of free parameters.

    Rotations that leave the density as it is are taken off: of the first q - 1 latent coordinates (of each piece by
    itself if they are free), and of all q if there is one piece.
    """
    q, n = settings.n_components, settings.n_pieces
    size, p = int(COUPLINGS[settings.coupling](q, settings.breakpoints).shape[1]), len(pieces.dispersion)
    turned = q if n == 1 else q - 1
    rotations = turned * (turned - 1) // 2 * (n if settings.coupling == "free" else 1)
    others = pieces.coef.size + len(open_groups(settings.family, p)) + (n - 1) * settings.fit_breakpoints
    return p * size - rotations + others


def make_settings(model: Any, family: Family, session: FitContext, *, is_exact: bool) -> Settings:
    """Settings from the parameters of an estimator.

    Raises
    ------
    ValueError
        If they contradict each other, or the table is too small for them.
    """
    breakpoints = _check_breakpoints(model.breakpoints, model.n_pieces)
    is_fitted = isinstance(model.breakpoints, str) and model.breakpoints == "fit"
    if is_fitted and not is_exact:
        raise ValueError(
            f"breakpoints='fit' needs family='gaussian' without offset and covariates; the bound for "
            f"family={model.family!r} is fitted at fixed ones. Use breakpoints='quantile', or give numbers and compare "
            "log_likelihood_."
        )
    _check_sizes(model.n_components, model.n_pieces, session.data.n_samples, session.data.n_features)
    is_fitted = is_fitted and model.n_pieces > 1
    return Settings(
        int(model.n_components), model.coupling, breakpoints, is_fitted, int(model.n_init), family, is_exact
    )


def _check_breakpoints(breakpoints: Any, n_pieces: int) -> Floats:
    """Breakpoints as an increasing array (n_pieces - 1,): the given ones, or normal quantiles for a string."""
    if isinstance(breakpoints, str):
        return np.asarray(ndtri(np.arange(1, n_pieces) / n_pieces))
    try:
        values = np.asarray(breakpoints, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"breakpoints must be numbers; got {breakpoints!r}.") from error
    if values.shape != (n_pieces - 1,):
        raise ValueError(
            f"n_pieces={n_pieces} needs {n_pieces - 1} breakpoint(s); got {values.shape} of them. "
            "Give one number less than there are pieces."
        )
    if not (np.all(np.isfinite(values)) and np.all(np.diff(values) > 0)):
        raise ValueError(f"breakpoints must be finite and in increasing order; got {values.tolist()}.")
    return values


def _check_sizes(n_components: int, n_pieces: int, n_samples: int, n_features: int) -> None:
    """Raise if the table is too small for the model."""
    if n_components >= n_features:
        raise ValueError(
            f"n_components={n_components} must be less than the number of columns; X has {n_features} feature(s) "
            f"(n_features={n_features}), and some dimension must be left for the noise. Ask for fewer components."
        )
    # A variance besides the q + 1 numbers of a column for one piece; q + 1 numbers for each of several pieces.
    least = n_components + 2 if n_pieces == 1 else n_pieces * (n_components + 1)
    if n_samples < least:
        raise ValueError(
            f"PiecewisePCA with n_components={n_components} and n_pieces={n_pieces} needs at least {least} rows; X has "
            f"{n_samples} sample(s). Add rows, or ask for fewer components or pieces."
        )


@dataclass(frozen=True)
class Sample:
    """Rows on which starts are tried."""

    session: FitContext
    """Of these rows alone; silent."""
    filled: Floats
    """Missing entries replaced by their means under probabilistic PCA (m, n_features)."""
    whitened: Floats
    """Leading principal scores, centred, of unit variance (m, r)."""
    weight: Floats
    """(m,)"""


@dataclass(frozen=True)
class Search:
    """Result of a search among random starts."""

    problem: GaussianProblem
    best: Coefficients
    others: list[Coefficients]
    """Leading starts after their first steps, best first."""
    scores: Floats
    """Log-likelihoods of all starts, best first."""
    n_restarts: int
    """Starts given up because a piece lost its rows."""


def sample_rows(session: FitContext, n_directions: int) -> FitContext:
    """A silent session on all rows of positive weight, or so many that starts are cheap."""
    data = session.data
    affordable = min(_MOST_ROWS, _MOST_ENTRIES // data.n_features)
    most = max(affordable, _ROWS_PER_DIRECTION * (n_directions + 1))
    if data.n_samples <= most and not (data.has_weights or data.is_distributed):
        return replace(session, callback=ignore)
    chosen = np.ones(data.n_samples, dtype=bool)
    if data.n_samples > most:
        chosen[:] = False
        chosen[session.rng.choice(data.n_samples, most, replace=False)] = True

    def read(block: Block) -> tuple[Floats | None, ...]:
        keep = np.flatnonzero(chosen[block.start : block.stop] & (block.weights > 0))
        offset = block.offset()
        offset = None if offset is None else offset[keep].astype(np.float64)
        return block.values()[keep].astype(np.float64), block.weights[keep], offset, block.covariates[keep]

    parts = zip(*session.gather(read), strict=True)
    x, weight, offset, covariates = (None if part[0] is None else np.concatenate(part) for part in parts)
    if offset is not None and offset.shape[1] < data.n_features:
        offset = offset[:, 0]
    return _session_of(
        session, x, weight, offset=offset, covariates=covariates if data.n_covariates else None
    )


def _session_of(session: FitContext, rows: Any, weight: Any, **companions: Any) -> FitContext:
    """A silent session on other rows."""
    data = check_data(rows, sample_weight=weight if session.data.has_weights else None, **companions)
    summary = summarise(data, session.executor)
    return replace(session, data=mark_missing(data, summary.has_missing), summary=summary, callback=ignore)


def _fit_leading(session: FitContext, n_components: int) -> Principal:
    """Probabilistic PCA by maximum likelihood, roughly if entries are missing."""
    rough = replace(session, max_iter=_PPCA_ITERATIONS, tol=_PPCA_TOL, callback=ignore)
    return fit_principal(rough, n_components)[1].shared


def read_sample(session: FitContext, n_directions: int) -> Sample:
    """The rows of a session with their leading principal scores."""
    model = PrincipalRowModel(_fit_leading(session, n_directions))

    def read(block: Block) -> tuple[Floats, Floats, Floats]:
        rows = model.open(block)
        scores = model.scores(model.solve(rows))
        is_known = rows.observed
        x = rows.x if is_known is None else np.where(is_known, rows.x, model.mean(block, scores))
        return scores, x.astype(np.float64, copy=False), block.weights

    scores, filled, weight = (np.concatenate(part) for part in zip(*session.gather(read), strict=True))
    centred = scores - np.average(scores, axis=0, weights=weight)
    spread = np.sqrt(np.average(centred**2, axis=0, weights=weight))
    return Sample(session, filled, centred / np.where(spread > 0, spread, 1.0), weight)


def search_couplings(settings: Settings, session: FitContext, noise_share: float) -> Search:
    """Random starts under the wanted coupling and under all tighter ones, each passing its solution on.

    Looser couplings contain the solutions of tighter ones, yet random starts may miss them.
    """
    sample, names = read_sample(session, settings.n_components + 1), list(COUPLINGS)
    search: Search | None = None
    for name in names[: names.index(settings.coupling) + 1]:
        problem = GaussianProblem.of(name, settings.n_components, session, noise_share)
        # The fit of the tighter coupling is a point of this one, which therefore never ends below it.
        more = [] if search is None else [contract(search.problem.pieces(search.best), problem.transfer)]
        found, n_restarts = _run_starts(settings, problem, sample)
        leading = [run.point.shared for run in found[:_N_CONTINUED]]
        best = compare(
            problem, [*more, *leading], session, _COMPARE_STEPS, fit_breakpoints=settings.fit_breakpoints
        )
        scores = np.array([run.point.value for run in found])
        n_restarts += 0 if search is None else search.n_restarts
        search = Search(problem, best[0].point.shared, leading, scores, n_restarts)
    assert search is not None
    return search


def _run_starts(settings: Settings, problem: GaussianProblem, sample: Sample) -> tuple[list[Climbed], int]:
    """A few steps from every start, best first; a start on whose way a piece loses its rows is replaced once."""
    starts, known = random_starts(settings, problem, sample), {"fit_breakpoints": settings.fit_breakpoints}
    found, n_restarts = [], 0
    for start in islice(starts, settings.n_init):
        [run] = compare(problem, [start], sample.session, _START_STEPS, **known)
        empty = run.point.sums.empty_pieces(settings.n_components)
        if empty:
            n_restarts += 1
            logger.info("PiecewisePCA: piece %d lost its rows; started anew", empty[0] + 1)
            [run] = compare(problem, [next(starts)], sample.session, _START_STEPS, **known)
        found.append(run)
    return sorted(found, key=lambda run: -run.point.value), n_restarts


def random_starts(settings: Settings, problem: GaussianProblem, sample: Sample) -> Iterator[Coefficients]:
    """Endless starts: a random direction is t, by its normal scores; each piece is regressed on its rows.

    Breakpoints that are to be fitted are drawn too; every other start keeps the given ones.
    """
    rng, r = sample.session.rng, sample.whitened.shape[1]
    for number in count(1):
        basis = np.linalg.qr(rng.standard_normal((r, r)))[0][:, : settings.n_components]
        w = sample.whitened @ basis
        # Quantiles of t decide the pieces: whatever its distribution is, it starts as a normal one.
        w[:, -1] = normal_scores(w[:, -1], sample.weight)
        is_drawn = settings.fit_breakpoints and number % 2 == 0
        edges = _draw_breakpoints(settings.breakpoints, rng) if is_drawn else settings.breakpoints
        yield regress(sample, problem, w, edges)


def normal_scores(values: Floats, weight: Floats) -> Floats:
    """Return standard normal quantiles at weighted ranks, (n,); values that agree up to rounding share a rank."""
    order = np.argsort(values, kind="stable")
    is_next = np.diff(values[order], prepend=values[order[:1]]) > np.sqrt(np.finfo(float).eps)
    level = np.cumsum(is_next)
    mass = np.bincount(level, weights=weight[order])
    rank = np.empty(len(values))
    rank[order] = (np.cumsum(mass) - 0.5 * mass)[level]
    return np.asarray(ndtri(rank / weight.sum()))


def _draw_breakpoints(breakpoints: Floats, rng: np.random.Generator) -> Floats:
    """Breakpoints near the given ones in terms of probability, in order."""
    shift = rng.uniform(-_LARGEST_SHIFT, _LARGEST_SHIFT, len(breakpoints)) / (len(breakpoints) + 1)
    return np.asarray(ndtri(np.sort(ndtr(breakpoints) + shift)))


def regress(sample: Sample, problem: GaussianProblem, w: Floats, breakpoints: Floats) -> Coefficients:
    """Coefficients that fit the filled rows best, given their latent points w (m, q)."""
    T = problem.transfer(w.shape[1], breakpoints)
    u = np.column_stack([w, np.ones(len(w))])
    design = np.einsum("ima,ia->im", T[np.searchsorted(breakpoints, w[:, -1])], u)
    root = np.sqrt(sample.weight)[:, None]
    weighted, response = design * root, sample.filled * root
    matrix = np.linalg.lstsq(weighted, response, rcond=None)[0].T
    response -= weighted @ matrix.T
    noise = float(np.vdot(response, response)) / (sample.weight.sum() * len(matrix))
    # Off the floor, where the gradient of the noise vanishes.
    return Coefficients(matrix, breakpoints, np.maximum(noise, 2.0 * problem.floors))


def null_model(family: Family, session: FitContext, dispersion: Floats | None = None) -> Null:
    """Intercepts and coefficients of covariates alone, at given dispersions or at estimates by moments."""
    summary = session.summary
    if dispersion is None:
        dispersion = start_dispersion(family, summary.mean, summary.variance)
    fixed = mean_coefficients(family, summary, session.data.n_covariates, fit_intercept=True)
    start = Null(np.zeros((len(fixed), 0)), fixed, dispersion)
    return null_coefficients(family, start, Pass(session, fit_intercept=True), tol=_NULL_TOL)


def working_values(family: Family, session: FitContext, null: Null) -> tuple[FitContext, Floats]:
    """Predictors of single entries without offsets and covariates, as a table to fit Gaussian pieces to.

    Returns
    -------
    session : FitContext
        On the table.
    units : ndarray of shape (n_features,)
        By which its columns were divided: standard deviations if predictors have units, else 1.
    """
    units = np.sqrt(noise_units(family, session.summary.variance))
    units[units == 0] = 1.0

    def read(block: Block) -> tuple[Floats, Floats]:
        rows = open_block(block)
        x = rows.x.astype(np.float64)
        eta = family.link(family.smoothed_mean(x, np.ones_like(x))) - rows.features @ null.fixed[:, 1:].T
        eta = eta if rows.offset is None else eta - rows.offset
        return np.where(True if rows.observed is None else rows.observed, eta / units, np.nan), rows.weights

    values, weight = (np.concatenate(part) for part in zip(*session.gather(read), strict=True))
    return _session_of(session, values, weight), units


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
    """Log-likelihoods of the starts after their first steps, on the rows they were tried on."""

    @classmethod
    def of(cls, problem: PieceProblem, settings: Settings, found: Climbed, search: Search | None) -> Fit:
        """The fit where a climb ended, its pieces rotated or put in order, and mirrored if need be."""
        pieces, is_mirrored = make_canonical(
            problem.pieces(found.point.shared),
            is_free=settings.coupling == "free",
            may_mirror=settings.may_mirror,
            may_rotate=settings.is_exact,
        )
        occupancy = found.point.sums.occupancy[:: -1 if is_mirrored else 1]
        fit = cls(pieces, found.result, replace(found.point.sums, occupancy=occupancy))
        return (
            fit
            if search is None
            else replace(fit, n_restarts=search.n_restarts, start_objectives=search.scores)
        )

    def row_model(self, settings: Settings) -> PieceRowModel[Any]:
        """Inference for rows."""
        kind = GaussianRowModel if settings.is_exact else BoundRowModel
        return kind(self.pieces, settings.family)


def fit_pieces(settings: Settings, session: FitContext) -> Fit:
    """Fit exactly if the likelihood is exact, else by the bound."""
    return (_fit_gaussian if settings.is_exact else _fit_bound)(settings, session)


def _fit_gaussian(settings: Settings, session: FitContext) -> Fit:
    """Fit gaussian columns by maximum likelihood."""
    if not np.any(session.summary.variance > 0):
        raise ValueError("all columns of X are constant: there is nothing to fit. Check how X was read.")
    if settings.n_pieces == 1:
        problem = GaussianProblem.of(settings.coupling, settings.n_components, session, _NOISE_FLOOR)
        return Fit.of(problem, settings, climb(problem, _one_piece(problem, session), session), None)
    part = sample_rows(session, settings.n_components + 1)
    search = search_couplings(settings, part, _NOISE_FLOOR)
    found = climb(search.problem, search.best, session, fit_breakpoints=settings.fit_breakpoints)
    return Fit.of(search.problem, settings, found, search)


def _one_piece(problem: GaussianProblem, session: FitContext) -> Coefficients:
    """One piece is probabilistic PCA, whose maximum is known if no entry is missing."""
    principal = _fit_leading(session, problem.n_components).parameters
    maps = np.column_stack([principal.loadings, principal.mean])[None]
    noise = np.maximum(principal.noise, problem.floors)
    return contract(Pieces(maps, np.empty(0), noise, np.zeros((len(noise), 0))), problem.transfer)


def _fit_bound(settings: Settings, session: FitContext) -> Fit:
    """Fit entries of any family by maximising the variational bound, from Gaussian fits to their predictors.

    Several pieces that hardly gain over one, which they contain, start again from it, and the better fit counts: few
    starts find the way back.
    """
    _check_columns(settings.family, session)
    null = null_model(settings.family, session)
    problem = _bound_problem(settings, session, null)
    q, part = settings.n_components, sample_rows(session, settings.n_components + 1)
    working, units = working_values(settings.family, part, null)
    start = _one_piece(GaussianProblem.of(settings.coupling, q, working, _WORKING_NOISE_FLOOR), working)
    is_straight = settings.n_pieces == 1
    rough = replace(session, tol=max(session.tol, _STRAIGHT_TOL), callback=ignore)
    straight = climb(
        problem, _from_working(start, units, null, null.dispersion), session if is_straight else rough
    )
    if is_straight:
        return Fit.of(problem, settings, straight, None)
    search = search_couplings(settings, working, _WORKING_NOISE_FLOOR)
    dispersion = straight.point.shared.dispersion
    starts = [search.best, *search.others][:_N_CONTINUED]

    def best_of(starts: list[Coefficients]) -> Climbed:
        tried = compare(problem, starts, part, _BOUND_STEPS)
        return climb(problem, tried[0].point.shared, session, may_refresh=True)

    found = best_of([_from_working(start, units, null, dispersion) for start in starts])
    # One piece is a special case of several. If these gain less than a nat for each coefficient of a bend, which need
    # not be there, the search may have ended far from it, and below what starts from there reach.
    if found.point.value < straight.point.value + (settings.n_pieces - 1) * session.data.n_features:
        near = best_of(_bendable(problem.pieces(straight.point.shared), settings, problem))
        found = max(found, near, key=lambda one: one.point.value)
    return Fit.of(problem, settings, found, search)


def _bound_problem(settings: Settings, session: FitContext, null: Null) -> BoundProblem:
    return BoundProblem(
        COUPLINGS[settings.coupling],
        settings.n_components,
        open_groups(settings.family, len(null.dispersion)),
        _floors(settings.family, null.dispersion, session),
        fixed_precision(settings.family, session, fit_intercept=False),
        settings.family,
    )


def open_groups(family: Family, n_features: int) -> tuple[Ints, ...]:
    """Groups of columns that share a dispersion: all columns of a family; scales of a mixed table are single groups."""
    members = family.member_columns(n_features)
    groups: list[Ints] = []
    for member, columns in members:
        if member.fixed_dispersion is None:
            is_shared = member.dispersion_kind == "shape" or len(members) == 1
            groups += [columns] if is_shared else np.split(columns, len(columns))
    return tuple(groups)


def _floors(family: Family, dispersion: Floats, session: FitContext) -> Floats:
    """Smallest dispersion of each column, (n_features,), from dispersions of the model without components."""
    summary, floors = session.summary, _LEAST_SHARE * dispersion
    for member, columns in family.member_columns(len(floors)):
        if isinstance(member, Dispersed):
            finest = member.finest_dispersion(summary.mean[columns], summary.resolution[columns])
            floors[columns] = np.maximum(floors[columns], finest)
        if member.dispersion_kind == "shape":
            floors[columns] = _LEAST_SHAPE
    for columns in open_groups(family, len(floors)):
        floors[columns] = floors[columns].max()
    return floors


def _bendable(straight: Pieces, settings: Settings, problem: BoundProblem) -> list[Coefficients]:
    """Starts that are still straight, each with another of the latent coordinates as t."""
    q, found = straight.n_components, []
    for t in range(q):
        order = [*(j for j in range(q) if j != t), t, q]
        maps = np.repeat(straight.maps[:, :, order], settings.n_pieces, axis=0)
        pieces = replace(straight, maps=maps, breakpoints=settings.breakpoints)
        found.append(contract(pieces, problem.transfer))
    return found


def _from_working(start: Coefficients, units: Floats, null: Null, dispersion: Floats) -> Coefficients:
    """Coefficients in the units of the predictors, after the coefficients of covariates."""
    matrix = np.hstack([null.fixed[:, 1:], start.matrix * units[:, None]])
    return Coefficients(matrix, start.breakpoints, dispersion)


def _check_columns(family: Family, session: FitContext) -> None:
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


def pseudo_r2(fit: Fit, settings: Settings, session: FitContext) -> float:
    """``(L - L_min) / (L_max - L_min)``: L_max has one mean per entry, L_min one per column, at the fitted noise.

    Covariates and offsets are in L_min too. A density that integrates densities of the family is nowhere above their
    maximum, so the ratio is at most 1.
    """
    dispersion, family = fit.pieces.dispersion, settings.family
    null, visit = null_model(family, session, dispersion), Pass(session, fit_intercept=True)

    def saturated(rows: BlockView, _: Floats) -> Floats:
        x = rows.x.astype(np.float64)
        terms = family.saturated(x, dispersion) + family.log_base_measure(x, dispersion)
        return np.array([rows.weights @ observed_only(rows, slice(None), terms).sum(axis=1)])

    best, deviance = float(visit.sum(saturated)[0]), visit.deviance(family, null)
    return 1.0 - 2.0 * (best - fit.sums.log_likelihood) / deviance if deviance > 0 else 0.0


def score_shares(model: PieceRowModel[Any], session: FitContext) -> Floats:
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

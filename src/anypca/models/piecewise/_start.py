"""Where a fit starts: many random starts, compared after a few steps on a sample of the rows."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from anypca._typing import Bools, Floats
from anypca.engine import Block, check_data, mark_missing, summarise
from anypca.families import Family
from anypca.models._bilinear.dispersion import start_dispersion
from anypca.models._bilinear.evaluator import Coefficients as Null
from anypca.models._bilinear.passes import Pass
from anypca.models._bilinear.start import mean_coefficients, null_coefficients
from anypca.models._gaussian.principal import Principal, fit_principal
from anypca.models._gaussian.row_model import PrincipalRowModel
from anypca.models._opened import open_block
from anypca.models._session import Session, ignore
from anypca.models.piecewise._ascent import climb
from anypca.models.piecewise._pieces import COUPLINGS, Coefficients, contract
from anypca.models.piecewise._problem import GaussianProblem
from anypca.models.piecewise._settings import Settings
from anypca.solvers import Result

logger = logging.getLogger("anypca")

# Rows and entries that starts are compared on, about 30 MB; the chosen one is then fitted to the whole table.
MOST_ROWS = 5000
_MOST_ENTRIES = 4_000_000
# Rows for each number that a regression of the start needs, however wide the table is.
_ROWS_PER_DIRECTION = 20
# Limits of probabilistic PCA with missing entries, which only has to give directions.
_PPCA_TOL = 1e-3
_PPCA_ITERATIONS = 100
# EM steps of every start: they then range over 1000 units of log-likelihood on 300 rows with a hinge, so that poor ones
# are known. 5 and 45 steps led to the same fits there and on tables with two hinges.
_START_STEPS = 15
# Starts that are continued by L-BFGS, and steps until they are compared. On those tables the first of them is as good
# as the best of 6; three are for tables whose starts separate later.
N_CONTINUED = 3
_COMPARE_STEPS = 50
# Scaled gradient of the model without components: its deviance, which the pseudo-R2 is a share of, is then right to
# working precision.
_NULL_TOL = 1e-8
# Columns that are regressed at once, 2.5 MB of a sample of 5000 rows.
_COLUMNS_AT_ONCE = 64
# Furthest move of a random breakpoint, in shares of a piece's probability: below a half they keep their order.
_LARGEST_SHIFT = 0.45


@dataclass(frozen=True)
class Sample:
    """Rows on which starts are tried."""

    session: Session
    """Of these rows alone; it tells nobody of progress."""
    filled: Floats
    """Missing entries replaced by their means under probabilistic PCA (m, n_features)."""
    whitened: Floats
    """Leading principal scores, centred, of unit variance (m, r)."""
    weight: Floats
    """(m,)"""
    is_whole: bool
    """Whether these are all rows of the table."""


@dataclass(frozen=True)
class Search:
    """What the starts have led to."""

    problem: GaussianProblem
    """Under the coupling of which they were fitted."""
    best: Result[Coefficients]
    others: tuple[Coefficients, ...]
    """Leading starts after their EM steps, best first."""
    scores: Floats
    """Log-likelihoods of all starts, best first."""
    n_restarts: int
    """Starts given up because a piece lost its rows."""


def choose_rows(session: Session, most: int) -> Bools:
    """Which rows are looked at: all, or as many as are allowed, at random (n_samples,)."""
    n = session.data.n_samples
    chosen = np.ones(n, dtype=bool)
    if n > most:
        chosen[:] = False
        chosen[session.rng.choice(n, most, replace=False)] = True
    return chosen


def read_rows(session: Session, chosen: Bools) -> tuple[Floats, Floats]:
    """The chosen rows in float64, NaN where missing, and their weights."""

    def read(block: Block) -> tuple[Floats, Floats]:
        keep = chosen[block.start : block.stop]
        return block.values()[keep].astype(np.float64), block.weights[keep]

    x, weight = zip(*session.gather(read), strict=True)
    return np.concatenate(x), np.concatenate(weight)


def session_of(session: Session, rows: Floats, weight: Floats, **companions: Any) -> Session:
    """The working set of a silent fit to other rows, with their ``offset`` and ``covariates``."""
    given = weight if session.data.has_weights else None
    data = check_data(rows, sample_weight=given, **companions)
    summary = summarise(data, session.executor)
    data = mark_missing(data, summary.has_missing)
    return replace(session, data=data, summary=summary, callback=ignore)


def draw_sample(session: Session, n_directions: int) -> Sample:
    """Take all rows, or so many that starts are cheap, with their leading principal scores.

    Parameters
    ----------
    session : Session
    n_directions : int
        Number r of principal components.

    Returns
    -------
    Sample
    """
    affordable = min(MOST_ROWS, _MOST_ENTRIES // session.data.n_features)
    chosen = choose_rows(session, max(affordable, _ROWS_PER_DIRECTION * (n_directions + 1)))
    rows, weight = read_rows(session, chosen)
    if not weight.all():
        rows, weight = rows[weight > 0], weight[weight > 0]
    part = session_of(session, rows, weight)
    scores, filled = _project(part, fit_leading(part, n_directions)[0], rows)
    centred = scores - np.average(scores, axis=0, weights=weight)
    spread = np.sqrt(np.average(centred**2, axis=0, weights=weight))
    whitened = centred / np.where(spread > 0, spread, 1.0)
    return Sample(part, filled, whitened, weight, bool(chosen.all()))


def fit_leading(session: Session, n_components: int) -> tuple[Principal, Principal]:
    """Probabilistic PCA with variances as scikit-learn's, and with the divisor n."""
    rough = replace(session, max_iter=_PPCA_ITERATIONS, tol=_PPCA_TOL, callback=ignore)
    principal, result = fit_principal(rough, n_components)
    return principal, result.shared


def _project(session: Session, principal: Principal, rows: Floats) -> tuple[Floats, Floats]:
    """Principal scores of all rows, and the rows with missing entries filled: themselves if they are complete."""
    model = PrincipalRowModel(principal)

    def project(block: Block) -> tuple[Floats, Floats | None]:
        opened = model.open(block)
        scores = model.scores(model.solve(opened))
        if not session.data.may_miss:
            return scores, None
        known = opened.observed
        return scores, opened.x if known is None else np.where(known, opened.x, model.mean(block, scores))

    scores, filled = zip(*session.gather(project), strict=True)
    whole = np.concatenate(filled) if session.data.may_miss else rows
    return np.concatenate(scores), whole


def search_couplings(settings: Settings, sample: Sample, noise_floor: float) -> Search:
    """Random starts under the wanted coupling and under all tighter ones, each handing its solution on.

    Looser couplings contain the tighter ones' solutions, yet random starts may miss them.
    """
    names = list(COUPLINGS)
    search: Search | None = None
    for name in names[: names.index(settings.coupling) + 1]:
        problem = GaussianProblem(COUPLINGS[name], settings.n_components, noise_floor)
        search = _search(settings, problem, sample, search)
    assert search is not None
    return search


def _search(settings: Settings, problem: GaussianProblem, sample: Sample, tighter: Search | None) -> Search:
    """The best of the leading starts, and of a tighter coupling's solution, after some steps of L-BFGS."""
    runs, n_restarts = _run_starts(settings, problem, sample)
    candidates = runs[:N_CONTINUED]
    # The fit of the tighter coupling is a point of this one, which therefore never ends below it.
    if tighter is not None:
        shared = contract(tighter.problem.pieces(tighter.best.shared), problem.transfer)
        candidates = [replace(tighter.best, shared=shared), *candidates]
        n_restarts += tighter.n_restarts

    rough = replace(sample.session, max_iter=_COMPARE_STEPS)
    climbed = [climb(problem, run, rough, fit_breakpoints=settings.fit_breakpoints)[0] for run in candidates]
    best = max(climbed, key=lambda run: float(run.trace[-1]))
    leading = tuple(run.shared for run in runs[:N_CONTINUED])
    return Search(problem, best, leading, np.array([run.trace[-1] for run in runs]), n_restarts)


def _run_starts(
    settings: Settings, problem: GaussianProblem, sample: Sample
) -> tuple[list[Result[Coefficients]], int]:
    """A few EM steps from every start, best first; a start on whose way a piece loses its rows is replaced once."""
    loop = sample.session.loop(problem, max_iter=_START_STEPS, accelerate=False, is_reported=False)
    starts = random_starts(settings, problem, sample)
    found, n_restarts = [], 0
    for start in islice(starts, settings.n_init):
        run, _, sums = loop.run(start)
        empty = sums.empty_pieces(settings.n_components)
        if empty:
            n_restarts += 1
            logger.info("PiecewisePCA: piece %d lost its rows during EM; started anew", empty[0] + 1)
            run = loop.run(next(starts))[0]
        found.append(run)
    return sorted(found, key=lambda run: -run.trace[-1]), n_restarts


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
    """Standard normal quantiles at the ranks of some values, each counted with its weight; both (n,)."""
    order = np.argsort(values, kind="stable")
    rank = np.empty(len(values))
    rank[order] = np.cumsum(weight[order]) - 0.5 * weight[order]
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
    weighted = design * root
    matrix, squares = np.empty((sample.filled.shape[1], design.shape[1])), 0.0
    # Slabs of columns: of the sample, which may be the largest array of a fit, no copy is made.
    for start in range(0, len(matrix), _COLUMNS_AT_ONCE):
        columns = slice(start, start + _COLUMNS_AT_ONCE)
        response = sample.filled[:, columns] * root
        matrix[columns] = np.linalg.lstsq(weighted, response, rcond=None)[0].T
        response -= weighted @ matrix[columns].T
        squares += float(np.vdot(response, response))
    noise = squares / (sample.weight.sum() * len(matrix))
    # Off the floor, where only an increase of the noise counts as a gradient.
    return Coefficients(matrix, max(noise, 2.0 * problem.noise_floor), breakpoints)


def null_model(family: Family, session: Session, dispersion: Floats | None = None) -> Null:
    """Intercepts and coefficients of covariates alone, at given dispersions or at those of the columns' moments."""
    summary = session.summary
    if dispersion is None:
        dispersion = start_dispersion(family, summary.mean, summary.variance)
    fixed = mean_coefficients(family, summary, session.data.n_covariates, fit_intercept=True)
    start = Null(np.zeros((len(fixed), 0)), fixed, dispersion)
    return null_coefficients(family, start, Pass(session, fit_intercept=True), tol=_NULL_TOL)


def subset(session: Session, chosen: Bools) -> Session:
    """The working set of the chosen rows with their offsets and covariates."""

    def read(block: Block) -> tuple[Floats | None, Floats]:
        keep, offset = chosen[block.start : block.stop], block.offset()
        return None if offset is None else offset[keep].astype(np.float64), block.covariates[keep]

    x, weight = read_rows(session, chosen)
    offsets, covariates = zip(*session.gather(read), strict=True)
    offset = None if any(part is None for part in offsets) else np.concatenate(offsets)
    if offset is not None and offset.shape[1] < x.shape[1]:
        offset = offset[:, 0]
    features = np.concatenate(covariates) if session.data.n_covariates else None
    return session_of(session, x, weight, offset=offset, covariates=features)


def working_values(family: Family, session: Session, null: Null) -> tuple[Session, Floats]:
    """Predictors of single entries without offsets and covariates, as a table to fit Gaussian pieces to.

    Returns
    -------
    session : Session
        On the table.
    units : ndarray of shape (n_features,)
        By which its columns were divided: standard deviations where predictors have units, else 1.
    """
    units = np.ones(len(null.fixed))
    for member, columns in family.member_columns(len(units)):
        if member.has_units:
            spread = np.sqrt(session.summary.variance[columns])
            units[columns] = np.where(spread > 0, spread, 1.0)

    def read(block: Block) -> tuple[Floats, Floats]:
        rows = open_block(block)
        x = rows.x.astype(np.float64)
        eta = family.link(family.interior_mean(x, np.ones_like(x))) - rows.features @ null.fixed[:, 1:].T
        if rows.offset is not None:
            eta = eta - rows.offset
        return np.where(True if rows.observed is None else rows.observed, eta / units, np.nan), rows.weights

    values, weight = zip(*session.gather(read), strict=True)
    return session_of(session, np.concatenate(values), np.concatenate(weight)), units

"""From a table to draws of its sparse factors, matched and judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from anypca._typing import Bools, Floats, Ints
from anypca.families import Family
from anypca.linalg import fix_signs
from anypca.models._bayes.chains import check_memory, check_sampling, judge, keep_sweeps, summarise
from anypca.models._bayes.estimator import DrawnFit
from anypca.models._bayes.points import Point, collect_rows, deviances_at
from anypca.models._bayes.rows import DrawnRowModel, NormalRowModel, choose_entries, thin
from anypca.models._bilinear.evaluator import Coefficients
from anypca.models._bilinear.passes import Deviances
from anypca.models._bilinear.start import mean_coefficients
from anypca.models._context import FitContext
from anypca.models.isfa._row_model import MaskedRowModel
from anypca.models.isfa._sampler import BuffetSampler, MaskedTable, Settings, State
from anypca.solvers import Progress

# Sweeps for each draw that is kept: factors live for tens of sweeps.
_THIN = 5
# Factors of a draw in the check of memory: as many as ``max_factors`` has by default.
_EXPECTED_FACTORS = 10
# Share of the rows (columns for masked loadings) that a factor must be used by to count: rows get factors of their own
# that come and go.
USED_SHARE = 0.05
# Cosine of two factors' parts of the predictor above which they are the same factor in two draws.
_SAME = 0.25


class Draw(NamedTuple):
    """Factors in the orientation of the table, without unused factors."""

    scores: Floats
    """(n_samples, k)."""
    loadings: Floats
    """(n_features, k)."""
    used: Bools
    """Which factors count, shape (k,)."""
    shares: Floats
    """Of rows, or columns, that use each, shape (k,)."""
    precision: float
    """Of the side without mask."""


class Run(NamedTuple):
    """Draws of all chains, chain after chain."""

    draws: list[Draw]
    log_likelihood: Floats
    """(chains, draws)."""
    n_factors: Ints
    """(chains, draws)."""
    n_used: Ints
    """Those that count, (chains, draws)."""


@dataclass(frozen=True, eq=False)
class ISFAFit(DrawnFit):
    """A posterior by draws."""

    components: Floats
    """(n_components, n_features)."""
    deviations: Floats
    inclusion: Floats
    """Probability that a component is used by each row, or with masked loadings by each column."""
    intercept: Floats
    dispersion: Floats
    n_factors: Ints
    n_used: Ints


def fit_buffet(session: FitContext, family: Family, dispersion: Floats, settings: Settings) -> ISFAFit:
    """Sample, match, summarise.

    Parameters
    ----------
    session : FitContext
        Its table is held in memory as one dense array, with all draws.
    family : Family
    dispersion : ndarray of shape (n_features,)
    settings : Settings
    """
    numbers = _EXPECTED_FACTORS * (session.data.n_samples + session.data.n_features)
    numbers *= settings.n_chains * settings.n_draws
    check_sampling(session.data, settings.n_draws, Settings.n_draws, "ISFA")
    check_memory(numbers, "ISFA")
    rows = collect_rows(session, fit_intercept=False)
    has_intercept = settings.fit_intercept
    offset = mean_coefficients(family, session.summary, 0, fit_intercept=has_intercept).sum(axis=1)
    table = MaskedTable.of(family, rows, dispersion, offset, is_turned=settings.mask == "loadings")
    run = sample_buffet(session, table, settings)
    return _conclude(session, table, run, settings)


def sample_buffet(session: FitContext, table: MaskedTable, settings: Settings) -> Run:
    """The chains, one after the other."""
    sampler = BuffetSampler(table, settings)
    draws: list[Draw] = []
    stats: list[tuple[float, int, int]] = []
    lengths = settings.n_tune, settings.n_draws, _THIN
    for chain in range(settings.n_chains):
        # A generator for each chain: its draws do not depend on how long the others are.
        rng = np.random.default_rng(session.rng.integers(2**63))

        def report(number: int, n_sweeps: int, chain: int = chain) -> None:
            done = chain * n_sweeps + number
            session.callback(Progress(done, settings.n_chains * n_sweeps, np.nan, np.nan))

        def sweep(state: State, rng: np.random.Generator = rng) -> State:
            return sampler.sweep(state, rng)

        for state in keep_sweeps(sweep, sampler.start(rng), *lengths, report):
            draw = read_draw(table, state)
            value = float(table.evaluate(state.active @ state.loadings, 0).value.sum())
            draws.append(draw)
            stats.append((value, draw.scores.shape[1], int(draw.used.sum())))
    shape = settings.n_chains, settings.n_draws
    return Run(draws, *(np.reshape(some, shape) for some in zip(*stats, strict=True)))


def read_draw(table: MaskedTable, state: State) -> Draw:
    """The used factors of a state, in the orientation of the table."""
    state = state.take(state.counts > 0)
    shares = state.counts / len(state.mask)
    active, free = state.active, state.loadings.T.copy()
    scores, loadings = (free, active) if table.is_turned else (active, free)
    return Draw(scores, loadings, shares >= USED_SHARE, shares, state.precision)


def _conclude(session: FitContext, table: MaskedTable, run: Run, settings: Settings) -> ISFAFit:
    """Match the factors of the draws, compare the chains."""
    k = most_frequent(run.n_used)
    picks = match_draws(run.draws, run.log_likelihood.ravel(), k)
    deviances, order = _deviances(session, table, match_points(run.draws, picks), settings).ordered()
    picks = picks[:, order]
    matched = match_points(run.draws, picks)
    stats = {"lp": run.log_likelihood, "n_factors": run.n_factors, "n_used": run.n_used}
    entries = choose_entries(*table.rows.x.shape)
    etas = np.array([_predict(draw, table.offset, *entries) for draw in run.draws])
    expected = table.family.take(entries[1]).mean(etas, table.dispersion[entries[1]])
    summary = summarise(session.data, matched, stats, has_intercept=False, more={"expected": expected})
    components, deviations, inclusion = _averages(matched, picks, is_turned=table.is_turned)
    return ISFAFit(
        make_row_model(table, run.draws, picks),
        deviances,
        summary,
        judge(components, run.log_likelihood.mean(axis=0), summary.r_hat["expected"]),
        components,
        deviations,
        inclusion,
        table.offset,
        table.dispersion,
        run.n_factors,
        run.n_used,
    )


def _averages(matched: Point, picks: Floats, *, is_turned: bool) -> tuple[Floats, Floats, Floats]:
    """Means and deviations of the loadings over the draws that have a factor, and how often entries are not masked."""
    present = np.abs(picks).sum(axis=2).T  # (k, draws)
    weight = np.maximum(present.sum(axis=1), 1.0)[:, None]
    components = np.einsum("sjk->kj", matched.loadings) / weight
    squares = np.einsum("sjk->kj", matched.loadings**2) / weight
    inclusion = ((matched.loadings if is_turned else matched.scores) != 0).mean(axis=0).T
    # A masked loading is zero in the mean too, unless it is used more often than not.
    if is_turned:
        components = np.where(inclusion < 0.5, 0.0, components)
    return components, np.sqrt(np.maximum(squares - components**2, 0.0)), inclusion


def _deviances(session: FitContext, table: MaskedTable, draws: Point, settings: Settings) -> Deviances:
    """Deviances at the means over draws."""
    fixed = np.tile(table.offset[:, None], (1, int(settings.fit_intercept)))
    means = Coefficients(draws.loadings.mean(axis=0), fixed, table.dispersion)
    scores = draws.scores.mean(axis=0)
    return deviances_at(session, table.family, means, scores, fit_intercept=settings.fit_intercept)


def match_points(draws: list[Draw], picks: Floats) -> Point:
    """Scores (draws, n_samples, k) and loadings (draws, n_features, k) of the components in each draw."""
    width = picks.shape[2]
    scores = np.array([pad(draw.scores, width) @ pick.T for draw, pick in zip(draws, picks, strict=True)])
    loadings = np.array([pad(draw.loadings, width) @ pick.T for draw, pick in zip(draws, picks, strict=True)])
    return Point(scores, loadings)


def _predict(draw: Draw, offset: Floats, row: Ints, column: Ints) -> Floats:
    """eta at entries under one draw."""
    return np.asarray(np.einsum("ek,ek->e", draw.scores[row], draw.loadings[column]) + offset[column])


def make_row_model(table: MaskedTable, draws: list[Draw], picks: Floats) -> DrawnRowModel:
    """Rows under some of the draws: with masks, or with normal scores where the loadings have the masks."""
    index = thin(len(draws))
    some, picks = [draws[s] for s in index], picks[index]
    width = picks.shape[2]
    loadings = np.array([pad(draw.loadings, width) for draw in some])
    if table.is_turned:
        size = np.array([draw.precision for draw in some])[:, None, None] ** -0.5
        intercept = np.tile(table.offset, (len(some), 1))
        forward, shift = size * picks.swapaxes(1, 2), np.zeros(picks.shape[:2])
        return NormalRowModel(table.family, table.dispersion, loadings * size, intercept, forward, shift)
    n = table.rows.n_rows
    # A new row uses a factor as the rows before it did; padding is used by none.
    shares = np.array([pad(draw.shares, width) for draw in some]) * n / (n + 1.0)
    odds = np.log(np.maximum(shares, 1e-12)) - np.log1p(-shares)
    return MaskedRowModel(table.family, table.dispersion, loadings, table.offset, odds, picks)


def most_frequent(numbers: Ints) -> int:
    """The number of factors in most draws, the smaller of two."""
    return int(np.bincount(numbers.ravel()).argmax())


def match_draws(draws: Sequence[Draw], log_likelihood: Floats, n_components: int) -> Floats:
    """Which factor of each draw is which component, with its sign.

    Parameters
    ----------
    draws : sequence of Draw
    log_likelihood : ndarray of shape (n_draws,)
        The best draw with the right number of factors is what the others are matched to.
    n_components : int

    Returns
    -------
    ndarray of shape (n_draws, n_components, largest k)
        1, -1 or 0: components are ``pick @ factors``. A component that a draw does not have is 0.
    """
    widest = max([1, *(draw.loadings.shape[1] for draw in draws)])
    picks = np.zeros((len(draws), n_components, widest))
    right = np.array([int(draw.used.sum()) == n_components for draw in draws])
    if n_components == 0:
        return picks
    best = draws[int(np.argmax(np.where(right, log_likelihood, -np.inf)))]
    chosen = np.flatnonzero(best.used)
    sizes = np.linalg.norm(best.loadings[:, chosen], axis=0) * np.linalg.norm(best.scores[:, chosen], axis=0)
    chosen = chosen[np.argsort(-sizes, kind="stable")]
    signs = fix_signs(best.loadings[:, chosen].T)
    for pick, draw in zip(picks, draws, strict=True):
        of_loadings = _cosines(best.loadings[:, chosen] * signs, draw.loadings)
        same = of_loadings * _cosines(best.scores[:, chosen] * signs, draw.scores)
        for a, b in zip(*linear_sum_assignment(-same), strict=True):
            if same[a, b] > _SAME:
                pick[a, b] = 1.0 if of_loadings[a, b] > 0 else -1.0
    return picks


def _cosines(left: Floats, right: Floats) -> Floats:
    """Between the columns of two matrices; 0 where one has no length."""
    lengths = np.outer(np.linalg.norm(left, axis=0), np.linalg.norm(right, axis=0))
    return np.divide(left.T @ right, lengths, out=np.zeros_like(lengths), where=lengths > 0)


def pad(array: Floats, width: int) -> Floats:
    """Zeros behind the last axis."""
    return np.concatenate([array, np.zeros((*array.shape[:-1], width - array.shape[-1]))], axis=-1)

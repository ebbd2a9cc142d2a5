"""From a table to draws of its sparse factors, matched and judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from anypca._typing import Floats, Ints
from anypca.families import Family
from anypca.models._bayes.chains import check_memory, check_sampling, judge, refuse_non_finite, summarise
from anypca.models._bayes.estimator import DrawnFit
from anypca.models._bayes.normal_rows import NormalRowModel
from anypca.models._bayes.points import Point, collect_rows, deviances_at
from anypca.models._bayes.rows import DrawnRowModel, choose_entries, thin
from anypca.models._bilinear.evaluator import Coefficients
from anypca.models._bilinear.passes import Deviances
from anypca.models._bilinear.start import mean_coefficients
from anypca.models._context import FitContext
from anypca.models.isfa._report import USED_SHARE, Draw, match_draws, most_frequent, pad
from anypca.models.isfa._row_model import MaskedRowModel
from anypca.models.isfa._sampler import BuffetSampler, Settings, State
from anypca.models.isfa._table import MaskedTable
from anypca.solvers import Progress

# Sweeps for each draw that is kept: factors live for tens of sweeps.
_THIN = 5
# Factors of a draw that memory is asked for in advance: as many as ``max_factors`` has by default.
_EXPECTED_FACTORS = 10


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
    check_sampling(session.data, settings.n_draws, Settings.n_draws, "ISFA")
    n, p = session.data.n_samples, session.data.n_features
    check_memory(_EXPECTED_FACTORS * (n + p) * settings.n_chains * settings.n_draws, "ISFA")
    rows = collect_rows(session, fit_intercept=False)
    has_intercept = settings.fit_intercept
    offset = mean_coefficients(family, session.summary, 0, fit_intercept=has_intercept).sum(axis=1)
    table = MaskedTable.of(family, rows, dispersion, offset, is_turned=settings.mask == "loadings")
    run = sample_buffet(session, table, settings)
    refuse_non_finite(run.log_likelihood)
    return _conclude(session, table, run, settings)


def sample_buffet(session: FitContext, table: MaskedTable, settings: Settings) -> Run:
    """The chains, one after the other."""
    sampler = BuffetSampler(table, settings)
    draws: list[Draw] = []
    values, numbers, used = [], [], []
    n_sweeps = _THIN * (settings.n_tune + settings.n_draws)
    for chain in range(settings.n_chains):
        # A generator for each chain: its draws do not depend on how long the others are.
        rng = np.random.default_rng(session.rng.integers(2**63))
        state = sampler.start(rng)
        for sweep in range(1, n_sweeps + 1):
            state = sampler.sweep(state, rng)
            if sweep % _THIN or sweep <= _THIN * settings.n_tune:
                continue
            draw = read_draw(table, state)
            draws.append(draw)
            eta = table.turn(state.active @ state.loadings)
            values.append(float(table.evaluate(table.turn(eta), 0).value.sum()))
            numbers.append(draw.scores.shape[1])
            used.append(int(draw.used.sum()))
        session.callback(Progress(chain + 1, settings.n_chains, values[-1], np.nan))
    shape = settings.n_chains, settings.n_draws
    return Run(draws, *(np.reshape(some, shape) for some in (values, numbers, used)))


def read_draw(table: MaskedTable, state: State) -> Draw:
    """The factors of a state that some row uses, seen from the table."""
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

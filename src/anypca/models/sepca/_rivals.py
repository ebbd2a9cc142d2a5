"""Which other models of the noise a fit calls for.

A fit starts with one size for all counts, or one variance for all real columns. Three findings at that fit call for
rivals: counts that vary less than Poisson counts do, amounts that vary less than exponential ones, and scales that
differ from column to column.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from anypca._typing import Bools, Floats
from anypca.engine import Block, Table
from anypca.families import Exponential, ScaledPoisson
from anypca.models._bilinear.dispersion import column_scales
from anypca.models._bilinear.evaluator import BlockEvaluator
from anypca.models._opened import observed_only, open_block, weigh
from anypca.models.sepca._candidate import Candidate, gamma_candidates, poisson_columns, scaled_candidates
from anypca.models.sepca._noise import is_gridded, is_normal
from anypca.models.sepca._state import State
from anypca.models.sepca._sweeps import residuals

# Mean from which on Pearson's statistic tells the dispersion of counts, as in the customary rule for chi-square tests:
# below, rare large values carry it, and it comes out too small.
_RICH_MEAN = 5.0
# Share of the variance that must be missing. Less than a tenth hardly changes what can be told from noise, and is not
# worth a parameter in each column.
_LEAST_DEFICIT = 0.1
# Standard errors that a finding must lie beyond. Chance gives 5 once in millions of tables, which leaves room for
# residuals that are not quite what the approximations say.
_SIGNIFICANT = 5.0
# The same for amounts: the gamma family holds the exponential one, so that a false finding costs little.
_SIGNIFICANT_AMOUNTS = 2.5
# Nats that dispersions of the columns' own must gain before they are tried: a ratio of evidences of 20, the usual mark
# of strong evidence.
_WORTH_TRYING = 3.0
# Columns from which on dispersions of their own can be told from one for all.
_FEWEST = 3
# Steps to the scores of a drawn table. With rich counts ten leave residuals that are right to ten digits.
_SIMULATED_SWEEPS = 20
# Rows of each block that are drawn. With 20 columns of counts they tell a ratio of variances to 3 %.
_SIMULATED_ROWS = 200
# Largest mean that counts are drawn with, far beyond any count that was seen; larger ones do not fit a long integer.
_LARGEST_MEAN = 1e15


def find_rivals(state: State, seed: int) -> list[Candidate]:
    """The candidates that the residuals call for, possibly with the one at hand; the best of them takes its place.

    There are none where the settings fix the dispersion, or say which columns share one.
    """
    first, dispersion = state.candidate, state.loadings.dispersion
    if not first.may_have_own:
        return []
    if (counts := under_dispersed(state, seed)).any():
        return scaled_candidates(first, counts, dispersion)
    if (amounts := steady_columns(state)).any():
        return gamma_candidates(first, amounts, dispersion)
    if may_differ(state) or scales_differ(state):
        # Equal shares are shares of the dispersions without components, which a fit starts with.
        start = first.start if first.by_column else dispersion
        return [first, replace(first, start=start, by_column=not first.by_column)]
    return []


def may_differ(state: State) -> bool:
    """Whether noise of the columns' own is to be tried."""
    candidate, n_features = state.candidate, len(state.loadings.mean)
    groups = candidate.open_members()
    if n_features < _FEWEST or not groups:
        return False
    if is_normal(candidate.family):
        # Without components equal shares of the variance are noise of the columns' own.
        return state.n_components > 0
    gridded = [group for group in groups if is_gridded(group[0])]
    return any(residuals(state).own(*group).gain > _WORTH_TRYING for group in gridded)


def under_dispersed(state: State, seed: int) -> Bools:
    """Which columns hold counts that vary less than Poisson counts would, shape (n_features,).

    The squared residuals are compared with those of one table drawn from the fitted model, whose scores are found
    in the same way: what scores take from the residuals, and what the means of small counts do to them, is then in
    both.
    """
    candidate, none = state.candidate, np.zeros(len(state.loadings.mean), dtype=bool)
    rich = poisson_columns(candidate.family, state.loadings.dispersion)
    rich &= candidate.session.summary.mean >= _RICH_MEAN
    if not rich.any():
        return none
    residual, simulated, count = _pearson_pair(state, rich, seed)[:, rich].sum(axis=1)
    free = max(float(count) - float(rich.sum() * state.loadings.mean.shape[1]), 1.0)
    ratio = float(residual) / max(float(simulated), np.finfo(float).tiny)
    # Squared residuals of rich counts have variance 2, and so have those of the table that was drawn.
    return rich if ratio < 1.0 - _LEAST_DEFICIT - _SIGNIFICANT * np.sqrt(4.0 / free) else none


def steady_columns(state: State) -> Bools:
    """Which exponential columns vary less than exponential amounts would, shape (n_features,)."""
    candidate = state.candidate
    chosen = np.zeros(len(state.loadings.mean), dtype=bool)
    for member, columns in candidate.family.member_columns(len(chosen)):
        chosen[columns] = isinstance(member, Exponential)
    if not chosen.any():
        return chosen
    scale, free = column_scales(candidate.family, state.means, candidate.visit, state.score_means)
    # Squared Pearson residuals of exponential amounts have variance E (x - 1)^4 - 1 = 8.
    limit = 1.0 - _LEAST_DEFICIT - _SIGNIFICANT_AMOUNTS * np.sqrt(8.0 / free[chosen].sum())
    is_steady = bool(np.average(scale[chosen], weights=free[chosen]) < limit)
    return chosen & is_steady


def scales_differ(state: State) -> bool:
    """Whether the columns' residual scales differ by more than chance.

    Their logarithms have variance 2 / df with df the residual degrees of freedom of a column. So their weighted squared
    deviations are a chi-square, with the number of columns less 1 as its mean and half its variance.
    """
    candidate, n_features = state.candidate, len(state.loadings.mean)
    is_mixed = len(candidate.family.member_columns(n_features)) > 1
    if is_mixed or not isinstance(candidate.family, ScaledPoisson) or n_features < _FEWEST:
        return False
    scale, free = column_scales(candidate.family, state.means, candidate.visit, state.score_means)
    varies = scale > 0
    if varies.sum() < 3:
        return False
    logs, weights = np.log(scale[varies]), free[varies] / 2.0
    spread = float(weights @ (logs - np.average(logs, weights=weights)) ** 2)
    df = int(varies.sum()) - 1
    return bool(spread > df + _SIGNIFICANT * np.sqrt(2.0 * df))


def _pearson_pair(state: State, columns: Bools, seed: int) -> Floats:
    """Squared Pearson residuals of the table and of one drawn from the fit, and entries, by column: (3, n_features).

    The first rows of each block are enough.
    """
    problem, loadings, means = state.problem, state.loadings, state.means
    family, dispersion = problem.family, means.dispersion

    def visit(block: Block, scores: Floats) -> Floats:
        first = np.arange(min(block.n_rows, _SIMULATED_ROWS))
        rows = open_block(block, fit_intercept=problem.fit_intercept).take(first)
        everywhere = slice(0, rows.n_features)
        eta = BlockEvaluator(family, means, rows).predictor(scores[first], everywhere)
        rng = np.random.default_rng([seed, block.start])
        x = rows.x.copy()
        x[:, columns] = rng.poisson(np.minimum(np.exp(eta[:, columns]), _LARGEST_MEAN))
        drawn = replace(rows, table=Table(x, rows.observed))
        found, _ = problem.solve_rows(drawn, loadings, max_iter=_SIMULATED_SWEEPS)
        eta_drawn = BlockEvaluator(family, means, drawn).predictor(found.mean, everywhere)
        pairs = ((rows.x, eta), (x, eta_drawn))
        terms = [
            family.pearson(values, observed_only(rows, everywhere, at), dispersion.astype(at.dtype))
            for values, at in pairs
        ]
        terms.append(np.ones_like(eta))
        return np.stack([rows.weights @ weigh(rows, everywhere, term) for term in terms])

    return np.asarray(state.candidate.session.sum(visit, state.score_means))

"""Dispersions of columns that maximise the bound, their penalty in the evidence, and alternative noise models.

Residuals at shrunken posterior means, over the degrees of freedom of a least-squares fit, come out too large; expected
squares include the uncertainty of the predictor. Columns with a dispersion of their own are shrunk towards the others
by a prior that is part of the evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import logsumexp

from anypca._typing import Bools, Floats, Ints
from anypca.engine import Block, Table
from anypca.families import Exponential, Family, Gamma, LogNormal, ScaledPoisson
from anypca.models._bilinear.dispersion import (
    DISPERSION_GRID,
    SMALLEST_FRACTION,
    as_recorded,
    column_scales,
    estimate_dispersion,
    has_settled,
)
from anypca.models._bilinear.evaluator import BlockEvaluator
from anypca.models._block_view import BlockView, apply_entry_weights, observed_only, open_block
from anypca.models.sepca._noise import STRONG_EVIDENCE, NoiseModel, is_gridded, is_normal, poisson_columns
from anypca.models.sepca._posterior import Moments, Scores
from anypca.models.sepca._state import State
from anypca.models.sepca._sweep import Expectation

# Observations that the prior of a column's own noise amounts to: they determine a logarithm to within sqrt(2 / 6) =
# 0.58, about what the noise of columns differs by; without any, a component could copy a column.
_PSEUDO_OBSERVATIONS = 6.0
# Points of the spline between two values of the grid: 0.07 of a logarithm apart, the standard error of a variance from
# 400 entries.
_FINE = 8
# Standard deviations of the prior of logarithms: from columns that hardly differ to sizes over a range of e^11.
_SPREADS = np.geomspace(0.1, 2.8, 9)
# Values of the grid at which a shared dispersion is searched at once: the best, two on either side for the spline.
_WINDOW = 5
# Relative change of the dispersion at which the alternation ends: the standard error, sqrt(2 / (n p)), of one that is
# shared by all columns of a 100 x 50 table.
ROUND_TOLERANCE = 0.02
# Mean from which on Pearson's statistic is reliable for counts, as in the customary rule for chi-square tests.
_RICH_MEAN = 5.0
# Share of the variance that must be missing for a family to be replaced; a smaller deficit is not worth a parameter in
# each column. Besides, it must be significant: chance gives 5 standard errors once in millions of tables.
_LEAST_DEFICIT, _SIGNIFICANT = 0.1, 5.0
# Rows of each block that are drawn to compare counts with Poisson counts, and the largest mean that numpy draws.
_DRAWN_ROWS, _LARGEST_MEAN = 200, 1e15


class OwnDispersions(NamedTuple):
    """Dispersions of columns under a normal prior of their logarithms, whose mean and spread are fitted."""

    dispersion: Floats
    """(n_columns,)."""
    gain: float
    """Marginal log-likelihood over the one of a shared dispersion."""
    cost: float
    """Log-likelihood at ``dispersion`` over the marginal one."""


def estimate(state: State) -> Floats:
    """Dispersions with the largest bound, shape (n_features,)."""
    noise, dispersion = state.noise, state.loadings.dispersion
    if not noise.is_open:
        return dispersion
    found = dispersion.copy()
    if any(isinstance(member, ScaledPoisson) for member, _ in noise.open_members):
        found = _by_moments(state)
    for member, columns in noise.open_members:
        if is_normal(member):
            found[columns] = _normal_noise(state, member, columns)
        elif is_gridded(member):
            is_own = noise.by_column
            multiple = _own(state, member, columns).dispersion if is_own else _shared(state, member, columns)
            found[columns] = multiple * noise.grid_units[columns]
    return as_recorded(found, noise.open_members, noise.session.summary)


def is_settled(state: State, dispersion: Floats, rtol: float | None = None) -> bool:
    """Whether new dispersions agree, up to a fraction, with the dispersions that the state was fitted with.

    By default up to 2 %, or in tall tables the standard error of a column's own dispersion, which costs half a nat.
    """
    fraction = min(ROUND_TOLERANCE, float(np.sqrt(2.0 / max(state.weight, 1.0)))) if rtol is None else rtol
    return has_settled(state.noise.family, dispersion, state.loadings.dispersion, rtol=fraction)


def bound_gap(state: State) -> float:
    """Difference of the expected log-likelihood to its bound, for families whose bound is known to be loose."""
    dispersion = state.loadings.dispersion

    def terms(cells: _Cells) -> list[Floats]:
        phi = dispersion[cells.columns].astype(cells.mean.dtype, copy=False)
        return [cells.family.bound_gap(cells.x, cells.mean, cells.variance, phi)]

    groups = [group for group in state.noise.members if type(group[0]).bound_gap is not Family.bound_gap]
    return sum(float(_sum(state, *group, 1, terms).sum()) for group in groups)


def log_prior(state: State) -> float:
    """Log prior of the columns' own noise, which is part of the evidence."""
    noise, dispersion = state.noise, state.loadings.dispersion
    groups = noise.open_members if noise.is_open else []
    own = [columns for member, columns in groups if is_normal(member) and noise.has_own(member)]
    return sum(_noise_prior(dispersion[columns], noise.null_dispersion[columns]) for columns in own)


def dispersion_cost(state: State) -> float:
    """Penalty of the free dispersions: half the logarithm of the number of rows each, as in BIC.

    Equal shares of the columns' variances use as many numbers as noise of their own. Dispersions on the grid have a
    prior, whose mean and spread are fitted, and cost their log-likelihood less the marginal one.
    """
    noise, half, cost = state.noise, 0.5 * float(np.log(max(state.weight, 1.0))), 0.0
    for member, columns in noise.open_members:
        if is_gridded(member) and noise.by_column:
            cost += _own(state, member, columns).cost + 2.0 * half
        else:
            has_many = noise.has_own(member) or (member.has_units and not noise.is_raw)
            cost += half * (len(columns) if has_many else 1)
    return cost


def alternative_noise_models(state: State) -> list[NoiseModel]:
    """Noise models that the residuals of a fit suggest.

    A fit starts with one size for all counts, or one share of the variance for all real columns. Four findings suggest
    others: counts that vary less than Poisson counts, amounts that vary less than exponential ones, amounts whose
    logarithms are skewed, and scales that differ between columns. The first two replace the model at hand, which they
    contradict.
    """
    noise, dispersion = state.noise, state.loadings.dispersion
    if not noise.is_sharing_open:
        return []
    counts = poisson_columns(noise.family, dispersion) & (noise.session.summary.mean >= _RICH_MEAN)
    if _vary_less_than_drawn(state, counts):
        scaled = noise.with_family(counts, ScaledPoisson())
        own = replace(scaled, by_column=True, start=np.where(counts, 1.0, dispersion))
        if len(scaled.members) > 1:
            return [own]
        # An error that adds to the counts has the same variance at every mean.
        constant = np.where(counts, 1.0 / noise.session.summary.mean, dispersion)
        return [replace(scaled, by_column=False, start=constant), own]
    # Squared Pearson residuals of exponential amounts have variance E (x - 1)^4 - 1 = 8.
    if _vary_less(state, amounts := noise.columns_of(Exponential), 8.0):
        return _gamma_models(noise, amounts, dispersion)
    amounts = noise.columns_of(LogNormal)
    if not noise.settings.is_family_given and _logs_are_skewed(state, amounts):
        return [noise, *_gamma_models(noise, amounts, dispersion)]
    if _may_differ(state) or _scales_differ(state):
        # Equal shares are shares of the dispersions without components, which a fit starts with.
        start = noise.start if noise.by_column else dispersion
        return [noise, replace(noise, start=start, by_column=not noise.by_column)]
    return []


def _gamma_models(noise: NoiseModel, columns: Bools, dispersion: Floats) -> list[NoiseModel]:
    """Models with gamma amounts in some columns, with one shape and with shapes of their own."""
    gamma = replace(noise.with_family(columns, Gamma()), start=dispersion)
    return [replace(gamma, by_column=by) for by in ([True] if len(gamma.members) > 1 else [False, True])]


def _may_differ(state: State) -> bool:
    """Whether noise of the columns' own is to be tried."""
    noise = state.noise
    if not noise.open_members:
        return False
    if is_normal(noise.family):
        # Without components equal shares of the variance are noise of the columns' own.
        return state.n_components > 0
    gridded = [group for group in noise.open_members if is_gridded(group[0])]
    return any(_own(state, *group).gain > STRONG_EVIDENCE for group in gridded)


def _vary_less(state: State, columns: Bools, variance: float) -> bool:
    """Whether columns vary less than their family, whose squared Pearson residuals have a ``variance``."""
    if not columns.any():
        return False
    scale, free = column_scales(state.noise.family, state.coefficients, state.noise.visit, state.score_means)
    limit = 1.0 - _LEAST_DEFICIT - _SIGNIFICANT * np.sqrt(variance / free[columns].sum())
    return bool(np.average(scale[columns], weights=free[columns]) < limit)


def _vary_less_than_drawn(state: State, columns: Bools) -> bool:
    """Whether counts vary less than Poisson counts drawn from the fit, whose scores are found in the same way.

    Scores take variance from the residuals of both tables, in few columns more than degrees of freedom account for.
    """
    if not columns.any():
        return False
    residual, drawn, count = _pearson_pair(state, columns)[:, columns].sum(axis=1)
    free = max(float(count) - float(columns.sum() * state.loadings.mean.shape[1]), 1.0)
    # Squared residuals of rich counts have variance 2, in the table and in the drawn one.
    return bool(residual < (1.0 - _LEAST_DEFICIT - _SIGNIFICANT * np.sqrt(4.0 / free)) * drawn)


def _pearson_pair(state: State, columns: Bools) -> Floats:
    """Squared Pearson residuals of the table and of one drawn from the fit, and entries, by column: (3, n_features).

    The first rows of each block suffice.
    """
    problem, coefficients = state.problem, state.coefficients
    family, dispersion = problem.family, coefficients.dispersion

    def visit(block: Block, scores: Floats) -> Floats:
        first = np.arange(min(block.n_rows, _DRAWN_ROWS))
        rows = open_block(block, fit_intercept=problem.fit_intercept).take(first)
        everywhere = slice(0, rows.n_features)
        eta = BlockEvaluator(family, coefficients, rows).predictor(scores[first], everywhere)
        rng, x = np.random.default_rng(block.start), rows.x.copy()
        x[:, columns] = rng.poisson(np.minimum(np.exp(eta[:, columns]), _LARGEST_MEAN))
        drawn = replace(rows, table=Table(x, rows.observed))
        found, _ = problem.solve_rows(drawn, state.loadings)
        eta_drawn = BlockEvaluator(family, coefficients, drawn).predictor(found.mean, everywhere)
        terms = [
            family.pearson(values, observed_only(rows, everywhere, at), dispersion.astype(at.dtype))
            for values, at in ((rows.x, eta), (x, eta_drawn))
        ]
        terms.append(np.ones_like(eta))
        return np.stack([rows.weights @ apply_entry_weights(rows, everywhere, term) for term in terms])

    return np.asarray(state.noise.session.sum(visit, state.score_means))


def _logs_are_skewed(state: State, columns: Bools) -> bool:
    """Whether logarithms of amounts are closer to gamma than to log-normal amounts in their third moment.

    With variance v it is 0 for log-normal amounts, and about -v^2 for gamma amounts.
    """
    if not columns.any():
        return False
    family, coefficients = state.noise.family, state.coefficients

    def moments(rows: BlockView, scores: Floats) -> Floats:
        eta = BlockEvaluator(family, coefficients, rows).predictor(scores, slice(0, rows.n_features))
        logs = np.log(np.where(columns & (rows.x > 0.0), rows.x, 1.0)) - np.where(columns, eta, 0.0)
        terms = (apply_entry_weights(rows, slice(None), logs**power) for power in (0, 2, 3))
        return np.stack([rows.weights @ term for term in terms])

    count, squares, cubes = state.noise.visit.sum(moments, state.score_means)[:, columns]
    return bool((cubes / squares + 0.5 * squares / count).sum() < 0.0)


def _scales_differ(state: State) -> bool:
    """Whether the residual scales of scaled Poisson columns differ by more than chance.

    Their logarithms have variance 2 / df with df the residual degrees of freedom of a column, so that their weighted
    squared deviations are a chi-square variable.
    """
    noise = state.noise
    if not isinstance(noise.family, ScaledPoisson):
        return False
    scale, free = column_scales(noise.family, state.coefficients, noise.visit, state.score_means)
    varies = scale > 0
    df = max(int(varies.sum()) - 1, 1)
    logs, weights = np.log(scale[varies]), free[varies] / 2.0
    spread = float(weights @ (logs - np.average(logs, weights=weights)) ** 2)
    return bool(spread > df + _SIGNIFICANT * np.sqrt(2.0 * df))


def _typical_noise(noise: Floats, null: Floats) -> Floats:
    """The median share of the dispersion without components, in each column's units, shape (n_columns,)."""
    return float(np.exp(np.median(np.log(noise / null)))) * null


def _noise_prior(noise: Floats, null: Floats) -> float:
    """Log density, relative to its mode, of the inverse-gamma prior equivalent to the pseudo-observations."""
    ratio = noise / _typical_noise(noise, null)
    return -0.5 * _PSEUDO_OBSERVATIONS * float((np.log(ratio) + 1.0 / ratio - 1.0).sum())


def _normal_noise(state: State, member: Family, columns: Ints) -> Floats:
    """Noise of normal columns, in the ratios that they have, or of each its own."""
    known = state.loadings.dispersion
    dispersion, null = known[columns], state.noise.null_dispersion[columns]

    def terms(cells: _Cells) -> list[Floats]:
        phi = known[cells.columns].astype(cells.mean.dtype, copy=False)
        _, gradient, curvature = cells.family.expected_log_likelihood(
            cells.x, cells.mean, cells.variance, phi
        )
        return [gradient * gradient / curvature + curvature * cells.variance, np.ones_like(cells.mean)]

    squares, count = _sum(state, member, columns, 2, terms)
    if not state.noise.has_own(member):
        shared = dispersion * squares.sum() / max(float(count.sum()), 1.0)
        return np.asarray(np.maximum(shared, SMALLEST_FRACTION * null))
    own = np.maximum(dispersion * squares / np.maximum(count, 1.0), SMALLEST_FRACTION * null)
    pseudo = _PSEUDO_OBSERVATIONS
    return np.asarray((count * own + pseudo * _typical_noise(own, null)) / (count + pseudo))


def _by_moments(state: State) -> Floats:
    """Dispersions from Pearson residuals at the posterior means."""
    noise = state.noise
    return estimate_dispersion(
        noise.family,
        state.coefficients,
        noise.visit,
        state.score_means,
        noise.null_dispersion,
        state.weight,
        by_column=noise.by_column,
    )


def _own(state: State, member: Family, columns: Ints) -> OwnDispersions:
    """Dispersions of the columns' own, in units of the grid."""
    return own_dispersions(_grid_values(state, member, columns))


def own_dispersions(values: Floats) -> OwnDispersions:
    """From log-likelihoods at the values of the grid, shape (n_grid, n_columns), by empirical Bayes."""
    logs, fine = _fine(values)
    top = fine.max(axis=0)
    centres, spreads = (part.ravel() for part in np.meshgrid(logs[::_FINE], _SPREADS))
    priors = -0.5 * ((logs - centres[:, None]) / spreads[:, None]) ** 2
    priors -= logsumexp(priors, axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        marginal = np.log(np.exp(priors) @ np.exp(fine - top)).sum(axis=1) + top.sum()
    best = int(np.argmax(marginal))
    posterior = fine + priors[best][:, None]
    found = logs @ np.exp(posterior - logsumexp(posterior, axis=0))
    reached = sum(float(np.interp(at, logs, column)) for at, column in zip(found, fine.T, strict=True))
    shared, own = float(fine.sum(axis=1).max()), float(marginal[best])
    return OwnDispersions(np.exp(found), own - shared, reached - own)


def _shared(state: State, member: Family, columns: Ints) -> float:
    """The shared dispersion with the largest log-likelihood, in units of the grid; a shape may be 0, the border."""
    last = len(DISPERSION_GRID) - 1
    known = state.loadings.dispersion[columns[0]] / state.noise.grid_units[columns[0]]
    # A start on the grid, up to rounding, has one nearest value; the next larger one would depend on the rounding.
    centre = int(np.argmin(np.abs(np.log(DISPERSION_GRID / max(known, DISPERSION_GRID[0])))))
    while True:
        start = min(max(centre - _WINDOW // 2, 0), last + 1 - _WINDOW)
        numbers = slice(start, start + _WINDOW)
        values = _grid_values(state, member, columns, numbers).sum(axis=1)
        best = start + int(np.argmax(values))
        if best in (start, start + _WINDOW - 1) and best not in (0, last):
            centre = best
            continue
        logs, fine = _fine(values, numbers)
        is_border = best == 0 and member.dispersion_kind == "shape"
        return 0.0 if is_border else float(np.exp(logs[np.argmax(fine)]))


def _fine(values: Floats, numbers: slice = slice(None)) -> tuple[Floats, Floats]:
    """Logarithms of dispersions between grid values, or a part of them, and the spline of the values there."""
    logs = np.log(DISPERSION_GRID[numbers])
    fine = np.linspace(logs[0], logs[-1], (len(logs) - 1) * _FINE + 1)
    return fine, CubicSpline(logs, values, axis=0)(fine)


class _Cells(NamedTuple):
    """Some columns of one family in a block, with the moments of their predictors; (rows, columns) each."""

    columns: Ints
    family: Family
    x: Floats
    mean: Floats
    variance: Floats


def _grid_values(state: State, member: Family, columns: Ints, numbers: slice = slice(None)) -> Floats:
    """Expected log-likelihoods of the columns at dispersions of the grid, (n_grid, n_columns)."""
    grid, units = DISPERSION_GRID[numbers], state.noise.grid_units

    def terms(cells: _Cells) -> list[Floats]:
        unit = units[cells.columns].astype(cells.mean.dtype, copy=False)
        moments = cells.x, cells.mean, cells.variance
        return [cells.family.expected_log_likelihood(*moments, phi * unit).value for phi in grid]

    return _sum(state, member, columns, len(grid), terms) + state.noise.grid_constants[numbers][:, columns]


def _sum(
    state: State, member: Family, columns: Ints, n_terms: int, terms: Callable[[_Cells], list[Floats]]
) -> Floats:
    """Weighted sums over rows of each of the terms, (n_terms, n_columns)."""
    problem, loadings = state.problem, state.loadings

    def cells_of(expectation: Expectation, scores: Scores) -> Iterator[_Cells]:
        rows = expectation.rows
        for tile, _, eta, variance in expectation.predictors(Moments.of(scores, rows.features)):
            inside = columns[(columns >= tile.start) & (columns < tile.stop)]
            if inside.size:
                part, at = member.take(np.searchsorted(columns, inside)), inside - tile.start
                # Means may overflow if the likelihood has no maximum, and at missing entries.
                mean, spread = (observed_only(rows, inside, array[:, at]) for array in (eta, variance))
                yield _Cells(inside, part, rows.x[:, inside], mean, spread)

    def visit(block: Block, scores: Scores) -> Floats:
        rows = open_block(block, fit_intercept=problem.fit_intercept)
        found = np.zeros((n_terms, rows.n_features))
        for cells in cells_of(Expectation(problem.family, loadings, rows), scores):
            for number, term in enumerate(terms(cells)):
                found[number, cells.columns] = rows.weights @ apply_entry_weights(rows, cells.columns, term)
        return found[:, columns]

    return np.asarray(state.noise.session.sum(visit, state.local))

"""Dispersion between converged fits: moment equations on the Pearson residuals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import Summary
from anypca.families import Family
from anypca.families._dispersed import Dispersed
from anypca.families.mixed import count_estimated
from anypca.linalg import PackedCholesky, pack_symmetric, packed_products
from anypca.models._bilinear.evaluator import BlockEvaluator, Coefficients
from anypca.models._bilinear.passes import Pass
from anypca.models._block_view import BlockView, apply_entry_weights

# Grid for dispersions that enter the variance non-linearly (negative binomial 1/size): from practically Poisson counts
# to columns that are almost always zero. Interpolation in logarithms has an error of at most 4 per cent for means from
# 0.1 to 500.
DISPERSION_GRID = np.logspace(-4, 2, 25)
# A dispersion below this fraction of the null model's means that the fit reproduces the table, to a thousandth of the
# columns' standard deviations.
SMALLEST_FRACTION = 1e-6
# With fewer residual degrees of freedom per entry, the components can explain almost anything: an error of a tenth of
# the entries in the count would make the dispersion zero or double it. The null model's dispersion is kept then.
_SMALLEST_SHARE = 0.1
# Scores and coefficients never take more than this share of a column's entries from its own degrees of freedom.
_LARGEST_SHARE_TAKEN = 0.5
# Prior observations that pull the logarithms of the columns' own dispersions to their mean: ten observations tell a
# logarithm to within sqrt(2 / 10) = 0.45, about as much as scales of columns differ.
_SHRINKAGE = 10.0
# A variance below this share of the squared mean, a deviation of a millionth of the mean, is the rounding of a constant
# column, in single precision too.
_CONSTANT = 1e-12
# Mean squared Pearson residual below which a column is reproduced exactly, for example a constant one. Such a column
# has no information about the dispersion. With noise the mean is about 1.
_REPRODUCED = 1e-10


def start_dispersion(family: Family, mean: Floats, variance: Floats, *, by_column: bool = False) -> Floats:
    """Dispersion (n_features,) of the model without components.

    Columns of one family share a dispersion unless ``by_column``. In a mixed table, where units may differ, each column
    has its own scale.
    """
    dispersion = np.ones(len(mean))
    groups = family.member_columns(len(mean))
    for member, columns in groups:
        if member.fixed_dispersion is not None:
            dispersion[columns] = member.fixed_dispersion
            continue
        assert isinstance(member, Dispersed)
        found = member.dispersion_from_moments(mean[columns], variance[columns])
        # A constant column has no information about its dispersion; it gets the dispersion of the others.
        varies = (found > 0) & (variance[columns] > _CONSTANT * mean[columns] ** 2)
        positive = found[varies]
        is_shape = member.dispersion_kind == "shape"
        # Rare columns give wild moment estimates of a shape, hence the median there.
        typical = float((np.median if is_shape else np.mean)(positive)) if positive.size else 1.0
        is_shared = is_shape or (len(groups) == 1 and not by_column)
        dispersion[columns] = typical if is_shared else np.where(varies, found, typical)
    return dispersion


def has_settled(family: Family, new: Floats, old: Floats, *, rtol: float) -> bool:
    """Whether no column's dispersion has changed by more than a fraction.

    Scales have units, so nothing but the fraction counts; shapes have none, and below the grid they are zero.
    """
    slack = rtol * np.abs(old)
    for member, columns in family.member_columns(len(old)):
        if member.dispersion_kind == "shape":
            slack[columns] += DISPERSION_GRID[0]
    return bool((np.abs(new - old) <= slack).all())


def noise_units(family: Family, dispersion: Floats) -> Floats:
    """Squared units of eta (n_features,): the noise variance of columns whose eta has units, else 1.

    Penalties on loadings are divided by them, so that a fit does not depend on the units of the columns.
    """
    units = np.ones(len(dispersion))
    for member, columns in family.member_columns(len(dispersion)):
        if member.has_units:
            units[columns] = dispersion[columns]
    return units


def estimate_dispersion(
    family: Family,
    coefficients: Coefficients,
    visit: Pass,
    local: Sequence[Any],
    start: Floats,
    weight: float,
    *,
    by_column: bool = False,
    n_components: int | None = None,
) -> Floats:
    """New dispersion (n_features,): the Pearson statistic of each family equals its degrees of freedom.

    No column is taken to be known more finely than it is recorded; see `Dispersed.finest_dispersion`.

    Parameters
    ----------
    family : Family
    coefficients : Coefficients
        With the dispersion the fit used.
    visit : Pass
    local : sequence
        Scores of the blocks.
    start : ndarray of shape (n_features,)
        Dispersion of the model without components: the estimate stays above a small fraction of it.
    weight : float
        Sum of the sample weights (the number of rows without weights).
    by_column : bool
        Each column has a scale of its own; otherwise the scales of a homogeneous table keep their ratios.
    n_components : int or None
        Number of components that take degrees of freedom, where a penalty has made the others vanish.
    """
    dispersion = coefficients.dispersion
    groups = [g for g in family.member_columns(len(dispersion)) if g[0].fixed_dispersion is None]
    if not groups:
        return dispersion.copy()
    fit = _Fit(family, coefficients, visit, local)
    k = coefficients.loadings.shape[1] if n_components is None else n_components
    found = _estimated(fit, groups, start, weight, k, by_column=by_column)
    return as_recorded(found, groups, visit.session.summary)


def as_recorded(dispersion: Floats, groups: list[tuple[Family, Ints]], summary: Summary) -> Floats:
    """Dispersions of groups of columns that are not finer than the columns are recorded, shape (n_features,)."""
    found = dispersion.copy()
    for member, columns in groups:
        assert isinstance(member, Dispersed)
        finest = member.finest_dispersion(summary.mean[columns], summary.resolution[columns])
        found[columns] = np.maximum(found[columns], finest)
    return found


def _estimated(
    fit: _Fit, groups: list[tuple[Family, Ints]], start: Floats, weight: float, k: int, *, by_column: bool
) -> Floats:
    """Estimates of the dispersions of some groups of columns from the residuals."""
    family, coefficients, visit, local = fit
    dispersion = coefficients.dispersion.copy()
    residual, count = visit.pearson(family, coefficients, local)
    is_single = len(family.member_columns(len(dispersion))) == 1
    if not is_single or by_column:
        found = _of_mixture(fit, groups, start, residual, count)
        for member, columns in groups:
            # Columns without common units have nothing to be pulled to.
            if member.dispersion_kind == "scale" and (is_single or not member.has_units):
                found[columns] = _shrunk(found[columns], count[columns])
        return found
    share = _free_share(coefficients, k, weight, float(count.sum()))
    if share < _SMALLEST_SHARE:
        return start.copy()
    for member, columns in groups:
        if member.dispersion_kind == "scale":
            telling = residual[columns] > _REPRODUCED * count[columns]
            wanted = max(share * float(count[columns][telling].sum()), np.finfo(float).tiny)
            scaled = dispersion[columns] * float(residual[columns].sum()) / wanted
            dispersion[columns] = np.maximum(scaled, SMALLEST_FRACTION * start[columns])
        else:
            wanted = share * float(count[columns].sum())
            dispersion[columns] = _solve_on_grid(fit.statistics(member, columns), wanted)
    return dispersion


def updated_family(
    family: Family, coefficients: Coefficients, visit: Pass, local: Sequence[Any] | None
) -> Family:
    """The family with better parameters of its columns at fitted predictors; the same object if they stand."""
    if not count_estimated(family, len(coefficients.dispersion)):
        return family

    def total(function: Callable[..., Floats]) -> Floats:
        def of_block(rows: BlockView, scores: Floats) -> Floats:
            eta = BlockEvaluator(family, coefficients, rows).predictor(scores, slice(0, rows.n_features))
            return function(rows.x, rows.entry_weights, eta, coefficients.dispersion)

        return visit.sum(of_block, local)

    return family.updated_from_fit(total)


class _Fit(NamedTuple):
    """A fit whose dispersion is estimated."""

    family: Family
    coefficients: Coefficients
    visit: Pass
    local: Sequence[Any]
    """Scores of the blocks."""

    def leverages(self) -> Floats:
        """Degrees of freedom that the scores take from each column: sum_i h w' Cov(z_i) w, shape (n_features,)."""
        family, coefficients, visit, local = self
        k = coefficients.loadings.shape[1]
        products = packed_products(coefficients.loadings)
        upper = np.triu_indices(k)
        # Each off-diagonal entry of a packed matrix occurs twice in the full matrix.
        double = np.where(upper[0] == upper[1], 1.0, 2.0)

        def function(rows: BlockView, scores: Floats) -> Floats:
            evaluator = BlockEvaluator(family, coefficients, rows)
            design = evaluator.design(scores)
            total = np.tile(pack_symmetric(np.eye(k)), (rows.n_rows, 1))
            for tile, found in evaluator.tiles(design, order=2):
                total += found.curvature @ products[tile]
            covariance = PackedCholesky(total, k).inverse()[:, upper[0], upper[1]]
            weighted = covariance * double * rows.weights[:, None]
            taken = np.empty(rows.n_features)
            for tile, found in evaluator.tiles(design, order=2):
                taken[tile] = np.einsum("ja,ja->j", found.curvature.T @ weighted, products[tile])
            return taken

        return visit.sum(function, local)

    def statistics(self, member: Family, columns: Ints) -> Floats:
        """Pearson statistic of the columns of one family for each dispersion of the grid."""
        family, coefficients, visit, local = self

        def function(rows: BlockView, scores: Floats) -> Floats:
            evaluator = BlockEvaluator(family, coefficients, rows)
            found = np.zeros(len(DISPERSION_GRID))
            for tile in rows.tiles():
                inside = columns[(columns >= tile.start) & (columns < tile.stop)]
                if inside.size:
                    part = member.take(np.searchsorted(columns, inside))
                    eta = evaluator.predictor(scores, tile)[:, inside - tile.start]
                    mu = part.mean(eta, coefficients.dispersion[inside])
                    found += _grid_statistics(part, rows, inside, mu)
            return found

        return visit.sum(function, local)


def _grid_statistics(member: Family, rows: BlockView, columns: Ints, mu: Floats) -> Floats:
    """Pearson statistic of some columns of a block with means ``mu`` for each dispersion of the grid."""
    # Means may underflow or overflow where the likelihood has no maximum; a residual of zero is zero.
    mu = np.minimum(mu, 0.5 * np.sqrt(np.finfo(mu.dtype).max))
    with np.errstate(over="ignore", divide="ignore"):
        squared = apply_entry_weights(rows, columns, (rows.x[:, columns] - mu) ** 2)
        found = np.empty(len(DISPERSION_GRID))
        for g, value in enumerate(DISPERSION_GRID):
            terms = np.zeros_like(squared)
            np.divide(squared, member.variance(mu, value), out=terms, where=squared > 0)
            found[g] = rows.weights @ terms.sum(axis=1, dtype=float)
    return found


def _of_mixture(
    fit: _Fit, groups: list[tuple[Family, Ints]], start: Floats, residual: Floats, count: Floats
) -> Floats:
    """The same where families differ: columns have their own units, and scores serve some more than others.

    A column's degrees of freedom are its entries less what scores and coefficients took from *it*. Scales are
    estimated column by column, and move to the expected squared residual, the scores' uncertainty included, instead
    of straight to the root: the same fixed point, but a score that copies a column does not pull the column's
    dispersion to zero.
    """
    coefficients = fit.coefficients
    dispersion, taken = coefficients.dispersion.copy(), fit.leverages()
    free = np.maximum(count - coefficients.joint.shape[1], _LARGEST_SHARE_TAKEN * count)
    for member, columns in groups:
        if member.dispersion_kind == "scale":
            scaled = dispersion[columns] * (residual + taken)[columns] / free[columns]
            # A column that is reproduced keeps what it has.
            is_reproduced = residual[columns] <= _REPRODUCED * free[columns]
            found = np.where(is_reproduced, dispersion[columns], scaled)
            dispersion[columns] = np.maximum(found, SMALLEST_FRACTION * start[columns])
        else:
            least = _SMALLEST_SHARE * float(count[columns].sum())
            wanted = max(float((free - taken)[columns].sum()), least)
            dispersion[columns] = _solve_on_grid(fit.statistics(member, columns), wanted)
    return dispersion


def _shrunk(dispersion: Floats, count: Floats) -> Floats:
    """Scales of columns drawn to their geometric mean, the more the fewer entries they rest on."""
    logs = np.log(dispersion)
    typical = float(np.average(logs, weights=count))
    return np.exp((count * logs + _SHRINKAGE * typical) / (count + _SHRINKAGE))


def column_scales(
    family: Family, coefficients: Coefficients, visit: Pass, local: Sequence[Any]
) -> tuple[Floats, Floats]:
    """Mean squared Pearson residual of each column per degree of freedom, and these degrees, shape (n_features,)."""
    residual, count = visit.pearson(family, coefficients, local)
    taken = _Fit(family, coefficients, visit, local).leverages()
    free = np.maximum(count - taken - coefficients.joint.shape[1], _SMALLEST_SHARE * np.maximum(count, 1.0))
    return residual / free, free


def _free_share(coefficients: Coefficients, k: int, weight: float, count: float) -> float:
    """Residual degrees of freedom per entry, with k components."""
    n_features = len(coefficients.loadings)
    used = k * (weight + n_features - k) + coefficients.fixed.size
    return float(1.0 - used / count)


def _solve_on_grid(statistics: Floats, wanted: float) -> float:
    """Where the decreasing statistic crosses the wanted value, linear in the logarithms; 0 if it starts below."""
    if statistics[0] <= wanted:
        return 0.0
    if statistics[-1] >= wanted:
        return float(DISPERSION_GRID[-1])
    logs = np.log(np.maximum(statistics, np.finfo(float).tiny))
    return float(np.exp(np.interp(-np.log(wanted), -logs, np.log(DISPERSION_GRID))))

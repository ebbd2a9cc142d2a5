"""Base class of the fitters of bilinear models, and their initialisation.

That is the model without components, then the leading directions of its residuals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from scipy import sparse

from anypca._typing import Floats, Ints
from anypca.engine import Summary
from anypca.families import Family, Poisson
from anypca.linalg import leading_directions
from anypca.models._bilinear.alternating import Gauge, Shared
from anypca.models._bilinear.evaluator import BlockEvaluator, Coefficients
from anypca.models._bilinear.passes import Pass
from anypca.models._bilinear.problem import BilinearProblem
from anypca.models._block_view import BlockView, fixed_features, observed_only
from anypca.models._context import FitContext
from anypca.models._covariates import prior_precision
from anypca.priors import Ridge, Scaled

# Products of the range finder; the sweeps of the fit correct the remaining error.
_PRODUCTS = 3
# Pearson residuals of rare events are huge and would dominate the leading directions. Clipping at three standard
# deviations hardly changes normal columns.
_CLIP = 3.0
# Largest share of nonzero entries for which sparse products are faster than dense ones.
_MOST_COUNTS = 0.25
# Share of the typical curvature added to each column's curvature, so that columns with little information cannot have
# huge loadings.
_SHRINKAGE = 0.1
# Columns with less than half a count have no finite intercept, or hardly.
_LEAST_TOTAL = 0.5
# Newton's method needs about ten steps; only columns whose intercept is infinite take more, and are left then.
_NULL_ITERATIONS = 100


def mean_coefficients(family: Family, summary: Summary, n_covariates: int, *, fit_intercept: bool) -> Floats:
    """Intercepts from the columns' means and zeros for covariates, shape (n_features, n_fixed).

    The intercepts are exact without offsets and covariates.
    """
    fixed = np.zeros((len(summary.mean), int(fit_intercept) + n_covariates))
    if fit_intercept:
        fixed[:, 0] = family.link(family.smoothed_mean(summary.mean * summary.weight, summary.weight))
    return fixed


def fixed_precision(family: Family, session: FitContext, *, fit_intercept: bool) -> Floats:
    """Prior precisions of intercepts (zero) and coefficients of covariates, shape (n_features, n_fixed).

    A predictor with units is measured in standard deviations of its column.
    """
    variance, n_covariates = session.summary.variance, session.data.n_covariates
    units = np.ones(len(variance))
    for member, columns in family.member_columns(len(variance)):
        if member.has_units:
            units[columns] = np.where(variance[columns] > 0, variance[columns], 1.0)
    intercept = np.zeros((len(variance), int(fit_intercept)))
    return np.hstack([intercept, prior_precision(session.coef_scale, n_covariates, units)])


def null_coefficients(family: Family, start: Coefficients, visit: Pass, *, tol: float) -> Coefficients:
    """Fit intercept and covariates alone, from ``start`` (without loadings)."""
    n_fixed = start.fixed.shape[1]
    if n_fixed == 0:
        return start
    problem = BilinearProblem(
        family,
        Ridge(np.zeros(0)),
        Scaled(
            Ridge(np.zeros(n_fixed)),
            ridge=fixed_precision(family, visit.session, fit_intercept=visit.fit_intercept),
        ),
        fit_intercept=visit.fit_intercept,
        eps=float(np.finfo(visit.session.data.dtype).eps),
    )
    loop = visit.session.loop(
        problem, max_iter=_NULL_ITERATIONS, tol=tol, accelerate=False, is_reported=False
    )
    return loop.run(Shared(start))[0].shared.coefficients


class Directions(NamedTuple):
    """Leading directions of the Pearson residuals."""

    loadings: Floats
    """On the scale of eta, shape (n_features, n_components)."""
    strength: float
    """The largest squared singular value over the entries' mean square, as unit noise would have it."""
    noise: Floats
    """Inverse information of an entry about its eta, shape (n_features,)."""


def residual_loadings(
    family: Family,
    null: Coefficients,
    visit: Pass,
    n_components: int,
    rng: np.random.Generator,
) -> Floats:
    """Loadings (n_features, n_components) from the residuals of the model without components."""
    return residual_directions(family, null, visit, n_components, rng).loadings


def residual_directions(
    family: Family,
    null: Coefficients,
    visit: Pass,
    n_components: int,
    rng: np.random.Generator,
    local: Sequence[Any] | None = None,
) -> Directions:
    """The leading right singular vectors of the Pearson residuals.

    The residuals come from the model without components, or from a model with the scores ``local``.

    Each pass multiplies by R'R without forming R. The mean curvature of a column converts residual units to the scale
    of eta; it is shrunk for columns with little information.
    """

    is_simple = isinstance(family, Poisson) and local is None and visit.session.data.n_covariates == 0

    def multiply(basis: Floats) -> Floats:
        if is_simple:
            return visit.sum(lambda rows, _: _count_product(null, rows, basis), family=family, dense=False)
        return visit.sum(lambda rows, scores: _residual_product(family, null, rows, scores, basis), local)

    vectors, values, rest = leading_directions(
        multiply, len(null.fixed), n_components, rng, n_products=_PRODUCTS
    )
    weight = float(rest[0, -1])
    squares, curvature = rest[:, 0] / weight, rest[:, 1] / weight
    size = np.sqrt(np.maximum(values, 0.0) / weight)
    noise = 1.0 / (curvature + _slack(family, curvature))
    loadings: Floats = vectors * size * (np.sqrt(curvature) * noise)[:, None]
    strength = float(values.max(initial=0.0)) / max(float(squares.mean()), np.finfo(float).tiny)
    return Directions(loadings, strength, noise)


def _slack(family: Family, curvature: Floats) -> Floats:
    """Increments of the columns' curvatures, (n_features,): shares of the typical one, or of their own with units."""
    is_free = np.ones(len(curvature), dtype=bool)
    for member, columns in family.member_columns(len(curvature)):
        is_free[columns] = not member.has_units
    typical = float(np.median(curvature[is_free])) if is_free.any() else 0.0
    return np.maximum(_SHRINKAGE * np.where(is_free, typical, curvature), np.finfo(float).tiny)


def _residual_product(
    family: Family, null: Coefficients, rows: BlockView, scores: Floats, basis: Floats
) -> Floats:
    """``R' (R basis)``, the columns' squares and summed curvature, the rows' weight: (n_features, width + 3)."""
    evaluator, basis = BlockEvaluator(family, null, rows), basis.astype(rows.dtype, copy=False)
    n_features, width = basis.shape
    design = evaluator.design(scores)
    image = np.zeros((rows.n_rows, width))
    residuals = []
    found = np.empty((n_features, width + 3))
    found[:, -1] = rows.weights.sum()
    for tile, terms in evaluator.tiles(design, order=2):
        scale = np.sqrt(np.where(terms.curvature > 0, terms.curvature, 1.0))
        residual = np.clip(terms.gradient / scale, -_CLIP, _CLIP)
        image += residual @ basis[tile]
        found[tile, -2] = rows.weights @ terms.curvature
        residuals.append((tile, residual))
    image = (image * rows.weights[:, None]).astype(rows.dtype, copy=False)
    for tile, residual in residuals:
        found[tile, :-3] = residual.T @ image
        found[tile, -3] = rows.weights @ (residual * residual)
    return found


def _count_product(null: Coefficients, rows: BlockView, basis: Floats) -> Floats:
    """The same for Poisson counts, whose expected values have rank one.

    Where they are so small that no zero is clipped, and few counts are not zero, residuals are sparse beyond those that
    zeros would have.
    """
    offset = np.zeros((rows.n_rows, 1), rows.dtype) if rows.offset is None else rows.offset
    if rows.observed is not None or rows.entry is not None or offset.shape[1] > 1:
        nothing = np.zeros((rows.n_rows, 0))
        return _residual_product(Poisson(), null, replace(rows, product=None), nothing, basis)
    by_row = np.exp(0.5 * offset[:, 0])
    by_column = np.exp(0.5 * null.fixed.sum(axis=1)).astype(rows.dtype, copy=False)
    basis, weighted = basis.astype(rows.dtype, copy=False), (rows.weights * by_row**2).sum()
    found = np.empty((len(basis), basis.shape[1] + 3))
    found[:, -2] = by_column**2 * weighted
    found[:, -1] = rows.weights.sum()
    counts = rows.product
    # A sparse copy of a dense block takes longer than its residuals.
    is_dense = isinstance(counts, np.ndarray)
    is_rare = not is_dense and counts.nnz <= _MOST_COUNTS * rows.n_rows * rows.n_features
    if not is_rare or by_row.max() * by_column.max() > _CLIP:
        _add_dense(found, counts if is_dense else counts.toarray(), rows, (by_row, by_column), basis)
        return found
    rest, squares = _beyond_zeros(sparse.csr_array(counts), rows.weights, by_row, by_column)
    rest = rest.astype(rows.dtype, copy=False)
    image = rest @ basis - np.outer(by_row, by_column @ basis)
    image *= rows.weights[:, None]
    found[:, :-3] = rest.T @ image - np.outer(by_column, by_row @ image)
    found[:, -3] = squares + found[:, -2]
    return found


def _add_dense(
    found: Floats, x: Floats, rows: BlockView, roots: tuple[Floats, Floats], basis: Floats
) -> None:
    """Compute all residuals and write their products and squares next to the curvatures."""
    image, residuals = np.zeros((rows.n_rows, basis.shape[1])), []
    for tile in rows.tiles():
        root = np.dot(roots[0][:, None], roots[1][None, tile])
        residual = x[:, tile] / root
        residual -= root
        np.clip(residual, -_CLIP, _CLIP, out=residual)
        image += residual @ basis[tile]
        residuals.append((tile, residual))
    image = (image * rows.weights[:, None]).astype(basis.dtype, copy=False)
    weights = rows.weights.astype(basis.dtype, copy=False)
    for tile, residual in residuals:
        found[tile, :-3] = residual.T @ image
        found[tile, -3] = weights @ (residual * residual)


def _beyond_zeros(
    counts: sparse.csr_array, weights: Floats, by_row: Floats, by_column: Floats
) -> tuple[sparse.csr_array, Floats]:
    """Residuals less those that zeros would have, and their squares likewise, summed over the rows."""
    row, column = np.repeat(np.arange(len(by_row)), np.diff(counts.indptr)), counts.indices
    root = by_row[row] * by_column[column]
    residual = np.clip(counts.data / root - root, -_CLIP, _CLIP)
    squares = np.bincount(column, weights[row] * (residual**2 - root**2), minlength=len(by_column))
    rest = sparse.csr_array((residual + root, counts.indices, counts.indptr), counts.shape)
    return rest, squares.astype(float, copy=False)


def _exposure(rows: BlockView, _: Floats) -> Floats:
    """Summed exposures of rows, NaN where they differ between columns."""
    is_wide = rows.offset is not None and rows.offset.shape[1] > 1
    if is_wide or rows.observed is not None or rows.entry is not None:
        return np.array([np.nan])
    return np.array([rows.weights.sum() if rows.offset is None else rows.weights @ np.exp(rows.offset[:, 0])])


def link_loadings(
    family: Family, null: Coefficients, visit: Pass, n_components: int, rng: np.random.Generator
) -> Floats:
    """Loadings (n_features, n_components) of an ordinary PCA, not centred, of the entries on the scale of eta."""

    def multiply(basis: Floats) -> Floats:
        return visit.sum(lambda rows, _: _link_product(family, rows, basis))

    vectors, values, weights = leading_directions(
        multiply, len(null.fixed), n_components, rng, n_products=_PRODUCTS
    )
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0) / weights[0]))


def _link_product(family: Family, rows: BlockView, basis: Floats) -> Floats:
    """``E' (E basis)`` with E the entries on the scale of eta, and the rows' weight, shape (n_features, width + 1)."""
    eta = family.link(family.smoothed_mean(rows.x, np.ones_like(rows.x)))
    if rows.offset is not None:
        eta = eta - rows.offset
    eta = observed_only(rows, slice(None), eta)
    image = eta.T @ ((eta @ basis) * rows.weights[:, None])
    return np.hstack([image, np.full((len(image), 1), rows.weights.sum())])


class BilinearSettings(Protocol):
    """Settings that every fitter reads."""

    @property
    def fit_intercept(self) -> bool: ...


Settings = TypeVar("Settings", bound=BilinearSettings)


@dataclass(frozen=True, eq=False)
class BilinearFitter(Generic[Settings]):
    """Base class of the fitters of bilinear models, for one table.

    Parameters
    ----------
    session : FitContext
    family : Family
    settings
        Settings of the model.
    """

    session: FitContext
    family: Family
    settings: Settings

    @cached_property
    def visit(self) -> Pass:
        """Passes over the table."""
        return Pass(self.session, self.settings.fit_intercept)

    @cached_property
    def fixed_precision(self) -> Floats:
        """Prior precisions of intercepts and coefficients of covariates, shape (n_features, n_fixed)."""
        return fixed_precision(self.family, self.session, fit_intercept=self.settings.fit_intercept)

    def open_columns(self) -> list[Ints]:
        """Columns whose family leaves the dispersion to be estimated, one group for each family."""
        groups = self.family.member_columns(self.session.data.n_features)
        return [columns for member, columns in groups if member.fixed_dispersion is None]

    def mean_fixed(self) -> Floats:
        """Where intercepts and covariates start, shape (n_features, n_fixed)."""
        session = self.session
        return mean_coefficients(
            self.family, session.summary, session.data.n_covariates, fit_intercept=self.settings.fit_intercept
        )

    def null(self, dispersion: Floats, fixed: Floats) -> Coefficients:
        """The model without components, from the start ``fixed``."""
        start = Coefficients(np.zeros((len(dispersion), 0)), fixed, dispersion)
        closed = self._closed_null()
        if closed is not None:
            return replace(start, fixed=closed)
        return null_coefficients(self.family, start, self.visit, tol=self.session.tol)

    @cached_property
    def _exposure(self) -> float | None:
        """Summed exposures of the rows of Poisson counts that have nothing but intercepts; ``None`` for others."""
        is_simple = isinstance(self.family, Poisson) and self.settings.fit_intercept
        if not is_simple or self.session.data.n_covariates or self._totals.min() < _LEAST_TOTAL:
            return None
        found = float(self.visit.sum(_exposure, family=self.family, dense=False)[0])
        return found if found > 0 else None

    @property
    def _totals(self) -> Floats:
        return self.session.summary.mean * self.session.summary.weight

    def _closed_null(self) -> Floats | None:
        """Intercepts (n_features, 1) of Poisson counts: their totals over the exposures, where these are of rows."""
        return None if self._exposure is None else np.log(self._totals / self._exposure)[:, None]

    @property
    def log_fixed_prior(self) -> float:
        """Log-density of the flat prior of intercepts, and of covariates without another: 1 in a unit of the predictor.

        Where the predictor has the units of its column, that is the standard deviation of the column; evidences would
        otherwise depend on units.
        """
        variance, log_density = self.session.summary.variance, 0.0
        for member, columns in self.family.member_columns(len(variance)):
            if member.has_units:
                varying = variance[columns][variance[columns] > 0]
                log_density -= 0.5 * float(np.log(varying).sum())
        is_flat = ~self.fixed_precision.any(axis=0)
        return log_density * int(is_flat.sum())

    def each(self, local: Sequence[Any] | None, change: Callable[[Any], Any]) -> Sequence[Any]:
        """Something made of the scores of each block, where the blocks are."""
        return self.session.map(lambda _, scores: change(scores), local)

    def moved(self, local: Sequence[Any] | None, gauge: Gauge) -> Sequence[Any]:
        """The scores of each block in other latent coordinates, where the blocks are."""
        fit_intercept = self.settings.fit_intercept
        return self.session.map(
            lambda block, scores: gauge.apply(scores, fixed_features(block, fit_intercept=fit_intercept)),
            local,
        )

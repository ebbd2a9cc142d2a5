"""Where a fit starts: independent fixed features, the model without components, directions of log residuals."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anypca._typing import Bools, Floats
from anypca.linalg import leading_directions
from anypca.models._bilinear.alternating import Shared
from anypca.models._bilinear.evaluator import BlockEvaluator, Coefficients
from anypca.models._bilinear.passes import Pass
from anypca.models._block_view import BlockView, apply_entry_weights, observed_only
from anypca.models.plnpca._problem import HALF, PLNProblem, Posterior, information_of

# Products of the range finder; the sweeps of the fit correct what four of them leave.
_PRODUCTS = 4
# Newton's method needs about ten steps; only columns whose intercept is infinite take more, and are left then.
_NULL_ITERATIONS = 100
# A feature depends on others when they leave less than this share of its centred sum of squares, a hundred-thousandth
# of its size ...
_DEPENDENT = 1e-10
# ... or centring leaves less than this share of its sum of squares, which is rounding: (1e-10)^2.
_CONSTANT = 1e-20
# Directions whose singular values are below this share of the largest carry rounding, as their squares are found.
_NULL_DIRECTION = 1e-7


def independent_features(visit: Pass) -> Bools:
    """Which fixed features do not depend linearly on those before them; warns of the others.

    Returns
    -------
    ndarray of bool of shape (n_fixed,)
        The intercept first when there is one, then the covariates.
    """
    first = int(visit.fit_intercept)
    n_fixed = first + visit.session.data.n_covariates
    if visit.session.data.n_covariates == 0:
        return np.ones(n_fixed, dtype=bool)
    centre = np.zeros(n_fixed)
    if first:
        # The intercept's feature is 1, so that its sum is the sum of the weights.
        sums = visit.sum(lambda rows, _: rows.weights @ rows.features)
        centre[1:] = sums[1:] / sums[0]

    def squares(rows: BlockView, _: Floats) -> Floats:
        features = rows.features.astype(float)
        centred = features - centre
        return np.vstack([(centred * rows.weights[:, None]).T @ centred, rows.weights @ features**2])

    found = visit.sum(squares)
    kept = _independent(found[:-1], found[-1])
    _warn_dependent(np.flatnonzero(~kept) - first, fit_intercept=bool(first))
    return kept


def _independent(gram: Floats, raw: Floats) -> Bools:
    """Features (n_fixed,) that those before them leave something of, from their Gram matrix."""
    kept = np.zeros(len(gram), dtype=bool)
    for j, own in enumerate(np.diag(gram)):
        if own <= _CONSTANT * raw[j]:
            continue
        cross = gram[kept, j]
        # Unit diagonals: features may have very different units.
        scale = np.sqrt(np.diag(gram)[kept])
        inner = gram[np.ix_(kept, kept)] / np.outer(scale, scale)
        explained = float((cross / scale) @ np.linalg.solve(inner, cross / scale)) if kept.any() else 0.0
        kept[j] = own - explained > _DEPENDENT * own
    return kept


def _warn_dependent(columns: Any, *, fit_intercept: bool) -> None:
    if len(columns) == 0:
        return
    which = ", ".join(str(int(column)) for column in columns)
    others = "the intercept and the columns before" if fit_intercept else "the columns before"
    remedy = "Drop them" + (", or use fit_intercept=False." if fit_intercept else ".")
    warnings.warn(
        f"covariates column(s) {which} are linear combinations of {others}: their coefficients are set to 0, which "
        f"does not change the fit. {remedy}",
        UserWarning,
        stacklevel=5,
    )


def null_coefficients(visit: Pass, problem: PLNProblem) -> Coefficients:
    """The Poisson regression on intercept and covariates alone."""
    data = visit.session.data
    fixed = np.zeros((data.n_features, len(problem.kept)))
    start = Coefficients(np.zeros((data.n_features, 0)), fixed, np.ones(data.n_features))
    if problem.kept.size == 0:
        return start
    if visit.fit_intercept:

        def totals(rows: BlockView, points: Floats) -> Floats:
            exposure = np.empty(rows.n_features)
            evaluator = problem.evaluator(start, rows)
            for tile in rows.tiles():
                exposure[tile] = rows.weights @ apply_entry_weights(rows, tile, evaluator.means(points, tile))
            return np.vstack([rows.weights @ apply_entry_weights(rows, slice(None), rows.x), exposure])

        count, exposure = visit.sum(totals)
        # Half a count instead of none: the log of a mean of zero is not a start.
        fixed[:, 0] = np.log(np.maximum(count, HALF)) - np.log(exposure)
    loop = visit.session.loop(problem, max_iter=_NULL_ITERATIONS, accelerate=False, is_reported=False)
    return loop.run(Shared(start))[0].shared.coefficients


@dataclass(frozen=True, eq=False)
class Residuals:
    """Residuals ``log(x + 1/2) - log(A + 1/2)`` of a fit, less what fixed features explain of them."""

    problem: PLNProblem
    coefficients: Coefficients
    change: Floats
    """Regression of the residuals on the fixed features, shape (n_features, n_fixed)."""

    @classmethod
    def of(
        cls, visit: Pass, problem: PLNProblem, coefficients: Coefficients, local: Sequence[Any] | None
    ) -> Residuals:
        """Regress the residuals of a fit on the features that are kept."""
        kept, change = problem.kept, np.zeros_like(coefficients.fixed)
        plain = cls(problem, coefficients, change)
        if not kept.any():
            return plain

        def function(rows: BlockView, points: Floats) -> Floats:
            weighted = rows.features[:, kept] * rows.weights[:, None]
            return np.hstack([weighted.T @ rows.features[:, kept], weighted.T @ plain.rows(rows, points)])

        found, d = visit.sum(function, local), int(kept.sum())
        change = change.copy()
        change[:, kept] = np.linalg.solve(found[:, :d], found[:, d:]).T
        return replace(plain, change=change)

    def rows(self, rows: BlockView, points: Floats) -> Floats:
        """Residuals of a block, 0 where entries are missing, shape (rows, n_features)."""
        evaluator = self.problem.evaluator(self.coefficients, rows)
        found = np.log(np.asarray(rows.x, dtype=float) + HALF)
        for tile in rows.tiles():
            found[:, tile] -= np.log(evaluator.means(points, tile) + HALF)
        found -= rows.features @ self.change.T
        return observed_only(rows, slice(None), found)


def add_components(
    visit: Pass, problem: PLNProblem, coefficients: Coefficients, local: Sequence[Any] | None, n_new: int
) -> tuple[Coefficients, Sequence[Any]]:
    """A fit with more components, along the leading singular vectors of its log residuals.

    Parameters
    ----------
    visit : Pass
    problem : PLNProblem
    coefficients : Coefficients
        Of the fit so far, possibly without components.
    local : sequence or None
        Its posteriors.
    n_new : int

    Returns
    -------
    coefficients : Coefficients
    local : sequence
        Posteriors: means from the residuals, variances from the rates.
    """
    residuals = Residuals.of(visit, problem, coefficients, local)
    directions, sizes = _leading(visit, residuals, local, n_new)
    usable = sizes > _NULL_DIRECTION * max(float(sizes.max()), np.finfo(float).tiny)
    inverse = np.where(usable, 1.0 / np.where(usable, sizes, 1.0), 0.0)
    new = replace(
        coefficients,
        loadings=np.hstack([coefficients.loadings, directions * sizes]),
        fixed=coefficients.fixed + residuals.change,
    )

    def extend(rows: BlockView, points: Floats) -> Floats:
        old = Posterior.of(points).mean
        mean = np.hstack([old, residuals.rows(rows, points) @ directions * inverse])
        # The rates at the means, as if these were known.
        information = information_of(BlockEvaluator(problem.family, new, rows), mean, new.loadings)
        return Posterior(mean, 1.0 / (1.0 + information)).points

    return new, visit.map(extend, local)


def _leading(
    visit: Pass, residuals: Residuals, local: Sequence[Any] | None, n_new: int
) -> tuple[Floats, Floats]:
    """Leading right singular vectors (n_features, n_new) of the residuals, and root mean squares along them."""

    def multiply(basis: Floats) -> Floats:
        def product(rows: BlockView, points: Floats) -> Floats:
            found = residuals.rows(rows, points)
            image = found.T @ ((found @ basis) * rows.weights[:, None])
            return np.hstack([image, np.full((len(image), 1), rows.weights.sum())])

        return visit.sum(product, local)

    session = visit.session
    vectors, values, weights = leading_directions(
        multiply, session.data.n_features, n_new, session.rng, n_products=_PRODUCTS
    )
    return vectors, np.sqrt(np.maximum(values, 0.0) / weights[0])

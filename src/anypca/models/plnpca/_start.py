"""Where a fit starts: independent fixed features, the model without components, directions of log residuals."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anypca._typing import Bools, Floats
from anypca.models._bilinear.kernel import Coefficients
from anypca.models.plnpca._kernel import CountRows, Kernel, State
from anypca.models.plnpca._passes import CountPass, information_of
from anypca.models.plnpca._problem import PLNProblem, Shared
from anypca.solvers import Loop

# Power iterations of the range finder, and extra directions: the sweeps correct what these leave.
_POWER_ITERATIONS = 4
_OVERSAMPLING = 6
# Added to counts and rates before logarithms: log(x + 1/2) is nearly unbiased for the logarithm of a rate.
HALF = 0.5
_NULL_ITERATIONS = 100
# A feature depends on others when they leave less than this share of its centred sum of squares ...
_DEPENDENT = 1e-10
# ... or centring leaves less than this share of its sum of squares, which is rounding.
_CONSTANT = 1e-20
# Directions whose singular values are below this share of the largest carry rounding.
_NULL_DIRECTION = 1e-7


def independent_features(visit: CountPass) -> Bools:
    """Which fixed features do not depend linearly on those before them; warns of the others.

    Returns
    -------
    ndarray of bool of shape (n_fixed,)
        The intercept first when there is one, then the covariates.
    """
    first = int(visit.fit_intercept)
    n_fixed = first + visit.data.n_covariates
    if visit.data.n_covariates == 0:
        return np.ones(n_fixed, dtype=bool)
    centre = np.zeros(n_fixed)
    if first:
        # The intercept's feature is 1, so that its sum is the sum of the weights.
        sums = visit.sum(lambda rows, _: rows.weights @ rows.features)
        centre[1:] = sums[1:] / sums[0]

    def squares(rows: CountRows, _: State) -> Floats:
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


def null_coefficients(visit: CountPass, problem: PLNProblem, *, tol: float) -> Coefficients:
    """The Poisson regression on intercept and covariates alone."""
    data = visit.data
    fixed = np.zeros((data.n_features, len(problem.kept)))
    start = Coefficients(np.zeros((data.n_features, 0)), fixed, np.ones(data.n_features))
    if problem.kept.size == 0:
        return start
    if visit.fit_intercept:

        def totals(rows: CountRows, state: State) -> Floats:
            exposure = np.empty(rows.n_features)
            kernel = Kernel(start, rows)
            for tile in rows.tiles():
                exposure[tile] = rows.weights @ kernel.rates(state, tile)
            return np.vstack([rows.weights @ rows.x, exposure])

        count, exposure = visit.sum(totals)
        # Half a count instead of none: the log of a mean of zero is not a start.
        fixed[:, 0] = np.log(np.maximum(count, HALF)) - np.log(exposure)
    loop = Loop(problem, data, visit.executor, max_iter=_NULL_ITERATIONS, tol=tol, accelerate=False)
    return loop.run(Shared(start))[0].shared.coefficients


@dataclass(frozen=True, eq=False)
class Residuals:
    """Residuals ``log(x + 1/2) - log(A + 1/2)`` of a fit, less what fixed features explain of them."""

    coefficients: Coefficients
    change: Floats
    """Regression of the residuals on the fixed features, shape (n_features, n_fixed)."""

    @classmethod
    def of(
        cls, visit: CountPass, coefficients: Coefficients, local: Sequence[Any] | None, kept: Bools
    ) -> Residuals:
        """Regress the residuals of a fit on the kept features."""
        n_features, n_fixed = coefficients.fixed.shape
        plain = cls(coefficients, np.zeros((n_features, n_fixed)))
        if not kept.any():
            return plain

        def function(rows: CountRows, state: State) -> Floats:
            weighted = rows.features[:, kept] * rows.weights[:, None]
            return np.hstack([weighted.T @ rows.features[:, kept], weighted.T @ plain.rows(rows, state)])

        found = visit.sum(function, local)
        d = int(kept.sum())
        change = np.zeros((n_features, n_fixed))
        change[:, kept] = np.linalg.solve(found[:, :d], found[:, d:]).T
        return cls(coefficients, change)

    def rows(self, rows: CountRows, state: State) -> Floats:
        """Residuals of a block, 0 where entries are missing, shape (rows, n_features)."""
        kernel = Kernel(self.coefficients, rows)
        found = np.log(np.asarray(rows.x, dtype=float) + HALF)
        for tile in rows.tiles():
            found[:, tile] -= np.log(kernel.rates(state, tile) + HALF)
        found -= rows.features @ self.change.T
        if rows.observed is not None:
            found[~rows.observed] = 0.0
        return found


def add_components(
    visit: CountPass,
    coefficients: Coefficients,
    local: Sequence[Any] | None,
    kept: Bools,
    n_new: int,
    rng: np.random.Generator,
) -> tuple[Coefficients, Sequence[Any]]:
    """A fit with more components, along the leading singular vectors of its log residuals.

    Parameters
    ----------
    visit : CountPass
    coefficients : Coefficients
        Of the fit so far, possibly without components.
    local : sequence or None
        Its posteriors.
    kept : ndarray of bool of shape (n_fixed,)
        Independent fixed features.
    n_new : int
    rng : numpy.random.Generator

    Returns
    -------
    coefficients : Coefficients
    local : sequence
        Posteriors: means from the residuals, variances from the rates.
    """
    residuals = Residuals.of(visit, coefficients, local, kept)
    directions, sizes = _leading(visit, residuals, local, n_new, rng)
    usable = sizes > _NULL_DIRECTION * max(float(sizes.max()), np.finfo(float).tiny)
    inverse = np.where(usable, 1.0 / np.where(usable, sizes, 1.0), 0.0)
    new = replace(
        coefficients,
        loadings=np.hstack([coefficients.loadings, directions * sizes]),
        fixed=coefficients.fixed + residuals.change,
    )

    def extend(rows: CountRows, state: State) -> State:
        mean = np.hstack([state.mean, residuals.rows(rows, state) @ directions * inverse])
        certain = State(mean, np.zeros_like(mean))
        return State(mean, 1.0 / (1.0 + information_of(Kernel(new, rows), certain, new.loadings)))

    return new, visit.map(extend, local)


def _leading(
    visit: CountPass,
    residuals: Residuals,
    local: Sequence[Any] | None,
    n_new: int,
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Leading right singular vectors (n_features, n_new) of the residuals, and root mean squares along them."""
    n_features = visit.data.n_features
    width = min(n_new + _OVERSAMPLING, n_features)
    basis = np.linalg.qr(rng.standard_normal((n_features, width)))[0]
    values, weight = np.ones(width), 1.0

    def product(rows: CountRows, state: State) -> Floats:
        found = residuals.rows(rows, state)
        image = found.T @ ((found @ basis) * rows.weights[:, None])
        return np.vstack([image, np.full((1, width), rows.weights.sum())])

    for _ in range(_POWER_ITERATIONS):
        total = visit.sum(product, local)
        image, weight = total[:-1], total[-1, 0]
        values, rotation = np.linalg.eigh(basis.T @ image)
        # Ritz vectors, largest first; the next basis is the image in that order.
        basis = np.linalg.qr(image @ rotation[:, ::-1])[0]
        values = values[::-1]
    return basis[:, :n_new], np.sqrt(np.maximum(values[:n_new], 0.0) / weight)

"""Generalised PCA: from a table to a reported fit; the bound may be chosen by cross-validation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

from anypca._typing import Bools, Floats, Ints
from anypca.families import Family
from anypca.linalg import fix_signs
from anypca.models._bilinear.passes import Deviances
from anypca.models._context import FitContext
from anypca.models._cross_validation import HeldOut, cross_validate, hash_folds
from anypca.models._warm import cold_clone
from anypca.models.gpca._penalised import PenalisedProblem, start_penalised
from anypca.models.gpca._problem import Iterate, ProjectionProblem
from anypca.models.gpca._projection import Subspace, Sums, project
from anypca.models.gpca._reader import Reader, SaturatedRows
from anypca.models.gpca._start import Start, find_start
from anypca.priors import Prior, Scaled
from anypca.solvers import Result

# The fit without a penalty is only the start of the penalised fit.
_START_TOLERANCE = 1e-3
# Loadings have unit length, so that smaller ones are rounding.
_DUST = 1e-15


@dataclass(frozen=True, eq=False)
class Settings:
    """Settings of a fit; see `anypca.GPCA`."""

    n_components: int
    prior: Prior | None
    alpha: float
    fit_intercept: bool

    @property
    def is_rotated(self) -> bool:
        """Whether components may be rotated to be reported."""
        return self.prior is None or self.prior.is_isotropic


@dataclass(frozen=True, eq=False)
class GPCAFit:
    """A fit in reporting coordinates."""

    subspace: Subspace
    reader: Reader
    score_squares: Floats
    """Sums of squares of the training scores about their means (about 0 without main effects), shape (k,)."""
    weight: float
    """Sum of the sample weights."""
    entries: float
    """Weighted number of observed entries."""
    deviances: Deviances
    result: Result[Any]


def fit_gpca(context: FitContext, family: Family, settings: Settings, bound: float) -> GPCAFit:
    """Fit with a given bound and report."""
    reader = Reader(family, bound)
    start = find_start(
        context, reader, n_components=settings.n_components, fit_intercept=settings.fit_intercept
    )
    result, stats = _solve(context, reader, settings, start)
    canonical, squares = _canonical(result.shared, stats, settings)
    found = np.vstack([start.null, _deviances(context, reader, canonical)])
    deviances, order = Deviances(found).ordered()
    subspace = _arrange(canonical, order)
    return GPCAFit(subspace, reader, squares[order], stats.weight, stats.entries, deviances, result)


def _solve(context: FitContext, reader: Reader, settings: Settings, start: Start) -> tuple[Result[Any], Sums]:
    """Iterate from a start; a penalised fit starts from a rough one without penalty."""
    # Without units a typical entry has a deviance of about 1.
    total = float(start.null.sum())
    unit = total / start.weight if reader.family.has_units and total > 0 else 1.0
    plain = ProjectionProblem(reader, _free(start, settings), start.saturated, unit)
    first = Iterate(start.subspace.loadings, start.subspace.intercept, start.subspace.typical)
    if settings.prior is None:
        found, _, stats = context.loop(plain).run(first)
        return found, stats
    rough = context.loop(plain, tol=max(context.tol, _START_TOLERANCE), is_reported=False).run(first)[0]
    prior = _in_units(settings.prior, 0.5 * settings.alpha * total, context.data.n_features)
    problem = PenalisedProblem(reader, plain.free, plain.saturated, unit, prior)
    result, _, stats = context.loop(problem).run(start_penalised(rough.shared, prior))
    return result, stats


def _in_units(prior: Prior, strength: float, n_features: int) -> Prior:
    """Scale a penalty to loadings in units of 1 / sqrt(n_features), the loading of a component with equal columns.

    The penalty is divided by the same unit, so that the strength does not depend on it.
    """
    unit = 1.0 / np.sqrt(n_features)
    return Scaled(prior, strength * unit, unit)


def _free(start: Start, settings: Settings) -> Bools:
    """Estimated parameters: none for a constant column, which its main effect fits exactly."""
    free = np.ones((len(start.varies), settings.n_components + 1), dtype=bool)
    if settings.fit_intercept:
        return free & start.varies[:, None]
    free[:, -1] = False
    return free


def _canonical(at: Subspace, stats: Sums, settings: Settings) -> tuple[Subspace, Floats]:
    """Main effects at the centre of the scores, axes along their principal directions; their squares.

    The predictor depends only on the part of the main effects outside the span of the loadings; the other part is
    free. Sparse loadings are not changed.
    """
    mean = stats.score_sum / stats.weight * float(settings.fit_intercept)
    gram = stats.score_gram - stats.weight * np.outer(mean, mean)
    effects = at.intercept + at.loadings @ mean
    if not settings.is_rotated:
        return Subspace(at.loadings, effects, at.typical), np.diag(gram).copy()
    values, rotation = scipy.linalg.eigh(gram)
    turned = Subspace(at.loadings @ rotation[:, ::-1], effects, at.typical)
    return turned, np.maximum(values[::-1], 0.0)


def _deviances(context: FitContext, reader: Reader, at: Subspace) -> Floats:
    """Deviance of the columns under the model, then without each component, shape (k + 1, n_features)."""
    k = at.loadings.shape[1]
    models = [at, *(replace(at, loadings=np.delete(at.loadings, a, axis=1)) for a in range(k))]

    def deviance(rows: SaturatedRows, model: Subspace) -> Floats:
        eta = project(rows, model).scores @ model.loadings.T + model.intercept
        terms = reader.family.deviance(rows.x, rows.only_observed(eta))
        return np.asarray(rows.weight @ rows.weigh(terms))

    return reader.sum(context, lambda rows: np.array([deviance(rows, model) for model in models]))


def _arrange(at: Subspace, order: Ints) -> Subspace:
    """Components in another order, the largest entry of each positive."""
    loadings = at.loadings[:, order]
    # A row of zeros, of a column with one value, stays one but for rounding.
    loadings = np.where(np.abs(loadings) > _DUST, loadings, 0.0)
    # Adding 0 turns -0 into 0.
    return replace(at, loadings=loadings * fix_signs(loadings.T) + 0.0)


#: Bounds to compare. Beyond 10 the odds and means of the bounded parameters are practically 0 or infinite.
BOUNDS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0)
# As usual in cross-validation; fits of four fifths of the entries are nearly fits of all.
_N_FOLDS = 5
# Deviances of held-out entries differ by far more than what a better solved fit would change.
_TOLERANCE = 1e-2
_MOST_ITERATIONS = 50


def compare_bounds(model: Any, context: FitContext, family: Family) -> dict[float, float]:
    """Deviance per held-out entry for each bound, by cross-validation over entries; empty if too few to hide any."""
    parts = context.gather(lambda block: (block.values().astype(float), block.weights, block.entry_weight()))
    x, weight = (np.concatenate([part[i] for part in parts]) for i in range(2))
    if context.data.has_entry_weights:
        x[np.concatenate([part[2] for part in parts]) == 0] = np.nan
    limits = {"max_iter": min(context.max_iter, _MOST_ITERATIONS), "tol": max(context.tol, _TOLERANCE)}
    given = {"family": family, "resolution": None, "verbose": 0, **limits}
    candidates = [cold_clone(model).set_params(bound=bound, **given) for bound in BOUNDS]
    splits = hash_folds(x, _N_FOLDS, weight)
    found = cross_validate(candidates, x, splits, score=_held_out_deviance, sample_weight=weight)
    totals = np.sum(found, axis=0)
    return {
        bound: float(total / count) for bound, (total, count) in zip(BOUNDS, totals, strict=True) if count
    }


def _held_out_deviance(model: Any, held_out: HeldOut) -> Floats:
    """Weighted deviance and number of hidden entries under a fit without them, shape (2,)."""
    (rows, columns), weight = held_out.entries, held_out.weight
    scores = model.transform(held_out.table)[rows]
    eta = model.intercept_[columns] + (scores * model.components_.T[columns]).sum(axis=1)
    deviance = model.family_.deviance(held_out.values[:, None], eta[:, None])[:, 0]
    return np.array([weight @ deviance, weight.sum()])

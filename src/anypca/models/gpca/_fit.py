"""Generalised PCA: from a session to a reported fit; the bound may be chosen by entries that the fit has not seen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg

from anypca._typing import Bools, Floats, Ints
from anypca.families import Family
from anypca.linalg import fix_signs
from anypca.models._bilinear.passes import Deviances
from anypca.models._context import FitContext
from anypca.models._cross_validation import hash_folds
from anypca.models.gpca._penalised import PenalisedProblem, start_penalised
from anypca.models.gpca._problem import Iterate, ProjectionProblem, SubspaceProblem
from anypca.models.gpca._projection import Subspace, Sums, project
from anypca.models.gpca._reader import Hidden, HoldOut, Reader, SaturatedRows
from anypca.models.gpca._start import Facts, facts_of, null_deviance, start
from anypca.priors import Prior, Scaled
from anypca.solvers import Result

# The fit without a penalty is only where the penalised one starts.
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
class Solution:
    """Where the iterations ended."""

    result: Result[Any]
    stats: Sums
    null_deviance: Floats
    """(n_features,)."""


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


def fit_gpca(session: FitContext, family: Family, settings: Settings, bound: float) -> GPCAFit:
    """Fit with a given bound and report."""
    reader = Reader(family, bound)
    solution = solve(session, reader, settings)
    canonical, squares = _canonical(solution, settings)
    found = np.vstack([solution.null_deviance, _deviances(session, reader, canonical)])
    deviances, order = Deviances(found).ordered()
    return GPCAFit(
        _arrange(canonical, order),
        reader,
        squares[order],
        solution.stats.weight,
        solution.stats.entries,
        deviances,
        solution.result,
    )


def solve(
    session: FitContext,
    reader: Reader,
    settings: Settings,
    *,
    tol: float | None = None,
    is_reported: bool = True,
) -> Solution:
    """Start and iterate; ``reader`` says what is read, with which bound."""
    tol = session.tol if tol is None else tol
    if not is_reported:
        session = replace(session, max_iter=min(session.max_iter, _MOST_ITERATIONS))
    fit_intercept = settings.fit_intercept
    facts = reader.sum(session, partial(facts_of, reader.family))
    null = null_deviance(session, reader, facts, fit_intercept=fit_intercept)
    # Without units a typical entry has a deviance of about 1.
    total = float(null.sum())
    unit = total / float(facts.weight.sum()) if reader.family.has_units and total > 0 else 1.0
    dense = ProjectionProblem(reader, _free(facts, settings), float(facts.saturated.sum()), unit)
    begin = start(session, reader, facts, n_components=settings.n_components, fit_intercept=fit_intercept)
    first = Iterate(begin.loadings, begin.intercept, begin.typical)
    if settings.prior is None:
        return Solution(*_run(session, dense, first, tol, is_reported), null)
    found = _run(session, dense, first, max(tol, _START_TOLERANCE), False)[0].shared
    prior = _in_units(settings.prior, 0.5 * settings.alpha * total, session.data.n_features)
    problem = PenalisedProblem(dense.reader, dense.free, dense.saturated, dense.unit, prior)
    return Solution(*_run(session, problem, start_penalised(found, prior), tol, is_reported), null)


def _run(
    session: FitContext, problem: SubspaceProblem[Any], first: Subspace, tol: float, is_reported: bool
) -> tuple[Result[Any], Sums]:
    result, _, stats = session.loop(problem, tol=tol, is_reported=is_reported).run(first)
    return result, stats


def _in_units(prior: Prior, strength: float, n_features: int) -> Prior:
    """A penalty of loadings in units of those of a component in which all columns have equal parts.

    It is divided by these units again, so that absolute values are what they are.
    """
    unit = 1.0 / np.sqrt(n_features)
    return Scaled(prior, strength * unit, unit)


def _free(facts: Facts, settings: Settings) -> Bools:
    """What is estimated: nothing of a column with one value, which its main effect fits as well as can be."""
    free = np.ones((len(facts.varies), settings.n_components + 1), dtype=bool)
    if settings.fit_intercept:
        return free & facts.varies[:, None]
    free[:, -1] = False
    return free


def _canonical(solution: Solution, settings: Settings) -> tuple[Subspace, Floats]:
    """Main effects at the centre of the scores, axes along their principal directions; their squares.

    The predictor depends on the main effects only through what the loadings do not span; the rest is free to
    be chosen. Sparse loadings are left as they are.
    """
    at, stats = solution.result.shared, solution.stats
    mean = stats.score_sum / stats.weight * float(settings.fit_intercept)
    gram = stats.score_gram - stats.weight * np.outer(mean, mean)
    effects = at.intercept + at.loadings @ mean
    if not settings.is_rotated:
        return Subspace(at.loadings, effects, at.typical), np.diag(gram).copy()
    values, rotation = scipy.linalg.eigh(gram)
    turned = Subspace(at.loadings @ rotation[:, ::-1], effects, at.typical)
    return turned, np.maximum(values[::-1], 0.0)


def _deviances(session: FitContext, reader: Reader, at: Subspace) -> Floats:
    """Deviance of the columns under the model, then without each component, shape (k + 1, n_features)."""
    k = at.loadings.shape[1]
    models = [at, *(replace(at, loadings=np.delete(at.loadings, a, axis=1)) for a in range(k))]

    def deviance(rows: SaturatedRows, model: Subspace) -> Floats:
        eta = project(rows, model).scores @ model.loadings.T + model.intercept
        terms = reader.family.deviance(rows.x, rows.only_observed(eta))
        return np.asarray(rows.weight @ rows.weigh(terms))

    return reader.sum(session, lambda rows: np.array([deviance(rows, model) for model in models]))


def _arrange(at: Subspace, order: Ints) -> Subspace:
    """Components in another order, the largest entry of each positive."""
    loadings = at.loadings[:, order]
    # A row of zeros, of a column with one value, stays one but for rounding.
    loadings = np.where(np.abs(loadings) > _DUST, loadings, 0.0)
    # Adding 0 turns -0 into 0.
    return replace(at, loadings=loadings * fix_signs(loadings.T) + 0.0)


#: Bounds that are compared. Beyond 10 the odds and means of the bounded parameters are 0 or infinite for any purpose.
BOUNDS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0)
#: Those that are compared by default, and the one of tables that are too large, or too small, for that.
DOUBLED_BOUNDS = (1.0, 2.0, 4.0, 8.0)
USUAL_BOUND = 4.0
# Entries beyond which fits to compare would take as long as others' fits.
_MOST_ENTRIES = 1_000_000
# As usual in cross-validation; fits of four fifths of the entries are nearly those of all.
_N_FOLDS = 5
# Deviances of held-out entries differ by far more than what a better solved fit would change.
_TOLERANCE = 1e-2
_MOST_ITERATIONS = 50


def compare_bounds(session: FitContext, family: Family, settings: Settings) -> dict[float, float]:
    """Deviance per held-out entry for each bound, by cross-validation over entries.

    Returns
    -------
    dict
        From bound to mean deviance; every observed entry is held out once, the same ones for all bounds.
    """
    seed = int(session.rng.integers(2**31))
    folds = [HoldOut(fold, _N_FOLDS, seed) for fold in range(_N_FOLDS)]
    totals = {
        bound: np.sum([_held_out(session, Reader(family, bound, fold), settings) for fold in folds], axis=0)
        for bound in BOUNDS
    }
    return {bound: float(total[0] / total[1]) for bound, total in totals.items()}


def choose_bound(session: FitContext, family: Family, settings: Settings) -> dict[float, float]:
    """Deviance per hidden entry for bounds that double as long as it falls; a third of the entries is hidden once.

    Which ones hangs neither on the order of rows and columns nor on weights in place of repeated rows. Nothing is
    compared in large tables.

    Returns
    -------
    dict
        From bound to mean deviance.
    """
    deviances: dict[float, float] = {}
    if session.data.n_samples * session.data.n_features > _MOST_ENTRIES:
        return deviances
    parts = session.gather(lambda block: (block.values().astype(float), block.weights))
    x, weight = (np.concatenate(part) for part in zip(*parts, strict=True))
    mask = np.zeros(x.shape, dtype=bool)
    mask[hash_folds(x, 3, weight)[0]] = True
    hidden = Hidden(mask)
    for bound in DOUBLED_BOUNDS:
        total, count = _held_out(session, Reader(family, bound, hidden), settings)
        if count == 0:  # too few entries to hide any
            break
        least = min(deviances.values(), default=np.inf)
        deviances[bound] = float(total / count)
        if deviances[bound] >= least:
            break
    return deviances


def _held_out(session: FitContext, reader: Reader, settings: Settings) -> Floats:
    """Deviance and number of the entries of a fold, weighted, under a fit without them, shape (2,)."""
    found = solve(session, reader, settings, tol=max(session.tol, _TOLERANCE), is_reported=False)
    return reader.sum(session, lambda rows: _judge(reader.family, rows, found.result.shared))


def _judge(family: Family, rows: SaturatedRows, at: Subspace) -> Floats:
    assert rows.held is not None
    eta = at.intercept + project(rows, at).scores @ at.loadings.T
    terms = np.where(rows.held, family.deviance(rows.x, np.where(rows.held, eta, 0.0)), 0.0)
    entry = np.where(rows.held, 1.0 if rows.entry is None else rows.entry, 0.0)
    return np.array([rows.weight @ (entry * terms).sum(axis=1), rows.weight @ entry.sum(axis=1)])

"""Generalised PCA: from a checked table to a reported fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

from anypca._typing import Bools, Floats, Ints
from anypca.engine import Data, Executor
from anypca.families import Family
from anypca.linalg import fix_signs
from anypca.models._bilinear.passes import Deviances
from anypca.models.gpca._penalty import Penalty
from anypca.models.gpca._problem import Iterate, ProjectionProblem, Setting
from anypca.models.gpca._rows import Reader, Rows, Subspace, Sums, project
from anypca.models.gpca._sparse import SparseProblem, start_sparse
from anypca.models.gpca._start import Facts, find_facts, null_deviance, start, sum_rows
from anypca.solvers import Callback, Loop, Result

# The dense fit is only where the sparse one starts.
_START_TOLERANCE = 1e-3
_DUST = 1e-15


@dataclass(frozen=True, eq=False)
class Options:
    """Settings of a fit; see `anypca.GPCA`."""

    n_components: int
    penalty: Penalty | None
    alpha: float
    fit_intercept: bool
    max_iter: int
    tol: float


@dataclass(frozen=True, eq=False)
class Solution:
    """Where the iterations ended."""

    result: Result[Subspace]
    stats: Sums
    null_deviance: float


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
    result: Result[Subspace]


@dataclass(frozen=True, eq=False)
class Fitter:
    """Fits one table.

    Parameters
    ----------
    data, executor
        The checked table.
    family : Family
    options : Options
    """

    data: Data
    executor: Executor
    family: Family
    options: Options

    def fit(self, bound: float, rng: np.random.Generator, callback: Callback | None = None) -> GPCAFit:
        """Fit with a given bound and report."""
        reader = Reader(self.family, bound)
        solution = self.solve(reader, rng, tol=self.options.tol, callback=callback)
        canonical, squares = self._canonical(solution)
        found = self._deviances(reader, canonical)
        order = np.argsort(-found[1:], kind="stable")
        return GPCAFit(
            _arrange(canonical, order),
            reader,
            squares[order],
            solution.stats.weight,
            solution.stats.entries,
            Deviances(solution.null_deviance, float(found[0]), found[1:][order]),
            solution.result,
        )

    def solve(
        self, reader: Reader, rng: np.random.Generator, *, tol: float, callback: Callback | None = None
    ) -> Solution:
        """Start and iterate; ``reader`` says what is read, with which bound."""
        options = self.options
        facts = find_facts(self.data, self.executor, reader)
        intercept = options.fit_intercept
        null = null_deviance(self.data, self.executor, reader, facts, fit_intercept=intercept)
        # Without units a typical entry has a deviance of about 1.
        unit = null / float(facts.weight.sum()) if self.family.has_units and null > 0 else 1.0
        setting = Setting(reader, self._free(facts), float(facts.saturated.sum()), unit)
        begin = start(
            self.data,
            self.executor,
            reader,
            facts,
            n_components=options.n_components,
            fit_intercept=intercept,
            rng=rng,
        )
        dense = ProjectionProblem(setting)
        first = Iterate(begin.loadings, begin.intercept, begin.typical)
        if options.penalty is None:
            return Solution(*self._run(dense, first, tol, callback), null)
        found = self._run(dense, first, max(tol, _START_TOLERANCE), None)[0].shared
        sparse = SparseProblem(setting, options.penalty, 0.5 * options.alpha * null)
        return Solution(*self._run(sparse, start_sparse(found, options.penalty), tol, callback), null)

    def _free(self, facts: Facts) -> Bools:
        """What is estimated: nothing of a column with one value, which its main effect fits as well as can be."""
        shape = (self.data.n_features, self.options.n_components + 1)
        free = np.ones(shape, dtype=bool)
        if self.options.fit_intercept:
            return free & facts.varies[:, None]
        free[:, -1] = False
        return free

    def _run(
        self, problem: Any, first: Subspace, tol: float, callback: Callback | None
    ) -> tuple[Result[Subspace], Sums]:
        max_iter = self.options.max_iter
        loop: Loop[Subspace, None, Sums] = Loop(
            problem, self.data, self.executor, max_iter=max_iter, tol=tol, callback=callback
        )
        result, _, stats = loop.run(first)
        return result, stats

    def _canonical(self, solution: Solution) -> tuple[Subspace, Floats]:
        """Main effects at the centre of the scores, axes along their principal directions; their squares.

        The predictor depends on the main effects only through what the loadings do not span; the rest is free to
        be chosen. Sparse loadings are left as they are.
        """
        at, stats = solution.result.shared, solution.stats
        mean = (
            stats.score_sum / stats.weight if self.options.fit_intercept else np.zeros(at.loadings.shape[1])
        )
        gram = stats.score_gram - stats.weight * np.outer(mean, mean)
        effects = at.intercept + at.loadings @ mean
        if self.options.penalty is not None:
            return Subspace(at.loadings, effects, at.typical), np.diag(gram).copy()
        values, rotation = scipy.linalg.eigh(gram)
        turned = Subspace(at.loadings @ rotation[:, ::-1], effects, at.typical)
        return turned, np.maximum(values[::-1], 0.0)

    def _deviances(self, reader: Reader, at: Subspace) -> Floats:
        """Deviance of the model, then of the model without each component, shape (k + 1,)."""
        family = self.family

        k = at.loadings.shape[1]
        models = [at, *(replace(at, loadings=np.delete(at.loadings, a, axis=1)) for a in range(k))]

        def deviance(rows: Rows, model: Subspace) -> float:
            eta = project(rows, model).scores @ model.loadings.T + model.intercept
            terms = family.deviance(rows.x, rows.only_observed(eta))
            return float(rows.weight @ rows.only_observed(terms).sum(axis=1))

        def function(rows: Rows) -> Floats:
            return np.array([deviance(rows, model) for model in models])

        return sum_rows(self.data, self.executor, reader, function)


def _arrange(at: Subspace, order: Ints) -> Subspace:
    """Components in another order, the largest entry of each positive."""
    loadings = at.loadings[:, order]
    # A row of zeros, of a column with one value, stays one but for rounding.
    loadings = np.where(np.abs(loadings) > _DUST, loadings, 0.0)
    return replace(at, loadings=loadings * fix_signs(loadings.T))

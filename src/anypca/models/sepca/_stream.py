"""Simple exponential-family PCA from a stream of blocks, at the dimension that the first one had."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import Block
from anypca.families import Family
from anypca.linalg import PackedCholesky, unpack_symmetric
from anypca.models._bilinear.evaluator import Coefficients
from anypca.models._opened import open_block
from anypca.models._stream import BlockSums, Stream, StreamRule, design_change, held_back
from anypca.models.sepca._columns import column_precision
from anypca.models.sepca._posterior import Loadings, VariationalStats, snapped
from anypca.models.sepca._problem import VariationalProblem
from anypca.models.sepca._scores import Moments


@dataclass(frozen=True, eq=False)
class PosteriorRule(StreamRule[Loadings]):
    """Columns get the posterior that as many rows as there were ask for, if all are like the average."""

    problem: VariationalProblem

    @property
    def family(self) -> Family:
        return self.problem.family

    def solve(self, block: Block, shared: Loadings) -> BlockSums:
        problem = self.problem
        rows = open_block(block, fit_intercept=problem.fit_intercept, family=problem.family)
        moments = Moments.of(problem.solve_rows(rows, shared)[0], rows.features)
        sums = problem.expectation(shared, rows).column_sums(moments)
        k, m = shared.n_components, moments.design.shape[1]
        return BlockSums(
            sums.information,
            sums.target,
            unpack_symmetric((rows.weights @ moments.second)[None], m)[0],
            np.zeros(k),
            0.0,
            rows.count(),
            float(rows.weights.sum()),
        )

    def improve(self, shared: Loadings, averages: BlockSums, weight: float) -> tuple[Loadings, Floats | None]:
        problem, k = self.problem, shared.n_components
        precision = column_precision(shared, weight * averages.curvature)
        mean = PackedCholesky(precision, shared.mean.shape[1]).solve(weight * averages.target)
        step = held_back(mean - shared.mean, averages, fit_intercept=problem.fit_intercept)
        found = problem.settled(
            shared.with_posterior(shared.mean + step, precision), self._stats(averages, weight)
        )
        if found.change is None:
            return found, None
        shift = np.zeros((len(averages.moments) - k, k))
        shift[:1] = found.change.shift
        return problem.at_rest(found), design_change(shift, found.change.matrix.T)

    def _stats(self, averages: BlockSums, weight: float) -> VariationalStats:
        """Sums over as many rows as there were; other sums of a sweep are none of a stream."""
        k, moments, nothing = len(averages.spread), weight * averages.moments, np.zeros(0)
        total = moments[:k, k] if len(moments) > k else np.zeros(k)
        n_entries = weight * averages.n_entries
        return VariationalStats(
            nothing, nothing, 0.0, nothing, nothing, 0.0, weight, n_entries, total, moments[:k, :k]
        )


class Told(NamedTuple):
    """What is told of a stream; columns and components in the order of the fit."""

    coefficients: Coefficients
    loading_std: Floats
    """(n_features, k)."""
    shares: Floats
    """Of the deviance, shape (k,)."""
    order: Ints
    """By decreasing share, shape (k,)."""


def told_of(stream: Stream[Loadings], total: float, *, fit_intercept: bool) -> Told:
    """Means and deviations of the loadings, zeros where the price of non-zeros has left nothing, and their shares."""
    loadings = stream.shared
    found = replace(loadings.coefficients, loadings=snapped(loadings))
    is_zero = (found.loadings == 0) & (loadings.sparsity > 0)
    unit = np.ones(loadings.n_components)
    shares = stream.averages.shares(found.loadings, unit, total, fit_intercept=fit_intercept)
    order = np.argsort(-shares, kind="stable")
    return Told(found, np.where(is_zero, 0.0, loadings.deviations), shares, order)

"""Fits from a stream of blocks, at the dimension that the first one had."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import Block
from anypca.families import Family
from anypca.linalg import unpack_symmetric
from anypca.models._bilinear.evaluator import Coefficients
from anypca.models._block_view import open_block
from anypca.models._stream import BlockSums, Stream, StreamRule, design_change, held_back
from anypca.models.sepca._posterior import Loadings, Moments
from anypca.models.sepca._sweep import SweepSums, VariationalProblem, column_precision


@dataclass(frozen=True, eq=False)
class PosteriorRule(StreamRule[Loadings]):
    """Columns get the posterior for as many rows as there were, if all are like the average."""

    problem: VariationalProblem

    @property
    def family(self) -> Family:
        return self.problem.family

    def solve(self, block: Block, shared: Loadings) -> BlockSums:
        problem = self.problem
        rows = open_block(block, fit_intercept=problem.fit_intercept, family=problem.family)
        moments = Moments.of(problem.solve_rows(rows, shared)[0], rows.features)
        sums = problem.expectation(shared, rows).column_sums(moments)
        m = moments.design.shape[1]
        return BlockSums(
            sums.information,
            sums.target,
            unpack_symmetric((rows.weights @ moments.second)[None], m)[0],
            np.zeros(shared.n_components),
            0.0,
            rows.count(),
            float(rows.weights.sum()),
        )

    def improve(self, shared: Loadings, averages: BlockSums, weight: float) -> tuple[Loadings, Floats | None]:
        problem, k = self.problem, shared.n_components
        precision = column_precision(shared, weight * averages.curvature)
        best = shared.solved(precision, weight * averages.target)
        step = held_back(best.mean - shared.mean, averages, fit_intercept=problem.fit_intercept)
        best = replace(best, mean=shared.mean + step)
        found = problem.in_best_coordinates(best, self._sums(averages, weight))
        if found.change is None:
            return found, None
        shift = np.zeros((len(averages.moments) - k, k))
        shift[:1] = found.change.shift
        return problem.without_gauge(found), design_change(shift, found.change.matrix.T)

    def _sums(self, averages: BlockSums, weight: float) -> SweepSums:
        """Sums over as many rows as there were, as far as the latent coordinates need them."""
        k, moments, nothing = len(averages.spread), weight * averages.moments, np.zeros(0)
        total = moments[:k, k] if len(moments) > k else np.zeros(k)
        n_entries = weight * averages.n_entries
        return SweepSums(
            nothing, nothing, 0.0, nothing, nothing, 0.0, weight, n_entries, total, moments[:k, :k]
        )


class StreamReport(NamedTuple):
    """Results of a stream; columns and components in the order of the fit."""

    coefficients: Coefficients
    loading_std: Floats
    """(n_features, k)."""
    shares: Floats
    """Of the deviance, shape (k,)."""
    order: Ints
    """By decreasing share, shape (k,)."""


def report_stream(stream: Stream[Loadings], total: float, *, fit_intercept: bool) -> StreamReport:
    """Means and deviations of the loadings, and their shares of a ``total`` share of the deviance."""
    loadings = stream.shared
    found = replace(loadings.coefficients, loadings=loadings.snapped)
    is_zero = (found.loadings == 0) & (loadings.sparsity > 0)
    unit = np.ones(loadings.n_components)
    shares = stream.averages.shares(found.loadings, unit, total, fit_intercept=fit_intercept)
    order = np.argsort(-shares, kind="stable")
    return StreamReport(found, np.where(is_zero, 0.0, loadings.deviations), shares, order)

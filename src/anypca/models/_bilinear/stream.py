"""Bilinear models from a stream of blocks: rows to their optima, columns by Newton steps on averages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block
from anypca.families import Family
from anypca.models._bilinear.alternating import AlternatingNewton, Shared, SweepSums
from anypca.models._block_view import BlockView
from anypca.models._stream import BlockSums, StreamRule, design_change, held_back


@dataclass(frozen=True, eq=False)
class BilinearRule(StreamRule[Shared]):
    """Streams of a problem of alternating Newton steps."""

    #: Whether the rows of sparse blocks are needed entry by entry.
    is_dense: ClassVar[bool] = False
    problem: AlternatingNewton[Any]
    """In the coordinates of the stream."""

    @property
    def family(self) -> Family:
        return self.problem.family

    def solve(self, block: Block, shared: Shared) -> BlockSums:
        problem, coefficients = self.problem, shared.coefficients
        rows = problem.open(block, dense=self.is_dense)
        evaluator = problem.evaluator(coefficients, rows)
        points = problem.solve_rows(evaluator, problem.first_points(evaluator)).points
        k, sums = coefficients.loadings.shape[1], evaluator.column_sums(points)
        design = np.hstack([points[:, :k], rows.features])
        found = BlockSums(
            sums.curvature,
            sums.gradient,
            (design * rows.weights[:, None]).T @ design,
            self.spread(rows, points, k),
            0.0,
            rows.count(),
            float(rows.weights.sum()),
        )
        return replace(found, target=found.times(coefficients.joint) + sums.gradient)

    def spread(self, rows: BlockView, points: Floats, k: int) -> Floats:
        """Weighted sum of posterior variances of the scores, shape (k,); modes have none."""
        return np.zeros(k)

    def improve(self, shared: Shared, averages: BlockSums, weight: float) -> tuple[Shared, Floats | None]:
        problem, old = self.problem, shared.coefficients
        gradient = averages.target - averages.times(old.joint)
        sums = self.sweep_sums(averages, gradient, weight)
        step = problem.loading_prior.newton(old.joint, *problem.column_slopes(sums)).step
        joint = old.joint + held_back(step, averages, fit_intercept=problem.fit_intercept)
        found = problem.regauge(old.with_joint(joint), sums)
        gauge = found.gauge
        return Shared(found.coefficients), None if gauge is None else design_change(gauge.shift, gauge.matrix)

    def sweep_sums(self, averages: BlockSums, gradient: Floats, weight: float) -> SweepSums:
        """Sums over as many rows as there were; other sums of a sweep are none of a stream."""
        k, moments, nothing = len(averages.spread), weight * averages.moments, np.zeros(0)
        return SweepSums(
            entry_columns=nothing,
            exit_columns=nothing,
            linear=nothing,
            offset_value=0.0,
            score_penalty=0.0,
            gradient=weight * gradient,
            curvature=weight * averages.curvature,
            row_decrement=0.0,
            weight=weight,
            n_entries=weight * averages.n_entries,
            score_sum=moments[:k, k] if len(moments) > k else np.zeros(k),
            score_gram=moments[:k, :k],
        )

"""Bilinear models from a stream of blocks: decayed averages take the place of sums over the table.

A block's rows are solved under the present coefficients k_j of the columns. Its curvature A and its ``B = A k + g``,
with the gradient g, are those of a quadratic function of k_j, whatever k_j is later. Averages per row of both, in which
older blocks count less, give the next coefficients: a Newton step of ``n`` such rows under the prior. After each block
the latent coordinates are chosen anew, as between sweeps; the averages are carried along.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block, Statistics
from anypca.linalg import pack_symmetric, unpack_symmetric
from anypca.models._bilinear.alternating import Gauge, Shared, SweepSums
from anypca.models._bilinear.evaluator import Coefficients
from anypca.models._bilinear.problem import BilinearProblem
from anypca.models._opened import open_block

# Largest root mean square change of a column's predictor in one step, where the quadratic function is still close:
# for counts a factor of e.
_FARTHEST = 1.0


@dataclass(frozen=True, eq=False)
class BlockSums(Statistics):
    """What the solved rows of some blocks add up to."""

    curvature: Floats
    """A, of the log-likelihood in the coefficients, packed, shape (n_features, m (m + 1) / 2)."""
    target: Floats
    """``B = A k + g``, shape (n_features, m)."""
    moments: Floats
    """``D' D`` of scores and fixed features, shape (m, m)."""
    weight: float

    def __mul__(self, factor: float) -> BlockSums:
        return BlockSums(
            factor * self.curvature, factor * self.target, factor * self.moments, factor * self.weight
        )


@dataclass(frozen=True, eq=False)
class Stream:
    """Where a stream has led."""

    coefficients: Coefficients
    averages: BlockSums
    """Of a row; its weight is 1."""
    n_blocks: int
    weight: float
    """Of all rows so far."""

    @property
    def moments(self) -> SweepSums:
        """Sums of scores over as many rows as there were; other sums of a sweep are none of a stream."""
        k, nothing = self.coefficients.loadings.shape[1], np.zeros(0)
        moments = self.weight * self.averages.moments
        total = moments[:k, k] if len(moments) > k else np.zeros(k)
        return SweepSums(
            nothing,
            nothing,
            nothing,
            0.0,
            0.0,
            nothing,
            nothing,
            0.0,
            self.weight,
            self.weight,
            total,
            moments[:k, :k],
        )


def solve_block(problem: BilinearProblem, coefficients: Coefficients, block: Block) -> BlockSums:
    """The sums of a block whose rows are at their optima."""
    rows = open_block(block, fit_intercept=problem.fit_intercept, family=problem.family)
    evaluator = problem.evaluator(coefficients, rows)
    points = problem.solve_rows(evaluator, evaluator.origin).points
    sums = evaluator.column_sums(points)
    design = np.hstack([points, rows.features])
    joint = coefficients.joint
    target = _times(sums.curvature, joint) + sums.gradient
    moments = (design * rows.weights[:, None]).T @ design
    return BlockSums(sums.curvature, target, moments, float(rows.weights.sum()))


def begin(coefficients: Coefficients, sums: BlockSums) -> Stream:
    """A stream whose first blocks the coefficients were fitted to."""
    return Stream(coefficients, sums * (1.0 / sums.weight), 1, sums.weight)


def advance(problem: BilinearProblem, stream: Stream, sums: BlockSums) -> Stream:
    """The stream after some more rows, solved under its coefficients."""
    number = stream.n_blocks + 1
    # Weights that grow linearly with the number of the block: early ones, found far from the optimum, are forgotten.
    rate = 2.0 / (number + 1.0)
    averages = stream.averages * (1.0 - rate) + sums * (rate / sums.weight)
    moved = replace(stream, averages=averages, n_blocks=number, weight=stream.weight + sums.weight)
    stepped = replace(moved, coefficients=_step(problem, moved))
    shared = problem.regauge(stepped.coefficients, stepped.moments)
    return stepped if shared.gauge is None else _regauged(stepped, shared, shared.gauge)


def _step(problem: BilinearProblem, stream: Stream) -> Coefficients:
    """A Newton step of all columns, none farther than the quadratic function is to be trusted."""
    old, averages, n = stream.coefficients, stream.averages, stream.weight
    gradient = averages.target - _times(averages.curvature, old.joint)
    step = problem.loading_prior.newton(old.joint, n * gradient, n * averages.curvature).step
    if problem.fit_intercept:
        matrix, k = unpack_symmetric(averages.curvature, step.shape[1]), old.loadings.shape[1]
        # The curvature of the intercept is the mean curvature of the entries.
        change = np.einsum("ja,jab,jb->j", step, matrix, step) / np.maximum(
            matrix[:, k, k], np.finfo(float).tiny
        )
        step = step * np.minimum(1.0, _FARTHEST / np.sqrt(np.maximum(change, np.finfo(float).tiny)))[:, None]
    return old.with_joint(old.joint + step)


def _regauged(stream: Stream, shared: Shared, gauge: Gauge) -> Stream:
    """The stream in other latent coordinates: the design becomes ``D T``."""
    k, m = gauge.matrix.shape[0], stream.averages.moments.shape[0]
    change = np.eye(m)
    change[:k, :k] = gauge.matrix
    change[k:, :k] = -gauge.shift @ gauge.matrix
    old = stream.averages
    averages = BlockSums(
        pack_symmetric(change.T @ unpack_symmetric(old.curvature, m) @ change),
        old.target @ change,
        change.T @ old.moments @ change,
        old.weight,
    )
    return replace(stream, coefficients=shared.coefficients, averages=averages)


def _times(curvature: Floats, joint: Floats) -> Floats:
    """Packed matrices times vectors, one of each for a column, shape (n_features, m)."""
    found: Any = unpack_symmetric(curvature, joint.shape[1]) @ joint[:, :, None]
    return np.asarray(found[:, :, 0])

"""Alternating maximisation of the variational bound of piecewise Poisson PCA."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block, Statistics
from anypca.linalg import PackedCholesky, pack_symmetric, packed_diagonal
from anypca.models._opened import open_block
from anypca.models.piecewise._bound import Counts, Rates, find_rates, read_counts, slab_moments
from anypca.models.piecewise._pieces import Coefficients, Pieces, Transfer, expand
from anypca.models.piecewise._poisson_rows import Scores, climb_rows, newton_step, start_scores
from anypca.solvers import BlockProblem, Coordinates, Update

# Steps of the rows in each sweep, which start where the last sweep left them.
_STEPS_PER_SWEEP = 4
# Curvature of directions that carry no information, in rates: keeps the step finite.
_RIDGE = 1e-6


@dataclass(frozen=True)
class CountStats(Statistics):
    """Sums of a block at some pieces and at its rows' posteriors; u is the latent point followed by a 1."""

    bound: float
    weight: float
    n_entries: float
    gain: float
    """Squared scaled gradients of the rows, summed."""
    occupancy: Floats
    """Weighted sum of the probabilities of the pieces (K,)."""
    slope: Floats
    """``sum_i E[(y_ij - exp(theta_ij)) u_i 1_k]`` (K, n_features, q + 1)."""
    curvature: Floats
    """``sum_i E[exp(theta_ij) u_i u_i' 1_k]`` (K, n_features, q + 1, q + 1)."""


@dataclass(frozen=True)
class PoissonProblem(BlockProblem[Coefficients, Scores, CountStats]):
    """Rows by damped Newton steps, columns by the exact Newton step of a concave function.

    Parameters
    ----------
    transfer : callable
        The coupling of the pieces.
    n_components : int
        q.
    """

    transfer: Transfer
    n_components: int

    def step(self, block: Block, shared: Coefficients, local: Scores | None) -> tuple[Scores, CountStats]:
        """Improve the posteriors of a block's rows, and sum."""
        # A trial of the maps may overflow; its bound is then not finite, and the loop refuses it.
        with np.errstate(over="ignore", invalid="ignore"):
            return self._step(block, shared, local)

    def _step(self, block: Block, shared: Coefficients, local: Scores | None) -> tuple[Scores, CountStats]:
        counts = read_counts(open_block(block))
        pieces = expand(shared, self.transfer, self.n_components)
        start = start_scores(counts, pieces) if local is None else local
        scores, at = climb_rows(counts, pieces, start, max_steps=_STEPS_PER_SWEEP, tol=1e-9)
        weight = np.ones(block.n_rows) if block.weight is None else block.weight.astype(np.float64)
        slope, curvature, occupancy = collect_columns(counts, pieces, scores, weight)
        entries = (
            np.full(len(weight), float(counts.y.shape[1])) if counts.mask is None else counts.mask.sum(axis=1)
        )
        return scores, CountStats(
            bound=float(weight @ at.value),
            weight=float(weight.sum()),
            n_entries=float(weight @ entries),
            gain=float(weight @ newton_step(at)[2]),
            occupancy=occupancy,
            slope=slope,
            curvature=curvature,
        )

    def objective(self, shared: Coefficients, stats: CountStats) -> float:
        """The bound."""
        return stats.bound

    def resolution(self, shared: Coefficients, stats: CountStats) -> float:
        """Rounding level of the bound."""
        return float(np.finfo(np.float64).eps * (10.0 * abs(stats.bound) + stats.n_entries))

    def update(self, shared: Coefficients, stats: CountStats) -> Update[Coefficients]:
        """One Newton step for all columns."""
        slope, packed = self.derivatives(shared, stats)
        change = PackedCholesky(packed, slope.shape[1]).solve(slope)
        gain = max(float(np.vdot(change, slope)), 0.0) + stats.gain
        # Far below its optimum a column's rates are flat, and its step would be too long by any factor.
        change *= np.minimum(1.0, 2.0 / np.maximum(np.abs(change).max(axis=1, keepdims=True), 2.0))
        proposal = Coefficients(shared.matrix + change, shared.noise, shared.breakpoints)
        return Update(proposal, float(np.sqrt(gain / stats.n_entries)))

    def derivatives(self, shared: Coefficients, stats: CountStats) -> tuple[Floats, Floats]:
        """Gradient with respect to D (n_features, m), and minus the second derivatives, packed."""
        T = self.transfer(self.n_components, shared.breakpoints)
        slope = np.einsum("kpa,kma->pm", stats.slope, T)
        full = np.einsum("kma,kpab,knb->pmn", T, stats.curvature, T, optimize=True)
        packed = np.array([pack_symmetric(matrix) for matrix in full])
        packed[:, packed_diagonal(T.shape[1])] += _RIDGE
        return slope, packed

    def repair(
        self, shared: Coefficients, proposal: Coefficients, before: CountStats, after: CountStats
    ) -> Coefficients | None:
        """Half the step when the bound got worse."""
        if after.bound >= before.bound - self.resolution(shared, before):
            return None
        return Coefficients(0.5 * (shared.matrix + proposal.matrix), shared.noise, shared.breakpoints)

    def coordinates(self, shared: Coefficients, stats: CountStats) -> Coordinates:
        """D as a vector, with its curvature as metric."""
        packed = self.derivatives(shared, stats)[1]
        diagonal = packed[:, packed_diagonal(shared.matrix.shape[1])]
        return Coordinates(shared.matrix.ravel(), np.sqrt(np.maximum(diagonal, _RIDGE)).ravel())

    def with_coordinates(self, vector: Floats, like: Coefficients) -> Coefficients:
        """The inverse of `coordinates`."""
        return Coefficients(vector.reshape(like.matrix.shape), like.noise, like.breakpoints)


def collect_columns(
    counts: Counts, pieces: Pieces, scores: Scores, weight: Floats
) -> tuple[Floats, Floats, Floats]:
    """Slopes (K, n_features, q + 1), curvatures (K, n_features, q + 1, q + 1) and occupancies (K,) of the pieces."""
    edges = pieces.edges
    slopes, curvatures, occupancy = [], [], []
    m, s = scores.m, scores.s
    for k, matrix in enumerate(pieces.maps):
        low, high = float(edges[k]), float(edges[k + 1])
        slab = slab_moments(m[:, -1], s[:, -1], low, high)
        expected = np.column_stack([m[:, :-1] * slab.zeroth[:, None], slab.first, slab.zeroth])
        rates = find_rates(counts, matrix, low, high, m, s)
        moments, curvature = rate_moments(rates, matrix, scores, weight)
        slopes.append(counts.y.T @ (expected * weight[:, None]) - moments)
        curvatures.append(curvature)
        occupancy.append(weight @ slab.zeroth)
    return np.array(slopes), np.array(curvatures), np.array(occupancy)


def rate_moments(rates: Rates, matrix: Floats, scores: Scores, weight: Floats) -> tuple[Floats, Floats]:
    """Sums over rows of ``E[exp(theta) u 1_k]`` (n_features, q + 1) and ``E[exp(theta) u u' 1_k]`` (., q + 1, q + 1).

    Under the tilted measure the coordinates are independent, those before the last with mean ``m + b s^2``.
    """
    B = matrix[:, :-1]
    p, q = B.shape
    H, first, second = (part * weight[:, None] for part in (rates.value, rates.first, rates.second))
    m, v = scores.m[:, :-1], scores.s[:, :-1] ** 2
    outer = np.empty((p, q + 1, q + 1))
    for a in range(q - 1):
        for b in range(a, q - 1):
            products = np.column_stack(
                [m[:, a] * m[:, b], m[:, a] * v[:, b], v[:, a] * m[:, b], v[:, a] * v[:, b]]
            )
            factors = np.column_stack([np.ones(p), B[:, b], B[:, a], B[:, a] * B[:, b]])
            outer[:, a, b] = ((H.T @ products) * factors).sum(axis=1)
            if a == b:
                outer[:, a, a] += H.T @ v[:, a]
            outer[:, b, a] = outer[:, a, b]
    for weights, column in ((first, q - 1), (H, q)):
        part = weights.T @ m + B[:, :-1] * (weights.T @ v)
        outer[:, : q - 1, column] = outer[:, column, : q - 1] = part
    outer[:, q - 1, q - 1] = second.sum(axis=0)
    outer[:, q - 1, q] = outer[:, q, q - 1] = first.sum(axis=0)
    outer[:, q, q] = H.sum(axis=0)
    return outer[:, :, q], outer

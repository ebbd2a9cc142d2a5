"""Likelihoods of coupled pieces over row blocks: the exact one of real numbers, and the bound for all else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import Block
from anypca.families import Family
from anypca.linalg import PackedCholesky, pack_symmetric, unpack_symmetric
from anypca.models._gaussian.posterior import Patterns, find_patterns
from anypca.models._opened import OpenedBlock, open_block
from anypca.models.piecewise._bound import (
    Entries,
    Nodes,
    Scores,
    climb_rows,
    read_entries,
    start_scores,
    sum_columns,
)
from anypca.models.piecewise._gaussian_posterior import GaussianSums, find_mixture, sum_posteriors
from anypca.models.piecewise._pieces import (
    Coefficients,
    Pieces,
    PieceSums,
    Transfer,
    expand,
    hinge_slopes,
    with_covariates,
)
from anypca.solvers import BlockProblem, Update

# The chart of L-BFGS approaches the noise floor from above and never reaches it: this near counts as being there.
_AT_FLOOR = 1.01
# Newton steps of the rows at each point of the maps; a few are usual from where they were at the last point.
_MOST_ROW_STEPS = 40
# Step in the logarithm of a dispersion for central differences: their error is of its square.
_DIFFERENCE = 1e-3
# Share of a column's largest curvature below which a direction carries no information.
_RIDGE = 1e-6


@dataclass(frozen=True)
class PieceProblem(ABC):
    """A function of the coefficients that `anypca.models.piecewise._ascent.climb` maximises.

    Parameters
    ----------
    transfer : callable
        The coupling of the pieces, one of `anypca.models.piecewise._pieces.COUPLINGS`.
    n_components : int
        q.
    """

    transfer: Transfer
    n_components: int

    @abstractmethod
    def solved(self, block: Block, shared: Coefficients, local: Any, row_tol: float) -> tuple[Any, Any]:
        """The state of a block's rows at some coefficients, to a scaled gradient, and their `PieceSums`."""

    def value(self, shared: Coefficients, stats: Any) -> float:
        """The objective from sums at ``shared``."""
        return float(stats.log_likelihood)

    @abstractmethod
    def gradient(self, shared: Coefficients, stats: Any) -> Gradient:
        """Derivatives of the objective from sums at ``shared``."""

    @abstractmethod
    def metric(self, shared: Coefficients, stats: Any) -> Floats:
        """Complete-data curvature in D, for all columns or for each (1 or n_features, M, M)."""

    @abstractmethod
    def scales(self, shared: Coefficients) -> tuple[Floats, Floats]:
        """Estimated noise variances or dispersions, and their lower limits, (n_scales,) each."""

    @abstractmethod
    def with_scales(self, shared: Coefficients, scales: Floats) -> Coefficients:
        """The inverse of `scales`."""

    def refresh(self, block: Block, shared: Coefficients, local: Any) -> Any:
        """The state of a block's rows where they may have found a better optimum."""
        return local

    def pieces(self, shared: Coefficients) -> Pieces:
        """The pieces that coefficients stand for."""
        return expand(shared, self.transfer, self.n_components)

    def transfers(self, shared: Coefficients) -> Floats:
        """T_k, from all coefficients to those of covariates and the maps (K, M, .)."""
        T = self.transfer(self.n_components, shared.breakpoints)
        return with_covariates(T, shared.matrix.shape[1])


@dataclass(frozen=True)
class Gradient:
    """Gradient of the log-likelihood (Fisher's identity), or of the bound at the best posteriors."""

    matrix: Floats
    """With respect to D (n_features, M)."""
    log_scales: Floats
    """(n_scales,)"""
    breakpoints: Floats
    """(K - 1,)"""


@dataclass(frozen=True)
class GaussianProblem(PieceProblem, BlockProblem[Coefficients, Patterns, GaussianSums]):
    r"""EM on the exact likelihood of piecewise PCA, entries missing at random.

    Parameters
    ----------
    noise_floor : float
        Smallest noise variance: the likelihood of data that lie on the pieces grows without bound as it vanishes.

    Notes
    -----
    With S_k and F_k the expected second moments and cross-products of piece k, every coupling is a linear map
    ``[B_k, mu_k] = D T_k``, and the M-step is ``D = (sum F_k T_k') (sum T_k S_k T_k')^-1``, column by column where
    entries are missing. It is computed as an increment, which loses no digits when the noise is small.
    """

    noise_floor: float

    def step(
        self, block: Block, shared: Coefficients, local: Patterns | None
    ) -> tuple[Patterns, GaussianSums]:
        """Expected sums of a block's rows; ``local`` only remembers which rows miss the same entries."""
        table = block.read()
        patterns = find_patterns(table.observed, block.n_rows) if local is None else local
        pieces = self.pieces(shared)
        mixture = find_mixture(table, pieces, patterns)
        weight = block.weights
        observed = np.ones(table.x.shape, dtype=bool) if table.observed is None else table.observed
        mask = patterns.one_each(observed).astype(np.float64) if block.may_miss else None
        return patterns, sum_posteriors(mixture, pieces, weight, mask)

    def solved(
        self, block: Block, shared: Coefficients, local: Patterns | None, row_tol: float
    ) -> tuple[Patterns, GaussianSums]:
        return self.step(block, shared, local)

    def objective(self, shared: Coefficients, stats: GaussianSums) -> float:
        """Log-likelihood of the observed entries."""
        return self.value(shared, stats)

    def scales(self, shared: Coefficients) -> tuple[Floats, Floats]:
        return np.array([shared.noise]), np.array([self.noise_floor])

    def with_scales(self, shared: Coefficients, scales: Floats) -> Coefficients:
        return replace(shared, noise=float(scales[0]))

    def metric(self, shared: Coefficients, stats: GaussianSums) -> Floats:
        full = unpack_symmetric(self.curvature(shared, stats), shared.matrix.shape[1])
        return np.asarray(full.mean(axis=0)[None] / shared.noise)

    def resolution(self, shared: Coefficients, stats: GaussianSums) -> float:
        """Rounding level of the objective: residuals carry the rounding of the larger entries."""
        size = float(np.vdot(shared.matrix, shared.matrix)) / len(shared.matrix) + shared.noise
        entries = stats.n_entries * (1.0 + np.sqrt(size / shared.noise))
        return float(np.finfo(np.float64).eps * (abs(stats.log_likelihood) + entries))

    def update(self, shared: Coefficients, stats: GaussianSums) -> Update[Coefficients]:
        """The M-step at fixed breakpoints."""
        slope = np.einsum("kpa,kma->pm", self._map_slopes(shared, stats), self.transfers(shared))
        factor = PackedCholesky(self.curvature(shared, stats), slope.shape[1])
        change = factor.solve(slope) if len(factor.log_determinant()) > 1 else _solve_all(factor, slope)
        gain = float(np.vdot(change, slope))
        noise = max((stats.squares - gain) / stats.n_entries, self.noise_floor)
        proposal = Coefficients(shared.matrix + change, noise, shared.breakpoints)
        excess = stats.squares / (shared.noise * stats.n_entries) - 1.0
        if shared.noise <= _AT_FLOOR * self.noise_floor:
            excess = max(excess, 0.0)  # at the bound only an increase is feasible
        criterion = np.sqrt(max(gain, 0.0) / (shared.noise * stats.n_entries) + 0.5 * excess**2)
        return Update(proposal, float(criterion))

    def gradient(self, shared: Coefficients, stats: GaussianSums) -> Gradient:
        """Derivatives of the exact log-likelihood.

        Parameters
        ----------
        shared : Coefficients
        stats : GaussianSums
            Summed at ``shared``.

        Returns
        -------
        Gradient
        """
        slopes = self._map_slopes(shared, stats) / shared.noise
        matrix = np.einsum("kpa,kma->pm", slopes, self.transfers(shared))
        log_noise = 0.5 * (stats.squares / shared.noise - stats.n_entries)
        # A hinge moves the maps as well as the borders of the slabs.
        moving = hinge_slopes(self.n_components, len(slopes), self.transfer)
        through_maps = np.einsum("kpa,pm,jkma->j", slopes, shared.matrix, moving, optimize=True)
        return Gradient(matrix, np.array([log_noise]), stats.edge + through_maps)

    def curvature(self, shared: Coefficients, stats: GaussianSums) -> Floats:
        """``sum_k T_k S_k T_k'``, packed (c, .)."""
        q = self.n_components
        parts = zip(self.transfers(shared), stats.curvature, strict=True)
        full = sum(t @ unpack_symmetric(s, q + 1) @ t.T for t, s in parts)
        return np.array([pack_symmetric(matrix) for matrix in np.asarray(full)])

    def _map_slopes(self, shared: Coefficients, stats: GaussianSums) -> Floats:
        """``sum_i r_ik E_k[(y_ij - mu_kj - b_kj' w_i) u_i]`` (K, n_features, q + 1)."""
        q = self.n_components
        slopes = stats.cross.copy()
        for k, matrix in enumerate(self.pieces(shared).maps):
            curvature = unpack_symmetric(stats.curvature[k], q + 1)[:, :, :q]
            slopes[k] -= (curvature @ matrix[:, :q, None])[:, :, 0]
        return slopes


def _solve_all(factor: PackedCholesky, slope: Floats) -> Floats:
    """Solutions for all columns with the one matrix that they share."""
    inverse = np.column_stack([factor.solve(unit[None])[0] for unit in np.eye(factor.size)])
    return np.asarray(slope @ inverse)


@dataclass(frozen=True)
class BoundSums(PieceSums):
    """Sums of a block at some pieces and at its rows' posteriors; see `anypca.models.piecewise._bound.ColumnSums`."""

    slope: Floats
    curvature: Floats
    log_dispersion: Floats
    """Derivatives of the bound with respect to the logarithms of the dispersions (n_features,)."""


@dataclass(frozen=True)
class BoundProblem(PieceProblem):
    """The bound at the best posteriors of the rows, of any family.

    Parameters
    ----------
    family : Family
    groups : tuple of ndarray
        Columns that share a dispersion to estimate.
    floors : ndarray of shape (n_features,)
        Smallest dispersions.
    effect_precision : ndarray of shape (n_features, n_covariates) or float
        Of the normal prior on coefficients of covariates.
    """

    family: Family
    groups: tuple[Ints, ...]
    floors: Floats
    effect_precision: Floats | float = 0.0

    def value(self, shared: Coefficients, stats: BoundSums) -> float:
        """The bound less the penalty of coefficients of covariates."""
        effects = self.pieces(shared).coef
        return stats.log_likelihood - 0.5 * float((self.effect_precision * effects**2).sum())

    def solved(
        self, block: Block, shared: Coefficients, local: Scores | None, row_tol: float
    ) -> tuple[Scores, BoundSums]:
        """Solve a block's rows from where they were, and sum."""
        # A trial of the maps may overflow; its bound is then not finite, and refused.
        with np.errstate(over="ignore", invalid="ignore"):
            rows, pieces = open_block(block), self.pieces(shared)
            entries, weight = self.read(rows, shared), rows.weights.astype(np.float64)
            start = start_scores(entries, pieces) if local is None else local
            scores, at = climb_rows(entries, pieces, start, max_steps=_MOST_ROW_STEPS, tol=row_tol)
            nodes = list(entries.nodes(pieces, scores))
            columns = sum_columns(entries, pieces, scores, nodes, weight, rows.features)
            return scores, BoundSums(
                log_likelihood=float(weight @ at.value),
                weight=float(weight.sum()),
                n_entries=rows.count(),
                occupancy=columns.occupancy,
                slope=columns.slope,
                curvature=columns.curvature,
                log_dispersion=self._dispersion_slopes(entries, pieces, scores, nodes, weight),
            )

    def refresh(self, block: Block, shared: Coefficients, local: Scores) -> Scores:
        """Posteriors of a block's rows, some of them started anew: where that is better."""
        return start_scores(self.read(open_block(block), shared), self.pieces(shared), local)

    def read(self, rows: OpenedBlock, shared: Coefficients) -> Entries:
        """The entries of opened rows."""
        assert shared.dispersion is not None
        return read_entries(rows, self.family, shared.dispersion, self.pieces(shared))

    def _dispersion_slopes(
        self, entries: Entries, pieces: Pieces, at: Scores, nodes: Sequence[Nodes], weight: Floats
    ) -> Floats:
        found = np.zeros(len(self.floors))
        if self.groups:
            columns = np.concatenate(self.groups)
            some, maps = entries.with_columns(columns), replace(pieces, maps=pieces.maps[:, columns])
            below, above = (
                weight @ some.values(maps, at, some.dispersion * np.exp(step), nodes)
                for step in (-_DIFFERENCE, _DIFFERENCE)
            )
            found[columns] = (above - below) / (2.0 * _DIFFERENCE)
        return found

    def gradient(self, shared: Coefficients, stats: BoundSums) -> Gradient:
        matrix = np.einsum("kpa,kma->pm", stats.slope, self.transfers(shared))
        effects = self.pieces(shared).coef
        matrix[:, : effects.shape[1]] -= self.effect_precision * effects
        log_scales = np.array([stats.log_dispersion[columns].sum() for columns in self.groups])
        return Gradient(matrix, log_scales, np.zeros(len(shared.breakpoints)))

    def metric(self, shared: Coefficients, stats: BoundSums) -> Floats:
        T = self.transfers(shared)
        full: Floats = np.einsum("kma,kpab,knb->pmn", T, stats.curvature, T, optimize=True)
        effects = np.arange(self.pieces(shared).coef.shape[1])
        full[:, effects, effects] += self.effect_precision
        # Families whose log-likelihood is not concave may have columns without curvature.
        values, vectors = np.linalg.eigh(full)
        values = np.maximum(np.abs(values), _RIDGE * np.abs(values).max(axis=1, keepdims=True))
        return np.asarray((vectors * values[:, None]) @ vectors.swapaxes(1, 2))

    def scales(self, shared: Coefficients) -> tuple[Floats, Floats]:
        assert shared.dispersion is not None
        first = [int(columns[0]) for columns in self.groups]
        return shared.dispersion[first], self.floors[first]

    def with_scales(self, shared: Coefficients, scales: Floats) -> Coefficients:
        assert shared.dispersion is not None
        dispersion = shared.dispersion.copy()
        for columns, value in zip(self.groups, scales, strict=True):
            dispersion[columns] = value
        return replace(shared, dispersion=dispersion)


def open_groups(family: Family, n_features: int) -> tuple[Ints, ...]:
    """Columns that share a dispersion to estimate: those of a family, but scales in a mixed table each by itself."""
    members = family.member_columns(n_features)
    groups: list[Ints] = []
    for member, columns in members:
        if member.fixed_dispersion is None:
            is_shared = member.dispersion_kind == "shape" or len(members) == 1
            groups += [columns] if is_shared else np.split(columns, len(columns))
    return tuple(groups)

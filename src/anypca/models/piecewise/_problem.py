"""Fits of coupled pieces over row blocks: EM for real numbers, alternating maximisation of the bound for all else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from anypca._typing import Bools, Floats
from anypca.engine import Block
from anypca.families import Family
from anypca.linalg import PackedCholesky, pack_symmetric, packed_diagonal, unpack_symmetric
from anypca.models._bilinear.dispersion import noise_units
from anypca.models._gaussian.posterior import Patterns, find_patterns
from anypca.models._opened import OpenedBlock, open_block
from anypca.models.piecewise._bound import Scores, climb_rows, newton_step, start_scores, sum_columns
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
from anypca.models.piecewise._slabs import FINE, Rule
from anypca.models.piecewise._terms import Entries, read_entries
from anypca.solvers import BlockProblem, Coordinates, Update

Local = TypeVar("Local")
Sums = TypeVar("Sums", bound=PieceSums)

# The chart of L-BFGS approaches the noise floor from above and never reaches it: this near counts as being there.
_AT_FLOOR = 1.01
# Newton steps of the rows in each sweep, which start where the last sweep left them. On 200 x 5 bent counts, 2 and 4
# take the same time; 1 leaves the fit crawling, 8 takes a third longer for maps that are about to move.
_STEPS_PER_SWEEP = 4
# Curvature of directions that carry no information, in expected counts or their like: a step there stays finite, and
# where one count or more is expected it changes nothing.
_RIDGE = 1e-6
# Longest step of a coefficient: beyond a factor of exp(2) in rates or odds the quadratic model means nothing.
_LONGEST_STEP = 2.0


@dataclass(frozen=True)
class PieceProblem(BlockProblem[Coefficients, Local, Sums]):
    """What fits of all families have in common.

    Parameters
    ----------
    transfer : callable
        The coupling of the pieces, one of `anypca.models.piecewise._pieces.COUPLINGS`.
    n_components : int
        q.
    """

    transfer: Transfer
    n_components: int

    def pieces(self, shared: Coefficients) -> Pieces:
        """The pieces that coefficients stand for."""
        return expand(shared, self.transfer, self.n_components)

    def transfers(self, shared: Coefficients) -> Floats:
        """T_k, from coefficients to maps (K, m, q + 1)."""
        return self.transfer(self.n_components, shared.breakpoints)

    def objective(self, shared: Coefficients, stats: Sums) -> float:
        """Log-likelihood of the observed entries, or its bound."""
        return stats.log_likelihood


@dataclass(frozen=True)
class Gradient:
    """Gradient of the log-likelihood (Fisher's identity)."""

    matrix: Floats
    """With respect to D (n_features, m)."""
    log_noise: float
    breakpoints: Floats
    """(K - 1,)"""


@dataclass(frozen=True)
class GaussianProblem(PieceProblem[Patterns, GaussianSums]):
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
        return Gradient(matrix, log_noise, stats.edge + through_maps)

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

    gain: float
    """Squared scaled gradients of the rows, summed."""
    slope: Floats
    curvature: Floats


@dataclass(frozen=True)
class BoundProblem(PieceProblem[Scores, BoundSums]):
    """Rows by damped Newton steps, columns by one Newton step of a concave function, of any family.

    Parameters
    ----------
    family : Family
    dispersion : ndarray of shape (n_features,)
    effect_precision : ndarray of shape (n_features, n_covariates) or float
        Of the normal prior on coefficients of covariates.
    row_tol : float
        Rows whose scaled gradient is below this stay as they are.
    rule : Rule
        Of the integrals over slabs.
    """

    family: Family
    dispersion: Floats
    effect_precision: Floats | float = 0.0
    row_tol: float = 1e-9
    rule: Rule = FINE

    def step(self, block: Block, shared: Coefficients, local: Scores | None) -> tuple[Scores, BoundSums]:
        """Improve the posteriors of a block's rows, and sum."""
        # A trial of the maps may overflow; its bound is then not finite, and the loop refuses it.
        with np.errstate(over="ignore", invalid="ignore"):
            return self._step(block, shared, local)

    def _step(self, block: Block, shared: Coefficients, local: Scores | None) -> tuple[Scores, BoundSums]:
        rows, pieces = open_block(block), self.pieces(shared)
        entries, weight = self.read(rows, pieces), rows.weights.astype(np.float64)
        start = start_scores(entries, pieces) if local is None else local
        scores, at = climb_rows(entries, pieces, start, max_steps=_STEPS_PER_SWEEP, tol=self.row_tol)
        columns = sum_columns(entries, pieces, scores, weight, rows.features)
        return scores, BoundSums(
            log_likelihood=float(weight @ at.value),
            weight=float(weight.sum()),
            n_entries=rows.count(),
            occupancy=columns.occupancy,
            gain=float(weight @ newton_step(at)[2]),
            slope=columns.slope,
            curvature=columns.curvature,
        )

    def refresh(self, block: Block, shared: Coefficients, local: Scores) -> Scores:
        """Posteriors of a block's rows, some of them started anew: where that is better."""
        pieces = self.pieces(shared)
        return start_scores(self.read(open_block(block), pieces), pieces, local)

    def read(self, rows: OpenedBlock, pieces: Pieces) -> Entries:
        """The entries of opened rows."""
        return read_entries(rows, self.family, self.dispersion, pieces, self.rule)

    def objective(self, shared: Coefficients, stats: BoundSums) -> float:
        """The bound less the penalty of coefficients of covariates."""
        effects = self.pieces(shared).coef
        return stats.log_likelihood - 0.5 * float((self.effect_precision * effects**2).sum())

    def resolution(self, shared: Coefficients, stats: BoundSums) -> float:
        """Rounding level of the bound."""
        # Each entry rounds by a unit, and sums over blocks by some ten units of their own size.
        return float(np.finfo(np.float64).eps * (10.0 * abs(stats.log_likelihood) + stats.n_entries))

    def update(self, shared: Coefficients, stats: BoundSums) -> Update[Coefficients]:
        """One Newton step for all columns."""
        slope, packed = self.derivatives(shared, stats)
        change = PackedCholesky(packed, slope.shape[1]).solve(slope)
        gain = max(float(np.vdot(change, slope)), 0.0) + stats.gain
        longest = np.abs(change).max(axis=1, keepdims=True)
        change[~self._has_units] *= (_LONGEST_STEP / np.maximum(longest, _LONGEST_STEP))[~self._has_units]
        return Update(replace(shared, matrix=shared.matrix + change), float(np.sqrt(gain / stats.n_entries)))

    def derivatives(self, shared: Coefficients, stats: BoundSums) -> tuple[Floats, Floats]:
        """Gradient with respect to all coefficients (n_features, .), and minus the second derivatives, packed."""
        T = with_covariates(self.transfers(shared), shared.matrix.shape[1])
        slope = np.einsum("kpa,kma->pm", stats.slope, T)
        full = np.einsum("kma,kpab,knb->pmn", T, stats.curvature, T, optimize=True)
        packed = np.array([pack_symmetric(matrix) for matrix in full])
        packed[:, packed_diagonal(T.shape[1])] += _RIDGE / noise_units(self.family, self.dispersion)[:, None]
        effects = self.pieces(shared).coef
        d = effects.shape[1]
        slope[:, :d] -= self.effect_precision * effects
        packed[:, packed_diagonal(T.shape[1])[:d]] += self.effect_precision
        return slope, packed

    @property
    def _has_units(self) -> Bools:
        """Columns whose predictor has units: their bound is quadratic, so that steps of any length are meant."""
        found = np.zeros(len(self.dispersion), dtype=bool)
        for member, columns in self.family.member_columns(len(found)):
            found[columns] = member.has_units
        return found

    def repair(
        self, shared: Coefficients, proposal: Coefficients, before: BoundSums, after: BoundSums
    ) -> Coefficients | None:
        """Half the step when the bound got worse."""
        if self.objective(proposal, after) >= self.objective(shared, before) - self.resolution(
            shared, before
        ):
            return None
        return replace(shared, matrix=0.5 * (shared.matrix + proposal.matrix))

    def coordinates(self, shared: Coefficients, stats: BoundSums) -> Coordinates:
        """D as a vector, with its curvature as metric."""
        packed = self.derivatives(shared, stats)[1]
        diagonal = packed[:, packed_diagonal(shared.matrix.shape[1])]
        return Coordinates(shared.matrix.ravel(), np.sqrt(diagonal).ravel())

    def with_coordinates(self, vector: Floats, like: Coefficients) -> Coefficients:
        """The inverse of `coordinates`."""
        return replace(like, matrix=vector.reshape(like.matrix.shape))

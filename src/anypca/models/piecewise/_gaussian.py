"""Gaussian rows: the exact posterior of their latent points, its sums over rows, and draws from it."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.stats import truncnorm

from anypca._typing import Floats, Ints
from anypca.engine import Block, Table
from anypca.families import Family
from anypca.models._block_view import BlockView
from anypca.models._context import FitContext
from anypca.models._gaussian.posterior import Parameters, Patterns, Posterior, find_patterns, find_posterior
from anypca.models._row_model import RowModel, Solved
from anypca.models.piecewise._ascent import PieceProblem, PieceSums
from anypca.models.piecewise._pieces import COUPLINGS, Pieces
from anypca.special import truncated_normal


@dataclass(frozen=True)
class Part:
    r"""The posterior within one piece: ``N(m, V)`` truncated to the slab of the piece.

    With om^2 the last diagonal entry of V, t follows a truncated normal distribution and the other coordinates follow t
    along the direction ``v = V e_q / om^2``.
    """

    whole: Posterior
    """Before truncation: means, matrices of the patterns, density, residuals."""
    scale: Floats
    """om of each row (rows,)."""
    direction: Floats
    """v of each pattern (n_patterns, q)."""
    mean: Floats
    """Means after truncation (rows, q)."""
    lost: Floats
    """Variance of t that truncation takes away (rows,)."""


@dataclass(frozen=True)
class Mixture:
    """Posterior of the latent points of a block's rows."""

    parts: tuple[Part, ...]
    log_density: Floats
    """Marginal log density of the observed entries (rows,)."""
    probability: Floats
    """Posterior probability of each piece (rows, K)."""
    patterns: Patterns

    @property
    def mean(self) -> Floats:
        """Posterior means (rows, q)."""
        parts = zip(self.probability.T, self.parts, strict=True)
        return np.asarray(sum(probability[:, None] * part.mean for probability, part in parts))


def find_mixture(table: Table, pieces: Pieces, patterns: Patterns) -> Mixture:
    r"""Posterior of the latent points, and the density of the observed entries.

    Parameters
    ----------
    table : Table
    pieces : Pieces
    patterns : Patterns
        Groups of rows that miss the same entries.

    Returns
    -------
    Mixture

    Notes
    -----
    ``p(y) = sum_k N(y; mu_k, B_k B_k' + noise I) Z_k`` with Z_k the probability of the slab k under the posterior of
    piece k continued to the whole space. Nothing is approximated.
    """
    parts, log_joint = [], np.empty((len(table.x), len(pieces.maps)))
    for k, (matrix, low, high) in enumerate(pieces.slabs):
        whole = find_posterior(table, Parameters(matrix[:, -1], matrix[:, :-1], pieces.noise), patterns)
        part, log_interval_probability = _truncate(whole, low, high, pieces.noise, patterns)
        parts.append(part)
        log_joint[:, k] = whole.log_likelihood + log_interval_probability
    largest = log_joint.max(axis=1)
    # The whole density is finite for every finite row, so the density of at least one piece is.
    joint = np.exp(log_joint - largest[:, None])
    total = joint.sum(axis=1)
    return Mixture(tuple(parts), largest + np.log(total), joint / total[:, None], patterns)


def _truncate(
    whole: Posterior, low: float, high: float, noise: float, patterns: Patterns
) -> tuple[Part, Floats]:
    """Moments of one piece after truncation to (low, high), and the log mass of that slab (rows,)."""
    last = whole.inverse[:, :, -1]
    direction = last / last[:, -1:]
    scale = patterns.spread(np.sqrt(noise * last[:, -1]))
    centre = whole.mean[:, -1]
    if np.isneginf(low) and np.isposinf(high):
        zero = np.zeros_like(centre)
        return Part(whole, scale, direction, whole.mean, zero), zero
    moments = truncated_normal((low - centre) / scale, (high - centre) / scale)
    mean = whole.mean + (scale * moments.mean)[:, None] * patterns.spread(direction)
    return Part(
        whole, scale, direction, mean, scale**2 * (1.0 - moments.variance)
    ), moments.log_interval_probability


def sum_posteriors(table: Table, mixture: Mixture, pieces: Pieces, weight: Floats) -> PieceSums:
    """Expected sums over rows.

    Parameters
    ----------
    table : Table
    mixture : Mixture
        Posterior of its rows under the pieces.
    pieces : Pieces
    weight : ndarray of shape (rows,)

    Returns
    -------
    PieceSums
    """
    patterns, noise, observed = mixture.patterns, pieces.noise, table.observed
    n, p = table.x.shape
    counts = np.full(p, weight.sum()) if observed is None else weight @ observed
    row_share = np.ones(n) if observed is None else observed.mean(axis=1)
    masks = np.ones((1, p)) if observed is None else patterns.one_each(observed).astype(float)
    slopes, curvatures, squares = [], [], np.zeros(p)
    for k, part in enumerate(mixture.parts):
        B, share = pieces.maps[k, :, :-1], weight * mixture.probability[:, k]
        u = np.column_stack([part.mean, np.ones(n)])
        residual = part.whole.centred - part.mean @ B.T
        if observed is not None:
            residual[~observed] = 0.0
        covariance = _summed_covariances(part, share, noise, patterns)
        # Of each column the sum over rows that have it; one matrix for all columns of complete tables.
        by_column = covariance if observed is None else np.tensordot(masks.T, covariance, 1)
        spread = (by_column @ B[:, :, None])[:, :, 0]
        slope = residual.T @ (u * share[:, None])
        slope[:, :-1] -= spread
        slopes.append(slope / noise)
        squares += share @ residual**2 + np.einsum("ja,ja->j", spread, B)
        curvature = u.T @ (u * (share * row_share)[:, None])
        curvature[:-1, :-1] += by_column.mean(axis=0)
        curvatures.append(curvature[None] / noise)
    return PieceSums(
        log_likelihood=float(weight @ mixture.log_density),
        weight=float(weight.sum()),
        n_entries=float(counts.sum()),
        occupancy=weight @ mixture.probability,
        slope=np.array(slopes),
        curvature=np.array(curvatures),
        log_dispersion=0.5 * (squares / noise - counts),
        edge=_edge_slopes(mixture, pieces, weight),
    )


def _summed_covariances(part: Part, share: Floats, noise: float, patterns: Patterns) -> Floats:
    """``sum_i share_i Cov(w_i)`` over the rows of each pattern (n_patterns, q, q)."""
    total, lost = patterns.collect(np.column_stack([share, share * part.lost])).T[:, :, None, None]
    v = part.direction
    return np.asarray(noise * total * part.whole.inverse - lost * v[:, :, None] * v[:, None, :])


def _edge_slopes(mixture: Mixture, pieces: Pieces, weight: Floats) -> Floats:
    """What the log-likelihood gains when a breakpoint moves up, the maps staying as they are (K - 1,)."""
    value = np.zeros(len(pieces.breakpoints))
    for j, c in enumerate(pieces.breakpoints):
        below, above = (_density_at(part, float(c), mixture) for part in mixture.parts[j : j + 2])
        value[j] = weight @ (below - above)
    return value


def _density_at(part: Part, c: float, mixture: Mixture) -> Floats:
    """Joint density of the row and t = c under one piece, over the density of the row (rows,)."""
    z = (c - part.whole.mean[:, -1]) / part.scale
    log_joint = part.whole.log_likelihood - 0.5 * z * z - np.log(part.scale) - 0.5 * np.log(2.0 * np.pi)
    return np.asarray(np.exp(log_joint - mixture.log_density))


def draw_points(mixture: Mixture, pieces: Pieces, rng: np.random.Generator) -> Floats:
    """One latent point per row: the piece, then t by its inverse distribution function, then the others given t."""
    n, q = mixture.parts[0].mean.shape
    uniform, height = rng.random((2, n))
    normal = rng.standard_normal((n, q - 1))
    piece = (uniform[:, None] > np.cumsum(mixture.probability, axis=1)[:, :-1]).sum(axis=1)
    w = np.empty((n, q))
    for k, (part, (_, low, high)) in enumerate(zip(mixture.parts, pieces.slabs, strict=True)):
        rows = np.flatnonzero(piece == k)
        centre, scale = part.whole.mean[rows], part.scale[rows]
        ends = (low - centre[:, -1]) / scale, (high - centre[:, -1]) / scale
        z = truncnorm.ppf(height[rows], *ends)
        w[rows] = centre + mixture.patterns.spread(part.direction)[rows] * (scale * z)[:, None]
        # The others given t: their covariance less what follows t.
        inverse, v = part.whole.inverse, part.direction[:, :-1]
        left = inverse[:, :-1, :-1] - inverse[:, -1, -1][:, None, None] * v[:, :, None] * v[:, None, :]
        root = mixture.patterns.spread(np.linalg.cholesky(pieces.noise * left))[rows]
        w[rows, :-1] += (root @ normal[rows, :, None])[:, :, 0]
    return w


@dataclass(frozen=True)
class GaussianProblem(PieceProblem):
    """The exact likelihood of piecewise PCA, entries missing at random."""

    @classmethod
    def of(cls, coupling: str, q: int, session: FitContext, noise_share: float) -> GaussianProblem:
        """The problem of a table, whose noise variance stays above a share of the mean variance of its columns."""
        p, mean = session.data.n_features, float(np.mean(session.summary.variance))
        # Positive also if the variances of the columns underflow.
        floor = max(noise_share * mean, float(np.finfo(np.float64).tiny))
        return cls(COUPLINGS[coupling], q, (np.arange(p),), np.full(p, floor), np.zeros((p, 0)))

    def solved(
        self, block: Block, pieces: Pieces, local: Patterns | None, row_tol: float
    ) -> tuple[Patterns, PieceSums]:
        """Expected sums of a block's rows; ``local`` groups rows that miss the same entries."""
        table = block.read()
        patterns = find_patterns(table.observed, block.n_rows) if local is None else local
        return patterns, sum_posteriors(table, find_mixture(table, pieces, patterns), pieces, block.weights)


@dataclass(frozen=True, eq=False)
class PieceRowModel(RowModel[Solved]):
    """Rows whose predictor is affine in each piece of the latent space; scores are posterior means."""

    pieces: Pieces
    family: Family

    @property
    def dispersion(self) -> Floats:  # type: ignore[override]
        return self.pieces.dispersion

    def predictor(self, block: Block, scores: Floats) -> Floats:
        predictor = self.pieces.predict(scores) + block.covariates @ self.pieces.coef.T
        offset = block.offset()
        return predictor if offset is None else predictor + offset

    def draw_scores(self, n_samples: int, rng: np.random.Generator) -> Floats:
        return rng.standard_normal((n_samples, self.pieces.n_components))

    @abstractmethod
    def probabilities(self, solved: Solved) -> Floats:
        """Posterior probabilities of the pieces, shape (rows, K)."""

    @abstractmethod
    def draw_latent(self, solved: Solved, n_draws: int, rng: np.random.Generator) -> Floats:
        """Latent points given the rows, shape (n_draws, rows, q)."""


class GaussianRowModel(PieceRowModel[Mixture]):
    """Gaussian rows: the posterior of the latent points is a mixture of truncated normals, known exactly."""

    def solve(self, rows: BlockView) -> Mixture:
        assert rows.table is not None
        return find_mixture(rows.table, self.pieces, find_patterns(rows.observed, rows.n_rows))

    def scores(self, solved: Mixture) -> Floats:
        return solved.mean

    def deviations(self, solved: Mixture) -> Floats:
        mean = solved.mean
        variance = np.zeros_like(mean)
        for k, part in enumerate(solved.parts):
            diagonal = solved.patterns.spread(self.pieces.noise * np.einsum("iaa->ia", part.whole.inverse))
            along = solved.patterns.spread(part.direction)
            within = diagonal - part.lost[:, None] * along**2
            variance += solved.probability[:, k, None] * (within + (part.mean - mean) ** 2)
        # Truncation to a thin slab leaves a variance of 0 along t, which rounding may make negative.
        return np.sqrt(np.maximum(variance, 0.0))

    def log_likelihood(self, rows: BlockView) -> Floats:
        return self.solve(rows).log_density

    def expected(self, block: Block, rows: BlockView, solved: Mixture) -> Floats:
        """``E[mu_k + B_k w]`` over the posterior of w, its pieces included."""
        value = np.zeros((rows.n_rows, rows.n_features))
        for k, matrix in enumerate(self.pieces.maps):
            predictor = solved.parts[k].mean @ matrix[:, :-1].T + matrix[:, -1]
            value += solved.probability[:, k, None] * predictor
        return value

    def entry_moments(
        self, rows: BlockView, solved: Mixture, index: Ints, columns: Ints
    ) -> tuple[Floats, Floats]:
        pattern = index if solved.patterns.index is None else solved.patterns.index[index]
        means, variances = np.empty((2, len(self.pieces.maps), len(index)))
        for k, (part, matrix) in enumerate(zip(solved.parts, self.pieces.maps, strict=True)):
            B = matrix[columns, :-1]
            means[k] = np.einsum("ea,ea->e", part.mean[index], B) + matrix[columns, -1]
            whole = np.einsum("ea,eab,eb->e", B, part.whole.inverse[pattern], B, optimize=True)
            along = np.einsum("ea,ea->e", part.direction[pattern], B)
            variances[k] = self.pieces.noise * whole - part.lost[index] * along**2
        probability = solved.probability[index].T
        mean = (probability * means).sum(axis=0)
        return mean, (probability * (variances + (means - mean) ** 2)).sum(axis=0)

    def probabilities(self, solved: Mixture) -> Floats:
        return solved.probability

    def draw_latent(self, solved: Mixture, n_draws: int, rng: np.random.Generator) -> Floats:
        return np.stack([draw_points(solved, self.pieces, rng) for _ in range(n_draws)])

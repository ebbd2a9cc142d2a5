"""Expectation and maximisation steps of the Gaussian model, and the gradient of its exact likelihood."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block, Statistics
from anypca.linalg import PackedCholesky, pack_symmetric, packed_products, unpack_symmetric
from anypca.models._gaussian.posterior import Patterns, find_patterns
from anypca.models.piecewise._pieces import Coefficients, Pieces, Transfer, expand, hinge_slopes
from anypca.models.piecewise._posterior import Mixture, Part, find_mixture
from anypca.solvers import BlockProblem, Coordinates, Update


@dataclass(frozen=True)
class Stats(Statistics):
    """Expected sums of a block at some pieces; u is the latent point followed by a 1."""

    log_likelihood: float
    weight: float
    """Sum of the sample weights."""
    n_entries: float
    """Weighted number of observed entries."""
    squares: float
    """Expected sum of squared residuals."""
    occupancy: Floats
    """Weighted sum of the posterior probabilities of each piece (K,)."""
    cross: Floats
    """``sum_i r_ik (y_ij - mu_kj) E_k[u_i]`` (K, n_features, q + 1)."""
    curvature: Floats
    """``sum_i r_ik E_k[u_i u_i']``, packed (K, c, .): c = n_features where entries may be missing, else 1."""
    edge: Floats
    """Derivative of the log-likelihood with respect to the breakpoints at fixed maps (K - 1,)."""


@dataclass(frozen=True)
class Gradient:
    """Of the log-likelihood (Fisher's identity)."""

    matrix: Floats
    """With respect to D (n_features, m)."""
    log_noise: float
    breakpoints: Floats
    """(K - 1,)"""


@dataclass(frozen=True)
class GaussianProblem(BlockProblem[Coefficients, Patterns, Stats]):
    r"""EM on the exact likelihood of piecewise PCA, entries missing at random.

    Parameters
    ----------
    transfer : callable
        The coupling of the pieces, see `anypca.models.piecewise._pieces`.
    n_components : int
        q.
    noise_floor : float
        Smallest noise variance: the likelihood of data that lie on the pieces grows without bound as it vanishes.

    Notes
    -----
    With S_k and F_k the expected second moments and cross-products of piece k, every coupling is a linear map
    ``[B_k, mu_k] = D T_k``, and the M-step is ``D = (sum F_k T_k') (sum T_k S_k T_k')^-1``, column by column where
    entries are missing. It is computed as an increment, which loses no digits when the noise is small.
    """

    transfer: Transfer
    n_components: int
    noise_floor: float

    def step(self, block: Block, shared: Coefficients, local: Patterns | None) -> tuple[Patterns, Stats]:
        """Expected sums of a block's rows; ``local`` only remembers which rows miss the same entries."""
        table = block.read()
        patterns = find_patterns(table.observed, block.n_rows) if local is None else local
        pieces = expand(shared, self.transfer, self.n_components)
        mixture = find_mixture(table, pieces, patterns)
        weight = np.ones(block.n_rows) if block.weight is None else block.weight.astype(np.float64)
        observed = np.ones(table.x.shape, dtype=bool) if table.observed is None else table.observed
        mask = patterns.one_each(observed).astype(np.float64) if block.may_miss else None
        return patterns, collect(mixture, pieces, weight, mask)

    def objective(self, shared: Coefficients, stats: Stats) -> float:
        """Exact log-likelihood of the observed entries."""
        return stats.log_likelihood

    def resolution(self, shared: Coefficients, stats: Stats) -> float:
        """Rounding level of the objective: residuals carry the rounding of the larger entries."""
        size = float(np.vdot(shared.matrix, shared.matrix)) / len(shared.matrix) + shared.noise
        entries = stats.n_entries * (1.0 + np.sqrt(size / shared.noise))
        return float(np.finfo(np.float64).eps * (abs(stats.log_likelihood) + entries))

    def update(self, shared: Coefficients, stats: Stats) -> Update[Coefficients]:
        """The M-step at fixed breakpoints."""
        slope = self._slope(shared, stats)
        factor = PackedCholesky(self.curvature(shared, stats), slope.shape[1])
        change = factor.solve(slope) if len(factor.log_determinant()) > 1 else _solve_all(factor, slope)
        gain = float(np.vdot(change, slope))
        noise = max((stats.squares - gain) / stats.n_entries, self.noise_floor)
        proposal = Coefficients(shared.matrix + change, noise, shared.breakpoints)
        excess = stats.squares / (shared.noise * stats.n_entries) - 1.0
        if shared.noise <= 1.01 * self.noise_floor:
            excess = max(excess, 0.0)  # at the bound only an increase is feasible
        criterion = np.sqrt(max(gain, 0.0) / (shared.noise * stats.n_entries) + 0.5 * excess**2)
        return Update(proposal, float(criterion))

    def gradient(self, shared: Coefficients, stats: Stats) -> Gradient:
        """Derivatives of the exact log-likelihood.

        Parameters
        ----------
        shared : Coefficients
        stats : Stats
            Summed at ``shared``.

        Returns
        -------
        Gradient
        """
        pieces = expand(shared, self.transfer, self.n_components)
        slopes = _piece_slopes(pieces, stats) / shared.noise
        T = self.transfer(self.n_components, shared.breakpoints)
        matrix = np.einsum("kpa,kma->pm", slopes, T)
        log_noise = 0.5 * (stats.squares / shared.noise - stats.n_entries)
        # A hinge moves the maps as well as the borders of the slabs.
        moving = hinge_slopes(self.n_components, len(pieces.maps), self.transfer)
        through_maps = np.einsum("kpa,pm,jkma->j", slopes, shared.matrix, moving, optimize=True)
        return Gradient(matrix, log_noise, stats.edge + through_maps)

    def curvature(self, shared: Coefficients, stats: Stats) -> Floats:
        """``sum_k T_k S_k T_k'``, packed (c, .)."""
        T = self.transfer(self.n_components, shared.breakpoints)
        q = self.n_components
        full = sum(t @ unpack_symmetric(s, q + 1) @ t.T for t, s in zip(T, stats.curvature, strict=True))
        return np.array([pack_symmetric(matrix) for matrix in np.asarray(full)])

    def _slope(self, shared: Coefficients, stats: Stats) -> Floats:
        """``sum_k`` of the pieces' slopes times T_k', (n_features, m)."""
        pieces = expand(shared, self.transfer, self.n_components)
        T = self.transfer(self.n_components, shared.breakpoints)
        return np.asarray(np.einsum("kpa,kma->pm", _piece_slopes(pieces, stats), T))

    def coordinates(self, shared: Coefficients, stats: Stats) -> Coordinates:
        """D and the log noise as one vector, with the complete-data curvature as metric."""
        m = shared.matrix.shape[1]
        curvature = unpack_symmetric(self.curvature(shared, stats), m)
        diagonal = np.broadcast_to(np.einsum("caa->ca", curvature), shared.matrix.shape) / shared.noise
        vector = np.append(shared.matrix.ravel(), np.log(shared.noise))
        return Coordinates(vector, np.sqrt(np.append(diagonal.ravel(), 0.5 * stats.n_entries)))

    def with_coordinates(self, vector: Floats, like: Coefficients) -> Coefficients:
        """The inverse of `coordinates`."""
        noise = max(float(np.exp(vector[-1])), self.noise_floor)
        return Coefficients(vector[:-1].reshape(like.matrix.shape), noise, like.breakpoints)


def _solve_all(factor: PackedCholesky, slope: Floats) -> Floats:
    """Solutions for all columns with the one matrix that they share."""
    m = factor.size
    inverse = np.column_stack([factor.solve(unit[None])[0] for unit in np.eye(m)])
    return np.asarray(slope @ inverse)


def collect(mixture: Mixture, pieces: Pieces, weight: Floats, mask: Floats | None) -> Stats:
    """Expected sums over rows.

    Parameters
    ----------
    mixture : Mixture
    pieces : Pieces
        At which the mixture was found.
    weight : ndarray of shape (rows,)
    mask : ndarray of shape (n_patterns, n_features) or None
        1 where the rows of a pattern have entries, 0 where they miss them; ``None`` for complete tables.

    Returns
    -------
    Stats
    """
    patterns, noise = mixture.patterns, pieces.noise
    p = pieces.maps.shape[1]
    per_row = np.full(len(weight), float(p)) if mask is None else patterns.spread(mask.sum(axis=1))
    squares, cross, curvature = 0.0, [], []
    for k, part in enumerate(mixture.parts):
        share = weight * mixture.probability[:, k]
        squares += float(share @ _expected_squares(part, noise, mixture))
        u = np.column_stack([part.mean, np.ones(len(weight))])
        cross.append(part.whole.centred.T @ (u * share[:, None]))
        second = _second_moments(part, u, share, noise, mixture)
        curvature.append(second.sum(axis=0)[None] if mask is None else mask.T @ second)
    return Stats(
        log_likelihood=float(weight @ mixture.log_density),
        weight=float(weight.sum()),
        n_entries=float(weight @ per_row),
        squares=squares,
        occupancy=weight @ mixture.probability,
        cross=np.array(cross),
        curvature=np.array(curvature),
        edge=_edge_slopes(mixture, pieces, weight),
    )


def _expected_squares(part: Part, noise: float, mixture: Mixture) -> Floats:
    """``E|y - mu - B w|^2`` over the observed entries, given the piece (rows,).

    From the residual at the untruncated mean, by ``B'(y - mu - B m) = noise m`` and ``B'B = M - noise I``: no
    products with the table are needed.
    """
    patterns = mixture.patterns
    inverse = part.whole.inverse
    q = inverse.shape[1]
    v = patterns.spread(part.direction)
    length = patterns.spread(
        1.0 / inverse[:, -1, -1] - noise * np.einsum("ia,ia->i", part.direction, part.direction)
    )
    trace = patterns.spread(np.einsum("iaa->i", inverse))
    moved = part.shift**2 - part.lost
    along = np.einsum("ia,ia->i", part.whole.mean, v)
    return np.asarray(
        part.whole.squares - 2.0 * noise * part.shift * along + moved * length + noise * (q - noise * trace)
    )


def _second_moments(part: Part, u: Floats, share: Floats, noise: float, mixture: Mixture) -> Floats:
    """``sum_i share_i E[u u']`` over the rows of each pattern, packed (n_patterns, .)."""
    patterns, q = mixture.patterns, u.shape[1] - 1
    second = patterns.collect(packed_products(u) * share[:, None])
    sums = patterns.collect(np.column_stack([share, share * part.lost]))
    rows, cols = np.triu_indices(q + 1)
    inner = cols < q
    covariance = noise * part.whole.inverse[:, rows[inner], cols[inner]] * sums[:, :1]
    second[:, inner] += covariance - packed_products(part.direction) * sums[:, 1:]
    return second


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


def _piece_slopes(pieces: Pieces, stats: Stats) -> Floats:
    """``sum_i r_ik E_k[(y_ij - mu_kj - b_kj' w_i) u_i]`` (K, n_features, q + 1)."""
    q = pieces.n_components
    slopes = np.empty_like(stats.cross)
    for k, matrix in enumerate(pieces.maps):
        curvature = unpack_symmetric(stats.curvature[k], q + 1)[:, :, :q]
        fitted = (curvature @ matrix[:, :q, None])[:, :, 0]
        slopes[k] = stats.cross[k] - fitted
    return slopes

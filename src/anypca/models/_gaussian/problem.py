"""Maximum likelihood for probabilistic PCA with missing entries: one EM step over row blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block, Statistics
from anypca.linalg import PackedCholesky, packed_products, symmetric_power, unpack_symmetric
from anypca.models._gaussian.posterior import Parameters, Patterns, entry_masks, find_patterns, find_posterior
from anypca.solvers import BlockProblem, Coordinates, Update


@dataclass(frozen=True)
class ExpectedSums(Statistics):
    """Sums over rows at given parameters; u_i = (z_i, 1) are the scores with a constant."""

    log_likelihood: float
    """Of the observed entries."""
    weight: float
    """Sum of the weights of the rows."""
    n_entries: float
    """Sum of the weights of the observed entries."""
    squares: float
    """Expected sum of squared residuals."""
    cross: Floats
    """``sum_i (x_ij - mean_j) E[u_i]`` over the observed entries of column j (n_features, k + 1)."""
    curvature: Floats
    """``sum_i E[u_i u_i']`` over the observed entries of column j (n_features, packed size of k + 1)."""
    moments: Floats
    """``sum_i E[u_i u_i']`` over all rows (packed size of k + 1,)."""


@dataclass(frozen=True)
class MissingProblem(BlockProblem[Parameters, Patterns, ExpectedSums]):
    r"""EM for the mean, the loadings and the noise of probabilistic PCA, entries missing at random.

    Parameters
    ----------
    noise_floor : float
        Smallest noise variance: the likelihood of data of low rank grows without bound as the noise vanishes.

    Notes
    -----
    The objective is the exact log-likelihood of the observed entries. By Fisher's identity its gradient equals the
    gradient of the expected log-likelihood, so that checking stationarity costs nothing extra.
    The scores are rescaled after each step to zero mean and unit second moment (parameter expansion), which
    removes the slowest directions of plain EM and keeps it monotone.

    References
    ----------
    Tipping and Bishop (1999), Probabilistic principal component analysis, appendix B.
    Liu, Rubin and Wu (1998), Parameter expansion to accelerate EM: the PX-EM algorithm.
    """

    noise_floor: float

    def step(self, block: Block, shared: Parameters, local: Patterns | None) -> tuple[Patterns, ExpectedSums]:
        """Expected sums of a block's rows; ``local`` only remembers which rows miss the same entries."""
        table, entry = block.read(), block.entry_weight()
        is_weighted = entry is not None
        patterns = (
            find_patterns(table.observed, block.n_rows, is_weighted=is_weighted) if local is None else local
        )
        rows = find_posterior(table, shared, patterns, entry)
        noise = shared.noise
        n, k = rows.mean.shape
        weight = block.weights
        covariance = noise * rows.inverse
        second = _second_moments(rows.mean, covariance, weight, patterns)
        mask = entry_masks(table, patterns, entry)
        entries = patterns.collect(weight[:, None])[:, 0] @ mask.sum(axis=1)
        # E|x_o - mean_o - W_o z|^2 adds tr(W_o S W_o') = noise (k - tr S) to that at the posterior mean.
        spread = noise * (k - patterns.spread(np.einsum("iaa->i", covariance)))
        scores = np.column_stack([rows.mean, np.ones(n)])
        stats = ExpectedSums(
            log_likelihood=float(weight @ rows.log_likelihood),
            weight=float(weight.sum()),
            n_entries=float(entries),
            squares=float(weight @ (rows.squares + spread)),
            cross=rows.centred.T @ (scores * weight[:, None]),
            curvature=mask.T @ second,
            moments=second.sum(axis=0),
        )
        return patterns, stats

    def objective(self, shared: Parameters, stats: ExpectedSums) -> float:
        """Log-likelihood of the observed entries."""
        return stats.log_likelihood

    def resolution(self, shared: Parameters, stats: ExpectedSums) -> float:
        """Rounding level of the objective: residuals carry the rounding of the larger entries."""
        size = float(np.vdot(shared.loadings, shared.loadings)) / len(shared.mean) + shared.noise
        entries = stats.n_entries * (1.0 + np.sqrt(size / shared.noise))
        return float(np.finfo(np.float64).eps * (abs(stats.log_likelihood) + entries))

    def update(self, shared: Parameters, stats: ExpectedSums) -> Update[Parameters]:
        """The M-step: a regression per column, the noise, then the rescaling of the scores."""
        k = shared.loadings.shape[1]
        slope = residual_products(shared, stats)
        change = PackedCholesky(stats.curvature, k + 1).solve(slope)
        gain = float(np.vdot(change, slope))
        noise = max((stats.squares - gain) / stats.n_entries, self.noise_floor)
        # Parameter expansion: scores are brought to zero mean and unit second moment, which plain EM does slowly.
        shift, root = _standardise(stats, k)
        W = shared.loadings + change[:, :k]
        mean = shared.mean + change[:, k] + W @ shift
        proposal = Parameters(mean, _principal_axes(W @ root), noise)
        return Update(proposal, self._criterion(shared, stats, gain))

    def _criterion(self, shared: Parameters, stats: ExpectedSums, gain: float) -> float:
        """Gradient per observed entry, in units of the complete-data curvature."""
        excess = stats.squares / (shared.noise * stats.n_entries) - 1.0
        if shared.noise <= self.noise_floor:
            excess = max(excess, 0.0)  # at the bound only an increase is feasible
        return float(np.sqrt(max(gain, 0.0) / (shared.noise * stats.n_entries) + 0.5 * excess**2))

    def coordinates(self, shared: Parameters, stats: ExpectedSums) -> Coordinates:
        """Loadings, mean and log noise as one vector, with the complete-data curvature as metric."""
        k = shared.loadings.shape[1]
        diagonal = np.einsum("jaa->ja", unpack_symmetric(stats.curvature, k + 1)) / shared.noise
        vector = np.concatenate([shared.loadings.ravel(), shared.mean, [np.log(shared.noise)]])
        curvature = np.concatenate([diagonal[:, :k].ravel(), diagonal[:, k], [0.5 * stats.n_entries]])
        return Coordinates(vector, np.sqrt(curvature))

    def with_coordinates(self, vector: Floats, like: Parameters) -> Parameters:
        """The inverse of `coordinates`."""
        p, k = like.loadings.shape
        noise = max(float(np.exp(vector[-1])), self.noise_floor)
        return Parameters(vector[p * k : p * k + p], vector[: p * k].reshape(p, k), noise)


def _second_moments(mean: Floats, covariance: Floats, weight: Floats, patterns: Patterns) -> Floats:
    """Weighted sums of ``E[u u']`` over the rows of each pattern, packed (n_patterns, (k + 1)(k + 2) / 2)."""
    k = mean.shape[1]
    scores = np.column_stack([mean, np.ones(len(mean))])
    second = patterns.collect(packed_products(scores) * weight[:, None])
    rows, cols = np.triu_indices(k + 1)
    inner = cols < k
    weights = patterns.collect(weight[:, None])
    second[:, inner] += covariance[:, rows[inner], cols[inner]] * weights
    return second


def residual_products(shared: Parameters, stats: ExpectedSums) -> Floats:
    """``sum_i E[(x_ij - mean_j - w_j' z_i) u_i]`` over the observed entries of column j (n_features, k + 1).

    By Fisher's identity this is the gradient of the log-likelihood in loadings and mean, times the noise.
    """
    W = shared.loadings
    k = W.shape[1]
    curvature = unpack_symmetric(stats.curvature, k + 1)
    return np.asarray(stats.cross - (curvature[:, :, :k] @ W[:, :, None])[:, :, 0])


def _principal_axes(W: Floats) -> Floats:
    """Loadings of the same model with orthogonal columns.

    Columns of very different length then stay apart, and the matrices W_o' W_o + noise I are as well
    conditioned as scaling can make them, however small the noise.
    """
    _, _, right = np.linalg.svd(W, full_matrices=False)
    # Signs and order are those nearest to the old axes, so that extrapolation sees a smooth path.
    order = np.argmax(np.abs(right), axis=1)
    if len(set(order)) < len(order):
        order = np.arange(len(order))
    rotation = np.empty_like(right)
    rotation[order] = right * np.sign(right[np.arange(len(right)), order])[:, None]
    return np.asarray(W @ rotation.T)


def _standardise(stats: ExpectedSums, k: int) -> tuple[Floats, Floats]:
    """Mean (k,) and symmetric square root (k, k) of the covariance of the scores over all rows."""
    moments = unpack_symmetric(stats.moments[None], k + 1)[0] / stats.weight
    shift = moments[:k, k]
    return shift, symmetric_power(moments[:k, :k] - np.outer(shift, shift), 0.5)

"""Gaussian rows: the exact posterior of their latent points, its sums over rows, and draws from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from anypca._typing import Floats
from anypca.engine import Table
from anypca.linalg import packed_products
from anypca.models._gaussian.posterior import Parameters, Patterns, Posterior, find_posterior
from anypca.models.piecewise._pieces import Pieces, PieceSums
from anypca.special import log_ndtr_difference, truncated_normal


@dataclass(frozen=True)
class Part:
    r"""One piece's part of the posterior: ``N(m, V)`` truncated to the slab of the piece.

    With om^2 the last diagonal entry of V and v = V e_q / om^2, the truncated normal of t has mean ``m_q + shift`` and
    variance ``om^2 * shrinkage``; the other coordinates follow t along v.
    """

    whole: Posterior
    """Before truncation: means, matrices of the patterns, density, residuals."""
    scale: Floats
    """om of each row (rows,)."""
    direction: Floats
    """v of each pattern (n_patterns, q)."""
    shift: Floats
    """(rows,)"""
    shrinkage: Floats
    """(rows,), between 0 and 1."""
    mean: Floats
    """Means after truncation (rows, q)."""

    @property
    def lost(self) -> Floats:
        """Variance of t that truncation takes away (rows,)."""
        return np.asarray(self.scale**2 * (1.0 - self.shrinkage))


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
        value = np.zeros_like(self.parts[0].mean)
        for k, part in enumerate(self.parts):
            value += self.probability[:, k, None] * part.mean
        return value


def find_mixture(table: Table, pieces: Pieces, patterns: Patterns) -> Mixture:
    r"""Posterior of the latent points, and the density of the observed entries.

    Parameters
    ----------
    table : Table
    pieces : Pieces
    patterns : Patterns
        Which rows miss the same entries.

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
        part, log_mass = _truncate(whole, low, high, pieces.noise, patterns)
        parts.append(part)
        log_joint[:, k] = whole.log_likelihood + log_mass
    largest = log_joint.max(axis=1)
    # The whole density is finite for every finite row, so at least one piece's is.
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
        return Part(whole, scale, direction, zero, np.ones_like(centre), whole.mean), zero
    moments = truncated_normal((low - centre) / scale, (high - centre) / scale)
    shift = scale * moments.mean
    mean = whole.mean + shift[:, None] * patterns.spread(direction)
    return Part(whole, scale, direction, shift, moments.variance, mean), moments.log_mass


@dataclass(frozen=True)
class GaussianSums(PieceSums):
    """Expected sums of a block at some pieces; u is the latent point followed by a 1."""

    squares: float
    """Expected sum of squared residuals."""
    cross: Floats
    """``sum_i r_ik (y_ij - mu_kj) E_k[u_i]`` (K, n_features, q + 1)."""
    curvature: Floats
    """``sum_i r_ik E_k[u_i u_i']``, packed (K, c, .): c = n_features where entries may be missing, else 1."""
    edge: Floats
    """Derivative of the log-likelihood with respect to the breakpoints at fixed maps (K - 1,)."""


def sum_posteriors(mixture: Mixture, pieces: Pieces, weight: Floats, mask: Floats | None) -> GaussianSums:
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
    GaussianSums
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
    return GaussianSums(
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
    # Truncation moves t by the shift and takes some of its variance; other coordinates follow along the direction.
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


def draw_points(mixture: Mixture, pieces: Pieces, rng: np.random.Generator) -> Floats:
    """One latent point per row: the piece, then t by its inverse distribution function, then the others given t."""
    n, q = mixture.parts[0].mean.shape
    uniform, height = rng.random((2, n))
    normal = rng.standard_normal((n, q - 1))
    piece = (uniform[:, None] > np.cumsum(mixture.probability, axis=1)[:, :-1]).sum(axis=1)
    w = np.empty((n, q))
    for k, (part, (_, low, high)) in enumerate(zip(mixture.parts, pieces.slabs, strict=True)):
        centre, direction = part.whole.mean, mixture.patterns.spread(part.direction)
        t = _draw_slab(part, low, high, height)
        point = centre + direction * (t - centre[:, -1])[:, None]
        if q > 1:
            root = mixture.patterns.spread(_conditional_root(part, pieces.noise))
            point[:, :-1] += (root @ normal[:, :, None])[:, :, 0]
        w[piece == k] = point[piece == k]
    return w


def _draw_slab(part: Part, low: float, high: float, height: Floats) -> Floats:
    """t of each row in the slab, at given heights of its distribution function (rows,)."""
    centre = part.whole.mean[:, -1]
    a, b = (low - centre) / part.scale, (high - centre) / part.scale
    # The lower tail is the accurate one: intervals above zero are mirrored.
    mirrored = a > -b
    left, right = np.where(mirrored, -b, a), np.where(mirrored, -a, b)
    log_height = np.logaddexp(log_ndtr(left), np.log(height) + log_ndtr_difference(left, right))
    # Rounding may lift a height to 1, whose quantile is infinite; this is the largest logarithm below 0.
    z = np.clip(ndtri_exp(np.minimum(log_height, -np.finfo(np.float64).tiny)), left, right)
    return np.asarray(np.clip(centre + part.scale * np.where(mirrored, -z, z), low, high))


def _conditional_root(part: Part, noise: float) -> Floats:
    """Cholesky factors of the covariance of the other coordinates given t (n_patterns, q - 1, q - 1)."""
    inverse, v = part.whole.inverse, part.direction[:, :-1]
    left = inverse[:, :-1, :-1] - inverse[:, -1, -1][:, None, None] * v[:, :, None] * v[:, None, :]
    return np.asarray(np.linalg.cholesky(noise * left))

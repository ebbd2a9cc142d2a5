"""Exact posterior of the latent points of a block's rows: a mixture of truncated normals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from anypca._typing import Floats
from anypca.engine import Table
from anypca.models._gaussian.posterior import Parameters, Patterns, Posterior, find_posterior
from anypca.models.piecewise._pieces import Pieces
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
    edges = pieces.edges
    parts, log_joint = [], np.empty((len(table.x), len(pieces.maps)))
    for k, matrix in enumerate(pieces.maps):
        whole = find_posterior(table, Parameters(matrix[:, -1], matrix[:, :-1], pieces.noise), patterns)
        part, log_mass = _truncate(whole, float(edges[k]), float(edges[k + 1]), pieces.noise, patterns)
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


def draw_points(mixture: Mixture, pieces: Pieces, rng: np.random.Generator) -> Floats:
    """One latent point per row: the piece, then t by its inverse distribution function, then the others given t."""
    n, q = mixture.parts[0].mean.shape
    uniform, height = rng.random((2, n))
    normal = rng.standard_normal((n, q - 1))
    piece = (uniform[:, None] > np.cumsum(mixture.probability, axis=1)[:, :-1]).sum(axis=1)
    edges, w = pieces.edges, np.empty((n, q))
    for k, part in enumerate(mixture.parts):
        t = _draw_slab(part, float(edges[k]), float(edges[k + 1]), height)
        point = (
            part.whole.mean + mixture.patterns.spread(part.direction) * (t - part.whole.mean[:, -1])[:, None]
        )
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
    z = np.clip(ndtri_exp(np.minimum(log_height, -1e-300)), left, right)
    return np.asarray(np.clip(centre + part.scale * np.where(mirrored, -z, z), low, high))


def _conditional_root(part: Part, noise: float) -> Floats:
    """Cholesky factors of the covariance of the other coordinates given t (n_patterns, q - 1, q - 1)."""
    inverse, v = part.whole.inverse, part.direction[:, :-1]
    left = inverse[:, :-1, :-1] - inverse[:, -1, -1][:, None, None] * v[:, :, None] * v[:, None, :]
    return np.asarray(np.linalg.cholesky(noise * left))

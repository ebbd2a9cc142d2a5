"""What a fitted Gaussian model says about rows: posterior, densities, missing entries, draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from anypca._typing import Floats
from anypca.engine import Block
from anypca.models._gaussian.posterior import find_patterns
from anypca.models.piecewise._pieces import Pieces
from anypca.models.piecewise._posterior import Mixture, Part, find_mixture
from anypca.special import log_ndtr_difference


@dataclass(frozen=True)
class Summary:
    """Of the latent points of a block's rows."""

    mean: Floats
    """(rows, q)"""
    std: Floats
    """(rows, q)"""
    probability: Floats
    """Of the pieces (rows, K)."""
    log_density: Floats
    """(rows,)"""


@dataclass(frozen=True)
class GaussianRows:
    """The fitted model, for rows.

    Parameters
    ----------
    pieces : Pieces
    """

    pieces: Pieces

    def summarise(self, block: Block) -> Summary:
        """Posterior means, standard deviations, probabilities of the pieces, and log densities of a block's rows."""
        mixture = self._mixture(block)
        mean = mixture.mean
        variance = np.zeros_like(mean)
        for k, part in enumerate(mixture.parts):
            r = mixture.probability[:, k, None]
            diagonal = mixture.patterns.spread(self.pieces.noise * np.einsum("iaa->ia", part.whole.inverse))
            lost = (part.scale**2 * (part.shrinkage - 1.0))[:, None]
            along = mixture.patterns.spread(part.direction)
            variance += r * (diagonal + lost * along**2 + (part.mean - mean) ** 2)
        return Summary(mean, np.sqrt(np.maximum(variance, 0.0)), mixture.probability, mixture.log_density)

    def log_density(self, block: Block) -> Floats:
        """Exact marginal log densities of the observed entries (rows,)."""
        return self._mixture(block).log_density

    def predict(self, block: Block) -> Floats:
        """``E[mu + B w | y]``, all entries (rows, n_features)."""
        mixture = self._mixture(block)
        return self._expected(mixture)

    def fill(self, block: Block, *, with_std: bool) -> tuple[Floats, Floats | None]:
        """The block with missing entries replaced by conditional means; their standard deviations or None."""
        table = block.read()
        if table.observed is None:
            return table.x, np.zeros_like(table.x) if with_std else None
        mixture = self._mixture(block)
        missing = ~table.observed
        expected = self._expected(mixture)
        table.x[missing] = expected[missing]
        if not with_std:
            return table.x, None
        std = np.sqrt(self._predictive_variance(mixture, expected))
        return table.x, np.where(missing, std, 0.0).astype(block.dtype)

    def draw_latent(self, block: Block, n_draws: int, seed: int) -> Floats:
        """Exact draws of the latent points given the rows (n_draws, rows, q)."""
        rng = np.random.default_rng([seed, block.start])
        mixture = self._mixture(block)
        return np.stack([_draw(mixture, self.pieces, rng) for _ in range(n_draws)])

    def draw(self, n_samples: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """New rows (n_samples, n_features) and their latent points (n_samples, q)."""
        w = rng.standard_normal((n_samples, self.pieces.n_components))
        noise = rng.standard_normal((n_samples, self.pieces.maps.shape[1])) * np.sqrt(self.pieces.noise)
        return self.pieces.predict(w) + noise, w

    def _mixture(self, block: Block) -> Mixture:
        table = block.read()
        return find_mixture(table, self.pieces, find_patterns(table.observed, block.n_rows))

    def _expected(self, mixture: Mixture) -> Floats:
        value = np.zeros((len(mixture.log_density), self.pieces.maps.shape[1]))
        for k, matrix in enumerate(self.pieces.maps):
            value += mixture.probability[:, k, None] * (
                mixture.parts[k].mean @ matrix[:, :-1].T + matrix[:, -1]
            )
        return value

    def _predictive_variance(self, mixture: Mixture, expected: Floats) -> Floats:
        """Variances of entries that are not observed (rows, n_features)."""
        noise = self.pieces.noise
        variance = np.full(expected.shape, noise)
        for k, matrix in enumerate(self.pieces.maps):
            part, B = mixture.parts[k], matrix[:, :-1]
            whole = noise * np.einsum("ja,iab,jb->ij", B, part.whole.inverse, B, optimize=True)
            lost = (part.scale**2 * (part.shrinkage - 1.0))[:, None]
            along = mixture.patterns.spread(part.direction @ B.T)
            gap = part.mean @ B.T + matrix[:, -1] - expected
            r = mixture.probability[:, k, None]
            variance += r * (mixture.patterns.spread(whole) + lost * along**2 + gap**2)
        return variance


def _draw(mixture: Mixture, pieces: Pieces, rng: np.random.Generator) -> Floats:
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

"""Posteriors of latents: their modes, and normals around these to draw from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from anypca._typing import Bools, Floats, Ints
from anypca.families import Family
from anypca.linalg import solve_spd
from anypca.models._block_view import BlockView
from anypca.models._network import Network

# Squared length of a step in units of the posterior's deviations at which a mode is found: a billionth of a
# deviation, which is the rounding of a gradient.
_CLOSE = 1e-18
# Steps to a mode: Gauss-Newton takes about ten; it converges slowly if the decoder is strongly nonlinear.
_MOST_STEPS = 60
# Relative rounding error of a row's sum. Near a mode gains are below it while steps are still 1e-8 deviations long:
# a row that stopped there would end at a point that depends on the order of summation.
_ROUNDING = 8.0 * float(np.finfo(float).eps)
# Halvings of a step without gain; after that many the change is rounding error.
_MOST_HALVINGS = 30
# Numbers in the largest temporary array: 16 MB.
_MOST_NUMBERS = 2**21
# Share of the draws that goes to all modes alike, so that none is forgotten whose evidence is underestimated.
_SHARE_FOR_ALL = 0.2
_LOG_2PI = float(np.log(2.0 * np.pi))


class Modes(NamedTuple):
    """Modes of the posteriors of rows, and their precision."""

    points: Floats
    """(rows, k)."""
    height: Floats
    """Log joint density up to terms that do not depend on latents, (rows,)."""
    precision: Floats
    """(rows, k, k)."""


class Slope(NamedTuple):
    """Log joint density of rows and latents, with derivatives."""

    height: Floats
    gradient: Floats
    precision: Floats
    """Gauss-Newton Hessian (without second derivatives of the decoder): positive definite."""


@dataclass(frozen=True, eq=False)
class Likelihood:
    """``log p(x | z) + log p(z)`` of rows as a function of latents z, up to constants."""

    family: Family
    dispersion: Floats
    decoder: Network

    def height(self, rows: BlockView, z: Floats) -> Floats:
        """(rows,); minus infinity where numbers overflow."""
        with np.errstate(over="ignore", invalid="ignore"):
            eta = rows.shifted(self.decoder(z))
            terms = self.family.evaluate(rows.x, eta, self.dispersion, order=0).value
            total = rows.only_observed(terms).sum(axis=1) - 0.5 * (z**2).sum(axis=1)
        return np.where(np.isfinite(total), total, -np.inf)

    def best_of(self, rows: BlockView, points: Floats) -> Floats:
        """For each row the highest of some points (m, k), shape (rows, k)."""
        places = (len(rows.x), points.shape[1])
        heights = [self.height(rows, np.broadcast_to(point, places)) for point in points]
        return np.asarray(points[np.argmax(heights, axis=0)])

    def slope(self, rows: BlockView, z: Floats) -> Slope:
        """The height with its derivatives in z."""
        (features, tangent), last = self.decoder.features(z), self.decoder.layers[-1]
        with np.errstate(over="ignore", invalid="ignore"):
            eta = rows.shifted(features @ last.weights + last.bias)
            value, score, curvature = self.family.evaluate(rows.x, eta, self.dispersion, order=2)
        jacobian = tangent @ last.weights
        height = rows.only_observed(value).sum(axis=1) - 0.5 * (z**2).sum(axis=1)
        gradient = np.einsum("nap,np->na", jacobian, rows.only_observed(score)) - z
        weighted = jacobian * rows.only_observed(curvature)[:, None, :]
        return Slope(height, gradient, weighted @ jacobian.transpose(0, 2, 1) + np.eye(z.shape[1]))

    def modes(self, rows: BlockView, start: Floats) -> Modes:
        """Find modes from starts (rows, k), a few rows at a time; from 0 if the density at a start overflows."""
        size = max(1, _MOST_NUMBERS // (rows.x.shape[1] * start.shape[1]))
        parts = [slice(first, first + size) for first in range(0, len(start), size)]
        found = [self._climb(rows.take(part), start[part]) for part in parts]
        return Modes(*(np.concatenate(field) for field in zip(*found, strict=True)))

    def _climb(self, rows: BlockView, start: Floats) -> Modes:
        # If the likelihood overflows at a start, use the mean of the prior, where it is finite.
        z = np.where(np.isfinite(self.height(rows, start))[:, None], start, 0.0)
        slope = self.slope(rows, z)
        moving: Ints = np.arange(len(z))
        for _ in range(_MOST_STEPS):
            step = solve_spd(slope.precision[moving], slope.gradient[moving])
            is_far = np.einsum("na,na->n", step, slope.gradient[moving]) > _CLOSE
            moving, step = moving[is_far], step[is_far]
            if not moving.size:
                break
            some = rows.take(moving)
            gained, z[moving] = self._along(some, z[moving], step, slope.height[moving])
            moving, some = moving[gained], some.take(np.flatnonzero(gained))
            for old, new in zip(slope, self.slope(some, z[moving]), strict=True):
                old[moving] = new
        return Modes(z, slope.height, slope.precision)

    def _along(self, rows: BlockView, z: Floats, step: Floats, height: Floats) -> tuple[Bools, Floats]:
        """Which rows lose nothing by a step or a part of it, and where all are then."""
        gained = np.zeros(len(z), dtype=bool)
        least = height - _ROUNDING * (1.0 + np.abs(height))
        z, length = z.copy(), 1.0
        for _ in range(_MOST_HALVINGS):
            left = np.flatnonzero(~gained)
            if not left.size:
                break
            trial = z[left] + length * step[left]
            better = self.height(rows.take(left), trial) > least[left]
            z[left[better]] = trial[better]
            gained[left[better]] = True
            length *= 0.5
        return gained, z


class Proposal(NamedTuple):
    """For each row a mixture of normals around modes, to draw from."""

    points: Floats
    """(rows, modes, k)."""
    precision: Floats
    """(rows, modes, k, k)."""
    log_weights: Floats
    """(rows, modes)."""

    @classmethod
    def around(cls, modes: list[Modes]) -> Proposal:
        """Weights by Laplace's approximation of the evidence of each mode."""
        points, heights, precisions = (
            np.stack(field, axis=1) for field in zip(*(tuple(found) for found in modes), strict=True)
        )
        # Laplace's approximation of the posterior mass of each mode.
        evidence = heights - 0.5 * np.linalg.slogdet(precisions)[1]
        share = np.exp(evidence - logsumexp(evidence, axis=1, keepdims=True))
        weights = (1.0 - _SHARE_FOR_ALL) * share + _SHARE_FOR_ALL / len(modes)
        return cls(points, precisions, np.log(weights))

    def draw(self, noise: Floats) -> Floats:
        """Points (rows, draws, k) from standard normals (draws, k): each mode gets its share of them."""
        n, k = len(self.points), self.points.shape[2]
        # A mode of weight w gets that share of the draws, and not a random number of them.
        order = (np.arange(len(noise)) + 0.5) / len(noise)
        edges = np.cumsum(np.exp(self.log_weights), axis=1)[:, :-1]
        chosen = (order[None, :, None] > edges[:, None, :]).sum(axis=2)
        # z = mode + L^-T e has the precision L L'.
        factors = np.linalg.cholesky(self.precision)
        inverse = np.linalg.solve(factors.swapaxes(-1, -2), np.broadcast_to(np.eye(k), factors.shape))
        which = np.arange(n)[:, None]
        moved = np.einsum("ndab,db->nda", inverse[which, chosen], noise)
        return np.asarray(self.points[which, chosen] + moved)

    def log_density(self, z: Floats) -> Floats:
        """Log density of points (rows, draws, k), shape (rows, draws)."""
        k = z.shape[2]
        terms = np.empty((*z.shape[:2], self.points.shape[1]))
        half = 0.5 * (np.linalg.slogdet(self.precision)[1] - k * _LOG_2PI) + self.log_weights
        for mode in range(terms.shape[2]):
            gap = z - self.points[:, None, mode]
            squares = np.einsum("nda,nab,ndb->nd", gap, self.precision[:, mode], gap, optimize=True)
            terms[:, :, mode] = half[:, None, mode] - 0.5 * squares
        return np.asarray(logsumexp(terms, axis=2))


def marginal(likelihood: Likelihood, rows: BlockView, starts: list[Floats], noise: Floats) -> Floats:
    """Log-likelihood of each row with the latents integrated out by importance sampling, (rows,).

    Parameters
    ----------
    likelihood : Likelihood
    rows : BlockView
    starts : list of ndarray of shape (rows, k)
        Where the search for modes starts.
    noise : ndarray of shape (draws, k)
        Standard normals, the same for all rows, so that a row's answer does not depend on its neighbours.
    """
    base = likelihood.family.log_base_measure(rows.x, likelihood.dispersion)
    constant = rows.only_observed(base).sum(axis=1) - 0.5 * noise.shape[1] * _LOG_2PI
    size = max(1, _MOST_NUMBERS // (rows.x.shape[1] * len(noise)))
    found = []
    for first in range(0, len(rows.x), size):
        part = slice(first, first + size)
        some = rows.take(part)
        proposal = Proposal.around([likelihood.modes(some, start[part]) for start in starts])
        z = proposal.draw(noise)
        flat = z.reshape(-1, z.shape[2])
        heights = likelihood.height(some.take(np.repeat(np.arange(some.n_rows), len(noise))), flat).reshape(
            z.shape[:2]
        )
        found.append(logsumexp(heights - proposal.log_density(z), axis=1) - np.log(len(noise)))
    return np.asarray(constant + np.concatenate(found))

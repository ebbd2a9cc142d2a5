"""Quadrature rules for a normal distribution that is cut into slabs along one coordinate."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from anypca._typing import Floats, Ints

# Nodes along t on each slab: a Gauss rule of the truncated normal density, exact for polynomials of degree 15.
_ALONG = 8
# Gauss-Legendre nodes that represent the density when that rule is computed, and the standard deviations that they
# reach: the mass beyond is below the rounding of the rest.
_DENSE = 32
_REACH = 7.0
# A slab with less mass than this adds nothing that the bound resolves.
_LEAST_MASS = 1e-15


@lru_cache
def hermite(n: int) -> tuple[Floats, Floats]:
    """Nodes and weights (n,) for the standard normal distribution."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n)
    return nodes, weights / weights.sum()


@lru_cache
def _legendre(n: int) -> tuple[Floats, Floats]:
    return np.polynomial.legendre.leggauss(n)


def slab_rule(mean: Floats, std: Floats, low: float, high: float) -> tuple[Ints, Floats, Floats]:
    """Gauss rules for the parts of N(mean, std^2) between two ends.

    Parameters
    ----------
    mean, std : ndarray of shape (n,)
    low, high : float

    Returns
    -------
    index : ndarray of shape (r,)
        The distributions with mass on the slab.
    u : ndarray of shape (r, nodes)
        Nodes in standard deviations from the mean.
    weight : ndarray of shape (r, nodes)
        They sum to the probability of the slab.
    """
    a, b = np.maximum((low - mean) / std, -_REACH), np.minimum((high - mean) / std, _REACH)
    u, weight = (np.tile(part, (len(mean), 1)) for part in hermite(_ALONG))
    is_cut, is_kept = (a > -_REACH) | (b < _REACH), a < b
    cut = np.flatnonzero(is_cut & is_kept)
    u[cut], weight[cut] = _truncated_rule(a[cut], b[cut])
    is_kept &= weight.sum(axis=1) > _LEAST_MASS
    return np.flatnonzero(is_kept), u[is_kept], weight[is_kept]


def _truncated_rule(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Gauss rules of the standard normal density between a and b (n,), by the Stieltjes procedure (n, nodes)."""
    nodes, weights = _legendre(_DENSE)
    half = 0.5 * (b - a)[:, None]
    x = 0.5 * (a + b)[:, None] + half * nodes
    density = half * weights * np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi)
    mass = density.sum(axis=1)
    jacobi = np.zeros((len(a), _ALONG, _ALONG))
    # Orthonormal polynomials by their three-term recurrence, on the dense nodes.
    root = np.sqrt(density / np.where(mass > 0, mass, 1.0)[:, None])
    before, now, off = np.zeros_like(root), root, np.zeros((len(a), 1))
    for j in range(_ALONG):
        centre = (x * now * now).sum(axis=1, keepdims=True)
        jacobi[:, j, j] = centre[:, 0]
        if j == _ALONG - 1:
            break
        after = (x - centre) * now - off * before
        off = np.sqrt((after * after).sum(axis=1, keepdims=True))
        jacobi[:, j, j + 1] = jacobi[:, j + 1, j] = off[:, 0]
        before, now = now, np.divide(after, off, out=np.zeros_like(after), where=off > 0)
    u, vectors = np.linalg.eigh(jacobi)
    return u, mass[:, None] * vectors[:, 0] ** 2

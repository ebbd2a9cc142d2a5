"""Integrals over a slab: in closed form for the predictor and its exponential, else by nested quadrature.

The quadrature is by Gauss-Legendre along t and by Gauss-Hermite across it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from anypca._typing import Floats, Ints

_ROOT_2PI = float(np.sqrt(2.0 * np.pi))
# Predictors that are evaluated at once: six arrays of this size share a second-level cache of 2 MB. With twice or half
# as many the bound of 500 rows of 12 bits takes a third or a fifth longer.
_MOST_ELEMENTS = 2**15


@dataclass(frozen=True)
class Rule:
    """Numbers of nodes, and how far along t they reach.

    One Gauss-Hermite rule in the predictor, with the probability of the slab given the predictor as a weight, would
    need fewer nodes, but that weight is a step where the predictor tells t: 64 nodes leave errors of 0.09.
    """

    along: int = 20
    """Nodes in t on a slab. With 20, 9 and 6 the worst of 60 random cases of seven families is off by 2e-5 of its
    size, with 16 and 7 by 1e-4, and with 32, 11 and 8 by 5e-6."""
    across: int = 9
    """Nodes in the direction of the other coordinates; there is none where they do not matter."""
    reach: float = 6.0
    """In posterior standard deviations of t; beyond 6 of them lies a mass of 2e-9."""


FINE = Rule()
#: A third of the work, for starts: errors of the bound are then below 1e-3 of its size.
COARSE = Rule(12, 5, 5.0)


@lru_cache
def _legendre(n: int) -> tuple[Floats, Floats]:
    return np.polynomial.legendre.leggauss(n)


@lru_cache
def _hermite(n: int) -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(n)
    return nodes, weights / weights.sum()


@dataclass(frozen=True)
class Predictors:
    """Predictors of one piece given t: normal, with mean ``level + slope t``."""

    level: Floats
    """(rows, n_features)"""
    slope: Floats
    """(n_features,)"""
    spread: Floats
    """Standard deviations given t (rows, n_features)."""
    mean: Floats
    """Of t (rows,)."""
    std: Floats
    """Of t (rows,)."""

    def take(self, rows: Ints) -> Predictors:
        """Some of the rows."""
        return Predictors(self.level[rows], self.slope, self.spread[rows], self.mean[rows], self.std[rows])


class Nodes(NamedTuple):
    """Nodes of both rules, one after the other (rows, nodes), and how they move with the normal distribution of t."""

    t: Floats
    z: Floats
    weight: Floats
    """With the density of t."""
    t_by_mean: Floats
    t_by_std: Floats
    weight_by_mean: Floats
    weight_by_std: Floats


def integrate(
    function: Callable[[Floats, Ints], Floats], on: Predictors, ends: tuple[float, float], rule: Rule
) -> Floats:
    """``E[f(eta) 1(low < t < high)]`` (rows, n_features).

    Parameters
    ----------
    function : callable
        From predictors (rows, nodes, n_features) and the numbers of their rows to f.
    on : Predictors
    ends : tuple of float
        Of the slab.
    rule : Rule
    """
    found = np.zeros_like(on.level)
    for part in _parts(on, ends, rule):
        some = on.take(part)
        nodes = make_nodes(some, ends, rule)
        found[part] = (nodes.weight[:, None] @ function(_predict(some, nodes), part))[:, 0]
    return found


class Integrals(NamedTuple):
    """Integrals of a function l of the predictors and of its derivatives over a slab, (rows, n_features) each."""

    value: Floats
    """``E[l 1_k]``"""
    by_mean: Floats
    """Its derivative with respect to the mean of t."""
    by_std: Floats
    """And to the standard deviation of t."""
    slope: Floats
    """``E[l' 1_k]``"""
    slope_t: Floats
    """``E[t l' 1_k]``"""
    across: Floats
    """Twice the derivative with respect to the variance of the predictor given t: ``E[l'' 1_k]``."""
    curvature: Floats
    """``E[l'' 1_k]``, or what stands for l'' in steps where l is not concave."""
    curvature_t: Floats
    """``E[t l'' 1_k]``"""
    curvature_tt: Floats
    """``E[t^2 l'' 1_k]``"""


def integrate_derivatives(
    functions: Callable[[Floats, Ints], Sequence[Floats]],
    on: Predictors,
    ends: tuple[float, float],
    rule: Rule,
) -> Integrals:
    """The same of l, l' and l'', with derivatives that are those of the rule, however few nodes it has."""
    found = np.zeros((9, *on.level.shape))
    for part in _parts(on, ends, rule):
        some = on.take(part)
        nodes = make_nodes(some, ends, rule)
        value, slope, curvature = functions(_predict(some, nodes), part)
        t, z, weight = nodes[:3]
        rows = (
            np.stack([weight, nodes.weight_by_mean, nodes.weight_by_std], axis=1) @ value,
            np.stack([weight, weight * t, weight * z], axis=1) @ slope,
            np.stack([weight, weight * t, weight * t * t], axis=1) @ curvature,
        )
        found[:, part] = np.concatenate(rows, axis=1).swapaxes(0, 1)
        moves = np.stack([weight * nodes.t_by_mean, weight * nodes.t_by_std], axis=1) @ slope
        found[1:3, part] += moves.swapaxes(0, 1) * on.slope
    # Without a spread there is one node across, z = 0, and nothing depends on the variance.
    found[5] = np.divide(found[5], on.spread, out=found[6].copy(), where=on.spread > 0)
    return Integrals(*found)


def make_nodes(on: Predictors, ends: tuple[float, float], rule: Rule) -> Nodes:
    """Gauss-Legendre nodes on the part of a slab that carries mass, each with Gauss-Hermite nodes across."""
    g, weights = _legendre(rule.along)
    mean, std = on.mean[:, None], on.std[:, None]
    left, right = (end[:, None] for end in _reached(on, ends, rule))
    half, lower, upper = 0.5 * (right - left), 0.5 * (1.0 - g), 0.5 * (1.0 + g)
    t = left * lower + right * upper
    u = (t - mean) / std
    weight = half * weights * np.exp(-0.5 * u * u) / (_ROOT_2PI * std)
    # An end that is not that of the slab moves with the mean, and by ``reach`` with the standard deviation.
    free_left, free_right = left > ends[0], right < ends[1]
    t_by_mean = free_left * lower + free_right * upper
    t_by_std = rule.reach * (free_right * upper - free_left * lower)
    grows_by_mean = (1.0 * free_right - free_left) / (right - left)
    grows_by_std = rule.reach * (1.0 * free_right + free_left) / (right - left)
    by_mean = weight * (grows_by_mean + u * (1.0 - t_by_mean) / std)
    by_std = weight * (grows_by_std + (u * (u - t_by_std) - 1.0) / std)
    return _across(on, (t, weight, t_by_mean, t_by_std, by_mean, by_std), rule)


def _across(on: Predictors, along: tuple[Floats, ...], rule: Rule) -> Nodes:
    """All pairs of nodes along (rows, .) and across."""
    z, v = _hermite(rule.across if on.spread.any() else 1)
    one = np.ones_like(z)
    factors = (one, v, one, one, v, v)
    t, weight, t_by_mean, t_by_std, by_mean, by_std = (
        (part[:, :, None] * factor).reshape(len(part), -1)
        for part, factor in zip(along, factors, strict=True)
    )
    nodes = np.broadcast_to(np.tile(z, along[0].shape[1]), t.shape)
    return Nodes(t, nodes, weight, t_by_mean, t_by_std, by_mean, by_std)


def _predict(on: Predictors, nodes: Nodes) -> Floats:
    """Predictors at all nodes (rows, nodes, n_features)."""
    eta = nodes.t[:, :, None] * on.slope
    eta += on.level[:, None]
    if nodes.z.any():
        eta += nodes.z[:, :, None] * on.spread[:, None]
    return eta


def _reached(on: Predictors, ends: tuple[float, float], rule: Rule) -> tuple[Floats, Floats]:
    """The part of a slab that carries mass, (rows,) each: the lower end above the upper one where there is none."""
    reach = rule.reach * on.std
    return np.maximum(ends[0], on.mean - reach), np.minimum(ends[1], on.mean + reach)


def _parts(on: Predictors, ends: tuple[float, float], rule: Rule) -> Iterator[Ints]:
    """Rows with mass on a slab, so many at a time that their predictors fit into a cache."""
    left, right = _reached(on, ends, rule)
    rows = np.flatnonzero(left < right)
    size = max(_MOST_ELEMENTS // (rule.along * rule.across * len(on.slope)), 1)
    return (rows[start : start + size] for start in range(0, len(rows), size))


class Slab(NamedTuple):
    """Moments of N(mean, std^2) on an interval, elementwise: of 1, x and x^2, and the density at its ends."""

    zeroth: Floats
    first: Floats
    second: Floats
    at_low: Floats
    at_high: Floats


def slab_moments(mean: Floats, std: Floats, low: float, high: float) -> Slab:
    """Moments on the interval (low, high), the density being 0 at infinite ends."""
    a, b = (low - mean) / std, (high - mean) / std
    # Upper tails are differences of small numbers only when taken from above.
    above = a > 0
    zeroth = np.where(above, ndtr(-a) - ndtr(-b), ndtr(b) - ndtr(a))
    at_low, at_high = (np.exp(-0.5 * z * z) / (_ROOT_2PI * std) for z in (a, b))
    first = mean * zeroth + std**2 * (at_low - at_high)
    low, high = (end if np.isfinite(end) else 0.0 for end in (low, high))
    second = (mean**2 + std**2) * zeroth + std**2 * ((mean + low) * at_low - (mean + high) * at_high)
    return Slab(zeroth, first, second, at_low, at_high)


def linear_integrals(
    level: Floats, b: Floats, mean: Floats, std: Floats, low: float, high: float
) -> Integrals:
    """Integrals over a slab of the predictor itself, ``level + b t`` on average given t, under N(mean, std^2) of t."""
    mass, first, _, *densities = slab_moments(mean, std, low, high)
    zero = np.zeros_like(level)
    ends = [
        (level + b * end) * density if np.isfinite(end) else zero
        for end, density in zip((low, high), densities, strict=True)
    ]
    by_mean, by_std = _move(b, mass, first, ends, low, high, mean, std)
    value = level * mass + b * first
    return Integrals(value, by_mean, by_std, mass + zero, first + zero, zero, zero, zero, zero)


def rate_integrals(
    matrix: Floats, offset: Floats | None, low: float, high: float, m: Floats, s: Floats
) -> Integrals:
    """Integrals over a slab of ``exp(eta)``, with the map ``matrix`` (n_features, q + 1), under N(m, diag s^2)."""
    B, mean, std = matrix[:, :-1], m[:, -1:], s[:, -1:]
    eta = m @ B.T + matrix[:, -1] + 0.5 * (s * s) @ (B * B).T
    if offset is not None:
        eta += offset
    # Under the measure tilted by exp(b t) the last coordinate is normal with this mean.
    tilted = slab_moments(mean + std**2 * B[:, -1], std, low, high)
    H, first, second, *ends = (np.exp(eta) * moment for moment in tilted)
    by_mean, by_std = _move(B[:, -1], H, first, ends, low, high, mean, std)
    return Integrals(H, by_mean, by_std, H, first, H, H, first, second)


def _move(
    b: Floats,
    slope: Floats,
    slope_t: Floats,
    ends: Sequence[Floats],
    low: float,
    high: float,
    mean: Floats,
    std: Floats,
) -> tuple[Floats, Floats]:
    """Derivatives of an integral with respect to the mean and the standard deviation of t.

    ``ends`` are the integrand at the ends of the slab, ``E[l | t]`` times the density of t; 0 at infinity.
    """
    by_mean = b * slope + ends[0] - ends[1]
    by_std = b * (slope_t - mean * slope)
    for value, end, sign in zip(ends, (low, high), (1.0, -1.0), strict=True):
        if np.isfinite(end):
            by_std = by_std + sign * (end - mean) * value
    return by_mean, by_std / std

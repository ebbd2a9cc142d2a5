r"""Evidence of a fit: the bound, corrections for its factorised posterior, and the cost of the ARD precisions.

*Gauge correction.* A posterior that factorises into rows and columns holds each side fixed against the other. Scores
and loadings can however move together, the scores by a matrix and the loadings by its inverse, without a change of any
predictor: rotations, scales, and shifts into the intercept. Along these directions the true posterior is only as
narrow as the priors make it. In a normal approximation with precision :math:`X + N` for the
columns' part of the move, :math:`Y + N` for the rows' and :math:`K - N` between them (N from the likelihood, X and Y
from priors and from what is unknown of the other side), the factorised posterior loses
:math:`\tfrac12 \log\det(N + Y) - \tfrac12 \log\det S` with
:math:`S = N + Y - (N - K)' (N + X)^{-1} (N - K)`.

K is the second-order change of the predictor by moves of both sides, :math:`w_b \to w_b + A_{ab} w_a` and
:math:`z_b \to z_b - B_{ba} z_a`: it changes by :math:`-A_{ab} B_{ba} w_a z_a`, along which the likelihood's slope is
what holds the component against prior and shrinkage, :math:`T_a = X_{aa} = Y_{aa}` at the optimum. K doubles the
precision of scales, and removes the precision of a rotation of two equal components, which only exchanges their names.
The other directions of such rotations fill the orthogonal group, not more.

The factorised posterior also sits at one of the two signs of each component, and so loses :math:`k \log 2`. More
components have more such directions and signs: evidence without these terms favours too few.

*Residual correction.* See `residual_correction`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from anypca._typing import Floats
from anypca.engine import Block, Statistics
from anypca.families.mixed import with_tight_expectation
from anypca.linalg import (
    pack_symmetric,
    packed_diagonal,
    packed_position,
    packed_products,
    unpack_symmetric,
)
from anypca.models._block_view import open_block
from anypca.models.sepca._dispersion import bound_gap, log_prior
from anypca.models.sepca._posterior import Loadings, Moments, Scores
from anypca.models.sepca._state import PRUNE_RATIO, State
from anypca.models.sepca._sweep import Expectation


@dataclass(frozen=True, eq=False)
class GaugeSums(Statistics):
    """Sums over rows for the corrections."""

    likelihood: Floats
    """Packed sums of curvature times products of the scores' means, (n_features, m (m + 1) / 2)."""
    unknown: Floats
    """The same with the scores' covariances."""
    rows: Floats
    """Sums of products of means times precision, without the part of the loadings' means,
    (m (m + 1) / 2, k (k + 1) / 2)."""


def evidence(state: State) -> float:
    """Bound on the log evidence with all corrections."""
    k, ratio = state.n_components, state.loadings.signal_ratio
    # Fitted ARD precisions cost half the logarithm of the number of loadings each, as in BIC.
    ard_cost = 0.5 * k * float(np.log(len(state.loadings.mean)))
    plain = state.bound + bound_gap(state) + log_prior(state) - ard_cost
    # The posterior of components at their prior, which only a fixed number of them can contain, does factorise.
    unused = np.flatnonzero(ratio < PRUNE_RATIO)
    used = state.without(unused, "relevance") if unused.size else state
    if used.n_components == 0:
        return plain
    loadings, sums = used.loadings, gauge_sums(used)
    return (
        plain + gauge_correction(loadings, sums) + residual_correction(loadings, sums.unknown, state.weight)
    )


def gauge_sums(state: State) -> GaugeSums:
    """Sums over the rows of a fit."""
    problem, shared = state.problem, state.loadings

    def visit(block: Block, scores: Scores) -> GaugeSums:
        rows = open_block(block, fit_intercept=problem.fit_intercept, family=problem.family)
        k, m, weights = shared.n_components, shared.mean.shape[1], rows.weights[:, None]
        moments = Moments.of(scores, rows.features)
        outer = packed_products(moments.design)
        likelihood, unknown = (np.empty_like(shared.precision) for _ in range(2))
        covariance = shared.covariance[:, packed_position(m, k)]
        precision = np.tile(pack_symmetric(np.eye(k)), (rows.n_rows, 1))
        for tile, _, _, curvature in Expectation(with_tight_expectation(problem.family), shared, rows).tiles(
            moments
        ):
            likelihood[tile] = curvature.T @ (outer * weights)
            unknown[tile] = curvature.T @ ((moments.second - outer) * weights)
            precision += curvature @ covariance[tile]
        return GaugeSums(likelihood, unknown, outer.T @ (precision * weights))

    found: GaugeSums = state.noise.session.sum(visit, state.local)
    return found


def gauge_correction(shared: Loadings, sums: GaugeSums) -> float:
    """Gain of the evidence by moves of both sides, by the formula above."""
    k, m = shared.n_components, shared.mean.shape[1]
    products = packed_products(shared.mean[:, :k])
    N, X = (
        _generators(products.T @ part, k, m) for part in (sums.likelihood, shared.with_prior(sums.unknown))
    )
    Y = _generators(sums.rows.T, k, m)
    # Components without signal can move freely on either side: nothing is lost along such directions.
    least = max(0.5 * _angle_precision(k), np.finfo(float).tiny)
    parts = (N + Y, _joint(N, X, Y, _second_order(X, Y, k, m)))
    apart, joint = (np.log(np.maximum(np.linalg.eigvalsh(part), least)).sum() for part in parts)
    n_signs = np.count_nonzero(shared.mean[:, :k].any(axis=0))
    return n_signs * float(np.log(2.0)) + 0.5 * float(apart - joint)


def _joint(N: Floats, X: Floats, Y: Floats, K: Floats) -> Floats:
    """Precision of moves of both sides together, S above, without the cancellation of large N."""
    held = np.linalg.pinv(N + X, hermitian=True) @ np.hstack([X, K])
    left, turned = N @ held[:, : len(N)], N @ held[:, len(N) :]
    found = Y + left + turned + turned.T - K.T @ held[:, len(N) :]
    return np.asarray(0.5 * (found + found.T))


def _second_order(X: Floats, Y: Floats, k: int, m: int) -> Floats:
    """K above, (k m, k m), from moves (a, b) of the columns to moves (b, a) of the rows."""
    own = np.arange(k) * (m + 1)
    slope = np.minimum(X[own, own], Y[own, own])
    first, second = (index.ravel() for index in np.indices((k, k)))
    K = np.zeros_like(X)
    K[first * m + second, second * m + first] = slope[first]
    return K


def _angle_precision(k: int) -> float:
    """Precision of an angle between two of k components whose normal density is as wide as rotations are.

    These fill the orthogonal group, whose volume is the product over the unit spheres of 1 to k dimensions; signs are
    counted apart. An angle's share of it is the k (k - 1) / 2-th root.
    """
    if k < 2:
        return 0.0
    sides = np.arange(2, k + 1)
    spheres = np.log(2.0) + 0.5 * sides * np.log(np.pi) - gammaln(0.5 * sides)
    share = 2.0 * (spheres.sum() - (k - 1) * np.log(2.0)) / (k * (k - 1))
    return float(2.0 * np.pi * np.exp(-2.0 * share))


def residual_correction(shared: Loadings, unknown: Floats, n: float) -> float:
    r"""Gain by the correlation of single scores and loadings through the residuals.

    The log-likelihood's derivative in :math:`z_{ik}` and :math:`w_{jk}` together is the residual of the entry. With the
    squared singular values :math:`\lambda` of the residuals and the precisions A and D of a component's scores and
    loadings the factorised posterior loses :math:`-\tfrac12 \sum \log(1 - \lambda / (A D))`. Here it is taken to
    third order with the moments of pure noise,

    .. math:: f + \frac{n + p}{n p} f^2 + \frac43 \frac{n^2 + 3 n p + p^2}{(n p)^2} f^3,

    with :math:`f = \tfrac12 \sum_j h_j S [C_j]_{kk}` for each component.

    Parameters
    ----------
    shared : Loadings
    unknown : ndarray of shape (n_features, m (m + 1) / 2)
        Of `GaugeSums`.
    n : float
        Number of rows.
    """
    k, (p, m) = shared.n_components, shared.mean.shape
    diagonal = packed_diagonal(m)[:k]
    first = 0.5 * (unknown[:, diagonal] * shared.covariance[:, diagonal]).sum(axis=0)
    second = (n + p) / (n * p) * first**2
    third = 4.0 / 3.0 * (n * n + 3.0 * n * p + p * p) / (n * p) ** 2 * first**3
    return float((first + second + third).sum())


def _generators(packed: Floats, k: int, m: int) -> Floats:
    """Symmetric (k m, k m) matrix over moves (a, b) from its packed form over (a, c) and (b, d)."""
    outer = unpack_symmetric(packed.T, k)
    full = unpack_symmetric(outer.reshape(len(outer), k * k).T, m).reshape(k, k, m, m)
    return full.transpose(0, 2, 1, 3).reshape(k * m, k * m)

r"""What the evidence gains from the coupling of scores and loadings.

A posterior that factorises into rows and columns holds each side fixed against the other. Scores and loadings can
however move together, :math:`\tilde z \to` coordinates changed by a matrix and the loadings by its inverse, without a
change of any predictor: rotations, scales, and shifts into the intercept. Along these directions the true posterior is
only as narrow as the priors make it. In a normal approximation with precision :math:`X + N` for the columns' part of
the move, :math:`Y + N` for the rows' and :math:`-N` between them (N from the likelihood, X and Y from priors and
from what is unknown of the other side), the factorised posterior loses
:math:`\tfrac12 \log\det(N + Y) - \tfrac12 \log\det(Y + N (N + X)^{-1} X)`. It also sits at one of the two signs of
each component, and so loses :math:`k \log 2`. More components have more such directions and signs: evidence without
these terms favours too few.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats
from anypca.engine import Statistics
from anypca.linalg import packed_diagonal, packed_products, unpack_symmetric
from anypca.models.sepca._posterior import Loadings

# An angle lies in a circle, whatever the priors say. The normal density that is as high as the uniform one on a circle,
# sqrt(precision / (2 pi)) = 1 / (2 pi), has this precision.
_ANGLE_PRECISION = 1.0 / (2.0 * np.pi)


@dataclass(frozen=True, eq=False)
class CouplingSums(Statistics):
    """What `coupling_gain` needs to know of the rows; sums over blocks."""

    likelihood: Floats
    """Packed sums over rows of curvature times products of the scores' means, (n_features, m (m + 1) / 2)."""
    unknown: Floats
    """The same with the scores' covariances."""
    rows: Floats
    """Sums over rows of products of means times precision without what the means of the loadings give,
    (m (m + 1) / 2, k (k + 1) / 2)."""


def coupling_gain(shared: Loadings, sums: CouplingSums) -> float:
    """What the evidence gains, by the formula above."""
    k, m = shared.n_components, shared.mean.shape[1]
    products = packed_products(shared.mean[:, :k])
    N, X = (
        _generators(products.T @ part, k, m) for part in (sums.likelihood, shared.with_prior(sums.unknown))
    )
    Y = _generators(sums.rows.T, k, m)
    X += _ANGLE_PRECISION * np.eye(k * m)
    left = N @ np.linalg.solve(N + X, X)
    return k * float(np.log(2.0)) + 0.5 * float(np.linalg.slogdet(N + Y)[1] - np.linalg.slogdet(Y + left)[1])


def residual_gain(shared: Loadings, unknown: Floats, n: float) -> float:
    r"""What the correlation of single scores and loadings through the residuals adds.

    The log-likelihood's derivative in :math:`z_{ik}` and :math:`w_{jk}` together is the residual of the entry. With the
    squared singular values :math:`\lambda` of the residuals and the precisions A and D of a component's scores and
    loadings the factorised posterior loses :math:`-\tfrac12 \sum \log(1 - \lambda / (A D))`. Here it is taken to
    third order with the moments that pure noise has,

    .. math:: f + \frac{n + p}{n p} f^2 + \frac43 \frac{n^2 + 3 n p + p^2}{(n p)^2} f^3,

    with :math:`f = \tfrac12 \sum_j h_j S [C_j]_{kk}` for each component.

    Parameters
    ----------
    shared : Loadings
    unknown : ndarray of shape (n_features, m (m + 1) / 2)
        Of `CouplingSums`.
    n : float
        Number of rows.
    """
    k, (p, m) = shared.n_components, shared.mean.shape
    diagonal = packed_diagonal(m)[:k]
    covariance = (shared.second_moment - packed_products(shared.mean))[:, diagonal]
    first = 0.5 * (unknown[:, diagonal] * covariance).sum(axis=0)
    second = (n + p) / (n * p) * first**2
    third = 4.0 / 3.0 * (n * n + 3.0 * n * p + p * p) / (n * p) ** 2 * first**3
    return float((first + second + third).sum())


def _generators(packed: Floats, k: int, m: int) -> Floats:
    """Symmetric (k m, k m) matrix over moves (a, b) from its packed form over (a, c) and (b, d)."""
    outer = unpack_symmetric(packed.T, k)
    full = unpack_symmetric(outer.reshape(len(outer), k * k).T, m).reshape(k, k, m, m)
    return full.transpose(0, 2, 1, 3).reshape(k * m, k * m)

"""Draws in the coordinates in which they are reported, and what they say of the number of components."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anypca._typing import Floats, Ints
from anypca.linalg import fix_signs
from anypca.models._bayes.points import Point, align, take_components
from anypca.models.bepca._density import Factors


class Aligned(NamedTuple):
    """Draws turned to common coordinates, and the way there."""

    draws: Point
    """Scores (s, n, k) of unit second moment and coefficients (s, p, m)."""
    forward: Floats
    """New scores are ``(v - centre) forward``, shape (s, k, k)."""
    centre: Floats
    """(s, k)."""

    def reordered(self, order: Ints) -> Aligned:
        """The components in another order."""
        return Aligned(take_components(self.draws, order), self.forward[..., order], self.centre)


def align_draws(draws: Factors, *, centre: bool) -> Aligned:
    """Bring draws to scores of unit second moment, then turn them to the axes of the mean of ``V T'``.

    Parameters
    ----------
    draws : Factors
        With one leading axis.
    centre : bool
        Move the mean of each draw's scores into its intercept.
    """
    n, k = draws.scores.shape[1:]
    middle = draws.scores.mean(axis=1) if centre else np.zeros_like(draws.mean)
    moved = draws.scores - middle[:, None, :]
    values, vectors = np.linalg.eigh(np.swapaxes(moved, 1, 2) @ moved / n)
    # A direction in which a draw has no scores keeps its loadings, whatever they are.
    least = np.where(values[:, -1:] > 0, np.finfo(float).eps * values[:, -1:], 1.0)
    root = np.sqrt(np.maximum(values, least))[:, None, :]
    backward, forward = (vectors * root) @ vectors.swapaxes(1, 2), (vectors / root) @ vectors.swapaxes(1, 2)
    fixed = draws.fixed
    if centre:
        fixed = fixed + draws.loadings @ middle[:, :, None]
    standard = Point(moved @ forward, np.concatenate([draws.loadings @ backward, fixed], axis=-1))
    aligned = align(standard, principal_point(mean_product(standard), k, fixed.shape[-1]))
    # How the alignment turned each draw, read off from scores of unit mean square.
    turn = np.swapaxes(standard.scores, 1, 2) @ aligned.scores / n
    return Aligned(aligned, forward @ turn, middle)


def mean_product(draws: Point | Factors) -> Floats:
    """Mean of ``V T'`` over draws, without intercepts, shape (n_samples, n_features)."""
    total = np.zeros((draws.scores.shape[1], draws.joint.shape[1]))
    for scores, loadings in zip(draws.scores, draws.loadings, strict=True):
        total += scores @ loadings.T
    return total / len(draws.scores)


def principal_point(product: Floats, k: int, n_fixed: int) -> Point:
    """The k leading singular vectors of a product as scores of unit size and their loadings."""
    left, sizes, right = np.linalg.svd(product, full_matrices=False)
    signs, root = fix_signs(right[:k]), np.sqrt(len(product))
    loadings = (right[:k] * (sizes[:k] * signs / root)[:, None]).T
    return Point(left[:, :k] * signs * root, np.hstack([loadings, np.zeros((len(loadings), n_fixed))]))


def rank_bic(product: Floats, largest: int) -> dict[int, float]:
    r"""BIC of the number of dimensions of a mean predictor, larger is better.

    .. math:: -\tfrac12 \sum_{j > q} \sigma_j^2 - \tfrac12 q (N + D - q) \log N

    with the singular values of the predictor under noise of unit variance. Scores and loadings are both counted; with
    free noise the criterion would fail, since a draw has exactly k dimensions and no noise.
    """
    n, d = product.shape
    squares = np.linalg.svd(product, compute_uv=False) ** 2
    # q (n + d - q) numbers determine a matrix of rank q.
    ranks = range(min(largest, min(n, d)) + 1)
    return {q: float(-0.5 * squares[q:].sum() - 0.5 * q * (n + d - q) * np.log(n)) for q in ranks}

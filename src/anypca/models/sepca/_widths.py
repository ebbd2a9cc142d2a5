r"""Widths of the loadings' posterior.

The factorised posterior holds the scores fixed while it asks how well a column's loadings are known. What a table says
of them is less: with the scores integrated out, row i has the score

.. math:: g_{ij} = E_q[\ell'_{ij}\, \tilde z_i] = \bar\ell'_{ij}\, \tilde m_i - h_{ij}\, S_i w_j

in the coefficients of column j (by Stein's identity, as q is normal, with h the expected curvature), and the
information is the sum of its squares over the rows, :math:`\sum_i g_{ij} g_{ij}'` (Berndt, Hall, Hall and Hausman
1974). Where the scores are known well it is that of the factorised posterior. Where a column tells much of the scores
itself, as a yes/no answer with large loadings does, entries that agree with it say little of its loadings, since the
scores were moved to agree: the widths of such columns are up to twice as large.

Besides, all loadings of a component move together with its scores; see `_shared_moves`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block, Statistics
from anypca.linalg import PackedCholesky, pack_symmetric, packed_diagonal
from anypca.models._opened import open_block
from anypca.models.sepca._coupling import CouplingSums
from anypca.models.sepca._posterior import Loadings, snapped
from anypca.models.sepca._problem import VariationalProblem
from anypca.models.sepca._scores import Moments, Scores
from anypca.models.sepca._state import State
from anypca.models.sepca._sweeps import coupling_sums

# Products of numbers, a second or two of them, up to which scores are summed: for n rows, p columns and m coefficients
# n p m^2. Of larger tables, in which single columns say little of the scores, the expected information is used.
_MOST_PRODUCTS = 5e8


@dataclass(frozen=True, eq=False)
class ScoreSums(Statistics):
    """Sums of squares over rows."""

    products: Floats
    """Packed, shape (n_features, m (m + 1) / 2)."""


def loading_deviations(state: State) -> Floats:
    """Standard deviations of the loadings, 0 where they are exactly zero, shape (n_features, k)."""
    loadings, k = state.loadings, state.n_components
    if k == 0 or loadings.sparsity > 0:
        return np.where((snapped(loadings) == 0) & (loadings.sparsity > 0), 0.0, loadings.deviations)
    sums = coupling_sums(state)
    covariance = PackedCholesky(_information(state, sums), loadings.mean.shape[1]).inverse()
    alone = np.einsum("jaa->ja", covariance[:, :k, :k])
    return np.asarray(np.sqrt(alone + loadings.mean[:, :k] ** 2 @ _shared_moves(state, sums)))


def _information(state: State, sums: CouplingSums) -> Floats:
    """Precision of each column's coefficients with the scores integrated out, packed, (n_features, m (m + 1) / 2).

    What the precision of q(w) counts as known though the scores are not is left out of the expected information. It
    counts as m + 1 further rows, since the inverse of a sum over n rows is too large by n / (n - m - 1) on average.
    """
    loadings, m = state.loadings, state.loadings.mean.shape[1]
    expected = loadings.precision - sums.unknown
    if state.weight * len(loadings.mean) * m**2 > _MOST_PRODUCTS:
        return expected
    problem, shared = state.problem, replace(loadings, change=None)

    def visit(block: Block, scores: Scores) -> ScoreSums:
        return score_products(problem, block, shared, scores)

    found: ScoreSums = state.candidate.session.sum(visit, state.local)
    return np.asarray(loadings.with_prior(found.products) + (m + 1.0) / max(state.weight, 1.0) * expected)


def score_products(problem: VariationalProblem, block: Block, shared: Loadings, scores: Scores) -> ScoreSums:
    """The block's sums of products of the scores above."""
    rows = open_block(block, fit_intercept=problem.fit_intercept)
    k, moments = shared.n_components, Moments.of(scores, rows.features)
    covariance, root = moments.factor.inverse(), np.sqrt(rows.weights)[None, :, None]
    products = np.empty_like(shared.precision)
    for tile, _, working, curvature in problem.expectation(shared, rows).tiles(moments):
        slope = working - curvature * (moments.design @ shared.mean[tile].T)
        found = slope.T[:, :, None] * moments.design
        found[:, :, :k] -= curvature.T[:, :, None] * (covariance @ shared.mean[tile, :k].T).transpose(2, 0, 1)
        found *= root
        products[tile] = pack_symmetric(found.transpose(0, 2, 1) @ found)
    return ScoreSums(products)


def _shared_moves(state: State, sums: CouplingSums) -> Floats:
    """Variances with which loadings of component l come into those of component k, shape (k, k), [l, k].

    Scores of n rows have unit variance in the model and not in the sample, nor are they uncorrelated there. So the
    scale of component k is known to 1 / (2 n), and of component l the part lambda_k / (lambda_k - lambda_l) times
    their correlation comes into it, where lambda are the sums of squared loadings in units of the columns (Anderson
    1963, for principal components). What is unknown of the scores makes both larger, by 1 over the share r of their
    variance that is known. Components of equal size may be turned by any angle, of which the mean squared sine is
    one half.
    """
    k, n = state.n_components, max(state.weight, 1.0)
    diagonal = packed_diagonal(state.loadings.mean.shape[1])[:k]
    known, unknown = (part[:, diagonal].sum(axis=0) for part in (sums.likelihood, sums.unknown))
    inverse_share = 1.0 + unknown / np.maximum(known, np.finfo(float).tiny)
    size = 1.0 / state.loadings.alpha
    with np.errstate(divide="ignore"):
        turned = (size / (size - size[:, None])) ** 2 * np.outer(inverse_share, inverse_share) / n
        moves = 1.0 / (2.0 + 1.0 / turned)
    moves[np.diag_indices(k)] = inverse_share**2 / (2.0 * n)
    return moves

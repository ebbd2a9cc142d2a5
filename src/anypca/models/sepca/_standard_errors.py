r"""Standard errors of the loadings.

The factorised posterior of the loadings is conditional on the scores, and so too narrow. With the scores integrated
out, row i has the score function

.. math:: g_{ij} = E_q[\ell'_{ij}\, \tilde z_i] = \bar\ell'_{ij}\, \tilde m_i - h_{ij}\, S_i w_j

in the coefficients of column j (by Stein's identity, as q is normal, with h the expected curvature), and the
information is the sum of its outer products, :math:`\sum_i g_{ij} g_{ij}'` (Berndt, Hall, Hall and Hausman 1974). If
the scores are known well it is the information of the factorised posterior. If a column determines much of the scores
itself, as a yes/no answer with large loadings does, its entries carry less information on its loadings.

Besides, all loadings of a component move together with its scores; see `_shared_moves`.
"""

from __future__ import annotations

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block
from anypca.families.mixed import with_tight_expectation
from anypca.linalg import pack_symmetric, packed_diagonal, unpack_symmetric
from anypca.models._block_view import open_block
from anypca.models.sepca._evidence import GaugeSums, gauge_sums
from anypca.models.sepca._posterior import Loadings, Moments, Scores, invert
from anypca.models.sepca._state import State
from anypca.models.sepca._sweep import Expectation, VariationalProblem

# Products of numbers, a second or two of them, up to which outer products are summed: for n rows, p columns and m
# coefficients n p m^2. In larger tables single columns determine little of the scores, and the expected information is
# used.
_MOST_PRODUCTS = 5e8


def loading_deviations(state: State) -> Floats:
    """Standard deviations of the loadings, 0 where they are exactly zero, shape (n_features, k)."""
    loadings, k = state.loadings, state.n_components
    if k == 0 or loadings.sparsity > 0:
        return np.where((loadings.snapped == 0) & (loadings.sparsity > 0), 0.0, loadings.deviations)
    sums, m = gauge_sums(state), loadings.mean.shape[1]
    covariance, _ = invert(_information(state, sums), m)
    conditional = covariance[:, packed_diagonal(m)[:k]]
    return np.asarray(np.sqrt(conditional + loadings.mean[:, :k] ** 2 @ _shared_moves(state, sums)))


def _information(state: State, sums: GaugeSums) -> Floats:
    """Precision of each column's coefficients with the scores integrated out, packed, (n_features, m (m + 1) / 2).

    The uncertainty of the scores is left out of the expected information, which counts as m + 1 further rows: the
    inverse of a sum over n rows is too large by n / (n - m - 1) on average.
    """
    loadings, m = state.loadings, state.loadings.mean.shape[1]
    expected = loadings.precision - sums.unknown
    if state.weight * len(loadings.mean) * m**2 > _MOST_PRODUCTS:
        return expected

    problem = state.problem

    def visit(block: Block, scores: Scores) -> Floats:
        return _outer_products(problem, loadings, block, scores)

    found = state.noise.session.sum(visit, state.local)
    return np.asarray(loadings.with_prior(found) + (m + 1.0) / max(state.weight, 1.0) * expected)


def _outer_products(problem: VariationalProblem, shared: Loadings, block: Block, scores: Scores) -> Floats:
    """A block's sums of outer products of the score function, packed, (n_features, m (m + 1) / 2)."""
    k = shared.n_components
    rows = open_block(block, fit_intercept=problem.fit_intercept)
    moments, root = Moments.of(scores, rows.features), np.sqrt(rows.weights)[None, :, None]
    covariance, products = unpack_symmetric(moments.covariance, k), np.empty_like(shared.precision)
    for tile, _, working, curvature in Expectation(
        with_tight_expectation(problem.family), shared, rows
    ).tiles(moments):
        slope = working - curvature * (moments.design @ shared.mean[tile].T)
        found = slope.T[:, :, None] * moments.design
        found[:, :, :k] -= curvature.T[:, :, None] * (covariance @ shared.mean[tile, :k].T).transpose(2, 0, 1)
        found *= root
        products[tile] = pack_symmetric(found.transpose(0, 2, 1) @ found)
    return products


def _shared_moves(state: State, sums: GaugeSums) -> Floats:
    """Variances of the contributions of component l's loadings to component k's, shape (k, k), [l, k].

    Scores of n rows have unit variance in the model and not in the sample, nor are they uncorrelated there. So the
    scale of component k is known to 1 / (2 n), and of component l the part lambda_k / (lambda_k - lambda_l) times
    their correlation enters, where lambda are the sums of squared loadings in units of the columns (Anderson 1963, for
    principal components). Uncertain scores make both larger, by 1 over the share r of their variance that is known.
    Components of equal size may be turned by any angle, whose mean squared sine is one half.
    """
    k, n = state.n_components, max(state.weight, 1.0)
    diagonal = packed_diagonal(state.loadings.mean.shape[1])[:k]
    known, unknown = (part[:, diagonal].sum(axis=0) for part in (sums.likelihood, sums.unknown))
    # Sums are known up to rounding.
    limits = np.finfo(float)
    inverse_share = 1.0 + unknown / np.maximum(known, limits.eps * unknown + limits.tiny)
    size = 1.0 / state.loadings.ard_precision
    with np.errstate(divide="ignore"):
        turned = (size / (size - size[:, None])) ** 2 * np.outer(inverse_share, inverse_share) / n
        moves = 1.0 / (2.0 + 1.0 / turned)
    moves[np.diag_indices(k)] = inverse_share**2 / (2.0 * n)
    return moves

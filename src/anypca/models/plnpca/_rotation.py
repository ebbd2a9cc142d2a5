"""The rotation of the latent space in which independent posteriors lose least."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.linalg

from anypca._typing import Floats
from anypca.linalg import packed_products, packed_size, unpack_symmetric
from anypca.models._bilinear.evaluator import BlockEvaluator, Coefficients
from anypca.models._bilinear.passes import Pass
from anypca.models._block_view import BlockView, apply_entry_weights
from anypca.models.plnpca._problem import PLNProblem, Posterior, information_of

# Rows whose precisions decide a rotation: it is a proposal, and a few thousand tell it well enough.
_MOST_PRECISIONS = 2000
# Newton's angles are right for nearly diagonal matrices; half a radian at a time keeps steps within their reach, and
# fifty of them go round many times.
_LARGEST_ANGLE = 0.5
_MAX_STEPS = 50
# Gain per matrix below which to stop: the bound is then exact to a millionth of a nat per row.
_SMALLEST_GAIN = 1e-6
# After this many halvings a step, at most half a radian, is negligible.
_MAX_HALVINGS = 10
# Minimum curvature as a share of the rows. Planes of equal variance have none; the minimum bounds the angle.
_LEAST_CURVATURE = 0.05


def find_rotation(
    visit: Pass, problem: PLNProblem, coefficients: Coefficients, local: Sequence[Any]
) -> Floats:
    """The rotation (k, k) of a fit's latent space, estimated from the precisions of some rows."""
    stride = max(1, -(-visit.session.data.n_samples // _MOST_PRECISIONS))

    def precisions(rows: BlockView, points: Floats) -> Floats:
        index = np.flatnonzero(rows.numbers % stride == 0)
        some = rows.take(index)
        packed = _precisions(problem.evaluator(coefficients, some), points[index])
        return np.hstack([some.weights[:, None], packed])

    found = np.concatenate(visit.session.executor.gather(visit.map(precisions, local)))
    k = coefficients.loadings.shape[1]
    return diagonalise(np.eye(k) + unpack_symmetric(found[:, 1:], k), found[:, 0])[0]


def rotate(
    visit: Pass, problem: PLNProblem, coefficients: Coefficients, local: Sequence[Any], rotation: Floats
) -> Sequence[Any]:
    """Posteriors in rotated coordinates, with the variances that suit the old rates there."""
    loadings = coefficients.loadings @ rotation

    def function(rows: BlockView, points: Floats) -> Floats:
        information = information_of(problem.evaluator(coefficients, rows), points, loadings)
        return Posterior(Posterior.of(points).mean @ rotation, 1.0 / (1.0 + information)).points

    return visit.map(function, local)


def _precisions(evaluator: BlockEvaluator, points: Floats) -> Floats:
    """``sum_j A c c'`` of each row, packed, shape (rows, k (k + 1) / 2)."""
    loadings = evaluator.coefficients.loadings
    found = np.zeros((evaluator.rows.n_rows, packed_size(loadings.shape[1])))
    for tile in evaluator.rows.tiles():
        found += apply_entry_weights(evaluator.rows, tile, evaluator.means(points, tile)) @ packed_products(
            loadings[tile]
        )
    return found


def diagonalise(precisions: Floats, weights: Floats) -> tuple[Floats, float]:
    r"""An orthogonal matrix that makes many positive definite matrices as diagonal as possible.

    Minimises ``sum_i w_i sum_k log (Q' H_i Q)_kk / 2``, which exceeds ``sum_i w_i log det(H_i) / 2`` by what normal
    posteriors of precision H_i lose when their covariances are replaced by the best diagonal ones.

    Parameters
    ----------
    precisions : ndarray of shape (n, k, k)
        H.
    weights : ndarray of shape (n,)

    Returns
    -------
    rotation : ndarray of shape (k, k)
        Q.
    gain : float
        Decrease of the criterion from the identity.

    Notes
    -----
    Each step takes all planes at once, with the angles of Newton's method for nearly diagonal matrices, halved until
    the criterion decreases.

    References
    ----------
    B. Flury (1984). Common principal components in k groups. JASA 79.
    """
    current, rotation = precisions, np.eye(precisions.shape[1])
    first = value = _criterion(current, weights)
    least = _SMALLEST_GAIN * float(weights.sum())
    for _ in range(_MAX_STEPS):
        angles = _angles(current, weights)
        for halving in range(_MAX_HALVINGS):
            turn = scipy.linalg.expm(0.5**halving * angles)
            trial = turn.T @ current @ turn
            after = _criterion(trial, weights)
            if after <= value:
                break
        else:
            break
        gain, current, value, rotation = value - after, trial, after, rotation @ turn
        if gain <= least:
            break
    return rotation, first - value


def _criterion(matrices: Floats, weights: Floats) -> float:
    return 0.5 * float(weights @ np.log(np.einsum("ikk->ik", matrices)).sum(axis=1))


def _angles(matrices: Floats, weights: Floats) -> Floats:
    """Skew matrix of the next rotation's angles, shape (k, k)."""
    diagonal = np.einsum("ikk->ik", matrices)
    weighted = weights[:, None] / diagonal
    slope = np.einsum("ikl,ik->kl", matrices, weighted)
    ratio = np.einsum("il,ik->kl", diagonal, weighted)
    total = float(weights.sum())
    # Newton's angle in each plane of two axes, as if the others stood still.
    curvature = np.maximum(ratio + ratio.T - 2.0 * total, _LEAST_CURVATURE * total)
    angles: Floats = (slope - slope.T) / curvature
    return angles * min(1.0, _LARGEST_ANGLE / max(float(np.abs(angles).max(initial=0.0)), 1e-300))

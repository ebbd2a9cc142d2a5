"""The rotation of the latent space in which independent posteriors lose least."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from anypca._typing import Floats

_MAX_STEPS = 50
_LARGEST_ANGLE = 0.5
# Gain per matrix below which no further step is worth its while.
_SMALLEST_GAIN = 1e-6
_MAX_HALVINGS = 10


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
    # Equal diagonal entries leave the angle undetermined: the floor keeps steps bounded there.
    total = float(weights.sum())
    curvature = np.maximum(ratio + ratio.T - 2.0 * total, 0.05 * total)
    angles: Floats = (slope - slope.T) / curvature
    return angles * min(1.0, _LARGEST_ANGLE / max(float(np.abs(angles).max(initial=0.0)), 1e-300))

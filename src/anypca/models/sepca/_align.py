r"""Draws of a bilinear model in common latent coordinates.

The likelihood and the scores' prior do not change under a rotation of the latent space, ``(Z R, W R)``, and relevances
that are nearly equal hardly forbid it; so draws, and chains, differ by rotations, permutations and signs. Averages
of loadings mean nothing before each draw is turned to a common reference.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg

from anypca._typing import Floats, Ints
from anypca.linalg import fix_signs, procrustes, symmetric_power
from anypca.models.sepca._density import Point

# Rounds of turning all draws to their mean, and relative change of the mean that ends them: a thousandth of the
# loadings is far below the spread of draws. Two or three rounds are usual.
_MAX_ALIGNMENTS = 10
_ALIGNMENT_TOLERANCE = 1e-3


class Relevance(NamedTuple):
    """What the draws say of the components, in the coordinates of the largest expected likelihood."""

    alpha: Floats
    """``D / E||w_k||^2``, increasing, shape (k,)."""
    shift: Floats
    """Mean of the scores, shape (k,)."""
    forward: Floats
    """Scores go to ``(z - shift) forward``, shape (k, k)."""
    backward: Floats
    """Loadings go to ``W backward``; ``forward backward' = I``."""

    def apply(self, draws: Point) -> Point:
        """Draws in the new coordinates, with the same predictor."""
        fixed = draws.fixed.copy()
        if self.shift.any():
            fixed[..., 0] += draws.loadings @ self.shift
        joint = np.concatenate([draws.loadings @ self.backward, fixed], axis=-1)
        return Point((draws.scores - self.shift) @ self.forward, joint)


def align(draws: Point, reference: Point) -> Point:
    """Turn each draw to the mean of all, started at a reference.

    Parameters
    ----------
    draws : Point
        Scores (s, n, k) and coefficients (s, p, m).
    reference : Point
        Scores (n, k) and coefficients (p, m).

    Returns
    -------
    Point
        The draws times orthogonal matrices, components by decreasing size of the mean loadings' products and
        the largest mean loading of each positive.
    """
    if draws.scores.shape[-1] == 0:
        return draws
    scale = _loading_scale(draws)
    target = _stacked(reference, scale)
    for _ in range(_MAX_ALIGNMENTS):
        aligned = _rotate(draws, np.stack([procrustes(one, target) for one in _stacked(draws, scale)]))
        before, target = target, _stacked(aligned, scale).mean(axis=0)
        if np.linalg.norm(target - before) <= _ALIGNMENT_TOLERANCE * np.linalg.norm(target):
            break
    return _canonical(aligned)


def update_relevance(draws: Point, *, centre: bool) -> Relevance:
    r"""Maximise the expected log prior of aligned draws over the scale of both sides.

    With :math:`\Psi` the second moment of the scores and :math:`\Lambda = E[W'W] / D`, the prior variances of the
    loadings are the eigenvalues of :math:`\Psi^{1/2} \Lambda \Psi^{1/2}`: equation (8) of the paper with the
    expectation taken and the coordinates chosen best (parameter-expanded EM), which takes far fewer rounds.

    Parameters
    ----------
    draws : Point
        Aligned: scores (s, n, k) and coefficients (s, p, m).
    centre : bool
        Move the scores' mean into the intercept, which is the first fixed coefficient.
    """
    scores, loadings = draws.scores, draws.loadings
    s, n, k = scores.shape
    if k == 0:
        return Relevance(np.zeros(0), np.zeros(0), np.zeros((0, 0)), np.zeros((0, 0)))
    shift = scores.mean(axis=(0, 1)) if centre else np.zeros(k)
    centred = (scores - shift).reshape(s * n, k)
    flat = loadings.reshape(-1, k)
    moment = centred.T @ centred / len(centred)
    root = symmetric_power(moment, 0.5)
    sizes, rotation = scipy.linalg.eigh(root @ (flat.T @ flat / len(flat)) @ root)
    rotation = rotation[:, ::-1]
    forward = symmetric_power(moment, -0.5) @ rotation
    return Relevance(1.0 / sizes[::-1], shift, forward, root @ rotation)


def take_components(draws: Point, keep: Ints) -> Point:
    """Some of the components."""
    joint = np.concatenate([draws.loadings[..., keep], draws.fixed], axis=-1)
    return Point(draws.scores[..., keep], joint)


def _loading_scale(draws: Point) -> float:
    """Brings loadings to the unit scale of the scores, so that both sides have a say in the rotation."""
    size = float(np.sqrt((draws.loadings**2).mean()))
    return 1.0 / size if size > 0 else 1.0


def _stacked(point: Point, scale: float) -> Floats:
    """Scores above scaled loadings, shape (..., n + p, k)."""
    return np.concatenate([point.scores, scale * point.loadings], axis=-2)


def _rotate(draws: Point, rotation: Floats) -> Point:
    """Each draw times its matrix (s, k, k), or all times one (k, k)."""
    joint = np.concatenate([draws.loadings @ rotation, draws.fixed], axis=-1)
    return Point(draws.scores @ rotation, joint)


def _canonical(draws: Point) -> Point:
    """Uncorrelated mean loadings in decreasing order, the largest entry of each positive."""
    mean = draws.loadings.mean(axis=0)
    rotation = scipy.linalg.eigh(mean.T @ mean)[1][:, ::-1]
    return _rotate(draws, rotation * fix_signs((mean @ rotation).T))

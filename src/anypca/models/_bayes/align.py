r"""Draws of a bilinear model in common latent coordinates.

The likelihood and the scores' prior do not change under a rotation of the latent space, ``(Z R, W R)``, and relevances
that are nearly equal hardly forbid it; so draws, and chains, differ by rotations, permutations and signs. Averages
of loadings mean nothing before each draw is turned to a common reference.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from anypca._typing import Floats, Ints
from anypca.linalg import fix_signs, procrustes
from anypca.models._bayes.points import Point

# Rounds of turning all draws to their mean, and relative change of the mean that ends them: a thousandth of the
# loadings is far below the spread of draws. Two or three rounds are usual.
_MAX_ALIGNMENTS = 10
_ALIGNMENT_TOLERANCE = 1e-3


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

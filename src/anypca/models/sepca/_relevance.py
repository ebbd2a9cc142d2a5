"""What draws say of the relevances of components."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg

from anypca._typing import Floats
from anypca.linalg import symmetric_power
from anypca.models._bayes.points import Point


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

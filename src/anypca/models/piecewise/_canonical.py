"""The rotation, order and signs that make fitted pieces unique."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from anypca._typing import Floats
from anypca.linalg import fix_signs, procrustes
from anypca.models.piecewise._pieces import Pieces


def make_canonical(pieces: Pieces, *, is_free: bool, may_mirror: bool) -> Pieces:
    """The same density with principal axes first, t last, and signs fixed.

    Parameters
    ----------
    pieces : Pieces
    is_free : bool
        Whether pieces may be rotated each by itself; the others are then aligned with the most probable one.
    may_mirror : bool
        Whether t may change its sign, which reverses the order of the pieces: not for breakpoints that were given
        and are not symmetric.

    Returns
    -------
    Pieces
    """
    pieces = _rotate(pieces, is_free=is_free)
    components = mean_components(pieces)
    signs = fix_signs(components)
    if signs[-1] < 0 and may_mirror:
        pieces = _mirror(pieces)
    signs[-1] = 1.0
    return replace(pieces, maps=pieces.maps * np.append(signs, 1.0))


def mean_components(pieces: Pieces) -> Floats:
    """Loadings averaged over the latent space, (q, n_features): the mean slope of the map."""
    return np.asarray(np.einsum("k,kpa->ap", pieces.prior, pieces.maps[:, :, :-1]))


def is_symmetric(breakpoints: Floats) -> bool:
    """Whether breakpoints stay the same when t changes its sign."""
    return bool(np.allclose(breakpoints, -breakpoints[::-1], rtol=0.0, atol=1e-12))


def _rotate(pieces: Pieces, *, is_free: bool) -> Pieces:
    """Orthogonal loadings, longest first, of the coordinates that may be rotated: all q for a single piece."""
    maps = pieces.maps.copy()
    n = pieces.n_components - (len(maps) > 1)
    if n < 1:
        return pieces
    reference = int(np.argmax(pieces.prior)) if is_free else 0
    right = np.linalg.svd(maps[reference, :, :n], full_matrices=False)[2]
    target = maps[reference, :, :n] @ right.T
    for k in range(len(maps)):
        turn = procrustes(maps[k, :, :n], target) if is_free and k != reference else right.T
        maps[k, :, :n] = maps[k, :, :n] @ turn
    return replace(pieces, maps=maps)


def _mirror(pieces: Pieces) -> Pieces:
    """t in the opposite direction, pieces in the opposite order."""
    maps = pieces.maps[::-1].copy()
    maps[:, :, -2] *= -1.0
    return replace(pieces, maps=maps, breakpoints=0.0 - pieces.breakpoints[::-1])

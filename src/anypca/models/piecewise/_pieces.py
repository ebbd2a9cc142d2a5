"""Pieces of a latent space, how they hang together, and the form in which they are reported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import ndtr

from anypca._optional import optional
from anypca._typing import Floats
from anypca.linalg import fix_signs, procrustes


@dataclass(frozen=True)
class Pieces:
    """A fitted map from the latent space: affine in each of K slabs ``c_{k-1} < t <= c_k`` of its last coordinate t."""

    maps: Floats
    """``[B_k, mu_k]`` of each piece (K, n_features, q + 1)."""
    breakpoints: Floats
    """Increasing (K - 1,)."""
    dispersion: Floats
    """Of each column (n_features,); the noise variance if the family is gaussian."""
    coef: Floats
    """Coefficients of covariates, the same in all pieces (n_features, n_covariates)."""

    @property
    def n_components(self) -> int:
        """Number of components, q."""
        return int(self.maps.shape[2]) - 1

    @property
    def noise(self) -> float:
        """Noise variance of gaussian columns, which share it."""
        return float(self.dispersion[0])

    @property
    def edges(self) -> Floats:
        """Breakpoints between minus and plus infinity (K + 1,)."""
        return np.concatenate([[-np.inf], self.breakpoints, [np.inf]])

    @property
    def slabs(self) -> list[tuple[Floats, float, float]]:
        """``[B_k, mu_k]`` of each piece and the ends of its slab."""
        ends = pairwise(self.edges.tolist())
        return [(matrix, low, high) for matrix, (low, high) in zip(self.maps, ends, strict=True)]

    @property
    def prior(self) -> Floats:
        """Prior probabilities of the pieces (K,)."""
        return np.asarray(np.diff(ndtr(self.edges)))

    def predict(self, w: Floats) -> Floats:
        """``mu_k + B_k w`` in the piece of each latent point: (n, n_features) from (n, q)."""
        piece = np.searchsorted(self.breakpoints, w[:, -1], side="left")
        value = np.empty((len(w), self.maps.shape[1]))
        for k, matrix in enumerate(self.maps):
            rows = piece == k
            value[rows] = w[rows] @ matrix[:, :-1].T + matrix[:, -1]
        return value


@dataclass(frozen=True)
class Coefficients:
    """The same map in the coordinates in which it is fitted: ``[B_k, mu_k] = D T_k``."""

    matrix: Floats
    """Coefficients of covariates, if there are any, then D (n_features, n_covariates + m)."""
    breakpoints: Floats
    """(K - 1,)"""
    dispersion: Floats
    """(n_features,)"""


#: From the latent dimension q and the breakpoints to the matrices T_k, an array (K, m, q + 1).
Transfer = Callable[[int, Floats], Floats]


def _continuous(q: int, breakpoints: Floats) -> Floats:
    """Columns for w_1..w_q, 1 and the hinges ``(t - c_j)_+``: pieces meet where t = c_j."""
    n_pieces = len(breakpoints) + 1
    T = np.zeros((n_pieces, q + n_pieces, q + 1))
    T[:, : q + 1] = np.eye(q + 1)
    # A hinge at c adds a multiple of t - c to the pieces above it: they meet there.
    for j, c in enumerate(breakpoints):
        T[j + 1 :, q + 1 + j, q - 1] = 1.0
        T[j + 1 :, q + 1 + j, q] = -c
    return T


def _shared(q: int, breakpoints: Floats) -> Floats:
    """Common columns for w_1..w_{q-1}; each piece its own slope along t and its own mean."""
    n_pieces = len(breakpoints) + 1
    T = np.zeros((n_pieces, q - 1 + 2 * n_pieces, q + 1))
    T[:, : q - 1, : q - 1] = np.eye(q - 1)
    for k in range(n_pieces):
        T[k, q - 1 + 2 * k : q + 1 + 2 * k, q - 1 :] = np.eye(2)
    return T


def _free(q: int, breakpoints: Floats) -> Floats:
    """Each piece its own affine map."""
    n_pieces = len(breakpoints) + 1
    T = np.zeros((n_pieces, n_pieces * (q + 1), q + 1))
    for k in range(n_pieces):
        T[k, k * (q + 1) : (k + 1) * (q + 1)] = np.eye(q + 1)
    return T


#: How pieces hang together, from the tightest coupling to the loosest; each contains those before it.
COUPLINGS: dict[str, Transfer] = {"continuous": _continuous, "shared": _shared, "free": _free}


def hinge_slopes(q: int, n_pieces: int, transfer: Transfer) -> Floats:
    """Derivatives of the T_k with respect to the breakpoints, (K - 1, K, m, q + 1).

    The T_k are affine in the breakpoints, so that a difference is the derivative.
    """
    zero = np.zeros(n_pieces - 1)
    base = transfer(q, zero)
    slopes = [transfer(q, unit) - base for unit in np.eye(n_pieces - 1)]
    return np.array(slopes).reshape(n_pieces - 1, *base.shape)


def with_covariates(T: Floats, size: int) -> Floats:
    """The T_k of all ``size`` coefficients of a column: coefficients of covariates come first and are unchanged."""
    n_pieces, m, n = T.shape
    d = size - m
    whole = np.zeros((n_pieces, size, d + n))
    whole[:, :d, :d] = np.eye(d)
    whole[:, d:, d:] = T
    return whole


def expand(coefficients: Coefficients, transfer: Transfer, q: int) -> Pieces:
    """Pieces from coefficients."""
    T = transfer(q, coefficients.breakpoints)
    coef, matrix = np.split(coefficients.matrix, [-T.shape[1]], axis=1)
    maps = np.einsum("pm,kma->kpa", matrix, T)
    return Pieces(maps, coefficients.breakpoints, coefficients.dispersion, coef)


def contract(pieces: Pieces, transfer: Transfer) -> Coefficients:
    """Coefficients of given pieces: exact if the coupling allows them, else the nearest in least squares."""
    T = transfer(pieces.n_components, pieces.breakpoints)
    cross = np.einsum("kpa,kma->mp", pieces.maps, T)
    matrix = np.linalg.solve(np.einsum("kma,kna->mn", T, T), cross).T
    return Coefficients(np.hstack([pieces.coef, matrix]), pieces.breakpoints, pieces.dispersion)


def make_canonical(
    pieces: Pieces, *, is_free: bool, may_mirror: bool, may_rotate: bool = True
) -> tuple[Pieces, bool]:
    """The same density with principal axes first, t last, and signs fixed.

    Parameters
    ----------
    pieces : Pieces
    is_free : bool
        Whether pieces may be rotated each by itself; the others are then aligned with the most probable one.
    may_mirror : bool
        Whether t may change its sign, which reverses the order of the pieces: not for breakpoints that were given
        and are not symmetric.
    may_rotate : bool
        Whether the density stays as it is under rotations; a bound with independent coordinates does not, so that
        they are only put in order.

    Returns
    -------
    pieces : Pieces
    is_mirrored : bool
        Whether they are in reversed order.
    """
    pieces = _rotate(pieces, is_free=is_free, may_rotate=may_rotate)
    signs = fix_signs(mean_components(pieces))
    is_mirrored = bool(signs[-1] < 0) and may_mirror
    if is_mirrored:
        pieces = _mirror(pieces)
    # The sign of t belongs to the breakpoints; where these are not symmetric it is given.
    signs[-1] = 1.0
    return replace(pieces, maps=pieces.maps * np.append(signs, 1.0)), is_mirrored


def mean_components(pieces: Pieces) -> Floats:
    """Loadings averaged over the latent space, (q, n_features): the mean slope of the map."""
    return np.asarray(np.einsum("k,kpa->ap", pieces.prior, pieces.maps[:, :, :-1]))


def _rotate(pieces: Pieces, *, is_free: bool, may_rotate: bool) -> Pieces:
    """The longest loadings first, and orthogonal if they may be, of all coordinates but t: of all q for one piece."""
    maps = pieces.maps.copy()
    n = pieces.n_components - (len(maps) > 1)
    if not may_rotate:
        longest = np.argsort(-np.einsum("k,kpa->a", pieces.prior, maps[:, :, :n] ** 2), kind="stable")
        maps[:, :, :n] = maps[:, :, longest]
    elif n:
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


def slab_names(breakpoints: Floats) -> list[str]:
    """``"1: t <= 0"``, ``"2: 0 < t"`` and so on; ``"1"`` for a single piece."""
    ends = [f"{c:.3g}" for c in breakpoints]
    if not ends:
        return ["1"]
    middle = [f"{k + 2}: {a} < t <= {b}" for k, (a, b) in enumerate(pairwise(ends))]
    return [f"1: t <= {ends[0]}", *middle, f"{len(ends) + 1}: {ends[-1]} < t"]


def make_frame(pieces: Pieces, names: Sequence[str]) -> Any:
    """The maps with the names of pieces, latent coordinates and columns, as a pandas data frame."""
    with optional("loadings_frame", "pandas", "io"):
        import pandas as pd
    coordinates = [*(f"w{j + 1}" for j in range(pieces.n_components - 1)), "t", "mean"]
    levels = [slab_names(pieces.breakpoints), coordinates]
    columns = pd.MultiIndex.from_product(levels, names=["piece", "coordinate"])
    values = pieces.maps.transpose(1, 0, 2).reshape(len(names), -1)
    return pd.DataFrame(values, index=list(names), columns=columns)

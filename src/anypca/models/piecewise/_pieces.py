"""Pieces of a latent space, and how they hang together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from anypca._typing import Floats


@dataclass(frozen=True)
class Pieces:
    """A fitted map from the latent space: affine in each of K slabs ``c_{k-1} < t <= c_k`` of its last coordinate t."""

    maps: Floats
    """``[B_k, mu_k]`` of each piece (K, n_features, q + 1)."""
    noise: float
    """Variance of the noise; 1 for counts, where it has no meaning."""
    breakpoints: Floats
    """Increasing (K - 1,)."""

    @property
    def n_components(self) -> int:
        """q."""
        return int(self.maps.shape[2]) - 1

    @property
    def edges(self) -> Floats:
        """Breakpoints between minus and plus infinity (K + 1,)."""
        return np.concatenate([[-np.inf], self.breakpoints, [np.inf]])

    @property
    def prior(self) -> Floats:
        """Prior probabilities of the pieces (K,)."""
        return np.asarray(np.diff(ndtr(self.edges)))

    def predict(self, w: Floats) -> Floats:
        """``mu_k + B_k w`` in the piece of each latent point: (n, n_features) from (n, q)."""
        piece = self.piece_of(w)
        value = np.empty((len(w), self.maps.shape[1]))
        for k, matrix in enumerate(self.maps):
            rows = piece == k
            value[rows] = w[rows] @ matrix[:, :-1].T + matrix[:, -1]
        return value

    def piece_of(self, w: Floats) -> Floats:
        """Number of the piece of each latent point (n,)."""
        return np.asarray(np.searchsorted(self.breakpoints, w[:, -1], side="left"))


@dataclass(frozen=True)
class Coefficients:
    """The same map in the coordinates in which it is fitted: ``[B_k, mu_k] = matrix @ T_k``."""

    matrix: Floats
    """D (n_features, m)"""
    noise: float
    breakpoints: Floats
    """(K - 1,)"""


#: From the latent dimension q and the breakpoints to the matrices T_k, an array (K, m, q + 1).
Transfer = Callable[[int, Floats], Floats]


def _continuous(q: int, breakpoints: Floats) -> Floats:
    """Columns for w_1..w_q, 1 and the hinges ``(t - c_j)_+``: pieces meet where t = c_j."""
    n_pieces = len(breakpoints) + 1
    T = np.zeros((n_pieces, q + n_pieces, q + 1))
    T[:, : q + 1] = np.eye(q + 1)
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


def expand(coefficients: Coefficients, transfer: Transfer, q: int) -> Pieces:
    """The pieces that coefficients stand for."""
    T = transfer(q, coefficients.breakpoints)
    maps = np.einsum("pm,kma->kpa", coefficients.matrix, T)
    return Pieces(maps, coefficients.noise, coefficients.breakpoints)


def contract(pieces: Pieces, transfer: Transfer) -> Coefficients:
    """Coefficients of given pieces: exact when the coupling allows them, else the nearest in least squares."""
    T = transfer(pieces.n_components, pieces.breakpoints)
    cross = np.einsum("kpa,kma->mp", pieces.maps, T)
    matrix = np.linalg.solve(np.einsum("kma,kna->mn", T, T), cross).T
    return Coefficients(matrix, pieces.noise, pieces.breakpoints)


def quantile_breakpoints(n_pieces: int) -> Floats:
    """Breakpoints that make the pieces equally probable (K - 1,)."""
    return np.asarray(ndtri(np.arange(1, n_pieces) / n_pieces))


def count_parameters(
    coupling: str, n_features: int, n_components: int, n_pieces: int, *, fitted: bool
) -> int:
    """Number of free parameters of the Gaussian model, noise variance included.

    Parameters
    ----------
    coupling : {"continuous", "shared", "free"}
    n_features, n_components, n_pieces : int
    fitted : bool
        Whether the breakpoints were fitted.

    Returns
    -------
    int
        Less the rotations that leave the density as it is: of the first q - 1 latent coordinates (of each piece by
        itself if they are free), and of all q when there is one piece.
    """
    p, q, n = n_features, n_components, n_pieces
    if n == 1:
        return p * (q + 1) + 1 - q * (q - 1) // 2
    rotation = (q - 1) * (q - 2) // 2
    size = int(COUPLINGS[coupling](q, np.arange(n - 1.0)).shape[1])
    return p * size + 1 - (n if coupling == "free" else 1) * rotation + (n - 1 if fitted else 0)

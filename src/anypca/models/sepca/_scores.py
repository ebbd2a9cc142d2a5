"""Normal posteriors of rows, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from anypca._typing import Floats, Ints
from anypca.linalg import (
    PackedCholesky,
    congruent,
    pack_symmetric,
    packed_diagonal,
    packed_position,
    packed_products,
    unpack_symmetric,
)


class Scores(NamedTuple):
    """q(z) of the rows of a block."""

    mean: Floats
    """(rows, k)."""
    precision: Floats
    """Packed, (rows, k (k + 1) / 2)."""

    def take(self, keep: Ints) -> Scores:
        """Some of the components."""
        full = unpack_symmetric(self.precision, self.mean.shape[1])
        return Scores(self.mean[:, keep], pack_symmetric(full[:, keep][:, :, keep]))

    def extended(self) -> Scores:
        """With one component more, still at its prior."""
        n, k = self.mean.shape
        full = np.tile(np.eye(k + 1), (n, 1, 1))
        full[:, :k, :k] = unpack_symmetric(self.precision, k)
        return Scores(np.hstack([self.mean, np.zeros((n, 1))]), pack_symmetric(full))


class Affine(NamedTuple):
    """A change of latent coordinates, ``z -> matrix (z - shift)``."""

    shift: Floats
    matrix: Floats

    def apply(self, scores: Scores) -> Scores:
        """Posteriors in the new coordinates."""
        inverse = np.linalg.inv(self.matrix)
        return Scores((scores.mean - self.shift) @ self.matrix.T, congruent(scores.precision, inverse))


@dataclass(frozen=True, eq=False)
class Moments:
    """Scores of a block with what follows from them."""

    scores: Scores
    factor: PackedCholesky
    design: Floats
    """(m~, f), shape (rows, m)."""
    second: Floats
    """T, packed, shape (rows, m (m + 1) / 2)."""
    trace: Floats
    """Trace of S, shape (rows,)."""

    @classmethod
    def of(cls, scores: Scores, features: Floats, *, factor: PackedCholesky | None = None) -> Moments:
        """From posteriors and fixed features, (rows, m - k); the factor of the precisions where it is known."""
        k = scores.mean.shape[1]
        factor = PackedCholesky(scores.precision, k) if factor is None else factor
        covariance = factor.packed_inverse()
        design = np.hstack([scores.mean, features])
        second = packed_products(design)
        second[:, packed_position(design.shape[1], k)] += covariance
        return cls(scores, factor, design, second, covariance[:, packed_diagonal(k)].sum(axis=1))

    def take(self, index: Ints) -> Moments:
        """Those of some rows."""
        scores = Scores(self.scores.mean[index], self.scores.precision[index])
        return Moments.of(scores, self.design[index, scores.mean.shape[1] :])

    def beside(self, other: Moments) -> Moments:
        """Those of further rows behind them."""
        pairs = zip(self.scores, other.scores, strict=True)
        scores = Scores(*(np.concatenate(pair) for pair in pairs))
        k = scores.mean.shape[1]
        return Moments.of(scores, np.concatenate([self.design[:, k:], other.design[:, k:]]))

    @property
    def divergence(self) -> Floats:
        """KL of each row to N(0, I), shape (rows,)."""
        mean = self.scores.mean
        return np.asarray(
            0.5
            * (np.einsum("ia,ia->i", mean, mean) + self.trace + self.factor.log_determinant() - mean.shape[1])
        )


def between(old: Scores, new: Scores, fraction: Floats) -> Scores:
    """Part of the way from old to new, row by row, in mean and precision."""
    t = fraction[:, None]
    return Scores(old.mean + t * (new.mean - old.mean), old.precision + t * (new.precision - old.precision))

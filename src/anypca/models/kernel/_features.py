"""Features of rows whose inner products are the values of a kernel, and principal components in their space."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.linalg

from anypca._typing import Floats
from anypca.models.kernel._kernels import FREQUENCIES, Kernel

# A negative eigenvalue beyond this share of the largest is more than rounding, also of a function in float32.
_INDEFINITE = 1e-6
# Arrays of a worker, for example kernel values of some rows with all training rows, stay below this: small enough for
# the cache, with enough rows for fast products.
_CHUNK_BYTES = 2**23


class FeatureMap(Protocol):
    """Features of rows and distances in the space of the kernel."""

    def features(self, rows: Floats) -> Floats:
        """(n, n_basis) from (n, n_features)."""

    def squares(self, rows: Floats, features: Floats, centre: Floats) -> Floats:
        """Squared distances of rows from a centre with features (n_basis,), shape (n,)."""


@dataclass(frozen=True)
class KernelValues:
    """Kernel values with given rows; a centre is the mean of these rows."""

    kernel: Kernel
    others: Any
    """(m, n_features), dense or sparse; ``None`` if kernel values are given in place of rows."""

    def features(self, rows: Floats) -> Floats:
        rows = rows.astype(np.float64, copy=False)
        return rows if self.others is None else self.kernel.between(rows, self.others)

    def squares(self, rows: Floats, features: Floats, centre: Floats) -> Floats:
        return np.asarray(self.kernel.diagonal(rows) - 2.0 * features.mean(axis=1) + centre.mean())


@dataclass(frozen=True)
class FourierMap:
    """Random Fourier features ``sqrt(2 / m) cos(x' w + b)``."""

    waves: Floats
    """Frequencies w and, in the last row, phases b: (n_features + 1, m)."""

    def features(self, rows: Floats) -> Floats:
        # The phases are the coefficients of a column of ones, which saves a pass over the result.
        angles = np.column_stack([rows, np.ones(len(rows), dtype=rows.dtype)]) @ self.waves
        np.cos(angles, out=angles)
        angles *= np.sqrt(2.0 / angles.shape[1])
        return np.asarray(angles)

    def squares(self, rows: Floats, features: Floats, centre: Floats) -> Floats:
        return np.asarray(((features - centre) ** 2).sum(axis=1))


@dataclass(frozen=True)
class LandmarkMap:
    """Nystroem features: kernel values with landmarks, made orthonormal there."""

    kernel: Kernel
    landmarks: Floats
    """(m, n_features)"""
    whitening: Floats
    """(m, rank): eigenvectors of the landmarks' kernel matrix over the roots of the eigenvalues."""

    def features(self, rows: Floats) -> Floats:
        return np.asarray(self.kernel.between(rows, self.landmarks) @ self.whitening)

    def squares(self, rows: Floats, features: Floats, centre: Floats) -> Floats:
        # The part of phi(x) that is orthogonal to phi of all landmarks counts as well.
        missed = np.maximum(self.kernel.diagonal(rows) - (features**2).sum(axis=1), 0.0)
        return np.asarray(((features - centre) ** 2).sum(axis=1) + missed)


def fourier_map(kernel: Kernel, rows: Floats, n_basis: int, rng: np.random.Generator) -> FourierMap:
    """Draw random Fourier features of a kernel, for rows like the given ones and in their dtype."""
    if kernel.metric not in FREQUENCIES:
        raise ValueError(
            f"method='rff' needs a kernel of differences, {', '.join(map(repr, FREQUENCIES))}; got {kernel.metric!r}. "
            "Use method='nystroem', which takes any kernel."
        )
    waves = FREQUENCIES[kernel.metric](rng, kernel.parameters["gamma"], (rows.shape[1], n_basis))
    return FourierMap(np.vstack([waves, rng.uniform(-np.pi, np.pi, n_basis)]).astype(rows.dtype))


def landmark_map(kernel: Kernel, rows: Floats, n_basis: int, rng: np.random.Generator) -> LandmarkMap:
    """Nystroem features with the first ``n_basis`` rows as landmarks.

    There are as many features as the landmarks' kernel matrix has rank: scikit-learn's ``Nystroem`` keeps directions at
    rounding level, which repeated landmarks cause and which amplify noise.
    """
    landmarks = rows[:n_basis].astype(np.float64)
    values, vectors = scipy.linalg.eigh(kernel.between(landmarks, landmarks))
    if values[0] < -_INDEFINITE * max(values[-1], 0.0):
        raise ValueError(
            f"the kernel is not positive semi-definite: its matrix on {len(landmarks)} rows has the eigenvalue "
            f"{values[0]:.3g}. Use another kernel or other parameters."
        )
    floor = values[-1] * len(values) * np.finfo(np.float64).eps
    kept = values >= max(floor, np.finfo(np.float64).tiny)
    kept[-1] = True  # if all kernel values are 0, so is this feature
    return LandmarkMap(
        kernel, landmarks, vectors[:, kept] / np.sqrt(np.maximum(values[kept], np.finfo(np.float64).tiny))
    )


#: Explicit features by the name of the method.
FEATURE_MAPS: dict[str, Callable[[Kernel, Floats, int, np.random.Generator], FeatureMap]] = {
    "rff": fourier_map,
    "nystroem": landmark_map,
}


@dataclass(frozen=True)
class Embedding:
    """Principal components in the space of the features."""

    feature_map: FeatureMap
    centre: Floats
    """Mean features of the training rows (n_basis,)."""
    axes: Floats
    """Coefficients of the features (n_basis, n_components)."""
    eigenvalues: Floats
    """Sums of squared scores of the training rows (n_components,), decreasing."""
    total: float
    """Sum over the training rows of their squared distances from the centre."""

    def scores(self, rows: Floats) -> Floats:
        """(n, n_components) from (n, n_features)."""
        shift = self.centre @ self.axes
        parts = chunks(rows, len(self.centre))
        return np.concatenate([self.feature_map.features(part) @ self.axes - shift for part in parts])

    def squares(self, rows: Floats) -> Floats:
        """Squared distances of rows from the centre (n,)."""
        parts, of = chunks(rows, len(self.centre)), self.feature_map
        return np.concatenate([of.squares(part, of.features(part), self.centre) for part in parts])


def chunks(rows: Floats, width: int) -> Iterator[Floats]:
    """Runs of rows of similar length whose images with ``width`` columns fit in a worker's share of memory."""
    most = max(1, _CHUNK_BYTES // (8 * max(width, 1)))
    size = math.ceil(len(rows) / max(1, math.ceil(len(rows) / most))) or 1
    return (rows[start : start + size] for start in range(0, len(rows), size))

"""Explicit features of rows, most of which have inner products near a kernel's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.linalg

from anypca._typing import Floats
from anypca.models.kernel._kernels import Kernel

# A negative eigenvalue beyond this share of the largest is no rounding, not even of a user's function in float32.
_INDEFINITE = 1e-6


class Features(Protocol):
    """Rows to features."""

    def features(self, rows: Floats) -> Floats:
        """(n, n_basis) from (n, n_features)."""


class FeatureMap(Features, Protocol):
    """Features whose inner products approximate a kernel."""

    def missed(self, rows: Floats, features: Floats) -> Floats:
        """What the squared lengths of the features lack of k(x, x), (n,)."""


@dataclass(frozen=True)
class KernelValues:
    """Kernel values with given rows as features."""

    kernel: Kernel
    others: Floats
    """(m, n_features)"""

    def features(self, rows: Floats) -> Floats:
        return self.kernel.between(rows, self.others)


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

    def missed(self, rows: Floats, features: Floats) -> Floats:
        # The features have lengths of their own, which equal those of the kernel on average only.
        return np.zeros(len(rows))


@dataclass(frozen=True)
class LandmarkMap:
    """Nystroem features: kernel values with landmarks, made orthonormal there."""

    kernel: Kernel
    landmarks: Floats
    """(m, n_features)"""
    whitening: Floats
    """(m, rank): columns are eigenvectors of the landmarks' kernel matrix over the roots of the eigenvalues."""

    def features(self, rows: Floats) -> Floats:
        return np.asarray(self.kernel.between(rows, self.landmarks) @ self.whitening)

    def missed(self, rows: Floats, features: Floats) -> Floats:
        # This is the part of phi(x) that is orthogonal to phi of all landmarks.
        squares = np.einsum("ij,ij->i", features, features)
        return np.asarray(np.maximum(self.kernel.diagonal(rows) - squares, 0.0))


def fourier_map(
    kernel: Kernel,
    n_features: int,
    n_basis: int,
    rng: np.random.Generator,
    dtype: np.dtype[np.floating] = np.dtype(np.float64),  # noqa: B008 (immutable)
) -> FourierMap:
    """Draw random Fourier features of a kernel.

    Parameters
    ----------
    kernel : Kernel
        One that has frequencies: rbf or laplacian.
    n_features : int
    n_basis : int
    rng : numpy.random.Generator
    dtype : dtype
        Of the features.

    Returns
    -------
    FourierMap
    """
    assert kernel.named is not None
    frequencies = kernel.named.frequencies(n_features, n_basis, kernel.parameters["gamma"], rng)
    phases = rng.uniform(-np.pi, np.pi, n_basis)
    return FourierMap(np.vstack([frequencies, phases]).astype(dtype))


def landmark_map(kernel: Kernel, landmarks: Floats) -> LandmarkMap:
    """Nystroem features from given landmarks.

    Parameters
    ----------
    kernel : Kernel
    landmarks : ndarray of shape (m, n_features)

    Returns
    -------
    LandmarkMap
        With as many features as the landmarks' kernel matrix has rank: directions at rounding level, as
        repeated landmarks make them, would only blow up noise.
    """
    values, vectors = scipy.linalg.eigh(kernel.between(landmarks, landmarks))
    if values[0] < -_INDEFINITE * max(values[-1], 0.0):
        raise ValueError(
            f"the kernel is not positive semi-definite: its matrix on {len(landmarks)} rows has the eigenvalue "
            f"{values[0]:.3g}. Use another kernel or other parameters."
        )
    floor = values[-1] * len(values) * np.finfo(np.float64).eps
    kept = values > max(floor, 0.0)
    if not kept.any():  # all kernel values are 0
        return LandmarkMap(kernel, landmarks, np.zeros((len(landmarks), 1)))
    return LandmarkMap(kernel, landmarks, vectors[:, kept] / np.sqrt(values[kept]))

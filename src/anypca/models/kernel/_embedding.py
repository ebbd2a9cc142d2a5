"""Explicit features of rows, and fitted principal components in the space of a kernel, exact or of such features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.decomposition import KernelPCA as ExactKernelPCA
from sklearn.preprocessing import KernelCenterer

from anypca._typing import Floats
from anypca.linalg import fix_signs
from anypca.models.kernel._kernels import Kernel
from anypca.models.kernel._read import chunks

# A negative eigenvalue beyond this share of the largest is no rounding, not even of a user's function in float32.
_INDEFINITE = 1e-6


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
        """(n, m) from (n, n_features)."""
        # The phases are the coefficients of a column of ones, which saves a pass over the result.
        angles = np.column_stack([rows, np.ones(len(rows), dtype=rows.dtype)]) @ self.waves
        np.cos(angles, out=angles)
        angles *= np.sqrt(2.0 / angles.shape[1])
        return np.asarray(angles)

    def missed(self, rows: Floats, features: Floats) -> Floats:
        """What the squared lengths of the features lack of k(x, x), (n,)."""
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


#: Features whose inner products approximate a kernel.
FeatureMap = FourierMap | LandmarkMap


def fourier_map(
    kernel: Kernel, n_features: int, n_basis: int, rng: np.random.Generator, dtype: Any = np.float64
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


@dataclass(frozen=True)
class ExactEmbedding:
    """Scores by kernel values with all training rows."""

    kernel: Kernel | None
    """``None`` when kernel values come in place of rows."""
    training: Any
    """(n_train, n_features), dense or sparse; ``None`` without kernel."""
    centerer: KernelCenterer
    dual: Floats
    """Coefficients of the training rows (n_train, n_components)."""
    eigenvalues: Floats
    """Sums of squared scores of the training rows (n_components,), decreasing."""
    total: float
    """Sum over the training rows of their squared distances from the centre."""

    def scores(self, rows: Floats) -> Floats:
        """(n, n_components) from (n, n_features)."""
        parts = [
            self.centerer.transform(self._values(part), copy=False) @ self.dual
            for part in chunks(rows, len(self.dual))
        ]
        return np.concatenate(parts)

    def squares(self, rows: Floats) -> Floats:
        """Squared distances from the centre (n,)."""
        assert self.kernel is not None
        cross = [self._values(part).mean(axis=1) for part in chunks(rows, len(self.dual))]
        squares = self.kernel.diagonal(rows) - 2.0 * np.concatenate(cross) + self.centerer.K_fit_all_
        return np.asarray(squares)

    def _values(self, rows: Floats) -> Floats:
        if self.kernel is None:
            return rows.astype(np.float64)
        return self.kernel.between(rows.astype(np.float64, copy=False), self.training)


@dataclass(frozen=True)
class FeatureEmbedding:
    """Scores by explicit features."""

    feature_map: FeatureMap
    mean: Floats
    """Mean of the features (n_basis,)."""
    axes: Floats
    """Orthonormal columns (n_basis, n_components)."""
    eigenvalues: Floats
    total: float

    def scores(self, rows: Floats) -> Floats:
        shift = self.mean @ self.axes
        parts = [self.feature_map.features(part) @ self.axes - shift for part in chunks(rows, len(self.mean))]
        return np.concatenate(parts)

    def squares(self, rows: Floats) -> Floats:
        parts = []
        for part in chunks(rows, len(self.mean)):
            features = self.feature_map.features(part)
            centred = features - self.mean
            squares = np.einsum("ij,ij->i", centred, centred)
            parts.append(squares + self.feature_map.missed(part, features))
        return np.concatenate(parts)


#: Scores of rows, and how far rows are from the centre.
Embedding = ExactEmbedding | FeatureEmbedding


def embed_exactly(
    values: Floats, n_components: int | None, eigen_solver: str, seed: int
) -> tuple[KernelCenterer, Floats, Floats, float]:
    """Kernel PCA of a kernel matrix, by scikit-learn.

    Parameters
    ----------
    values : ndarray of shape (n, n)
        Kernel matrix; overwritten.
    n_components : int or None
        ``None`` for all components that are not 0.
    eigen_solver : str
        As for scikit-learn's ``KernelPCA``.
    seed : int
        Of the iterative solvers.

    Returns
    -------
    centerer : KernelCenterer
    dual : ndarray of shape (n, n_components)
    eigenvalues : ndarray of shape (n_components,)
    total : float
    """
    n = len(values)
    centerer = KernelCenterer().fit(values)
    trace = float(np.trace(values))
    total = max(trace - n * float(centerer.K_fit_all_), 0.0)
    if total <= n * np.finfo(np.float64).eps * abs(trace):  # one point, n times
        k = n_components or 1
        return centerer, np.zeros((n, k)), np.zeros(k), 0.0
    inner = ExactKernelPCA(
        n_components, kernel="precomputed", eigen_solver=eigen_solver, random_state=seed, copy_X=False
    ).fit(values)
    roots = np.sqrt(inner.eigenvalues_)
    dual = np.divide(inner.eigenvectors_, roots, out=np.zeros_like(inner.eigenvectors_), where=roots > 0)
    return centerer, dual, inner.eigenvalues_, total


def embed_features(
    feature_map: FeatureMap, mean: Floats, gram: Floats, missed: float, n_components: int | None
) -> FeatureEmbedding:
    """Principal components of features from their centred Gram matrix.

    Parameters
    ----------
    feature_map : FeatureMap
    mean : ndarray of shape (n_basis,)
    gram : ndarray of shape (n_basis, n_basis)
        Sum over the rows of the outer products of centred features; only the upper triangle is used.
    missed : float
        Sum of squares that the features lack.
    n_components : int or None
        ``None`` for all components that are not 0, at least one.

    Returns
    -------
    FeatureEmbedding
    """
    m = len(gram)
    wanted = None if n_components is None else (max(m - n_components, 0), m - 1)
    values, axes = scipy.linalg.eigh(gram, lower=False, subset_by_index=wanted, check_finite=False)
    values, axes = np.maximum(values[::-1], 0.0), axes[:, ::-1]
    # Eigenvalues at the rounding of the largest are zeros: their axes would be noise.
    values = np.where(values > values[0] * m * np.finfo(np.float64).eps, values, 0.0)
    if n_components is None:
        k = max(1, int(np.count_nonzero(values)))
        values, axes = values[:k], axes[:, :k]
    short = 0 if n_components is None else max(n_components - m, 0)  # collinear landmarks: the rest is 0
    axes = np.pad(axes * fix_signs(axes.T), ((0, 0), (0, short)))
    total = max(float(np.trace(gram)), 0.0) + missed
    return FeatureEmbedding(feature_map, mean, axes, np.pad(values, (0, short)), total)

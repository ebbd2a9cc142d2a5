"""Kernels by name: their parameters, their widths, and the frequencies of their random features."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.metrics.pairwise import pairwise_kernels

from anypca._typing import Floats

#: The parameters of each named kernel, whose values scikit-learn computes.
KERNELS: dict[str, tuple[str, ...]] = {
    "rbf": ("gamma",),
    "laplacian": ("gamma",),
    "linear": (),
    "polynomial": ("gamma", "degree", "coef0"),
    "cosine": (),
    "precomputed": (),
}
#: Of kernels of differences: the distance, gamma from its median, and draws from the Fourier transform.
_MEDIANS: dict[str, tuple[str, Callable[[float], float]]] = {
    "rbf": ("euclidean", lambda distance: 0.5 / distance**2),
    "laplacian": ("cityblock", lambda distance: 1.0 / distance),
}
FREQUENCIES: dict[Any, Callable[[np.random.Generator, float, tuple[int, int]], Floats]] = {
    "rbf": lambda rng, gamma, shape: np.sqrt(2.0 * gamma) * rng.standard_normal(shape),
    "laplacian": lambda rng, gamma, shape: gamma * rng.standard_cauchy(shape),
}


@dataclass(frozen=True)
class Kernel:
    """A kernel with its parameters."""

    metric: str | Callable[..., float]
    """A name of `KERNELS`, or a function of two rows."""
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def between(self, left: Any, right: Any) -> Floats:
        """Values (n, m) for the rows of two tables (n, p) and (m, p)."""
        return np.asarray(pairwise_kernels(left, right, metric=self.metric, **self.parameters))

    def diagonal(self, rows: Floats) -> Floats:
        """k(x, x) of each row (n,)."""
        if not isinstance(self.metric, str):
            return np.array([self.metric(row, row, **self.parameters) for row in rows], dtype=np.float64)
        # A few rows at a time: their other pairs cost little next to the values with all landmarks.
        parts = np.array_split(rows, len(rows) // 32 + 1)
        return np.concatenate([np.diag(self.between(part, part)) for part in parts if len(part)])


def choose_gamma(gamma: float | str | None, kernel: str, sample: Floats, variance: float) -> float:
    """gamma as given, or by a rule from a sample of rows (m, p) and the variance of all entries."""
    if gamma is None:
        return 1.0 / len(sample.T)
    if not isinstance(gamma, str):
        return float(gamma)
    if gamma == "median" and kernel in _MEDIANS:
        distance, rule = _MEDIANS[kernel]
        distances = pdist(sample, distance)
        if distances.any():  # repeated rows do not count
            return rule(float(np.median(distances[distances > 0])))
    return 1.0 / (len(sample.T) * (variance if variance > 0 else 1.0))

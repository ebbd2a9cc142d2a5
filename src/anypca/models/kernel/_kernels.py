"""Kernels by name: their parameters, their widths, and the frequencies of their random features."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.metrics.pairwise import pairwise_kernels

from anypca._registry import Registry
from anypca._typing import Floats


class NamedKernel:
    """What is known of a kernel besides its values, which scikit-learn computes; a subclass per name."""

    name: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]] = ()
    """Which of gamma, degree and coef0 it has."""

    def median_gamma(self, rows: Floats) -> float | None:
        """gamma from the median distance between rows (n, p); ``None`` where distances say nothing."""
        return None

    def frequencies(self, n_features: int, n_basis: int, gamma: float, rng: np.random.Generator) -> Floats:
        """Draws (n_features, n_basis) from the Fourier transform of the kernel."""
        raise NotImplementedError

    @property
    def has_frequencies(self) -> bool:
        return type(self).frequencies is not NamedKernel.frequencies

    def diagonal(self, rows: Floats, parameters: Mapping[str, Any]) -> Floats:
        """k(x, x) of each row (n,)."""
        return np.ones(len(rows))


KERNELS: Registry[NamedKernel] = Registry("kernel")


@KERNELS.register
class Rbf(NamedKernel):
    """``exp(-gamma |x - y|^2)``."""

    name = "rbf"
    parameters = ("gamma",)

    def median_gamma(self, rows: Floats) -> float | None:
        # The median distance becomes the standard deviation of the kernel.
        distance = _median_positive(pdist(rows))
        return None if distance is None else 0.5 / distance**2

    def frequencies(self, n_features: int, n_basis: int, gamma: float, rng: np.random.Generator) -> Floats:
        return np.asarray(np.sqrt(2.0 * gamma) * rng.standard_normal((n_features, n_basis)))


@KERNELS.register
class Laplacian(NamedKernel):
    """``exp(-gamma |x - y|_1)``."""

    name = "laplacian"
    parameters = ("gamma",)

    def median_gamma(self, rows: Floats) -> float | None:
        distance = _median_positive(pdist(rows, "cityblock"))
        return None if distance is None else 1.0 / distance

    def frequencies(self, n_features: int, n_basis: int, gamma: float, rng: np.random.Generator) -> Floats:
        return np.asarray(gamma * rng.standard_cauchy((n_features, n_basis)))


@KERNELS.register
class Linear(NamedKernel):
    """``x'y``."""

    name = "linear"

    def diagonal(self, rows: Floats, parameters: Mapping[str, Any]) -> Floats:
        return np.asarray(np.einsum("ij,ij->i", rows, rows))


@KERNELS.register
class Polynomial(NamedKernel):
    """``(gamma x'y + coef0)^degree``."""

    name = "polynomial"
    parameters = ("gamma", "degree", "coef0")

    def diagonal(self, rows: Floats, parameters: Mapping[str, Any]) -> Floats:
        squares = np.einsum("ij,ij->i", rows, rows)
        return np.asarray((parameters["gamma"] * squares + parameters["coef0"]) ** parameters["degree"])


@KERNELS.register
class Cosine(NamedKernel):
    """``x'y / (|x| |y|)``, 0 where a row is 0."""

    name = "cosine"

    def diagonal(self, rows: Floats, parameters: Mapping[str, Any]) -> Floats:
        return np.asarray(np.any(rows != 0, axis=1), dtype=np.float64)


def _median_positive(distances: Floats) -> float | None:
    """Median of the distances that are not 0, so that repeated rows do not count."""
    positive = distances[distances > 0]
    return float(np.median(positive)) if len(positive) else None


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
        if self.named is not None:
            return self.named.diagonal(rows, self.parameters)
        assert callable(self.metric)
        return np.array([self.metric(row, row, **self.parameters) for row in rows], dtype=np.float64)

    @property
    def named(self) -> NamedKernel | None:
        """What is known of a kernel given by name, ``None`` for a function."""
        return KERNELS.create(self.metric) if isinstance(self.metric, str) else None


@dataclass(frozen=True)
class KernelChoice:
    """The constructor parameters that determine a kernel."""

    metric: str | Callable[..., float]
    gamma: float | str | None
    degree: float
    coef0: float
    extra: Mapping[str, Any] | None
    """Parameters of a function."""

    def bind(self, sample: Floats, variance: float | None = None) -> Kernel:
        """The kernel for rows like those of a sample.

        Parameters
        ----------
        sample : ndarray of shape (m, n_features)
        variance : float or None
            Variance of all entries of the table; of the sample when ``None``.

        Returns
        -------
        Kernel
        """
        if not isinstance(self.metric, str):
            return Kernel(self.metric, dict(self.extra or {}))
        named = KERNELS.create(self.metric)
        values = {"degree": self.degree, "coef0": self.coef0}
        if "gamma" in named.parameters:
            values["gamma"] = self._gamma(named, sample, variance)
        return Kernel(self.metric, {name: values[name] for name in named.parameters})

    def _gamma(self, named: NamedKernel, sample: Floats, variance: float | None) -> float:
        default = 1.0 / int(sample.shape[1])
        if self.gamma is None:
            return default
        if not isinstance(self.gamma, str):
            return float(self.gamma)
        chosen = named.median_gamma(sample) if self.gamma == "median" else None
        if chosen is not None:
            return chosen
        spread = float(np.var(sample)) if variance is None else variance
        return default / spread if spread > 0 else default

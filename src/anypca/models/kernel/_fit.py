"""The three ways to fit: all pairs of rows, random Fourier features, landmarks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.linalg

from anypca._registry import Registry
from anypca._typing import Floats
from anypca.engine import Block, Statistics
from anypca.models._arguments import check_largest, check_symmetric
from anypca.models._session import Session
from anypca.models.kernel._embedding import (
    Embedding,
    ExactEmbedding,
    FeatureMap,
    embed_exactly,
    embed_features,
    fourier_map,
    landmark_map,
)
from anypca.models.kernel._kernels import KERNELS, Kernel, KernelChoice
from anypca.models.kernel._read import all_rows, chunks, sample_rows, take_rows

#: The kernel whose values are given in place of rows.
PRECOMPUTED = "precomputed"
# Kernel values of a user's matrix may differ from symmetry by this share of the largest: rounding of float32.
_ASYMMETRY = 1e-6


@dataclass(frozen=True)
class Settings:
    """What the user asked for."""

    kernel: KernelChoice
    n_components: int | None
    n_basis: int
    eigen_solver: str

    @property
    def is_precomputed(self) -> bool:
        """Whether X holds kernel values in place of rows."""
        return self.kernel.metric == PRECOMPUTED


@dataclass(frozen=True)
class Method(ABC):
    """A way to fit. `sweep` reads the rows, `solve` does dense algebra that may use all cores."""

    name: ClassVar[str]
    session: Session
    settings: Settings

    @abstractmethod
    def sweep(self) -> Any:
        """What the solution needs, from passes over the table."""

    @abstractmethod
    def solve(self, collected: Any) -> tuple[Kernel | None, Embedding]:
        """The kernel as it was chosen, and the components."""

    def score_map(self, kernel: Kernel, scores: Floats) -> FeatureMap | None:
        """Features of scores for the way back to the rows, from a sample (m, n_components) of scores.

        ``None``: by kernel values with all training rows.
        """
        return None

    def bind(self, sample: Floats) -> Kernel:
        """The kernel for the rows of the table, of which ``sample`` are some."""
        summary = self.session.summary
        return self.settings.kernel.bind(sample, float(summary.variance.mean() + summary.mean.var()))


METHODS: Registry[Method] = Registry("method")


@METHODS.register
class Exact(Method):
    """All pairs of rows: time and memory grow with the square of their number."""

    name = "exact"

    def sweep(self) -> tuple[Kernel | None, Any]:
        check_largest(self.settings.n_components, self.session.data.n_samples, "n_samples")
        if self.settings.is_precomputed:
            values = all_rows(self.session, dense=True)
            remedy = (
                "Pass kernel values of all pairs of training rows, or choose a kernel for a table of rows."
            )
            check_symmetric(values, "kernel='precomputed'", remedy, _ASYMMETRY)
            return None, values
        is_function = not isinstance(self.settings.kernel.metric, str)
        return self.bind(sample_rows(self.session)), all_rows(self.session, dense=is_function)

    def solve(self, collected: tuple[Kernel | None, Any]) -> tuple[Kernel | None, Embedding]:
        kernel, table = collected
        values = table if kernel is None else kernel.between(table, table)
        seed = int(self.session.rng.integers(2**31))
        solution = embed_exactly(values, self.settings.n_components, self.settings.eigen_solver, seed)
        return kernel, ExactEmbedding(kernel, None if kernel is None else table, *solution)


class Approximate(Method):
    """Principal components of explicit features, from their mean and Gram matrix summed over blocks."""

    def sweep(self) -> tuple[Kernel, FeatureMap, Floats, FeatureSums]:
        if self.settings.is_precomputed:
            raise ValueError(
                f"kernel='precomputed' leaves nothing to approximate; got method={self.name!r}. "
                "Use method='exact', or pass rows and a kernel."
            )
        data = self.session.data
        largest = min(data.n_samples, self.settings.n_basis)
        check_largest(self.settings.n_components, largest, "min(n_basis, n_samples)")
        sample = sample_rows(self.session)
        kernel = self.bind(sample)
        feature_map = self.feature_map(kernel)
        # Sums about a point near the mean: about 0 the mean would cancel most of their digits.
        shift = feature_map.features(sample.astype(data.dtype)).mean(axis=0, dtype=np.float64)
        return kernel, feature_map, shift, sum_features(self.session, feature_map, shift)

    @abstractmethod
    def feature_map(self, kernel: Kernel) -> FeatureMap:
        """The features of the table's rows."""

    def solve(
        self, collected: tuple[Kernel, FeatureMap, Floats, FeatureSums]
    ) -> tuple[Kernel | None, Embedding]:
        kernel, feature_map, shift, sums = collected
        mean, gram = shift + sums.mean, sums.gram - sums.n_rows * np.outer(sums.mean, sums.mean)
        # Rows that are all equal have features that differ by rounding only, which is not variance.
        rounding = len(mean) * np.finfo(self.session.data.dtype).eps
        if np.trace(gram) <= sums.n_rows * rounding**2 * (mean @ mean):
            gram = np.zeros_like(gram)
        return kernel, embed_features(feature_map, mean, gram, sums.missed, self.settings.n_components)


@METHODS.register
class Fourier(Approximate):
    """Random Fourier features."""

    name = "rff"

    def feature_map(self, kernel: Kernel) -> FeatureMap:
        if kernel.named is None or not kernel.named.has_frequencies:
            names = ", ".join(repr(name) for name in KERNELS if KERNELS.create(name).has_frequencies)
            raise ValueError(
                f"method='rff' needs a kernel of differences, {names}; got {kernel.metric!r}. "
                "Use method='nystroem', which takes any kernel."
            )
        session = self.session
        n_features, n_basis = session.data.n_features, self.settings.n_basis
        return fourier_map(kernel, n_features, n_basis, session.rng, session.data.dtype)

    def score_map(self, kernel: Kernel, scores: Floats) -> FeatureMap | None:
        return fourier_map(kernel, scores.shape[1], self.settings.n_basis, self.session.rng)


@METHODS.register
class Nystroem(Approximate):
    """Kernel values with some of the rows."""

    name = "nystroem"

    def feature_map(self, kernel: Kernel) -> FeatureMap:
        n = self.session.data.n_samples
        numbers = np.sort(self.session.rng.choice(n, min(self.settings.n_basis, n), replace=False))
        return landmark_map(kernel, take_rows(self.session, numbers))

    def score_map(self, kernel: Kernel, scores: Floats) -> FeatureMap | None:
        return landmark_map(kernel, scores[: self.settings.n_basis])


@dataclass(frozen=True)
class FeatureSums(Statistics):
    """Sums over rows of shifted features."""

    n_rows: int
    total: Floats
    """(n_basis,)"""
    gram: Floats
    """Upper triangle (n_basis, n_basis)."""
    missed: float
    """Squares that the features lack."""

    @property
    def mean(self) -> Floats:
        return np.asarray(self.total / self.n_rows)


def sum_features(session: Session, feature_map: FeatureMap, shift: Floats) -> FeatureSums:
    """Sums of the features of all rows less ``shift`` (n_basis,); a worker holds no more than a chunk of features."""

    def add(block: Block, _: None) -> FeatureSums:
        total, gram, missed = np.zeros(len(shift)), np.zeros((len(shift), len(shift))), 0.0
        for part in chunks(block.read().x, len(shift)):
            features = feature_map.features(part)
            missed += float(feature_map.missed(part, features).sum())
            features -= shift.astype(features.dtype)
            total += features.sum(axis=0, dtype=np.float64)
            # syrk does half the work of a product. The transpose is the same memory in the order that BLAS expects.
            gram += scipy.linalg.get_blas_funcs("syrk", (features,))(1.0, features.T)
        return FeatureSums(block.n_rows, total, gram, missed)

    found: FeatureSums = session.sum(add)
    return found

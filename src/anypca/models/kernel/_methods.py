"""The three ways to fit: all pairs of rows, random Fourier features, landmarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import scipy.linalg

from anypca._registry import Registry
from anypca._typing import Floats
from anypca.engine import Block, Data, Executor, Statistics
from anypca.models.kernel._embedding import Embedding, ExactEmbedding, embed_exactly, embed_features
from anypca.models.kernel._kernels import KERNELS, Kernel, KernelChoice
from anypca.models.kernel._maps import FeatureMap, fourier_map, landmark_map
from anypca.models.kernel._rows import all_rows, chunks, spread_rows, take_rows

#: The kernel whose values are given in place of rows.
PRECOMPUTED = "precomputed"
# Rows whose distances the width of the kernel is taken from: half a million pairs.
SAMPLE_ROWS = 1000


@dataclass(frozen=True)
class Task:
    """What to fit, and how."""

    kernel: KernelChoice
    n_components: int | None
    n_basis: int
    eigen_solver: str
    rng: np.random.Generator

    @property
    def is_precomputed(self) -> bool:
        return self.kernel.metric == PRECOMPUTED


@dataclass(frozen=True)
class Rows:
    """A complete table and the executor that visits it."""

    data: Data
    executor: Executor
    variance: float
    """Variance of all entries."""

    def sample(self) -> Floats:
        """Rows spread over the table (m, n_features)."""
        return take_rows(self.data, self.executor, spread_rows(self.data.n_samples, SAMPLE_ROWS))


class Method(Protocol):
    """A way to fit. `sweep` reads the rows, `solve` does dense algebra that may use all cores."""

    name: ClassVar[str]
    takes_kernel_values: ClassVar[bool]
    """Whether X may hold kernel values in place of rows."""

    def sweep(self, task: Task, rows: Rows) -> Any:
        """What the solution needs, from passes over the table."""

    def solve(self, task: Task, collected: Any) -> tuple[Kernel | None, Embedding]:
        """The kernel as it was chosen, and the components."""

    def score_map(self, task: Task, kernel: Kernel, scores: Floats) -> FeatureMap | None:
        """Features of scores for the way back to the rows, from a sample (m, n_components) of scores.

        ``None``: by kernel values with all training rows.
        """


METHODS: Registry[Method] = Registry("method")


@METHODS.register
class Exact:
    """All pairs of rows: time and memory grow with the square of their number."""

    name: ClassVar[str] = "exact"
    takes_kernel_values: ClassVar[bool] = True

    def sweep(self, task: Task, rows: Rows) -> tuple[Kernel | None, Any]:
        check_count(task, rows.data.n_samples, "the number of rows")
        is_function = not isinstance(task.kernel.metric, str)
        table = all_rows(rows.data, rows.executor, dense=is_function or task.is_precomputed)
        if task.is_precomputed:
            return None, check_kernel_matrix(table)
        return task.kernel.bind(rows.sample(), rows.variance), table

    def solve(self, task: Task, collected: tuple[Kernel | None, Any]) -> tuple[Kernel | None, Embedding]:
        kernel, table = collected
        values = table if kernel is None else kernel.between(table, table)
        seed = int(task.rng.integers(2**31))
        solution = embed_exactly(values, task.n_components, task.eigen_solver, seed)
        return kernel, ExactEmbedding(kernel, None if kernel is None else table, *solution)

    def score_map(self, task: Task, kernel: Kernel, scores: Floats) -> FeatureMap | None:
        return None


class Approximate:
    """Principal components of explicit features, from their mean and Gram matrix summed over blocks."""

    name: ClassVar[str]
    takes_kernel_values: ClassVar[bool] = False

    def sweep(self, task: Task, rows: Rows) -> tuple[Kernel, FeatureMap, Floats, Floats, float]:
        data = rows.data
        largest = min(data.n_samples, task.n_basis)
        check_count(task, largest, "the smaller of n_basis and the number of rows")
        sample = rows.sample()
        kernel = task.kernel.bind(sample, rows.variance)
        feature_map = self.feature_map(task, kernel, rows)
        # Sums about a point near the mean: about 0 the mean would cancel most of their digits.
        shift = feature_map.features(sample.astype(data.dtype)).mean(axis=0, dtype=np.float64)
        sums = sum_features(data, rows.executor, feature_map, shift)
        mean, gram = shift + sums.mean, sums.centred_gram
        # Rows that are all equal have features that differ by rounding only, which is not variance.
        rounding = len(mean) * np.finfo(data.dtype).eps
        if np.trace(gram) <= sums.n_rows * rounding**2 * (mean @ mean):
            gram = np.zeros_like(gram)
        return kernel, feature_map, mean, gram, sums.missed

    def feature_map(self, task: Task, kernel: Kernel, rows: Rows) -> FeatureMap:
        """The features of a table's rows."""
        raise NotImplementedError

    def solve(
        self, task: Task, collected: tuple[Kernel, FeatureMap, Floats, Floats, float]
    ) -> tuple[Kernel | None, Embedding]:
        kernel, feature_map, mean, gram, missed = collected
        return kernel, embed_features(feature_map, mean, gram, missed, task.n_components)


@METHODS.register
class Fourier(Approximate):
    """Random Fourier features."""

    name = "rff"

    def feature_map(self, task: Task, kernel: Kernel, rows: Rows) -> FeatureMap:
        kind = kernel.kind
        if kind is None or not kind.has_frequencies:
            names = ", ".join(repr(name) for name in KERNELS if KERNELS.create(name).has_frequencies)
            raise ValueError(
                f"method='rff' needs a kernel of differences, {names}; got {task.kernel.metric!r}. "
                "Use method='nystroem', which takes any kernel."
            )
        return fourier_map(kernel, rows.data.n_features, task.n_basis, task.rng, rows.data.dtype)

    def score_map(self, task: Task, kernel: Kernel, scores: Floats) -> FeatureMap | None:
        return fourier_map(kernel, scores.shape[1], task.n_basis, task.rng)


@METHODS.register
class Nystroem(Approximate):
    """Kernel values with some of the rows."""

    name = "nystroem"

    def feature_map(self, task: Task, kernel: Kernel, rows: Rows) -> FeatureMap:
        n = rows.data.n_samples
        numbers = np.sort(task.rng.choice(n, min(task.n_basis, n), replace=False))
        return landmark_map(kernel, take_rows(rows.data, rows.executor, numbers))

    def score_map(self, task: Task, kernel: Kernel, scores: Floats) -> FeatureMap | None:
        return landmark_map(kernel, scores[: task.n_basis])


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

    @property
    def centred_gram(self) -> Floats:
        return np.asarray(self.gram - self.n_rows * np.outer(self.mean, self.mean))


def sum_features(data: Data, executor: Executor, feature_map: FeatureMap, shift: Floats) -> FeatureSums:
    """Sums of the features of all rows; no more than a chunk of features is held per worker.

    Parameters
    ----------
    data : Data
    executor : Executor
    feature_map : FeatureMap
    shift : ndarray of shape (n_basis,)
        Subtracted from the features.

    Returns
    -------
    FeatureSums
    """

    def add(block: Block, _: None) -> tuple[None, FeatureSums]:
        total, gram, missed = np.zeros(len(shift)), np.zeros((len(shift), len(shift))), 0.0
        for part in chunks(block.read().x, len(shift)):
            features = feature_map.features(part)
            missed += float(feature_map.missed(part, features).sum())
            features -= shift.astype(features.dtype)
            total += features.sum(axis=0, dtype=np.float64)
            # Half the work of a product. Passing the transpose hands over the memory as it is.
            gram += scipy.linalg.get_blas_funcs("syrk", (features,))(1.0, features.T)
        return None, FeatureSums(block.n_rows, total, gram, missed)

    return executor.sweep(add, data)[1]


def check_count(task: Task, largest: int, what: str) -> None:
    """Raise if there are not that many components."""
    if task.n_components is not None and task.n_components > largest:
        raise ValueError(
            f"n_components={task.n_components} must be at most {largest}, {what}. Ask for fewer components."
        )


def check_kernel_matrix(values: Floats) -> Floats:
    """Raise unless a matrix can hold the kernel values of all pairs of rows."""
    if values.shape[0] != values.shape[1]:
        raise ValueError(
            f"kernel='precomputed' needs the square matrix of kernel values of all pairs of training rows; X has "
            f"shape {values.shape}. Pass it, or choose a kernel for a table of rows."
        )
    gap = np.abs(values - values.T)
    if gap.max() > 1e-6 * np.abs(values).max():
        i, j = np.unravel_index(int(np.argmax(gap)), gap.shape)
        raise ValueError(
            f"kernel='precomputed' needs a symmetric matrix; X[{i}, {j}] is {values[i, j]:.6g} and X[{j}, {i}] is "
            f"{values[j, i]:.6g}. Pass kernel values of all pairs of training rows."
        )
    return values

"""Fits of kernel PCA: by all pairs of rows, or by explicit features that are summed over blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from scipy import sparse
from scipy.sparse.linalg import ArpackNoConvergence
from sklearn.decomposition import KernelPCA as ExactKernelPCA

from anypca._typing import Floats, Ints
from anypca.engine import Block, Statistics
from anypca.linalg import fix_signs
from anypca.models._arguments import check_largest, check_symmetric
from anypca.models._context import FitContext
from anypca.models.kernel._features import FEATURE_MAPS, Embedding, KernelValues, chunks
from anypca.models.kernel._kernels import KERNELS, Kernel, choose_gamma

# Kernel values of a user's matrix may differ from symmetry by this share of the largest: rounding of float32.
_ASYMMETRY = 1e-6
# Rows whose median distance determines gamma: half a million pairs.
_SAMPLE_ROWS = 1000


@dataclass(frozen=True)
class Settings:
    """Parameters of a fit; see `anypca.KernelPCA`."""

    kernel: str | Callable[..., float]
    method: str
    gamma: float | str | None
    degree: float
    coef0: float
    kernel_params: Mapping[str, Any] | None
    n_components: int | None
    n_basis: int
    eigen_solver: str

    @property
    def is_precomputed(self) -> bool:
        """Whether X holds kernel values in place of rows."""
        return self.kernel == "precomputed"

    def bind(self, sample: Floats, variance: float) -> Kernel:
        """The kernel for rows like the rows of a sample (m, p), given the variance of all entries."""
        if not isinstance(self.kernel, str):
            return Kernel(self.kernel, dict(self.kernel_params or {}))
        gamma = choose_gamma(self.gamma, self.kernel, sample, variance)
        values = {"gamma": gamma, "degree": self.degree, "coef0": self.coef0}
        return Kernel(self.kernel, {name: values[name] for name in KERNELS[self.kernel]})


def prepare_fit(session: FitContext, settings: Settings) -> Callable[[], tuple[Kernel, Embedding]]:
    """Read the rows; the function that is returned solves a dense eigenproblem and may use all cores."""
    largest, allowed = session.data.n_samples, "n_samples"
    if settings.method in FEATURE_MAPS:
        largest, allowed = min(largest, settings.n_basis), "min(n_basis, n_samples)"
        if settings.is_precomputed:
            raise ValueError(
                f"kernel='precomputed' leaves nothing to approximate; got method={settings.method!r}. "
                "Use method='exact', or pass rows and a kernel."
            )
    check_largest(settings.n_components, largest, allowed)
    summary, sample = session.summary, sample_rows(session)
    kernel = settings.bind(sample, float(summary.variance.mean() + summary.mean.var()))
    prepare = _prepare_features if settings.method in FEATURE_MAPS else _prepare_exact
    return prepare(session, settings, kernel, sample)


def _prepare_exact(
    session: FitContext, settings: Settings, kernel: Kernel, sample: Floats
) -> Callable[[], tuple[Kernel, Embedding]]:
    """All pairs of rows: time and memory grow with the square of their number."""
    table = all_rows(session, dense=settings.is_precomputed or callable(settings.kernel))
    if settings.is_precomputed:
        remedy = "Pass kernel values of all pairs of training rows, or choose a kernel for a table of rows."
        check_symmetric(table, "kernel='precomputed'", remedy, _ASYMMETRY)
    seed = int(session.rng.integers(2**31))

    def solve() -> tuple[Kernel, Embedding]:
        values = table if settings.is_precomputed else kernel.between(table, table)
        features = KernelValues(kernel, None if settings.is_precomputed else table)
        centre, n = values.mean(axis=0), len(values)
        trace = float(np.trace(values))
        total = max(trace - n * float(centre.mean()), 0.0)
        if total <= n * np.finfo(np.float64).eps * abs(trace):  # one point, n times
            k = settings.n_components or 1
            return kernel, Embedding(features, centre, np.zeros((n, k)), np.zeros(k), 0.0)
        found = _exact_components(values, settings, seed)
        roots = np.sqrt(found.eigenvalues_)
        axes = np.divide(found.eigenvectors_, roots, out=np.zeros_like(found.eigenvectors_), where=roots > 0)
        # Axes of centred features sum to 0; without rounding in the sum, rows need no centring of their own.
        axes -= axes.mean(axis=0)
        return kernel, Embedding(features, centre, axes, found.eigenvalues_, total)

    return solve


def _exact_components(values: Floats, settings: Settings, seed: int) -> ExactKernelPCA:
    """scikit-learn's kernel PCA of a matrix (n, n), which is overwritten."""
    n, k = len(values), settings.n_components
    model = ExactKernelPCA(
        k, kernel="precomputed", eigen_solver=settings.eigen_solver, random_state=seed, copy_X=False
    )
    if settings.eigen_solver != "auto" or k is None:
        return model.fit(values)
    # A restart of ARPACK takes about k + 10 products of 2 n^2 operations, the dense solver 4 n^3 / 3.
    restarts = 2 * n // (3 * (k + 10))
    try:
        # A usual spectrum takes some ten restarts.
        solver = "arpack" if restarts > 10 else "dense"
        return model.set_params(eigen_solver=solver, max_iter=restarts or None).fit(values)
    except ArpackNoConvergence:
        return model.set_params(eigen_solver="dense").fit(values)


@dataclass(frozen=True)
class _FeatureSums(Statistics):
    """Sums over rows of shifted features."""

    total: Floats
    """(n_basis,)"""
    gram: Floats
    """Upper triangle (n_basis, n_basis)."""
    squares: float
    """Squared distances from the shift."""


def _prepare_features(
    session: FitContext, settings: Settings, kernel: Kernel, sample: Floats
) -> Callable[[], tuple[Kernel, Embedding]]:
    """Explicit features: their means and products, summed over blocks."""
    n, dtype = session.data.n_samples, session.data.dtype
    drawn = np.sort(session.rng.choice(n, min(settings.n_basis, n), replace=False))
    rows = take_rows(session, drawn).astype(dtype)
    feature_map = FEATURE_MAPS[settings.method](kernel, rows, settings.n_basis, session.rng)
    # Sums about a point near the mean: about 0 the mean would cancel most of their digits.
    shift = feature_map.features(sample.astype(dtype)).mean(axis=0, dtype=np.float64)

    def add(block: Block, _: None) -> _FeatureSums:
        sums = _FeatureSums(np.zeros(len(shift)), np.zeros((len(shift), len(shift))), 0.0)
        for part in chunks(block.read().x, len(shift)):
            features = feature_map.features(part)
            squares = float(feature_map.squares(part, features, shift).sum())
            features -= shift.astype(features.dtype)
            # syrk does half the work of a product. The transpose is the same memory in the order that BLAS expects.
            gram = scipy.linalg.get_blas_funcs("syrk", (features,))(1.0, features.T)
            sums += _FeatureSums(features.sum(axis=0, dtype=np.float64), gram, squares)
        return sums

    sums: _FeatureSums = session.sum(add)

    def solve() -> tuple[Kernel, Embedding]:
        mean = sums.total / n
        gram, centre = sums.gram - n * np.outer(mean, mean), shift + mean
        # Rows that are all equal have features that differ by rounding only, which is not variance.
        rounding = len(mean) * np.finfo(dtype).eps
        if np.trace(gram) <= n * rounding**2 * (centre @ centre):
            gram = np.zeros_like(gram)
        values, axes = _feature_components(gram, settings.n_components)
        total = max(float(sums.squares) - n * float(mean @ mean), 0.0)
        return kernel, Embedding(feature_map, centre, axes, values, total)

    return solve


def _feature_components(gram: Floats, n_components: int | None) -> tuple[Floats, Floats]:
    """Eigenvalues (k,), decreasing, and eigenvectors (m, k) of the upper triangle of a matrix (m, m).

    ``None`` for all eigenvalues that are not 0, at least one; more than there are become 0.
    """
    m = len(gram)
    wanted = None if n_components is None else (max(m - n_components, 0), m - 1)
    values, axes = scipy.linalg.eigh(gram, lower=False, subset_by_index=wanted, check_finite=False)
    values, axes = np.maximum(values[::-1], 0.0), axes[:, ::-1]
    # Eigenvalues at the rounding of the largest are zeros: their axes would be noise.
    values = np.where(values > values[0] * m * np.finfo(np.float64).eps, values, 0.0)
    k = n_components or max(1, int(np.count_nonzero(values)))
    short = max(k - m, 0)  # landmarks are collinear
    axes = np.pad(axes[:, :k] * fix_signs(axes[:, :k].T), ((0, 0), (0, short)))
    return np.pad(values[:k], (0, short)), axes


def take_rows(session: FitContext, numbers: Ints) -> Floats:
    """Rows with the given increasing numbers (m,), dense, shape (m, n_features), float64."""

    def take(block: Block) -> Floats:
        first, last = np.searchsorted(numbers, [block.start, block.stop])
        if first == last:
            return np.empty((0, session.data.n_features))
        return block.read().x[numbers[first:last] - block.start].astype(np.float64)

    return np.concatenate(session.gather(take))


def sample_rows(session: FitContext) -> Floats:
    """Rows spread evenly over the table (m, n_features): a sample that is the same for every layout and every fit."""
    n = session.data.n_samples
    return take_rows(session, np.unique(np.linspace(0, n - 1, min(_SAMPLE_ROWS, n)).round().astype(np.intp)))


def all_rows(session: FitContext, *, dense: bool) -> Any:
    """The table in one piece, float64; a sparse one stays sparse unless ``dense``."""
    parts = session.gather(lambda block: (block.read().x if dense else block.matrix()).astype(np.float64))
    return sparse.vstack(parts, format="csr") if hasattr(parts[0], "tocsr") else np.concatenate(parts)

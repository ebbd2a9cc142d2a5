"""From a table, or a matrix of inner products, to sparse components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from anypca._typing import Floats
from anypca.engine import Data, Executor, Summary
from anypca.linalg import fix_signs
from anypca.models.spca._alternation import Alternation, Pair, run_counted
from anypca.models.spca._product import Gram, Product, Rows, sum_gram
from anypca.models.spca._regression import (
    CountedElasticNet,
    CountedSoftThreshold,
    Counting,
    ElasticNet,
    Regression,
    SoftThreshold,
)
from anypca.solvers import Callback, Result, Status
from anypca.solvers.closed_form import Centring, covariance_spectrum

# Above, the p x p matrix of a finite ridge and its working copies take several gigabytes.
_MAX_GRAM = 10_000
# With an infinite ridge the p x p matrix is a convenience; above this size rows are cheaper.
_SMALL_GRAM = 2_000


@dataclass(frozen=True)
class Task:
    """What to fit, and how; one number per component where it is a sequence."""

    n_components: int | None
    n_nonzero: int | Sequence[int] | None
    penalty: float | Sequence[float] | None
    ridge: float
    max_iter: int
    tol: float
    rng: np.random.Generator

    @property
    def n_asked(self) -> int | None:
        """Number of components, as given or by the length of a sequence; ``None`` for the rank."""
        if self.n_components is not None:
            return int(self.n_components)
        lengths = [np.size(v) for v in (self.n_nonzero, self.penalty) if v is not None and np.ndim(v) == 1]
        return lengths[0] if lengths else None

    @property
    def is_soft(self) -> bool:
        """Whether the ridge is infinite."""
        return bool(np.isinf(self.ridge))


@dataclass(frozen=True)
class Start:
    """G with its leading eigenvectors."""

    product: Product
    values: Floats
    """Eigenvalues, decreasing (m,)."""
    vectors: Floats
    """(n_features, m)"""


@dataclass(frozen=True)
class Sparse:
    """Fitted sparse components."""

    components: Floats
    """Unit rows with exact zeros (n_components, n_features); a row of zeros where nothing is left."""
    back: Floats
    """Least squares coefficients of the columns on the scores (n_components, n_features)."""
    variances: Floats
    """Squares of each score beyond the scores before it (n_components,)."""
    total: float
    """Sum of squares of the table: the trace of G."""
    penalties: Floats


def start_from_data(task: Task, data: Data, executor: Executor, summary: Summary) -> Start:
    """G of a complete table and its leading eigenvectors.

    Parameters
    ----------
    task : Task
    data : Data
    executor : Executor
    summary : Summary

    Returns
    -------
    Start
    """
    n, p = data.n_samples, data.n_features
    if not task.is_soft and p > _MAX_GRAM:
        raise ValueError(
            f"SPCA with a finite ridge holds an n_features x n_features matrix; X has {p} columns, and at most "
            f"{_MAX_GRAM} are allowed. Use ridge=numpy.inf, which needs no such matrix."
        )
    _check_count(task, min(n, p), "the smaller of the numbers of rows and columns")
    centring = Centring(summary.mean)
    if p <= (_SMALL_GRAM if task.is_soft else n):
        return start_from_gram(task, sum_gram(data, executor, centring))
    spectrum = covariance_spectrum(
        data, executor, centring, divisor=1.0, n_components=task.n_asked, rng=task.rng
    )
    rows: Product = Rows(data, executor, centring, spectrum.trace)
    product = rows if task.is_soft else sum_gram(data, executor, centring)
    return Start(product, spectrum.values, spectrum.vectors)


def start_from_gram(task: Task, gram: Gram) -> Start:
    """G as given, and its leading eigenvectors."""
    p = len(gram.matrix)
    _check_count(task, p, "the number of columns")
    wanted = None if task.n_asked is None else (p - task.n_asked, p - 1)
    values, vectors = scipy.linalg.eigh(gram.matrix, subset_by_index=wanted, check_finite=False)
    return Start(gram, np.maximum(values[::-1], 0.0), vectors[:, ::-1])


def _check_count(task: Task, largest: int, what: str) -> None:
    """Raise if there are not that many components."""
    if task.n_asked is not None and task.n_asked > largest:
        raise ValueError(
            f"n_components={task.n_asked} must be at most {largest}, {what}. Ask for fewer components."
        )


def check_gram(matrix: Any, name: str = "X") -> Gram:
    """A user's matrix of inner products, covariances or correlations.

    Raises
    ------
    ValueError
        If it is not square, symmetric and positive semi-definite.
    """
    G = np.asarray(matrix, dtype=np.float64)
    if G.shape[0] != G.shape[1]:
        raise ValueError(
            f"input='gram' needs a square matrix; {name} has shape {G.shape}. Pass X.T @ X, a covariance or a "
            "correlation matrix, or use input='data' for a table of rows."
        )
    size = float(np.abs(G).max())
    gap = np.abs(G - G.T)
    if gap.max() > 1e-8 * size:
        i, j = np.unravel_index(int(np.argmax(gap)), G.shape)
        raise ValueError(
            f"input='gram' needs a symmetric matrix; {name}[{i}, {j}] is {G[i, j]:.6g} and {name}[{j}, {i}] is "
            f"{G[j, i]:.6g}. Use input='data' if {name} is a table of rows."
        )
    G = 0.5 * (G + G.T)
    smallest = float(scipy.linalg.eigvalsh(G, subset_by_index=(0, 0))[0])
    if smallest < -1e-8 * len(G) * size:
        raise ValueError(
            f"input='gram' needs a positive semi-definite matrix; {name} has the eigenvalue {smallest:.3g}. "
            "Correlations computed pair by pair from incomplete data are a common cause: compute them from "
            "complete rows."
        )
    return Gram(G)


def fit_sparse(task: Task, start: Start, callback: Callback) -> tuple[Sparse, Result[Pair]]:
    """Fit the components.

    Parameters
    ----------
    task : Task
    start : Start
    callback : Callback

    Returns
    -------
    sparse : Sparse
    result : Result of Pair
        As it came from the alternation.
    """
    k = _count_components(task, start)
    axes = start.vectors[:, :k]
    counts, penalties = _check_sparsity(task, k, len(axes))
    if counts is None and not any(penalties):
        result = _without_penalty(task, start, k)
    else:
        alternation = Alternation(
            product=start.product,
            regression=_choose_regression(task, start.product, penalties),
            scale=max(float(start.values[0]), float(np.finfo(np.float64).tiny)),
            max_iter=task.max_iter,
            tol=task.tol,
            callback=callback,
            constant=0.0 if task.is_soft else start.product.trace,
        )
        if counts is None:
            result = alternation.run(axes)
        else:
            result = run_counted(alternation, _choose_counting(alternation.regression, counts), axes)
    return _finish(result.shared, start.product), result


def _count_components(task: Task, start: Start) -> int:
    """The number asked for, or the rank."""
    if task.n_asked is not None:
        return task.n_asked
    noise = start.values[0] * len(start.vectors) * np.finfo(np.float64).eps
    return max(1, int(np.count_nonzero(start.values > noise)))


def _check_sparsity(task: Task, k: int, p: int) -> tuple[list[int] | None, list[float]]:
    """Numbers of non-zero entries or ``None``, and penalties, one per component."""
    if task.n_nonzero is not None and task.penalty is not None:
        raise ValueError("give n_nonzero or penalty, not both: each determines the other.")
    penalties = _one_each("penalty", 0.0 if task.penalty is None else task.penalty, k)
    if np.any(~np.isfinite(penalties) | (penalties < 0)):
        raise ValueError(f"penalty must be finite and >= 0; got {task.penalty!r}.")
    if task.n_nonzero is None:
        return None, penalties.tolist()
    counts = _one_each("n_nonzero", task.n_nonzero, k)
    if np.any((counts != np.round(counts)) | (counts < 1) | (counts > p)):
        raise ValueError(
            f"n_nonzero must hold integers from 1 to the number of columns, {p}; got {task.n_nonzero!r}."
        )
    return counts.astype(int).tolist(), penalties.tolist()


def _one_each(name: str, value: Any, k: int) -> Floats:
    """A number for each component, float64 (k,)."""
    values = np.asarray(value, dtype=np.float64)
    if values.ndim > 1 or (values.ndim == 1 and len(values) != k):
        raise ValueError(
            f"{name} must be one number, or one for each of the {k} components; got shape {values.shape}."
        )
    return np.array(np.broadcast_to(values, (k,)))


def _choose_regression(
    task: Task, product: Product, penalties: Sequence[float]
) -> ElasticNet | SoftThreshold:
    """The regression that a ridge and penalties call for."""
    if task.is_soft:
        return SoftThreshold(penalties)
    assert isinstance(product, Gram)
    matrix = np.ascontiguousarray(product.matrix + task.ridge * np.eye(len(product.matrix)))
    return ElasticNet(matrix, penalties)


def _choose_counting(regression: Regression, counts: Sequence[int]) -> Counting:
    """The regression that meets numbers of non-zero entries in place of penalties."""
    if isinstance(regression, ElasticNet):
        return CountedElasticNet(regression.matrix, counts)
    return CountedSoftThreshold(counts)


def _without_penalty(task: Task, start: Start, k: int) -> Result[Pair]:
    """Principal components, where the alternation would stay at once (Zou et al., theorem 3)."""
    values, axes = start.values[:k], start.vectors[:, :k]
    if task.is_soft:
        factors, objective = values, float(values @ values)
    else:
        curvature = values + task.ridge
        factors = np.divide(values, curvature, out=np.zeros_like(values), where=curvature > 0)
        objective = float(values @ factors) - start.product.trace
    pair = Pair(axes, axes * factors, np.zeros(k))
    return Result(pair, np.array([objective]), Status.CONVERGED, 0.0, 1)


def _finish(pair: Pair, product: Product) -> Sparse:
    """Components of unit length, their scores' adjusted variances, and the way back to the columns."""
    B = pair.coefficients
    lengths = np.linalg.norm(B, axis=0)
    components = (B / np.where(lengths > 0, lengths, 1.0)).T
    components = components * fix_signs(components)[:, None] + 0.0  # no negative zeros
    image = product.times(components.T)
    inner = components @ image
    total = product.trace
    back = scipy.linalg.pinvh(inner) @ image.T if total > 0 else np.zeros_like(components)
    return Sparse(components, back, adjusted_squares(inner), total, pair.penalties)


def adjusted_squares(inner: Floats) -> Floats:
    """Squared diagonal of the triangular factor of Z, from Z'Z (k, k).

    Entry j is the squared length of score j after its regression on the scores before it: what it adds.
    """
    values, vectors = scipy.linalg.eigh(inner)
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    triangle = np.linalg.qr(root, mode="r")
    return np.asarray(np.diag(triangle) ** 2)

"""From a table, or a matrix of inner products, to sparse components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from anypca._typing import Floats
from anypca.linalg import fix_signs
from anypca.models._arguments import check_largest, check_rank, check_symmetric
from anypca.models._context import FitContext
from anypca.models._gaussian.gram import Gram, StoredGram, StreamedGram, sum_gram
from anypca.models._gaussian.principal import count_rows
from anypca.models._gaussian.regression import regress_on_scores
from anypca.models.spca._eigen import SparseVector, find_sparse_vectors, start_deflation
from anypca.models.spca._elastic_net import Alternation, counted, penalised, run_counted
from anypca.solvers import Result, Status
from anypca.solvers.closed_form import Centring

# Above, the p x p matrix of a finite ridge and its working copies take several gigabytes.
_MAX_GRAM = 10_000
# With an infinite ridge the p x p matrix is a convenience; above this size rows are cheaper.
_SMALL_GRAM = 2_000
# Entries of a matrix that its user computed may differ from symmetry, and its eigenvalues fall below 0, by this share
# of the largest entry: half of the digits.
_ROUNDING = 1e-8
# Ridge that makes regressions unique without changing them.
_SMALL_RIDGE = 1e-6


@dataclass(frozen=True)
class Settings:
    """Parameters of a fit, see `anypca.SPCA`; sequences have one number per component."""

    n_components: int | None
    n_nonzero: int | Sequence[int] | None
    penalty: float | Sequence[float] | None
    ridge: float | str
    input: str
    method: str
    deflation: str
    max_nodes: int

    @property
    def n_asked(self) -> int | None:
        """Number of components, as given or by the length of a sequence; ``None`` for the rank."""
        if self.n_components is not None:
            return int(self.n_components)
        lengths = [np.size(v) for v in (self.n_nonzero, self.penalty) if v is not None and np.ndim(v) == 1]
        return lengths[0] if lengths else None

    @property
    def is_free(self) -> bool:
        """Whether neither numbers of loadings nor penalties are given: components are principal for any ridge."""
        return self.n_nonzero is None and (self.penalty is None or not np.any(self.penalty))

    def find_ridge(self, session: FitContext) -> float:
        """The ridge; infinite if none is needed."""
        if self.method == "eigen" or self.is_free:
            return np.inf
        if not isinstance(self.ridge, str):
            return float(self.ridge)
        # Zou, Hastie and Tibshirani (2006), section 4.
        is_wide = self.input == "data" and session.data.n_features > session.data.n_samples
        return np.inf if is_wide else _SMALL_RIDGE


@dataclass(frozen=True)
class Start:
    """G = X'X with its leading eigenvectors."""

    gram: Gram
    values: Floats
    """Eigenvalues, decreasing (m,)."""
    vectors: Floats
    """(n_features, m)"""
    mean: Floats
    """Means of the columns (n_features,), 0 if G was given."""
    divisor: float
    """Makes variances of sums of squares."""
    squares: Floats
    """Diagonal of G (n_features,)."""


@dataclass(frozen=True)
class SparseComponents:
    """Fitted sparse components."""

    components: Floats
    """Unit rows with exact zeros (n_components, n_features); a row of zeros where nothing is left."""
    back: Floats
    """Least squares coefficients of the columns on the scores (n_components, n_features)."""
    mean: Floats
    """(n_features,)"""
    variances: Floats
    """Variance of each score beyond the scores before it (n_components,)."""
    shares: Floats
    """The same as shares of the variance of the table; 0 for a constant table."""
    penalties: Floats
    """(n_components,)"""
    vectors: Sequence[SparseVector]
    """Of ``method="eigen"``, with values and bounds as variances."""


def fit_sparse(session: FitContext, settings: Settings) -> tuple[SparseComponents, Result[Any]]:
    """Fit the components to a complete table, or to a matrix of inner products."""
    ridge = settings.find_ridge(session)
    find = _from_gram if settings.input == "gram" else _from_data
    start = find(session, settings.n_asked, is_soft=bool(np.isinf(ridge)))
    noise = start.values[0] * len(start.vectors) * np.finfo(np.float64).eps
    k = settings.n_asked or max(1, int(np.count_nonzero(start.values > noise)))
    counts, penalties = _check_sparsity(settings, k, len(start.vectors))
    if settings.method == "eigen":
        S = start_deflation(start.gram, start.squares, float(start.values[0]))
        counts = counts or [len(start.vectors)] * k
        vectors = find_sparse_vectors(S, counts, settings.deflation, settings.max_nodes)
        B, trace = np.column_stack([one.vector for one in vectors]), np.cumsum([one.value for one in vectors])
        found = _finish(B, np.zeros(k), start, [one.scaled(1.0 / start.divisor) for one in vectors])
        return found, Result(None, trace, Status.CONVERGED, 0.0, k)
    matrix = None
    if np.isfinite(ridge):
        assert isinstance(start.gram, StoredGram)
        matrix = np.ascontiguousarray(start.gram.matrix + ridge * np.eye(len(start.vectors)))
    scale = max(float(start.values[0]), float(np.finfo(np.float64).tiny))
    solve = penalised(matrix, penalties) if counts is None else counted(matrix, counts)
    alternation, axes = Alternation(start.gram, matrix, solve, scale, session), start.vectors[:, :k]
    result = alternation.run(axes) if counts is None else run_counted(alternation, axes)
    return _finish(result.shared.coefficients, result.shared.penalties, start, []), result


def _check_sparsity(settings: Settings, k: int, p: int) -> tuple[list[int] | None, list[float]]:
    """Numbers of non-zero entries or ``None``, and penalties, one per component."""
    if settings.method == "eigen" and settings.penalty is not None:
        raise ValueError("method='eigen' has no penalty. Give n_nonzero, or use method='elastic_net'.")
    if settings.n_nonzero is not None and settings.penalty is not None:
        raise ValueError("give n_nonzero or penalty, not both: each determines the other.")
    penalties = _one_each("penalty", 0.0 if settings.penalty is None else settings.penalty, k)
    if np.any(~np.isfinite(penalties) | (penalties < 0)):
        raise ValueError(f"penalty must be finite and >= 0; got {settings.penalty!r}.")
    if settings.n_nonzero is None:
        return None, penalties.tolist()
    counts = _one_each("n_nonzero", settings.n_nonzero, k)
    if np.any((counts != np.round(counts)) | (counts < 1) | (counts > p)):
        raise ValueError(
            f"n_nonzero must hold integers from 1 to the number of columns, {p}; got {settings.n_nonzero!r}."
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


def _from_data(session: FitContext, n_components: int | None, *, is_soft: bool) -> Start:
    """G of a complete table; only its products if it is large and the ridge infinite (``is_soft``)."""
    n, p = session.data.n_samples, session.data.n_features
    weight, _ = count_rows(session, "SPCA")
    if not is_soft and p > _MAX_GRAM:
        raise ValueError(
            f"SPCA with a finite ridge holds an n_features x n_features matrix; X has {p} columns, and at most "
            f"{_MAX_GRAM} are allowed. Use ridge=numpy.inf, which needs no such matrix."
        )
    if n_components is not None:
        check_rank(n_components, session.data)
    mean = session.summary.mean
    centring = Centring(mean)
    if p <= (_SMALL_GRAM if is_soft else n):
        return _leading(sum_gram(session, centring), n_components, mean, weight - 1.0)
    found = session.spectrum(centring, divisor=1.0, n_components=n_components)
    product: Gram = StreamedGram(session, centring, found.trace) if is_soft else sum_gram(session, centring)
    return Start(product, found.values, found.vectors, mean, weight - 1.0, session.summary.variance * weight)


def _from_gram(session: FitContext, n_components: int | None, *, is_soft: bool) -> Start:
    """G as the user gave it in place of rows."""
    if session.data.has_weights:
        raise ValueError("sample_weight is for rows; with input='gram' there are none. Leave it out.")
    G = np.concatenate(session.gather(lambda block: block.read().x)).astype(np.float64)
    remedy = "Pass X.T @ X, a covariance or a correlation matrix, or use input='data' for a table of rows."
    check_symmetric(G, "input='gram'", remedy, _ROUNDING)
    G = 0.5 * (G + G.T)
    smallest = float(scipy.linalg.eigvalsh(G, subset_by_index=(0, 0))[0])
    if smallest < -_ROUNDING * len(G) * np.abs(G).max():
        raise ValueError(
            f"input='gram' needs a positive semi-definite matrix; X has the eigenvalue {smallest:.3g}. "
            "Correlations computed pair by pair from incomplete data are a common cause: compute them from "
            "complete rows."
        )
    check_largest(n_components, len(G), "n_features")
    return _leading(StoredGram(G), n_components, np.zeros(len(G)), 1.0)


def _leading(gram: StoredGram, n_components: int | None, mean: Floats, divisor: float) -> Start:
    p = len(mean)
    wanted = None if n_components is None else (p - n_components, p - 1)
    values, vectors = scipy.linalg.eigh(gram.matrix, subset_by_index=wanted, check_finite=False)
    squares = np.diag(gram.matrix).copy()
    return Start(gram, np.maximum(values[::-1], 0.0), vectors[:, ::-1], mean, divisor, squares)


def _finish(B: Floats, penalties: Floats, start: Start, vectors: Sequence[SparseVector]) -> SparseComponents:
    """Components of unit length, their scores' adjusted variances, and the way back to the columns."""
    lengths = np.linalg.norm(B, axis=0)
    components = (B / np.where(lengths > 0, lengths, 1.0)).T
    components = components * fix_signs(components)[:, None] + 0.0  # no negative zeros
    total = start.gram.trace
    back, squares = regress_on_scores(components, start.gram.times(components.T))
    shares = squares / total if total > 0 else np.zeros_like(squares)
    variances = squares / start.divisor
    return SparseComponents(components, back, start.mean, variances, shares, penalties, vectors)

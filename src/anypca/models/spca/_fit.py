"""From a table, or a matrix of inner products, to sparse components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anypca._typing import Bools, Floats
from anypca.linalg import fix_signs
from anypca.models._context import FitContext
from anypca.models._gaussian.gram import StoredGram
from anypca.models._gaussian.regression import regress_on_scores
from anypca.models.spca._alternation import Alternation, Pair, run_counted
from anypca.models.spca._deflation import start_deflation
from anypca.models.spca._eigen import find_sparse_vectors
from anypca.models.spca._regression import Counted, Penalised
from anypca.models.spca._start import Start, start_from_data, start_from_gram
from anypca.solvers import Result, Status


@dataclass(frozen=True)
class Settings:
    """What the user asked for; one number per component where it is a sequence."""

    n_components: int | None
    n_nonzero: int | Sequence[int] | None
    penalty: float | Sequence[float] | None
    ridge: float
    input: str
    method: str = "elastic_net"
    deflation: str = "schur"
    max_nodes: int = 0

    @property
    def n_asked(self) -> int | None:
        """Number of components, as given or by the length of a sequence; ``None`` for the rank."""
        if self.n_components is not None:
            return int(self.n_components)
        lengths = [np.size(v) for v in (self.n_nonzero, self.penalty) if v is not None and np.ndim(v) == 1]
        return lengths[0] if lengths else None

    @property
    def is_eigen(self) -> bool:
        """Whether components are sparse eigenvectors."""
        return self.method == "eigen"

    @property
    def is_soft(self) -> bool:
        """Whether G itself is not needed: the ridge is infinite, or the method has no ridge."""
        return self.is_eigen or bool(np.isinf(self.ridge))


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
    certificate: Certificate | None
    """Of sparse eigenvectors."""


@dataclass(frozen=True)
class Certificate:
    """How good sparse eigenvectors are, arrays (n_components,)."""

    values: Floats
    """Variance in what the components before it left."""
    bounds: Floats
    """No direction with as few loadings has more of that."""
    is_optimal: Bools
    """Whether the values are proved to be the largest."""


def fit_sparse(session: FitContext, settings: Settings) -> tuple[SparseComponents, Result[Pair]]:
    """Fit the components.

    Parameters
    ----------
    session : FitContext
        Of a complete table, or of a matrix of inner products.
    settings : Settings

    Returns
    -------
    components : SparseComponents
    result : Result of Pair
        As it came from the alternation.
    """
    if settings.input == "gram":
        start = start_from_gram(session, settings.n_asked)
    else:
        start = start_from_data(session, settings.n_asked, is_soft=settings.is_soft)
    k = _count_components(settings, start)
    counts, penalties = _check_sparsity(settings, k, len(start.vectors))
    certificate = None
    if settings.is_eigen:
        result, certificate = _find_eigenvectors(settings, start, counts or [len(start.vectors)] * k)
    elif counts is None and not any(penalties):
        result = _without_penalty(settings, start, k)
    else:
        result = _alternate(session, settings, start, counts, penalties)
    return _finish(result.shared, start, certificate), result


def _find_eigenvectors(
    settings: Settings, start: Start, counts: Sequence[int]
) -> tuple[Result[Pair], Certificate]:
    """Sparse eigenvectors, with the variance found so far as the objective."""
    S = start_deflation(start.gram, start.squares, float(start.values[0]))
    found = find_sparse_vectors(S, counts, settings.deflation, settings.max_nodes)
    vectors = np.column_stack([one.vector for one in found])
    values, bounds = (np.array(v) for v in zip(*((one.value, one.upper_bound) for one in found), strict=True))
    certificate = Certificate(
        values / start.divisor, bounds / start.divisor, np.array([one.is_optimal for one in found])
    )
    pair = Pair(vectors, vectors, np.zeros(len(found)))
    return Result(pair, np.cumsum(values), Status.CONVERGED, 0.0, len(found)), certificate


def _alternate(
    session: FitContext, settings: Settings, start: Start, counts: list[int] | None, penalties: list[float]
) -> Result[Pair]:
    """Alternate from the principal components, with penalties or until numbers of non-zero entries are met."""
    matrix = None
    if not settings.is_soft:
        assert isinstance(start.gram, StoredGram)
        matrix = np.ascontiguousarray(start.gram.matrix + settings.ridge * np.eye(len(start.vectors)))
    scale = max(float(start.values[0]), float(np.finfo(np.float64).tiny))
    alternation = Alternation(start.gram, Penalised(matrix, penalties), scale, session)
    axes = start.vectors[:, : len(penalties)]
    return (
        alternation.run(axes) if counts is None else run_counted(alternation, Counted(matrix, counts), axes)
    )


def _count_components(settings: Settings, start: Start) -> int:
    """The number asked for, or the rank."""
    if settings.n_asked is not None:
        return settings.n_asked
    noise = start.values[0] * len(start.vectors) * np.finfo(np.float64).eps
    return max(1, int(np.count_nonzero(start.values > noise)))


def _check_sparsity(settings: Settings, k: int, p: int) -> tuple[list[int] | None, list[float]]:
    """Numbers of non-zero entries or ``None``, and penalties, one per component."""
    if settings.is_eigen and settings.penalty is not None:
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


def _without_penalty(settings: Settings, start: Start, k: int) -> Result[Pair]:
    """Principal components, where the alternation would stay at once (Zou et al., theorem 3)."""
    values, axes = start.values[:k], start.vectors[:, :k]
    if settings.is_soft:
        factors, objective = values, float(values @ values)
    else:
        curvature = values + settings.ridge
        factors = np.divide(values, curvature, out=np.zeros_like(values), where=curvature > 0)
        objective = float(values @ factors) - start.gram.trace
    pair = Pair(axes, axes * factors, np.zeros(k))
    return Result(pair, np.array([objective]), Status.CONVERGED, 0.0, 1)


def _finish(pair: Pair, start: Start, certificate: Certificate | None) -> SparseComponents:
    """Components of unit length, their scores' adjusted variances, and the way back to the columns."""
    B, gram = pair.coefficients, start.gram
    lengths = np.linalg.norm(B, axis=0)
    components = (B / np.where(lengths > 0, lengths, 1.0)).T
    components = components * fix_signs(components)[:, None] + 0.0  # no negative zeros
    total = gram.trace
    back, squares = regress_on_scores(components, gram.times(components.T))
    shares = squares / total if total > 0 else np.zeros_like(squares)
    return SparseComponents(
        components, back, start.mean, squares / start.divisor, shares, pair.penalties, certificate
    )

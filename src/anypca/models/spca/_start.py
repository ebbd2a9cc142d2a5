"""Where the alternation starts: the matrix G and its leading eigenvectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from anypca._typing import Floats
from anypca.models._arguments import check_largest, check_rank, check_symmetric
from anypca.models._context import FitContext
from anypca.models._gaussian.gram import Gram, StoredGram, StreamedGram, sum_gram
from anypca.models._gaussian.principal import count_rows
from anypca.solvers.closed_form import Centring

# Above, the p x p matrix of a finite ridge and its working copies take several gigabytes.
_MAX_GRAM = 10_000
# With an infinite ridge the p x p matrix is a convenience; above this size rows are cheaper.
_SMALL_GRAM = 2_000
# Entries of a matrix that its user computed may differ from symmetry, and its eigenvalues fall below 0, by this share
# of the largest entry: half of the digits.
_ROUNDING = 1e-8


@dataclass(frozen=True)
class Start:
    """G with its leading eigenvectors."""

    gram: Gram
    values: Floats
    """Eigenvalues, decreasing (m,)."""
    vectors: Floats
    """(n_features, m)"""
    mean: Floats
    """Means of the columns (n_features,), 0 where G was given."""
    divisor: float
    """What makes sums of squares variances."""
    squares: Floats
    """Diagonal of G (n_features,)."""


def start_from_data(session: FitContext, n_components: int | None, *, is_soft: bool) -> Start:
    """G of a complete table and its leading eigenvectors.

    Parameters
    ----------
    session : FitContext
    n_components : int or None
        ``None`` for all.
    is_soft : bool
        Whether the ridge is infinite.

    Returns
    -------
    Start
    """
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
        gram = sum_gram(session, centring)
        return Start(
            gram, *_leading(gram.matrix, n_components), mean, weight - 1.0, np.diag(gram.matrix).copy()
        )
    found = session.spectrum(centring, divisor=1.0, n_components=n_components)
    product: Gram = StreamedGram(session, centring, found.trace) if is_soft else sum_gram(session, centring)
    return Start(product, found.values, found.vectors, mean, weight - 1.0, session.summary.variance * weight)


def start_from_gram(session: FitContext, n_components: int | None) -> Start:
    """G as the user gave it in place of rows, and its leading eigenvectors."""
    if session.data.has_weights:
        raise ValueError("sample_weight is for rows; with input='gram' there are none. Leave it out.")
    gram = check_gram(np.concatenate(session.gather(lambda block: block.read().x)))
    p = len(gram.matrix)
    check_largest(n_components, p, "n_features")
    return Start(gram, *_leading(gram.matrix, n_components), np.zeros(p), 1.0, np.diag(gram.matrix).copy())


def _leading(matrix: Floats, n_components: int | None) -> tuple[Floats, Floats]:
    """Eigenvalues, decreasing, and eigenvectors."""
    p = len(matrix)
    wanted = None if n_components is None else (p - n_components, p - 1)
    values, vectors = scipy.linalg.eigh(matrix, subset_by_index=wanted, check_finite=False)
    return np.maximum(values[::-1], 0.0), vectors[:, ::-1]


def check_gram(matrix: Floats) -> StoredGram:
    """A user's matrix of inner products, covariances or correlations.

    Raises
    ------
    ValueError
        If it is not square, symmetric and positive semi-definite.
    """
    G = np.asarray(matrix, dtype=np.float64)
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
    return StoredGram(G)

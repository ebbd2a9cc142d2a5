"""Where the variational EM starts, and the table that it iterates over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block, Data, check_data, mark_missing
from anypca.models._session import Session
from anypca.models.gsppca._noise import Moments, estimate_noise
from anypca.models.gsppca._problem import LoadingPosterior, make_posterior
from anypca.models.gsppca._standardiser import Standardiser

# Blocks of the rotated table: at least so many, so that two threads share a wide table, of at most so many rows.
_LEAST_BLOCKS = 2
_MOST_ROWS = 256
# Eigenvalues below this share of the largest are null: some hundred units in the last place.
_NULL = 1e-13
# Smallest noise variance to start from, as a share of the mean variance: the maximum likelihood noise is 0 when
# rows are fewer than components, and the EM divides by it.
_SMALLEST_NOISE = 1e-6


@dataclass(frozen=True)
class EquivalentTable:
    """A table with the same cross-products as the training table, for the variational EM to iterate over."""

    data: Data
    rows: Callable[[Block], Floats]
    """Centred rows (rows, p) of a block of ``data``."""
    rotated: Floats | None
    """The whole table (rank, p) when it is held in memory."""
    values: Floats
    """Eigenvalues of the covariance (divisor n) that are not 0, or the leading ones, decreasing."""
    vectors: Floats
    """Their eigenvectors (p, m)."""


def rotate_table(session: Session, table: Standardiser, n_components: int) -> EquivalentTable:
    """Rotate the rows so that min(n, p) of them are left, where the whole spectrum can be had.

    Parameters
    ----------
    session : Session
    table : Standardiser
    n_components : int
        Largest latent dimension that will be asked for.

    Returns
    -------
    EquivalentTable

    Notes
    -----
    The variational EM sees the table only through X'X, so X may be replaced by ``diag(sqrt(n values)) V'``:
    centred once and for all, and never more than n_features rows.
    """
    n, data = table.n_rows, session.data
    spectrum = session.spectrum(table.centring, divisor=n, n_components=n_components + 1)
    values, vectors = spectrum.values, spectrum.vectors[table.varying]
    is_whole = len(values) >= min(data.n_samples, data.n_features)
    kept = max(1, int(np.count_nonzero(values > _NULL * values[0])))
    values, vectors = values[:kept], vectors[:, :kept]
    if not is_whole:
        return EquivalentTable(data, table.rows, None, values, vectors)
    rotated = np.sqrt(n * values)[:, None] * vectors.T
    # Few rows would be one block by default. They are cut finer, so that threads share wide tables too.
    blocks = check_data(rotated, block_rows=max(1, min(_MOST_ROWS, -(-len(rotated) // _LEAST_BLOCKS))))
    return EquivalentTable(mark_missing(blocks, may_miss=False), _as_stored, rotated, values, vectors)


def _as_stored(block: Block) -> Floats:
    return np.asarray(block.matrix())


def start_posterior(table: EquivalentTable, moments: Moments, d: int) -> LoadingPosterior:
    """The maximum likelihood solution of probabilistic PCA, with every column fully relevant.

    Parameters
    ----------
    table : EquivalentTable
    moments : Moments
    d : int
        Latent dimension; dimensions beyond the rank of the table start, and stay, at 0.

    Returns
    -------
    LoadingPosterior
    """
    p = len(moments.column_variances)
    noise = max(estimate_noise(moments, d, "bc"), _SMALLEST_NOISE * moments.trace / p)
    k = min(d, len(table.values))
    loadings = np.zeros((p, d))
    loadings[:, :k] = table.vectors[:, :k] * np.sqrt(np.maximum(table.values[:k] - noise, 0.0))
    prior_variance = moments.trace / (p * d)
    return make_posterior(np.ones(p), loadings, np.full((p, d), prior_variance), prior_variance, noise)

"""A table as the model sees it: centred, perhaps scaled, without constant columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import Block, Data, Executor, Summary, check_data
from anypca.models._complete import open_complete
from anypca.solvers.closed_form import Centring, covariance_spectrum

# Variance below this share of the squared mean is the rounding of a constant.
_CONSTANT = 1e-28
# Blocks of the rotated table: at least so many, of at most so many rows.
_LEAST_BLOCKS = 2
_MOST_ROWS = 256
# Eigenvalues below this share of the largest are null.
_NULL = 1e-13


@dataclass(frozen=True)
class Standardiser:
    """How rows enter the model: ``((x - mean) / scale)`` of the columns that vary."""

    mean: Floats
    """(n_features,)"""
    scale: Floats
    """Divisors (n_features,), 1 unless scaling was asked for."""
    varying: Ints
    """Positions of the columns that are not constant, (p,)."""
    column_squares: Floats
    """Sum of squared centred and scaled entries (times weights) of the varying columns, (p,)."""
    n_rows: float
    """Sum of the weights."""

    @property
    def centring(self) -> Centring:
        """For the covariance; constant columns become exactly 0."""
        factor = np.zeros_like(self.scale)
        factor[self.varying] = 1.0 / self.scale[self.varying]
        return Centring(self.mean, factor)

    def rows(self, block: Block, *, weighted: bool = True) -> Floats:
        """Rows of a block (rows, p) in float64; with ``weighted`` times the square roots of their weights."""
        x = open_complete(block, "GSPPCA").x.astype(np.float64, copy=False)
        if len(self.varying) < x.shape[1]:
            x = x[:, self.varying]
        x -= self.mean[self.varying]
        x /= self.scale[self.varying]
        if weighted and block.weight is not None:
            x *= np.sqrt(block.weight)[:, None]
        return x


def make_standardiser(summary: Summary, n_rows: float, *, scale: bool) -> Standardiser:
    """Means, scales and varying columns of a training table.

    Parameters
    ----------
    summary : Summary
    n_rows : float
        Sum of the weights.
    scale : bool
        Divide columns by their standard deviation (divisor n).

    Raises
    ------
    ValueError
        If every column is constant.
    """
    is_constant = (summary.variance <= _CONSTANT * summary.mean**2) | (summary.minimum == summary.maximum)
    varying = np.flatnonzero(~is_constant)
    if len(varying) == 0:
        raise ValueError(
            f"GSPPCA selects among columns that vary; all {len(is_constant)} columns of X are constant. "
            "Check how X was read or filtered."
        )
    divisor = np.ones(len(is_constant))
    if scale:
        divisor[varying] = np.sqrt(summary.variance[varying])
    squares = n_rows * summary.variance[varying] / divisor[varying] ** 2
    return Standardiser(summary.mean, divisor, varying, squares, n_rows)


@dataclass(frozen=True)
class Working:
    """What the variational EM iterates over: any table with the same cross-products as the training table."""

    data: Data
    rows: Callable[[Block], Floats]
    """Centred rows (rows, p) of a block of ``data``."""
    rotated: Floats | None
    """The whole table (rank, p) when it is held in memory."""
    values: Floats
    """Eigenvalues of the covariance (divisor n) that are not 0, or the leading ones, decreasing."""
    vectors: Floats
    """Their eigenvectors (p, m)."""


def make_working(
    data: Data,
    executor: Executor,
    table: Standardiser,
    n_components: int,
    rng: np.random.Generator,
) -> Working:
    """Rotate the rows so that min(n, p) of them are left, where the whole spectrum can be had.

    Parameters
    ----------
    data : Data
    executor : Executor
    table : Standardiser
    n_components : int
        Largest latent dimension that will be asked for.
    rng : numpy.random.Generator
        For the iterative eigensolver of tables that are large both ways.

    Returns
    -------
    Working

    Notes
    -----
    The variational EM sees the table only through X'X, so X may be replaced by ``diag(sqrt(n values)) V'``:
    centred once and for all, and never more than n_features rows.
    """
    n = table.n_rows
    spectrum = covariance_spectrum(
        data, executor, table.centring, divisor=n, n_components=n_components + 1, rng=rng
    )
    values, vectors = spectrum.values, spectrum.vectors[table.varying]
    is_whole = len(values) >= min(data.n_samples, data.n_features)
    kept = max(1, int(np.count_nonzero(values > _NULL * values[0])))
    values, vectors = values[:kept], vectors[:, :kept]
    if not is_whole:
        return Working(data, table.rows, None, values, vectors)
    rotated = np.sqrt(n * values)[:, None] * vectors.T
    # Few rows would be one block: cut finer, so that wide tables too are shared between threads.
    blocks = check_data(rotated, block_rows=max(1, min(_MOST_ROWS, -(-len(rotated) // _LEAST_BLOCKS))))
    return Working(_known_complete(blocks), _as_stored, rotated, values, vectors)


def _as_stored(block: Block) -> Floats:
    return np.asarray(block.matrix())


def _known_complete(data: Data) -> Data:
    blocks = tuple(replace(block, may_miss=False) for block in data.blocks)
    return replace(data, blocks=blocks, may_miss=False)

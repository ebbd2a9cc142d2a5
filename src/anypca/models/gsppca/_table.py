"""The table of a fit: its standardised columns, and an equivalent table with few rows for the variational EM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import Block, Data, Summary, check_data, mark_missing
from anypca.models._context import FitContext
from anypca.solvers.closed_form import Centring

# Variance below this share of the squared mean is the rounding of a constant: (100 units in the last place)^2 or so.
_CONSTANT = 1e-28
# Eigenvalues below this share of the largest are null: some hundred units in the last place.
_NULL = 1e-13


@dataclass(frozen=True)
class Standardiser:
    """How rows enter the model: ``(x - mean) / scale`` of the columns that vary."""

    mean: Floats
    """(n_features,)"""
    scale: Floats
    """Divisors (n_features,), 1 without scaling."""
    varying: Ints
    """Positions of the columns that are not constant, (p,)."""
    column_squares: Floats
    """Weighted sums of squared standardised entries of the varying columns, (p,)."""
    n_rows: float
    """Sum of the weights."""

    @property
    def centring(self) -> Centring:
        """For the covariance; constant columns become exactly 0."""
        return self.centring_of(self.varying)

    def centring_of(self, columns: Ints) -> Centring:
        """For the covariance of some columns; the others become exactly 0."""
        factor = np.zeros_like(self.scale)
        factor[columns] = 1.0 / self.scale[columns]
        return Centring(self.mean, factor)

    def rows(self, block: Block) -> Floats:
        """Standardised rows of a block (rows, p), times the square roots of their weights."""
        return self.centring.rows(block)[:, self.varying]


def make_standardiser(summary: Summary, n_rows: float, *, scale: bool) -> Standardiser:
    """Means, scales (standard deviations with divisor n if ``scale``) and varying columns of a training table.

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
    divisor = np.where(scale & ~is_constant, np.sqrt(summary.variance), 1.0)
    squares = n_rows * summary.variance[varying] / divisor[varying] ** 2
    return Standardiser(summary.mean, divisor, varying, squares, n_rows)


@dataclass(frozen=True)
class EquivalentTable:
    """A table with the same cross-products as the training table, for the variational EM to iterate over."""

    data: Data
    rows: Callable[[Block], Floats]
    """Centred rows (rows, p) of a block of ``data``."""
    rotated: Floats | None
    """The whole table (rank, p) if it is held in memory; ``values`` are then complete."""
    values: Floats
    """Eigenvalues of the covariance (divisor n) that are not 0, or the leading ones, decreasing."""
    vectors: Floats
    """Their eigenvectors (p, m)."""


def rotate_table(session: FitContext, table: Standardiser, n_components: int) -> EquivalentTable:
    """Rotate the rows to min(n, p) rows, if the whole spectrum can be computed.

    The variational EM depends on the table through X'X only, so X may be replaced by ``diag(sqrt(n values)) V'``:
    centred once and for all, and never more than n_features rows. ``n_components`` is the largest latent dimension.
    """
    n, data = table.n_rows, session.data
    spectrum = session.spectrum(table.centring, divisor=n, n_components=n_components + 1)
    values, vectors = spectrum.values, spectrum.vectors[table.varying]
    kept = max(1, int(np.count_nonzero(values > _NULL * values[0])))
    if len(values) < min(data.n_samples, data.n_features):
        return EquivalentTable(data, table.rows, None, values[:kept], vectors[:, :kept])
    values, vectors = values[:kept], vectors[:, :kept]
    rotated = np.sqrt(n * values)[:, None] * vectors.T
    # Few rows would be one block by default. Two blocks let two threads share a wide table.
    blocks = check_data(rotated, block_rows=max(1, min(256, -(-len(rotated) // 2))))
    return EquivalentTable(mark_missing(blocks, may_miss=False), Block.matrix, rotated, values, vectors)

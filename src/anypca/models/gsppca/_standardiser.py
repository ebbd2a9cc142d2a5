"""A table as the model sees it: centred, perhaps scaled, without constant columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import Block, Summary
from anypca.models._opened import open_complete
from anypca.solvers.closed_form import Centring

# Variance below this share of the squared mean is the rounding of a constant: (100 units in the last place)^2 or so.
_CONSTANT = 1e-28


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

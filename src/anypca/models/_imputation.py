"""Expectations of missing entries: how far they are shrunk towards the column means, and how large they may be.

Predictions of a maximum likelihood fit are too large on small tables: each loading was fitted to the entries that it
predicts. `leave_one_out_slopes` estimates by how much, from the leverages of the entries and without another fit.

References
----------
R. D. Cook, S. Weisberg (1982). Residuals and Influence in Regression, ch. 5 (one-step deletion in generalised linear
models).
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from anypca._typing import Bools, Floats, Ints
from anypca.engine import Block
from anypca.exceptions import ConvergenceWarning
from anypca.families import Family
from anypca.models._block_view import BlockView
from anypca.models._context import FitContext
from anypca.models._row_model import RowModel, in_pieces

# Standard deviations from the column mean within which an expectation may lie if the column's values do not go beyond.
_USUAL = 3.0
# Share of a column's variance that is noise below which a table of low rank is completed, not predicted.
_REPRODUCED = 1e-3
# Two predictors at which expectations with bounds of their own are the same: beyond 40 a logistic function is 1.
_FAR = (40.0, 700.0)
_TINY = np.finfo(float).tiny


class Slopes(NamedTuple):
    """Slopes of entries on leave-one-out predictions, both as deviations from the column means."""

    near: Floats
    """Of predictions within one standard deviation of the mean, for each column (p,)."""
    far: float
    """Of what predictions are beyond that, for all columns: few entries of each column are."""


class Expectations(NamedTuple):
    """Limits and shrinkage of the expectations of missing entries; (n_features,) each, or a number."""

    low: Floats | float = -np.inf
    high: Floats | float = np.inf
    mean: Floats | float = 0.0
    deviation: Floats | float = 1.0
    """Standard deviations of the columns."""
    slopes: Slopes | None = None

    @classmethod
    def of(
        cls, model: RowModel[Any], moments: tuple[Floats, ...], slopes: Slopes | None = None
    ) -> Expectations:
        """Limits from the mean, the variance and the extremes of the columns of a table."""
        return cls(*usual_range(model, *moments), moments[0], np.sqrt(moments[1]), slopes)

    def shrunk(self, expected: Floats) -> Floats:
        """Expectations within the limits, shrunk towards the means."""
        near, far = self.split(expected)
        if self.slopes is not None:
            near, far = self.slopes.near * near, self.slopes.far * far
        return np.asarray(self.mean + near + far)

    def split(self, expected: Floats) -> tuple[Floats, Floats]:
        """Deviations of limited expectations from the mean: up to one standard deviation, and what is beyond."""
        total = np.clip(expected, self.low, self.high) - self.mean
        near = np.clip(total, -self.deviation, self.deviation)
        return near, total - near


def leave_one_out_slopes(model: RowModel[Any], session: FitContext) -> Slopes:
    r"""Slopes of entries on approximate leave-one-out predictions, between 0 and 1.

    Parameters
    ----------
    model : RowModel
        Of the fit.
    session : FitContext
        The table of the fit.

    Notes
    -----
    The predictor of entry (i, j) depends on the entry through the scores of row i, with leverage :math:`a_{ij}`
    (`RowModel.leverages`), and through the loadings of column j, with the leverage
    :math:`b_i = (1, z_i)(\sum_l (1, z_l)(1, z_l)^\top)^{-1}(1, z_i)^\top` of row i in a regression on the scores.
    With the working residual :math:`r_{ij}` and :math:`h_{ij} = a_{ij} + b_i` the predictor without the entry is

    .. math:: \eta_{ij}^{(-ij)} = \eta_{ij} - \frac{h_{ij}}{1 - h_{ij}} r_{ij}.

    Sums over a column are shrunk towards an average column, in units of its variance.
    """
    summary = session.summary
    moments = summary.mean, summary.variance, summary.low, summary.high
    limits = Expectations.of(model, moments)

    def add_gram(block: Block, _: Any) -> Floats:
        design = _design(model, model.solve(model.open(block)))
        return design.T @ (block.weights[:, None] * design)

    def add_products(block: Block, _: Any) -> Floats:
        rows = model.open(block)
        solved = model.solve(rows)
        design = _design(model, solved)
        in_column = np.einsum("ia,ab,ib->i", design, inverse, design)
        near, far = limits.split(_predict_without(model, block, rows, solved, in_column))
        x, weight = rows.x - summary.mean, rows.entry_weights
        pairs = ((near, x), (near, near), (far, x), (far, near), (far, far))
        return np.array([np.sum(weight * one * other, axis=0, dtype=float) for one, other in pairs])

    with warnings.catch_warnings(), np.errstate(over="ignore"):
        # Rows without converged scores are reported by the methods that return them.
        warnings.simplefilter("ignore", ConvergenceWarning)
        inverse = np.linalg.pinv(session.sum(add_gram), hermitian=True)
        sums = session.sum(add_products) / np.where(summary.variance > 0, summary.variance, 1.0)
    product, square = sums[:2] + sums[:2].mean(axis=1, keepdims=True)
    near = np.clip(product / np.maximum(square, _TINY), 0.0, 1.0)
    rest = float((sums[2] - near * sums[3]).sum())
    return Slopes(near, float(np.clip(rest / max(float(sums[4].sum()), _TINY), 0.0, 1.0)))


def _design(model: RowModel[Any], solved: Any) -> Floats:
    """Ones and scores, shape (rows, 1 + k)."""
    scores = np.asarray(model.scores(solved), dtype=float)
    return np.hstack([np.ones((len(scores), 1)), scores])


def _predict_without(
    model: RowModel[Any], block: Block, rows: BlockView, solved: Any, in_column: Floats
) -> Floats:
    """Expectations of observed entries as if they were missing, (rows, n_features)."""
    observed = np.ones(rows.x.shape, dtype=bool) if rows.observed is None else rows.observed
    index, columns = np.nonzero(observed)
    eta = model.predictor(block, np.asarray(model.scores(solved), dtype=float))

    def without(index: Ints, columns: Ints) -> Floats:
        at = eta[index, columns]
        leverage, residual = model.leverages(rows, solved, at, index, columns)
        # An entry that alone decides its predictor has no prediction without it: its working value is discounted whole.
        total = np.clip(leverage + in_column[index], 0.0, 1.0 - 1e-9)
        return np.asarray(at - total / (1.0 - total) * residual)

    eta[index, columns] = in_pieces(without, index, columns, np.empty(0))
    return model.family.mean(eta, model.dispersion)


def is_completed(model: RowModel[Any], variance: Floats) -> Bools:
    """Whether the model fits a column exactly, so that its missing entries are determined, (n_features,)."""
    found, dispersion = np.zeros(len(variance), dtype=bool), np.broadcast_to(model.dispersion, len(variance))
    for member, columns in model.family.member_columns(len(variance)):
        if member.has_units:
            found[columns] = dispersion[columns] < _REPRODUCED * variance[columns]
    return found


def has_bounds(family: Family, dispersion: Floats) -> Bools:
    """Columns whose expectation has bounds of its own, for example probabilities, (n_features,)."""
    first, second = family.mean(np.broadcast_to(np.array(_FAR)[:, None], (2, len(dispersion))), dispersion)
    return np.asarray(np.isclose(first, second))


def usual_range(
    model: RowModel[Any], mean: Floats, variance: Floats, low: Floats, high: Floats
) -> tuple[Floats, Floats]:
    """Range of the values of each column, or three standard deviations if that is wider; (n_features,) each.

    It is infinite for columns whose expectation has bounds of its own and for columns without unexplained variance.
    """
    is_bounded = has_bounds(model.family, np.broadcast_to(model.dispersion, len(mean)))
    reach = np.where(is_bounded, np.inf, _USUAL * np.sqrt(variance))
    reach[is_completed(model, variance)] = np.inf
    return np.fmin(mean - reach, low), np.fmax(mean + reach, high)


def fill(model: RowModel[Any], block: Block, rows: BlockView, limits: Expectations) -> tuple[Floats, Any]:
    """Rows with expectations in place of missing entries, and what the rows were solved to (None if complete)."""
    if rows.observed is None:
        return rows.x, None
    solved = model.solve(rows)
    # The expectation of an entry in a row with almost no other entries may overflow before it is limited.
    with np.errstate(over="ignore"):
        expected = limits.shrunk(model.expected(block, rows, solved))
    return np.where(rows.observed, rows.x, expected).astype(rows.dtype, copy=False), solved


def fill_with_deviations(
    model: RowModel[Any], block: Block, rows: BlockView, limits: Expectations
) -> tuple[Floats, Floats]:
    """The same, and the standard deviations of imputed entries, 0 elsewhere."""
    filled, solved = fill(model, block, rows, limits)
    std = np.zeros_like(filled)
    if rows.observed is not None:
        index, columns = np.nonzero(~rows.observed)

        def deviations(index: Ints, columns: Ints) -> Floats:
            return model.entry_deviations(rows, solved, index, columns)

        std[index, columns] = in_pieces(deviations, index, columns, np.empty(0))
    return filled, std

"""Single passes over the blocks: constants, residuals, deviances, dispersion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import Block
from anypca.families import Family
from anypca.models._bilinear.evaluator import BlockEvaluator, Coefficients
from anypca.models._block_view import BlockView, apply_entry_weights, observed_only, open_block
from anypca.models._context import FitContext


def explained_shares(deviances: Floats) -> Floats:
    """Share of the deviance of each row or column that each component explains, (m, k).

    A component's part is the deviance lost without it, scaled so that the parts sum to the share of the whole model.

    Parameters
    ----------
    deviances : ndarray of shape (k + 2, m)
        Of the model without components, of the model, and of the model without each component.
    """
    null, full, without = deviances[0], deviances[1], deviances[2:]
    ratio = np.divide(full, null, out=np.ones_like(full), where=null > 0)
    # A deviance is never negative, except for rounding if the model reproduces the table.
    total = np.clip(1.0 - ratio, 0.0, 1.0)
    # Without a ridge scores can be so large that a model without their component has an infinite deviance.
    lost = np.clip(without - full, 0.0, np.finfo(float).max / max(len(without), 1))
    of_all = lost.sum(axis=0)
    parts = np.divide(lost, of_all, out=np.zeros_like(lost), where=of_all > 0)
    return np.asarray((total * parts).T)


@dataclass(frozen=True, eq=False)
class Deviances:
    """Deviances of the columns."""

    columns: Floats
    """Of the model without components, of the model, and of the model without each component, (k + 2, n_features)."""

    @property
    def null(self) -> float:
        return float(self.columns[0].sum())

    @property
    def full(self) -> float:
        return float(self.columns[1].sum())

    @property
    def shares(self) -> Floats:
        """Share of the deviance that each component explains: the mean over the columns that have any, (k,).

        A sum over columns would be the share of the one with the least noise, whose null deviance is the largest.
        """
        found = explained_shares(self.columns)[self.columns[0] > 0]
        return np.asarray(found.mean(axis=0)) if len(found) else np.zeros(len(self.columns) - 2)

    def ordered(self) -> tuple[Deviances, Ints]:
        """The same with the components by decreasing share, and their order."""
        order = np.argsort(-self.shares, kind="stable")
        return Deviances(np.vstack([self.columns[:2], self.columns[2:][order]])), order


@dataclass(frozen=True, eq=False)
class Pass:
    """Visits the blocks with their scores and sums arrays.

    Parameters
    ----------
    session : FitContext
    fit_intercept : bool
    precision : str or None
        As in `open_block`.
    """

    session: FitContext
    fit_intercept: bool
    precision: str | None = None

    def sum(
        self,
        function: Callable[[BlockView, Floats], Floats],
        local: Sequence[Any] | None = None,
        *,
        family: Family | None = None,
        dense: bool = True,
    ) -> Floats:
        """Sum of ``function(rows, scores)`` over the blocks; without locals the scores have no columns.

        ``family`` and ``dense`` are passed to `open_block`; with a family, sums over entries may become products.
        """
        return np.asarray(self.session.sum(self._opened(function, family=family, dense=dense), local))

    def map(
        self, function: Callable[[BlockView, Floats], Any], local: Sequence[Any] | None = None
    ) -> Sequence[Any]:
        """``function(rows, scores)`` of each block, where the blocks are."""
        return self.session.map(self._opened(function), local)

    def _opened(
        self,
        function: Callable[[BlockView, Floats], Any],
        *,
        family: Family | None = None,
        dense: bool = True,
    ) -> Callable[[Block, Any], Any]:
        """``function`` of a block in place of its opened rows."""
        how: dict[str, Any] = {"fit_intercept": self.fit_intercept, "precision": self.precision}

        def visit(block: Block, scores: Floats | None) -> Any:
            rows = open_block(block, family=family, dense=dense, **how)
            return function(rows, np.zeros((rows.n_rows, 0)) if scores is None else scores)

        return visit

    def log_base_measure(self, family: Family, dispersion: Floats) -> float:
        """Weighted sum of the likelihood's terms without eta, with those that make densities probabilities of steps."""
        steps = self.session.summary.resolution

        def terms(member: Family, x: Floats, columns: slice) -> Floats:
            return member.log_base_measure(x, dispersion[columns]) + member.log_step(x, steps[columns])

        return float(self.sum(lambda rows, _: _totals(family, rows, terms), family=family).sum())

    def deviance(
        self, family: Family, coefficients: Coefficients, local: Sequence[Any] | None = None
    ) -> float:
        """Deviance of a model."""

        def function(rows: BlockView, scores: Floats) -> Floats:
            value = rows.weights @ BlockEvaluator(family, coefficients, rows).row_values(scores)
            return np.array([2.0 * (_best(family, coefficients, rows).sum() - value)])

        return float(self.sum(function, local)[0])

    def deviances(
        self,
        family: Family,
        coefficients: Coefficients,
        local: Sequence[Any],
        null: Coefficients,
        *,
        rough: str | None = None,
    ) -> Deviances:
        """Deviances of a model and of ``null``, the one without components, in one pass.

        Parameters
        ----------
        family : Family
        coefficients : Coefficients
        local : sequence
            Scores of each block.
        null : Coefficients
        rough : str or None
            The dtype in which differences between the model with and without a component are computed.
        """

        def function(rows: BlockView, scores: Floats) -> Floats:
            # Without a component that balances another one, predictors may overflow: the deviance is then infinite.
            with np.errstate(over="ignore"):
                values = _values_without(BlockEvaluator(family, coefficients, rows), scores, rough)
            nothing = np.zeros((rows.n_rows, 0))
            base = BlockEvaluator(family, null, rows).values_without(nothing)
            best = nulls_best = _best(family, coefficients, rows)
            if not np.array_equal(null.dispersion, coefficients.dispersion):
                nulls_best = _best(family, null, rows)
            return 2.0 * np.vstack([nulls_best - base, best - values])

        return Deviances(self.sum(function, local, family=family))

    def pearson(self, family: Family, coefficients: Coefficients, local: Sequence[Any] | None) -> Floats:
        """Weighted sum of squared Pearson residuals and weighted number of entries per column: (2, n_features)."""

        def function(rows: BlockView, scores: Floats) -> Floats:
            evaluator = BlockEvaluator(family, coefficients, rows)
            found = np.empty((2, rows.n_features))
            for tile in rows.tiles():
                # At missing entries eta may be anything, also too large for its exponential.
                eta = observed_only(rows, tile, evaluator.predictor(scores, tile))
                dispersion = coefficients.dispersion[tile].astype(eta.dtype)
                terms = family.take(tile).pearson(rows.x[:, tile], eta, dispersion)
                # A residual of a row of weight zero may be infinite.
                terms = np.where(rows.weights[:, None] > 0, terms, 0.0)
                found[0, tile] = rows.weights @ apply_entry_weights(rows, tile, terms)
                found[1, tile] = rows.weights @ apply_entry_weights(rows, tile, np.ones_like(terms))
            return found

        return self.sum(function, local)


def _values_without(evaluator: BlockEvaluator, scores: Floats, rough: str | None) -> Floats:
    """`BlockEvaluator.values_without`, the differences between its rows in another precision."""
    rows = evaluator.rows
    if rough in (None, rows.dtype.name):
        return evaluator.values_without(scores)
    values = replace(evaluator, rows=rows.astype(np.dtype(rough))).values_without(scores)
    if not np.isfinite(values).all():
        return evaluator.values_without(scores)
    return np.asarray(evaluator.values_without(scores, most=0) + (values - values[0]))


def _best(family: Family, coefficients: Coefficients, rows: BlockView) -> Floats:
    """Weighted log-likelihood of the columns of a block under the saturated model, (n_features,)."""

    def terms(member: Family, x: Floats, columns: slice) -> Floats:
        return member.saturated(x, coefficients.dispersion[columns])

    return _totals(family, rows, terms)


def _totals(family: Family, rows: BlockView, terms: Callable[[Family, Floats, slice], Floats]) -> Floats:
    """Weighted sums over the rows of a block of terms of its entries, (n_features,)."""
    sums = np.empty(rows.n_features)
    for tile in rows.tiles():
        sums[tile] = rows.weights @ apply_entry_weights(
            rows, tile, terms(family.take(tile), rows.x[:, tile], tile)
        )
    return sums

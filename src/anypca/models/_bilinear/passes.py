"""Single passes over the blocks: constants, residuals, deviances, dispersion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block
from anypca.families import Family
from anypca.models._bilinear.evaluator import BlockEvaluator, Coefficients
from anypca.models._opened import OpenedBlock, observed_only, open_block, weigh
from anypca.models._session import Session

# How far a log-likelihood in single precision is from that in double precision, as a part of it.
_SINGLE = 1e-3


@dataclass(frozen=True, eq=False)
class Deviances:
    """Deviance of a model, of the model without components, and without each of them."""

    null: float
    full: float
    without: Floats
    """(k,)."""

    @property
    def shares(self) -> Floats:
        """Share of the null deviance explained by each component, summing to the whole model's share, (k,)."""
        # Without a ridge scores can be so large that a model without their component has an infinite deviance.
        largest = np.finfo(float).max / max(len(self.without), 1)
        unique = np.clip(self.without - self.full, 0.0, largest)
        if self.null <= 0 or not unique.sum() > 0:
            return np.zeros(len(unique))
        # A deviance is never negative; that of a table which the model reproduces may be, by the rounding of its sums.
        explained = np.clip(1.0 - self.full / self.null, 0.0, 1.0)
        return np.asarray(explained * (unique / unique.sum()))


@dataclass(frozen=True, eq=False)
class Pass:
    """Visits the blocks with their scores and sums arrays.

    Parameters
    ----------
    session : Session
    fit_intercept : bool
    precision : str or None
        As in `open_block`.
    """

    session: Session
    fit_intercept: bool
    precision: str | None = None

    def sum(
        self,
        function: Callable[[OpenedBlock, Floats], Floats],
        local: Sequence[Any] | None = None,
        *,
        family: Family | None = None,
        dense: bool = True,
    ) -> Floats:
        """Sum of ``function(rows, scores)`` over the blocks; without locals the scores have no columns.

        ``family`` and ``dense`` are those of `open_block`: with a family sums over entries may be products.
        """
        return np.asarray(self.session.sum(self._opened(function, family=family, dense=dense), local))

    def map(
        self, function: Callable[[OpenedBlock, Floats], Any], local: Sequence[Any] | None = None
    ) -> Sequence[Any]:
        """``function(rows, scores)`` of each block, where the blocks are."""
        return self.session.map(self._opened(function), local)

    def _opened(
        self,
        function: Callable[[OpenedBlock, Floats], Any],
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

    def log_base(self, family: Family, dispersion: Floats) -> float:
        """Weighted sum of the likelihood's terms without eta, with those that make densities probabilities of steps."""
        steps = self.session.summary.resolution

        def terms(member: Family, x: Floats, columns: slice) -> Floats:
            return member.log_base(x, dispersion[columns]) + member.log_step(x, steps[columns])

        return float(self.sum(lambda rows, _: np.array([_total(family, rows, terms)]), family=family)[0])

    def deviance(
        self, family: Family, coefficients: Coefficients, local: Sequence[Any] | None = None
    ) -> float:
        """Deviance of a model."""

        def function(rows: OpenedBlock, scores: Floats) -> Floats:
            value = rows.weights @ BlockEvaluator(family, coefficients, rows).row_values(scores)
            return np.array([2.0 * (_best(family, coefficients, rows) - value)])

        return float(self.sum(function, local)[0])

    def deviances(
        self,
        family: Family,
        coefficients: Coefficients,
        local: Sequence[Any],
        null: Coefficients,
        *,
        rough: str | None = None,
        known: tuple[float | None, float | None] = (None, None),
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
        known : tuple of two floats or None
            Log-likelihoods of the model and of ``null`` without constants, where they need not be computed.
        """
        ours, theirs = known

        def function(rows: OpenedBlock, scores: Floats) -> Floats:
            # Without a component that balances another one, predictors may overflow: the deviance is then infinite.
            evaluator, base = BlockEvaluator(family, coefficients, rows), 0.0
            with np.errstate(over="ignore"):
                values = _values_without(evaluator, scores, rough, is_exact=ours is None)
            if theirs is None:
                nothing = np.zeros((rows.n_rows, 0))
                base = float(rows.weights @ BlockEvaluator(family, null, rows).row_values(nothing))
            best = nulls_best = _best(family, coefficients, rows)
            if not np.array_equal(null.dispersion, coefficients.dispersion):
                nulls_best = _best(family, null, rows)
            return np.append(values, [base, best, nulls_best])

        *values, base, best, nulls_best = self.sum(function, local, family=family)
        full = values[0] if ours is None or rough is None else ours
        if not np.isclose(values[0], full, rtol=_SINGLE, atol=_SINGLE):
            # Where predictors are huge the sums of a sweep have lost their digits.
            return self.deviances(family, coefficients, local, null, rough=rough, known=(None, theirs))
        without = np.array(values[1:]) - values[0] + full
        base = base if theirs is None else theirs
        return Deviances(2.0 * float(nulls_best - base), 2.0 * float(best - full), 2.0 * (best - without))

    def pearson(self, family: Family, coefficients: Coefficients, local: Sequence[Any] | None) -> Floats:
        """Weighted sum of squared Pearson residuals and weighted number of entries per column: (2, n_features)."""

        def function(rows: OpenedBlock, scores: Floats) -> Floats:
            evaluator = BlockEvaluator(family, coefficients, rows)
            found = np.empty((2, rows.n_features))
            for tile in rows.tiles():
                # At missing entries eta may be anything, also too large for its exponential.
                eta = observed_only(rows, tile, evaluator.predictor(scores, tile))
                dispersion = coefficients.dispersion[tile].astype(eta.dtype)
                terms = family.columns(tile).pearson(rows.x[:, tile], eta, dispersion)
                found[0, tile] = rows.weights @ weigh(rows, tile, terms)
                found[1, tile] = rows.weights @ weigh(rows, tile, np.ones_like(terms))
            return found

        return self.sum(function, local)


def _values_without(
    evaluator: BlockEvaluator, scores: Floats, rough: str | None, *, is_exact: bool
) -> Floats:
    """Weighted log-likelihood of a block, whole and without each component, its differences in another precision.

    Unless ``is_exact`` only the differences matter.
    """
    rows = evaluator.rows
    if rough in (None, rows.dtype.name):
        return evaluator.values_without(scores)
    values = replace(evaluator, rows=rows.astype(np.dtype(rough))).values_without(scores)
    if not np.isfinite(values).all():
        return evaluator.values_without(scores)
    if not is_exact:
        return values
    return np.asarray(rows.weights @ evaluator.row_values(scores) + (values - values[0]))


def _best(family: Family, coefficients: Coefficients, rows: OpenedBlock) -> float:
    """Weighted log-likelihood of the saturated model of a block."""

    def terms(member: Family, x: Floats, columns: slice) -> Floats:
        return member.saturated(x, coefficients.dispersion[columns])

    return _total(family, rows, terms)


def _total(family: Family, rows: OpenedBlock, terms: Callable[[Family, Floats, slice], Floats]) -> float:
    """Weighted sum over a block of terms of its entries, which are made of some columns at a time."""
    sums = np.zeros(rows.n_rows)
    for tile in rows.tiles():
        found = weigh(rows, tile, terms(family.columns(tile), rows.x[:, tile], tile))
        sums += found.sum(axis=1, dtype=float)
    return float(rows.weights @ sums)

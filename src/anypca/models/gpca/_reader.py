"""Rows in float64 with their saturated natural parameters.

A saturated parameter is the value of eta that fits an entry as well as a bound allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce, singledispatch
from operator import add
from typing import TypeVar

import numpy as np

from anypca._typing import Bools, Floats
from anypca.columns import settle_family
from anypca.engine import Block, Summary
from anypca.families import Bernoulli, Family, Gaussian, Poisson
from anypca.families._logistic import Logistic
from anypca.models._block_view import BlockView, open_block
from anypca.models._context import FitContext


@singledispatch
def saturated_parameters(family: Family, x: Floats, bound: float) -> Floats:
    """The eta at which the mean is x, kept within a bound where it is infinite.

    Parameters
    ----------
    family : Family
    x : ndarray of shape (n, p)
    bound : float
        M > 0. Logits are cut to [-M, M], logarithms of counts to [-M, inf); real numbers are as they are.

    Returns
    -------
    ndarray of shape (n, p)

    Raises
    ------
    ValueError
        If the family has no such parameters here; the message names those that have.
    """
    raise ValueError(
        f"GPCA is for the families 'gaussian', 'poisson', 'bernoulli' and 'binomial(n)', one for all columns; got "
        f"{family.name!r}. Use EPCA or SePCA for other and for mixed families."
    )


@saturated_parameters.register
def _(family: Gaussian, x: Floats, bound: float) -> Floats:
    return x.copy()


@saturated_parameters.register
def _(family: Poisson, x: Floats, bound: float) -> Floats:
    return np.log(np.maximum(x, np.exp(-bound)))


@saturated_parameters.register
def _(family: Logistic, x: Floats, bound: float) -> Floats:
    # Bounding the share of successes is bounding its logit, without infinite values on the way.
    rare = 1.0 / (1.0 + np.exp(bound))
    share = np.maximum(x / family.trials, rare)
    rest = np.maximum(1.0 - x / family.trials, rare)
    return np.asarray(np.clip(np.log(share) - np.log(rest), -bound, bound))


def usual_bound(family: Family) -> float:
    """Return the default bound (``"auto"``): 4 for logits, as in the authors' software.

    For counts the bound maps 0 to log(3/8), which stabilises variances of small counts (Anscombe 1948).
    """
    return 4.0 if isinstance(family, Logistic) else float(np.log(8.0 / 3.0))


def find_family(session: FitContext) -> Family:
    """Check the family of a table against its values.

    Parameters
    ----------
    session : FitContext
        Open on the table.

    Raises
    ------
    ValueError
        If the family is not one that GPCA can fit, or an entry is outside its support.
    """
    chosen = settle_family(session)[0]
    saturated_parameters(chosen, np.ones((1, session.data.n_features)), 1.0)  # refuses what it does not know
    return chosen


def guess_family(summary: Summary) -> Family:
    """Return one family for a table: bernoulli for 0 and 1, poisson for whole numbers >= 0, else gaussian."""
    # Saturated parameters of different kinds have no common scale.
    is_count = Poisson().in_support(np.append(summary.minimum, summary.maximum))
    if summary.n_noninteger.any() or not is_count.all():
        return Gaussian()
    return Bernoulli() if summary.maximum.max() <= 1 else Poisson()


Sum = TypeVar("Sum")

# Entries worked on at a time: some eight arrays of this size, 8 MB in float64, are alive.
_CHUNK_ENTRIES = 2**17
# Fewer rows would make the matrix products of wide tables thin.
_MIN_CHUNK = 64


@dataclass(frozen=True, eq=False)
class SaturatedRows:
    """Some rows in float64 with their saturated parameters."""

    x: Floats
    """(n, p)."""
    saturated: Floats
    """Saturated parameters (n, p); of no meaning where missing."""
    observed: Bools | None
    """False where missing (n, p), ``None`` when complete."""
    weight: Floats
    """(n,)."""
    entry: Floats | None = None
    """Entry weights in addition to the row weights (n, p); ``None`` if all are 1."""

    def weigh(self, terms: Floats) -> Floats:
        """The terms (n, p) times the weights of their entries, 0 where missing."""
        found = self.only_observed(terms)
        return found if self.entry is None else found * self.entry

    def only_observed(self, terms: Floats) -> Floats:
        """The terms (n, p), 0 where missing."""
        return terms if self.observed is None else np.where(self.observed, terms, 0.0)

    def count(self) -> float:
        """Weighted number of observed entries."""
        if self.observed is None and self.entry is None:
            return float(self.weight.sum() * self.x.shape[1])
        return float(self.weight @ self.weigh(np.ones(self.x.shape)).sum(axis=1))


@dataclass(frozen=True)
class Reader:
    """Read rows with their saturated parameters.

    Parameters
    ----------
    family : Family
    bound : float
        M, see `saturated_parameters`.
    """

    family: Family
    bound: float

    def sum(self, session: FitContext, function: Callable[[SaturatedRows], Sum]) -> Sum:
        """Sum of what ``function`` makes of some rows, over all rows of a table."""
        total: Sum = session.sum(lambda block, _: self.sum_block(block, function))
        return total

    def sum_block(self, block: Block, function: Callable[[SaturatedRows], Sum]) -> Sum:
        """The same over the rows of a block."""
        return reduce(add, (function(rows) for rows in self.chunks(block)))

    def chunks(self, block: Block) -> Iterator[SaturatedRows]:
        """A block's rows, a few at a time."""
        return self.split(open_block(block))

    def split(self, opened: BlockView) -> Iterator[SaturatedRows]:
        """Opened rows, a few at a time."""
        size = max(_CHUNK_ENTRIES // opened.n_features, _MIN_CHUNK)
        for first in range(0, opened.n_rows, size):
            part = slice(first, min(first + size, opened.n_rows))
            x = opened.x[part].astype(np.float64)
            observed = None if opened.observed is None else opened.observed[part]
            weight = opened.weights[part].astype(np.float64)
            saturated = saturated_parameters(self.family, x, self.bound)
            entry = None if opened.entry is None else opened.entry[part].astype(np.float64)
            yield SaturatedRows(x, saturated, observed, weight, entry)

"""How a table is read: rows in float64 with their saturated parameters, some entries held out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from anypca._typing import Bools, Floats
from anypca.engine import Block
from anypca.families import Family
from anypca.models._opened import OpenedBlock, open_block
from anypca.models._session import Session
from anypca.models.gpca._saturated import saturated_parameters

Sum = TypeVar("Sum")

# Entries worked on at a time: some eight arrays of this size, 8 MB in float64, are alive.
_CHUNK_ENTRIES = 2**17
# Fewer rows would make the matrix products of wide tables thin.
_MIN_CHUNK = 64


@dataclass(frozen=True)
class HoldOut:
    """A fold of entries that are hidden from a fit, the same however the rows are cut into blocks."""

    fold: int
    n_folds: int
    seed: int

    def mask(self, start: int, shape: tuple[int, int]) -> Bools:
        """True where an entry of the rows from ``start`` on is held out."""
        first = np.arange(start, start + shape[0], dtype=np.int64) * shape[1]
        numbers = np.add.outer(first, np.arange(shape[1], dtype=np.int64)).astype(np.uint64)
        folds = _mix(numbers + np.uint64(self.seed << 32)) % np.uint64(self.n_folds)
        held: Bools = folds == np.uint64(self.fold)
        return held


def _mix(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Unrelated numbers from neighbouring ones: the finaliser of the generator splitmix64, with its constants."""
    mixed = numbers * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))


@dataclass(frozen=True, eq=False)
class SaturatedRows:
    """Some rows in float64 with their saturated parameters."""

    x: Floats
    """(n, p)."""
    saturated: Floats
    """Saturated parameters (n, p); of no meaning where missing."""
    observed: Bools | None
    """False where missing or held out (n, p), ``None`` when complete."""
    held: Bools | None
    """True where held out (n, p)."""
    weight: Floats
    """(n,)."""

    def only_observed(self, terms: Floats) -> Floats:
        """The terms (n, p), 0 where missing."""
        return terms if self.observed is None else np.where(self.observed, terms, 0.0)

    def count(self) -> float:
        """Weighted number of observed entries."""
        if self.observed is None:
            return float(self.weight.sum() * self.x.shape[1])
        return float(self.weight @ self.observed.sum(axis=1))


@dataclass(frozen=True)
class Reader:
    """Reads rows with their saturated parameters.

    Parameters
    ----------
    family : Family
    bound : float
        M, see `saturated_parameters`.
    held_out : HoldOut or None
    """

    family: Family
    bound: float
    held_out: HoldOut | None = None

    def sum(self, session: Session, function: Callable[[SaturatedRows], Sum]) -> Sum:
        """Sum of what ``function`` makes of some rows, over all rows of a table."""
        total: Sum = session.sum(lambda block, _: self.sum_block(block, function))
        return total

    def sum_block(self, block: Block, function: Callable[[SaturatedRows], Sum]) -> Sum:
        """The same over the rows of a block."""
        return reduce(add, (function(rows) for rows in self.chunks(block)))

    def chunks(self, block: Block) -> Iterator[SaturatedRows]:
        """A block's rows, a few at a time."""
        return self.split(open_block(block))

    def split(self, opened: OpenedBlock) -> Iterator[SaturatedRows]:
        """Opened rows, a few at a time."""
        size = max(_CHUNK_ENTRIES // opened.n_features, _MIN_CHUNK)
        for first in range(0, opened.n_rows, size):
            part = slice(first, min(first + size, opened.n_rows))
            x = opened.x[part].astype(np.float64)
            observed = None if opened.observed is None else opened.observed[part]
            held = None
            if self.held_out is not None:
                held = self.held_out.mask(int(opened.numbers[first]), x.shape)
                held &= True if observed is None else observed
                observed = ~held if observed is None else observed & ~held
            weight = opened.weights[part].astype(np.float64)
            yield SaturatedRows(x, saturated_parameters(self.family, x, self.bound), observed, held, weight)

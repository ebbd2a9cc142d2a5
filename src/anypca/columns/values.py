"""The values of each column and how often they occur, from one pass over a table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anypca._typing import Bools, Floats, Ints
from anypca.columns.labels import Labels
from anypca.engine import Block, Data, Executor, Summary

#: Most levels of a rating.
MOST_LEVELS = 12
#: Columns with no more possible values than this are counted, others sampled.
_MOST_VALUES = 1000
#: Rows of the sample, at most and at least; its entries, at most (80 MB). More rows would not change the scores, which
#: are coarsened; see `anypca.columns.candidates`.
_MOST_ROWS, _LEAST_ROWS, _MOST_ENTRIES = 2000, 200, 10**7


@dataclass(frozen=True, eq=False)
class Column:
    """The observed values of one column."""

    name: str
    """Name of the column, or its number."""
    values: Floats
    """Distinct values in increasing order, of all entries or of a sample, shape (k,)."""
    weights: Floats
    """How many entries have each value, shape (k,)."""
    step: float
    """Resolution: the step with which values are recorded."""
    is_lattice: bool
    """Whether all values are multiples of the step apart."""
    low: float
    """Smallest entry, of rows of weight 0 as well: the family of the column must support it."""
    high: float
    """Largest entry, of rows of weight 0 as well."""
    weighted_low: float
    """Smallest entry of positive weight."""
    weighted_high: float
    """Largest entry of positive weight."""
    n_observed: int
    labels: Labels | None = None
    """The labels that the values are numbers of."""
    is_part: bool = False
    """Whether it is one of several columns of shares that sum to one in every row."""

    @property
    def has_weight(self) -> Bools:
        """Whether each value occurs in rows of positive weight."""
        return np.asarray(self.weights > np.finfo(float).eps * self.weights.max(initial=0.0))

    @property
    def n_distinct(self) -> int:
        """Number of values of positive weight."""
        return int(np.count_nonzero(self.has_weight))

    @property
    def total(self) -> float:
        """Number of entries, by weight."""
        return float(self.weights.sum())

    @property
    def is_whole(self) -> bool:
        """Whether the entries are whole numbers."""
        return self.is_lattice and self.step % 1 == 0 and self.low % 1 == 0

    @property
    def n_places(self) -> float:
        """Points of the lattice from the smallest to the largest entry."""
        return round((self.high - self.low) / self.step) + 1 if self.is_lattice else np.inf

    @property
    def mean(self) -> float:
        return float(self.weights @ self.values) / self.total

    @property
    def deviation(self) -> float:
        gap = self.values - self.mean
        return float(np.sqrt(self.weights @ gap**2 / self.total))

    @property
    def n_zeros(self) -> float:
        return self.total * self.share(self.values == 0)

    def share(self, flags: Bools) -> float:
        """Share of entries whose values are flagged."""
        return float(self.weights @ flags) / self.total


def collect_columns(data: Data, executor: Executor, summary: Summary) -> list[Column]:
    """Collect the values of all columns and how often they occur, in one pass.

    Parameters
    ----------
    data : Data
    executor : Executor
    summary : Summary
        Of ``data``.

    Returns
    -------
    list of Column
        Columns on a lattice of at most 1000 points are counted. Others are sampled in at most 2000 evenly spaced rows;
        if such a sample has so few values that they could be levels, the column is counted as well.
    """
    plan = _Plan.of(summary, data.n_samples)
    found = executor.sum(plan.visit, data)
    pairs = plan.pairs(found)
    if plan.stride > 1:
        few = [int(j) for j in plan.sampled if len(pairs[int(j)][0]) <= MOST_LEVELS]
        pairs |= _count_all(few, data, executor)
    is_whole_shared = found.misses_one <= 1e-6 + 0.5 * summary.resolution[plan.shares].sum()
    shares = set(plan.shares.tolist()) if is_whole_shared else ()
    names = map(str, range(data.n_features)) if data.feature_names is None else data.feature_names
    return [
        Column(
            name,
            *pairs[j],
            step=float(summary.resolution[j]),
            is_lattice=bool(summary.is_lattice[j]),
            low=float(summary.minimum[j]),
            high=float(summary.maximum[j]),
            weighted_low=float(summary.low[j]),
            weighted_high=float(summary.high[j]),
            n_observed=int(summary.n_observed[j]),
            labels=data.labels.get(j),
            is_part=j in shares,
        )
        for j, name in enumerate(names)
    ]


@dataclass(frozen=True, eq=False)
class _Values:
    """Counts and a sample from some rows; can be added in any order."""

    counts: Floats
    """Weights of the values of all counted columns, one column after the other."""
    sample: Floats
    """Rows of the sampled columns, NaN where missing."""
    sample_weight: Floats
    misses_one: Floats
    """Largest distance from one of the sum of a complete row's shares."""

    def __add__(self, other: _Values) -> _Values:
        return _Values(
            self.counts + other.counts,
            np.concatenate([self.sample, other.sample]),
            np.concatenate([self.sample_weight, other.sample_weight]),
            np.maximum(self.misses_one, other.misses_one),
        )


@dataclass(frozen=True, eq=False)
class _Plan:
    """Which columns are counted, and which are sampled, every how many rows."""

    counted: Ints
    low: Floats
    step: Floats
    starts: Ints
    """Where the counts of each counted column begin, and the end, (n_counted + 1,)."""
    sampled: Ints
    stride: int
    shares: Ints
    """Columns of fractions between 0 and 1."""

    @classmethod
    def of(cls, summary: Summary, n_samples: int) -> _Plan:
        with np.errstate(invalid="ignore"):
            places = np.round((summary.maximum - summary.minimum) / summary.resolution) + 1
        is_counted = summary.is_lattice & (places <= _MOST_VALUES)
        counted, sampled = np.flatnonzero(is_counted), np.flatnonzero(~is_counted)
        starts = np.concatenate([[0], np.cumsum(places[counted].astype(np.int64))])
        rows = np.clip(_MOST_ENTRIES // max(len(sampled), 1), _LEAST_ROWS, _MOST_ROWS)
        shares = np.flatnonzero((summary.minimum >= 0) & (summary.maximum <= 1) & (summary.n_noninteger > 0))
        known = summary.minimum[counted], summary.resolution[counted]
        return cls(counted, *known, starts, sampled, max(1, -(-n_samples // int(rows))), shares)

    def visit(self, block: Block, _: None) -> _Values:
        x, weights = block.values().astype(np.float64), _positive_weights(block)
        counts = np.zeros(int(self.starts[-1]))
        for number, column in enumerate(self.counted):
            places = np.rint((x[:, column] - self.low[number]) / self.step[number])
            seen = np.isfinite(places)
            start, stop = self.starts[number : number + 2]
            counts[start:stop] = np.bincount(
                places[seen].astype(np.int64), weights=weights[seen], minlength=stop - start
            )
        taken = np.flatnonzero(np.arange(block.start, block.stop) % self.stride == 0)
        misses_one = np.nanmax(np.abs(x[:, self.shares].sum(axis=1) - 1.0), initial=0.0)
        return _Values(counts, x[np.ix_(taken, self.sampled)], weights[taken], misses_one)

    def pairs(self, found: _Values) -> dict[int, tuple[Floats, Floats]]:
        """Return the values and weights of each column."""
        pairs: dict[int, tuple[Floats, Floats]] = {}
        for number, column in enumerate(self.counted):
            counts = found.counts[self.starts[number] : self.starts[number + 1]]
            places = np.flatnonzero(counts > 0)
            pairs[int(column)] = self.low[number] + self.step[number] * places, counts[places]
        for number, column in enumerate(self.sampled):
            values, weights = _count(found.sample[:, number], found.sample_weight)
            pairs[int(column)] = values, self.stride * weights
        return pairs


def _positive_weights(block: Block) -> Floats:
    """Weights of the rows of a block; rows of weight 0 have values as well, which a fit must be able to read."""
    return np.maximum(block.weights, np.finfo(float).tiny)


def _count_all(columns: list[int], data: Data, executor: Executor) -> dict[int, tuple[Floats, Floats]]:
    """Values of some columns, and their weights, over all rows."""
    if not columns:
        return {}

    def visit(block: Block) -> list[tuple[Floats, Floats]]:
        x, weights = block.values()[:, columns].astype(np.float64), _positive_weights(block)
        return [_count(column, weights) for column in x.T]

    blocks = zip(*executor.collect(visit, data), strict=True)
    return {
        column: _count(*map(np.concatenate, zip(*parts, strict=True)))
        for column, parts in zip(columns, blocks, strict=True)
    }


def _count(x: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Distinct finite values in increasing order, and the sums of their weights."""
    seen = np.isfinite(x)
    values, inverse = np.unique(x[seen], return_inverse=True)
    return values, np.bincount(inverse, weights=weights[seen], minlength=len(values)).astype(np.float64)

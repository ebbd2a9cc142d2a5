"""Count the values of columns for ``family="auto"``, or take a sample of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from anypca._typing import Bools, Floats, Ints
from anypca.columns._candidates import MOST_LEVELS
from anypca.columns._guards import Column
from anypca.engine._interface import Block, Data, Executor
from anypca.engine.summary import Summary

#: Columns with no more possible values than this are counted, others sampled.
_MOST_VALUES = 1000
#: Rows of the sample, at most and at least; its entries, at most (80 MB). More rows would not change the scores, which
#: are coarsened; see `anypca.columns.auto`.
_MOST_ROWS, _LEAST_ROWS, _MOST_ENTRIES = 2000, 200, 10**7


@dataclass(frozen=True, eq=False)
class _Values:
    """What some rows tell; adds in any order."""

    counts: Floats
    """Weights of the values of all counted columns, one column after the other."""
    sample: Floats
    """Rows of the sampled columns, NaN where missing."""
    sample_weight: Floats
    rises: Bools
    """Columns that never decrease within a block, (n_features,)."""
    falls: Bools
    ends: tuple[tuple[int, Floats, Floats], ...]
    """Of each block its first row's number, its first and its last row."""
    misses_one: Floats
    """How far the sum of the shares of a complete row is from one, at most."""

    def __add__(self, other: _Values) -> _Values:
        return _Values(
            self.counts + other.counts,
            np.concatenate([self.sample, other.sample]),
            np.concatenate([self.sample_weight, other.sample_weight]),
            self.rises & other.rises,
            self.falls & other.falls,
            self.ends + other.ends,
            np.maximum(self.misses_one, other.misses_one),
        )

    @property
    def is_sorted(self) -> Bools:
        """Columns that never decrease, or never increase, over all blocks."""
        ordered = sorted(self.ends, key=lambda end: end[0])
        steps = np.array([after[1] - before[2] for before, after in pairwise(ordered)])
        with np.errstate(invalid="ignore"):
            rises = self.rises & ~np.any(steps < 0, axis=0)
            falls = self.falls & ~np.any(steps > 0, axis=0)
        return np.asarray(rises | falls)


@dataclass(frozen=True, eq=False)
class _Plan:
    """Which columns are counted, and where; which are sampled, and how often."""

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
        x, observed = block.read()
        x = x.astype(np.float64)
        if observed is not None:
            x[~observed] = np.nan
        with np.errstate(invalid="ignore"):
            change = np.diff(x, axis=0)
            rises, falls = ~np.any(change < 0, axis=0), ~np.any(change > 0, axis=0)
        taken = np.flatnonzero(np.arange(block.start, block.stop) % self.stride == 0)
        weights = _positive_weights(block)
        return _Values(
            self._counts(x, weights),
            x[np.ix_(taken, self.sampled)],
            weights[taken],
            rises,
            falls,
            ((block.start, x[0], x[-1]),),
            np.nanmax(np.abs(x[:, self.shares].sum(axis=1) - 1.0), initial=0.0),
        )

    def _counts(self, x: Floats, weights: Floats) -> Floats:
        counts = np.zeros(int(self.starts[-1]))
        for number, column in enumerate(self.counted):
            places = np.rint((x[:, column] - self.low[number]) / self.step[number])
            seen = np.isfinite(places)
            start, stop = self.starts[number : number + 2]
            counts[start:stop] = np.bincount(
                places[seen].astype(np.int64), weights=weights[seen], minlength=stop - start
            )
        return counts


def collect_columns(data: Data, executor: Executor, summary: Summary) -> list[Column]:
    """The values of all columns and how often they occur, in one pass.

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
    is_sorted, pairs = found.is_sorted, _pairs(plan, found)
    if plan.stride > 1:
        few = [int(j) for j in plan.sampled if len(pairs[int(j)][0]) <= MOST_LEVELS]
        pairs |= _count_all(few, data, executor)
    shares = plan.shares if found.misses_one <= 1e-6 + 0.5 * summary.resolution[plan.shares].sum() else ()
    names = [""] * data.n_features if data.feature_names is None else data.feature_names
    return [
        Column(
            names[j],
            *pairs[j],
            step=float(summary.resolution[j]),
            is_lattice=bool(summary.is_lattice[j]),
            low=float(summary.minimum[j]),
            high=float(summary.maximum[j]),
            n_observed=int(summary.n_observed[j]),
            is_sorted=bool(is_sorted[j]),
            labels=data.labels.get(j),
            is_part=j in shares,
        )
        for j in range(data.n_features)
    ]


def _positive_weights(block: Block) -> Floats:
    """Weights of the rows of a block; those of weight 0 have values as well, which a fit must be able to read."""
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


def _pairs(plan: _Plan, found: _Values) -> dict[int, tuple[Floats, Floats]]:
    """Values and weights of each column."""
    pairs: dict[int, tuple[Floats, Floats]] = {}
    for number, column in enumerate(plan.counted):
        counts = found.counts[plan.starts[number] : plan.starts[number + 1]]
        places = np.flatnonzero(counts > 0)
        pairs[int(column)] = plan.low[number] + plan.step[number] * places, counts[places]
    for number, column in enumerate(plan.sampled):
        values, weights = _count(found.sample[:, number], found.sample_weight)
        pairs[int(column)] = values, plan.stride * weights
    return pairs

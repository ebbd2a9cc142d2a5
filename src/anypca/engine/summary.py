"""One pass over the entries: moments of the columns, and values that no model can have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg.blas import dger

from anypca._typing import Bools, Floats, Ints
from anypca._words import listed
from anypca.engine._convert import describe_entry
from anypca.engine._interface import Block, Data, Executor, Statistics, mask_missing
from anypca.engine._lattice import Lattice, find_lattice

#: Row, column and value of an entry.
Entry = tuple[int, int, float]

# Entries processed at a time, 2 MB in float64: the temporaries of the moments fit in the cache and are small compared
# with the block.
_SLAB_ENTRIES = 2**18
# Entries that numpy reduces along in one go without its overhead showing.
_LONG_ROW = 1024
# Rows and columns named in an error message.
_N_NAMED = 5


@dataclass(frozen=True)
class Summary:
    """Summary of a table from one pass; arrays have shape (n_features,) and describe observed entries."""

    n_observed: Ints
    """Number of observed entries, infinite ones not counted."""
    mean: Floats
    """Weighted mean."""
    variance: Floats
    """Weighted mean of squared deviations from the mean (no correction for degrees of freedom)."""
    minimum: Floats
    """Smallest entry; NaN where there is none."""
    maximum: Floats
    """Largest entry; NaN where there is none."""
    low: Floats
    """Smallest entry of positive weight; infinite where there is none."""
    high: Floats
    """Largest entry of positive weight; infinite where there is none."""
    n_zero: Ints
    """Number of entries equal to 0."""
    n_noninteger: Ints
    """Number of entries that are not whole numbers."""
    resolution: Floats
    """Recording step of the values: the step of their lattice, else a thousandth of the standard deviation."""
    is_lattice: Bools
    """Whether they lie on a lattice of at most four decimals."""
    weight: Floats
    """Sum of the sample weights of the observed entries; moments are NaN where it is 0."""
    has_missing: bool
    first_infinite: Entry | None
    """Row, column and value of the first infinite entry in row order."""
    n_empty_rows: int
    """Number of rows without any observed entry."""
    empty_columns: tuple[int, ...]
    """All columns without any observed entry of positive weight."""


@dataclass(frozen=True)
class _Moments:
    """Sums of some rows, by column; arrays (n_features,)."""

    n_observed: Ints
    weight: Floats
    mean: Floats
    second: Floats
    """Weighted sum of squared deviations from the mean of these rows."""
    minimum: Floats
    maximum: Floats
    low: Floats
    """Smallest entry of positive weight, and the largest."""
    high: Floats
    n_zero: Ints
    n_noninteger: Ints
    lattice: Lattice

    def __add__(self, other: _Moments) -> _Moments:
        """Merge as Chan, Golub and LeVeque (1983) do; sums of powers would cancel for large means."""
        weight = self.weight + other.weight
        divisor = np.where(weight > 0, weight, 1.0)
        with np.errstate(over="ignore", invalid="ignore"):  # beyond 1e100: reported by check_values
            gap = other.mean - self.mean
            product = self.weight * other.weight / divisor
            return _Moments(
                n_observed=self.n_observed + other.n_observed,
                weight=weight,
                mean=self.mean + gap * (other.weight / divisor),
                second=self.second + other.second + gap**2 * product,
                minimum=np.minimum(self.minimum, other.minimum),
                maximum=np.maximum(self.maximum, other.maximum),
                low=np.minimum(self.low, other.low),
                high=np.maximum(self.high, other.high),
                n_zero=self.n_zero + other.n_zero,
                n_noninteger=self.n_noninteger + other.n_noninteger,
                lattice=self.lattice + other.lattice,
            )


@dataclass(frozen=True)
class _Partial(Statistics):
    """Everything that the pass collects from some rows."""

    moments: _Moments
    infinite: tuple[Entry, ...]
    """The first infinite entry of each block."""
    n_incomplete: int
    """Number of blocks with missing entries."""
    n_empty_rows: int


def summarise(data: Data, executor: Executor) -> Summary:
    """Describe the columns of a table in one pass.

    Parameters
    ----------
    data : Data
    executor : Executor

    Returns
    -------
    Summary
        In float64 whatever the dtype of the data. Infinite entries are reported and otherwise left out.
    """
    partial = executor.sum(_summarise_block, data)
    moments = partial.moments
    seen = moments.weight > 0
    divisor = np.where(seen, moments.weight, np.nan)
    with np.errstate(over="ignore", invalid="ignore"):
        variance = moments.second / divisor
    return Summary(
        n_observed=moments.n_observed,
        weight=moments.weight,
        mean=np.where(seen, moments.mean, np.nan),
        variance=variance,
        minimum=np.where(moments.n_observed > 0, moments.minimum, np.nan),
        maximum=np.where(moments.n_observed > 0, moments.maximum, np.nan),
        low=moments.low,
        high=moments.high,
        n_zero=moments.n_zero,
        n_noninteger=moments.n_noninteger,
        resolution=moments.lattice.steps(np.sqrt(variance)),
        is_lattice=moments.lattice.is_found,
        has_missing=partial.n_incomplete > 0,
        first_infinite=min(partial.infinite, default=None),
        n_empty_rows=partial.n_empty_rows,
        empty_columns=tuple(int(j) for j in np.flatnonzero(~seen)),
    )


def check_values(summary: Summary, data: Data) -> Data:
    """Refuse tables that no model can be fitted to.

    Parameters
    ----------
    summary : Summary
        Of ``data``.
    data : Data

    Returns
    -------
    Data
        The same, knowing whether entries are missing.

    Raises
    ------
    ValueError
        If an entry is infinite or too large to square, or a column has no observed entry; the message names them.
        Rows without any are no error: models know nothing of them but the distribution of scores.
    """
    _raise_if_infinite(summary.first_infinite, data)
    if summary.empty_columns:
        names = _name_columns(summary.empty_columns, data.feature_names)
        where = " in rows of positive weight" if data.has_weights else ""
        raise ValueError(f"X has no observed entry{where} in {names}, only NaN. Drop these columns.")
    large = np.flatnonzero(~np.isfinite(summary.variance))
    if len(large):
        names = _name_columns(tuple(int(j) for j in large), data.feature_names)
        raise ValueError(f"X has values too large for their squares to be computed in {names}. Rescale them.")
    return mark_missing(data, summary.has_missing)


def mark_missing(data: Data, may_miss: bool) -> Data:
    """The same table, knowing whether entries are missing."""
    if data.may_miss == may_miss:
        return data
    if data.is_distributed:
        from anypca.engine.dask import replace_blocks  # dask is optional

        return replace(data, may_miss=may_miss, blocks=replace_blocks(data.blocks, may_miss=may_miss))
    blocks = tuple(replace(block, may_miss=may_miss) for block in data.blocks)
    return replace(data, may_miss=may_miss, blocks=blocks)


def check_finite(data: Data, executor: Executor) -> None:
    """Raise a ValueError that names the first infinite entry, if there is one; NaN passes as missing."""
    _raise_if_infinite(first_outside(data, executor, np.isfinite), data)


def first_outside(data: Data, executor: Executor, predicate: Callable[[Floats], Bools]) -> Entry | None:
    """The first observed entry, in row order, for which ``predicate`` does not hold.

    Parameters
    ----------
    data : Data
    executor : Executor
    predicate : callable
        Takes values (rows, n_features), returns booleans of that shape, as ``family.in_support`` does.

    Returns
    -------
    (row, column, value) or None
    """

    def visit(block: Block) -> tuple[Entry, ...]:
        table = block.read()
        outside = ~predicate(table.x)
        if table.observed is not None:
            outside &= table.observed
        return _first_true(outside, table.x, block.start)

    return min((entry for found in executor.collect(visit, data) for entry in found), default=None)


def _first_true(flags: Bools, x: Floats, start: int) -> tuple[Entry, ...]:
    """The first entry of a block that is flagged."""
    if not flags.any():
        return ()
    row, column = divmod(int(np.argmax(flags)), flags.shape[1])
    return ((start + row, column, float(x[row, column])),)


def _summarise_block(block: Block, _: None) -> _Partial:
    x, entry = block.values(), block.entry_weight()
    weight = block.weights[:, None] if entry is None else block.weights[:, None] * entry
    minimum, maximum = _reduce(np.minimum, x), _reduce(np.maximum, x)
    # Neither is finite in a column with NaN or an infinite entry; most tables need not be searched for them.
    if np.isfinite(minimum).all() and np.isfinite(maximum).all():
        moments = _moments(x, None, weight, (minimum, maximum))
        return _Partial(moments, (), 0, 0)
    x, observed = mask_missing(x)
    n_incomplete = int(observed is not None)
    n_empty = 0 if observed is None else int((~observed.any(axis=1)).sum())
    infinite = np.isinf(x)
    first = _first_true(infinite, x, block.start)
    if first:  # out of the way of the moments
        x[infinite] = 1.0
        observed = ~infinite if observed is None else observed & ~infinite
    moments = _moments(x, observed, weight, (minimum, maximum))
    return _Partial(moments, first, n_incomplete, n_empty)


def _moments(x: Floats, observed: Bools | None, weight: Floats, extremes: tuple[Floats, Floats]) -> _Moments:
    """Moments of a block, whose entries are overwritten, a slab of columns at a time.

    ``weight`` has shape (n, 1) for rows or (n, p) for entries.
    """
    n_slabs = min(-(-x.size // _SLAB_ENTRIES), x.shape[1])
    edges = [i * x.shape[1] // n_slabs for i in range(n_slabs + 1)]
    eps = float(np.finfo(x.dtype).eps)
    slabs = []
    for first, last in pairwise(edges):
        part = np.s_[:, first:last]
        seen = None if observed is None else observed[part]
        values = x.astype(np.float64, copy=False) if n_slabs == 1 else x[part].astype(np.float64)
        known = extremes[0][first:last], extremes[1][first:last]
        some = weight if weight.shape[1] == 1 else weight[part]
        slabs.append(_slab_moments(values, seen, some, known, eps))
    joined: _Moments = slabs[0] if n_slabs == 1 else _side_by_side(slabs)
    return joined


def _side_by_side(parts: Sequence[Any]) -> Any:
    """Concatenate dataclasses of arrays over slabs of columns."""
    kind = type(parts[0])
    if kind is np.ndarray:
        return np.concatenate(parts)
    return kind(*(_side_by_side([getattr(part, field.name) for part in parts]) for field in fields(kind)))


def _weighted_sum(weight: Floats, x: Floats) -> Floats:
    """Sums over rows with the weights of rows (n, 1) or of entries (n, p), shape (p,)."""
    return weight[:, 0] @ x if weight.shape[1] == 1 else np.einsum("ij,ij->j", weight, x)


def _slab_moments(
    x: Floats, observed: Bools | None, weights: Floats, extremes: tuple[Floats, Floats], eps: float
) -> _Moments:
    """Moments of some columns; missing entries hold 1.0, so they count as neither zero nor fraction."""
    n_columns = x.shape[1]
    powers = np.floor(x)
    n_whole = _count(x == powers)
    n_zero = _count(x == 0) if n_whole.any() else np.zeros_like(n_whole)
    is_whole, original = n_whole == len(x), x
    if observed is None:
        n_observed = np.full(n_columns, len(x))
        weight = np.broadcast_to(weights.sum(axis=0), n_columns)
        minimum, maximum = (values.astype(np.float64) for values in extremes)
    else:
        n_observed = _count(observed)
        weight = _weighted_sum(weights, observed.astype(np.float64))
        minimum = _reduce(np.minimum, np.where(observed, x, np.inf))
        maximum = _reduce(np.maximum, np.where(observed, x, -np.inf))
        x = np.where(observed, x, 0.0)
    low, high = minimum, maximum
    if not weights.all():
        seen = (weights > 0) if observed is None else (weights > 0) & observed
        low, high = (
            _reduce(np.minimum, np.where(seen, x, np.inf)),
            _reduce(np.maximum, np.where(seen, x, -np.inf)),
        )
    lattice = find_lattice(original, observed, is_whole, np.maximum(-minimum, maximum), eps)
    with np.errstate(over="ignore", invalid="ignore"):  # beyond 1e100: reported by check_values
        mean = _weighted_sum(weights, x) / np.where(weight > 0, weight, 1.0)
        # Minus an outer product of ones and the means, in place: half of the time of numpy's subtraction.
        dger(-1.0, mean, np.ones(len(x)), a=x.T, overwrite_a=True)
        if observed is not None:
            x *= observed
        np.multiply(x, x, out=powers)
        second = _weighted_sum(weights, powers)
    n_fractions = len(x) - n_whole
    ranges = minimum, maximum, low, high
    return _Moments(n_observed, weight, mean, second, *ranges, n_zero, n_fractions, lattice)


def _count(flags: Bools) -> Ints:
    """Number of true flags by column; a sum in 32 bits takes a third of the time of ``count_nonzero``."""
    n_rows, n_columns = flags.shape
    total = np.count_nonzero(flags)  # fast over the whole array, and often sufficient
    if total in (0, flags.size):
        return np.full(n_columns, n_rows if total else 0, dtype=np.int64)
    return _reduce(np.add, flags, dtype=np.int32).astype(np.int64)


def _reduce(ufunc: np.ufunc, x: npt.NDArray[Any], **options: Any) -> npt.NDArray[Any]:
    """``ufunc`` over the rows of a contiguous array, several of them at a time: numpy is slow on short ones."""
    n_columns = x.shape[1]
    at_once = max(1, _LONG_ROW // n_columns)
    n_folded = len(x) // at_once * at_once
    if at_once < 2 or not n_folded:
        return np.asarray(ufunc.reduce(x, axis=0, **options))
    folded = ufunc.reduce(x[:n_folded].reshape(-1, at_once * n_columns), axis=0, **options)
    parts = [folded.reshape(at_once, n_columns), x[n_folded:].astype(folded.dtype)]
    return np.asarray(ufunc.reduce(np.concatenate(parts), axis=0))


def _raise_if_infinite(entry: Entry | None, data: Data) -> None:
    if entry is not None:
        row, column, value = entry
        raise ValueError(
            f"{describe_entry('X', row, column, data.feature_names)} is {value}; entries must be finite. "
            "Use NaN for missing entries."
        )


def _name_columns(columns: Sequence[int], names: Sequence[str] | None) -> str:
    labels = [f"{j} ({names[j]!r})" if names is not None else str(j) for j in columns]
    return f"column(s) {listed(labels, _N_NAMED)}"

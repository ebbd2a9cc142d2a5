"""Offsets for counts: logarithms of sampling efforts, estimated from the table.

Every function takes counts (n_samples, n_features) in any form that the models accept and returns one number per row on
the log scale, ready for ``fit(X, offset=...)``. Missing entries are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.stats import rankdata

from anypca._typing import Floats
from anypca.engine import (
    Block,
    Data,
    Executor,
    check_data,
    check_values,
    executor_for,
    first_outside,
    summarise,
)

__all__ = ["rle", "tmm", "total_counts", "tss"]


@dataclass(frozen=True, eq=False)
class _Counts:
    """A checked table of counts, open for passes."""

    data: Data
    executor: Executor

    def rows(self, function: Callable[[Floats], Floats]) -> Floats:
        """``function`` of the entries of each block (NaN where missing), joined by rows."""
        found = self.executor.collect(lambda block: function(block.values().astype(np.float64)), self.data)
        return np.concatenate(found)

    def columns(self, function: Callable[[Floats], Floats]) -> Floats:
        """Sum over the blocks of ``function`` of their entries."""
        return np.asarray(
            self.executor.sum(lambda block, _: function(block.values().astype(np.float64)), self.data)
        )

    def row(self, index: int) -> Floats:
        """The entries of one row, shape (n_features,)."""

        def visit(block: Block, _: Any) -> Floats:
            if block.start <= index < block.stop:
                return np.asarray(block.values()[index - block.start], dtype=np.float64)
            return np.zeros(self.data.n_features)

        return np.asarray(self.executor.sum(visit, self.data))


def total_counts(X: Any) -> Floats:
    """Logarithms of the row totals.

    Parameters
    ----------
    X : table of counts of shape (n_samples, n_features)
        Counts.

    Returns
    -------
    ndarray of shape (n_samples,)
        An offset for each row.

    Raises
    ------
    ValueError
        If an entry is negative or infinite, or a row has no counts; the message names it.

    See Also
    --------
    tss : divided by their mean.
    rle : robust to a few large columns.

    Examples
    --------
    >>> import numpy as np
    >>> np.exp(total_counts([[1, 3], [0, 8]])).round(6).tolist()
    [4.0, 8.0]
    """
    return _with_counts(X, _log_totals)


def tss(X: Any) -> Floats:
    """Total-sum scaling: logarithms of the row totals, divided by the mean total.

    Intercepts are then log rates for a row of average effort. Otherwise the fit is the same as with `total_counts`.

    Parameters
    ----------
    X : table of counts of shape (n_samples, n_features)
        Counts.

    Returns
    -------
    ndarray of shape (n_samples,)
        An offset for each row, 0 for a row of average total.

    Raises
    ------
    ValueError
        As `total_counts`.

    See Also
    --------
    total_counts : without the division.

    Examples
    --------
    >>> import numpy as np
    >>> np.exp(tss([[1, 3], [4, 8]])).round(6).tolist()
    [0.5, 1.5]
    """
    totals = _with_counts(X, _log_totals)
    return np.asarray(totals - np.log(np.mean(np.exp(totals))))


def rle(X: Any, *, pseudocount: float = 0.0, zeros: Literal["drop", "skip"] = "drop") -> Floats:
    """Relative log expression: the median over columns of log ratios to the columns' geometric means.

    Unlike totals, the median is robust to a few columns with large counts.

    Parameters
    ----------
    X : table of counts of shape (n_samples, n_features)
        Counts.
    pseudocount : float, default=0.0
        Added to every count.
    zeros : {"drop", "skip"}, default="drop"
        ``"drop"``: only columns without zeros count. ``"skip"``: geometric means over all rows with the zeros left
        out of the logarithms, and medians over the positive entries of a row, for tables where every column has
        zeros.

    Returns
    -------
    ndarray of shape (n_samples,)
        An offset for each row, in logarithms.

    Raises
    ------
    ValueError
        If an entry is negative or infinite, a row has no counts, or there are zeros in every column.

    See Also
    --------
    tmm : trimmed means.
    total_counts : plain totals.

    References
    ----------
    S. Anders, W. Huber (2010). Differential expression analysis for sequence count data. Genome Biology 11.

    Examples
    --------
    >>> import numpy as np
    >>> np.exp(rle([[1, 2, 100], [4, 8, 4]])).round(6).tolist()
    [0.5, 2.0]
    """
    _check_number("pseudocount", pseudocount, 0.0, np.inf)
    if zeros not in ("drop", "skip"):
        raise ValueError(f"zeros must be 'drop' or 'skip'; got {zeros!r}.")

    def logs(x: Floats) -> Floats:
        shifted = x + pseudocount
        return np.log(np.where(shifted > 0, shifted, np.nan))

    def function(counts: _Counts) -> Floats:
        _log_totals(counts)
        sums = counts.columns(lambda x: np.vstack([np.nansum(logs(x), axis=0), *_tally(x, logs(x))]))
        total, present, positive = sums
        # A geometric mean that includes a zero is zero and defines no ratios: drop zeros, or use positive columns only.
        usable = positive == present if zeros == "drop" else positive > 0
        if not usable.any():
            raise ValueError(
                "every column of X has a zero, so that no geometric mean is positive. Use zeros='skip' or a "
                "pseudocount of 1."
            )
        mean = np.where(usable, total / np.maximum(present, 1.0), np.nan)
        return counts.rows(lambda x: _medians(logs(x) - mean))

    found = _with_counts(X, function)
    _raise_at_nan(found, "has no positive count in a usable column", "Use zeros='skip', or drop the row.")
    return found


def tmm(
    X: Any, *, reference: int | None = None, trim_ratios: float = 0.3, trim_levels: float = 0.05
) -> Floats:
    """Trimmed mean of log ratios to a reference row, times the row totals.

    Parameters
    ----------
    X : table of counts of shape (n_samples, n_features)
        Counts.
    reference : int or None, default=None
        Number of the row to compare with; by default the one whose upper quartile of shares is nearest to the mean of
        these quartiles.
    trim_ratios : float, default=0.3
        Share of the columns left out at either end by their log ratio, in [0, 0.5).
    trim_levels : float, default=0.05
        Share left out at either end by their mean log level, in [0, 0.5).

    Returns
    -------
    ndarray of shape (n_samples,)
        Log totals plus log factors, the factors with geometric mean 1.

    Raises
    ------
    ValueError
        If an entry is negative or infinite, a row has no counts, a parameter is out of range, or a row shares no
        positive column with the reference.

    See Also
    --------
    rle : medians of ratios.
    total_counts : plain totals.

    References
    ----------
    M. D. Robinson, A. Oshlack (2010). A scaling normalization method for differential expression analysis of RNA-seq
    data. Genome Biology 11.

    Examples
    --------
    >>> import numpy as np
    >>> offset = tmm([[10, 20, 30, 40], [20, 40, 60, 80]])
    >>> float(np.exp(offset[1] - offset[0]).round(6))
    2.0
    """
    _check_number("trim_ratios", trim_ratios, 0.0, 0.5)
    _check_number("trim_levels", trim_levels, 0.0, 0.5)

    def function(counts: _Counts) -> Floats:
        totals = np.exp(_log_totals(counts))
        chosen = _reference(counts, reference)
        other = counts.row(chosen)

        def compare(x: Floats) -> Floats:
            return np.array([_trimmed_ratio(row, other, trim_ratios, trim_levels) for row in x])

        factors = counts.rows(compare)
        _raise_at_nan(factors, f"shares no positive column with row {chosen}", "Choose another reference.")
        # With factors of mean 0 the mean offset equals the mean log total.
        return np.asarray(np.log(totals) + factors - factors.mean())

    return _with_counts(X, function)


def _with_counts(X: Any, function: Callable[[_Counts], Floats]) -> Floats:
    """Check a table of counts and call a function of it."""
    data = check_data(X)
    with executor_for(data) as executor:
        data = check_values(summarise(data, executor), data)
        found = first_outside(data, executor, lambda x: x >= 0)
        if found is not None:
            row, column, value = found
            raise ValueError(
                f"offsets need counts >= 0; X[{row}, {column}] is {value:.10g}. Pass the table as it was counted."
            )
        return function(_Counts(data, executor))


def _log_totals(counts: _Counts) -> Floats:
    totals = counts.rows(lambda x: np.nansum(x, axis=1))
    empty = np.flatnonzero(totals <= 0)
    if len(empty):
        more = f" ({len(empty)} such rows)" if len(empty) > 1 else ""
        raise ValueError(
            f"X has no counts in row {empty[0]}{more}: its effort cannot be estimated. Drop such rows."
        )
    return np.log(totals)


def _tally(x: Floats, logs: Floats) -> tuple[Floats, Floats]:
    """Numbers of observed and of positive entries by column."""
    present = ~np.isnan(x)
    return present.sum(axis=0, dtype=float), (present & ~np.isnan(logs)).sum(axis=0, dtype=float)


def _medians(values: Floats) -> Floats:
    """Medians of rows over entries that are not NaN; NaN where there are none."""
    is_empty = np.isnan(values).all(axis=1)
    found = np.full(len(values), np.nan)
    found[~is_empty] = np.nanmedian(values[~is_empty], axis=1)
    return found


def _reference(counts: _Counts, reference: int | None) -> int:
    """The reference row."""
    n = counts.data.n_samples
    if reference is not None:
        if (
            isinstance(reference, bool)
            or not isinstance(reference, int | np.integer)
            or not 0 <= reference < n
        ):
            raise ValueError(f"reference must be the number of a row, 0 to {n - 1}; got {reference!r}.")
        return int(reference)
    # The row whose upper quartile is nearest to the average one, as edgeR chooses it.
    quartiles = counts.rows(lambda x: np.nanquantile(x / np.nansum(x, axis=1, keepdims=True), 0.75, axis=1))
    return int(np.argmin(np.abs(quartiles - quartiles.mean())))


def _trimmed_ratio(row: Floats, other: Floats, trim_ratios: float, trim_levels: float) -> float:
    """Weighted mean log ratio of the shares of two rows over columns that are extreme in neither ratio nor level."""
    both = (row > 0) & (other > 0)
    if not both.any():
        return float("nan")
    total, other_total = np.nansum(row), np.nansum(other)
    left, right = np.log(row[both] / total), np.log(other[both] / other_total)
    ratio, level = left - right, 0.5 * (left + right)
    # The asymptotic variance of the ratio, by the delta method on binomial shares.
    variance = 1.0 / row[both] - 1.0 / total + 1.0 / other[both] - 1.0 / other_total
    kept = _inner(ratio, trim_ratios) & _inner(level, trim_levels)
    # Two trims can leave nothing of a few columns; a row with a single column has no variance.
    kept = kept if kept.any() else np.ones(len(ratio), dtype=bool)
    weight = 1.0 / np.maximum(variance[kept], np.finfo(float).eps)
    return float(np.average(ratio[kept], weights=weight))


def _inner(values: Floats, trim: float) -> Any:
    """Return which values remain if a share is cut off at either end by rank; equal values share their mean rank."""
    rank = rankdata(values)
    cut = np.floor(trim * len(values))
    return (rank > cut) & (rank <= len(values) - cut)


def _check_number(name: str, value: Any, low: float, high: float) -> None:
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not is_number or not low <= value < high:
        raise ValueError(f"{name} must be a number in [{low:g}, {high:g}); got {value!r}.")


def _raise_at_nan(values: Floats, what: str, remedy: str) -> None:
    bad = np.flatnonzero(np.isnan(values))
    if len(bad):
        raise ValueError(f"row {bad[0]} of X {what}. {remedy}")

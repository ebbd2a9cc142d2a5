"""Tables of any kind, read for pictures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import Block, Data, check_data, executor_for
from anypca.plotting._common import check_length


class _Moments(NamedTuple):
    """Observed entries of the columns beside the scores of their rows, in some blocks."""

    seen: Floats
    """Observed rows of each column, (1, n_features)."""
    x: Floats
    """Means of the columns, (1, n_features)."""
    z: Floats
    """Means of the scores over the observed rows of each column, (n_components, n_features)."""
    xx: Floats
    """Sums of squares about the means, (1, n_features)."""
    zz: Floats
    """The same of the scores, (n_components, n_features)."""
    xz: Floats
    """Sums of products about the means, (n_components, n_features)."""


def read_table(X: Any) -> Floats:
    """A table in memory.

    Parameters
    ----------
    X : array-like, sparse matrix, data frame or Dask array of shape (n_samples, n_features)

    Returns
    -------
    table : ndarray of shape (n_samples, n_features)
        NaN where missing.
    """
    return np.concatenate(map_blocks(Block.values, check_data(X)))


def count_rows(X: Any) -> int:
    """Number of rows of a table; sparse ones have no length.

    Parameters
    ----------
    X : table of shape (n_samples, n_features)

    Returns
    -------
    n_samples : int
    """
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def choose_rows(n_rows: int, most: int, seed: int = 0) -> Ints:
    """Numbers of all rows, or of ``most`` of them drawn at random, in order."""
    if n_rows <= most:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(seed).choice(n_rows, most, replace=False))


def take_rows(table: Any, index: Ints) -> Any:
    """Some rows of a table or vector, in its own type.

    Parameters
    ----------
    table : array-like, data frame, sparse matrix or Dask array
    index : ndarray of int

    Returns
    -------
    object
        Dask arrays are computed: the rows are few and read several times.
    """
    if hasattr(table, "iloc"):
        return table.iloc[index]
    if hasattr(table, "tocsr"):
        return table.tocsr()[index]
    taken = (table if hasattr(table, "shape") else np.asarray(table))[index]
    return taken.compute() if hasattr(taken, "compute") else taken


def name_columns(table: Any) -> dict[str, Any]:
    """The columns of a data frame by their names, or of an array by x0, x1, ..."""
    if hasattr(table, "columns"):
        return {str(name): table[name] for name in table.columns}
    values = np.asarray(table)
    return {f"x{j}": values[:, j] for j in range(values.shape[1])}


def column_deviations(table: Floats) -> Floats:
    """Standard deviations of the columns (n_features,), NaN being missing; 0 for columns without entries."""
    some = np.where(np.isnan(table).all(axis=0), 0.0, table)
    return np.asarray(np.nanstd(some, axis=0))


def standardise(observed: Floats, fitted: Floats) -> tuple[Floats, Floats]:
    """Observed entries, NaN being missing, and fitted ones in standard deviations from the mean of their column."""
    some = np.where(np.isnan(observed).all(axis=0), 0.0, observed)
    centre, deviation = np.nanmean(some, axis=0), column_deviations(observed)
    deviation = np.where(deviation > 0, deviation, 1.0)
    return (observed - centre) / deviation, (fitted - centre) / deviation


def correlate(X: Any, scores: Floats) -> tuple[Floats, Floats]:
    """Correlations of columns with scores over the observed entries, block by block.

    Parameters
    ----------
    X : table of shape (n_samples, n_features)
    scores : ndarray of shape (n_samples, n_components)

    Returns
    -------
    correlations : ndarray of shape (n_components, n_features)
        0 where a column or a score does not vary.
    deviations : ndarray of shape (n_features,)
        Standard deviations of the columns.
    """

    def visit(block: Block) -> _Moments:
        return _measure(block.values(), scores[block.start : block.stop])

    check_length("X", range(count_rows(X)), len(scores))
    first, *rest = map_blocks(visit, check_data(X))
    for more in rest:
        first = _merge(first, more)
    scale = np.sqrt(first.xx * first.zz)
    correlations = np.divide(first.xz, scale, out=np.zeros_like(first.xz), where=scale > 0)
    return correlations, np.sqrt(first.xx / np.maximum(first.seen, 1.0))[0]


def map_blocks(function: Callable[[Block], Any], data: Data) -> list[Any]:
    """A function of each block, in row order."""
    with executor_for(data, 1) as executor:
        return executor.collect(function, data)


def _measure(x: Floats, z: Floats) -> _Moments:
    """Moments of one block: values (rows, p) with NaN, scores (rows, k)."""
    observed = ~np.isnan(x)
    seen = observed.sum(axis=0, dtype=float)[None]
    n = np.maximum(seen, 1.0)
    weights = observed.astype(float)
    x_mean = np.where(observed, x, 0.0).sum(axis=0)[None] / n
    centred = np.where(observed, x - x_mean, 0.0)
    z_mean = z.T @ weights / n
    # Shifting by the block's own mean keeps the difference of squares from losing digits.
    shift = z.mean(axis=0)[:, None]
    zz = (z.T - shift) ** 2 @ weights - n * (z_mean - shift) ** 2 * (seen > 0)
    return _Moments(seen, x_mean, z_mean, (centred**2).sum(axis=0)[None], np.maximum(zz, 0.0), z.T @ centred)


def _merge(a: _Moments, b: _Moments) -> _Moments:
    """Moments of two runs of rows together."""
    seen = a.seen + b.seen
    n = np.maximum(seen, 1.0)
    # Sums about the common mean from those about the means of two parts (Chan, Golub and LeVeque 1983).
    dx, dz, weight = b.x - a.x, b.z - a.z, a.seen * b.seen / n
    return _Moments(
        seen,
        a.x + dx * b.seen / n,
        a.z + dz * b.seen / n,
        a.xx + b.xx + weight * dx**2,
        a.zz + b.zz + weight * dz**2,
        a.xz + b.xz + weight * dx * dz,
    )

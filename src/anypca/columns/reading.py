"""Tables of any kind in memory or block by block, and checks of what comes with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anypca._typing import Floats, Ints
from anypca.engine import Block, Data, check_data, executor_for, summarise


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
    check_length("X", range(count_rows(X)), len(scores))
    data, z = check_data(X), scores - scores.mean(axis=0)
    with executor_for(data, 1) as executor:
        mean = summarise(data, executor).mean

    def visit(block: Block) -> Floats:
        x, own = block.values(), z[block.start : block.stop].T
        seen = ~np.isnan(x)
        apart = np.where(seen, x - mean, 0.0)
        return np.vstack([seen.sum(axis=0), (apart**2).sum(axis=0), own @ seen, own**2 @ seen, own @ apart])

    count, squares, *others = np.sum(map_blocks(visit, data), axis=0)
    count = np.maximum(count, 1.0)
    sums, score_squares, products = np.split(np.array(others), 3)
    # About the means of the rows that are observed in each column; products need no more, since the other side has it.
    scale = np.sqrt(squares * np.maximum(score_squares - sums**2 / count, 0.0))
    correlations = np.divide(products, scale, out=np.zeros_like(products), where=scale > 0)
    return correlations, np.sqrt(squares / count)


def check_scores(what: str, values: Any, n_components: int) -> Floats:
    """Scores, or their standard deviations, as an array.

    Parameters
    ----------
    what : str
        Name of the argument, for the message.
    values : array-like
    n_components : int

    Returns
    -------
    scores : ndarray of shape (n_samples, n_components)

    Raises
    ------
    ValueError
        If the shape is another.
    """
    found: Floats = np.asarray(values, dtype=float)
    if found.ndim != 2 or found.shape[1] != n_components:
        raise ValueError(
            f"{what} must have shape (n_samples, {n_components}), a column for each component; got shape "
            f"{found.shape}. Pass what model.transform(X) returned."
        )
    return found


def check_length(what: str, values: Any, length: int) -> None:
    """Refuse a list that has not one value for each row.

    Parameters
    ----------
    what : str
        Name of the argument, for the message.
    values : sequence or None
    length : int

    Raises
    ------
    ValueError
        If the length is another.
    """
    if values is not None and len(values) != length:
        raise ValueError(f"{what} must hold {length} values, one for each row of scores; got {len(values)}.")


def map_blocks(function: Callable[[Block], Any], data: Data) -> list[Any]:
    """A function of each block, in row order."""
    with executor_for(data, 1) as executor:
        return executor.collect(function, data)

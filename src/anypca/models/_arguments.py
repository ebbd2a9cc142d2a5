"""Arguments that several models take: generators, numbers of components, places of entries, symmetric matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
from sklearn.utils import check_random_state

from anypca._typing import Floats, Ints
from anypca.engine import Block, Data

Settings = TypeVar("Settings")


def read_settings(kind: type[Settings], model: Any, **others: Any) -> Settings:
    """The settings of a fit from the parameters of an estimator that have the same names.

    Parameters
    ----------
    kind : type
        A dataclass.
    model : estimator
    **others : Any
        Settings that are not parameters as they are.

    Returns
    -------
    An instance of ``kind``
    """
    given = {name: getattr(model, name) for name in {field.name for field in fields(kind)} - set(others)}  # type: ignore[arg-type]
    # Numbers of numpy are numbers: what is saved or handed to other libraries is plain.
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in given.items()}
    return kind(**plain, **others)


def make_generator(random_state: Any) -> np.random.Generator:
    """A numpy Generator from what scikit-learn accepts as ``random_state``, or from a Generator itself.

    Parameters
    ----------
    random_state : int, RandomState instance, Generator or None

    Returns
    -------
    numpy.random.Generator
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(check_random_state(random_state).randint(2**31))


def check_n_samples(n_samples: Any) -> int:
    """The number of rows to draw, as an int.

    Raises
    ------
    TypeError
        If it is not an integer.
    ValueError
        If it is less than 1.
    """
    if isinstance(n_samples, bool) or not isinstance(n_samples, Integral):
        raise TypeError(f"n_samples must be an integer, the number of rows to draw; got {n_samples!r}.")
    if n_samples < 1:
        raise ValueError(f"n_samples must be at least 1, the number of rows to draw; got {n_samples}.")
    return int(n_samples)


def check_rank(n_components: int, data: Data) -> None:
    """Raise if a table has fewer rows or columns than requested components."""
    shape = (data.n_samples, data.n_features)
    check_largest(n_components, min(shape), f"min(n_samples, n_features) of a table of shape {shape}")


def check_largest(n_components: int | None, largest: int, what: str) -> None:
    """Raise if ``n_components`` exceeds ``largest``; ``what`` names the reason in the message."""
    if n_components is not None and n_components > largest:
        raise ValueError(f"n_components={n_components} is more than {what} allows. Choose at most {largest}.")


def check_ranks(ranks: Any, largest: int, *, least: int = 0) -> list[int]:
    """Ranks in increasing order without repetitions.

    Parameters
    ----------
    ranks : int or iterable of int
    largest : int
        The smaller side of the table.
    least : int
        The smallest rank that the model has.

    Returns
    -------
    list of int

    Raises
    ------
    TypeError, ValueError
        If they are not integers from ``least`` to ``largest``.
    """
    found = list(ranks) if np.iterable(ranks) else [ranks]
    if not found:
        raise ValueError("ranks is empty. Pass the numbers of components to try, such as range(1, 11).")
    for rank in found:
        if isinstance(rank, bool) or not isinstance(rank, Integral):
            raise TypeError(f"ranks must be integers, numbers of components; got {rank!r}.")
        if not least <= int(rank) <= largest:
            raise ValueError(
                f"ranks must lie from {least} to min(n_samples, n_features) = {largest}; got {rank}."
            )
    return sorted({int(rank) for rank in found})


def check_entries(rows: Any, columns: Any, n_features: int) -> tuple[Ints, Ints]:
    """Places of entries as two arrays of integers.

    Raises
    ------
    ValueError
        If they are not pairs of integers.
    IndexError
        If a column is outside of the table.
    """
    row, column = (np.asarray(values) for values in (rows, columns))
    if row.ndim != 1 or row.shape != column.shape:
        raise ValueError(
            f"rows and columns name entries in pairs, one of each; got shapes {row.shape} and {column.shape}."
        )
    if row.size and not all(np.issubdtype(values.dtype, np.integer) for values in (row, column)):
        raise ValueError(
            f"rows and columns of entries must be integers; got {row.dtype} and {column.dtype}. "
            "np.nonzero(np.isnan(X)) returns the rows and columns of missing entries."
        )
    row, column = row.astype(int), column.astype(int)
    outside = (column < 0) | (column >= n_features)
    if outside.any():
        raise IndexError(f"column {int(column[outside][0])} is outside of the table, which has {n_features}.")
    return row, column


def entries_of(block: Block, rows: Ints) -> Ints:
    """Which entries lie in a block, given the rows of all (in any order)."""
    return np.flatnonzero((rows >= block.start) & (rows < block.stop))


def in_order(found: Sequence[tuple[Ints, Floats]], n_entries: int) -> Floats:
    """What blocks say of their entries (places and values), in the order in which they were asked for.

    Raises
    ------
    IndexError
        If some entry lies in no block.
    """
    # Blocks answer in their own order; an entry of no block is a row that is not there.
    places = np.concatenate([place for place, _ in found])
    if len(places) < n_entries:
        missing = int(np.setdiff1d(np.arange(n_entries), places)[0])
        raise IndexError(
            f"entry {missing} of {n_entries} lies in no row of X: give row numbers from 0 to n_samples - 1."
        )
    values = np.concatenate([value for _, value in found])
    result = np.empty_like(values)
    result[places] = values
    return result


def check_symmetric(matrix: Floats, option: str, remedy: str, rounding: float) -> None:
    """Raise a ValueError unless a matrix is square and symmetric.

    Parameters
    ----------
    matrix : ndarray of shape (n, m)
    option : str
        What needs such a matrix, for the message.
    remedy : str
        What to do about it, as a sentence.
    rounding : float
        Differences up to this share of the largest entry are allowed.
    """
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"{option} needs a square matrix; X has shape {matrix.shape}. {remedy}")
    gap = np.abs(matrix - matrix.T)
    if gap.max() > rounding * np.abs(matrix).max():
        i, j = np.unravel_index(int(np.argmax(gap)), gap.shape)
        raise ValueError(
            f"{option} needs a symmetric matrix; X[{i}, {j}] is {matrix[i, j]:.6g} and X[{j}, {i}] is "
            f"{matrix[j, i]:.6g}. {remedy}"
        )

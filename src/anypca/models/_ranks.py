"""Numbers of components that a table allows."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from anypca.engine import Data


def check_rank(n_components: int, data: Data) -> None:
    """Raise if a table has fewer rows or columns than components are asked for."""
    shape = (data.n_samples, data.n_features)
    check_largest(n_components, min(shape), f"min(n_samples, n_features) of a table of shape {shape}")


def check_largest(n_components: int | None, largest: int, what: str) -> None:
    """Raise if more than the ``largest`` number of components is asked for; ``what`` allows no more."""
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

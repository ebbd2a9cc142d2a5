"""A table on the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from anypca._optional import optional

#: Cells of a chunk that is sent to a worker: some megabytes.
_CHUNK_CELLS = 2**20


@contextmanager
def on_cluster(values: Any, address: str) -> Iterator[Any]:
    """Connect to a scheduler and distribute the rows of a table.

    Parameters
    ----------
    values : ndarray or sparse array of shape (n_rows, n_columns)
    address : str
        Of the scheduler.

    Yields
    ------
    X : dask.array.Array

    Raises
    ------
    ImportError
        Without Dask.
    OSError
        If no scheduler answers.
    """
    with optional("--dask", "dask", "dask"):
        import dask.array
        import distributed
    try:
        client = distributed.Client(address, timeout="10s")
    except (OSError, ValueError) as error:
        raise OSError(
            f"--dask {address}: no scheduler answers there ({type(error).__name__}). Expected an address such as "
            "tcp://127.0.0.1:8786; start one with dask scheduler."
        ) from error
    n_rows, n_columns = values.shape
    with client:
        chunks = (min(n_rows, max(1, _CHUNK_CELLS // n_columns)), n_columns)
        yield dask.array.from_array(values, chunks=chunks, asarray=False)

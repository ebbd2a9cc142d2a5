"""The matrix G = X'X of centred rows, held whole or applied block by block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block, Data, Executor
from anypca.solvers.closed_form import Centring, coarsen

# Rows of a chunk whose p x p product is added up: enough that the product outweighs the addition.
_CHUNK_ROWS = 1024


class Product(Protocol):
    """G, known through its products."""

    @property
    def trace(self) -> float:
        """Sum of the diagonal of G."""

    def times(self, columns: Floats) -> Floats:
        """``G @ columns``, (n_features, m) from (n_features, m)."""


@dataclass(frozen=True)
class Gram:
    """G in memory."""

    matrix: Floats
    """(n_features, n_features), symmetric, positive semi-definite."""

    @property
    def trace(self) -> float:
        return float(np.trace(self.matrix))

    def times(self, columns: Floats) -> Floats:
        return np.asarray(self.matrix @ columns)


@dataclass(frozen=True)
class Rows:
    """G through the rows of a table: two thin products per block, never a p x p matrix."""

    data: Data
    executor: Executor
    centring: Centring
    trace: float

    def times(self, columns: Floats) -> Floats:
        centring = self.centring

        def product(block: Block, _: Any) -> tuple[None, Floats]:
            rows = centring.rows(block)
            return None, rows.T @ (rows @ columns)

        return self.executor.sweep(product, coarsen(self.data, _CHUNK_ROWS))[1]


def sum_gram(data: Data, executor: Executor, centring: Centring) -> Gram:
    """G of a complete table, summed over its blocks."""

    def product(block: Block, _: Any) -> tuple[None, Floats]:
        rows = centring.rows(block)
        return None, rows.T @ rows

    return Gram(executor.sweep(product, coarsen(data, _CHUNK_ROWS))[1])

"""The matrix G = X'X of centred rows, held whole or applied block by block."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block
from anypca.models._context import FitContext
from anypca.solvers.closed_form import Centring, coarsen

# Rows of a chunk whose p x p product is added up: enough that the product outweighs the addition.
_CHUNK_ROWS = 1024


class Gram(Protocol):
    """G, known through its products."""

    @property
    def trace(self) -> float:
        """Sum of the diagonal of G."""

    def times(self, columns: Floats) -> Floats:
        """``G @ columns``, (n_features, m) from (n_features, m)."""


@dataclass(frozen=True)
class StoredGram:
    """G in memory."""

    matrix: Floats
    """(n_features, n_features), symmetric, positive semi-definite."""

    @property
    def trace(self) -> float:
        return float(np.trace(self.matrix))

    def times(self, columns: Floats) -> Floats:
        return np.asarray(self.matrix @ columns)


@dataclass(frozen=True)
class StreamedGram:
    """G through the rows of a complete table: two thin products per block, never a p x p matrix."""

    session: FitContext
    centring: Centring
    trace: float

    def times(self, columns: Floats) -> Floats:
        centring = self.centring

        def product(block: Block, _: None) -> Floats:
            rows = centring.rows(block)
            return np.asarray(rows.T @ (rows @ columns))

        return np.asarray(_in_chunks(self.session).sum(product))


def sum_gram(session: FitContext, centring: Centring) -> StoredGram:
    """G of a complete table, summed over its blocks."""

    def product(block: Block, _: None) -> Floats:
        rows = centring.rows(block)
        return np.asarray(rows.T @ rows)

    return StoredGram(_in_chunks(session).sum(product))


def _in_chunks(session: FitContext) -> FitContext:
    return replace(session, data=coarsen(session.data, _CHUNK_ROWS))

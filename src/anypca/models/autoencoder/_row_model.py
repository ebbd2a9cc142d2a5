"""A trained autoencoder as rows see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block
from anypca.models._block_view import BlockView, open_complete
from anypca.models._network import Network
from anypca.models._row_model import RowModel
from anypca.models.autoencoder._problem import Scaling


@dataclass(frozen=True, eq=False)
class CodedRowModel(RowModel[Floats]):
    """Rows through the encoder, and back through the decoder."""

    likelihood = "distance"
    scaling: Scaling
    encoder: Network
    decoder: Network

    def open(self, block: Block, names: Sequence[str] | None = None) -> BlockView:
        return open_complete(block, "Autoencoder", names)

    def solve(self, rows: BlockView) -> Floats:
        return self.encoder(self.scaling.apply(rows.x))

    def log_likelihood(self, rows: BlockView) -> Floats:
        """Negative squared distances of standardised rows from their reconstructions, shape (rows,)."""
        x = self.scaling.apply(rows.x)
        residuals = x - self.decoder(self.encoder(x))
        return np.asarray(-np.einsum("ij,ij->i", residuals, residuals))

    def mean(self, block: Block, scores: Floats) -> Floats:
        return self.scaling.undo(self.decoder(scores.astype(np.float64, copy=False)))

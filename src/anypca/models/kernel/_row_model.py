"""A fitted kernel PCA as rows see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anypca._typing import Floats
from anypca.engine import Block
from anypca.models._complete import open_complete
from anypca.models._opened import OpenedBlock
from anypca.models._row_model import RowModel
from anypca.models.kernel._embedding import Embedding
from anypca.models.kernel._preimage import Preimage


@dataclass(frozen=True, eq=False)
class KernelRowModel(RowModel[Floats]):
    """Scores in the space of a kernel, and the learned way back."""

    likelihood = "distance"
    embedding: Embedding
    preimage: Preimage | None

    def open(self, block: Block, names: Sequence[str] | None = None) -> OpenedBlock:
        return open_complete(block, "KernelPCA", names)

    def solve(self, rows: OpenedBlock) -> Floats:
        return self.embedding.scores(rows.x)

    def log_likelihood(self, rows: OpenedBlock) -> Floats:
        """Negative squared distances of the rows from the span of the components, shape (rows,)."""
        x = rows.x.astype(np.float64)
        scores = self.embedding.scores(x)
        return np.asarray(np.einsum("ij,ij->i", scores, scores) - self.embedding.squares(x))

    def mean(self, block: Block, scores: Floats) -> Floats:
        if self.preimage is None:
            raise ValueError(
                "inverse_transform was not learned. Construct KernelPCA with fit_inverse_transform=True and fit "
                "again."
            )
        return self.preimage.rows(scores.astype(np.float64))

"""Components that left a fit."""

from __future__ import annotations

from typing import NamedTuple


class Removal(NamedTuple):
    """A component that left."""

    iteration: int
    """Sweeps done when it left, counted over the whole fit."""
    n_components: int
    """Number of components before."""
    alpha: float
    """Its relevance then: precision of its loadings."""
    ratio: float
    """Squared loadings over their posterior variance; squared loadings alone where there is no posterior."""
    reason: str
    """``"relevance"``, ``"evidence"`` or ``"sparsity"`` (no loadings left)."""

"""Components that left a fit."""

from __future__ import annotations

from typing import NamedTuple


class Removal(NamedTuple):
    """A component that left."""

    iteration: int
    """Sweeps on the way of the fit to where it left; those of rivals that were given up do not count."""
    n_components: int
    """Number of components before."""
    alpha: float
    """Its relevance then: precision of its loadings."""
    ratio: float
    """Squared loadings over their posterior variance; squared loadings alone where there is no posterior."""
    reason: str
    """``"relevance"``, ``"evidence"`` or ``"sparsity"`` (no loadings left)."""

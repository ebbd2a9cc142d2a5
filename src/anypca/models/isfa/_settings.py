"""Settings of a fit; see `anypca.ISFA` for their meaning."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """What the user asked for."""

    mask: str = "scores"
    sampler: str = "infinite"
    max_factors: int = 10
    """Of the finite sampler."""
    concentration: float | None = None
    """alpha where it is fixed; ``None``: drawn."""
    fit_intercept: bool = True
    n_draws: int = 150
    n_tune: int = 150
    n_chains: int = 2

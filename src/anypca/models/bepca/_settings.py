"""Settings of a fit; see `anypca.BEPCA` for their meaning."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """What the user asked for."""

    n_components: int
    fit_intercept: bool = True
    prior_weight: float = 4.0
    prior_value: float | None = None
    variance_shape: float = 10.0
    variance_rate: float = 2.5
    sampler: str = "auto"
    n_draws: int = 500
    n_tune: int = 250
    n_chains: int = 4
    progress: bool = False
    """Show a progress bar, where the sampler has one."""

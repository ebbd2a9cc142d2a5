"""Settings of the fits; see `anypca.SePCA` for their meaning."""

from __future__ import annotations

from dataclasses import dataclass

from anypca.models.sepca._noise import Settings
from anypca.priors import Prior


@dataclass(frozen=True)
class ModeSettings(Settings):
    """Settings of the joint mode."""

    weights: tuple[float, ...] = (1.0,)
    """Values of nu, the weight of the data against the prior of the loadings; the best of them is taken."""
    criterion: str = "evidence"
    """What is largest at the best weight: the ``"joint"`` log-likelihood or the ``"evidence"``."""
    threshold: float | None = None
    """alpha beyond which a component leaves; ``None`` is 100 D times the largest mean curvature."""
    penalty: Prior | None = None
    """Of the loadings in units of their component's size, beside the normal prior."""
    strength: float = 1.0
    """Weight of the penalty."""


@dataclass(frozen=True)
class SamplerSettings:
    """Settings of the sampler."""

    n_draws: int = 500
    """Draws of each chain in the final run."""
    n_tune: int = 250
    """Draws that tune each chain of the final run."""
    n_chains: int = 4
    cores: int = 1
    """Chains that run at once; Python's lock leaves little to gain on small tables."""
    max_rounds: int = 30
    """Largest number of updates of the relevances."""
    max_attempts: int = 2
    """2: where the chains of the final run disagree, a second one that learns correlations and is twice as long,
    of which every other draw is kept."""
    progress: bool = False
    """Show a progress bar of the final run."""

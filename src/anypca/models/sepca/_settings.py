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

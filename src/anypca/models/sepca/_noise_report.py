"""What was said of the columns' noise: which model of it was used, and by how much the others lie behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from anypca.models.sepca._candidate import Candidate

_WORDS = {
    "fixed": "no dispersion was estimated",
    "shared": "one dispersion for all columns of a family",
    "shares": "noise in equal shares of the columns' variances",
    "feature": "a dispersion of its own for each column",
}


@dataclass(frozen=True)
class DispersionReport:
    """The model of the columns' noise that a fit used.

    Parameters
    ----------
    used : {"fixed", "shared", "shares", "feature"}
        Nothing was open; one dispersion for all columns of a family; equal shares of the columns' variances; a
        dispersion of each column's own.
    evidence : mapping
        Log evidence of the models that were compared, less what their free dispersions cost; empty where
        there was no choice.
    replaced : str or None
        The family that took the place of another one, because the residuals spoke against that.
    """

    used: str
    evidence: Mapping[str, float]
    replaced: str | None = None

    @property
    def gain(self) -> float:
        """Nats by which it is ahead of the next; 0.0 where nothing was compared."""
        others = [value for name, value in self.evidence.items() if name != self.used]
        return self.evidence[self.used] - max(others) if others else 0.0

    def __str__(self) -> str:
        ahead = f" ({self.gain:.1f} nats ahead of the next)" if len(self.evidence) > 1 else ""
        family = f"; family {self.replaced}, as the residuals ask" if self.replaced else ""
        return f"{_WORDS[self.used]}{ahead}{family}"


def name_noise(candidate: Candidate) -> str:
    """The word for a candidate's model of the noise."""
    if not candidate.has_open_dispersion:
        return "fixed"
    if candidate.by_column:
        return "feature"
    return "shares" if candidate.family.has_units and not candidate.is_raw else "shared"

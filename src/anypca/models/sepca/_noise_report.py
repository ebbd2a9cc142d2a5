"""What was said of the columns' noise: which model of it was used, and by how much the others lie behind."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from anypca.families import Family
from anypca.families.auto import GIVEN, FamilyReport
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
        Which family took the place of which, as ``"scaled_poisson in place of poisson"``: the residuals spoke against
        that one, or it has no dispersion that columns could have of their own.
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
        family = f"; {self.replaced}" if self.replaced else ""
        return f"{_WORDS[self.used]}{ahead}{family}"


def name_replaced(before: Family, after: Family, n_columns: int) -> str | None:
    """Which families took the place of which; ``None`` if all columns have the one that they had."""
    old, new = (_names(family, n_columns) for family in (before, after))
    pairs = sorted({(b, a) for a, b in zip(old, new, strict=True) if a != b})
    return ", ".join(f"{new} in place of {old}" for new, old in pairs) or None


def is_given(report: FamilyReport | None) -> bool:
    """Whether the user named families; not all of them were chosen from the values."""
    return report is None or any(record.rule == GIVEN for record in report)


def warn_replaced(noise: DispersionReport, dispersion: str | float) -> None:
    """Warn where residuals replaced a family; with a dispersion for each column the user asked for that."""
    if noise.replaced and dispersion == "auto":
        warnings.warn(
            f"family: {noise.replaced}, since the residuals speak against what was given. dispersion='shared' keeps "
            "the family; family='auto' chooses one without this warning.",
            UserWarning,
            stacklevel=3,
        )


def _names(family: Family, n_columns: int) -> list[str]:
    names = np.empty(n_columns, dtype=object)
    for member, columns in family.member_columns(n_columns):
        names[columns] = member.name
    return list(names)


def name_noise(candidate: Candidate) -> str:
    """The word for a candidate's model of the noise."""
    if not candidate.has_open_dispersion:
        return "fixed"
    if candidate.by_column:
        return "feature"
    return "shares" if candidate.family.has_units and not candidate.is_raw else "shared"

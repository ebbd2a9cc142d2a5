"""Families whose dispersion may be given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from anypca.families._base import Family


@dataclass(frozen=True)
class Dispersed(Family):
    """A field of the family is the dispersion or its reciprocal; ``None`` leaves it to be estimated."""

    #: Name of that field.
    given_by: ClassVar[str]
    #: The field is 1 over the dispersion, as a size and a shape are.
    is_reciprocal: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        value = positive_or_none(getattr(self, self.given_by), self.given_by, type(self).__name__)
        object.__setattr__(self, self.given_by, value)

    @property
    def fixed_dispersion(self) -> float | None:
        given: float | None = getattr(self, self.given_by)
        return 1.0 / given if self.is_reciprocal and given is not None else given


def positive_or_none(value: Any, parameter: str, family: str) -> float | None:
    """Check a constructor argument that is a positive number or ``None`` (to be estimated).

    Raises
    ------
    ValueError
        If it is neither.
    """
    if value is None:
        return None
    if not (isinstance(value, int | float | np.integer | np.floating) and 0 < value < np.inf):
        raise ValueError(
            f"{family} needs {parameter} > 0 and finite; got {parameter}={value!r}. "
            f"Leave it out to have it estimated."
        )
    return float(value)

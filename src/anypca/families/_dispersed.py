"""Families whose dispersion may be given."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from anypca._typing import Floats, PerColumn
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

    @abstractmethod
    def dispersion_from_moments(self, mean: Floats, variance: Floats) -> Floats:
        """Return the dispersion that gives columns of this mean their variance, shape (n_columns,), > 0."""

    def finest_dispersion(self, mean: Floats, step: PerColumn) -> Floats:
        """The dispersion (n_columns,) at which a step around x = ``mean`` has mass 1 at most; 0 if there is no limit.

        With less a column would be reproduced more finely than it is recorded, and be paid for it without bound.
        """
        return np.zeros_like(mean)


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

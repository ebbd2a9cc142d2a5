"""Forms of columns that do not enter a model as they are: dropped, recoded, or split into several columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from anypca._registry import Registry
from anypca._typing import Floats
from anypca._words import listed
from anypca.families._base import Family, families
from anypca.families.bernoulli import Bernoulli
from anypca.families.ordinal import Ordinal

#: Names of forms: transformations of columns before they enter a model.
column_forms: Registry[Any] = Registry("family", beside=families)


class Moments(Protocol):
    """Moments of the columns of a table, arrays of shape (n_features,)."""

    @property
    def mean(self) -> Floats: ...

    @property
    def variance(self) -> Floats: ...

    @property
    def maximum(self) -> Floats: ...


def number_text(value: float) -> str:
    """Format a value for the name of a column."""
    return f"{value:g}"


@dataclass(frozen=True)
class Form(ABC):
    """How one column of a table is split into columns of a model, its parts, and reconstructed.

    Arrays of a column have shape (rows,), arrays of its parts (rows, n_parts); NaN is a missing entry.

    See Also
    --------
    Excluded : a column that is not in the model.
    Family : the distribution of a column of a model.
    """

    name: ClassVar[str]
    #: Whether parts of an observed entry can be missing.
    makes_missing: ClassVar[bool] = False
    #: Whether it requires the values of the column; see `with_levels`.
    needs_levels: ClassVar[bool] = False
    reason: str = field(default="", kw_only=True)
    """Why the column has this form, as a sentence without a capital and a full stop."""

    @property
    def parts(self) -> tuple[Family, ...]:
        """The families of its columns in the model; none if it is dropped."""
        return ()

    @property
    def is_dropped(self) -> bool:
        return not self.parts

    @property
    def reconstructed_from(self) -> tuple[int, ...]:
        """The other columns of the table that it is computed from."""
        return ()

    def labels(self, column: str, text: Callable[[float], str] = number_text) -> tuple[str, ...]:
        """Names of the parts of a column of this name; ``text`` names its values."""
        return (column,) * len(self.parts)

    @classmethod
    def examples(cls) -> tuple[Form, ...]:
        """Instances that the conformance tests run over."""
        return (cls(),)

    @property
    def is_nonnegative(self) -> bool:
        """Whether negative values are outside of what the column can hold."""
        return False

    def adapted(self, facts: Moments, column: int) -> Form:
        """Return the form with the facts of the table that it needs; most need none."""
        return self

    def with_levels(self, levels: tuple[float, ...], column: str) -> Form:
        """The form of a column, whose name is for error messages, that has these values in increasing order."""
        return self

    def split(self, x: Floats, column: str) -> Floats:
        """The parts of a column, whose name is for error messages; (rows, n_parts)."""
        return np.empty((len(x), 0), dtype=x.dtype)

    @abstractmethod
    def mean(self, means: Floats) -> Floats:
        """Return the column's mean from means of its parts, or of the columns it is computed from, (rows,)."""

    def deviation(self, means: Floats, deviations: Floats) -> Floats:
        """Its standard deviation from means and standard deviations of its parts, taken as independent, (rows,)."""
        return np.zeros(len(means))

    def draw(self, draws: Floats, means: Floats, rng: np.random.Generator) -> Floats:
        """A draw of the column from draws of its parts and their means, (rows,)."""
        return self.mean(draws)


@dataclass(frozen=True)
class Constant(Form):
    """A dropped column whose observed entries are all equal; the value comes back."""

    name = "constant"
    value: float = 0.0

    def mean(self, means: Floats) -> Floats:
        return np.full(len(means), self.value)


@dataclass(frozen=True)
class Copy(Form):
    """A dropped column that equals ``intercept + slope * source``, of another column of the table."""

    name = "copy"
    source: int = 0
    intercept: float = 0.0
    slope: float = 1.0

    @property
    def reconstructed_from(self) -> tuple[int, ...]:
        return (self.source,)

    def mean(self, means: Floats) -> Floats:
        return self.intercept + self.slope * means[:, 0]

    def deviation(self, means: Floats, deviations: Floats) -> Floats:
        return abs(self.slope) * deviations[:, 0]


@dataclass(frozen=True)
class Combination(Form):
    """A dropped column that equals ``intercept + slopes @ sources``, of other columns of the table."""

    name = "combination"
    sources: tuple[int, ...] = (0,)
    intercept: float = 0.0
    slopes: tuple[float, ...] = (1.0,)

    @property
    def reconstructed_from(self) -> tuple[int, ...]:
        return self.sources

    def mean(self, means: Floats) -> Floats:
        return np.asarray(self.intercept + means @ np.asarray(self.slopes))

    def deviation(self, means: Floats, deviations: Floats) -> Floats:
        return np.sqrt(deviations**2 @ np.square(self.slopes))


@column_forms.register
@dataclass(frozen=True)
class Excluded(Form):
    """A column that is not in the model, such as an identifier; the mean of the column comes back.

    It has no likelihood, link or dispersion, its loadings are 0, and it can still colour pictures.

    Chosen by ``family="auto"`` for text that names rows, free text and dates. Columns of numbers are excluded only by
    request: ``family={"id": "excluded"}``.

    See Also
    --------
    Nominal : categories that are coded by numbers.

    Examples
    --------
    >>> Excluded().is_dropped
    True
    """

    name = "excluded"
    center: float | None = None
    spread: float = 0.0

    def adapted(self, facts: Moments, column: int) -> Excluded:
        if self.center is not None:
            return self
        center, spread = float(facts.mean[column]), float(np.sqrt(facts.variance[column]))
        return replace(self, center=center, spread=spread)

    def mean(self, means: Floats) -> Floats:
        return np.full(len(means), 0.0 if self.center is None else self.center)

    def deviation(self, means: Floats, deviations: Floats) -> Floats:
        return np.full(len(means), self.spread)


@dataclass(frozen=True)
class Recoded(Form):
    """Values numbered in increasing order, 0, 1, ...: two values are a yes/no answer, more are ordered levels.

    The mean of two values is exact. The mean of more levels is interpolated between the two levels next to the mean of
    their numbers.
    """

    name = "recoded"
    levels: tuple[float, ...] = (0.0, 1.0)
    family: Family | None = None
    """Family of the numbers; None for Bernoulli (two levels) or ordinal."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", tuple(float(level) for level in self.levels))
        if len(self.levels) < 2 or np.any(np.diff(self.levels) <= 0):
            raise ValueError(f"levels must be two or more increasing numbers; got {self.levels}.")

    @property
    def parts(self) -> tuple[Family, ...]:
        usual = Bernoulli() if len(self.levels) == 2 else Ordinal()
        return (usual if self.family is None else self.family,)

    def split(self, x: Floats, column: str) -> Floats:
        return code(x, self.levels, column)[:, None]

    def mean(self, means: Floats) -> Floats:
        return np.interp(means[:, 0], np.arange(len(self.levels)), self.levels)

    def deviation(self, means: Floats, deviations: Floats) -> Floats:
        step = np.diff(self.levels).mean()
        return np.asarray(step * deviations[:, 0])


def code(x: Floats, levels: tuple[float, ...], column: str) -> Floats:
    """The numbers of values among known levels, NaN where a value is missing, in the dtype of x.

    Raises
    ------
    ValueError
        If there is another value.
    """
    known = np.asarray(levels, dtype=x.dtype)
    numbers = np.searchsorted(0.5 * (known[1:] + known[:-1]), x)
    is_missing = np.isnan(x)
    # Levels that were counted in steps may differ from the values in their last digit.
    strange = ~is_missing & ~np.isclose(known[numbers], x, rtol=8.0 * np.finfo(x.dtype).eps, atol=0.0)
    if strange.any():
        row = int(np.argmax(strange))
        raise ValueError(
            f"column {column!r} has the value {x[row]:.10g}, which it did not have in fit; its values there were "
            f"{listed([f'{level:.10g}' for level in levels])}. Use NaN for what is not known."
        )
    return np.where(is_missing, np.nan, numbers).astype(x.dtype)

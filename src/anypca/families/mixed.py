"""A family for every column: tables of counts, answers and measurements side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from anypca._typing import Bools, Floats, Ints, PerColumn
from anypca.families._base import Evaluation, Family, Total
from anypca.families._columns import ColumnFamily

#: How a member's columns are picked: a slice wherever possible, since a slice is a view and indices copy.
Picker = slice | Ints

#: Average number of neighbouring columns from which on runs are evaluated one by one: with fewer, the calls cost more
#: than the copies that indexing makes.
_LEAST_RUN = 4


@dataclass(frozen=True)
class Mixed(Family):
    """Column j follows ``members[assignment[j]]``.

    Every method splits its arrays by columns (the last axis), calls the members and puts the parts together.
    The dispersion is one value per column (or one for all); members without a dispersion ignore theirs. What
    a class attribute says of a family (``is_discrete``, ``dispersion_kind``) is to be asked of the members,
    see `member_columns`.

    Parameters
    ----------
    members : tuple of Family
        The families, all different.
    assignment : tuple of int
        For every column the number of its member.

    Raises
    ------
    ValueError
        If a number in ``assignment`` has no member.

    See Also
    --------
    combine : makes one.

    Examples
    --------
    >>> from anypca.families import Bernoulli, Poisson
    >>> Mixed((Poisson(), Bernoulli()), (0, 1, 1)).take(slice(1, 3))
    Bernoulli()
    """

    name = "mixed"
    support = "values in the support of each column's family"

    members: tuple[Family, ...]
    assignment: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", tuple(self.members))
        object.__setattr__(self, "assignment", tuple(int(number) for number in self.assignment))
        if not all(isinstance(member, Family) and not isinstance(member, Mixed) for member in self.members):
            raise TypeError(f"the members of Mixed are families of one kind; got {self.members!r}.")
        wrong = [number for number in self.assignment if not 0 <= number < len(self.members)]
        if wrong:
            raise ValueError(
                f"assignment holds the number {wrong[0]}, but there are {len(self.members)} members; "
                f"use 0 to {len(self.members) - 1}."
            )

    @property
    def fixed_dispersion(self) -> float | None:
        """The dispersion when all columns have the same fixed one, else ``None``; see `known_dispersion`."""
        values = {member.fixed_dispersion for member, _ in self._groups}
        return values.pop() if len(values) == 1 else None

    def member_columns(self, n_features: int) -> list[tuple[Family, Ints]]:
        self._check_width(n_features)
        columns = np.arange(n_features)
        return [(member, columns[pick]) for member, pick in self._groups]

    def take(self, index: slice | Ints) -> Family:
        if isinstance(index, slice) and index.indices(len(self.assignment)) == (0, len(self.assignment), 1):
            return self
        columns = np.arange(len(self.assignment))[index]
        numbers = np.asarray(self.assignment, dtype=np.intp)[columns]
        order = {number: position for position, number in enumerate(dict.fromkeys(numbers.tolist()))}
        places = {number: self._positions[columns[numbers == number]] for number in order}
        members: list[Family] = [self.members[number].take(place) for number, place in places.items()]
        if len(members) == 1:
            return members[0]
        return Mixed(tuple(members), tuple(order[number] for number in numbers.tolist()))

    @cached_property
    def _positions(self) -> Ints:
        """Position of each column among the columns of its member, shape (n_columns,)."""
        positions = np.empty(len(self.assignment), dtype=np.intp)
        for _, pick in self._groups:
            positions[pick] = np.arange(positions[pick].size)
        return positions

    def initialised_from(self, low: Floats, high: Floats, steps: Floats, total: Total) -> Family:
        def change(member: Family, pick: Picker) -> Family:
            return member.initialised_from(low[pick], high[pick], steps[pick], _part(total, pick))

        return self._changed(change)

    def updated_from_fit(self, total: Total) -> Family:
        return self._changed(lambda member, pick: member.updated_from_fit(_part(total, pick)))

    def _changed(self, change: Callable[[Family, Picker], Family]) -> Family:
        """The same with members changed; the same object if none is."""
        found = {id(member): change(member, pick) for member, pick in self._groups}
        members = tuple(found.get(id(member), member) for member in self.members)
        is_same = all(new is old for new, old in zip(members, self.members, strict=True))
        return self if is_same else Mixed(members, self.assignment)

    @cached_property
    def _groups(self) -> tuple[tuple[Family, Picker], ...]:
        """The members in use, each with its columns."""
        assigned = np.asarray(self.assignment, dtype=np.intp)
        pairs = ((member, np.flatnonzero(assigned == number)) for number, member in enumerate(self.members))
        return tuple((member, _picker(index)) for member, index in pairs if index.size)

    @cached_property
    def _runs(self) -> tuple[tuple[Family, Picker], ...]:
        """The groups cut into runs of neighbours where these are few: a slice is a view, an index copies."""
        runs: list[tuple[Family, Picker]] = []
        for member, pick in self._groups:
            if isinstance(pick, slice):
                runs.append((member, pick))
                continue
            pieces = np.split(pick, np.flatnonzero(np.diff(pick) > 1) + 1)
            is_long = len(pick) >= _LEAST_RUN * len(pieces)
            parts = pieces if is_long else [pick]
            runs.extend((member.take(self._positions[part]), _picker(part)) for part in parts)
        return tuple(runs)

    def _check_width(self, width: int) -> None:
        if width != len(self.assignment):
            raise ValueError(
                f"this family describes {len(self.assignment)} columns; the array has {width}. "
                f"Use family.take(slice) for a part of the columns."
            )

    def _apply(self, call: Callable[..., npt.NDArray[Any]], *arrays: PerColumn | None) -> npt.NDArray[Any]:
        """Put together ``call(member, *columns of the arrays)``; scalars are passed as they are."""
        first = np.asarray(arrays[0])
        self._check_width(first.shape[-1])
        result: npt.NDArray[Any] | None = None
        for member, pick in self._groups:
            part = call(member, *(_take(array, pick) for array in arrays))
            if result is None:
                result = np.empty(first.shape, part.dtype)
            result[..., pick] = part
        assert result is not None
        return result

    def _fill(
        self, n_outputs: int, call: Callable[..., Iterable[Floats | None]], like: Floats, *arrays: Any
    ) -> list[Floats]:
        """Several arrays in the shape of ``like``, put together from those that ``call`` returns for each member.

        It goes run by run, which takes less time than the groups of `_apply`.
        """
        self._check_width(like.shape[-1])
        outputs = [np.empty_like(like) for _ in range(n_outputs)]
        for member, pick in self._runs:
            parts = call(member, *(_take(array, pick) for array in arrays))
            for output, part in zip(outputs, parts, strict=False):
                output[..., pick] = part
        return outputs

    def evaluate(self, x: Floats, eta: Floats, dispersion: PerColumn = 1.0, *, order: int = 2) -> Evaluation:
        def call(member: Family, *parts: Floats) -> Evaluation:
            return member.evaluate(*parts, order=order)

        outputs = self._fill(order + 1, call, eta, x, eta, dispersion)
        return Evaluation(*outputs)

    def expected_log_likelihood(
        self, x: Floats, mean: Floats, variance: Floats, dispersion: PerColumn = 1.0
    ) -> Evaluation:
        def call(member: Family, *parts: Floats) -> Evaluation:
            return member.expected_log_likelihood(*parts)

        return Evaluation(*self._fill(3, call, mean, x, mean, variance, dispersion))

    def observed_curvature(
        self, x: Floats, eta: Floats, found: Evaluation, dispersion: PerColumn = 1.0
    ) -> Floats:
        return self._curvature("observed_curvature", x, eta, found, dispersion)

    def newton_curvature(
        self, x: Floats, eta: Floats, found: Evaluation, dispersion: PerColumn = 1.0
    ) -> Floats:
        return self._curvature("newton_curvature", x, eta, found, dispersion)

    def _curvature(
        self, kind: str, x: Floats, eta: Floats, found: Evaluation, dispersion: PerColumn
    ) -> Floats:
        def call(member: Family, x: Floats, eta: Floats, phi: Floats, *terms: Floats) -> list[Floats]:
            return [getattr(member, kind)(x, eta, Evaluation(*terms), phi)]

        return self._fill(1, call, eta, x, eta, dispersion, *found)[0]

    def pearson(self, x: Floats, eta: Floats, dispersion: PerColumn = 1.0) -> Floats:
        return self._apply(lambda member, *parts: member.pearson(*parts), x, eta, dispersion)

    def log_base_measure(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        return self._apply(lambda member, *parts: member.log_base_measure(*parts), x, dispersion)

    def log_step(self, x: Floats, step: PerColumn) -> Floats:
        return self._apply(lambda member, *parts: member.log_step(*parts), x, step)

    def log_interval_probability(
        self, x: Floats, eta: Floats, dispersion: PerColumn = 1.0, step: PerColumn = 1.0
    ) -> Floats:
        return self._apply(
            lambda member, *parts: member.log_interval_probability(*parts), x, eta, dispersion, step
        )

    def saturated(self, x: Floats, dispersion: PerColumn = 1.0) -> Floats:
        return self._apply(lambda member, *parts: member.saturated(*parts), x, dispersion)

    def mean(self, eta: Floats, dispersion: PerColumn | None = None) -> Floats:
        return self._apply(lambda member, *parts: member.mean(*parts), eta, dispersion)

    def link(self, mu: Floats, dispersion: PerColumn | None = None) -> Floats:
        return self._apply(lambda member, *parts: member.link(*parts), mu, dispersion)

    def variance(self, mu: Floats, dispersion: PerColumn = 1.0) -> Floats:
        return self._apply(lambda member, *parts: member.variance(*parts), mu, dispersion)

    def in_support(self, x: Floats) -> Bools:
        return self._apply(lambda member, part: member.in_support(part), x)

    def sample(self, eta: Floats, dispersion: PerColumn, rng: np.random.Generator) -> Floats:
        return self._apply(lambda member, *parts: member.sample(*parts, rng), eta, dispersion)

    def smoothed_mean(self, total: Floats, count: Floats) -> Floats:
        return self._apply(lambda member, *parts: member.smoothed_mean(*parts), total, count)


def combine(families: Sequence[Family]) -> Family:
    """The family of a table from the families of its columns: the common one, or a `Mixed`.

    Parameters
    ----------
    families : sequence of Family
        One per column.

    Raises
    ------
    ValueError
        If there is no column.

    See Also
    --------
    Mixed : what it makes.
    """
    members = tuple(dict.fromkeys(families))
    if not members:
        raise ValueError("a family needs at least one column; got none.")
    if len(members) == 1:
        return members[0]
    number = {member: position for position, member in enumerate(members)}
    return Mixed(members, tuple(number[family] for family in families))


def known_dispersion(family: Family, n_features: int) -> Floats:
    """Return the fixed dispersion of every column, NaN if it is to be estimated, shape (n_features,)."""
    result = np.empty(n_features)
    for member, columns in family.member_columns(n_features):
        fixed = member.fixed_dispersion
        result[columns] = np.nan if fixed is None else fixed
    return result


def with_tight_expectation(family: Family) -> Family:
    """Return the family with an expected log-likelihood close to the expectation, if it has a cheaper bound."""
    if isinstance(family, Mixed):
        return Mixed(tuple(with_tight_expectation(member) for member in family.members), family.assignment)
    has_bound = any(field.name == "is_tight" for field in fields(family))
    return replace(family, is_tight=True) if has_bound else family  # type: ignore[call-arg]


def count_estimated(family: Family, n_features: int) -> int:
    """Return the number of estimated family parameters of all columns, without intercepts."""
    groups = family.member_columns(n_features)
    return sum(
        member.n_estimated(columns.size) for member, columns in groups if isinstance(member, ColumnFamily)
    )


def _picker(index: Ints) -> Picker:
    """The slice that picks the increasing ``index`` if its steps are equal, else the index itself."""
    if index.size == 1:
        return slice(int(index[0]), int(index[0]) + 1)
    steps = np.diff(index)
    if (steps == steps[0]).all():
        return slice(int(index[0]), int(index[-1]) + 1, int(steps[0]))
    return index


def _part(total: Total, pick: Picker) -> Total:
    """The sums of some columns."""
    return lambda function: total(lambda *arrays: function(*(array[..., pick] for array in arrays)))


def _take(array: PerColumn | None, pick: Picker) -> Any:
    """The picked columns of an array, or the scalar itself, or ``None``."""
    return array if array is None or np.ndim(array) == 0 else np.asarray(array)[..., pick]

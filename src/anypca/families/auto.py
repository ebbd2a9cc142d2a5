"""The family of each column, inferred from summary numbers of its values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from anypca._typing import Floats
from anypca.families import Family, combine, families

#: Skewness above which positive measurements are taken as gamma; that of the exponential distribution is 2,
#: of a gamma distribution with shape 4 it is 1.
SKEWED = 1.0
#: Reports of more columns than this are printed by groups.
_LINES = 20
#: Columns named in one line of a grouped report.
_NAMED = 5


@dataclass(frozen=True)
class ColumnFacts:
    """Summary numbers of the observed values of each column, arrays of shape (n_features,)."""

    count: Floats
    """Number of observed values."""
    minimum: Floats
    maximum: Floats
    mean: Floats
    variance: Floats
    skewness: Floats
    """Third standardised moment; NaN (or anything) for constant columns."""
    non_integers: Floats
    """Number of values that are not whole."""
    zeros: Floats
    """Number of zeros."""

    def __post_init__(self) -> None:
        shapes = {field.name: np.shape(getattr(self, field.name)) for field in fields(self)}
        if len(set(shapes.values())) != 1 or len(shapes["count"]) != 1:
            raise ValueError(f"all facts need the same shape (n_features,); got {shapes}.")

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.count)

    @classmethod
    def from_array(cls, X: Floats) -> ColumnFacts:
        """The facts of a small table in memory (NaN is missing), shape (n_samples, n_features)."""
        columns = [column[~np.isnan(column)] for column in np.asarray(X, float).T]
        return cls(*(np.array(values, float) for values in zip(*map(_facts, columns), strict=True)))


def _facts(x: Floats) -> tuple[float, ...]:
    """The facts of the observed values of one column, in the order of the fields."""
    if x.size == 0:
        return (0.0, *[float("nan")] * 5, 0.0, 0.0)
    mean, variance = x.mean(), x.var()
    skewness = ((x - mean) ** 3).mean() / variance**1.5 if variance > 0 else np.nan
    return (x.size, x.min(), x.max(), mean, variance, skewness, np.sum(x != np.floor(x)), np.sum(x == 0))


class FamilyRecord(NamedTuple):
    """What was chosen for one column, and why."""

    column: str
    """Name of the column, or its number."""
    family: str
    """Name of the family in the registry."""
    reason: str
    """The reason with the numbers it rests on, as a sentence."""
    rule: str
    """The rule that was applied, the same for all columns it was applied to."""


class FamilyGroup(NamedTuple):
    """Columns that were given the same family by the same rule."""

    columns: tuple[str, ...]
    family: str
    rule: str


class FamilyReport(tuple[FamilyRecord, ...]):
    """The choices of all columns, in their order; ``str()`` gives a table.

    Many columns are printed by groups, one line for each family and rule.
    """

    __slots__ = ()

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [record[:3] for record in self]
        if len(self) > _LINES:
            rows = [(_abbreviated(names), family, rule) for names, family, rule in self.groups()]
        return _format_table([("column", "family", "reason"), *rows])

    def groups(self) -> list[FamilyGroup]:
        """Columns that have the same family by the same rule, in order of appearance."""
        found: dict[tuple[str, str], list[str]] = {}
        for record in self:
            found.setdefault((record.family, record.rule), []).append(record.column)
        return [FamilyGroup(tuple(names), family, rule) for (family, rule), names in found.items()]


def _abbreviated(names: Sequence[str]) -> str:
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{', '.join(names[: _NAMED - 2])}, ... ({len(names)} columns)"


def _format_table(rows: Iterable[tuple[str, ...]]) -> str:
    """Left-aligned columns, the last one ragged."""
    lines = list(rows)
    widths = [max(len(row[position]) for row in lines) for position in range(2)]
    return "\n".join(f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]}" for row in lines)


class FamilyChoice(NamedTuple):
    """The inferred family of a table and the account of it."""

    family: Family
    report: FamilyReport


def infer_families(facts: ColumnFacts, feature_names: Sequence[str] | None = None) -> FamilyChoice:
    """Choose a family for each column.

    Parameters
    ----------
    facts : ColumnFacts
        Summary numbers of the columns.
    feature_names : sequence of str of length n_features, optional
        Names of the columns for the report; their numbers by default.

    Returns
    -------
    FamilyChoice
        The family (a `Mixed` when the columns differ) and the report.

    Raises
    ------
    ValueError
        If the number of names is not the number of columns.

    Notes
    -----
    The first rule that fits decides:

    1. only zeros and ones: bernoulli;
    2. whole numbers >= 0: negative binomial, whose over-dispersion is estimated (Poisson is its limit);
    3. some negative value: gaussian;
    4. all positive, not whole, skewness above 1: gamma;
    5. otherwise: gaussian.

    A constant column gets the family that its value fits by the same rules.

    Examples
    --------
    >>> X = np.array([[0.0, 3.0], [1.0, 0.0], [1.0, 12.0]])
    >>> choice = infer_families(ColumnFacts.from_array(X), ["smokes", "visits"])
    >>> print(choice.report)
    column  family             reason
    smokes  bernoulli          only zeros (1) and ones (2)
    visits  negative_binomial  3 whole numbers from 0 to 12: mean 5, variance 26
    """
    names = [str(j) for j in range(facts.n_features)] if feature_names is None else list(feature_names)
    if len(names) != facts.n_features:
        raise ValueError(f"there are {len(names)} feature names but facts of {facts.n_features} columns.")
    records = FamilyReport(FamilyRecord(name, *_choose(facts, j)) for j, name in enumerate(names))
    built = {name: families.create(name) for name in {record.family for record in records}}
    return FamilyChoice(combine([built[record.family] for record in records]), records)


def _choose(facts: ColumnFacts, j: int) -> tuple[str, str, str]:
    """Family, reason and rule of column j."""
    count, low, high = int(facts.count[j]), facts.minimum[j], facts.maximum[j]
    fractions, zeros = int(facts.non_integers[j]), int(facts.zeros[j])
    spread = f"mean {facts.mean[j]:.4g}, variance {facts.variance[j]:.4g}"
    span = f"from {low:.6g} to {high:.6g}"
    if count == 0:
        return "gaussian", "no observed value", "no observed value"
    if fractions == 0 and low >= 0 and high <= 1:
        return "bernoulli", f"only zeros ({zeros}) and ones ({count - zeros})", "only zeros and ones"
    if fractions == 0 and low >= 0:
        reason = f"{count} whole numbers {span}: {spread}"
        return "negative_binomial", reason, "whole numbers >= 0; over-dispersion is estimated"
    if low < 0:
        return "gaussian", f"values {span}, some negative: {spread}", "some values are negative"
    return _choose_measurement(facts, j, f"values {span}, {fractions} not whole", spread)


def _choose_measurement(facts: ColumnFacts, j: int, values: str, spread: str) -> tuple[str, str, str]:
    """Family, reason and rule of a column of fractions >= 0."""
    zeros, skewness = int(facts.zeros[j]), facts.skewness[j]
    if facts.minimum[j] == facts.maximum[j]:
        return "gaussian", f"{values}, all the same", "constant, not whole"
    if facts.minimum[j] <= 0:
        return "gaussian", f"{values}, {zeros} zeros: {spread}", "fractions with zeros, which gamma excludes"
    if skewness > SKEWED:
        return "gamma", f"{values}, all positive and skewed: skewness {skewness:.3g}", "positive and skewed"
    return "gaussian", f"{values}, all positive, skewness {skewness:.3g}", "positive and hardly skewed"

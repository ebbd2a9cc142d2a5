"""The family of each column, inferred from summary numbers of its values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from anypca._typing import Bools, Floats, Ints
from anypca.families import Family, combine, families
from anypca.families.forms import Form

#: Skewness above which positive measurements are taken as gamma; that of the exponential distribution is 2,
#: of a gamma distribution with shape 4 it is 1.
SKEWED = 1.0
#: Reports of more columns than this, which is about a screen, are printed by groups.
_LINES = 20
#: Columns named in one line of a grouped report, so that most lines stay short.
_NAMED = 5


@dataclass(frozen=True)
class ColumnFacts:
    """Summary numbers of the observed values of each column, arrays of shape (n_features,)."""

    n_observed: Ints
    """Number of observed entries, infinite ones not counted."""
    mean: Floats
    """Weighted mean."""
    variance: Floats
    """Weighted mean of squared deviations from the mean (no correction for degrees of freedom)."""
    skewness: Floats
    """Weighted mean of cubed deviations in units of the standard deviation; 0 for constant columns."""
    minimum: Floats
    """Smallest entry; NaN where there is none."""
    maximum: Floats
    """Largest entry; NaN where there is none."""
    n_zero: Ints
    """Number of entries equal to 0."""
    n_noninteger: Ints
    """Number of entries that are not whole numbers."""
    resolution: Floats
    """Step with which the values are recorded: that of the lattice they lie on, else a thousandth of the deviation."""
    is_lattice: Bools
    """Whether they lie on a lattice of at most four decimals."""


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
    """The family of a table and, where it was inferred, the account of it."""

    family: Family
    """Of all columns; what it says of columns that have a form is not used."""
    report: FamilyReport | None
    forms: Mapping[int, Form] = MappingProxyType({})
    """Columns that do not enter a model as they are: left out, recoded or as several; see `anypca.engine.Layout`."""


def infer_families(facts: ColumnFacts, feature_names: Sequence[str] | None = None) -> FamilyChoice:
    """Choose a family for each column.

    Parameters
    ----------
    facts : ColumnFacts
        Summary numbers of the columns, such as `anypca.engine.summarise` makes.
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
    >>> import numpy as np
    >>> from anypca.engine import check_data, executor_for, summarise
    >>> data = check_data(np.array([[0.0, 3.0], [1.0, 0.0], [1.0, 12.0]]))
    >>> choice = infer_families(summarise(data, executor_for(data, 1)), ["smokes", "visits"])
    >>> print(choice.report)
    column  family             reason
    smokes  bernoulli          only zeros (1) and ones (2)
    visits  negative_binomial  3 whole numbers from 0 to 12: mean 5, variance 26
    """
    n = len(facts.n_observed)
    names = [str(j) for j in range(n)] if feature_names is None else list(feature_names)
    if len(names) != n:
        raise ValueError(f"there are {len(names)} feature names but facts of {n} columns.")
    records = FamilyReport(FamilyRecord(name, *_choose(facts, j)) for j, name in enumerate(names))
    built = {name: families.create(name) for name in {record.family for record in records}}
    return FamilyChoice(combine([built[record.family] for record in records]), records)


def _choose(facts: ColumnFacts, j: int) -> tuple[str, str, str]:
    """Family, reason and rule of column j."""
    count, low, high = int(facts.n_observed[j]), facts.minimum[j], facts.maximum[j]
    fractions, zeros = int(facts.n_noninteger[j]), int(facts.n_zero[j])
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
    zeros, skewness = int(facts.n_zero[j]), facts.skewness[j]
    if facts.minimum[j] == facts.maximum[j]:
        return "gaussian", f"{values}, all the same", "constant, not whole"
    if facts.minimum[j] <= 0:
        return "gaussian", f"{values}, {zeros} zeros: {spread}", "fractions with zeros, which gamma excludes"
    if skewness > SKEWED:
        return "gamma", f"{values}, all positive and skewed: skewness {skewness:.3g}", "positive and skewed"
    return "gaussian", f"{values}, all positive, skewness {skewness:.3g}", "positive and hardly skewed"

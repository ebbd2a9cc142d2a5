"""Redundant columns: constants, copies and linear combinations of other columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from anypca._typing import Bools, Floats, Ints
from anypca.columns.choice import FamilyChoice
from anypca.columns.combinations import find_combinations
from anypca.columns.forms import Combination, Constant, Copy, Form
from anypca.columns.layout import Layout
from anypca.columns.report import FamilyReport
from anypca.columns.table import Table
from anypca.engine import Block
from anypca.families import Exponential, Family, ScaledPoisson

# Random sums over rows by which standardised columns are compared, and the difference, relative to the root of the
# number of rows, up to which they are equal: rounding of a shift by a million standard deviations. Two of a thousand
# columns that differ agree in three sums once in 10^12 tables.
_SUMS, _EQUAL = 3, 1e-6
# Rows from which on agreement is no chance: any two columns of two rows are copies of each other.
_FEWEST_ROWS = 8
# Of the sums; its value is arbitrary.
_SEED = 40


def find_redundant(table: Table, choice: FamilyChoice) -> dict[int, Form]:
    """Find the redundant columns of a table, with the forms that reconstruct them.

    Parameters
    ----------
    table : Table
        Open on the table.
    choice : FamilyChoice
        Of its columns; those that have forms already take no part.
    """
    family, formed = choice.family, set(choice.forms)
    constants = {j: form for j, form in _constants(table, family).items() if j not in formed}
    if len(constants) == table.data.n_features:
        return {}
    copies = _copies(table, family, {*constants, *formed})
    columns = np.flatnonzero(_kinds(table, family, {*constants, *copies, *formed}) >= 0)
    combinations = find_combinations(table, columns)
    return {
        **constants,
        **combinations,
        **{j: _copy_of_combination(copy, combinations) for j, copy in copies.items()},
    }


def _copy_of_combination(copy: Copy, combinations: dict[int, Combination]) -> Copy | Combination:
    """Return the copy, or the combination that it equals if its source is itself dropped as a combination."""
    found = combinations.get(copy.source)
    if found is None:
        return copy
    slopes = tuple(copy.slope * slope for slope in found.slopes)
    return replace(found, intercept=copy.intercept + copy.slope * found.intercept, slopes=slopes)


def report_dropped(report: FamilyReport | None, layout: Layout) -> FamilyReport | None:
    """Return the report of families with the reasons of dropped columns."""
    if report is None:
        return None
    forms = layout.dropped
    return FamilyReport(
        record._replace(family=forms[j].name, reason=forms[j].reason, rule=forms[j].reason)
        if j in forms
        else record
        for j, record in enumerate(report)
    )


def _constants(table: Table, family: Family) -> dict[int, Form]:
    """Columns of one value that their family can have."""
    low, high = table.summary.minimum, table.summary.maximum
    found: dict[int, Form] = {}
    for member, columns in family.member_columns(table.data.n_features):
        for column in columns[(low == high)[columns] & member.in_support(low[columns])]:
            value = float(low[column])
            found[int(column)] = Constant(value, reason=f"every entry is {value:.10g}")
    return found


def _copies(table: Table, family: Family, known: set[int]) -> dict[int, Copy]:
    """Find columns with continuous noise that equal another column; discrete ones may coincide by chance."""
    n_features = table.data.n_features
    kinds = _kinds(table, family, known)
    if table.data.n_samples < _FEWEST_ROWS or (kinds >= 0).sum() < 2:
        return {}
    found: dict[int, Copy] = {}
    # All pairs of a group of copies come, in any order; the first column of the group is the source of the others.
    for first, second, sign in _equal_pairs(table):
        source, column = min(first, second), max(first, second)
        if not kinds[source] == kinds[column] >= 0:
            continue
        copy, known_copy = _copy(table, source, column, sign), found.get(column)
        is_multiple = abs(copy.intercept) <= _EQUAL * abs(table.summary.mean[column])
        is_first = known_copy is None or source < known_copy.source
        if is_first and (kinds[source] == n_features or is_multiple):
            found[column] = copy
    return {column: _copy_of_root(table, found, column) for column in found}


def _copy_of_root(table: Table, found: dict[int, Copy], column: int) -> Copy:
    """Return the copy of a column that stays; rounding may leave the source a copy of a further column."""
    source, sign = found[column].source, np.sign(found[column].slope)
    while source in found:
        source, sign = found[source].source, sign * np.sign(found[source].slope)
    name = f"x{source}" if table.data.feature_names is None else table.data.feature_names[source]
    return replace(_copy(table, source, column, sign), reason=f"a copy of {name} in another unit")


def _kinds(table: Table, family: Family, known: set[int]) -> Ints:
    """For each column with continuous noise which others it can be a copy of, -1 for all other columns."""
    n_features = table.data.n_features
    kinds = np.full(n_features, -1)
    for number, (member, columns) in enumerate(family.member_columns(n_features)):
        if _is_continuous(member):
            # Units are free, so that all real columns are of one kind; amounts are copies only of multiples.
            kinds[columns] = n_features if member.has_units else number
    kinds[list(known)] = -1
    return kinds


def _is_continuous(member: Family) -> bool:
    """Whether two columns of a family cannot coincide by chance."""
    is_scale = member.dispersion_kind == "scale" and not isinstance(member, ScaledPoisson)
    return isinstance(member, Exponential) or (is_scale and not bool(member.is_discrete))


def _copy(table: Table, source: int, column: int, sign: float) -> Copy:
    mean, deviation = table.summary.mean, np.sqrt(table.summary.variance)
    slope = sign * float(deviation[column] / deviation[source])
    return Copy(source, float(mean[column] - slope * mean[source]), slope)


def _equal_pairs(table: Table) -> Iterator[tuple[int, int, float]]:
    """Pairs of columns that are equal once they are standardised, and the sign of their relation."""
    sums = _random_sums(table)
    sign = np.sign(sums[0])
    sums = sums * sign
    order, limit = np.argsort(sums[0], kind="stable"), _EQUAL * np.sqrt(table.data.n_samples)
    for place, column in enumerate(order):
        for other in order[place + 1 :]:
            if sums[0, other] - sums[0, column] > limit:
                break
            if (np.abs(sums[:, other] - sums[:, column]) <= limit).all():
                yield int(column), int(other), float(sign[column] * sign[other])


def _random_sums(table: Table) -> Floats:
    """Sums over rows of the standardised columns with random weights, (3, n_features); NaN for constant columns."""
    mean, deviation = table.summary.mean, np.sqrt(table.summary.variance)
    varies: Bools = deviation > 0
    scale = np.where(varies, deviation, np.nan)

    def visit(block: Block, _: object) -> Floats:
        entries = block.read()
        rng = np.random.default_rng([_SEED, block.start])
        standard = (entries.x.astype(float) - mean) / scale
        if entries.observed is not None:
            standard = np.where(entries.observed, standard, 0.0)
        return rng.standard_normal((_SUMS, block.n_rows)) @ standard

    return np.asarray(table.sum(visit))

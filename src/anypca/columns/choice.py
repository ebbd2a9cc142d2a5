"""The families of a table's columns: chosen from ``family``, dtypes and values, checked, and fitted to the table."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from anypca._typing import Floats
from anypca._words import counted, quoted
from anypca.columns.auto import KINDS, infer_families
from anypca.columns.forms import Excluded, Form
from anypca.columns.given import divide, given_entries, is_nonnegative
from anypca.columns.labels import DATES
from anypca.columns.layout import Layout
from anypca.columns.report import GIVEN, FamilyRecord, FamilyReport
from anypca.columns.table import Table
from anypca.columns.values import collect_columns
from anypca.engine import Block, Data, Summary, check_values, first_outside, summarise
from anypca.exceptions import DataConversionWarning
from anypca.families import Family


class FamilyChoice(NamedTuple):
    """The families of a user's table and, if some were inferred, the report."""

    family: Family
    """Of all columns; a stand-in for columns with a form."""
    report: FamilyReport | None
    forms: Mapping[int, Form] = MappingProxyType({})
    """Columns that do not enter a model as they are: excluded, recoded or as several; see `anypca.columns.Layout`."""


@dataclass(frozen=True)
class ModelColumns:
    """The columns of a model, as they come from a user's table."""

    data: Data
    summary: Summary
    """Of ``data``."""
    layout: Layout
    """How ``data`` comes from the user's table."""
    choice: FamilyChoice | None
    """The families of the user's columns; ``None`` for models without a choice of families."""


def choose_families(family: Any, table: Table) -> FamilyChoice:
    """Choose the families of a user's columns, and the forms in which some of them enter.

    Parameters
    ----------
    family : str, Family, sequence or mapping
        As for `anypca.columns.resolve_family`; ``"auto"``, and columns that a mapping does not name, are inferred.
    table : Table
        Open on the user's table.

    Returns
    -------
    FamilyChoice

    Raises
    ------
    ValueError
        If the family is unknown, or a column of labels has a family of numbers.

    Warns
    -----
    DataConversionWarning
        If columns hold dates, which are excluded, or look like identifiers.
    """
    data = table.data
    report: FamilyReport | None = None
    forms: dict[int, Form] = {}
    entries = given_entries(family, data.n_features, data.feature_names)
    if isinstance(entries, Family):
        chosen = entries
    else:
        if None in entries:
            columns = collect_columns(data, table.executor, table.summary)
            places = [j for j, entry in enumerate(entries) if entry is None]
            found = dict(zip(places, infer_families([columns[j] for j in places]), strict=True))
            records = []
            for j, entry in enumerate(entries):
                if entry is None:
                    records.append(found[j].record)
                else:
                    kind = KINDS.get(entry.name, "")
                    records.append(FamilyRecord(columns[j].name, entry.name, GIVEN, GIVEN, kind))
            report = FamilyReport(records)
            entries = [found[j].entry if entry is None else entry for j, entry in enumerate(entries)]
        chosen, forms = divide([entry for entry in entries if entry is not None])
    days = [column for column, labels in data.labels.items() if labels == DATES]
    choice = FamilyChoice(chosen, report, {**forms, **{column: Excluded() for column in days}})
    _warn_dates([_name(data, column) for column in days])
    _check_labels(data, choice)
    return choice


def encode_columns(table: Table, choice: FamilyChoice | None, dropped: Mapping[int, Form]) -> ModelColumns:
    """Encode the columns of a user's table as columns of a model.

    Parameters
    ----------
    table : Table
        Open on the user's table.
    choice : FamilyChoice or None
        The families of its columns, with the forms that they need.
    dropped : mapping of int to Form
        Columns that the model drops in any case.
    """
    data, summary = table.data, table.summary
    layout = Layout(data.n_features, table_names=data.feature_names, labels=tuple(data.labels.items()))
    layout = layout.with_forms({**({} if choice is None else choice.forms), **dropped})
    layout = layout.with_levels(data, table.executor).adapted(summary).without_names()
    # Nothing changes, and the table need not be summarised again.
    if layout.is_identity:
        return ModelColumns(data, summary, layout, choice)
    encoded = layout.lay_out(data)
    found = summarise(encoded, table.executor)
    found = replace(found, resolution=summary.resolution[layout.sources])
    return ModelColumns(check_values(found, encoded), found, layout, choice)


def settle_family(columns: Any) -> tuple[Family, FamilyReport | None]:
    """Return the family of a model's columns with parameters from the table, and the report of inferred families.

    Parameters
    ----------
    columns : ModelColumns
        Open on the table, with ``sum`` and ``executor``.

    Raises
    ------
    ValueError
        If an entry is outside the support of its family.
    """
    choice: FamilyChoice = columns.choice
    family = columns.layout.family(choice.family)
    # Inferred families have the values in their support; given ones may not.
    if choice.report is None or any(record.rule == GIVEN for record in choice.report):
        check_support(family, columns)
        warn_fractions(family, columns)

    def total(function: Callable[..., Floats]) -> Floats:
        def visit(block: Block, _: Any) -> Floats:
            table = block.read()
            weights = np.broadcast_to(block.weights[:, None], table.x.shape)
            return function(
                table.x, weights if table.observed is None else np.where(table.observed, weights, 0.0)
            )

        return np.asarray(columns.sum(visit))

    summary = columns.summary
    family = family.initialised_from(summary.minimum, summary.maximum, summary.resolution, total)
    return family, choice.report


def _name(data: Data, column: int) -> Any:
    return column if data.feature_names is None else data.feature_names[column]


def _warn_dates(names: Sequence[Any]) -> None:
    if names:
        verbs = "holds dates and is" if len(names) == 1 else "hold dates and are"
        warnings.warn(
            f"{quoted(names)} {verbs} left out. To use dates make numbers of them, such as days since the first.",
            DataConversionWarning,
            stacklevel=2,
        )


def _check_labels(data: Data, choice: FamilyChoice) -> None:
    """Raise if a column of text or categories has a family of numbers."""
    for column, labels in data.labels.items():
        form, count = choice.forms.get(column), len(labels.levels)
        name = choice.family.take(slice(column, column + 1)).name if form is None else form.name
        if labels.kind == "bool" or name in ("nominal", "excluded") or (name == "bernoulli" and count <= 2):
            continue
        label = _name(data, column)
        if name == "ordinal":
            if labels.is_ordered or count <= 2:
                continue
            raise ValueError(
                f"column {label!r} is to be ordinal, and the order of its labels ({labels}) is not known. Give an "
                "ordered categorical, as pandas.Categorical(values, categories=[...], ordered=True), or use 'nominal'."
            )
        raise ValueError(
            f"column {label!r} holds {counted(count, 'label')} ({labels}), and family {name!r} is for numbers. "
            "Leave the column to family='auto', or name 'nominal', 'ordinal', 'excluded' or 'bernoulli' (two labels)."
        )


def check_support(family: Family, columns: Any) -> None:
    """Raise on the first entry that its column's family cannot have produced."""
    found = first_outside(columns.data, columns.executor, family.in_support)
    if found is not None:
        row, column, value = found
        member, source = family.take(slice(column, column + 1)), int(columns.layout.sources[column])
        raise_outside(member, row, source, value, columns.layout.table_names)


def raise_outside(member: Family, row: int, column: int, value: float, names: Sequence[str] | None) -> None:
    """Raise on an entry of the user's table that its column's family cannot have produced."""
    name = "" if names is None else f" (column {names[column]!r})"
    # scikit-learn's words for its tag positive_only.
    reason = "Negative values in data: " if value < 0 and is_nonnegative(member) else ""
    raise ValueError(
        f"{reason}family {member.name!r} needs {member.support}; X[{row}, {column}]{name} is {value:.10g}. "
        f"{member.remedy}"
    )


def warn_fractions(family: Family, columns: Any) -> None:
    """Warn if a count family gets fractions: the likelihood is then a quasi-likelihood."""
    data, summary = columns.data, columns.summary
    for member, places in family.member_columns(data.n_features):
        bad = places[summary.n_noninteger[places] > 0]
        if member.is_discrete and bad.size:
            column = int(bad[0])
            warnings.warn(
                f"family {member.name!r} is for integers; column {_name(data, column)!r} holds "
                f"{int(summary.n_noninteger[column])} fractions ({np.size(bad)} such columns). The likelihood is used "
                "as a quasi-likelihood; family='gamma' or 'gaussian' are meant for fractions.",
                DataConversionWarning,
                stacklevel=2,
            )

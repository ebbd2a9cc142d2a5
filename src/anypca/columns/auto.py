"""The family of each column, inferred from its values and its name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from anypca.columns._candidates import TWO_PARTS, VARIANTS, score_candidates, whole_of
from anypca.columns._guards import (
    AMOUNTS,
    CATEGORIES,
    COUNTS,
    EXCLUDED,
    REALS,
    YES_NO,
    Column,
    Guarded,
    guard,
)
from anypca.columns._resolve import MISSING, column_entries, resolve_columns
from anypca.columns._whole_table import CLEAR, Decision, choose_kinds, common_kind, share_families
from anypca.columns.forms import Excluded, Form, Recoded, column_forms
from anypca.families import BetaBinomial, Family, LogitNormal, combine, families
from anypca.families.ordinal import MOST_LEVELS

#: What a user would call the values of each family.
KINDS = {
    **{family: kind for kind, names in VARIANTS.items() for family in names},
    "bernoulli": YES_NO,
    "tweedie": AMOUNTS,
    "nominal": CATEGORIES,
    "excluded": EXCLUDED,
}
#: Why a column has a family where its distribution decided, in words that columns share.
RULES = {
    "gaussian": "real numbers",
    "student_t": "real numbers with heavy tails",
    "log_normal": "skewed positive amounts",
    "gamma": "skewed positive amounts",
    "zero_inflated_log_normal": "amounts with zeros",
    "zero_inflated_gamma": "amounts with zeros",
    "negative_binomial": "counts; over-dispersion is estimated",
    "zero_inflated_negative_binomial": "counts with extra zeros",
    "beta_binomial": "scores out of a largest one",
    "ordinal": "a few ordered levels",
    "logit_normal": "shares of a whole",
}
#: Codes stay out of the model.
_NAMED = {"nominal": "excluded"}
#: The reason of families that a user insists on.
GIVEN = "given"
#: Reports of more columns than this, which is about a screen, are printed by groups.
_LINES = 20
#: Columns named in one line of a grouped report, so that most lines stay short.
_SHOWN = 5


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
    kind: str = ""
    """What a user would call the values: counts, ratings, amounts, real numbers, shares, yes/no, categories, or
    ``excluded`` where the column stays out of the model."""
    lead: float = np.inf
    """By how many nats the family is ahead of the runner-up; infinite where no likelihood was asked."""
    runner_up: str = ""
    """The next best family."""

    @property
    def doubt(self) -> str:
        """The lead and the runner-up of an unsure choice in words; empty if it is sure."""
        return f"{self.lead:.1f} nats ahead of {self.runner_up}" if self.is_unsure else ""

    @property
    def is_unsure(self) -> bool:
        """Whether the values hardly tell the family from the runner-up."""
        return self.lead < CLEAR


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

    @property
    def excluded(self) -> tuple[str, ...]:
        """Columns that stay out of the model."""
        return tuple(record.column for record in self if record.family == EXCLUDED)

    @property
    def unsure(self) -> tuple[str, ...]:
        """Columns whose values hardly tell the family from the next best one."""
        return tuple(record.column for record in self if record.is_unsure)

    def groups(self) -> list[FamilyGroup]:
        """Columns that have the same family by the same rule, in order of appearance."""
        found: dict[tuple[str, str], list[str]] = {}
        for record in self:
            found.setdefault((record.family, record.rule), []).append(record.column)
        return [FamilyGroup(tuple(names), family, rule) for (family, rule), names in found.items()]


def _abbreviated(names: Sequence[str]) -> str:
    if len(names) <= _SHOWN:
        return ", ".join(names)
    return f"{', '.join(names[: _SHOWN - 2])}, ... ({len(names)} columns)"


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
    """Columns that do not enter a model as they are: left out, recoded or as several; see `anypca.columns.Layout`."""


def infer_families(columns: Sequence[Column]) -> FamilyChoice:
    """Choose a family for each column.

    Parameters
    ----------
    columns : sequence of Column
        The values of the columns, such as `anypca.columns.collect_columns` finds.

    Returns
    -------
    FamilyChoice
        The family (a `Mixed` when the columns differ) and the report.

    Notes
    -----
    First come guards, each with its sentence: two values are a yes/no answer; running numbers, labels and complete
    ranges stay out of the model; years are real numbers; codes, months and labels with few values are categories,
    which stay out where numbers stand for them. Text and declared categories enter: two labels as a yes/no answer,
    ordered ones as ordinal, up to 30 others as nominal; more are names and stay out.

    The other columns are compared under the families whose marginal spread is free, since latent factors add variance:
    normal, Student's t, log-normal, gamma, zeros and amounts, negative binomial, the same with extra zeros,
    beta-binomial, logit-normal, and ordered levels of any distribution. The score of each is its largest log-mass on
    the scale on which the values are recorded, coarsened so that a thousand entries say nearly all that there is to
    say, less the price of its parameters, with weak prior evidence from zeros and names.

    Last comes the table as a whole: shares of the kinds over the columns are added to the scores, tables of counts or
    of ratings are of one kind, and columns of one kind share a family unless their values clearly differ. Whether
    counts are over-dispersed is not decided here but by the dispersion that a fit estimates; the negative binomial
    family at 0 is Poisson.

    Examples
    --------
    >>> import numpy as np
    >>> from anypca.engine import check_data, collect_columns, executor_for, summarise
    >>> rng = np.random.default_rng(0)
    >>> data = check_data(np.column_stack([rng.integers(1, 3, 200), rng.poisson(5.0, 200)]).astype(float))
    >>> executor = executor_for(data, 1)
    >>> columns = collect_columns(data, executor, summarise(data, executor))
    >>> [(record.family, record.kind) for record in infer_families(columns).report]
    [('bernoulli', 'yes/no'), ('negative_binomial', 'counts')]
    """
    guarded = [guard(column) for column in columns]
    scores = [
        score_candidates(column) if found is None else {}
        for column, found in zip(columns, guarded, strict=True)
    ]
    open_columns = [j for j, found in enumerate(guarded) if found is None]
    own = dict(zip(open_columns, choose_kinds([scores[j] for j in open_columns]), strict=True))
    # What a name or the plain look says of years, labels and codes stands, in any table.
    inside = [
        j
        for j, found in enumerate(guarded)
        if columns[j].labels is None and (found is None or found.kind == YES_NO or found.is_constant)
    ]
    common = common_kind([columns[j] for j in inside], [own[j][0] if j in own else "" for j in inside])
    kinds = {j: kind for j, (kind, _) in own.items()}
    if common is not None:
        kinds |= {j: common for j in inside if common == COUNTS or columns[j].n_distinct > 2}
    shared, bound = share_families(
        [columns[j] for j in kinds], list(kinds.values()), [scores[j] for j in kinds]
    )
    decisions = dict(zip(kinds, shared, strict=True))
    records = []
    for j, (column, found) in enumerate(zip(columns, guarded, strict=True)):
        label = column.name or str(j)
        if j in decisions and common is None:
            records.append(_record(label, column, _less_sure(decisions[j], own[j][1])))
        elif j in decisions:
            rule = f"the whole table holds {common}"
            records.append(
                FamilyRecord(label, decisions[j].family, f"{_span(column)}; {rule}", rule, kinds[j])
            )
        else:
            assert found is not None
            records.append(_guarded_record(label, column, found))
    return build_choice(columns, FamilyReport(_with_something_left(columns, records)), bound)


def _with_something_left(columns: Sequence[Column], records: list[FamilyRecord]) -> list[FamilyRecord]:
    """The records; where every column would stay out of the model those of numbers are real numbers instead."""
    if not all(record.family == EXCLUDED for record in records):
        return records
    rule = "every column looks like a label, so that all numbers are kept"
    return [
        record
        if column.labels is not None
        else FamilyRecord(record.column, "gaussian", f"{record.reason}; {rule}", rule, REALS)
        for column, record in zip(columns, records, strict=True)
    ]


def _less_sure(shared: Decision, own: Decision) -> Decision:
    """The family that columns share, with the smaller of two leads: over other families, and over other kinds."""
    return shared if shared.lead <= own.lead else own._replace(family=shared.family)


def _guarded_record(label: str, column: Column, found: Guarded) -> FamilyRecord:
    """A column whose name or plain look decided."""
    family = _NAMED.get(found.family, found.family) if column.labels is None else found.family
    # Labels that stay out may be names of persons, which no report should hold.
    is_hidden = column.labels is not None and family == EXCLUDED
    reason = found.rule if is_hidden else f"{_span(column)}: {found.rule}"
    return FamilyRecord(label, family, reason, found.rule, found.kind)


def _record(label: str, column: Column, decision: Decision) -> FamilyRecord:
    """A column whose distribution decided."""
    family, second, lead, _ = decision
    return FamilyRecord(
        label, family, f"{_span(column)}: {decision.text}", RULES[family], KINDS[family], lead, second
    )


def _span(column: Column) -> str:
    """The values of a column in words."""
    if column.n_distinct == 0:
        return "nothing"
    if column.labels is not None:
        return column.labels.shares(column.values, column.weights)
    if column.n_distinct <= 2:
        shares = column.weights / column.total
        return " and ".join(
            f"{value:.6g} ({share:.0%})" for value, share in zip(column.values, shares, strict=True)
        )
    values = "whole numbers" if column.is_whole else "values"
    step = f" in steps of {column.step:.4g}" if column.is_lattice and column.step != 1 else ""
    return f"{column.n_observed} {values} from {column.low:.6g} to {column.high:.6g}{step}"


def build_choice(
    columns: Sequence[Column], records: FamilyReport, bound: float | None = None
) -> FamilyChoice:
    """Families and forms of the columns from the names in a report; ``bound`` is the largest count, if known."""
    built: dict[tuple[str, float | None], Family] = {}
    members, forms = [], {}
    for j, (column, record) in enumerate(zip(columns, records, strict=True)):
        form = _form(column, record)
        if form is not None:
            forms[j] = form
        key = record.family, _parameter(column, record.family, bound)
        if key not in built:
            built[key] = _build(*key)
        members.append(built[key])
    return FamilyChoice(combine(members), records, forms)


def _form(column: Column, record: FamilyRecord) -> Form | None:
    """The form in which a column enters the model if it does not enter as it is."""
    if record.family == EXCLUDED:
        return Excluded(reason=record.rule)
    if record.family == "bernoulli" and column.values.tolist() != [0.0, 1.0] and column.n_distinct == 2:
        return Recoded(tuple(column.values.tolist()), reason="two values")
    # Numbers that are far apart are levels by their order, as those that are not whole.
    if record.family == "ordinal" and not (column.is_whole and column.high - column.low < MOST_LEVELS):
        return Recoded(tuple(column.values.tolist()), reason="ordered levels")
    is_form = record.family in TWO_PARTS or record.family == "nominal"
    return column_forms.create(record.family) if is_form else None


def open_entries(
    family: Any, n_features: int, feature_names: Sequence[str] | None = None
) -> list[Any] | None:
    """What a user says of each column, ``None`` for those that are to be inferred; ``None`` if all families are given.

    Columns are open that a mapping does not name, and those of which a mapping or a sequence says ``"auto"``.
    """
    if isinstance(family, Mapping):
        found = column_entries(family, n_features, None if feature_names is None else list(feature_names))
    elif isinstance(family, list | tuple) and len(family) == n_features:
        found = list(family)
    else:
        return None
    entries = [None if entry is MISSING or _is_auto(entry) else entry for entry in found]
    return entries if any(entry is None for entry in entries) else None


def _is_auto(entry: Any) -> bool:
    return isinstance(entry, str) and entry == "auto"


def with_given(
    choice: FamilyChoice, entries: Sequence[Any], feature_names: Sequence[str] | None
) -> FamilyChoice:
    """The choice with what a user insists on for some columns; ``None`` stands for columns left open."""
    if all(entry is None for entry in entries):
        return choice
    assert choice.report is not None
    mine = [choice.forms.get(j) or choice.family.columns(slice(j, j + 1)) for j in range(len(entries))]
    wanted = [own if entry is None else entry for own, entry in zip(mine, entries, strict=True)]
    family, forms = resolve_columns(wanted, len(wanted), feature_names)
    records = []
    for j, record in enumerate(choice.report):
        if entries[j] is not None:
            name = forms[j].name if j in forms else family.columns(slice(j, j + 1)).name
            record = FamilyRecord(record.column, name, GIVEN, GIVEN, KINDS.get(name, ""))
        records.append(record)
    return FamilyChoice(family, FamilyReport(records), forms)


def _parameter(column: Column, family: str, bound: float | None) -> float | None:
    """The parameter of a family that the values of its column decide."""
    largest = max(column.high, 1.0) if bound is None else bound
    return {"beta_binomial": largest, "logit_normal": whole_of(column)}.get(family)


def _build(name: str, parameter: float | None) -> Family:
    if parameter is not None:
        return (
            BetaBinomial(n_trials=int(parameter)) if name == "beta_binomial" else LogitNormal(upper=parameter)
        )
    # A column that stays out, or enters as two, needs some family in the table's.
    return families.create(name if name in families else "gaussian")

"""Infer the family of each column from its values and the values of the other columns."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from anypca._words import quoted
from anypca.columns.candidates import (
    AMOUNTS,
    BOUNDED,
    CATEGORIES,
    COUNTS,
    EXCLUDED,
    EXTRA_ZEROS,
    LARGEST_SCORE,
    RATINGS,
    REALS,
    TWO_PARTS,
    VARIANTS,
    YES_NO,
    score_bounded,
    score_candidates,
)
from anypca.columns.forms import Excluded, Form, Recoded, column_forms
from anypca.columns.labels import DATES, Labels, are_names
from anypca.columns.report import CLEAR, FamilyRecord
from anypca.columns.values import Column
from anypca.exceptions import DataConversionWarning
from anypca.families import BetaBinomial, Family, families
from anypca.families.ordinal import MOST_LEVELS

#: What a user would call the values of each family.
KINDS = {
    **{family: kind for kind, names in VARIANTS.items() for family in names},
    "bernoulli": YES_NO,
    "tweedie": AMOUNTS,
    "nominal": CATEGORIES,
    "excluded": EXCLUDED,
}
#: Why a column has a family if its distribution decided, in words that columns share.
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
_YEARS = "whole numbers that are years"
_IDENTIFIER = "every whole number of a range once, as identifiers of rows have"

#: Rows from which on a complete range of whole numbers is no chance.
_LEAST_RANGE = 15
#: Years: whole numbers within this range and close together.
_FIRST_YEAR, _LAST_YEAR, _YEAR_SPAN, _YEAR_DEVIATION = 1800, 2100, 150, 60.0
#: Log odds of extra zeros, and of a bound, against other kinds; and of extra zeros in a table of counts. Strong factors
#: feign some nats of extra zeros per column: they make counts vary, which the margins of plain counts take up nearly.
_RARE, _RARE_ZEROS, _FEIGNED = -3.0, -5.0, 1.0
#: Columns of more than two values that make a table of one kind: counts, ratings.
_LEAST_COUNTS, _LEAST_RATINGS = 5, 3
#: Share of columns with zeros in a table of counts, share of columns that must be of the kind by their own values, and
#: the largest rating.
_WITH_ZEROS, _HALF, _LARGEST_RATING = 0.8, 0.5, 12.0
#: Nats that skewed families must be ahead of real numbers.
_TIE = 2.0

Scores = dict[str, float]


class Choice(NamedTuple):
    """The inferred family of a column and its reason."""

    record: FamilyRecord
    entry: Family | Form


def infer_families(columns: Sequence[Column]) -> list[Choice]:
    """Choose a family for each column by its values; names do not matter.

    Parameters
    ----------
    columns : sequence of Column
        As returned by `anypca.columns.collect_columns`.

    Returns
    -------
    list of Choice
        A record for the report, and the family or the form of each column.

    Warns
    -----
    DataConversionWarning
        If columns look like identifiers of rows. They are modelled like any other column.

    Notes
    -----
    Some families need no likelihood: two values are a yes/no answer; years, and complete ranges of whole numbers, are
    real numbers. Of text and declared categories two labels are a yes/no answer, ordered ones ordinal, up to 30 others
    nominal; more are names and excluded.

    The other columns are compared under the families whose marginal spread is free, since latent factors add variance:
    normal, Student's t, log-normal, gamma, zeros and amounts, negative binomial, the same with extra zeros,
    beta-binomial, logit-normal, and ordered levels of any distribution. The score of each is its largest
    log-probability on the scale on which the values are recorded, coarsened so that a thousand entries say nearly all
    that there is to say, less the price of its parameters, with weak prior evidence from zeros and levels.

    Last comes the table as a whole: tables of counts or of ratings are of one kind, and columns of one kind share a
    family unless their values clearly differ. A fit
    estimates whether counts are over-dispersed; the negative binomial family at 0 is Poisson.

    Examples
    --------
    >>> import numpy as np
    >>> from anypca.columns import collect_columns
    >>> from anypca.engine import check_data, executor_for, summarise
    >>> rng = np.random.default_rng(0)
    >>> data = check_data(np.column_stack([rng.integers(1, 3, 200), rng.poisson(5.0, 200)]).astype(float))
    >>> executor = executor_for(data, 1)
    >>> columns = collect_columns(data, executor, summarise(data, executor))
    >>> [(choice.record.family, choice.record.kind) for choice in infer_families(columns)]
    [('bernoulli', 'yes/no'), ('negative_binomial', 'counts')]
    """
    judged = {j: record for j, column in enumerate(columns) if (record := _judge(column)) is not None}
    scores = {j: score_candidates(column) for j, column in enumerate(columns) if j not in judged}
    own = {j: best_kind(found) for j, found in scores.items()}
    kinds = {j: kind for j, (kind, _) in own.items()}
    # Years, identifiers and labels stand in any table.
    inside = [
        j for j in range(len(columns)) if j in own or (columns[j].labels is None and judged[j].rule in _OPEN)
    ]
    common = common_kind([columns[j] for j in inside], [kinds.get(j, "") for j in inside])
    if common is not None:
        kinds |= {j: common for j in inside if common == COUNTS or columns[j].n_distinct > 2}
    decisions, bound = share_families(columns, kinds, scores)
    chosen = []
    for j, column in enumerate(columns):
        record = judged.get(j)
        if common is not None and j in decisions:
            rule = f"the whole table holds {common}"
            reason = f"{_span(column)}; {rule}"
            record = FamilyRecord(column.name, decisions[j].family, reason, rule, kinds[j])
        elif j in decisions:
            # The smaller of two leads: over other families of the kind, and over other kinds.
            family, second, lead, _ = best = min(decisions[j], own[j][1], key=lambda decision: decision.lead)
            family = decisions[j].family
            reason = f"{_span(column)}: {best.text}"
            record = FamilyRecord(column.name, family, reason, RULES[family], KINDS[family], lead, second)
        assert record is not None
        chosen.append(Choice(record, _entry(column, record, bound)))
    _warn_identifiers([record.column for record, _ in chosen if record.rule == _IDENTIFIER])
    return chosen


def _warn_identifiers(names: Sequence[str]) -> None:
    if names:
        pronoun = "it" if len(names) == 1 else "them"
        warnings.warn(
            f"{quoted(names)} {'looks' if len(names) == 1 else 'look'} like row identifiers (every whole number of a "
            f"range once) and {'is' if len(names) == 1 else 'are'} modelled as real numbers. If they are identifiers, "
            f"drop {pronoun} or pass family={{{names[0]!r}: 'excluded'}}.",
            DataConversionWarning,
            stacklevel=2,
        )


# ------------------------------------------------------------------------ columns that need no likelihood

_NONE, _ONE, _TWO = _OPEN = "no observed value", "one value only", "two values"


def _judge(column: Column) -> FamilyRecord | None:
    """Return the family of a column that follows from its dtype or a plain look at its values, if one does."""
    if column.labels is not None:
        return _judge_labels(column, column.labels)
    if column.n_distinct <= 1:
        family, kind, rule = "gaussian", REALS, _ONE if column.n_distinct else _NONE
    elif len(column.values) == 2 and column.low == column.values[0] and column.high == column.values[-1]:
        family, kind, rule = "bernoulli", YES_NO, _TWO
    elif _is_year(column) or _is_identifier(column):
        family, kind, rule = "gaussian", REALS, _YEARS if _is_year(column) else _IDENTIFIER
    else:
        return None
    return FamilyRecord(column.name, family, f"{_span(column)}: {rule}", rule, kind)


def _judge_labels(column: Column, labels: Labels) -> FamilyRecord:
    """Return the family of labels: an answer of two, ordered levels, categories, or none for names of rows."""
    k, rule = len(labels.levels), ""
    if labels == DATES:
        rule = "dates"
    elif column.n_distinct <= 1:
        rule = _ONE
    elif are_names(labels, column.n_observed):
        is_unique = k == column.n_observed
        rule = (
            "a different one in every row: names"
            if is_unique
            else f"{k} different labels: names or free text"
        )
    if rule:  # without labels, which may be names of persons
        return FamilyRecord(column.name, "excluded", rule, rule, EXCLUDED)
    if k == 2:
        family, rule = "bernoulli", f"two labels, {labels.text(0)} = 0 and {labels.text(1)} = 1"
    elif labels.is_ordered:
        family, rule = "ordinal", f"ordered labels, {labels}"
    else:
        family, rule = "nominal", f"{k} labels without an order"
    return FamilyRecord(column.name, family, f"{_span(column)}: {rule}", rule, KINDS[family])


def _is_year(column: Column) -> bool:
    """Return whether whole numbers are recent years close together."""
    low, high = column.weighted_low, column.weighted_high
    is_near = high - low <= _YEAR_SPAN and column.deviation < _YEAR_DEVIATION
    return column.is_whole and is_near and low >= _FIRST_YEAR and high <= _LAST_YEAR


def _is_identifier(column: Column) -> bool:
    """Return whether a column has every whole number of a range once, in enough rows that this is no chance."""
    is_range = column.is_whole and column.step == 1 and column.n_places == column.n_observed >= _LEAST_RANGE
    return bool(is_range and column.weights.max() <= column.weights.min() * (1 + 1e-9))


def _span(column: Column) -> str:
    """Return the values of a column in words."""
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


def _entry(column: Column, record: FamilyRecord, bound: float | None) -> Family | Form:
    """Build the family of a column, or its form if it does not enter as it is."""
    family = record.family
    if family == EXCLUDED:
        return Excluded(reason=record.rule)
    if family == "bernoulli" and column.values.tolist() != [0.0, 1.0] and len(column.values) == 2:
        return Recoded(tuple(column.values.tolist()), reason=_TWO)
    # Numbers that are far apart are levels by their order, as those that are not whole.
    if family == "ordinal" and not (column.is_whole and column.high - column.low < MOST_LEVELS):
        return Recoded(tuple(column.values.tolist()), reason="ordered levels")
    if family == BOUNDED:
        return BetaBinomial(n_trials=int(max(column.high, 1.0) if bound is None else bound))
    return families.create(family) if family in families else column_forms.create(family)


# ------------------------------------------------------------------------------------ the table as a whole


class Decision(NamedTuple):
    """The family of a column and its lead over the next one."""

    family: str
    runner_up: str = ""
    lead: float = np.inf
    """In nats."""
    n_columns: int = 1
    """Number of columns whose scores were added up."""

    @property
    def text(self) -> str:
        """The lead in words."""
        if not self.runner_up:
            return "no other family fits"
        ahead = f"{self.lead:.1f} nats ahead of {self.runner_up}"
        if self.n_columns > 1:
            ahead += f" over {self.n_columns} columns of this kind"
        return f"unsure, {ahead}" if self.lead < CLEAR else ahead


def best_kind(scores: Scores) -> tuple[str, Decision]:
    """Return the kind of a column by its own values, and its best family."""
    # Extra zeros and bounds are rare compared with other kinds.
    own = {name: score + (_RARE if name in (EXTRA_ZEROS, BOUNDED) else 0.0) for name, score in scores.items()}
    # Skewed amounts are preferred to real numbers only if they win by more than a tie.
    own |= {name: own[name] - _TIE for name in ("log_normal", "gamma") if name in own}
    first = max(own, key=lambda name: own[name])
    kind = KINDS[first]
    others = {name: score for name, score in own.items() if KINDS[name] != kind}
    if not others:
        return kind, Decision(first)
    second = max(others, key=lambda name: others[name])
    return kind, Decision(first, second, own[first] - others[second])


def share_families(
    columns: Sequence[Column], kinds: dict[int, str], scores: dict[int, Scores]
) -> tuple[dict[int, Decision], float | None]:
    """Return the families of columns of known kinds, and the largest possible count if columns of counts share one.

    Parameters
    ----------
    columns : sequence of Column
    kinds : dict of int to str
        Kinds of columns by number.
    scores : dict of int to dict
        Score of each candidate family; columns without a candidate of their kind take the family of the others.
    """
    decisions: dict[int, Decision] = {}
    bound = None
    for kind in dict.fromkeys(kinds.values()):
        members = [j for j, own in kinds.items() if own == kind]
        candidates = {
            j: found
            for j in members
            if (found := {f: s for f, s in scores.get(j, {}).items() if f in VARIANTS[kind]})
        }
        if kind == COUNTS and (bound := common_bound([columns[j] for j in candidates], candidates.values())):
            for j, found in candidates.items():
                found[BOUNDED] = score_bounded(columns[j], bound)
        # Amounts with zeros have the family of the amounts without.
        alike = [{TWO_PARTS.get(f, f): score for f, score in found.items()} for found in candidates.values()]
        shared = dict(zip(candidates, share_family(alike), strict=True))
        usual = Counter(decision.family for decision in shared.values()).most_common(1)[0][0]
        for j in members:
            both = {amounts: both for both, amounts in TWO_PARTS.items() if both in scores.get(j, {})}
            own = shared.get(j, Decision(usual))
            family, second = (both.get(name, name) for name in own[:2])
            decisions[j] = own._replace(family=family, runner_up=second)
    return decisions, bound


def share_family(scores: Sequence[Scores]) -> list[Decision]:
    """Return one family for columns of one kind, except for columns whose values clearly contradict it.

    The family is the one with the largest total score among the candidates of all columns. Another family is admitted
    if it gains, over all columns on the average, more than `CLEAR` nats beyond a clear lead in each column that takes
    it.

    Parameters
    ----------
    scores : sequence of dict
        Score of each candidate family of the kind.
    """
    names = sorted({name for each in scores for name in each})
    table = np.array([[each.get(name, -np.inf) for name in names] for each in scores])
    extra = np.array([name == EXTRA_ZEROS for name in names])
    table -= np.where(extra, _FEIGNED, 0.0)
    total = table.sum(axis=0) + np.where(extra, _RARE_ZEROS, 0.0)
    first, *others = np.argsort(-total, kind="stable")
    chosen = np.full(len(table), first)
    for other in others:
        excess = np.maximum(table[:, other] - table[np.arange(len(table)), chosen] - CLEAR, 0.0)
        if excess.sum() > CLEAR * len(table):
            chosen[excess > 0] = other
    usual = Decision(names[first])
    if others and np.isfinite(total[others[0]]):
        usual = Decision(names[first], names[others[0]], total[first] - total[others[0]], len(table))
    return [
        usual if k == first else Decision(names[k], names[first], row[k] - row[first])
        for k, row in zip(chosen, table, strict=True)
    ]


def common_bound(columns: Sequence[Column], scores: Iterable[Scores]) -> float | None:
    """The largest possible score of columns of counts: their largest value, if most columns have it."""
    bound = max((column.high for column in columns), default=np.inf)
    is_common = np.mean([column.high == bound for column in columns]) >= _HALF if len(columns) > 1 else False
    may_be = bound <= LARGEST_SCORE and any(BOUNDED in each for each in scores)
    return bound if is_common and may_be else None


def common_kind(columns: Sequence[Column], kinds: Sequence[str]) -> str | None:
    """The kind of all columns of a table of counts or of ratings; None for other tables.

    Parameters
    ----------
    columns : sequence of Column
        All that are not left out.
    kinds : sequence of str
        The kind of each by itself.
    """
    if not columns or not all(c.is_whole and c.low >= 0 for c in columns):
        return None
    rest = [(c, kind) for c, kind in zip(columns, kinds, strict=True) if c.n_distinct > 2]
    largest = max(c.weighted_high for c in columns)
    with_zeros = np.mean([c.weighted_low == 0 for c in columns])
    if len(rest) >= _LEAST_COUNTS and largest > _LARGEST_RATING and with_zeros >= _WITH_ZEROS:
        kind = COUNTS
    elif (
        len(rest) >= _LEAST_RATINGS
        and largest <= _LARGEST_RATING
        and len({(c.weighted_low, c.weighted_high) for c, _ in rest}) <= 2
    ):
        kind = RATINGS
    else:
        return None
    return kind if np.mean([own == kind for _, own in rest]) >= _HALF else None

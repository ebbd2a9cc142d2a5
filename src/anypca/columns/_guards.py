"""What the name and the plain look of a column say before any likelihood does: labels, years, codes, answers of two."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from anypca._typing import Bools, Floats
from anypca.columns.labels import DATES, Labels

#: Kinds of columns, as a user would call them.
COUNTS, RATINGS, AMOUNTS, REALS = "counts", "ratings", "amounts", "real numbers"
SHARES, YES_NO, CATEGORIES, EXCLUDED = "shares", "yes/no", "categories", "excluded"

#: Labels with more values than this are left out; with fewer they may be categories.
_FEW_LABELS = 12
#: Codes have no more values than this: the districts, jobs or sites of a study.
_MOST_CODES = 30
#: Rows that a label has at least on the average; with fewer, labels are rather names than kinds of rows.
_LEAST_PER_LABEL = 3
#: Words of a label on the average; free text has more.
_MOST_WORDS = 3
#: Running numbers and complete ranges are told from few rows; below this a range can be complete by chance.
LEAST_RUNNING, LEAST_RANGE = 8, 15
#: Rows that make a block of a design.
_LEAST_BLOCK = 5
#: A year lies here, and the years of one table within this spread.
FIRST_YEAR, LAST_YEAR, _LONGEST_SPAN = 1500, 2100, 400
#: Without a name, only recent years close together are taken as years.
_RECENT_YEAR, _SHORT_SPAN, _YEAR_DEVIATION = 1800, 150, 60.0


def _words(pattern: str, *, flags: int = re.IGNORECASE) -> re.Pattern[str]:
    return re.compile(pattern, flags)


_START = r"(^|[._\- ])"
LABEL = _words(
    _START + r"(id|idno|idnum|pid|subj(ect)?|obs|obsno|case|caseid|caseno|rownames?|row|serial|seq|seqno|"
    r"seqn|zip|zipcode|fips|key|uid|uuid|ssn|ids|nr|rowid|postcode|plz|phone|barcode)$|[a-z]id$"
    r"|^(index|idx)$|^(zip|postal|post)[._\- ]?codes?$|^(patient|person|individual)(id|no|num|nr)?$"
    r"|(subject|respondent|participant|customer|user|case)(no|num|nr)$"
)
NO_LABEL = _words(
    r"(covid|acid|rapid|solid|fluid|thyroid|valid|humid|grid|paid|aid|bid|mid|kid|liquid|resid)$"
)
YEAR = _words(_START + r"(year|yr|date|season|jahr|birthyear|yob|born)s?$|^(year|yr)")
CODE = _words(
    _START
    + r"(code|type|group|grp|region|state|county|country|race|ethnic\w*|site|treat\w*|trt|block|batch|cluster|plot|"
    r"school|hospital|clinic|center|centre|class|cat|category|species|ship|firm|industry|occ\w*|religion|party|"
    r"marital\w*|stratum|strata|lab|rep|sector|province|district|job)$"
)
CALENDAR = _words(_START + r"(month|mon|quarter|qtr|weekday|wday|dow)$")
COUNT = _words(
    _START
    + r"(n|num|counts?|freq|cases|deaths|events|visits|n[._]\w+|num[._]?\w*|no[._]\w+|children|kids|total|hits|"
    r"runs|goals|number\w*|trips|calls|Freq|Counts?|Number\w*|Deaths|Cases)\d*$|^n[A-Z]",
    flags=0,
)
MEASURE = _words(
    _START
    + r"(age|weight|height|wt|ht|length|width|temp\w*|time|income|price|wage|salary|score|iq|dist\w*|dose|pressure|bp|"
    r"sbp|dbp|days|months|weeks|hours|minutes|educ\w*|school\w*|exper\w*|size|speed|hp|mpg|area|sales|cost|rate|rt|"
    r"test\w*|exam\w*|grade|points|gpa)\d*$|(age|price|income|inc|wage|cost|time|score|rate)\d*$"
)
#: Measurements of which differences count, not ratios; logarithms among them.
ADDITIVE = _words(
    _START
    + r"(age|height|ht|temp\w*|score|iq|educ\w*|school\w*|exper\w*|mpg|speed|test\w*|exam\w*|grade|gpa)\d*$|"
    r"[a-z](age|score)\d*$|^(log|ln)([._]|(?-i:[A-Z]))"
)
SHARE = _words(r"([pP]ct|[pP]ercent|[pP]erc|[sS]hare|[pP]rop|[fF]rac)|%|^pc[A-Z]", flags=0)
SCORE = _words(r"score|correct|test|sum|total")


@dataclass(frozen=True, eq=False)
class Column:
    """The observed values of one column, and what is known of it."""

    name: str
    """Empty where columns have no names."""
    values: Floats
    """Distinct values in increasing order, of all entries or of a sample, shape (k,)."""
    weights: Floats
    """How many entries have each value, shape (k,)."""
    step: float
    """With which it is recorded."""
    is_lattice: bool
    """Whether all values are multiples of the step apart."""
    low: float
    """Smallest entry of all."""
    high: float
    """Largest entry of all."""
    n_observed: int
    is_sorted: bool
    """Whether entries never decrease, or never increase, from row to row."""
    labels: Labels | None = None
    """What the values stand for, where they are numbers of labels."""
    is_part: bool = False
    """Whether it is one of several columns of shares that sum to one in every row."""

    @property
    def n_distinct(self) -> int:
        return len(self.values)

    @property
    def total(self) -> float:
        """Number of entries, by weight."""
        return float(self.weights.sum())

    @property
    def is_whole(self) -> bool:
        """Whether the entries are whole numbers."""
        return self.is_lattice and self.step % 1 == 0 and self.low % 1 == 0

    @property
    def n_places(self) -> float:
        """Points of the lattice from the smallest to the largest entry."""
        return round((self.high - self.low) / self.step) + 1 if self.is_lattice else np.inf

    @property
    def mean(self) -> float:
        return float(self.weights @ self.values) / self.total

    @property
    def deviation(self) -> float:
        gap = self.values - self.mean
        return float(np.sqrt(self.weights @ gap**2 / self.total))

    def share(self, flags: Bools) -> float:
        """Share of entries whose values are flagged."""
        return float(self.weights @ flags) / self.total


class Guarded(NamedTuple):
    """A column that needs no likelihood."""

    family: str
    kind: str
    rule: str
    is_constant: bool = False


def guard(column: Column) -> Guarded | None:
    """What a column is by its name or its plain look; None if its distribution is to tell."""
    if column.labels is not None:
        return _labelled(column, column.labels)
    if column.n_distinct <= 1:
        rule = "one value only" if column.n_distinct else "no observed value"
        return Guarded("gaussian", REALS, rule, is_constant=True)
    if column.n_distinct == 2 and column.low == column.values[0] and column.high == column.values[-1]:
        return Guarded("bernoulli", YES_NO, "two values")
    if _is_year(column):
        return Guarded("gaussian", REALS, "a year")
    if running := _running(column):
        return Guarded("excluded", EXCLUDED, running)
    return _named(column) if column.is_whole else None


def _labelled(column: Column, labels: Labels) -> Guarded:
    """What labels are: an answer of two, ordered levels, categories, or names of rows."""
    k = len(labels.levels)
    if labels == DATES:
        return Guarded("excluded", EXCLUDED, "dates")
    if column.n_distinct <= 1:
        return Guarded("excluded", EXCLUDED, "one value only")
    if are_names(labels, column.n_observed):
        what = (
            "a different one in every row: names"
            if k == column.n_observed
            else f"{k} different labels: names or free text"
        )
        return Guarded("excluded", EXCLUDED, what)
    if k == 2:
        return Guarded("bernoulli", YES_NO, f"two labels, {labels.text(0)} = 0 and {labels.text(1)} = 1")
    if labels.is_ordered:
        return Guarded("ordinal", RATINGS, f"ordered labels, {labels}")
    if is_label(column.name) and k > _FEW_LABELS:
        return Guarded("excluded", EXCLUDED, "named as a label")
    return Guarded("nominal", CATEGORIES, f"{k} labels without an order")


def are_names(labels: Labels, n_rows: int) -> bool:
    """Whether labels in so many rows are names of these, or free text, rather than kinds of rows."""
    k = len(labels.levels)
    is_prose = (
        not labels.is_ordered and sum(len(str(level).split()) for level in labels.levels) > _MOST_WORDS * k
    )
    return (k == n_rows and labels.kind != "bool") or (
        k > 2 and (k > _MOST_CODES or n_rows < _LEAST_PER_LABEL * k or is_prose)
    )


def is_label(name: str) -> bool:
    """Whether a name says that its column labels rows."""
    return bool(LABEL.search(name)) and not NO_LABEL.search(name)


def _is_year(column: Column) -> bool:
    span = column.high - column.low
    is_possible = column.is_whole and column.low >= FIRST_YEAR and column.high <= LAST_YEAR
    if not is_possible or span > _LONGEST_SPAN:
        return False
    is_recent = column.low >= _RECENT_YEAR and span <= _SHORT_SPAN and column.deviation < _YEAR_DEVIATION
    return bool(YEAR.search(column.name)) or is_recent


def _running(column: Column) -> str:
    """Why a column counts its rows; empty if it does not."""
    n = column.n_observed
    if n < LEAST_RUNNING or column.n_places != n or column.weights.max() > column.weights.min() * (1 + 1e-9):
        return ""
    if column.is_sorted:
        return "counts the rows: equal steps"
    is_range = column.is_whole and column.step == 1 and n >= LEAST_RANGE
    return "every whole number of a range once: labels of rows" if is_range else ""


def _named(column: Column) -> Guarded | None:
    """What whole numbers are by their name or their design."""
    name, k = column.name, column.n_distinct
    if is_label(name):
        if k > _FEW_LABELS:
            return Guarded("excluded", EXCLUDED, "named as a label")
        return Guarded("nominal", CATEGORIES, "named as a label, few values")
    if _is_design(column):
        return Guarded("nominal", CATEGORIES, "sorted blocks of equal size: a code of the design")
    if CALENDAR.search(name) and k <= _FEW_LABELS and column.low >= 0:
        return Guarded("nominal", CATEGORIES, "a part of the calendar")
    if CODE.search(name) and k <= _MOST_CODES and not MEASURE.search(name):
        return Guarded("nominal", CATEGORIES, "named as a code")
    return None


def _is_design(column: Column) -> bool:
    """Whether rows come in blocks of the numbers 0, 1, ... or 1, 2, ..., each as often."""
    counts = column.weights
    is_code = column.low in (0, 1) and column.n_places == column.n_distinct >= 3
    is_even = counts.max() - counts.min() <= max(1.0, 0.05 * counts.mean())
    return bool(is_code and column.is_sorted and is_even and counts.min() >= _LEAST_BLOCK)

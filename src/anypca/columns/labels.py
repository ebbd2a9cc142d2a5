"""Labels of columns of text, answers or categories, which models see as their numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca._words import listed

#: Answers whose order is known by their words; a column has it if all of its labels, three or more, stand in one row.
SCALES: tuple[tuple[str, ...], ...] = (
    ("very low", "low", "medium", "moderate", "high", "very high"),
    ("xxs", "xs", "s", "m", "l", "xl", "xxl"),
    ("tiny", "small", "medium", "large", "huge"),
    ("none", "minimal", "mild", "moderate", "severe", "very severe"),
    ("never", "rarely", "seldom", "sometimes", "often", "usually", "always"),
    ("very poor", "poor", "fair", "good", "very good", "excellent"),
    ("very bad", "bad", "ok", "good", "very good"),
    ("first", "second", "third", "fourth", "fifth"),
    (
        *("strongly disagree", "disagree", "somewhat disagree", "neutral", "neither agree nor disagree"),
        *("somewhat agree", "agree", "strongly agree"),
    ),
    ("very dissatisfied", "dissatisfied", "neutral", "satisfied", "very satisfied"),
)
#: ``1 - strongly disagree``, ``2 = no``, ``(3) often``: an answer with its number.
_NUMBERED = re.compile(r"\s*[(\[]?(-?\d{1,2})(?:[)\]]|\s*[-–—:=.)]+)\s*[^\W\d]")
#: ``18-24``, ``25 to 34``, ``< 18``, ``65+``: a range of numbers.
_RANGE = re.compile(r"\s*[<>≤≥]?\s*(\d+)(?:\s*(?:[-–—]|to)\s*\d+|\s*\+)?\s*\Z")
#: Most categories of a column: more are names or numbers of rows rather than kinds of them.
MOST_CATEGORIES = 30
#: Rows that a label has at least on the average; with fewer, labels are rather names than kinds of rows.
_LEAST_PER_LABEL = 3
#: Words of a label on the average; free text has more.
_MOST_WORDS = 3
#: Labels from which on words say an order: two have the same in either direction.
_LEAST_ORDERED = 3


@dataclass(frozen=True)
class Labels:
    """The labels of the numbers 0, 1, ... of a column.

    Parameters
    ----------
    levels : tuple of str, bool, int or float
        The labels, in the order of their numbers.
    is_ordered : bool
        Whether this order means something.
    kind : {"text", "bool", "category", "date"}
        What the column holds in the user's table. Dates are in no model, and have no levels.

    Examples
    --------
    >>> labels = Labels(("low", "medium", "high"), is_ordered=True)
    >>> labels.text(2.0)
    'high'
    """

    levels: tuple[Any, ...]
    is_ordered: bool = False
    kind: str = "text"

    def text(self, number: float) -> str:
        """The label of a number."""
        return str(self.levels[int(number)])

    def shares(self, values: Floats, weights: Floats) -> str:
        """The commonest of some numbers, with their shares of the weight."""
        order = np.argsort(-weights, kind="stable")
        return listed([f"{self.text(values[j])} ({weights[j] / weights.sum():.0%})" for j in order], most=3)

    @property
    def numbers(self) -> dict[Any, int]:
        """The number of each label."""
        return {level: number for number, level in enumerate(self.levels)}

    def __str__(self) -> str:
        sign = " < " if self.is_ordered else ", "
        return sign.join(map(str, self.levels)) if self.is_ordered else listed(self.levels)


BOOLEAN = Labels((False, True), kind="bool")
DATES = Labels((), kind="date")


def are_names(labels: Labels, n_rows: int) -> bool:
    """Return whether labels in so many rows are names or free text, rather than kinds of rows."""
    k = len(labels.levels)
    n_words = sum(len(str(level).split()) for level in labels.levels)
    is_prose = not labels.is_ordered and n_words > _MOST_WORDS * k
    is_long = k > MOST_CATEGORIES or n_rows < _LEAST_PER_LABEL * k
    return (k == n_rows and labels.kind != "bool") or (k > 2 and (is_long or is_prose))


def label_text(counts: Mapping[str, int]) -> Labels:
    """Return the labels of a column of text, given how often each occurs.

    Labels of a known scale keep its order. Two labels are sorted alphabetically, so that no precedes yes. Other labels
    are sorted by frequency, because models compare each category with the later ones.
    """
    if (ordered := order_of(counts)) is not None:
        return Labels(ordered, is_ordered=True)
    if len(counts) <= 2:
        return Labels(tuple(sorted(counts)))
    return Labels(tuple(sorted(counts, key=lambda label: (-counts[label], label))))


def _place(found: re.Match[str] | None) -> tuple[int, bool] | None:
    """Where the number of a label belongs; below 18 comes before 18 to 24."""
    return None if found is None else (int(found[1]), found[0].lstrip()[0] not in "<≤")


def order_of(labels: Iterable[str]) -> tuple[str, ...] | None:
    """Labels in the order that their words or the numbers before them say, if they do."""
    labels = list(labels)
    for pattern in (_NUMBERED, _RANGE):
        places = {label: _place(pattern.match(label)) for label in labels}
        if None not in places.values() and len(set(places.values())) == len(labels) >= _LEAST_ORDERED:
            return tuple(sorted(places, key=lambda label: places[label] or (0, False)))
    words = {label: " ".join(label.lower().replace("_", " ").replace("-", " ").split()) for label in labels}
    if len(words) < _LEAST_ORDERED:
        return None
    for scale in SCALES:
        if set(words.values()) <= set(scale):
            return tuple(sorted(words, key=lambda label: scale.index(words[label])))
    return None

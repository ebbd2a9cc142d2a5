"""Format numbers and names in messages, plots and reports."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any


def shorten(name: object, most: int = 24) -> str:
    """A name on one line of at most ``most`` characters, cut in the middle: long names tend to differ at the ends."""
    text = " ".join(str(name).split())
    if len(text) <= most:
        return text
    tail = (most - 1) // 3
    return f"{text[: most - 1 - tail]}…{text[-tail:]}"


def numbered(prefix: str, count: int) -> tuple[str, ...]:
    """Default names ``prefix1``, ``prefix2``, ..., counted from 1."""
    return tuple(f"{prefix}{i}" for i in range(1, count + 1))


def distinct(names: Iterable[object]) -> tuple[str, ...]:
    """Return unique names: a repeated ``name`` becomes ``name#2``."""
    seen: Counter[str] = Counter()
    found = []
    for name in map(str, names):
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return tuple(found)


def counted(number: int, noun: str) -> str:
    """``1 row``, ``2 rows``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def listed(names: Sequence[Any], most: int = 5, form: Callable[[Any], str] = str) -> str:
    """A list of names for a sentence, the first ``most`` of them spelled out."""
    shown = ", ".join(form(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def quoted(names: Sequence[Any], most: int = 5) -> str:
    """The same with quotation marks around the names."""
    return listed(names, most, lambda name: repr(str(name)))


def suggest(word: str, known: Iterable[str], otherwise: str = "", cutoff: float = 0.5) -> str:
    """Suggest the most similar known word, or return ``otherwise``.

    Parameters
    ----------
    word : str
    known : iterable of str
    otherwise : str
    cutoff : float
        Least similarity, see `difflib.get_close_matches`.

    Returns
    -------
    str
    """
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return f"Did you mean {near[0]!r}?" if near else otherwise


def percent(share: float) -> str:
    """Format a share as a percentage with one digit; a dash if it is NaN."""
    # NaN is the only number that differs from itself.
    return f"{100.0 * share:.1f} %" if share == share else "–"


_MONTH = (
    r"(?:jan|feb|mar|mär|mrz|apr|ma[iy]|jun|jul|aug|sept?|o[ck]t|nov|de[cz]|(?:janu|febru)ar[yi]?|march|märz|april|june|"
    r"juni|july|juli|august|september|o[ck]tober|november|de[cz]ember)\.?"
)
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?: ?[ap]m)?(?:z|[+-]\d{2}:?\d{2})?"
_DATE = re.compile(
    rf"(?:\d{{4}}([-/.])\d{{1,2}}\1\d{{1,2}}|\d{{1,2}}([-/.])\d{{1,2}}\2(?:\d{{4}}|\d{{2}})|\d{{4}}[-/](?:0[1-9]|1[0-2])"
    rf"|\d{{1,2}}\.?[ -]?{_MONTH}[ -]?,?[ -]?\d{{2,4}}|{_MONTH}[ -]?(?:\d{{1,2}},? ?)?[ -]?(?:\d{{4}}|\d{{2}})"
    rf"|\d{{4}}[ -]{_MONTH}(?:[ -]\d{{1,2}})?)(?:(?:,? |t){_CLOCK})?|{_CLOCK}",
    re.IGNORECASE,
)


def is_date(text: str) -> bool:
    """Whether a text is a date, with or without a time, in one of the common styles; or a time of the day."""
    return _DATE.fullmatch(text.strip()) is not None


def is_number(text: str) -> bool:
    """Whether a text is a number as Python writes it."""
    try:
        float(text)
    except ValueError:
        return False
    return True

"""Numbers as people write them: thousands marks, decimal commas, percent signs, currencies, units, limits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from anypca._words import counted, quoted

#: At most this share of cells that are not numbers is taken as missing; a column with more is not a quantity with some
#: spoilt cells, and is left out.
MOST_SPOILT = 0.1
_CURRENCY = (
    r"(?:US|AU?|CA?|NZ|HK|R|S)?\$|[€£¥₹₽₩₪฿]|Fr\.|Rs\.|(?:kr|zł|Kč|Rs|USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD|SEK|NOK|DKK|"
    r"PLN|BRL|ZAR)(?![A-Za-z])"
)
#: A unit starts with a letter or a sign and is short, as in kg, mg/dL, °C, m²; longer words are text.
_UNIT = r"[^\W\d_][^\s\d.,;:<>()]{0,9}\d?|[%‰°µ][^\s\d.,;:<>()]{0,9}"
_CELL = re.compile(
    rf"(?P<limit>[<>≤≥]=?|[<>]\s*=)?\s*(?P<sign>[+-])?\s*(?P<front>{_CURRENCY})?\s*(?P<inner>[+-])?"
    rf"(?P<body>[.,]?\d(?:[\d.,' ]*[\d.,])?)(?P<power>[eE][+-]?\d{{1,3}}|[dD][+-]\d{{1,3}})?(?P<after>-(?!\S))?"
    rf"\s*(?P<back>{_CURRENCY}|{_UNIT})?"
)
#: All kinds of blanks and apostrophes that part thousands, and the minus sign of typesetters.
_PLAIN = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2009": " ", "\u2019": "'", "\u2212": "-"})
#: Digits, or groups of three (in India of two, then three) with one mark, and a fraction after the decimal sign.
_BODY = {
    decimal: re.compile(
        rf"(?:\d+|[1-9]\d{{0,2}}(?P<mark>[{mark}' ])\d{{3}}(?:(?P=mark)\d{{3}})*"
        rf"|[1-9]\d?(?P<pairs>{mark})(?:\d\d{mark})*\d{{3}})(?:{re.escape(decimal)}\d*)?|{re.escape(decimal)}\d+"
    )
    for decimal, mark in ((".", ","), (",", r"\."))
}
#: A number with its error or a sign of significance, or two numbers, as for blood pressure.
_COMPOUND = re.compile(r"\s*[+-]?\d+(?:[.,]\d+)?\s*(?:\*+|(?:±|\+/-|\+-)\s*\d.*)|\s*\d{2,3}\s*/\s*\d{2,3}\s*")
_NO_MARKS = str.maketrans("", "", "' ")
#: Most cells are as plain as this.
_SIMPLE = re.compile(r"(-?)(\d+(?:[.,]\d+)?)")
_OTHER = {".": ",", ",": "."}
_PER = {"%": -2, "‰": -3}
_PARENTHESES, _AFTER = "parentheses as minus signs", "minus signs after numbers"


class _Token(NamedTuple):
    """A cell that looks like a number."""

    body: str
    """Digits with decimal signs and thousands marks."""
    is_negative: bool
    power: int
    """Of ten, from the exponent and a percent sign."""
    affix: str
    """Currency or unit."""
    is_limit: bool
    odd_minus: str = ""
    """How it says that it is negative, if not by a minus sign before it."""

    def reads(self, decimal: str) -> bool:
        return self.body.isdigit() or _BODY[decimal].fullmatch(self.body) is not None

    def mark(self, decimal: str) -> str:
        if self.body.replace(decimal, "", 1).isdigit():
            return ""
        match = _BODY[decimal].fullmatch(self.body)
        return "" if match is None else match["mark"] or match["pairs"] or ""

    def value(self, decimal: str) -> float:
        # Digits are put together before they are rounded: 12.3% is the number nearest to 0.123.
        digits = self.body.translate(_NO_MARKS).replace(_OTHER[decimal], "").replace(decimal, ".")
        return float(f"{'-' if self.is_negative else ''}{digits}e{self.power}")


@dataclass(frozen=True)
class Spelling:
    """How the other columns of a file write fractions, for a column that may be read in two ways."""

    decimal: str | None = None
    """The decimal sign, where a user has said it."""
    found: frozenset[str] = frozenset()
    """The decimal signs of columns that can be read in one way only."""
    lone_comma: str = ","
    """The decimal sign if nothing but ``1,234`` is known."""


@dataclass(frozen=True)
class NumberColumn:
    """The numbers of a column of text, or why there are none."""

    values: Mapping[str, float] = field(default_factory=dict)
    """By cell; cells that are no numbers are not in it."""
    decimal: str | None = None
    """The decimal sign, if some cell has one."""
    repair: str = ""
    """What was taken away to get numbers."""
    example: str = ""
    """A cell and its number."""
    spoilt: tuple[str, ...] = ()
    """Cells taken as missing: no numbers, or numbers in another notation than the others."""
    limits: tuple[str, ...] = ()
    """Cells taken as missing: bounds, not values."""
    reason: str = ""
    """Why the column is left out; empty if it is not."""


def tokenise(cell: str) -> _Token | None:
    """The parts of a cell that looks like a number, else None."""
    simple = _SIMPLE.fullmatch(cell)
    if simple is not None:
        return _Token(simple[2], simple[1] == "-", 0, "", False)
    text = cell.translate(_PLAIN).strip()
    is_accounting = text.startswith("(") and text.endswith(")")
    match = _CELL.fullmatch(text[1:-1].strip() if is_accounting else text)
    if match is None or (match["front"] and match["back"]) or (match["sign"] and match["inner"]):
        return None
    if match["after"] and (match["sign"] or match["inner"] or is_accounting):
        return None
    affix = match["front"] or match["back"] or ""
    power = int(match["power"][1:]) if match["power"] else 0
    odd_minus = _PARENTHESES if is_accounting else _AFTER if match["after"] else ""
    is_negative = bool(odd_minus) or "-" in (match["sign"], match["inner"])
    is_limit, power = match["limit"] is not None, power + _PER.get(affix, 0)
    return _Token(match["body"], is_negative, power, affix, is_limit, odd_minus)


def are_padded(cells: Collection[str]) -> bool:
    """Whether different cells are digits, each as many, with zeros before some."""
    if len({len(cell) for cell in cells}) != 1 or not all(map(str.isdecimal, cells)):
        return False
    return any(cell.startswith("0") for cell in cells) and max(map(len, cells)) > 1


def own_decimal(cells: Iterable[str]) -> str | None:
    """The decimal sign of a column's cells, if they can be read in one way only.

    Parameters
    ----------
    cells : iterable of str

    Returns
    -------
    sign : str or None
    """
    found = [tokenise(cell) for cell in cells]
    tokens = [token for token in found if token is not None]
    if len(found) - len(tokens) > MOST_SPOILT * len(found):
        return None
    readable = [decimal for decimal in _BODY if all(token.reads(decimal) for token in tokens)]
    return readable[0] if len(readable) == 1 else None


def _by_zeros(tokens: Iterable[_Token]) -> str | None:
    """The decimal sign of a column with ``4.970`` and ``850``: one sign, in groups of three only, is a thousands mark.

    A program that writes all digits writes 850.000, and one that writes as few as it can writes 4.97.
    """
    bodies = {token.body for token in tokens}
    marked = {body for body in bodies if "," in body or "." in body}
    signs = {sign for body in marked for sign in ".," if sign in body}
    if len(signs) != 1 or len(marked) == len(bodies) or not any(body.endswith("0") for body in marked):
        return None
    return _OTHER[signs.pop()]


def read_numbers(cells: Mapping[str, int], spelling: Spelling, n_known: int = 0) -> NumberColumn:
    """Read a column's cells with one decimal sign, one currency or unit.

    Parameters
    ----------
    cells : mapping of str to int
        How often each cell occurs.
    spelling : Spelling
        Of the other columns.
    n_known : int
        Cells that are numbers besides.

    Returns
    -------
    column : NumberColumn
    """
    tokens = {cell: tokenise(cell) for cell in cells}
    words = [cell for cell, token in tokens.items() if token is None]
    total = n_known + sum(cells.values())
    n_words = sum(cells[cell] for cell in words)
    if n_words > MOST_SPOILT * total:
        return NumberColumn(reason=_say_words(n_words, total, words[0]), spoilt=tuple(words))
    numbers = {cell: token for cell, token in tokens.items() if token is not None}
    limits = [cell for cell, token in numbers.items() if token.is_limit]
    n_limits = sum(cells[cell] for cell in limits)
    if n_limits > MOST_SPOILT * total:
        return NumberColumn(reason=_say_limits(n_limits, total, limits[0]))
    values = {cell: token for cell, token in numbers.items() if not token.is_limit}
    affixes = _tally(values, cells)
    foreign = [cell for cell, token in values.items() if _affix(token) not in (None, affixes[0])]
    if sum(cells[cell] for cell in foreign) > MOST_SPOILT * total:
        kinds = [affix or "none" for affix in affixes]
        return NumberColumn(reason=f"its cells have different units: {quoted(kinds, most=3)}")
    lost = set(foreign)
    kept = {cell: token for cell, token in values.items() if cell not in lost}
    return _with_decimal(kept, cells, [*words, *foreign], limits, spelling, total)


def _say_words(count: int, total: int, first: str) -> str:
    """Why a column with words among its numbers is left out."""
    if _COMPOUND.fullmatch(first):
        return f"its cells hold more than a number each, as {first!r}"
    if 2 * count >= total:
        return "it holds text"
    return f"{count} of its {total} cells are not numbers, the first is {first!r}"


def _say_limits(count: int, total: int, first: str) -> str:
    return (
        f"{count} of its {total} cells are limits and not values, the first is {first!r}; put numbers in their place "
        "to use it"
    )


def _affix(token: _Token) -> str | None:
    """The unit of a number; None for zero, which is zero in every unit."""
    return None if not token.affix and not token.body.strip("0.,") else token.affix


def _tally(tokens: Mapping[str, _Token], cells: Mapping[str, int]) -> list[str]:
    """The different units, the most common first."""
    found: Counter[str] = Counter()
    for cell, token in tokens.items():
        affix = _affix(token)
        if affix is not None:
            found[affix] += cells[cell]
    return [affix for affix, _ in found.most_common()] or [""]


def _with_decimal(
    tokens: dict[str, _Token],
    cells: Mapping[str, int],
    spoilt: list[str],
    limits: list[str],
    spelling: Spelling,
    total: int,
) -> NumberColumn:
    """The column read with the decimal sign that its cells have in common."""
    signs = [spelling.decimal] if spelling.decimal else list(_BODY)
    bad = {sign: [cell for cell, token in tokens.items() if not token.reads(sign)] for sign in signs}
    lost = {sign: sum(cells[cell] for cell in bad[sign]) for sign in signs}
    fewest = min(lost.values())
    best = [sign for sign in signs if lost[sign] == fewest]
    if fewest + sum(cells[cell] for cell in spoilt) > MOST_SPOILT * total:
        example = next((cell for sign in best for cell in bad[sign]), "")
        return NumberColumn(reason=f"its numbers are written in different ways, as {example!r}")
    decimal = best[0] if len(best) == 1 else _decide(tokens, bad, spelling)
    if decimal is None:
        return NumberColumn(reason=_say_doubt(tokens))
    unread = set(bad[decimal])
    spoilt = [*spoilt, *bad[decimal]]
    values = {cell: token.value(decimal) for cell, token in tokens.items() if cell not in unread}
    used = decimal if any(decimal in tokens[cell].body for cell in values) else None
    repair, example = _describe({cell: tokens[cell] for cell in values}, decimal)
    return NumberColumn(values, used, repair, example, tuple(spoilt), tuple(limits))


def _say_doubt(tokens: Mapping[str, _Token]) -> str:
    cell = next(cell for cell, token in tokens.items() if "," in token.body or "." in token.body)
    return f"{cell!r} may be a fraction or thousands; give the decimal sign"


def _decide(tokens: dict[str, _Token], bad: dict[str, list[str]], spelling: Spelling) -> str | None:
    """The decimal sign of cells that could be read in two ways."""
    signs = {sign for token in tokens.values() for sign in ".," if sign in token.body}
    if not signs:
        return "."
    if any(bad.values()):
        return None
    own = _by_zeros(tokens.values())
    if spelling.found:
        # Two sayings that agree, or one alone; a fraction must not become a thousand where they differ.
        said = set(spelling.found) if own is None or len(spelling.found) == 1 else set()
        if own is not None:
            said.add(own)
        return said.pop() if len(said) == 1 else None
    if own is not None or len(signs) == 2:
        return own
    return "." if signs == {"."} else spelling.lone_comma


def _describe(tokens: Mapping[str, _Token], decimal: str) -> tuple[str, str]:
    """What was removed, and the first cell concerned; empty if nothing was removed."""
    affix = next((token.affix for token in tokens.values() if token.affix), "")
    marked = next((cell for cell, token in tokens.items() if token.mark(decimal)), None)
    parts = []
    if affix and affix not in _PER:
        is_currency = re.fullmatch(_CURRENCY, affix) is not None
        parts.append(f"{'currency' if is_currency else 'unit'} {affix!r}")
    if marked is not None:
        parts.append("thousands marks")
    cell = marked if marked is not None else next((cell for cell, t in tokens.items() if t.affix), "")
    repair = f"without {' and '.join(parts)}" if parts else ""
    if affix in _PER:
        repair = f"as shares{' ' + repair if repair else ''}"
    if negative := next((cell for cell, token in tokens.items() if token.odd_minus), ""):
        repair, cell = f"{repair + ', ' if repair else ''}with {tokens[negative].odd_minus}", negative
    return repair, f"{cell!r} is {tokens[cell].value(decimal):.15g}" if cell else ""


def say_spoilt(cells: Iterable[str], counts: Mapping[str, int], what: str) -> str:
    """A note on cells taken as missing.

    Parameters
    ----------
    cells : iterable of str
    counts : mapping of str to int
        How often each occurs.
    what : str
        What one of them is, and what several are: ``"is no number|are no numbers"``.

    Returns
    -------
    note : str
    """
    cells = list(cells)
    count = sum(counts[cell] for cell in cells)
    one, many = what.split("|")
    verb = one if count == 1 else many
    return f"has {counted(count, 'cell')} that {verb}, taken as missing: {quoted(cells, most=3)}"

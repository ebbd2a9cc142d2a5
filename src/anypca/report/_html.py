"""HTML that is escaped by default."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

import numpy as np

from anypca._words import listed, shorten

#: Names longer than this would break tables; the start and the end are kept.
_LONGEST = 60


class Markup(str):
    """Text that is HTML already; any other text is escaped where it enters a page."""

    __slots__ = ()


def render(value: object) -> Markup:
    """A value as HTML.

    Parameters
    ----------
    value : object
        `Markup` is kept; everything else is turned into text and escaped.

    Returns
    -------
    Markup
    """
    return value if isinstance(value, Markup) else Markup(escape(str(value), quote=True))


def tag(name: str, *children: object, **attributes: str) -> Markup:
    """An element.

    Parameters
    ----------
    name : str
        Name of the element; never from data.
    *children : object
        Its content, escaped unless `Markup`.
    **attributes : str
        Its attributes, escaped; a final underscore is dropped (``class_``), others become hyphens.

    Returns
    -------
    Markup
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value, quote=True)}"'
        for key, value in attributes.items()
    )
    return Markup(f"<{name}{written}>{''.join(map(render, children))}</{name}>")


def join(parts: Iterable[object]) -> Markup:
    """Several pieces, one after the other."""
    return Markup("\n".join(map(render, parts)))


def table(
    heads: Sequence[object], rows: Iterable[Sequence[object]], *, numeric: Sequence[int] = ()
) -> Markup:
    """A table.

    Parameters
    ----------
    heads : sequence
        Titles of the columns.
    rows : iterable of sequences
        Cells.
    numeric : sequence of int
        Columns that are aligned to the right.

    Returns
    -------
    Markup
    """
    kinds = [{"class_": "number"} if j in set(numeric) else {} for j in range(len(heads))]
    head = tag("tr", *(tag("th", cell, **kind) for cell, kind in zip(heads, kinds, strict=True)))
    body = [
        tag("tr", *(tag("td", cell, **kind) for cell, kind in zip(row, kinds, strict=True))) for row in rows
    ]
    whole = tag("table", tag("thead", head), tag("tbody", *body))
    return tag("div", whole, class_="table", tabindex="0")


def listing(items: Sequence[object]) -> Markup:
    """A list with bullets; nothing when it is empty."""
    return tag("ul", *(tag("li", item) for item in items)) if items else Markup("")


def figure(name: str, caption: object, *, label: str) -> Markup:
    """The place of a picture, which the script of the page draws.

    Parameters
    ----------
    name : str
        Its key among the figures of the page.
    caption : object
        What it shows and how to read it.
    label : str
        What it is, for readers that cannot see it.

    Returns
    -------
    Markup
    """
    place = tag("div", class_="plot", data_figure=name, role="img", aria_label=label)
    return tag("figure", place, tag("figcaption", caption))


def name_text(name: object) -> str:
    """A name on one line and of bounded length."""
    return shorten(name, _LONGEST)


def number(value: float) -> str:
    """Four significant digits; whole numbers in groups of three."""
    if not np.isfinite(value):
        return "–"
    if float(value).is_integer() and abs(value) < 1e12:
        return f"{int(value):,}".replace(",", "\N{NARROW NO-BREAK SPACE}").replace("-", "\N{MINUS SIGN}")
    return f"{value:.4g}".replace("-", "\N{MINUS SIGN}")


def plural(count: int, noun: str) -> str:
    """``1 row``, ``2 rows``."""
    return f"{number(count)} {noun}{'' if count == 1 else 's'}"


def with_values(names: Iterable[object], values: Iterable[str]) -> str:
    """Names for a sentence, each with a value in brackets."""
    return ", ".join(f"{name_text(name)} ({value})" for name, value in zip(names, values, strict=True))


def some(names: Sequence[object], most: int = 8) -> str:
    """A list of names for a sentence, cut after a few of them."""
    return listed(names, most, name_text)

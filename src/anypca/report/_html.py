"""The page and the HTML that it is made of, which is escaped by default."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from typing import Any

import numpy as np

from anypca._optional import optional
from anypca._words import listed, percent, shorten
from anypca.report._encode import to_json
from anypca.report._subject import Subject

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


@dataclass(frozen=True, eq=False)
class Section:
    """A question, its answer, and the pictures that belong to it."""

    key: str
    """Anchor of the section."""
    title: str
    short: str
    """Title in the table of contents."""
    body: Markup
    figures: dict[str, Any] = field(default_factory=dict)
    """Plotly dictionaries by the names that the body mentions."""


def build_page(subject: Subject, sections: Sequence[Section], rows: dict[str, Any] | None) -> str:
    """The whole report as HTML.

    Parameters
    ----------
    subject : Subject
    sections : sequence of Section
    rows : dict or None
        What the script needs to draw the rows; ``None`` when there is no component.

    Returns
    -------
    str
    """
    plotly, script = _plotly(), _asset("script.js")
    figures = {name: drawing for section in sections for name, drawing in section.figures.items()}
    body = join(
        [
            tag("header", tag("h1", subject.title), _tiles(subject)),
            tag("noscript", _without_script(subject)),
            *(tag("section", tag("h2", part.title), part.body, id=part.key) for part in sections),
        ]
    )
    return _asset("page.html").format(
        policy=_policy(plotly, script),
        title=render(subject.title),
        style=_asset("style.css"),
        contents=_contents(subject, sections),
        body=body,
        data=to_json({"figures": figures, "rows": rows}),
        plotly=plotly,
        script=script,
    )


def _policy(*scripts: str) -> str:
    """Only these two scripts may run and nothing may be fetched: whatever a table holds, it stays text."""
    # The page runs these scripts and loads nothing from elsewhere.
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"
        for text in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _plotly() -> str:
    with optional("the report", "plotly", "report"):
        from plotly.offline import get_plotlyjs
    # Browsers read line ends as \n before they compute the hash.
    return str(get_plotlyjs()).replace("\r\n", "\n").replace("\r", "\n")


def _asset(name: str) -> str:
    return resources.files("anypca.report").joinpath("assets", name).read_text(encoding="utf-8")


def _contents(subject: Subject, sections: Sequence[Section]) -> Markup:
    links = [tag("li", tag("a", part.short, href=f"#{part.key}")) for part in sections]
    return join([tag("p", f"anypca · {subject.name}"), tag("ol", *links)])


def _facts(subject: Subject) -> list[tuple[str, str]]:
    """The answers in a few words: what, and how much."""
    facts = subject.facts
    return [
        ("rows", number(facts.n_rows)),
        ("columns", number(facts.n_columns)),
        ("missing cells", percent(facts.missing_share)),
        ("components", number(subject.n_components)),
        ("explained deviance", percent(float(subject.description.explained.sum()))),
        ("converged", "yes" if subject.model.converged_ else "no"),
    ]


def _tiles(subject: Subject) -> Markup:
    tiles = [tag("div", tag("dt", what), tag("dd", value)) for what, value in _facts(subject)]
    return tag("dl", *tiles, class_="tiles")


def _without_script(subject: Subject) -> Markup:
    """What the pictures would have shown, in a sentence."""
    said = f"{subject.name} found {plural(subject.n_components, 'component')}"
    shares = ", ".join(percent(float(share)) for share in subject.description.explained[:10])
    told = f" with {shares} of the deviance" if subject.n_components else ""
    ended = "The fit converged." if subject.model.converged_ else "The fit did not converge."
    return tag(
        "p",
        f"JavaScript is off, so that the pictures are not drawn; tables and text are complete. {said}{told}. {ended}",
        class_="note",
    )

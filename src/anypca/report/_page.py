"""The page: one file with everything in it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources
from typing import Any

from anypca._optional import optional
from anypca._words import percent
from anypca.report._encode import to_json
from anypca.report._html import Markup, join, number, plural, render, tag
from anypca.report._section import Section
from anypca.report._subject import Subject


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

"""The page: a template, a style sheet, numbers and one script in a single file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any

import numpy as np

from anypca._optional import optional
from anypca._words import listed, percent, shorten
from anypca.columns import FamilyRecord
from anypca.report._encode import to_json

#: Longer names would break tables; the start and the end are kept.
_LONGEST = 60


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


def family_name(name: str) -> str:
    """A family in words."""
    return name.replace("_", " ")


def _lead(record: FamilyRecord) -> str:
    """By how much a family is ahead, if likelihoods decided."""
    if not np.isfinite(record.lead):
        return "–"
    return f"{record.lead:.1f}{' (unsure)' if record.is_unsure else ''}"


def _doubt(record: FamilyRecord) -> str:
    return f"{name_text(record.column)} ({family_name(record.family)}, {family_name(record.doubt)})"


_FILTERS = {
    "number": number,
    "plural": plural,
    "some": some,
    "percent": percent,
    "repr": repr,
    "name": name_text,
    "words": family_name,
    "lead": _lead,
    "doubt_text": _doubt,
}


def build_page(content: dict[str, Any], figures: dict[str, Any], rows: dict[str, Any] | None) -> str:
    """The whole report as HTML.

    Parameters
    ----------
    content : dict
        Variables of the template, which escapes all of them.
    figures : dict
        Pictures by the names that the template mentions.
    rows : dict or None
        Data of the scatter plot; None if there is no component.

    Returns
    -------
    str
    """
    with optional("the report", "jinja2", "report"):
        from jinja2 import Environment, FunctionLoader, StrictUndefined
        from markupsafe import Markup
    environment = Environment(
        loader=FunctionLoader(_asset),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters.update(_FILTERS)
    script = _asset("script.js")
    trusted = {
        "policy": _policy(script),
        "style": _asset("style.css"),
        "script": script,
        "data": to_json({"figures": figures, "rows": rows}),
    }
    return environment.get_template("page.html").render(
        content,
        figures=figures.keys(),
        **{name: Markup(text) for name, text in trusted.items()},
    )


def _policy(script: str) -> str:
    """Only this script may run and nothing may be fetched: names and cells of a table stay text."""
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _asset(name: str) -> str:
    # Browsers read line ends as \n before they compute the hash of the script.
    text = resources.files("anypca.report").joinpath("assets", name).read_text(encoding="utf-8")
    return text.replace("\r\n", "\n")

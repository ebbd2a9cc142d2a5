"""The families of the registry in the documents: an overview, and what opens the page of each.

A new family is there without a line here; formula, choice under ``"auto"`` and what to use instead are its docstring's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anypca.columns import column_forms
from anypca.families import Family, families

_HEAD = """Families
========

What a column can be, by the names that ``family=`` and ``--family`` take; each has a page with its formula, when it is
chosen, an example and what to use instead.
``family="auto"`` :doc:`chooses <auto>`; :doc:`which_model` says what is for what.

.. list-table::
   :header-rows: 1

   * - name
     - what it is
     - values
     - link
     - dispersion
"""
_PAGE = """:Name: ``"{text}"``
:Values: {values}
:Link: {link}
:Dispersion: {dispersion}

.. code-block:: python

   from anypca import SePCA
   model = SePCA(family={{"{column}": "{text}"}}).fit(table)
   filled = model.impute(table)

Other columns are what ``"auto"`` takes them for. On the command line: ``--family '{column}={text}'``. {everywhere}
:doc:`All families </families>`; :doc:`how one is chosen </auto>`; the formula, and what to use instead:
"""
#: Of families that must be told a number: with one.
_TEXTS = {"binomial": "binomial(20)", "beta_binomial": "beta_binomial(20)"}
#: A column that a family is for, for the examples.
_COLUMNS = {
    "bernoulli": "smoker",
    "beta_binomial": "points",
    "binomial": "points",
    "excluded": "number",
    "exponential": "waiting time",
    "gamma": "cost",
    "gaussian": "height",
    "hurdle_negative_binomial": "visits",
    "hurdle_poisson": "visits",
    "log_normal": "income",
    "logit_normal": "share",
    "negative_binomial": "visits",
    "nominal": "region",
    "ordinal": "answer",
    "poisson": "visits",
    "scaled_poisson": "visits",
    "student_t": "change",
    "truncated_negative_binomial": "group size",
    "truncated_poisson": "group size",
    "tweedie": "rain",
    "zero_inflated_gamma": "rain",
    "zero_inflated_log_normal": "catch",
    "zero_inflated_negative_binomial": "visits",
    "zero_inflated_poisson": "visits",
}
_DISPERSIONS = {None: "none", "scale": "a scale", "shape": "a shape"}


def _classes() -> list[Any]:
    return [*(families[name] for name in families), *(column_forms[name] for name in column_forms)]


def draw() -> str:
    """The table of all families."""
    pages = []
    for package in ("families", "columns"):
        names = "\n".join(
            f"   {each.__name__}" for each in _classes() if _path(each).split(".")[1] == package
        )
        pages.append(
            f".. currentmodule:: anypca.{package}\n\n.. autosummary::\n   :toctree: generated\n\n{names}\n"
        )
    return "\n".join(pages)


def draw_overview() -> str:
    """A line for each family: what for, values, link, dispersion."""
    return _HEAD + "".join(map(_line, _classes()))


def draw_openings() -> dict[str, str]:
    """What comes before the docstring on the page of each family, by the full name of its class."""
    return {_path(each): _opening(each) for each in _classes()}


def _opening(each: Any) -> str:
    text, column = _text(each), _COLUMNS.get(each.name, "column")
    is_dropped = not issubclass(each, Family) and each.examples()[0].is_dropped
    everywhere = "" if is_dropped else f'For all columns: ``family="{text}"``.'
    return _PAGE.format(text=text, column=column, everywhere=everywhere, **_facts(each))


def _line(each: Any) -> str:
    summary = (each.__doc__ or "").strip().partition("\n\n")[0]
    cells = [_link(each), " ".join(summary.split()), *_facts(each).values()]
    return "".join(f"   {'*' if not place else ' '} - {cell}\n" for place, cell in enumerate(cells))


def _facts(each: Any) -> dict[str, str]:
    """Values, link and dispersion in words; those of a form are of the columns that it enters as."""
    if issubclass(each, Family):
        family = families.create(_text(each))
        noun = "whole numbers" if family.is_discrete else "numbers"
        values, parts = family.support.replace("values", noun), [family]
    else:
        parts = each.examples()[0].parts
        names = dict.fromkeys(_link(type(part)) for part in parts)
        values = f"enters as {' and '.join(names)}" if names else "any"
    return {
        "values": values,
        "link": ", ".join(dict.fromkeys(part.link_kind for part in parts)) or "none",
        "dispersion": _DISPERSIONS[parts[-1].dispersion_kind if parts else None],
    }


def _text(each: Any) -> str:
    return _TEXTS.get(each.name, str(each.name))


def _link(each: Any) -> str:
    return f":py:obj:`{each.name} <{_path(each)}>`"


def _path(each: Any) -> str:
    return f"{each.__module__.rpartition('.')[0]}.{each.__name__}"


def write(path: Path) -> None:
    """Store the table, and the overview in the folder above; an unchanged file keeps its date."""
    for place, text in ((path, draw()), (path.parent.parent / "families.rst", draw_overview())):
        if not place.is_file() or place.read_text() != text:
            place.write_text(text)

"""The families of the registry as a part of the reference, so that a new family is listed without a line there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anypca.families import Family, column_forms, families

_HEAD = """Families
========

What a column can be, by the names that ``family=`` and ``--family`` take; each has a page with its formula and an
example.
``family="auto"`` :doc:`chooses <auto>`; :doc:`which_model` says what is for what.

.. list-table::
   :header-rows: 1

   * - name
     - what it is
     - values
     - link
     - dispersion
"""


def _classes() -> list[Any]:
    return [*(families[name] for name in families), *(column_forms[name] for name in column_forms)]


def draw() -> str:
    """The table of all families."""
    names = "\n".join(f"   {each.__name__}" for each in _classes())
    return f".. currentmodule:: anypca.families\n\n.. autosummary::\n   :toctree: generated\n\n{names}\n"


def draw_overview() -> str:
    """A line for each family: what for, values, link, dispersion."""
    return _HEAD + "".join(map(_line, _classes()))


def _line(each: Any) -> str:
    summary = (each.__doc__ or "").strip().partition("\n\n")[0]
    first = " ".join(summary.split())
    is_family = issubclass(each, Family)
    facts = [
        f":py:obj:`{each.name} <anypca.families.{each.__name__}>`",
        first,
        str(each.examples()[0].support) if is_family else "as its parts",
        str(getattr(each, "link_kind", "")) if is_family else "",
        str(getattr(each, "dispersion_kind", None) or "none") if is_family else "",
    ]
    return "".join(f"   {'*' if not place else ' '} - {fact}\n" for place, fact in enumerate(facts))


def write(path: Path) -> None:
    """Store the table, and the overview in the folder above; an unchanged file keeps its date."""
    for place, text in ((path, draw()), (path.parent.parent / "families.rst", draw_overview())):
        if not place.is_file() or place.read_text() != text:
            place.write_text(text)

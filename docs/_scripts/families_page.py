"""The families of the registry as a part of the reference, so that a new family is listed without a line there."""

from __future__ import annotations

from pathlib import Path

from anypca.families import column_forms, families


def draw() -> str:
    """The table of all families."""
    classes = [*(families[name] for name in families), *(column_forms[name] for name in column_forms)]
    names = "\n".join(f"   {each.__name__}" for each in classes)
    return f".. currentmodule:: anypca.families\n\n.. autosummary::\n   :toctree: generated\n\n{names}\n"


def write(path: Path) -> None:
    """Store the table; an unchanged file keeps its date, so that its pages are not built again."""
    text = draw()
    if not path.is_file() or path.read_text() != text:
        path.write_text(text)

"""A part of the report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from anypca.report._html import Markup


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

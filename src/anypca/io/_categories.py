"""Columns of text with few labels, and declared categories, as numbers of their labels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from anypca._words import counted
from anypca.columns import are_names
from anypca.columns.encoding import labels_of, number_cells, read_cells
from anypca.columns.labels import Labels
from anypca.io._classify import Column, is_text_reason, strip_cells


def with_categories(column: Column, cells: Any, *, is_kept: bool) -> Column:
    """A column with the numbers of its labels, where it holds text of few kinds or categories.

    Parameters
    ----------
    column : Column
        As classified.
    cells : pandas.Series
        Its cells.
    is_kept : bool
        Whether a user insists on it, however many labels there are.

    Returns
    -------
    column : Column
        The same if it holds something else; without numbers, and with the reason, if its labels are names.
    """
    is_declared = hasattr(cells.dtype, "categories")
    if not is_declared and not (column.values is None and is_text_reason(column.reason)):
        return column
    text = cells if is_declared else strip_cells(cells)
    labels = labels_of(text)
    if labels is None:
        return column
    count = len(labels.levels)
    if count == 1 and not is_kept:
        return replace(column, values=None, reason="it has one value only")
    if are_names(labels, int(text.notna().sum())) and not is_kept:
        return replace(column, values=None, reason=f"it holds {count} different texts: names or free text")
    found = number_cells(read_cells(text.to_frame(), 0), labels, column.name)
    return replace(column, values=found, categories=labels, note=_say(labels), numbers=None)


def _say(labels: Labels) -> str:
    if labels.is_ordered:
        return f"read as ordered labels: {labels}"
    if len(labels.levels) == 2:
        return f"read as two labels: {labels.text(0)} = 0, {labels.text(1)} = 1"
    return f"read as {counted(len(labels.levels), 'label')}: {labels}"

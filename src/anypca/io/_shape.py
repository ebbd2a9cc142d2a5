"""Tables that lie on their side, and rows of sums below the data."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from anypca._words import counted, quoted
from anypca.io.frame import Frame, describe_missing

#: What the first column of a table is called if its rows are taxa or other features and its columns samples.
FEATURES = re.compile(
    r"#?\s*(?:otu|asv|zotu|feature|taxon)(?:[ _.-]?(?:(?P<id>ids?)|name))?|taxa|taxonomy", re.IGNORECASE
)
_TOTAL = re.compile(r"(grand |sub)?totals?|sums?|summe|gesamt|insgesamt|somme|overall|all|Σ", re.IGNORECASE)
_MEAN = re.compile(r"means?|averages?|avg|mittel(wert)?|durchschnitt|moyenne", re.IGNORECASE)
#: A number, however it is written.
_NUMBER = r"[-+]?\d[\d.,' ]*"
#: Sums of rounded numbers agree to about the first; sums without a name agree to the second and have so many terms.
_ROUNDED, _EXACT, _LEAST_SUMMED = 1e-3, 1e-9, 4


def turn(frame: Frame, why: str = "") -> Frame:
    """A table with its columns as rows.

    Parameters
    ----------
    frame : Frame
        Its extras are lost: they would describe columns.
    why : str
        Added to the note.

    Returns
    -------
    frame : Frame
    """
    values = sparse.csr_array(frame.values.T) if frame.is_sparse else np.ascontiguousarray(frame.values.T)
    lost = f"; left out: {quoted(list(frame.extras))}" if frame.extras else ""
    before = describe_missing(frame.values, frame.column_names)
    said = [note for note in frame.notes if note not in before]
    notes = (*said, f"the table is turned, so that its columns are rows{why}{lost}")
    turned = replace(
        frame, values=values, column_names=frame.row_names, row_names=frame.column_names, extras={}
    )
    return replace(turned, notes=(*notes, *describe_missing(values, turned.column_names)))


def find_totals(table: Any, columns: list[Any]) -> tuple[int, str]:
    """The number of rows above a last row of sums or means of the others, and a note on that row.

    Parameters
    ----------
    table : pandas.DataFrame
    columns : list of ndarray of shape (n_rows,)
        The columns of numbers.

    Returns
    -------
    n_rows : int
        Rows above the sums; lines of text below them, such as a source, are no data either.
    note : str
        Empty if there are no sums.
    """
    values = np.array(columns).reshape(len(columns), len(table)).T
    has_numbers = np.flatnonzero(np.isfinite(values).any(axis=1))
    if not has_numbers.size:
        return len(table), ""
    last = end = int(has_numbers[-1])
    # Sums may stand above means: both are of the rows above both.
    while end > 1 and _word_of(table.iloc[end - 1]) and _word_of(table.iloc[last]):
        end -= 1
    notes = [_say_totals(table, values, row, end) for row in range(end, last + 1)]
    if not all(notes):
        return len(table), ""
    note, below = "; ".join(notes), len(table) - last - 1
    return end, f"{note}, with {counted(below, 'row')} below" if below else note


def _word_of(cells: Any) -> str | None:
    """The word that says that a row holds sums or means."""
    labels = (str(cell).strip() for cell in cells if isinstance(cell, str))
    return next((text for text in labels if _TOTAL.fullmatch(text) or _MEAN.fullmatch(text)), None)


def _say_totals(table: Any, values: Any, row: int, end: int) -> str:
    cells, others = table.iloc[row], values[:end]
    known = np.isfinite(values[row])
    found, sums = values[row][known], np.nansum(others[:, known], axis=0)
    word = _word_of(cells)
    if word is None:
        is_sum = np.isclose(found, sums, rtol=_EXACT, atol=0).all() and np.count_nonzero(sums) >= 2
        has_text = any(isinstance(cell, str) for cell in cells)
        is_certain = is_sum and end >= _LEAST_SUMMED and not has_text
        return "the last row left out: it holds sums of the others" if is_certain else ""
    is_mean = _MEAN.fullmatch(word) is not None
    expected = sums / np.maximum(np.isfinite(others[:, known]).sum(axis=0), 1) if is_mean else sums
    if end >= 2 and 2 * np.isclose(found, expected, rtol=_ROUNDED, atol=0).sum() >= max(1, found.size):
        return f"the last row ({word!r}) left out: it holds {'means' if is_mean else 'sums'} of the others"
    # Sums of rows that are not in the file; a shop may be called so too, but not where others have numbers.
    place = next(i for i, cell in enumerate(cells) if isinstance(cell, str) and cell.strip() == word)
    above = table.iloc[:end, place].dropna().astype(str).str.strip()
    is_called = end >= 2 and len(above) and above.str.fullmatch(_NUMBER).all()
    return f"the last row left out: it is called {word!r} where the others have numbers" if is_called else ""

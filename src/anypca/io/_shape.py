"""Tables that lie on their side, and rows of sums below the data."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from anypca._words import counted, quoted
from anypca.io._classify import Column
from anypca.io.frame import Frame, describe_missing

#: What the first column of a table is called whose rows are taxa or other features and whose columns are samples.
_FEATURES = re.compile(r"#?\s*(otu|asv|zotu|feature|taxon)[ _.-]?(id|ids|name)?|taxa|taxonomy", re.IGNORECASE)
_NUMBERED_FEATURES = re.compile(r"#?\s*(otu|asv|zotu|feature|taxon)[ _.-]?ids?", re.IGNORECASE)
_TOTAL = re.compile(r"(grand |sub)?totals?|sums?|summe|gesamt|insgesamt|somme|overall|all|Σ", re.IGNORECASE)
_MEAN = re.compile(r"means?|averages?|avg|mittel(wert)?|durchschnitt|moyenne", re.IGNORECASE)
#: A number, however it is written.
_NUMBER = r"[-+]?\d[\d.,' ]*"
#: Sums of rounded numbers agree to about this.
_ROUNDED = 1e-3
#: Sums that are not called so agree to this, and have at least so many terms.
_EXACT, _LEAST_SUMMED = 1e-9, 4


def is_turned(namer: Column) -> bool:
    """Whether the column of row names says that rows are features and columns are samples.

    Parameters
    ----------
    namer : Column

    Returns
    -------
    bool
    """
    names = _FEATURES if namer.values is None else _NUMBERED_FEATURES
    return namer.labels is not None and bool(names.fullmatch(namer.name.strip()))


def turn(frame: Frame, why: str = "") -> Frame:
    """A table with its columns as rows.

    Parameters
    ----------
    frame : Frame
        What is known of its rows is lost: it would be of columns.
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


def find_totals(table: Any, used: list[Column]) -> tuple[int, str]:
    """Where the data end if the last row of numbers holds sums or means of the others, and a note on that.

    Parameters
    ----------
    table : pandas.DataFrame
    used : list of Column
        The columns of numbers.

    Returns
    -------
    n_rows : int
        Rows above the sums; lines of text below them, such as a source, are no data either.
    note : str
        Empty if there are no sums.
    """
    values = np.array([column.values for column in used]).reshape(len(used), len(table)).T
    has_numbers = np.flatnonzero(np.isfinite(values).any(axis=1))
    if not has_numbers.size:
        return len(table), ""
    last = end = int(has_numbers[-1])
    # Sums may stand above means: both are of the rows above both.
    while end > 1 and _word_of(table.iloc[end - 1]) and _word_of(table.iloc[last]):
        end -= 1
    notes = [
        _say_totals(table.iloc[row], values[row], values[:end], table.iloc[:end])
        for row in range(end, last + 1)
    ]
    if not all(notes):
        return len(table), ""
    note, below = "; ".join(notes), len(table) - last - 1
    return end, f"{note}, with {counted(below, 'row')} below" if below else note


def _word_of(cells: Any) -> str | None:
    """The word that says that a row holds sums or means."""
    labels = (str(cell).strip() for cell in cells if isinstance(cell, str))
    return next((text for text in labels if _TOTAL.fullmatch(text) or _MEAN.fullmatch(text)), None)


def _say_totals(cells: Any, last: Any, others: Any, above: Any) -> str:
    word = _word_of(cells)
    if len(others) < 2 or (word is None and any(isinstance(cell, str) for cell in cells)):
        return ""
    if word is None:
        return "the last row left out: it holds sums of the others" if _are_sums(last, others) else ""
    is_mean = _MEAN.fullmatch(word) is not None
    expected = np.nansum(others, axis=0) / (np.maximum(np.isfinite(others).sum(axis=0), 1) if is_mean else 1)
    agrees = np.isclose(last, expected, rtol=_ROUNDED, atol=0) & np.isfinite(last)
    if 2 * agrees.sum() < max(1, np.isfinite(last).sum()):
        # Sums of rows that are not in the file; a shop may be called so too, but not where others have numbers.
        is_called = _stands_among_numbers(word, cells, above)
        return (
            f"the last row left out: it is called {word!r} where the others have numbers" if is_called else ""
        )
    return f"the last row ({word!r}) left out: it holds {'means' if is_mean else 'sums'} of the others"


def _stands_among_numbers(word: str, cells: Any, above: Any) -> bool:
    """Whether the rows above have numbers where a row has a word."""
    place = next(i for i, cell in enumerate(cells) if isinstance(cell, str) and cell.strip() == word)
    others = above.iloc[:, place].dropna().astype(str).str.strip()
    return bool(len(others)) and bool(others.str.fullmatch(_NUMBER).all())


def _are_sums(last: Any, others: Any) -> bool:
    """Whether numbers without a name are sums, which one or rounded ones may be by chance."""
    known = np.isfinite(last)
    expected = np.nansum(others[:, known], axis=0)
    agrees = np.isclose(last[known], expected, rtol=_EXACT, atol=0)
    return bool(len(others) >= _LEAST_SUMMED and np.count_nonzero(expected) >= 2 and agrees.all())

"""Compact, escaped data for the script of the page."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np

from anypca._typing import Floats
from anypca._words import shorten
from anypca.columns.groups import NOT_KNOWN, rows_of_groups

#: One byte per cell; the last code marks a missing cell.
MISSING = 255
#: Categories beyond these share one name: a legend of more cannot be read.
_MOST_LEVELS = 24
#: Whole numbers with at most this many values are categories: class labels among the metadata, yes and no among the
#: columns, whose counts have an order that a scale shows better.
_FEW = {"metadata": 12}
_FEW_ELSEWHERE = 2
#: Characters of a name in a tooltip; a wider one leaves the screen.
_LONGEST = 80


def to_json(value: Any) -> str:
    """JSON that may stand inside a ``<script>`` element.

    Parameters
    ----------
    value : object
        Lists, dicts, strings, numbers; NaN and infinities are refused.

    Returns
    -------
    str
        ASCII, without ``<``, ``>`` and ``&``: no text in it can close the element or open a comment.
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def short_name(value: object) -> str:
    """Shorten a name to one line of bounded length for the page's script."""
    return shorten(value, _LONGEST)


def rounded(values: Any, digits: int = 5) -> list[float | None]:
    """Round numbers to a few significant digits; infinite and undefined numbers become null."""
    return [float(f"{v:.{digits}g}") if np.isfinite(v) else None for v in np.ravel(values)]


def encode_scores(scores: Floats) -> list[dict[str, Any]]:
    """Encode each column with 16 bits between its extremes, finer than the resolution of a screen.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_components)

    Returns
    -------
    list of dict
        ``low``, ``step`` and ``codes`` (base64 of little-endian uint16) of each column.
    """
    columns = []
    for values in scores.T:
        low, high = float(values.min()), float(values.max())
        # Sixteen bits a score: no screen shows the error.
        step = (high - low) / 65535.0
        codes = np.rint((values - low) / (step or 1.0)).astype("<u2")
        columns.append({"low": low, "step": step, "codes": _base64(codes)})
    return columns


def encode_column(name: str, group: str, values: np.ndarray[Any, Any]) -> dict[str, Any]:
    """A column to colour by, one byte per row.

    Parameters
    ----------
    name, group : str
        Name of the column, and heading of its group.
    values : ndarray of shape (n_rows,)
        Numbers or anything that has a text.

    Returns
    -------
    dict
        ``kind`` is ``"number"`` or ``"category"``; ``levels[codes[i]]`` is the value of row i, approximately when
        ``exact`` is False (255 levels of equally many rows).
    """
    numbers = _as_numbers(values, _FEW.get(group, _FEW_ELSEWHERE))
    if numbers is None:
        found = _categories(values)
    else:
        found = _numbers(numbers)
    codes = _base64(found.pop("codes").astype(np.uint8))
    return {"name": short_name(name), "group": group, "codes": codes, **found}


def _as_numbers(values: np.ndarray[Any, Any], few: int) -> Floats | None:
    """The values as floats, or ``None`` to show them as categories."""
    if values.dtype.kind == "O":
        kinds = {type(v) for v in values if not _is_missing(v)}
        if not kinds or not all(issubclass(k, int | float | np.number) for k in kinds) or bool in kinds:
            return None
        values = np.array([np.nan if _is_missing(v) else v for v in values], dtype=float)
    if values.dtype.kind not in "iuf":
        return None
    numbers = values.astype(float)
    numbers = np.where(np.isfinite(numbers), numbers, np.nan)
    seen = numbers[~np.isnan(numbers)]
    is_label = len(np.unique(seen)) <= few and bool((seen == np.floor(seen)).all())
    return None if is_label else numbers


def _numbers(values: Floats) -> dict[str, Any]:
    seen = ~np.isnan(values)
    levels, inverse = np.unique(values[seen], return_inverse=True)
    exact = len(levels) <= MISSING
    if not exact:  # bins of equally many rows keep the detail where the rows are; each shows its middle one
        order = np.argsort(values[seen], kind="stable")
        bins = np.arange(len(order)) * MISSING // len(order)
        inverse = np.empty(len(order), dtype=int)
        inverse[order] = bins
        middle = (2 * np.arange(MISSING) + 1) * len(order) // (2 * MISSING)
        levels = values[seen][order[middle]]
    codes = np.full(len(values), MISSING)
    codes[seen] = inverse
    return {
        "kind": "number",
        "levels": rounded(levels, 4 if not exact else 6),
        "exact": exact,
        "codes": codes,
    }


def _categories(values: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Levels and codes of groups; rare ones share a code."""
    known = np.array([None if _is_missing(value) else value for value in values], dtype=object)
    codes = np.full(len(values), MISSING)
    levels: list[str] = []
    for name, rows in rows_of_groups(known, _MOST_LEVELS, longest=_LONGEST):
        if name != NOT_KNOWN:
            codes[rows] = len(levels)
            levels.append(name)
    return {"kind": "category", "levels": levels, "exact": True, "codes": codes}


def _is_missing(value: Any) -> bool:
    """None, NaN and NaT; pandas' NA, whose comparisons have no truth value, is known by its name."""
    if value is None or str(value) in {"<NA>", "NaT"}:
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def _base64(codes: np.ndarray[Any, Any]) -> str:
    return base64.b64encode(codes.tobytes()).decode("ascii")

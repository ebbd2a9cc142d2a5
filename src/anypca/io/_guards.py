"""Whole numbers that are no amounts: labels of rows, years, and codes for missing values.

All of it are plain functions of a column's name and numbers.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from anypca.io._hints import FIRST_YEAR, LAST_YEAR, YEAR, is_label

#: Rows from which on a complete range numbers them, if they are sorted, and in any order.
_LEAST_RUNNING, _LEAST_RANGE = 8, 15
#: Codes for missing that people write: nines, and beside them eights, sevens and the like.
_NINES = frozenset({9.0, 99.0, 999.0, 9999.0, 99999.0, 999999.0, 9999999.0})
_BESIDE = frozenset({7.0, 8.0, 77.0, 88.0, 97.0, 98.0, 777.0, 888.0, 997.0, 998.0, 9997.0, 9998.0})
#: Answers to a question have at most this many values; among them a single cell of 99 is a code.
_FEW_VALUES = 12
#: How far from the others, in units of their range, a code is: 99 is one beside answers from 1 to 6, not beside ages.
_FAR = 2.0
#: Names of moments, and when seconds since 1970 are recent: from 1990 to 2040.
_MOMENT = re.compile(r"date|time|stamp|epoch|unix|created|updated|modified|_at$", re.IGNORECASE)
_FIRST_SECOND, _LAST_SECOND = 631152000.0, 2208988800.0
#: Cells from which on a number can be said to stand apart.
_LEAST_CELLS = 8


def say_no_amount(name: str, values: Any) -> str:
    """Why the numbers of a column are no amounts; empty if nothing speaks against it.

    Parameters
    ----------
    name : str
    values : ndarray of shape (n_rows,)
        NaN where missing.

    Returns
    -------
    reason : str
    """
    found = values[np.isfinite(values)]
    if found.size < 2 or np.any(found != np.floor(found)) or np.all(found == found[0]):
        return ""
    if YEAR.search(name) and found.min() >= FIRST_YEAR and found.max() <= LAST_YEAR:
        return "it holds years"
    if _are_days(found):
        return "it holds dates"
    if _MOMENT.search(name) and _are_moments(found):
        return "it holds moments, as seconds since 1970"
    # Few values may be answers or counts, whatever they are called.
    if is_label(name) and len(np.unique(found)) > min(_FEW_VALUES, found.size / 2):
        return "its name says that it labels rows"
    is_range = len(np.unique(found)) == found.size == found.max() - found.min() + 1
    is_sorted = bool(np.all(np.diff(found) > 0) or np.all(np.diff(found) < 0))
    if is_range and found.size >= (_LEAST_RUNNING if is_sorted else _LEAST_RANGE):
        return "it numbers the rows"
    return ""


def _are_days(found: Any) -> bool:
    """Whether whole numbers are days such as 20210304."""
    years, days = found // 10000, found % 10000
    months, days = days // 100, days % 100
    is_possible = (months >= 1) & (months <= 12) & (days >= 1) & (days <= 31)
    return bool(np.all((years >= FIRST_YEAR) & (years <= LAST_YEAR) & is_possible))


def _are_moments(found: Any) -> bool:
    """Whether whole numbers may be seconds since 1970, or thousandths to thousand-millionths of them."""
    return any(
        found.min() / unit >= _FIRST_SECOND and found.max() / unit <= _LAST_SECOND
        for unit in (1.0, 1e3, 1e6, 1e9)
    )


def find_codes(values: Any) -> tuple[float, ...]:
    """Numbers such as 99 or -9 that stand for missing values in a column.

    Parameters
    ----------
    values : ndarray of shape (n_rows,)
        NaN where missing.

    Returns
    -------
    codes : tuple of float
        Empty if there are none.
    """
    found, counts = np.unique(values[np.isfinite(values)], return_counts=True)
    if found.size < 3 or counts.sum() < _LEAST_CELLS:
        return ()
    # Below zero there may be values, of which a code stands as far away as above it.
    low = tuple(-code for code in _large_codes(-found[::-1], counts[::-1])[::-1])
    return _negative_codes(found) or _large_codes(found, counts) or low


def _negative_codes(found: Any) -> tuple[float, ...]:
    """The negative numbers of a column that has no others below zero."""
    negative = found[found < 0]
    is_code = [-value in _NINES | _BESIDE | {1.0, 2.0} for value in negative]
    if not negative.size or negative.size == found.size or not all(is_code):
        return ()
    has_nines = any(-value in _NINES for value in negative)
    rest = found[found >= 0]
    # -9 beside 3.5 may be a measurement; -999 is not.
    is_far = np.all(rest == np.floor(rest)) or -negative.min() > _FAR * (rest.max() + 1.0)
    return tuple(map(float, negative)) if has_nines and is_far and rest.size > 1 else ()


def _large_codes(found: Any, counts: Any) -> tuple[float, ...]:
    """Nines, and what stands beside them, far above all other numbers."""
    if found[-1] not in _NINES:
        return ()
    top = found.size
    while top > 2 and found[top - 1] in _NINES | _BESIDE:
        top -= 1
    # 7 is a code beside 9 among answers from 1 to 3, and an answer where the code is 99.
    for first in range(top, found.size):
        rest, codes = found[:first], found[first:]
        is_far = codes[0] - rest[-1] > _FAR * (rest[-1] - rest[0])
        is_certain = len(rest) <= _FEW_VALUES or counts[-1] > 1
        if is_far and is_certain:
            return tuple(map(float, codes))
    return ()

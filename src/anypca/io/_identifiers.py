"""Columns of numbers that are not amounts: identifiers, years, dates, codes of categories, and codes for missing cells.

This is the only place in the package that interprets the names of columns.
"""

from __future__ import annotations

import re

import numpy as np

from anypca._typing import Floats, Ints

#: Different numbers from which on a column that is called like an identifier is one; fewer are groups of rows.
_FEW_VALUES = 12
#: Different numbers that codes of categories have at most: the districts, jobs or sites of a study.
_MOST_CODES = 30
#: Rows from which on sorted running numbers, and numbers that fill a range, identify the rows.
_LEAST_RUNNING, _LEAST_RANGE = 8, 15
#: Rows from which on numbers that never repeat are judged, and the repetitions expected of amounts that close together:
#: none is seen with a chance of exp(-5), 0.7 %.
_LEAST_ROWS, _EXPECTED_TIES = 20, 5.0
#: Distance, in steps, of the pairs from which the expected number of equal pairs is extrapolated.
_NEAR = 8
#: Years lie in this range.
_FIRST_YEAR, _LAST_YEAR = 1500, 2100
#: Recent seconds since 1970: from 1990 to 2040.
_FIRST_SECOND, _LAST_SECOND = 631152000.0, 2208988800.0
#: Different numbers with leading zeros that can be parts of dates: days of a month and fewer.
_MOST_DAYS = 31
#: Codes for missing cells: nines, and the numbers that occur together with them.
_NINES = frozenset(10.0**digits - 1 for digits in range(1, 8))
_BESIDE = frozenset({7.0, 8.0, 77.0, 88.0, 97.0, 98.0, 777.0, 888.0, 997.0, 998.0, 9997.0, 9998.0})
#: Distance of a code from the other numbers in units of their range, and cells from which on it is judged.
_FAR, _LEAST_CELLS = 2.0, 8

_START = r"(^|[._\- ])"
_IDENTIFIER = re.compile(
    _START + r"(id|idno|idnum|pid|subj(ect)?|obs|obsno|case|caseid|caseno|rownames?|row|serial|seq|seqno|"
    r"seqn|zip|zipcode|fips|key|uid|uuid|ssn|ids|nr|rowid|postcode|plz|phone|barcode)$|[a-z]id$"
    r"|^(index|idx)$|^(zip|postal|post)[._\- ]?codes?$|^(patient|person|individual)(id|no|num|nr)?$"
    r"|(subject|respondent|participant|customer|user|case)(no|num|nr)$",
    re.IGNORECASE,
)
_NO_IDENTIFIER = re.compile(
    r"(covid|acid|rapid|solid|fluid|thyroid|valid|humid|grid|paid|aid|bid|mid|kid|liquid|resid)$",
    re.IGNORECASE,
)
_YEAR = re.compile(_START + r"(year|yr|date|season|jahr|birthyear|yob|born)s?$|^(year|yr)", re.IGNORECASE)
_MOMENT = re.compile(r"date|time|stamp|epoch|unix|created|updated|modified|_at$", re.IGNORECASE)
_CATEGORY = re.compile(
    _START
    + r"(code|type|group|grp|region|state|county|country|race|ethnic\w*|site|treat\w*|trt|block|batch|cluster|plot|"
    r"school|hospital|clinic|center|centre|class|cat|category|species|ship|firm|industry|occ\w*|religion|party|"
    r"marital\w*|stratum|strata|lab|rep|sector|province|district|job|month|mon|quarter|qtr|weekday|wday|dow)$",
    re.IGNORECASE,
)


def why_no_amount(name: str, values: Floats, *, is_padded: bool = False) -> str:
    """Why the numbers of a column are not amounts; empty if they may be.

    Parameters
    ----------
    name : str
    values : ndarray of shape (n_rows,)
        NaN where missing.
    is_padded : bool
        Whether leading zeros give all numbers of the file as many digits.

    Returns
    -------
    reason : str
    """
    found = values[np.isfinite(values)]
    if found.size < 2 or np.any(found != np.floor(found)) or np.all(found == found[0]):
        return ""
    different = np.unique(found)
    if is_padded and len(different) > _MOST_DAYS:
        return "its numbers have zeros before them, as labels have"
    if _YEAR.search(name) and different[0] >= _FIRST_YEAR and different[-1] <= _LAST_YEAR:
        return "it holds years"
    if _are_days(different):
        return "it holds dates"
    if _MOMENT.search(name) and _are_moments(different):
        return "it holds moments, as seconds since 1970"
    # Few values may be answers or counts, whatever the column is called.
    if is_identifier(name) and len(different) > min(_FEW_VALUES, found.size / 2):
        return "its name says that it labels rows"
    if len(different) < found.size:
        return ""
    steps = np.diff(found)
    is_sorted = bool(np.all(steps > 0) or np.all(steps < 0))
    is_range = found.size == different[-1] - different[0] + 1
    if is_range and found.size >= (_LEAST_RUNNING if is_sorted else _LEAST_RANGE):
        return "it numbers the rows"
    if found.size >= _LEAST_ROWS and _expected_ties(different) >= _EXPECTED_TIES:
        return "every row has another whole number, closer together than amounts are without two being equal"
    return ""


def is_category(name: str, values: Floats) -> bool:
    """Whether whole numbers are codes of categories by the name of their column.

    Parameters
    ----------
    name : str
    values : ndarray of shape (n_rows,)
        NaN where missing.

    Returns
    -------
    bool
    """
    if not (_CATEGORY.search(name) or is_identifier(name)):
        return False
    different = np.unique(values[np.isfinite(values)])
    is_whole = bool(np.all(different == np.floor(different)))
    return is_whole and 2 < len(different) <= (_FEW_VALUES if is_identifier(name) else _MOST_CODES)


def may_identify(values: Floats) -> bool:
    """Whether a column has another whole number in every row, and enough rows for this to be noticed."""
    found = values[np.isfinite(values)]
    is_whole = found.size >= _LEAST_ROWS and not np.any(found != np.floor(found))
    return bool(is_whole and len(np.unique(found)) == found.size)


def is_identifier(name: str) -> bool:
    """Whether the name of a column says that it identifies rows."""
    return bool(_IDENTIFIER.search(name)) and not _NO_IDENTIFIER.search(name)


def _are_days(different: Floats) -> bool:
    """Whether whole numbers are days such as 20210304."""
    years, months, days = different // 10000, different // 100 % 100, different % 100
    is_possible = (months >= 1) & (months <= 12) & (days >= 1) & (days <= 31)
    return bool(np.all((years >= _FIRST_YEAR) & (years <= _LAST_YEAR) & is_possible))


def _are_moments(different: Floats) -> bool:
    """Whether whole numbers may be seconds since 1970, or thousandths to thousand-millionths of them."""
    return any(
        different[0] / unit >= _FIRST_SECOND and different[-1] / unit <= _LAST_SECOND
        for unit in (1.0, 1e3, 1e6, 1e9)
    )


def _expected_ties(different: Floats) -> float:
    """How many pairs of sorted whole numbers would be equal if the numbers fell where they are by chance.

    If the density is smooth, differences of 0 are as frequent as differences of 1 or -1, of 2 or -2, and so on.
    """
    steps = different - different[0]
    if steps[-1] < 2.0**53:  # beyond, not every whole number is a float
        steps = steps // np.gcd.reduce(steps.astype(np.int64))
    n_near = np.searchsorted(steps, steps + _NEAR, side="right") - np.arange(1, different.size + 1)
    return float(n_near.sum()) / (2 * _NEAR)


def find_codes(values: Floats) -> tuple[float, ...]:
    """Numbers such as 99 or -9 that mean missing values in a column.

    Parameters
    ----------
    values : ndarray of shape (n_rows,)
        NaN where missing.

    Returns
    -------
    codes : tuple of float
        Empty if there are none.
    """
    sizes = np.abs(values)
    if not any(np.any(sizes == nine) for nine in _NINES):
        return ()
    found, counts = np.unique(values[np.isfinite(values)], return_counts=True)
    if found.size < 3 or counts.sum() < _LEAST_CELLS:
        return ()
    # Below zero there may be values, from which a code is as far away as above it.
    low = tuple(-code for code in _large_codes(-found[::-1], counts[::-1])[::-1])
    return _negative_codes(found) or _large_codes(found, counts) or low


def _negative_codes(found: Floats) -> tuple[float, ...]:
    """The negative numbers of a column that has no others below zero."""
    negative, rest = found[found < 0], found[found >= 0]
    is_code = [-value in _NINES | _BESIDE | {1.0, 2.0} for value in negative]
    if not negative.size or rest.size < 2 or not all(is_code):
        return ()
    has_nines = any(-value in _NINES for value in negative)
    # -9 may be a measurement if 3.5 is; -999 is not.
    is_far = np.all(rest == np.floor(rest)) or -negative.min() > _FAR * (rest.max() + 1.0)
    return tuple(map(float, negative)) if has_nines and is_far else ()


def _large_codes(found: Floats, counts: Ints) -> tuple[float, ...]:
    """Nines, and the numbers that occur together with them, far above all other numbers."""
    if found[-1] not in _NINES:
        return ()
    top = found.size
    while top > 2 and found[top - 1] in _NINES | _BESIDE:
        top -= 1
    # 7 is a code next to 9 among answers from 1 to 3, and an answer where the code is 99.
    for first in range(top, found.size):
        rest, codes = found[:first], found[first:]
        is_far = codes[0] - rest[-1] > _FAR * (rest[-1] - rest[0])
        # Among few values, which are answers to a question, a single cell of 99 is a code.
        if is_far and (len(rest) <= _FEW_VALUES or counts[-1] > 1):
            return tuple(map(float, codes))
    return ()

"""Whether whole numbers that are different in every row label the rows or are amounts.

Labels are different because somebody saw to it, amounts because there are few of them for their range. So labels lie
closer together than amounts could without two being equal; or they are spread evenly, over a range or behind a few
beginnings. Amounts thin out towards their ends, are often rounded, and say something of other columns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
from scipy.stats import rankdata

from anypca._typing import Floats

#: Rows from which on different numbers can be judged by their spread, and from which on an even spread can be told from
#: a bell: of normal amounts 10 % look even in 50 rows and 1 % in 100, of labels 1 % and none look like a bell.
_LEAST_ROWS, _ENOUGH_ROWS = 20, 50
#: So many equal pairs are expected of amounts that lie as close; that there are none then has a chance of 0.7 %.
_EXPECTED_TIES = 5.0
#: How far apart, in steps, pairs are that tell how many equal ones to expect.
_NEAR = 8
#: Digits of labels that all have as many; less are too common among amounts of one size.
_LEAST_DIGITS = 4
#: Digits from which on beginnings can be told, such as area codes and prefixes of producers, and how long these are.
_LONG, _BEGINNINGS = 7, (2, 3, 4)
#: A beginning has at least so many rows on the average, and so many times as many beginnings would have been possible.
_LEAST_PER_BEGINNING, _UNUSED = 5, 10
#: Standard deviations by which more numbers than a tenth end in 0 where amounts are rounded.
_ROUNDED = 3.0
#: Rank correlation with another column that no label has: by size, and in standard deviations under independence.
_RELATED, _SURELY = 0.5, 4.0
#: From here on not every whole number is a float.
_MOST_WHOLE = 2.0**53
#: Other columns that are asked, and rows of them.
_MOST_OTHERS, _MOST_ASKED = 50, 2000
#: Names of amounts, as a word of the column's name.
_AMOUNT = re.compile(
    r"(?:^|[^A-Za-z]|(?<=[a-z])(?=[A-Z]))(?i:age|amount|area|assets|balance|budget|capital|cases|citations|clicks|costs?|"
    r"counts?|days|deaths|debt|distance|dose|downloads|earnings|events|expenditure|freq|frequency|gdp|height|hours|"
    r"income|length|likes|mass|minutes|pop|population|pressure|price|profit|rate|revenue|salary|sales|score|size|speed|"
    r"sum|temp|temperature|time|total|turnover|value|views|visits|volume|votes|wages?|weight|width)(?![a-z])"
)
#: Where rows are told apart by a number, and how; said of columns that are left out.
_CLOSE = "every row has another whole number, closer together than amounts are without two being equal"
_EVEN = "every row has another whole number, and they are spread as labels are"


def is_distinct(values: Floats) -> bool:
    """Whether a column has another whole number in every row, and enough rows to say so.

    Parameters
    ----------
    values : ndarray of shape (n_rows,)
        NaN where missing.

    Returns
    -------
    bool
    """
    found = values[np.isfinite(values)]
    is_whole = found.size >= _LEAST_ROWS and not np.any(found != np.floor(found))
    return is_whole and len(np.unique(found)) == found.size


def find_labels(
    distinct: Mapping[str, Floats], amounts: Mapping[str, Floats]
) -> tuple[dict[str, str], list[str]]:
    """Which columns of different whole numbers are labels by the look of them.

    Parameters
    ----------
    distinct : mapping of str to ndarray of shape (n_rows,)
        Columns with another whole number in every row.
    amounts : mapping of str to ndarray of shape (n_rows,)
        The other columns of the table.

    Returns
    -------
    reasons : dict of str to str
        Why columns are labels.
    doubtful : list of str
        Those that are spread as labels are but have too few rows to say so.
    """
    leads = {name: _lead_of_amounts(name, _found(values)) for name, values in distinct.items()}
    # Of many such columns a few look even by chance: a table has one label, or few.
    least = -np.log(max(len(leads), 1))
    reasons = {name: _CLOSE for name, lead in leads.items() if lead == -np.inf}
    even = [name for name, lead in leads.items() if -np.inf < lead < least]
    clear = {**amounts, **{name: values for name, values in distinct.items() if leads[name] >= least}}
    even = _without_relatives({name: distinct[name] for name in even}, list(clear.values()))
    doubtful = []
    for name in even:
        if _found(distinct[name]).size >= _ENOUGH_ROWS or _n_digits(distinct[name]) >= _LEAST_DIGITS:
            reasons[name] = _EVEN
        else:
            doubtful.append(name)
    return reasons, doubtful


def _without_relatives(even: dict[str, Floats], amounts: list[Floats]) -> list[str]:
    """The columns that go with no amount, nor with two others: two labels may be of one order, a third tells more."""
    for name, values in even.items():
        others = [other for other in even.values() if other is not values]
        if _n_related(values, amounts) or _n_related(values, others) > 1:
            rest = {other: even[other] for other in even if other != name}
            return _without_relatives(rest, [values, *amounts])
    return list(even)


def _found(values: Floats) -> Floats:
    return values[np.isfinite(values)]


def _lead_of_amounts(name: str, found: Floats) -> float:
    """How much better than even spread a bell or a skewed curve fits, in nats; infinite where that is not asked."""
    if _AMOUNT.search(name):
        return np.inf
    if _expected_ties(found) >= _EXPECTED_TIES:
        return -np.inf
    if found.min() < 0 or _is_rounded(found):
        return np.inf
    if _has_few_beginnings(found):
        return -np.finfo(float).max
    return max(_bell(found), _fall(found), _bell_of_logarithms(found)) - max(_even(found), _rise(found))


def _expected_ties(found: Floats) -> float:
    """How many pairs would be equal if numbers fell where they lie by chance.

    Where the density is smooth, differences of 0 are as frequent as differences of 1 or -1, of 2 or -2, and so on.
    """
    ordered = np.sort(found)
    steps = ordered - ordered[0]
    if steps[-1] < _MOST_WHOLE:
        steps = steps // np.gcd.reduce(steps.astype(np.int64))
    n_near = np.searchsorted(steps, steps + _NEAR, side="right") - np.arange(1, found.size + 1)
    return float(n_near.sum()) / (2 * _NEAR)


def _is_rounded(found: Floats) -> bool:
    """Whether more numbers end in 0 than by chance; of very large ones the last digit is not known."""
    if found.max() >= _MOST_WHOLE:
        return False
    excess = np.count_nonzero(found % 10 == 0) - 0.1 * found.size
    return bool(excess > _ROUNDED * np.sqrt(0.09 * found.size))


def _n_digits(values: Floats) -> int:
    """The number of digits of all numbers; 0 if they have different ones."""
    found = _found(values)
    if found.min() < 1:
        return 0
    digits = np.floor(np.log10(found)).astype(int) + 1
    return int(digits[0]) if np.all(digits == digits[0]) else 0


def _has_few_beginnings(found: Floats) -> bool:
    """Whether long numbers begin with one of a few groups of digits, far apart, as telephone numbers do."""
    n_digits = _n_digits(found)
    if n_digits < _LONG:
        return False
    for length in _BEGINNINGS:
        begin = np.unique(found // 10.0 ** (n_digits - length))
        is_sparse = _UNUSED * len(begin) <= begin[-1] - begin[0] + 1
        if is_sparse and _LEAST_PER_BEGINNING * len(begin) <= found.size:
            return True
    return False


def _even(found: Floats) -> float:
    """Log-likelihood of an even spread, from a little below the smallest number to a little above the largest."""
    return -found.size * float(np.log(_range(found)))


def _range(found: Floats) -> float:
    return float(np.ptp(found)) * (found.size + 1) / (found.size - 1)


def _rise(found: Floats) -> float:
    """Log-likelihood of a density that rises in a straight line: the later labels are, the more of them are in use."""
    length = _range(found)
    low = found.max() + 0.5 * (length - np.ptp(found)) - length
    return float(np.sum(np.log(2.0 * (found - low) / length**2)))


def _bell(found: Floats) -> float:
    """Log-likelihood of a normal density."""
    return -found.size * float(np.log(found.std()) + 0.5 * np.log(2.0 * np.pi * np.e))


def _bell_of_logarithms(found: Floats) -> float:
    if found.min() <= 0:
        return -np.inf
    logarithms = np.log(found)
    return _bell(logarithms) - float(logarithms.sum())


def _fall(found: Floats) -> float:
    """Log-likelihood of a density that falls from the smallest number on, as an exponential one."""
    mean = (found.mean() - found.min()) * found.size / (found.size - 1)
    return -found.size * float(np.log(mean) + 1.0)


def _n_related(values: Floats, others: list[Floats]) -> int:
    """With how many columns numbers go, which labels do at most by the order of the rows."""
    rows = np.unique(np.linspace(0, values.size - 2, _MOST_ASKED).astype(int))
    is_ordered = _correlate(values[rows], rows.astype(float))
    # The steps from row to row of a column that rises with them do not.
    steps = values[rows + 1] - values[rows]
    return sum(
        _correlate(steps, other[rows + 1] - other[rows])
        or (not is_ordered and _correlate(values[rows], other[rows]))
        for other in others[:_MOST_OTHERS]
    )


def _correlate(first: Floats, second: Floats) -> bool:
    both = np.array([first, second])
    both = both[:, np.isfinite(both).all(axis=0)]
    n = both.shape[1]
    if n < _LEAST_ROWS - 1 or np.any(np.ptp(both, axis=1) == 0):
        return False
    size = abs(np.corrcoef(rankdata(both, axis=1))[0, 1])
    return bool(size >= max(_RELATED, _SURELY / np.sqrt(n - 1.0)))

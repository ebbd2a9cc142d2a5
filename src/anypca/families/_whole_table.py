"""The second look: columns of one table are often of one kind, which settles those that do not tell by themselves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import expit

from anypca._typing import Floats
from anypca.families._candidates import EXTRA_ZEROS, leader
from anypca.families._guards import Column

#: Rounds of EM for the shares of the families, and the weight of an even share.
_ROUNDS, _EVEN = 30, 1.0
#: Columns of more than two values that make a table of one kind: counts, ratings.
_LEAST_COUNTS, _LEAST_RATINGS = 5, 3
#: Share of columns with zeros in a table of counts, of those that must say so themselves, and the largest rating.
_WITH_ZEROS, _HALF, _LARGEST_RATING = 0.8, 0.5, 12.0
_COUNTS = "negative_binomial"
#: Log odds of extra zeros in a column of counts of which other columns say nothing, and nats that strong factors may
#: feign: they make counts vary as well, which the margins of plain counts take up nearly but not quite.
_RARE, _FEIGNED = -5.0, 1.0
#: What the log odds are among the kinds of columns, where these have to be told from ratings or amounts.
_KNOWN = -3.0


def with_common_zeros(scores: Sequence[dict[str, float]]) -> list[dict[str, float]]:
    """Scores in which the lead of counts with extra zeros over plain ones has learnt from the other columns.

    Extra zeros often come with the way of counting, and then in most columns. Their share among columns of counts is
    found by EM for each column from the others, so that no column supports itself.
    """
    gain = {
        j: each[EXTRA_ZEROS] - each[_COUNTS] - _FEIGNED
        for j, each in enumerate(scores)
        if EXTRA_ZEROS in each
    }
    inside = [j for j in gain if leader(scores[j]) in (_COUNTS, EXTRA_ZEROS)]
    odds = dict(zip(inside, _learnt_odds(np.array([gain[j] for j in inside])), strict=True))
    return [
        _with_lead(each, gain[j] + float(odds.get(j, _RARE))) if j in gain else each
        for j, each in enumerate(scores)
    ]


def _learnt_odds(gain: Floats) -> Floats:
    """Log odds of each column given the log-likelihood ratios of all, those of the others with their shares."""
    odds = np.full(len(gain), _RARE)
    for _ in range(_ROUNDS):
        posterior = expit(gain + odds)
        share = (posterior.sum() - posterior + expit(_RARE)) / len(gain)
        odds = np.log(share) - np.log1p(-share)
    return odds


def _with_lead(scores: dict[str, float], lead: float) -> dict[str, float]:
    """Scores of a column in which extra zeros are so far ahead of plain counts, and the better of them is as good."""
    plain, extra = scores[_COUNTS], scores[EXTRA_ZEROS] + _KNOWN
    if lead > 0:
        best = max(plain, extra)
        return scores | {EXTRA_ZEROS: best, _COUNTS: best - lead}
    return scores | {EXTRA_ZEROS: plain + lead}


def with_shares(scores: Sequence[dict[str, float]]) -> list[dict[str, float]]:
    """Scores with the logarithm of each family's share of the columns added, the shares by EM.

    Parameters
    ----------
    scores : sequence of dict
        Of the columns whose distribution decides.
    """
    scores = with_common_zeros(scores)
    names = sorted({name for each in scores for name in each if name != EXTRA_ZEROS})
    if not names:
        return list(scores)
    table = np.array([[_shared_score(each, name) for name in names] for each in scores])
    likelihood = np.exp(table - table.max(axis=1, keepdims=True))
    share = np.full(len(names), 1.0 / len(names))
    for _ in range(_ROUNDS):
        posterior = likelihood * share
        posterior /= posterior.sum(axis=1, keepdims=True)
        share = (posterior.sum(axis=0) + _EVEN / len(names)) / (len(scores) + _EVEN)
    added = dict(zip(names, np.log(share).tolist(), strict=True))
    added[EXTRA_ZEROS] = added.get(_COUNTS, 0.0)
    return [{name: value + added[name] for name, value in each.items()} for each in scores]


def _shared_score(scores: dict[str, float], name: str) -> float:
    """The score of a family in one column; counts have one share, whatever their zeros."""
    own = scores.get(name, -np.inf)
    return max(own, scores.get(EXTRA_ZEROS, -np.inf)) if name == _COUNTS else own


def common_kind(columns: Sequence[Column], chosen: Sequence[str]) -> str | None:
    """The family of all columns of a table of counts or of ratings; None for other tables.

    Parameters
    ----------
    columns : sequence of Column
        All that are not left out.
    chosen : sequence of str
        The family of each by itself.
    """
    if not columns or not all(c.is_whole and c.low >= 0 for c in columns):
        return None
    rest = [(c, name) for c, name in zip(columns, chosen, strict=True) if c.n_distinct > 2]
    largest, with_zeros = max(c.high for c in columns), np.mean([c.low == 0 for c in columns])
    if len(rest) >= _LEAST_COUNTS and largest > _LARGEST_RATING and with_zeros >= _WITH_ZEROS:
        return (
            "negative_binomial"
            if np.mean([name in (_COUNTS, EXTRA_ZEROS) for _, name in rest]) >= _HALF
            else None
        )
    ranges = {(c.low, c.high) for c, _ in rest}
    if len(rest) >= _LEAST_RATINGS and largest <= _LARGEST_RATING and len(ranges) <= 2:
        return "ordinal" if np.mean([name == "ordinal" for _, name in rest]) >= _HALF else None
    return None


def settle(scores: dict[str, float]) -> tuple[str, str, float]:
    """The family of a column, the runner-up and the lead in nats."""
    best = leader(scores)
    others = {name: value for name, value in scores.items() if name != best}
    if not others:
        return best, "", np.inf
    second = max(others, key=lambda name: others[name])
    return best, second, max(scores[best] - others[second], 0.0)

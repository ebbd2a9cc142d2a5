"""The second look: columns of one table are often of one kind, which settles those that do not tell by themselves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anypca.families._candidates import leader
from anypca.families._guards import Column

#: Rounds of EM for the shares of the families, and the weight of an even share.
_ROUNDS, _EVEN = 30, 1.0
#: Columns of more than two values that make a table of one kind: counts, ratings.
_LEAST_COUNTS, _LEAST_RATINGS = 5, 3
#: Share of columns with zeros in a table of counts, of those that must say so themselves, and the largest rating.
_WITH_ZEROS, _HALF, _LARGEST_RATING = 0.8, 0.5, 12.0
_ARE_COUNTS = ("negative_binomial", "zero_inflated_negative_binomial")


def with_shares(scores: Sequence[dict[str, float]]) -> list[dict[str, float]]:
    """Scores with the logarithm of each family's share of the columns added, the shares by EM.

    Parameters
    ----------
    scores : sequence of dict
        Of the columns whose distribution decides.
    """
    names = sorted({name for each in scores for name in each})
    if not names:
        return list(scores)
    table = np.array([[each.get(name, -np.inf) for name in names] for each in scores])
    likelihood = np.exp(table - table.max(axis=1, keepdims=True))
    share = np.full(len(names), 1.0 / len(names))
    for _ in range(_ROUNDS):
        posterior = likelihood * share
        posterior /= posterior.sum(axis=1, keepdims=True)
        share = (posterior.sum(axis=0) + _EVEN / len(names)) / (len(scores) + _EVEN)
    added = dict(zip(names, np.log(share).tolist(), strict=True))
    return [{name: value + added[name] for name, value in each.items()} for each in scores]


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
        return "negative_binomial" if np.mean([name in _ARE_COUNTS for _, name in rest]) >= _HALF else None
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

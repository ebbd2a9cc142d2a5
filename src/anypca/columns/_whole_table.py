"""Pool the scores of a table's columns: columns of one kind share a family unless their values clearly differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from anypca.columns._candidates import (
    BOUNDED,
    EXTRA_ZEROS,
    LARGEST_SCORE,
    TWO_PARTS,
    VARIANTS,
    score_bounded,
)
from anypca.columns._guards import AMOUNTS, COUNTS, RATINGS, REALS, Column

#: Nats per column that a second family must gain among columns of one kind, and lead below which a choice is unsure:
#: odds of twenty to one.
CLEAR = 3.0
#: Rounds of EM for the shares of the kinds, and the weight of an even share.
_ROUNDS, _EVEN = 30, 1.0
#: Log odds of extra zeros in a table of counts, nats per column that strong factors may feign (they make counts vary
#: as well, which the margins of plain counts take up nearly but not quite), and log odds of extra zeros, or of a bound,
#: against other kinds.
_RARE, _FEIGNED, _KNOWN = -5.0, 1.0, -3.0
#: Columns of more than two values that make a table of one kind: counts, ratings.
_LEAST_COUNTS, _LEAST_RATINGS = 5, 3
#: Share of columns with zeros in a table of counts, share of columns that must be of the kind by their own values, and
#: the largest rating.
_WITH_ZEROS, _HALF, _LARGEST_RATING = 0.8, 0.5, 12.0
#: Nats that skewed families must be ahead of real numbers.
_TIE = 2.0

Scores = dict[str, float]


class Decision(NamedTuple):
    """The family of a column and how sure it is."""

    family: str
    runner_up: str = ""
    lead: float = np.inf
    """In nats."""
    n_columns: int = 1
    """Number of columns whose scores were added up."""

    @property
    def text(self) -> str:
        """The lead in words."""
        if not self.runner_up:
            return "no other family fits"
        ahead = f"{self.lead:.1f} nats ahead of {self.runner_up}"
        if self.n_columns > 1:
            ahead += f" over {self.n_columns} columns of this kind"
        return f"unsure, {ahead}" if self.lead < CLEAR else ahead


def choose_kinds(scores: Sequence[Scores]) -> list[tuple[str, Decision]]:
    """The kind of each column, and its best family.

    The logarithm of each kind's share of the columns, found by EM, is added to the scores.

    Parameters
    ----------
    scores : sequence of dict
        Score of each candidate family, for the columns whose distribution decides.
    """
    if not scores:
        return []
    kinds = list(VARIANTS)
    table = np.array(
        [[max(of_kind(each, kind).values(), default=-np.inf) for kind in kinds] for each in scores]
    )
    likelihood = np.exp(table - table.max(axis=1, keepdims=True))
    share = np.full(len(kinds), 1.0 / len(kinds))
    for _ in range(_ROUNDS):
        posterior = likelihood * share
        posterior /= posterior.sum(axis=1, keepdims=True)
        share = (posterior.sum(axis=0) + _EVEN / len(kinds)) / (len(table) + _EVEN)
    return [_best_kind(each, dict(zip(kinds, np.log(share), strict=True))) for each in scores]


def of_kind(scores: Scores, kind: str) -> Scores:
    """Scores of the families of one kind, for comparison with other kinds."""
    return {
        name: scores[name] + (_KNOWN if name in (EXTRA_ZEROS, BOUNDED) else 0.0)
        for name in VARIANTS[kind]
        if name in scores
    }


def _best_kind(scores: Scores, log_share: dict[str, float]) -> tuple[str, Decision]:
    """The kind of one column; skewed amounts must be ahead of real numbers by more than a tie."""
    found = {kind: own for kind in VARIANTS if (own := of_kind(scores, kind))}
    best = {kind: max(own.values()) + log_share[kind] for kind, own in found.items()}
    order = sorted(best, key=lambda kind: -best[kind])
    if order[0] == AMOUNTS and "gamma" in scores and best[REALS] > best[AMOUNTS] - _TIE:
        order.remove(REALS)
        order.insert(0, REALS)
    names = [max(found[kind], key=found[kind].__getitem__) for kind in order[:2]]
    if len(order) == 1:
        return order[0], Decision(names[0])
    return order[0], Decision(names[0], names[1], max(best[order[0]] - best[order[1]], 0.0))


def share_families(
    columns: Sequence[Column], kinds: Sequence[str], scores: Sequence[Scores]
) -> tuple[list[Decision], float | None]:
    """The families of columns of known kinds, and the largest possible count if columns of counts share one.

    Parameters
    ----------
    columns : sequence of Column
    kinds : sequence of str
    scores : sequence of dict
        Score of each candidate family; columns without a candidate of their kind take the family of the others.
    """
    decisions, bound = [Decision("")] * len(columns), None
    for kind in dict.fromkeys(kinds):
        members = [j for j, own in enumerate(kinds) if own == kind]
        candidates = {
            j: found
            for j in members
            if (found := {f: scores[j][f] for f in VARIANTS[kind] if f in scores[j]})
        }
        if kind == COUNTS and (bound := common_bound([columns[j] for j in candidates], candidates.values())):
            candidates = {
                j: found | {BOUNDED: score_bounded(columns[j], bound)} for j, found in candidates.items()
            }
        # Amounts with zeros have the family of the amounts without.
        alike = [{TWO_PARTS.get(f, f): score for f, score in found.items()} for found in candidates.values()]
        shared = dict(zip(candidates, share_family(alike), strict=True))
        usual = Counter(decision.family for decision in shared.values()).most_common(1)[0][0]
        for j in members:
            decision = shared.get(j, Decision(usual))
            name = {amounts: both for both, amounts in TWO_PARTS.items() if both in scores[j]}
            decisions[j] = decision._replace(
                family=name.get(decision.family, decision.family),
                runner_up=name.get(decision.runner_up, decision.runner_up),
            )
    return decisions, bound


def share_family(scores: Sequence[Scores]) -> list[Decision]:
    """One family for columns of one kind, except for columns whose values clearly speak against it.

    The family is the one with the largest total score among the candidates of all columns. Another family is admitted
    if it gains, over all columns on the average, more than `CLEAR` nats beyond a clear lead in each column that takes
    it.

    Parameters
    ----------
    scores : sequence of dict
        Score of each candidate family of the kind.
    """
    names = sorted({name for each in scores for name in each})
    table = np.array([[each.get(name, -np.inf) for name in names] for each in scores])
    extra = np.array([name == EXTRA_ZEROS for name in names])
    table -= np.where(extra, _FEIGNED, 0.0)
    total = table.sum(axis=0) + np.where(extra, _RARE, 0.0)
    first, *others = np.argsort(-total, kind="stable")
    chosen = np.full(len(table), first)
    for other in others:
        excess = np.maximum(table[:, other] - table[np.arange(len(table)), chosen] - CLEAR, 0.0)
        if excess.sum() > CLEAR * len(table):
            chosen[excess > 0] = other
    if not others or np.isneginf(total[others[0]]):
        usual = Decision(names[first])
    else:
        usual = Decision(names[first], names[others[0]], total[first] - total[others[0]], len(table))
    return [
        usual if k == first else Decision(names[k], names[first], row[k] - row[first])
        for k, row in zip(chosen, table, strict=True)
    ]


def common_bound(columns: Sequence[Column], scores: Iterable[Scores]) -> float | None:
    """The largest possible score of columns of counts: their largest value, if most columns have it."""
    bound = max((column.high for column in columns), default=np.inf)
    is_common = np.mean([column.high == bound for column in columns]) >= _HALF if len(columns) > 1 else False
    may_be = bound <= LARGEST_SCORE and any(BOUNDED in each for each in scores)
    return bound if is_common and may_be else None


def common_kind(columns: Sequence[Column], kinds: Sequence[str]) -> str | None:
    """The kind of all columns of a table of counts or of ratings; None for other tables.

    Parameters
    ----------
    columns : sequence of Column
        All that are not left out.
    kinds : sequence of str
        The kind of each by itself.
    """
    if not columns or not all(c.is_whole and c.low >= 0 for c in columns):
        return None
    rest = [(c, kind) for c, kind in zip(columns, kinds, strict=True) if c.n_distinct > 2]
    largest, with_zeros = max(c.high for c in columns), np.mean([c.low == 0 for c in columns])
    if len(rest) >= _LEAST_COUNTS and largest > _LARGEST_RATING and with_zeros >= _WITH_ZEROS:
        kind = COUNTS
    elif (
        len(rest) >= _LEAST_RATINGS
        and largest <= _LARGEST_RATING
        and len({(c.low, c.high) for c, _ in rest}) <= 2
    ):
        kind = RATINGS
    else:
        return None
    return kind if np.mean([own == kind for _, own in rest]) >= _HALF else None

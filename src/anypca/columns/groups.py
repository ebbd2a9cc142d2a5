"""Groups of rows: which values name them, and where their scores lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from anypca._typing import Bools, Floats, Ints
from anypca._words import shorten

#: Whole numbers with more distinct values than this are a scale and not names of groups.
_MOST_NUMBERED_GROUPS = 20
#: Groups beyond this many share one look: a legend can be no longer.
_MOST_GROUPS = 24
#: What is no group of its own.
OTHERS, NOT_KNOWN = "others", "not known"


@dataclass(frozen=True, eq=False)
class Groups:
    """Scores of groups of rows in numbers.

    See Also
    --------
    anypca.plotting.plot_scores : draws them.
    """

    names: tuple[str, ...]
    counts: Ints
    """Rows of each group, (n_groups,)."""
    means: Floats
    """Of the scores, (n_groups, n_components)."""
    covariances: Floats
    """Of the scores within each group, (n_groups, n_components, n_components); 0 for a single row."""

    def strength(self, scores: Floats) -> Floats:
        """Share of the variance of the grouped rows' scores that lies between groups (eta squared), (n_components,)."""
        within = np.einsum("g,gkk->k", self.counts, self.covariances)
        between = self.counts @ (self.means - self.counts @ self.means / max(self.counts.sum(), 1)) ** 2
        total = within + between
        return np.asarray(np.divide(between, total, out=np.zeros_like(total), where=total > 0))


def is_scale(values: Any) -> bool:
    """Whether values are numbers on a scale rather than names of groups."""
    if values.dtype.kind not in "iuf":
        return False
    distinct = np.unique(values[np.isfinite(values)])
    return bool(len(distinct) > _MOST_NUMBERED_GROUPS or np.any(distinct != np.round(distinct)))


def rows_of_groups(
    values: Any, most: int | None = _MOST_GROUPS, longest: int = 24
) -> list[tuple[str, Bools]]:
    """Names of groups, in order, with their rows; the smallest of too many together at the end."""
    missing = np.array([value is None or value != value for value in values], dtype=bool)
    present = np.flatnonzero(~missing)
    names, codes = np.unique(np.array([_text(values[i]) for i in present], dtype=str), return_inverse=True)
    kept = np.arange(len(names))
    if most is not None and len(names) > most:
        kept = np.argsort(-np.bincount(codes), kind="stable")[: most - 1]
    group = np.full(len(values), -1)
    group[present] = codes
    found = [(str(names[k]), group == k) for k in kept]
    others = ~missing & ~np.isin(group, kept)
    rest = [(OTHERS, others), (NOT_KNOWN, missing)]
    ordered = [(shorten(name, longest), rows) for name, rows in _in_order(found)]
    return ordered + [(name, rows) for name, rows in rest if rows.any()]


def _in_order(groups: list[tuple[str, Bools]]) -> list[tuple[str, Bools]]:
    """Numbers by size, other names by the alphabet."""
    try:
        return sorted(groups, key=lambda group: float(group[0]))
    except ValueError:
        return sorted(groups, key=lambda group: group[0])


def split_groups(values: Any, scores: Floats) -> Groups:
    """Means and covariances of the scores of each group; rows whose group is not known are left out.

    Parameters
    ----------
    values : ndarray of shape (n_samples,)
        Names of groups.
    scores : ndarray of shape (n_samples, n_components)

    Returns
    -------
    Groups
    """
    found = [(name, scores[mine]) for name, mine in rows_of_groups(values, None) if name != NOT_KNOWN]
    k = scores.shape[1]
    means = np.array([part.mean(axis=0) for _, part in found]).reshape(-1, k)
    spreads = [np.cov(part.T, bias=True).reshape(k, k) for _, part in found]
    counts = np.array([len(part) for _, part in found], dtype=int)
    return Groups(tuple(name for name, _ in found), counts, means, np.array(spreads).reshape(-1, k, k))


def _text(value: Any) -> str:
    """The name of a group; whole numbers that came as floats lose their point."""
    return f"{value:g}" if isinstance(value, float | np.floating) else str(value)

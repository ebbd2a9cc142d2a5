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


def rows_of_groups(values: Any, most: int | None = _MOST_GROUPS) -> list[tuple[str, Bools]]:
    """Names of groups, in order, with their rows; the smallest of too many together at the end."""
    missing = np.array([value is None or value != value for value in values])
    texts = np.array([_text(value) for value in values], dtype=object)
    present = values[~missing]
    if values.dtype.kind in "iufb":
        names = [_text(value) for value in np.unique(present)]
    else:
        names = sorted({_text(value) for value in present})
    rows = {name: (texts == name) & ~missing for name in names}
    kept = names
    if most is not None and len(names) > most:
        kept = sorted(names, key=lambda name: -rows[name].sum())[: most - 1]
    found = [(shorten(name), rows[name]) for name in names if name in set(kept)]
    others = ~missing & ~np.any([mine for _, mine in found], axis=0) if found else np.zeros_like(missing)
    rest = [(OTHERS, others), (NOT_KNOWN, missing)]
    return found + [(name, mine) for name, mine in rest if mine.any()]


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

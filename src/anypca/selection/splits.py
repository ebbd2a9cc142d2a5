"""Splits of the entries of a table, never of its rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

from anypca._typing import Bools, Ints
from anypca.engine import Block, Data
from anypca.models._arguments import make_generator
from anypca.models._cross_validation import Entries
from anypca.selection._numbers import check_numbers

# Entries labelled at a time. The runs of rows depend on the shape of the table alone, so that the same seed hides the
# same entries of a table in any form.
_RUN_ENTRIES = 2**20

ROWS_REMEDY = (
    "Rows of a PCA cannot be held out: the scores of a new row are fitted to the very entries it is scored by, so more "
    "components always look better. Hold out entries instead: cv=EntryKFold(n_splits=10)."
)


class EntrySplitter(ABC):
    """Base of splitters: a round gives every observed entry a label, and each label is one split.

    Labels are computed again for every split, a block of rows at a time: labels of a sparse table would be dense.
    """

    n_splits: int
    random_state: Any

    #: Whether each split is a labelling of its own, rather than a label of one that all share.
    is_repeated: ClassVar[bool] = False

    def get_n_splits(self) -> int:
        """Number of splits."""
        return int(self.n_splits)

    @abstractmethod
    def _label(self, observed: Bools, first: int, rng: np.random.Generator) -> Ints:
        """Labels >= 0 of entries to hold out together, else -1; (rows, n_features), for rows from ``first`` on.

        At least one observed entry of each row has another label than any given one.
        """

    def split(self, X: Any) -> Iterator[Entries]:
        """Yield the entries to hold out, one set after the other.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            NaN is a missing entry, and is never held out; zeros of a sparse table are observed.

        Yields
        ------
        rows, columns : ndarray of int of shape (n_entries,)
            In row order. All other observed entries are left to the fit.

        Raises
        ------
        TypeError
            For Dask arrays.
        ValueError
            If there are too few entries for the number of splits.
        """
        data = _open(X)
        seed = int(make_generator(self.random_state).integers(2**31))
        n_rounds, n_labels = (self.get_n_splits(), 1) if self.is_repeated else (1, self.get_n_splits())
        for number in range(n_rounds):
            rounds = _Round(self, data, (seed, number), n_labels)
            kept = rounds.kept_rows()
            for label in range(n_labels):
                entries = rounds.entries(label, kept)
                if len(entries.rows) == 0:
                    raise ValueError(
                        f"{self!r} leaves a split without entries for a table of shape ({data.n_samples}, "
                        f"{data.n_features}). Use fewer splits or hold out more."
                    )
                yield entries


@dataclass(frozen=True)
class _Round:
    """One labelling of a table."""

    splitter: EntrySplitter
    data: Data
    seed: tuple[int, int]
    n_labels: int

    def labels(self) -> Iterator[tuple[Block, Bools, Ints]]:
        """Runs of rows, their observed entries and the labels of these."""
        for number, block in enumerate(self.data.blocks):
            observed = _observed(block, self.data.n_features)
            rng = np.random.default_rng((*self.seed, number))
            yield block, observed, self.splitter._label(observed, block.start, rng)

    def kept_rows(self) -> Ints:
        """For a column whose entries would all be held out at once, the row of one to keep, else -1; (n_features,)."""
        p = self.data.n_features
        count, first = np.zeros(p, dtype=np.int64), np.full(p, -1)
        by_label = np.zeros((self.n_labels, p), dtype=np.int64)
        for block, observed, labels in self.labels():
            count += observed.sum(axis=0)
            new = (first < 0) & observed.any(axis=0)
            first[new] = block.start + observed.argmax(axis=0)[new]
            for label in range(self.n_labels):
                by_label[label] += (labels == label).sum(axis=0)
        # If all entries of a column would be held out at once, its first one is kept.
        return np.where(by_label.max(axis=0) == count, first, -1)

    def entries(self, label: int, kept: Ints) -> Entries:
        """The entries of a label, without those that must be kept."""
        parts = []
        for block, _, labels in self.labels():
            rows, columns = np.nonzero(labels == label)
            is_free = kept[columns] != rows + block.start
            parts.append((rows[is_free] + block.start, columns[is_free]))
        return Entries(*(np.concatenate(part) for part in zip(*parts, strict=True)))


@dataclass(frozen=True)
class EntryKFold(EntrySplitter):
    """K folds of the observed entries: each is held out once.

    The entries of a row are spread over the folds as evenly as possible. Every row and column keeps an observed entry
    in every fit: an entry is never held out if it is the only one, or if its column has no entry in another fold.

    Parameters
    ----------
    n_splits : int, default=10
        Number of folds, at least 2: each holds out one entry in ``n_splits``.
    shuffle : bool, default=True
        Whether to draw the entries at random. Otherwise folds are diagonals of the table, which is adequate if rows
        and columns have no order.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the folds. The same seed gives the same folds, whatever the form of the table.

    See Also
    --------
    EntryShuffleSplit : random parts.

    Examples
    --------
    >>> import numpy as np
    >>> from anypca.selection import EntryKFold
    >>> rows, columns = next(EntryKFold(n_splits=5).split(np.zeros((4, 10))))
    >>> np.bincount(rows)
    array([2, 2, 2, 2])
    """

    n_splits: int = 10
    shuffle: bool = True
    random_state: Any = 0

    def __post_init__(self) -> None:
        _check_number("n_splits", self.n_splits, 2)

    def _label(self, observed: Bools, first: int, rng: np.random.Generator) -> Ints:
        n_rows = len(observed)
        number = _rank(observed, rng) if self.shuffle else np.cumsum(observed, axis=1) - 1
        # Rows start at different folds, so that columns are spread over the folds too.
        start = rng.integers(self.n_splits, size=n_rows) if self.shuffle else np.arange(first, first + n_rows)
        is_lone = observed.sum(axis=1, keepdims=True) == 1
        return np.where(observed & ~is_lone, (number + start[:, None]) % self.n_splits, -1)


@dataclass(frozen=True)
class EntryShuffleSplit(EntrySplitter):
    """Independent random splits that hold out a share of the observed entries each.

    The default needs one fit per rank, `EntryKFold` ten. Every row and column keeps an entry, as in `EntryKFold`.

    Parameters
    ----------
    n_splits : int, default=1
        Number of splits.
    fraction : float, default=0.1
        Share of the entries of each row that is held out, between 0 and 1.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the splits.

    See Also
    --------
    EntryKFold : every entry once.

    Examples
    --------
    >>> import numpy as np
    >>> from anypca.selection import EntryShuffleSplit
    >>> rows, columns = next(EntryShuffleSplit(fraction=0.2).split(np.zeros((4, 10))))
    >>> len(rows)
    8
    """

    is_repeated = True

    n_splits: int = 1
    fraction: float = 0.1
    random_state: Any = 0

    def __post_init__(self) -> None:
        _check_number("n_splits", self.n_splits, 1)
        value: Any = self.fraction
        if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < 1:
            raise ValueError(f"fraction must be a number between 0 and 1; got {value!r}.")

    def _label(self, observed: Bools, first: int, rng: np.random.Generator) -> Ints:
        count = observed.sum(axis=1)
        # Rounded at random: at a fraction of 0.1, half of the rows with five entries hold out one.
        wanted = np.floor(float(self.fraction) * count + rng.random(len(count)))
        least = np.minimum(wanted, np.maximum(count - 1, 0))
        return np.where(observed & (_rank(observed, rng) < least[:, None]), 0, -1)


def check_splitter(cv: Any) -> EntrySplitter:
    """The splitter of entries for ``cv``, which may be a number of folds.

    Raises
    ------
    TypeError
        If ``cv`` is neither; the message explains why splitters of rows do not apply.
    """
    if isinstance(cv, EntrySplitter):
        return cv
    if isinstance(cv, (int, np.integer)) and not isinstance(cv, bool):
        return EntryKFold(n_splits=int(cv))
    if hasattr(cv, "split") and not isinstance(cv, str):
        raise TypeError(f"cv={cv!r} splits rows. {ROWS_REMEDY}")
    raise TypeError(
        f"cv must be an EntryKFold, an EntryShuffleSplit or a number of folds; got {cv!r} of type "
        f"{type(cv).__name__}. {ROWS_REMEDY}"
    )


def _open(X: Any) -> Data:
    """The table in runs of rows whose number depends on its shape alone."""
    data = check_numbers(X)
    if data.is_distributed:
        raise TypeError(
            "Entries of a Dask array cannot be held out; X must be in this process. Pass X.compute(), or choose the "
            "rank by a criterion of the fit such as criterion='bic'."
        )
    return check_numbers(X, block_rows=max(1, _RUN_ENTRIES // data.n_features))


def _observed(block: Block, n_features: int) -> Bools:
    """Which entries are not missing (rows, n_features)."""
    observed = block.read().observed if block.may_miss else None
    return np.ones((block.n_rows, n_features), dtype=bool) if observed is None else observed


def _rank(observed: Bools, rng: np.random.Generator) -> Ints:
    """Number the observed entries of each row 0, 1, ... in random order; missing ones come last."""
    keys = rng.random(observed.shape)
    keys[~observed] = 2.0
    order = np.argsort(keys, axis=1)
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(observed.shape[1])[None, :], axis=1)
    return rank


def _check_number(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer, the number of splits; got {value!r}.")
    if value < least:
        raise ValueError(f"{name} must be at least {least}; got {value}.")

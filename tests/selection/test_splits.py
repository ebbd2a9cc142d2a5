"""Splits of entries: every observed one once, no row or column emptied."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.model_selection import KFold, ShuffleSplit
from tests.draws import generator

from anypca import PPCA
from anypca.selection import EntryKFold, EntryShuffleSplit, entry_cross_validate, select_rank


@st.composite
def tables(draw):
    """Tables with missing entries, without empty rows or columns."""
    n, p = draw(st.integers(2, 12)), draw(st.integers(2, 12))
    share, key = draw(st.sampled_from([0.0, 0.3, 0.8])), draw(st.integers(0, 10**6))
    rng = generator("table", key)
    table = rng.normal(size=(n, p))
    missing = rng.random((n, p)) < share
    missing[np.arange(n), rng.integers(p, size=n)] = False
    missing[rng.integers(n, size=p), np.arange(p)] = False
    table[missing] = np.nan
    return table


def count_held_out(splitter, table):
    """How often each entry is held out; checks what must hold for every split."""
    try:
        splits = list(splitter.split(table))
    except ValueError:  # too small for so many splits
        assume(False)
    assert len(splits) == splitter.get_n_splits()
    total = np.zeros(table.shape, dtype=int)
    for rows, columns in splits:
        held = np.zeros(table.shape, dtype=int)
        np.add.at(held, (rows, columns), 1)
        assert held.max() == 1, "an entry is held out twice"
        assert np.all(np.diff(rows) >= 0)
        left = ~np.isnan(table) & (held == 0)
        assert left.any(axis=0).all(), "a column is emptied"
        assert left.any(axis=1).all(), "a row is emptied"
        total += held
    return total


@settings(max_examples=60, deadline=None)
@given(tables(), st.integers(2, 4), st.booleans(), st.integers(0, 1000))
def test_folds_share_out_the_observed_entries(table, n_splits, shuffle, seed):
    total = count_held_out(EntryKFold(n_splits, shuffle, seed), table)
    observed = ~np.isnan(table)
    assert not total[~observed].any()
    assert total.max() <= 1
    # What is never held out is at most one entry per row or column that could spare none.
    assert (observed & (total == 0)).sum() <= sum(table.shape)


@settings(max_examples=40, deadline=None)
@given(tables(), st.integers(1, 3), st.sampled_from([0.3, 0.9]), st.integers(0, 1000))
def test_random_splits_empty_nothing(table, n_splits, fraction, seed):
    total = count_held_out(EntryShuffleSplit(n_splits, fraction, seed), table)
    assert not total[np.isnan(table)].any()


@pytest.mark.parametrize("shuffle", [True, False], ids=["shuffled", "diagonal"])
def test_a_complete_table_is_covered_once_and_evenly(shuffle):
    table = np.zeros((40, 23))
    total = np.zeros(table.shape, dtype=int)
    for rows, columns in EntryKFold(5, shuffle=shuffle).split(table):
        total[rows, columns] += 1
        assert set(np.bincount(rows)) <= {4, 5}, "23 entries of a row in 5 folds"
    assert (total == 1).all()


def test_random_splits_hold_out_their_share():
    first, second = EntryShuffleSplit(2, fraction=0.25, random_state=3).split(np.zeros((200, 30)))
    assert not np.array_equal(first.columns, second.columns)
    for rows, _ in (first, second):
        assert set(np.bincount(rows)) == {7, 8}, "7.5 entries a row, rounded at random"
        # 200 fair coins: five standard deviations.
        assert abs(len(rows) - 1500) < 5 * np.sqrt(50)


def test_the_same_seed_gives_the_same_folds_for_every_kind_of_table(rng):
    dense = rng.poisson(0.3, size=(30, 9)).astype(float)
    kinds = [dense, dense.astype(np.float32), sparse.csr_array(dense), sparse.csc_array(dense.astype(int))]
    for folds in zip(*(EntryKFold(3, random_state=4).split(kind) for kind in kinds), strict=True):
        for entries in folds[1:]:
            np.testing.assert_array_equal(np.array(entries), np.array(folds[0]))


@pytest.mark.parametrize("cv", [KFold(5), ShuffleSplit(5)], ids=["KFold", "ShuffleSplit"])
def test_splitters_of_rows_are_refused_with_the_remedy(cv, rng):
    table = rng.normal(size=(10, 4))
    for criterion in ("held_out", "bic"):
        with pytest.raises(TypeError, match=r"rows.*EntryKFold"):
            select_rank(PPCA(), table, ranks=[1, 2], criterion=criterion, cv=cv)
    with pytest.raises(TypeError, match=r"rows.*EntryKFold"):
        entry_cross_validate(PPCA(1), table, cv=cv)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: EntryKFold(1), ValueError, "n_splits.*2.*got 1"),
        (lambda: EntryKFold(2.5), TypeError, "n_splits.*2.5"),
        (lambda: EntryShuffleSplit(fraction=1.0), ValueError, "fraction.*1.0"),
        (lambda: list(EntryKFold(9).split(np.zeros((2, 2)))), ValueError, "EntryKFold.*fewer splits"),
        (lambda: entry_cross_validate(PPCA(1), np.eye(4), cv=[([0], [1])]), TypeError, "EntryKFold"),
    ],
    ids=["one", "fraction", "all", "too many", "pairs"],
)
def test_bad_splits(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_dask_arrays_are_refused_with_a_remedy():
    array = pytest.importorskip("dask.array")
    with pytest.raises(TypeError, match=r"Dask.*compute\(\)"):
        next(EntryKFold(2).split(array.zeros((20, 5), chunks=(10, 5))))

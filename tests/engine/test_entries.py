"""Taking and hiding single entries of tables of all kinds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from anypca.engine import check_data, hide_entries, take_entries

TABLE = np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0], [4.0, 0.0, np.nan], [0.0, 0.0, 5.0]])
ROWS, COLUMNS = np.array([0, 1, 1, 3]), np.array([0, 1, 2, 2])
NAMES = ["a", "b", "c"]

KINDS = {
    "dense": lambda table: table,
    "fortran": np.asfortranarray,
    "csr": sparse.csr_array,
    "csc-matrix": sparse.csc_matrix,
    "pandas": lambda table: pd.DataFrame(table, columns=NAMES),
    "pandas-sparse": lambda table: pd.DataFrame.sparse.from_spmatrix(sparse.csr_array(table), columns=NAMES),
    "polars": lambda table: pl.DataFrame(table, schema=NAMES),
}


def dense(X):
    return np.concatenate([block.source.read(block.start, block.stop) for block in check_data(X).blocks])


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_hidden_entries_are_missing_and_others_stay(make):
    hidden = hide_entries(make(TABLE), ROWS, COLUMNS)
    expected = TABLE.copy()
    expected[ROWS, COLUMNS] = np.nan
    np.testing.assert_array_equal(dense(hidden), expected)


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_values_of_entries(make):
    np.testing.assert_array_equal(take_entries(make(TABLE), ROWS, COLUMNS), [0.0, 0.0, 3.0, 5.0])


def test_the_given_table_is_not_changed():
    table = TABLE.copy()
    matrix = sparse.csr_array(table)
    hide_entries(table, ROWS, COLUMNS)
    hide_entries(matrix, ROWS, COLUMNS)
    np.testing.assert_array_equal(table, TABLE)
    np.testing.assert_array_equal(matrix.toarray(), TABLE)


def test_a_sparse_table_stores_the_hidden_entries_and_nothing_else():
    matrix = sparse.random_array((40, 30), density=0.05, rng=np.random.default_rng(0), format="csr")
    hidden = hide_entries(matrix, ROWS, COLUMNS)
    assert sparse.issparse(hidden)
    assert hidden.nnz <= matrix.nnz + len(ROWS)


@pytest.mark.parametrize("kind", ["pandas", "pandas-sparse", "polars"])
def test_frames_keep_their_names(kind):
    assert check_data(hide_entries(KINDS[kind](TABLE), ROWS, COLUMNS)).feature_names == tuple(NAMES)


@pytest.mark.parametrize(
    ("given", "expected"), [(np.float32, np.float32), (np.int64, np.float64)], ids=["float32", "int"]
)
def test_precision(given, expected):
    table = np.nan_to_num(TABLE).astype(given)
    assert hide_entries(table, ROWS, COLUMNS).dtype == expected
    assert hide_entries(sparse.csr_array(table), ROWS, COLUMNS).dtype == expected


def test_rows_are_matched_to_blocks():
    table = np.arange(6000.0).reshape(3000, 2)
    rows = np.arange(0, 3000, 7)
    np.testing.assert_array_equal(take_entries(table, rows, rows % 2), table[rows, rows % 2])

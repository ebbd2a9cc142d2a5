"""Bad tables raise errors that name the entry or column and the remedy."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from anypca import EPCA, PPCA

X = np.arange(12.0).reshape(4, 3) % 5


def with_entry(value, row=2, column=1, dtype=float):
    changed = X.astype(dtype)
    changed[row, column] = value
    return changed


def broken_csr(indices=(0, 1), indptr=(0, 1, 2)):
    matrix = sparse.csr_array((2, 3))
    matrix.data, matrix.indices, matrix.indptr = np.ones(2), np.array(indices), np.array(indptr)
    return matrix


UNKNOWN = da.from_array(X, chunks=(2, 3))
UNKNOWN = UNKNOWN[da.from_array(np.ones(4, bool), chunks=2)]
TABLES = {
    "none": (None, TypeError, "two-dimensional"),
    "path": ("table.csv", TypeError, "two-dimensional"),
    "1-d": (X[0], ValueError, "2D array.*Reshape"),
    "1-d-sparse": (sparse.coo_array(X[0]), ValueError, "2D array.*Reshape"),
    "series": (pd.Series([1.0]), ValueError, "2D array.*Reshape"),
    "3-d": (X.reshape(2, 2, 3), ValueError, "dim 3.*Reshape"),
    "ragged": ([[1, 2], [3]], ValueError, "same number of entries"),
    "no-rows": (X[:0], ValueError, r"0 sample\(s\)"),
    "no-columns": (X[:, :0], ValueError, r"0 feature\(s\)"),
    "empty-frame": (pd.DataFrame(), ValueError, r"0 sample\(s\)"),
    "unknown-chunks": (UNKNOWN, ValueError, "compute_chunk_sizes"),
    "complex": (X + 1j, ValueError, "Complex data not supported"),
    "complex-object": (with_entry(1j, dtype=object), ValueError, r"Complex.*X\[2, 1\]"),
    "text-array": (np.array([["a", "b"]]), ValueError, r"X\[0, 0\].*'a'.*numeric"),
    "text-in-list": ([[1, 2], [3, "red"]], ValueError, r"X\[1, 1\].*'red'.*encode"),
    "text-dask": (da.from_array(np.array([["a"]])), ValueError, "strings"),
    "numeric-text": (with_entry("1.5", dtype=object), ValueError, r"X\[2, 1\].*'1.5'.*to_numeric"),
    "date-array": (np.zeros((2, 2), "M8[s]"), TypeError, "datetime64.*Convert"),
    "structured": (np.zeros((2, 2), [("a", "f8")]), TypeError, "dtype.*Convert"),
    "dict-entry": (with_entry({"a": 1}, dtype=object), TypeError, r"X\[2, 1\].*Replace"),
    "huge-integer": (with_entry(10**400, dtype=object), ValueError, r"X\[2, 1\].*Rescale"),
    "duplicate-names": (pd.DataFrame(X, columns=["a", "b", "a"]), ValueError, "'a'.*Rename"),
    "mixed-names": (pd.DataFrame(X, columns=["a", "b", 3]), TypeError, "'int', 'str'"),
    "lazy-text": (pl.LazyFrame({"a": [1.0, 2.0], "k": ["u", "v"]}), ValueError, "'k'.*Leave it out"),
    "csr-column": (broken_csr(indices=(0, 3)), ValueError, "column 3.*Rebuild"),
    "csr-pointers": (broken_csr(indptr=(0, 2, 1)), ValueError, "never decrease.*Rebuild"),
    "csr-too-long": (broken_csr(indptr=(0, 1, 5)), ValueError, "ends at 5.*Rebuild"),
    "inf": (with_entry(np.inf), ValueError, r"X\[2, 1\] is inf.*NaN"),
    "inf-dask": (da.from_array(with_entry(np.inf), chunks=(1, 3)), ValueError, r"X\[2, 1\] is inf"),
    "inf-frame": (pd.DataFrame(with_entry(-np.inf), columns=list("abc")), ValueError, r"column 'b'.*-inf"),
    "nan-column": (with_entry(np.nan, slice(None)), ValueError, r"no observed entry.*1.*Drop"),
    "nan-named": (pd.DataFrame(with_entry(np.nan, slice(None)), columns=list("abc")), ValueError, "'b'"),
    "too-large": (with_entry(1e200), ValueError, "too large.*1.*Rescale"),
}  # fmt: skip


@pytest.mark.parametrize(("table", "error", "message"), TABLES.values(), ids=TABLES)
def test_bad_tables(table, error, message):
    with pytest.raises(error, match=f"(?s){message}"):
        PPCA(1).fit(table)


def test_many_empty_columns_are_counted():
    table = np.full((3, 9), np.nan)
    table[:, 0] = 1.0
    with pytest.raises(ValueError, match="1, 2, 3, 4, 5 and 3 more"):
        PPCA(1).fit(table)


LATE = with_entry(np.nan, row=3)[:, :2]
COMPANIONS = {
    "weight-short": ({"sample_weight": [1, 1]}, r"sample_weight must have shape \(4,\).*got \(2,\)"),
    "weight-negative": ({"sample_weight": [1, -2, 1, 1]}, r"sample_weight\[1\] is -2.*Use 0"),
    "weight-nan": ({"sample_weight": [1, 1, np.nan, 1]}, r"sample_weight\[2\] is nan.*Fill"),
    "weight-zero": ({"sample_weight": np.zeros(4)}, "sample_weight is zero for every row"),
    "weight-text": ({"sample_weight": ["a"] * 4}, r"sample_weight\[0\].*'a'"),
    "offset-short": ({"offset": np.ones(3)}, r"offset must have shape \(4,\).*got \(3,\)"),
    "offset-wide": ({"offset": np.ones((4, 2))}, r"offset must have shape.*got \(4, 2\)"),
    "offset-inf": ({"offset": with_entry(np.inf)}, r"offset\[2, 1\] is inf.*Fill"),
    "offset-nan": ({"offset": [0, 0, 0, np.nan]}, r"offset\[3\] is nan"),
    "offset-nan-csr": ({"offset": sparse.csr_array(with_entry(np.nan))}, r"offset\[2, 1\] is nan"),
    "offset-text": ({"offset": pd.Series(["a"] * 4)}, r"offset\[0\].*'a'"),
    "covariates-short": ({"covariates": np.ones((3, 2))}, r"covariates must have shape \(4, .*got \(3, 2\)"),
    "covariates-nan": ({"covariates": with_entry(np.nan)}, r"covariates\[2, 1\] is nan.*Fill"),
    "covariates-text": (
        {"covariates": {"batch": np.array([1, "b", 2, 3], dtype=object)}},
        r"row 1 of column 'batch' is 'b'",
    ),
}


@pytest.mark.parametrize("is_dask", [False, True], ids=["memory", "dask"])
@pytest.mark.parametrize(("others", "message"), COMPANIONS.values(), ids=COMPANIONS)
def test_bad_companions(others, message, is_dask):
    table = da.from_array(X, chunks=(2, 3)) if is_dask else X
    with pytest.raises(ValueError, match=f"(?s){message}"):
        EPCA(1, family="gaussian").fit(table, **others)


def test_columns_without_weight_are_empty():
    with pytest.raises(ValueError, match=r"positive weight in column\(s\) 1"):
        EPCA(1, family="gaussian").fit(with_entry(np.nan, row=3), sample_weight=[0, 0, 0, 1])
    with pytest.raises(ValueError, match=r"offset\[1\] is 1e\+300"):
        EPCA(1, family="gaussian").fit(X.astype("f4"), offset=[0, 1e300, 0, 0])


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array, pd.DataFrame, da.from_array])
@pytest.mark.parametrize(
    ("family", "value"), [("poisson", -1.0), ("bernoulli", 2.0), ("gamma", 0.0), ("binomial(3)", 4.0)]
)
def test_values_outside_the_support_are_named(container, family, value):
    table = np.ones((6, 3))
    table[3, 1] = value
    with pytest.raises(ValueError, match=rf"(?s)X\[3, 1\].*{value:g}.*family"):
        EPCA(1, family=family).fit(container(table))

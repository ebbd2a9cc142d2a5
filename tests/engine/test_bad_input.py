"""Every bad input raises the right exception, which names the entry and the remedy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from anypca.engine import check_data, check_finite, check_values, executor_for, summarise

X = np.arange(12.0).reshape(4, 3)


def with_entry(value, row=2, column=1, dtype=float):
    changed = X.astype(dtype)
    changed[row, column] = value
    return changed


def check_all(table, **others):
    data = check_data(table, **others)
    with executor_for(data) as executor:
        return check_values(summarise(data, executor), data)


def broken_csr(indices=(0, 1), indptr=(0, 1, 2), shape=(2, 3)):
    matrix = sparse.csr_array(shape)
    matrix.data, matrix.indices, matrix.indptr = np.ones(2), np.array(indices), np.array(indptr)
    return matrix


BAD_TABLES = {
    "none": (None, TypeError, "X is a NoneType.*Pass a two-dimensional"),
    "path": ("table.csv", TypeError, "X is a str.*Pass a two-dimensional"),
    "dict": ({"a": [1]}, TypeError, "X is a dict.*Pass a two-dimensional"),
    "object": (object(), TypeError, "X is a object.*Pass a two-dimensional"),
    "lazy-frame": (pl.LazyFrame({"a": ["u"]}), ValueError, "'a' of X is of type String.*Leave it out"),
    "scalar": (3.0, ValueError, "Expected 2D array, got scalar array instead.*Reshape your data"),
    "1-d": (X[0], ValueError, "Expected 2D array, got 1D array instead.*Reshape your data"),
    "1-d-sparse": (sparse.coo_array(X[0]), ValueError, "Expected 2D array, got 1D array.*Reshape your data"),
    "series": (pd.Series([1.0]), ValueError, "Expected 2D array, got 1D.*Reshape your data"),
    "3-d": (X.reshape(2, 2, 3), ValueError, "dim 3.*Reshape your data"),
    "ragged": ([[1, 2], [3]], ValueError, "not a rectangular table.*same number of entries"),
    "no-rows": (X[:0], ValueError, r"0 sample\(s\) \(shape=\(0, 3\)\) while a minimum of 1 is required"),
    "no-columns": (
        X[:, :0],
        ValueError,
        r"0 feature\(s\) \(shape=\(4, 0\)\) while a minimum of 1 is required",
    ),
    "no-columns-csr": (sparse.csr_array((4, 0)), ValueError, r"0 feature\(s\)"),
    "empty-frame": (pd.DataFrame(), ValueError, r"0 sample\(s\)"),
    "complex": (X + 1j, ValueError, "Complex data not supported.*real and imaginary"),
    "complex-csr": (sparse.csr_array(X + 1j), ValueError, "Complex data not supported"),
    "complex-object": (with_entry(1j, dtype=object), ValueError, r"Complex data not supported: X\[2, 1\]"),
    "complex-frame": (pd.DataFrame({"a": [1j], "b": ["x"]}), ValueError, "Complex data not supported"),
    "text-array": (np.array([["a", "b"]]), ValueError, r"X\[0, 0\] is the string 'a'.*Convert numeric text"),
    "text-in-list": ([[1, 2], [3, "red"]], ValueError, r"X\[1, 1\] is the string 'red'.*encode categories"),
    "text-in-objects": (with_entry("red", dtype=object), ValueError, r"X\[2, 1\] is the string 'red'"),
    "numeric-text": (
        with_entry("1.5", dtype=object),
        ValueError,
        r"X\[2, 1\] is the string '1.5'.*to_numeric",
    ),
    "text-column": (
        pd.DataFrame({"a": [1, 2], "colour": [None, "red"]}),
        ValueError,
        r"X\[1, 1\] \(column 'colour'\) is the string 'red'",
    ),
    "string-dtype": (pd.DataFrame({"s": pd.array(["u"], dtype="string")}), ValueError, "column 's'.*'u'"),
    "categories": (pd.DataFrame({"c": pd.Categorical(["u"])}), ValueError, "column 'c'.*'u'.*encode"),
    "polars-text": (pl.DataFrame({"a": [1], "s": ["u"]}), ValueError, r"X\[0, 1\] \(column 's'\).*'u'"),
    "dates": (
        pd.DataFrame({"t": pd.to_datetime(["2020-01-01"])}),
        TypeError,
        "column 't'.*datetime64.*Drop it",
    ),
    "date-array": (np.zeros((2, 2), "M8[s]"), TypeError, "X has dtype datetime64.*Convert"),
    "structured": (np.zeros((2, 2), [("a", "f8")]), TypeError, "X has dtype.*Convert"),
    "dict-entry": (
        with_entry({"a": 1}, dtype=object),
        TypeError,
        r"X\[2, 1\].*argument must be .* string.* number.*Replace it",
    ),
    "huge-integer": (with_entry(10**400, dtype=object), ValueError, r"X\[2, 1\] is too large.*Rescale"),
    "duplicate-names": (
        pd.DataFrame(X, columns=["a", "b", "a"]),
        ValueError,
        "2 columns called 'a'.*Rename or drop",
    ),
    "mixed-names": (
        pd.DataFrame(X, columns=["a", "b", 3]),
        TypeError,
        r"Feature names are only supported if all .* have string names.*\['int', 'str'\].*astype\(str\)",
    ),
    "csr-column": (broken_csr(indices=(0, 3)), ValueError, "valid CSR.*column 3.*0..2.*Rebuild"),
    "csr-negative": (broken_csr(indices=(0, -1)), ValueError, "valid CSR.*column -1.*Rebuild"),
    "csr-pointers": (broken_csr(indptr=(0, 2, 1)), ValueError, "valid CSR.*never decrease.*Rebuild"),
    "csr-too-long": (broken_csr(indptr=(0, 1, 5)), ValueError, "valid CSR.*ends at 5.*Rebuild"),
    "inf": (with_entry(np.inf), ValueError, r"X\[2, 1\] is inf; entries must be finite.*Use NaN"),
    "minus-inf-column": (
        pd.DataFrame(with_entry(-np.inf), columns=list("abc")),
        ValueError,
        r"X\[2, 1\] \(column 'b'\) is -inf",
    ),
    "inf-csr": (sparse.csr_array(with_entry(np.inf)), ValueError, r"X\[2, 1\] is inf"),
    "nan-column": (
        with_entry(np.nan, row=slice(None)),
        ValueError,
        r"no observed entry in column\(s\) 1.*Drop",
    ),
    "nan-named": (
        pd.DataFrame(with_entry(np.nan, slice(None)), columns=list("abc")),
        ValueError,
        r"column\(s\) 1 \('b'\)",
    ),
    "too-large": (with_entry(1e200), ValueError, r"too large.*column\(s\) 1.*Rescale"),
}


@pytest.mark.parametrize(("table", "error", "message"), BAD_TABLES.values(), ids=BAD_TABLES)
def test_bad_table(table, error, message):
    with pytest.raises(error, match=f"(?s){message}"):
        check_all(table)


BAD_OTHERS = {
    "weight-short": (
        {"sample_weight": [1, 1]},
        ValueError,
        r"sample_weight must have shape \(4,\).*got \(2,\)",
    ),
    "weight-2-d": ({"sample_weight": np.ones((4, 2))}, ValueError, r"sample_weight must have shape \(4,\)"),
    "weight-negative": ({"sample_weight": [1, -2, 1, 1]}, ValueError, r"sample_weight\[1\] is -2.*Use 0"),
    "weight-nan": ({"sample_weight": [1, 1, np.nan, 1]}, ValueError, r"sample_weight\[2\] is nan.*Fill"),
    "weight-zero": (
        {"sample_weight": np.zeros(4)},
        ValueError,
        "sample_weight is zero for every row.*positive",
    ),
    "weight-text": ({"sample_weight": ["a"] * 4}, ValueError, r"sample_weight\[0\] is the string 'a'"),
    "weight-none": ({"sample_weight": [1, None, 1, 1]}, ValueError, r"sample_weight\[1\] is nan"),
    "offset-short": (
        {"offset": np.ones(3)},
        ValueError,
        r"offset must have shape \(4,\).*\(4, 3\).*got \(3,\)",
    ),
    "offset-wide": ({"offset": np.ones((4, 2))}, ValueError, r"offset must have shape.*got \(4, 2\)"),
    "offset-3-d": ({"offset": np.ones((4, 3, 1))}, ValueError, "offset must have shape"),
    "offset-scalar": ({"offset": 1.0}, ValueError, r"offset must have shape.*got \(\)"),
    "offset-inf": ({"offset": with_entry(np.inf)}, ValueError, r"offset\[2, 1\] is inf.*Fill"),
    "offset-nan-row": ({"offset": [0, 0, 0, np.nan]}, ValueError, r"offset\[3\] is nan"),
    "offset-nan-csr": (
        {"offset": sparse.csr_array(with_entry(np.nan))},
        ValueError,
        r"offset\[2, 1\] is nan",
    ),
    "offset-text": ({"offset": pd.Series(["a"] * 4)}, ValueError, r"offset\[0\] is the string 'a'"),
    "offset-dict": ({"offset": {"a": 1}}, TypeError, "offset is a dict"),
    "covariates-short": (
        {"covariates": np.ones((3, 2))},
        ValueError,
        r"covariates must have shape \(4, .*got \(3, 2\)",
    ),
    "covariates-3-d": ({"covariates": np.ones((4, 2, 2))}, ValueError, "covariates must have shape"),
    "covariates-nan": ({"covariates": with_entry(np.nan)}, ValueError, r"covariates\[2, 1\] is nan.*Fill"),
    "covariates-text": (
        {"covariates": pd.DataFrame({"batch": list("abcd")})},
        ValueError,
        r"covariates\[0, 0\] \(column 'batch'\) is the string 'a'",
    ),
    "block-rows-zero": ({"block_rows": 0}, ValueError, "block_rows must be at least 1"),
    "block-rows-float": ({"block_rows": 2.5}, TypeError, "block_rows must be an integer"),
    "column-of-weight-0": (
        {"sample_weight": [0, 0, 0, 1], "X": with_entry(np.nan, row=3)},
        ValueError,
        r"no observed entry in rows of positive weight in column\(s\) 1",
    ),
}


@pytest.mark.parametrize(("others", "error", "message"), BAD_OTHERS.values(), ids=BAD_OTHERS)
def test_bad_company(others, error, message):
    others = dict(others)
    with pytest.raises(error, match=f"(?s){message}"):
        check_all(others.pop("X", X), **others)


def test_offset_beyond_float32():
    with pytest.raises(ValueError, match=r"offset\[1\] is 1e\+300"):
        check_data(X.astype("f4"), offset=[0, 1e300, 0, 0])


def test_many_empty_columns_are_counted():
    table = np.full((3, 9), np.nan)
    table[:, 0] = 1.0
    with pytest.raises(ValueError, match=r"column\(s\) 1, 2, 3, 4, 5 and 3 more"):
        check_all(table)


def test_check_finite_lets_missing_pass():
    data = check_data(with_entry(np.nan))
    with executor_for(data) as executor:
        check_finite(data, executor)
    data = check_data(with_entry(-np.inf))
    with executor_for(data) as executor, pytest.raises(ValueError, match=r"X\[2, 1\] is -inf"):
        check_finite(data, executor)

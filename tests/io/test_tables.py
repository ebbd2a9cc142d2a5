"""Reading tables: what is understood, what is told, what is refused."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pytest
from scipy import io as scipy_io
from scipy import sparse

from anypca.io import read_table

NAN = np.nan


def write(folder, text, name="table.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def said(frame):
    return " | ".join(frame.notes)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a,b\n1,2.5\n3,4\n", "t.csv"),
        ("a;b\n1;2.5\n3;4\n", "t.csv"),
        ("a;b\n1;2,5\n3;4\n", "t.csv"),
        ("a\tb\n1\t2.5\n3\t4\n", "t.tsv"),
        ("a\tb\n1\t2,5\n3\t4\n", "t.txt"),
        ("a  b\n1 2.5\n3   4 \n", "t.txt"),
        ("\ufeffa,b\r\n1,2.5\r\n\r\n3,4\r\n", "t.CSV"),
        ('"a", "b"\n"1", 2.5\n3 , 4\n', "t.csv"),
        ("a,b,\n1,2.5,\n3,4,\n", "t.csv"),
        ("a,b\n1,2.5,\n3,4,\n", "t.csv"),
    ],
    ids=[
        "comma",
        "semicolon",
        "decimal-comma",
        "tab",
        "tab-decimal-comma",
        "blanks",
        "bom-crlf-blank-line",
        "quotes-and-blanks",
        "trailing-delimiter",
        "trailing-delimiter-in-data-only",
    ],
)
def test_text_dialects_give_the_same_table(tmp_path, text, name):
    frame = read_table(write(tmp_path, text, name))
    np.testing.assert_array_equal(frame.values, [[1.0, 2.5], [3.0, 4.0]])
    assert frame.column_names == ("a", "b")
    assert frame.row_names == ("1", "2")
    assert (frame.n_rows, frame.n_columns, frame.is_sparse) == (2, 2, False)


def test_messy_csv(tmp_path):
    text = (
        "patient;visit;age;smoker;alive;dose;city;mixed;empty;const\n"
        "p1;2024-01-03;51;yes;True;1,5;Bonn;3;;7\n"
        "p2;2024-02-03;;no;False;0,25;Köln;4;;7\n"
        "p3;2024-03-03;NA;YES;;?;Bonn;n/a?;;7\n"
        "p4;;;;;;;;;\n"
        "p5;2024-05-01;33;;True;2;Ulm;5;;7\n"
    )
    frame = read_table(write(tmp_path, text))
    assert frame.column_names == ("age", "smoker", "alive", "dose", "const")
    assert frame.row_names == ("p1", "p2", "p3", "p5")
    expected = [[51, 1, 1, 1.5, 7], [NAN, 0, 0, 0.25, 7], [NAN, 1, NAN, NAN, 7], [33, NAN, 1, 2, 7]]
    np.testing.assert_array_equal(frame.values, expected)
    assert frame.missing_fraction == pytest.approx(5 / 20)
    assert frame.notes == (
        "cells are separated by semicolons",
        "commas within numbers read as decimal signs",
        "column 'patient' taken as row names",
        "column 'smoker' read as 1 and 0 (no/yes)",
        "column 'alive' read as 1 and 0 (false/true)",
        "1 column left out: 'visit' (it holds dates)",
        "1 column left out: 'city' (it holds text)",
        "1 column left out: 'mixed' (1 of its 4 cells are not numbers, the first is 'n/a?')",
        "1 column left out: 'empty' (it is empty)",
        "1 row without any number left out: 'p4'",
        "5 cells are missing, in 4 columns: 'age', 'smoker', 'alive', 'dose'",
    )


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [("y n y", [1, 0, 1]), ("T f T", [1, 0, 1]), ("no no no", [0, 0, 0]), ("true no yes", [1, 0, 1])],
)
def test_answers_become_ones_and_zeros(tmp_path, cells, numbers):
    frame = read_table(write(tmp_path, "a,b\n" + "".join(f"5,{cell}\n" for cell in cells.split())))
    np.testing.assert_array_equal(frame.values[:, 1], numbers)
    assert "'b' read as 1 and 0" in said(frame)


def test_a_single_letter_is_a_kind(tmp_path):
    assert read_table(write(tmp_path, "a,b\n5,T\n6,T\n")).column_names == ("a",)


def test_a_clean_file_has_nothing_to_tell(tmp_path):
    assert read_table(write(tmp_path, "a,b\n1,2\n3,4\n")).notes == ()


@pytest.mark.parametrize(
    ("text", "rows", "columns"),
    [
        ("gene,a,b\ng1,1,2\ng2,3,4\n", ("g1", "g2"), ("a", "b")),
        ("a,b,id\n1,2,17\n3,4,18\n", ("17", "18"), ("a", "b")),
        ("a,Sample\n1,s1\n3,s2\n", ("s1", "s2"), ("a",)),
        (",a\n0,1\n1,3\n", ("0", "1"), ("a",)),
        ("a\tb\nr1\t1\t2\nr2\t3\t4\n", ("r1", "r2"), ("a", "b")),
        ("day,a\n2024-01-01,1\n2024-01-02,3\n", ("2024-01-01", "2024-01-02"), ("a",)),
        ("group,a\nx,1\nx,3\n", ("1", "2"), ("a",)),
        ("id,a\n7,1\n7,3\n", ("1", "2"), ("a",)),
    ],
    ids=[
        "first-text",
        "id-last",
        "sample",
        "saved-index",
        "r-row-names",
        "dates",
        "repeated-text",
        "repeated-id",
    ],
)
def test_row_names(tmp_path, text, rows, columns):
    frame = read_table(write(tmp_path, text))
    assert frame.row_names == rows
    assert frame.column_names == columns
    assert frame.notes


def test_numbers_only_in_the_first_line_are_data(tmp_path):
    path = write(tmp_path, "1,2\n3,4\n")
    frame = read_table(path)
    assert frame.column_names == ("x1", "x2")
    assert frame.n_rows == 2
    assert "first line holds numbers" in said(frame)
    assert read_table(path, header=True).column_names == ("1", "2")


def test_given_format_is_not_guessed(tmp_path):
    path = write(tmp_path, "a|b\n1|2,5\n3|4\n")
    frame = read_table(path, delimiter="|", decimal=",")
    np.testing.assert_array_equal(frame.values, [[1, 2.5], [3, 4]])
    assert frame.notes == ()


@pytest.mark.parametrize("given", [{"delimiter": "ab"}, {"delimiter": ""}, {"decimal": "x"}], ids=str)
def test_given_format_must_make_sense(tmp_path, given):
    with pytest.raises(ValueError, match=r"single character; got|decimal sign must be '.' or ','; got"):
        read_table(write(tmp_path, "a,b\n1,2\n"), **given)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1;2,5\n3;4,5\n", [[1, 2.5], [3, 4.5]]),
        ("my column\n1\n2\n", [[1], [2]]),
        ("a,b\n nan ,NA\n1,2\n -,3\n", [[1, 2], [NAN, 3]]),
        ("a,b\r1,2\r3,4\r", [[1, 2], [3, 4]]),
        ("a,b\n1e3,-.5\n2,99999999999999999999999\n", [[1000, -0.5], [2, 1e23]]),
    ],
    ids=["decimal-comma-no-header", "blank-in-the-only-name", "padded-missing", "old-mac", "notations"],
)
def test_traps(tmp_path, text, values):
    np.testing.assert_allclose(read_table(write(tmp_path, text)).values, values)


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (('"1,234"', '"5,678"'), [1234, 5678]),
        (("1%", "2 %"), [0.01, 0.02]),
        (("1'000", "2'000"), [1000, 2000]),
    ],
    ids=str,
)
def test_odd_numbers_in_the_first_column_are_no_row_names(tmp_path, cells, numbers):
    frame = read_table(write(tmp_path, f"a,b\n{cells[0]},1\n{cells[1]},2\n"))
    assert frame.column_names == ("a", "b")
    assert frame.row_names == ("1", "2")
    np.testing.assert_array_equal(frame.values[:, 0], numbers)
    assert "column 'a' read" in said(frame)


def test_line_breaks_in_names_become_blanks(tmp_path):
    assert read_table(write(tmp_path, '"a\n b",c\n1,2\n')).column_names == ("a b", "c")


def test_single_column_with_decimal_commas(tmp_path):
    np.testing.assert_array_equal(read_table(write(tmp_path, "a\n1,5\n2,5\n")).values, [[1.5], [2.5]])


def test_latin1_is_read_with_a_note(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("größe\n1\n2\n".encode("latin-1"))
    frame = read_table(path)
    assert frame.column_names == ("größe",)
    assert "not in UTF-8" in said(frame)


def test_utf16_is_read(tmp_path):
    path = tmp_path / "t.txt"
    path.write_bytes("a\tb\n1\t2\n".encode("utf-16"))
    assert read_table(path).column_names == ("a", "b")


def test_gzip(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n1,2\n"))
    np.testing.assert_array_equal(read_table(path).values, [[1, 2]])


def test_parquet(tmp_path):
    table = pd.DataFrame(
        {
            "n": pd.array([1, None, 3], dtype="Int64"),
            "f": np.array([0.5, 1.5, np.nan], dtype=np.float32),
            "b": [True, False, True],
            "when": pd.date_range("2024-01-01", periods=3),
            "kind": pd.Categorical(["u", "v", "u"]),
        },
        index=pd.Index(["r1", "r2", "r3"], name="sample"),
    )
    path = tmp_path / "t.parquet"
    table.to_parquet(path)
    frame = read_table(path)
    np.testing.assert_array_equal(frame.values, [[1, 0.5, 1], [NAN, 1.5, 0], [3, NAN, 1]])
    assert frame.column_names == ("n", "f", "b")
    assert frame.row_names == ("r1", "r2", "r3")
    assert "'when' (it holds dates)" in said(frame)
    assert "'kind' (it holds text)" in said(frame)


DENSE = np.array([[0, 1, 0], [2, 0, 3]])


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ({"anything": DENSE}, DENSE),
        ({"table": DENSE, "labels": np.arange(2)}, DENSE),
        ({"X": DENSE, "other": DENSE + 1}, DENSE),
        ({"counts": DENSE.astype(np.int8), "offset": DENSE + 1}, DENSE),
    ],
    ids=["one", "one-table", "named-X", "named-counts"],
)
def test_npz(tmp_path, arrays, expected):
    np.savez(tmp_path / "t.npz", **arrays)
    frame = read_table(tmp_path / "t.npz")
    np.testing.assert_array_equal(frame.values, expected)
    assert frame.values.dtype == np.float64
    assert frame.column_names == ("x1", "x2", "x3")


def test_npy_keeps_float32(tmp_path):
    np.save(tmp_path / "t.npy", DENSE.astype(np.float32))
    assert read_table(tmp_path / "t.npy").values.dtype == np.float32


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
def test_sparse_npz(tmp_path, kind):
    sparse.save_npz(tmp_path / "t.npz", kind(DENSE))
    frame = read_table(tmp_path / "t.npz")
    assert isinstance(frame.values, sparse.csr_array)
    assert frame.is_sparse
    np.testing.assert_array_equal(frame.values.toarray(), DENSE)
    assert frame.missing_fraction == 0.0


@pytest.mark.parametrize("compress", [False, True], ids=["mtx", "mtx.gz"])
@pytest.mark.parametrize("matrix", [sparse.coo_array(DENSE), DENSE.astype(float)], ids=["sparse", "dense"])
def test_mtx(tmp_path, compress, matrix):
    path = tmp_path / "t.mtx"
    scipy_io.mmwrite(path, matrix)
    if compress:
        (tmp_path / "t.mtx.gz").write_bytes(gzip.compress(path.read_bytes()))
        path = tmp_path / "t.mtx.gz"
    frame = read_table(path)
    values = frame.values.toarray() if frame.is_sparse else frame.values
    np.testing.assert_array_equal(values, DENSE)


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("t.csv", b"", "is empty.*column names"),
        ("t.csv", b" \n\n", "is empty"),
        ("t.csv", b"PK\x03\x04\x00\x00\x01", "not a text file.*Save the table as CSV"),
        ("t.csv", b"a,b\n1,2\n3\n", "line 3: expected 2 cells.*found 1.*Mend that line"),
        ("t.csv", b"a,b\n1,2\n3,4,5\n", "line 3: expected 2 cells.*found 3"),
        ("t.csv", b"a,a\n1,2\n", "'a' occur more than once. Rename"),
        ("t.csv", b"a,b\nu,v\nu,v\n", "at least one column of numbers.*'a', 'b'"),
        ("t.csv", b"a,b\n", "only column names. Add the data"),
        ("t.csv.gz", b"a,b\n1,2\n", "not a whole gzip file"),
        ("t.csv.gz", gzip.compress(b"a,b\n1,2\n" * 99, mtime=0)[:-9], "not a whole gzip file"),
        ("t.ods", b"PK", r"unknown file extension '.ods'; known are \.csv.*Save the table"),
        ("t", b"a", r"unknown file extension '\(none\)'"),
        ("t.npz.gz", b"a", "not a whole gzip file"),
        ("t.npz", b"not a zip", "cannot be read.*Write the file again"),
        ("t.npz", b"PK\x03\x04broken", "cannot be read.*Write the file again"),
        ("t.npy", b"", "cannot be read.*np.save"),
        ("t.mtx", b"hello\n", "cannot be read.*mmwrite"),
        ("t.mtx.gz", gzip.compress(b"hello\n", mtime=0), "cannot be read.*mmwrite"),
        ("t.parquet", b"hello", "cannot be read.*to_parquet"),
    ],
)
def test_bad_files_are_refused_with_name_and_remedy(tmp_path, name, content, complaint):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=complaint) as caught:
        read_table(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        ({"a": DENSE, "b": DENSE}, r"one named X or counts; it holds a \(2, 3\), b \(2, 3\)"),
        ({"X": np.arange(3)}, r"it holds X \(3,\)"),
        ({}, "it holds nothing"),
        ({"X": np.array([["a", "b"]])}, "expected numbers; the array is of type <U1"),
        ({"X": np.array([[1j, 2]])}, "expected numbers"),
        ({"X": np.zeros((0, 3))}, r"array of shape \(0, 3\)"),
    ],
    ids=["two-tables", "vector", "nothing", "text", "complex", "no-rows"],
)
def test_bad_npz(tmp_path, arrays, complaint):
    np.savez(tmp_path / "t.npz", **arrays)
    with pytest.raises(ValueError, match=complaint):
        read_table(tmp_path / "t.npz")


def test_pickled_arrays_are_never_loaded(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.array([[1, None]], dtype=object))
    with pytest.raises(ValueError, match="does not hold plain arrays of numbers"):
        read_table(tmp_path / "t.npz")


def test_missing_file_suggests_near_names(tmp_path):
    write(tmp_path, "a\n1\n", "patients.csv")
    with pytest.raises(FileNotFoundError, match=r"Did you mean patients\.csv\?"):
        read_table(tmp_path / "patient.csv")
    with pytest.raises(FileNotFoundError, match="Check the name"):
        read_table(tmp_path / "zzz.parquet")
    with pytest.raises(FileNotFoundError, match=r"folder .*nowhere does not exist"):
        read_table(tmp_path / "nowhere" / "t.csv")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        read_table(tmp_path)

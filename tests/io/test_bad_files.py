"""Every file that cannot be read, and every folder that cannot be written, is named with the remedy."""

from __future__ import annotations

import re

import numpy as np
import pytest

from anypca.io import read_table, write_atomically


def check(call, error, entry, remedy):
    """The entry and the remedy must both be in the message."""
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    assert re.search(entry, message, re.DOTALL), message
    assert re.search(remedy, message, re.DOTALL), message


#: File name, content, exception, what the message says of the entry, what of the remedy.
FILES = {
    "empty": ("t.csv", b"", ValueError, r"t\.csv is empty", "Expected a line of column names"),
    "blank": ("t.csv", b"\n \n", ValueError, r"t\.csv is empty", "Expected a line of column names"),
    "names-only": ("t.csv", b"a,b\n", ValueError, "only column names", "Add the data"),
    "ragged": (
        "t.csv",
        b"a,b\n1,2\n3\n",
        ValueError,
        "line 3: expected 2 cells .* found 1",
        "Mend that line",
    ),
    "open-quote": ("t.csv", b'a,b\n"1,2\n3,4\n', ValueError, "line 2: a quotation mark", "Close it"),
    "words-only": (
        "t.csv",
        b"a,b\nu,v\nw,x\n",
        ValueError,
        "found 'a', 'b', none numeric",
        "Check the delimiter",
    ),
    "commas-unquoted": (
        "t.csv",
        b"share,b\n4,5%,1\n1,2%,2\n4,7%,3\n",
        ValueError,
        "line 2: expected 2 cells .* found 3",
        "quote cells that hold the delimiter",
    ),
    "units-differ": (
        "t.csv",
        b"a,b\nu,\xc2\xa33\nw,$4\n",
        ValueError,
        "'b': its cells have different units",
        "Check the delimiter",
    ),
    "same-names": ("t.csv", b"a,a\n1,2\n", ValueError, "'a' occur more than once", "Rename these columns"),
    "binary": ("t.csv", bytes(range(9)) * 9, ValueError, "is not a text file", "Save the table as CSV"),
    "web-page": (
        "t.csv",
        b"\n<html><table></table></html>",
        ValueError,
        "holds a web page",
        "save it as CSV",
    ),
    "json": ("t.csv", b'[{"a": 1, "b": 2}]', ValueError, "holds JSON", "save it as CSV"),
    "half-utf-16": ("t.csv", b"\xff\xfe\x00", ValueError, "not whole UTF-16", "Save it again as UTF-8"),
    "not-gzip": (
        "t.csv.gz",
        b"a,b\n1,2\n",
        ValueError,
        "not a whole gzip file",
        "Compress or fetch it again",
    ),
    "extension": (
        "t.ods",
        b"PK",
        ValueError,
        r"unknown file extension '\.ods'",
        "Save the table in one of",
    ),
    "no-extension": ("t", b"1", ValueError, r"unknown file extension '\(none\)'", "Save the table in one of"),
    "xlsx": ("t.xlsx", b"PK", ValueError, r"t\.xlsx cannot be read", "spreadsheet program, as xlsx or CSV"),
    "h5ad": ("t.h5ad", b"HDF", ValueError, r"t\.h5ad cannot be read", "anndata's write_h5ad"),
    "npy": (
        "t.npy",
        b"no array",
        ValueError,
        r"t\.npy cannot be read",
        r"Write the file again with np\.save",
    ),
    "npz": ("t.npz", b"PK no zip", ValueError, r"t\.npz cannot be read", "Write the file again"),
    "mtx": ("t.mtx", b"%%Matrix\n", ValueError, "Line 1: Not a Matrix Market file", "Write the file again"),
    "parquet": ("t.parquet", b"PAR1", ValueError, r"t\.parquet cannot be read", "pandas' to_parquet"),
}


@pytest.mark.parametrize(("name", "content", "error", "entry", "remedy"), FILES.values(), ids=FILES)
def test_unreadable_file(tmp_path, name, content, error, entry, remedy):
    path = tmp_path / name
    path.write_bytes(content)
    check(lambda: read_table(path), error, entry, remedy)


@pytest.mark.parametrize(
    ("array", "entry", "remedy"),
    [
        (np.ones(3), r"an array of shape \(3,\)", "Save a two-dimensional one"),
        (np.array([["a"]]), "the array is of type <U1", "Save it as an array of real numbers"),
        (np.array([[1, None]]), "does not hold plain arrays", "Write the file again"),
    ],
    ids=["1-d", "text", "objects"],
)
def test_array_file_without_a_table(tmp_path, array, entry, remedy):
    np.save(tmp_path / "t.npy", array)
    check(lambda: read_table(tmp_path / "t.npy"), ValueError, entry, remedy)


def test_archive_with_two_tables(tmp_path):
    np.savez(tmp_path / "t.npz", first=np.ones((2, 2)), second=np.ones((3, 3)))
    check(lambda: read_table(tmp_path / "t.npz"), ValueError, r"first \(2, 2\), second", "np.savez")


@pytest.mark.parametrize(
    ("path", "options", "error", "entry", "remedy"),
    [
        ("tabel.csv", {}, FileNotFoundError, r"there is no file .*tabel\.csv", r"Did you mean table\.csv"),
        ("zzz.npz", {}, FileNotFoundError, r"there is no file .*zzz\.npz", "Check the name"),
        ("nowhere/t.csv", {}, FileNotFoundError, "the folder .*nowhere does not exist", "Check the path"),
        ("", {}, IsADirectoryError, "is a folder", "Give the path of a file"),
        (None, {}, TypeError, "path .* got NoneType", "must be the name of a file"),
        ("table.csv", {"delimiter": ";;"}, ValueError, "delimiter .* got ';;'", "must be a single character"),
        ("table.csv", {"decimal": ";"}, ValueError, "decimal sign .* got ';'", "must be '.' or ','"),
        ("table.csv", {"header": "yes"}, ValueError, "header .* got 'yes'", "must be True, False or None"),
    ],
)
def test_bad_reading(tmp_path, path, options, error, entry, remedy):
    (tmp_path / "table.csv").write_text("a,b\n1,2\n3,4\n")
    target = None if path is None else tmp_path / path
    check(lambda: read_table(target, **options), error, entry, remedy)


def test_output_folder_that_is_a_file(tmp_path):
    (tmp_path / "taken").write_text("mine")
    for folder in (tmp_path / "taken", tmp_path / "taken" / "deeper"):
        check(
            lambda f=folder: write_atomically(f, {}), NotADirectoryError, "taken is a file", "Choose another"
        )
    assert (tmp_path / "taken").read_text() == "mine"

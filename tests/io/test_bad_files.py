"""Every file that cannot be read is named with the remedy, before any harm; nothing in it is run or fetched."""

from __future__ import annotations

import gzip
import io
import os
import re
import zipfile

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from anypca.io import read_table


def check(path, entry, remedy="", **options):
    """The file is refused in one line that names it, the entry and the remedy."""
    with pytest.raises(ValueError) as caught:
        read_table(path, **options)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    assert re.search(entry, message), message
    assert re.search(remedy, message), message


def arrays(**values):
    packed = io.BytesIO()
    np.savez(packed, **values)
    return packed.getvalue()


def array(values, **options):
    packed = io.BytesIO()
    np.save(packed, values, **options)
    return packed.getvalue()


GOOD = "".join(f"{i},{i + 1},{i % 3}\n" for i in range(10)).encode()
PLAIN = b"a,b\n1,2\n"
FILES = {
    "empty": ("t.csv", b"", "is empty", "Expected a line of column names"),
    "names-only": ("t.csv", b"a,b\n", "only column names", "Add the data"),
    "ragged": ("t.csv", b"a,b\n1,2\n3\n", "line 3.* 2 cells .* 1", "Mend that line"),
    "below-a-title": ("t.csv", b"# note\nTitle\n\na,b\n1,2\n3,4\n5,6,7\n8,9\n", "line 7.* 2 cells", "Mend"),
    "commas-unquoted": ("t.csv", b"share,b\n4,5%,1\n1,2%,2\n4,7%,3\n", "line 2", "quote cells that hold"),
    "open-quote": ("t.csv", b'a,b\n"1,2\n3,4\n', "line 2: a quotation mark", "Close it"),
    "quote-far-down": ("t.csv", PLAIN + b"1,2\n" * 499 + b'3,"5\n' + b"1,2\n" * 9999, "line 502", "mark"),
    "words-only": ("t.csv", b"a,b\nu,v\nw,x\n", "'a', 'b'", "Check the delimiter"),
    "units-differ": ("t.csv", b"a,b\nu,\xc2\xa33\nw,$4\n", "'b'.* different units", "Check the delimiter"),
    "same-names": ("t.csv", b"a,a\n1,2\n", "'a'", "Rename these columns"),
    "binary": ("t.csv", bytes(range(9)) * 9, "not a text file", "Save the table as CSV"),
    "web-page": ("t.csv", b"\n<html><table></table></html>", "web page", "save it as CSV"),
    "json": ("t.csv", b'[{"a": 1, "b": 2}]', "JSON", "save it as CSV"),
    "half-utf-16": ("t.csv", b"\xff\xfe\x00", "UTF-16", "Save it again as UTF-8"),
    "not-gzip": ("t.csv.gz", PLAIN, "not a whole gzip file", "again"),
    "half-gzip": ("t.csv.gz", gzip.compress(PLAIN * 99, mtime=0)[:-9], "not a whole gzip file", "again"),
    "extension": ("t.ods", b"PK", r"'\.ods'", "Save the table in one of"),
    "no-extension": ("t", b"1", "extension", "Save the table in one of"),
    "xlsx": ("t.xlsx", b"PK", "cannot be read", "xlsx or CSV"),
    "h5ad": ("t.h5ad", b"HDF", "cannot be read", "write_h5ad"),
    "npy": ("t.npy", b"no array", "cannot be read", r"np\.save"),
    "npz": ("t.npz", b"PK\x03\x04broken", "cannot be read", "Write the file again"),
    "mtx": ("t.mtx", b"hello\n", "cannot be read", "mmwrite"),
    "parquet": ("t.parquet", b"PAR1", "cannot be read", "to_parquet"),
    "one-dimension": ("t.npy", array(np.ones(3)), r"\(3,\)", "two-dimensional"),
    "text-array": ("t.npy", array(np.array([["a"]])), "<U1", "real numbers"),
    "objects": ("t.npy", array(np.array([[1, None]]), allow_pickle=True), "plain arrays", "again"),
    "two-tables": ("t.npz", arrays(a=np.eye(2), b=np.eye(3)), r"a \(2, 2\), b \(3, 3\)", "one named X"),
    "vector": ("t.npz", arrays(X=np.arange(3)), r"X \(3,\)", ""),
    "nothing": ("t.npz", arrays(), "nothing", ""),
    "no-rows": ("t.npz", arrays(X=np.zeros((0, 3))), r"\(0, 3\)", ""),
}


@pytest.mark.parametrize(("name", "content", "entry", "remedy"), FILES.values(), ids=FILES)
def test_unreadable_file(tmp_path, name, content, entry, remedy):
    (tmp_path / name).write_bytes(content)
    check(tmp_path / name, entry, remedy)


@pytest.mark.parametrize(("name", "line"), [("unclosed_quote.csv", 3), ("unclosed_quote_in_names.csv", 3)])
def test_an_open_quotation_mark_is_named_by_its_line(request, name, line):
    # In the second file the next quotation mark closes it, and one row would be lost.
    check(request.path.parent / "messy" / name, f"line {line}: a quotation mark")


@pytest.mark.parametrize(
    ("path", "options", "error", "words"),
    [
        ("tabel.csv", {}, FileNotFoundError, r"tabel\.csv.* Did you mean table\.csv"),
        ("zzz.npz", {}, FileNotFoundError, r"zzz\.npz.* Check the name"),
        ("nowhere/t.csv", {}, FileNotFoundError, "nowhere does not exist.* Check the path"),
        ("", {}, IsADirectoryError, "is a folder.* Give the path of a file"),
        (None, {}, TypeError, "NoneType"),
        ("table.csv", {"delimiter": ";;"}, ValueError, "';;'"),
        ("table.csv", {"decimal": ";"}, ValueError, "';'"),
        ("table.csv", {"header": "yes"}, ValueError, "'yes'"),
        ("table.csv", {"skip": 9}, ValueError, "skipped"),
        ("table.csv", {"id_column": "wo"}, ValueError, "'wo'.* Did you mean 'who'"),
        ("table.csv", {"aside": ["zzz"]}, ValueError, "'zzz'.* 'a', 'who'"),
        ("table.csv", {"id_column": "who", "aside": ["who"]}, ValueError, "'who'.* cannot both"),
    ],
)
def test_bad_reading(tmp_path, path, options, error, words):
    (tmp_path / "table.csv").write_text("a,who\n1,u\n3,v\n")
    with pytest.raises(error, match=words):
        read_table(None if path is None else tmp_path / path, **options)


def test_special_files_and_too_many_names_are_refused(tmp_path):
    os.mkfifo(tmp_path / "t.csv")
    check(tmp_path / "t.csv", "is a pipe or a device", "Copy its content")
    (tmp_path / "u.csv").write_bytes(PLAIN)
    check(tmp_path / "u.csv", "1000000 rows of column names", "smaller", header=1_000_000)


BANNER = b"%%MatrixMarket matrix coordinate real general\n"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (BANNER + b"1000000 1000000 1000000000000\n1 1 1\n", "1000000000000 entries"),
        (BANNER + b"1000000000000 3 1\n1 1 1\n", "rows and columns"),
        (BANNER + b"3 100000000 1\n1 1 1\n", "rows and columns"),
        (BANNER.replace(b"coordinate", b"array") + b"100000 100000\n1\n", "100000"),
        (BANNER + b"3 3 1\n9 1 1\n", "3 rows and 3 columns"),
        (BANNER + b"3 3 1\n0 1 1\n", "not within"),
        (BANNER + b"3 3 2\n1 1 1\n", "2 entries"),
        (BANNER + b"3 3 -2\n1 1 1\n", "sizes"),
        (BANNER + b"3 3 1\n1 1 one\n", "cannot be read"),
        (BANNER.replace(b"general", b"symmetric") + b"3 2 1\n1 1 1\n", "symmetric"),
    ],
    ids=["entries", "rows", "columns", "array", "outside", "zero", "few", "negative", "word", "not-square"],
)
@pytest.mark.parametrize("name", ["t.mtx", "t.mtx.gz"])
def test_market_sizes(tmp_path, name, content, complaint):
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    check(tmp_path / name, complaint)


def zeros(path, count):
    """A small file that becomes ``count`` bytes, as far as its own words go."""
    if path.suffix == ".mtx":
        path.write_bytes(BANNER.replace(b"coordinate", b"array") + f"{count // 8} 1\n1\n".encode())
    elif path.suffix == ".npz" and "sparse" in path.name:
        sparse.save_npz(path, sparse.csr_array(([1.0], [0], [0, 1]), shape=(1, count)))
    elif path.suffix == ".npz":
        head = array(np.zeros((1, 1))).replace(
            b"(1, 1), }" + b" " * 19, f"({count // 8}, 1), }}".encode().ljust(28)
        )
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("X.npy", head)
    else:
        with h5py.File(path, "w") as file:
            file.create_dataset("X", (count // 8, 1), "f8", chunks=(1000, 1), compression="gzip")


@pytest.mark.parametrize("name", ["t.mtx", "sparse.npz", "t.npz", "t.h5ad"])
def test_what_would_fill_the_memory_is_refused(tmp_path, name):
    zeros(tmp_path / name, 2**50)
    check(tmp_path / name, "")


def repack(path, changes):
    """The archive with some of its parts changed."""
    with zipfile.ZipFile(path) as archive:
        parts = {entry: archive.read(entry) for entry in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for entry, content in parts.items():
            archive.writestr(entry, changes.get(entry, lambda same: same)(content))


BOMB = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 10))
BOOKS = {
    "entities": lambda _: f'<?xml version="1.0"?><!DOCTYPE w [<!ENTITY e0 "aa">{BOMB}]><w>&e9;</w>'.encode(),
    "no-sheets": lambda book: re.sub(rb"<sheets>.*</sheets>", b"<sheets></sheets>", book),
}


@pytest.mark.parametrize("change", BOOKS.values(), ids=BOOKS)
def test_workbooks_with_spoilt_parts_are_refused(tmp_path, change):
    path = tmp_path / "t.xlsx"
    pd.DataFrame({"a": [1, 2]}).to_excel(path, index=False)
    repack(path, {"xl/workbook.xml": change})
    check(path, "cannot be read")


@pytest.mark.parametrize("kind", ["link", "storage"])
def test_h5ad_that_reads_other_files_is_refused(tmp_path, kind):
    path = tmp_path / "t.h5ad"
    anndata.AnnData(np.ones((3, 2))).write_h5ad(path)
    (tmp_path / "secret").write_bytes(bytes(48))
    with h5py.File(path, "r+") as file:
        if kind == "link":
            file["layers/counts"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "/X")
        else:
            file.create_dataset("layers/c", (3, 2), "f8", external=[(str(tmp_path / "secret"), 0, 48)])
    check(path, "another file")


@pytest.mark.parametrize(
    ("indices", "starts"),
    [
        ([0, 900], [0, 1, 2]),
        ([0, 1], [0, -5, -1]),
        ([0, 1], [0, 3, 2]),
        ([0, 1], [1, 1, 2]),
        ([0, 1], [0, 1, 9]),
    ],
    ids=str,
)
def test_sparse_places_beyond_the_table_are_refused(tmp_path, indices, starts):
    places = {"indices": np.array(indices, dtype=np.int32), "indptr": np.array(starts, dtype=np.int32)}
    np.savez(tmp_path / "t.npz", format=b"csr", shape=np.array([2, 3]), data=np.ones(2), **places)
    check(tmp_path / "t.npz", "cannot be read")


@pytest.mark.parametrize("number", [0x110000, 0xFFFFFFFF, 0xD800])
def test_characters_that_do_not_exist_are_refused(tmp_path, number):
    names = np.array([65, number], dtype="<u4").view("<U1")
    np.savez(tmp_path / "t.npz", X=np.eye(2), names=names)
    check(tmp_path / "t.npz", "'names'")

"""Files that declare or become too much, or refer to other files, are refused before any harm."""

from __future__ import annotations

import gzip
import zipfile

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
from scipy import io as scipy_io
from scipy import sparse

from anypca.io import _source, read_table

BANNER = b"%%MatrixMarket matrix coordinate real general\n"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (BANNER + b"1000000 1000000 1000000000000\n1 1 1\n", "declares 1000000000000 entries"),
        (BANNER + b"1000000000000 3 1\n1 1 1\n", "declared rows and columns need"),
        (BANNER + b"3 100000000 1\n1 1 1\n", "declared rows and columns need"),
        (BANNER.replace(b"coordinate", b"array") + b"100000 100000\n1\n", "do not fit"),
        (BANNER + b"3 3 1\n9 1 1\n", "not within its 3 rows and 3 columns"),
        (BANNER + b"3 3 1\n0 1 1\n", "not within"),
        (BANNER + b"3 3 2\n1 1 1\n", "expected 2 entries of 3 numbers, found 3"),
        (BANNER + b"3 3 -2\n1 1 1\n", "expected a line of 3 sizes"),
        (BANNER + b"3 3 1\n1 1 one\n", "cannot be read"),
        (BANNER.replace(b"general", b"symmetric") + b"3 2 1\n1 1 1\n", "symmetric matrix cannot"),
    ],
    ids=["entries", "rows", "columns", "array", "outside", "zero", "few", "negative", "word", "not-square"],
)
def test_market_sizes(tmp_path, content, complaint):
    for name, packed in (("t.mtx", content), ("t.mtx.gz", gzip.compress(content))):
        path = tmp_path / name
        path.write_bytes(packed)
        with pytest.raises(ValueError, match=complaint) as caught:
            read_table(path)
        assert str(path) in str(caught.value)


@pytest.mark.parametrize("symmetry", ["general", "symmetric", "skew-symmetric"])
@pytest.mark.parametrize("field", ["real", "pattern", "integer"])
@pytest.mark.parametrize("is_sparse", [True, False], ids=["sparse", "dense"])
def test_market_against_scipy(tmp_path, symmetry, field, is_sparse):
    if field == "pattern" and (not is_sparse or symmetry == "skew-symmetric"):
        pytest.skip("there is no such matrix")
    half = np.tril(np.random.default_rng(0).integers(0, 4, size=(5, 5)), -1).astype(float)
    full = {"general": half, "symmetric": half + half.T, "skew-symmetric": half - half.T}[symmetry]
    matrix = sparse.coo_array(full) if is_sparse else full
    path = tmp_path / "t.mtx"
    scipy_io.mmwrite(path, matrix, comment="a note", field=field, symmetry=symmetry)
    expected = scipy_io.mmread(path)
    found = read_table(path).values
    np.testing.assert_array_equal(
        found.toarray() if is_sparse else found, expected.toarray() if is_sparse else expected
    )


@pytest.fixture
def small_limit(monkeypatch):
    monkeypatch.setattr(_source, "MOST_BYTES", 100_000)


@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize("name", ["t.csv.gz", "t.xlsx", "t.npz", "t.parquet", "t.h5ad"])
def test_what_would_fill_the_memory_is_refused(tmp_path, name):
    path = tmp_path / name
    zeros = np.zeros((20_000, 2))
    writers = {
        "t.csv.gz": lambda: path.write_bytes(gzip.compress(b"a,b\n" + b"0,0\n" * 50_000)),
        "t.npz": lambda: np.savez_compressed(path, X=zeros),
        "t.parquet": lambda: pd.DataFrame(zeros, columns=["a", "b"]).to_parquet(path),
        "t.h5ad": lambda: anndata.AnnData(zeros).write_h5ad(path, compression="gzip"),
        "t.xlsx": lambda: _write_archive(path),
    }
    writers[name]()
    with pytest.raises(ValueError, match=r"is refused: .* GiB") as caught:
        read_table(path)
    assert str(path) in str(caught.value)


def _write_archive(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", b" " * 50_000)


def test_an_entity_bomb_in_a_workbook_is_refused(tmp_path):
    path = tmp_path / "t.xlsx"
    pd.DataFrame({"a": [1, 2]}).to_excel(path, index=False)
    bomb = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 10))
    text = f'<?xml version="1.0"?><!DOCTYPE w [<!ENTITY e0 "aaaaaaaaaa">{bomb}]><w>&e9;</w>'
    with zipfile.ZipFile(path) as archive:
        parts = {entry: archive.read(entry) for entry in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for entry, content in parts.items():
            archive.writestr(entry, text if entry == "xl/workbook.xml" else content)
    with pytest.raises(ValueError, match=r"t\.xlsx cannot be read"):
        read_table(path)


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
    with pytest.raises(ValueError, match=r"t\.h5ad is refused: .* another file"):
        read_table(path)


def test_sparse_places_beyond_the_table_are_refused(tmp_path):
    path = tmp_path / "t.npz"
    matrix = sparse.csr_array(np.eye(3))
    matrix.indices[1] = 900
    np.savez(
        path, format=b"csr", shape=(3, 3), data=matrix.data, indices=matrix.indices, indptr=matrix.indptr
    )
    with pytest.raises(ValueError, match=r"t\.npz cannot be read"):
        read_table(path)


@pytest.mark.parametrize("starts", [[0, -5, -1], [0, 3, 2], [1, 1, 2], [0, 1, 9]], ids=str)
def test_sparse_rows_that_start_nowhere_are_refused(tmp_path, starts):
    path = tmp_path / "t.npz"
    data, indices = np.ones(2), np.array([0, 1], dtype=np.int32)
    indptr = np.array(starts, dtype=np.int32)
    np.savez(path, format=b"csr", shape=np.array([2, 3]), data=data, indices=indices, indptr=indptr)
    with pytest.raises(ValueError, match="cannot be read") as caught:
        read_table(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("number", [0x110000, 0xFFFFFFFF, 0xD800])
def test_characters_that_do_not_exist_are_refused(tmp_path, number):
    path = tmp_path / "t.npz"
    np.savez(path, X=np.eye(2), names=np.array([65, number], dtype="<u4").view("<U1"))
    with pytest.raises(
        ValueError, match=r"t\.npz cannot be read: array 'names' holds characters that do not exist"
    ):
        read_table(path)


def test_a_workbook_without_sheets_is_refused(tmp_path):
    path = tmp_path / "t.xlsx"
    pd.DataFrame({"a": [1.0]}).to_excel(path)
    with zipfile.ZipFile(path) as whole:
        parts = {name: whole.read(name) for name in whole.namelist()}
    book = parts["xl/workbook.xml"].decode()
    start, end = book.index("<sheets>") + len("<sheets>"), book.index("</sheets>")
    parts["xl/workbook.xml"] = (book[:start] + book[end:]).encode()
    with zipfile.ZipFile(path, "w") as changed:
        for name, content in parts.items():
            changed.writestr(name, content)
    with pytest.raises(ValueError, match=r"t\.xlsx cannot be read: it has no sheet"):
        read_table(path)


def test_a_sparse_array_that_declares_many_columns(tmp_path):
    # Each would get a name: 64 bytes, and some time.
    sparse.save_npz(tmp_path / "t.npz", sparse.csr_array(([1.0], [0], [0, 1]), shape=(1, 10**15)))
    with pytest.raises(ValueError, match="declared rows and columns need"):
        read_table(tmp_path / "t.npz")

"""Workbooks, parquet, arrays, matrices and AnnData files: one table, in every format."""

from __future__ import annotations

import gzip

import anndata
import numpy as np
import openpyxl
import pandas as pd
import pytest
from scipy import io as scipy_io
from scipy import sparse
from tests.draws import generator

from anypca.io import read_table

NAN = np.nan
DENSE = np.array([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0], [4.0, 1.0, 9.0]])
TABLE = pd.DataFrame(DENSE, columns=list("abc"))
WRITERS = {
    "csv": lambda path: TABLE.to_csv(path, index=False),
    "tsv": lambda path: TABLE.to_csv(path, sep="\t", index=False),
    "xlsx": lambda path: TABLE.to_excel(path, index=False),
    "parquet": lambda path: TABLE.to_parquet(path),
    "npz": lambda path: np.savez(path, anything=DENSE),
    "npy": lambda path: np.save(path, DENSE),
    "csr.npz": lambda path: sparse.save_npz(path, sparse.csr_array(DENSE)),
    "csc.npz": lambda path: sparse.save_npz(path, sparse.csc_matrix(DENSE)),
    "coo.npz": lambda path: sparse.save_npz(path, sparse.coo_array(DENSE)),
    "mtx": lambda path: scipy_io.mmwrite(path, DENSE),
    "coo.mtx": lambda path: scipy_io.mmwrite(path, sparse.coo_array(DENSE)),
    "h5ad": lambda path: anndata.AnnData(DENSE).write_h5ad(path),
    "csr.h5ad": lambda path: anndata.AnnData(sparse.csr_matrix(DENSE)).write_h5ad(path),
}
SPARSE = {"csr.npz", "csc.npz", "coo.npz", "coo.mtx", "csr.h5ad"}


def is_told(frame, *words):
    return any(all(word in note for word in words) for note in frame.notes)


@pytest.mark.parametrize("ending", WRITERS)
def test_every_format_plain_and_compressed(tmp_path, ending):
    plain, packed = tmp_path / f"t.{ending}", tmp_path / f"t.{ending}.gz"
    WRITERS[ending](plain)
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    first, second = read_table(plain), read_table(packed)
    for frame in (first, second):
        values = frame.values.toarray() if frame.is_sparse else frame.values
        np.testing.assert_array_equal(values, DENSE)
        assert frame.is_sparse == (ending in SPARSE)
        assert (frame.n_missing, frame.is_counts) == (0, True)
    assert (first.notes, first.column_names) == (second.notes, second.column_names)
    if ending in ("csv", "tsv", "xlsx", "parquet"):
        assert first.column_names == ("a", "b", "c")


@pytest.mark.parametrize("ending", ["csv", "parquet", "xlsx", "npz", "csr.npz"])
def test_values_that_mean_missing(tmp_path, ending):
    WRITERS[ending](tmp_path / f"t.{ending}")
    frame = read_table(tmp_path / f"t.{ending}", missing=["9.0", "unknown"])
    values = frame.values.toarray() if frame.is_sparse else frame.values
    np.testing.assert_array_equal(values, np.where(DENSE == 9, NAN, DENSE))
    assert frame.n_missing == 1
    assert is_told(frame, "missing", frame.column_names[2])


def test_columns_by_pattern_and_turned_arrays(tmp_path):
    np.save(tmp_path / "t.npy", np.arange(12.0).reshape(3, 4))
    frame = read_table(tmp_path / "t.npy", columns=["x[1-3]"], drop=["x2"])
    assert frame.column_names == ("x1", "x3")
    np.testing.assert_array_equal(frame.values, [[0, 2], [4, 6], [8, 10]])
    assert read_table(tmp_path / "t.npy", transpose=True).values.shape == (4, 3)


def test_npy_keeps_float32(tmp_path):
    np.save(tmp_path / "t.npy", DENSE.astype(np.float32))
    assert read_table(tmp_path / "t.npy").values.dtype == np.float32


@pytest.mark.parametrize(
    "arrays",
    [
        {"table": DENSE, "labels": np.arange(2)},
        {"X": DENSE, "other": DENSE + 1},
        {"counts": DENSE.astype(np.int8), "offset": DENSE + 1},
    ],
    ids=["one-table", "named-X", "named-counts"],
)
def test_the_table_of_an_archive(tmp_path, arrays):
    np.savez(tmp_path / "t.npz", **arrays)
    frame = read_table(tmp_path / "t.npz")
    np.testing.assert_array_equal(frame.values, DENSE)
    assert (frame.values.dtype, frame.column_names) == (np.float64, ("x1", "x2", "x3"))


def test_an_archive_with_names_and_companions(tmp_path):
    taxa, sites = np.array(["a", "b", "c", "d"]), np.array(["s1", "s2", "s3"])
    counts, effort = np.arange(12).reshape(3, 4), np.full((3, 4), 2.0)
    np.savez(tmp_path / "t.npz", counts=counts, taxa=taxa, sites=sites, effort=effort, code=np.arange(9))
    frame = read_table(tmp_path / "t.npz", aside=["effort"])
    assert (frame.column_names, frame.row_names) == (tuple(taxa), tuple(sites))
    np.testing.assert_array_equal(frame.values, counts)
    np.testing.assert_array_equal(frame.extras["effort"], effort)
    assert all(is_told(frame, f"'{name}'") for name in ("taxa", "sites", "counts", "code"))
    np.testing.assert_array_equal(read_table(tmp_path / "t.npz", part="effort").values, effort)
    with pytest.raises(ValueError, match=r"'zzz'.*'effort'"):
        read_table(tmp_path / "t.npz", aside=["zzz"])
    with pytest.raises(ValueError, match="'code'"):
        read_table(tmp_path / "t.npz", part="code")


def test_parquet_with_all_types(tmp_path):
    table = pd.DataFrame(
        {
            "n": pd.array([1, None, 3], dtype="Int64"),
            "f": np.array([0.5, 1.5, np.nan], dtype=np.float32),
            "b": [True, False, True],
            "when": pd.date_range("2024-01-01", periods=3),
            "took": pd.to_timedelta(["2min", None, "1s"]),
            "kind": pd.Categorical(["u", "v", "u"]),
        },
        index=pd.Index(["r1", "r2", "r3"], name="sample"),
    )
    table.to_parquet(tmp_path / "t.parquet")
    frame = read_table(tmp_path / "t.parquet")
    np.testing.assert_array_equal(frame.values, [[1, 0.5, 1, 120], [NAN, 1.5, 0, NAN], [3, NAN, 1, 1]])
    assert (frame.column_names, frame.row_names) == (("n", "f", "b", "took"), ("r1", "r2", "r3"))
    assert is_told(frame, "'when'", "dates")
    assert is_told(frame, "'kind'", "text")
    assert is_told(frame, "'took'", "seconds")


def test_workbook(tmp_path):
    table = pd.DataFrame(
        {"name": ["u", "v"], "x": [1.5, None], "day": pd.date_range("2024-01-01", periods=2)}
    )
    with pd.ExcelWriter(tmp_path / "t.xlsx") as book:
        table.assign(y=[1, 2]).to_excel(book, sheet_name="first", index=False)
        pd.DataFrame({"z": [1, 2, 3]}).to_excel(book, sheet_name="second", index=False)
    frame = read_table(tmp_path / "t.xlsx")
    assert (frame.column_names, frame.row_names) == (("x", "y"), ("u", "v"))
    np.testing.assert_array_equal(frame.values, [[1.5, 1], [NAN, 2]])
    assert is_told(frame, "'first'", "'second'")
    assert is_told(frame, "'day'", "dates")
    assert read_table(tmp_path / "t.xlsx", part="second").column_names == ("z",)
    with pytest.raises(ValueError, match=r"'third'.*'first', 'second'"):
        read_table(tmp_path / "t.xlsx", part="third")


def test_formulas_that_were_never_computed(tmp_path):
    book = openpyxl.Workbook()
    for row in [["x", "twice"], [1, "=2*A2"], [3, "=2*A3"]]:
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    assert is_told(read_table(tmp_path / "t.xlsx"), "2 cells with formulas", "open the file")


def test_h5ad(tmp_path):
    obs = pd.DataFrame({"kind": ["u", "v", None], "total": [1.0, 5, 5]}, index=["c1", "c2", "c3"])
    var = pd.DataFrame(index=["g1", "g2", "g1#2"])
    adata = anndata.AnnData(sparse.csr_matrix(DENSE), obs=obs, var=var, layers={"counts": DENSE + 1})
    adata.write_h5ad(tmp_path / "t.h5ad")
    frame = read_table(tmp_path / "t.h5ad", aside=["total"])
    np.testing.assert_array_equal(frame.values.toarray(), DENSE)
    assert (frame.row_names, frame.column_names) == (("c1", "c2", "c3"), ("g1", "g2", "g1#2"))
    assert list(frame.extras["kind"]) == ["u", "v", None]
    np.testing.assert_array_equal(frame.extras["total"], [1, 5, 5])
    assert is_told(frame, "'counts'")
    assert is_told(frame, "'kind'")
    np.testing.assert_array_equal(read_table(tmp_path / "t.h5ad", part="counts").values, DENSE + 1)
    with pytest.raises(ValueError, match=r"'raw'.*'counts'"):
        read_table(tmp_path / "t.h5ad", part="raw")
    with pytest.raises(ValueError, match="Leave --id out"):
        read_table(tmp_path / "t.h5ad", id_column="kind")


@pytest.mark.parametrize("place", ["counts", "raw"])
def test_h5ad_says_where_the_counts_are(tmp_path, place):
    counts = generator("cells").poisson(2.0, size=(6, 4)) + 1.0
    adata = anndata.AnnData(counts, var=pd.DataFrame(index=list("abcd")))
    if place == "raw":
        adata.raw = adata.copy()
    else:
        adata.layers["counts"] = counts
    adata.X = np.log1p(counts / counts.sum(axis=1, keepdims=True) * 1e4)
    adata.write_h5ad(tmp_path / "t.h5ad")
    assert is_told(read_table(tmp_path / "t.h5ad"), f"'{place}'", f"--part {place}")
    frame = read_table(tmp_path / "t.h5ad", part=place)
    np.testing.assert_array_equal(frame.values, counts)
    assert frame.column_names == ("a", "b", "c", "d")
    assert not is_told(frame, "--part")


@pytest.mark.parametrize("symmetry", ["general", "symmetric", "skew-symmetric"])
@pytest.mark.parametrize(
    "kind", ["sparse-real", "sparse-pattern", "sparse-integer", "dense-real", "dense-integer"]
)
def test_market_files_as_scipy_reads_them(tmp_path, symmetry, kind):
    form, field = kind.split("-")
    half = np.tril(generator("market").integers(0, 4, size=(5, 5)), -1).astype(float)
    half[1, 0] = 1.0
    symmetry = "general" if field == "pattern" and symmetry == "skew-symmetric" else symmetry
    full = {"general": half, "symmetric": half + half.T, "skew-symmetric": half - half.T}[symmetry]
    matrix = sparse.coo_array(full) if form == "sparse" else full
    scipy_io.mmwrite(tmp_path / "t.mtx", matrix, comment="a note", field=field, symmetry=symmetry)
    expected, found = scipy_io.mmread(tmp_path / "t.mtx"), read_table(tmp_path / "t.mtx").values
    if form == "sparse":
        expected, found = expected.toarray(), found.toarray()
    np.testing.assert_array_equal(found, expected)

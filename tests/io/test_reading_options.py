"""What a user says of a file, what is repaired, and formats with several parts."""

from __future__ import annotations

import gzip

import anndata
import numpy as np
import openpyxl
import pandas as pd
import pytest
from scipy import io as scipy_io
from scipy import sparse

from anypca.io import read_table

NAN = np.nan
DENSE = np.array([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0], [4.0, 1.0, -9.0]])
#: Ten good rows: a few short or spoilt cells among them are repaired.
GOOD = "".join(f"{i},{i + 1},{i % 3}\n" for i in range(10))


def write(folder, text, name="table.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def said(frame):
    return " | ".join(frame.notes)


def test_a_few_short_rows_are_filled_up(tmp_path):
    frame = read_table(write(tmp_path, "a,b,c\n" + GOOD + "7\n8,9\n"))
    np.testing.assert_array_equal(frame.values[-2:], [[7, NAN, NAN], [8, 9, NAN]])
    assert (
        "2 rows with too few cells (lines 12, 13): the cells lacking at the end are taken as missing"
        in said(frame)
    )


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [(GOOD + "1\n" * 9, "line 12: expected 3 cells.*found 1"), (GOOD + "1,2,3,4\n2\n", "line 12.*found 4")],
    ids=["many-short", "too-long"],
)
def test_other_ragged_files_are_refused(tmp_path, rows, complaint):
    with pytest.raises(ValueError, match=complaint):
        read_table(write(tmp_path, "a,b,c\n" + rows))


def test_a_few_spoilt_cells_are_missing(tmp_path):
    text = "a;b\n" + "".join(f"{i},5;{i}\n" for i in range(19)) + "<5;7\n"
    frame = read_table(write(tmp_path, text))
    np.testing.assert_array_equal(frame.values[:, 0], [*(i + 0.5 for i in range(19)), NAN])
    assert "column 'a' has 1 cell that is a limit and no value, taken as missing: '<5'" in said(frame)


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.xlsx"])
def test_missing_values_by_name(tmp_path, name):
    table = pd.DataFrame({"a": [1, -9, 3], "b": ["2", "unknown", "4"]})
    if name.endswith("csv"):
        table.to_csv(tmp_path / name, index=False)
    elif name.endswith("xlsx"):
        table.to_excel(tmp_path / name, index=False)
    else:
        table.to_parquet(tmp_path / name)
    frame = read_table(tmp_path / name, missing=["-9.0", "unknown"])
    np.testing.assert_array_equal(frame.values, [[1, 2], [3, 4]])
    assert "2 cells equal to '-9.0' or 'unknown' taken as missing" in said(frame)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_missing_values_of_arrays(tmp_path, kind):
    np.savez(tmp_path / "t.npz", X=DENSE) if kind is np.asarray else sparse.save_npz(
        tmp_path / "t.npz", kind(DENSE)
    )
    frame = read_table(tmp_path / "t.npz", missing=["-9"])
    assert frame.n_missing == 1
    assert "1 cell is missing, in 1 column: 'x3'" in said(frame)


def test_given_id_column(tmp_path):
    path = write(tmp_path, "a,b,who\n1,2,17\n3,4,18\n")
    assert read_table(path).column_names == ("a", "b", "who")
    frame = read_table(path, id_column="who")
    assert (frame.column_names, frame.row_names, frame.notes) == (("a", "b"), ("17", "18"), ())
    repeated = read_table(write(tmp_path, "a,who\n1,u\n3,u\n"), id_column="who")
    assert repeated.row_names == ("1", "2")
    assert "column 'who' cannot name rows" in said(repeated)


def test_columns_set_aside_keep_step_with_the_rows(tmp_path):
    text = "id,a,b,effort,site\nr1,1,2,10,u\nr2,,,20,v\nr3,3,4,30,\n"
    frame = read_table(write(tmp_path, text), aside=["effort", "site"])
    assert frame.column_names == ("a", "b")
    assert frame.row_names == ("r1", "r3")
    np.testing.assert_array_equal(frame.extras["effort"], [10.0, 30.0])
    assert list(frame.extras["site"]) == ["u", None]
    assert "site" not in said(frame)


def test_columns_left_out_are_kept_as_extras(tmp_path):
    frame = read_table(write(tmp_path, "a,kind,when\n1,u,2024-01-01\n2,u,2024-01-02\n"))
    assert list(frame.extras) == ["kind", "when"]
    assert list(frame.extras["kind"]) == ["u", "u"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"id_column": "wo"}, "no column 'wo'. Did you mean 'who'"),
        ({"aside": ["zzz"]}, "no column 'zzz'. It has 'a', 'who'"),
        ({"id_column": "who", "aside": ["who"]}, "cannot both name the rows"),
    ],
    ids=["near", "far", "both"],
)
def test_unknown_columns_are_named(tmp_path, options, complaint):
    with pytest.raises(ValueError, match=complaint):
        read_table(write(tmp_path, "a,who\n1,u\n3,v\n"), **options)


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
    assert "sheet 'first' read; left out: 'second'" in said(frame)
    assert "'day' (it holds dates)" in said(frame)
    assert read_table(tmp_path / "t.xlsx", part="second").column_names == ("z",)
    with pytest.raises(ValueError, match="no sheet 'third'; it has 'first', 'second'"):
        read_table(tmp_path / "t.xlsx", part="third")


@pytest.fixture
def cells(tmp_path):
    obs = pd.DataFrame({"kind": ["u", "v", None], "total": [1.0, 5, 5]}, index=["c1", "c2", "c3"])
    var = pd.DataFrame(index=["g1", "g2", "g1#2"])
    adata = anndata.AnnData(sparse.csr_matrix(DENSE), obs=obs, var=var, layers={"counts": np.abs(DENSE)})
    adata.write_h5ad(tmp_path / "t.h5ad")
    return tmp_path / "t.h5ad"


def test_h5ad(cells):
    frame = read_table(cells, aside=["total"])
    assert frame.is_sparse
    np.testing.assert_array_equal(frame.values.toarray(), DENSE)
    assert (frame.row_names, frame.column_names) == (("c1", "c2", "c3"), ("g1", "g2", "g1#2"))
    assert list(frame.extras["kind"]) == ["u", "v", None]
    assert "layers left out: 'counts'" in said(frame)
    assert "columns of obs are not part of the table: 'kind'" in said(frame)
    np.testing.assert_array_equal(read_table(cells, part="counts").values, np.abs(DENSE))
    with pytest.raises(ValueError, match="no layer 'raw'; it has 'counts'"):
        read_table(cells, part="raw")
    with pytest.raises(ValueError, match="Leave --id out"):
        read_table(cells, id_column="kind")


def test_h5ad_says_where_the_counts_are(tmp_path):
    counts = np.random.default_rng(0).poisson(2.0, size=(6, 4)).astype(float)
    logged = np.log1p(counts / counts.sum(axis=1, keepdims=True) * 1e4)
    adata = anndata.AnnData(sparse.csr_matrix(logged), layers={"counts": sparse.csr_matrix(counts)})
    adata.write_h5ad(tmp_path / "t.h5ad")
    told = (
        "X looks log-normalised and layer 'counts' holds counts: read it (--part counts) to model the counts"
    )
    assert told in read_table(tmp_path / "t.h5ad").notes
    assert told not in read_table(tmp_path / "t.h5ad", part="counts").notes


def test_h5ad_with_counts_in_raw(tmp_path):
    counts = np.random.default_rng(0).poisson(2.0, size=(6, 4)).astype(float)
    adata = anndata.AnnData(counts, var=pd.DataFrame(index=list("abcd")))
    adata.raw = adata.copy()
    adata.X = (counts - counts.mean(axis=0)) / counts.std(axis=0)
    adata[:, :3].copy().write_h5ad(tmp_path / "t.h5ad")
    told = "X looks scaled and layer 'raw' holds counts: read it (--part raw) to model the counts"
    assert told in read_table(tmp_path / "t.h5ad").notes
    frame = read_table(tmp_path / "t.h5ad", part="raw")
    np.testing.assert_array_equal(frame.values, counts)
    assert frame.column_names == ("a", "b", "c", "d")


def test_durations_are_seconds(tmp_path):
    pd.DataFrame({"x": [1.0, 2], "took": pd.to_timedelta(["2min", None])}).to_parquet(tmp_path / "t.parquet")
    frame = read_table(tmp_path / "t.parquet")
    np.testing.assert_array_equal(frame.values[:, 1], [120.0, np.nan])
    assert "column 'took' read as seconds" in frame.notes


def test_formulas_that_were_never_computed(tmp_path):
    book = openpyxl.Workbook()
    for row in [["x", "twice"], [1, "=2*A2"], [3, "=2*A3"]]:
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    told = (
        "2 cells with formulas that have no values, taken as missing: open the file in a spreadsheet program"
    )
    assert f"{told} and save it" in read_table(tmp_path / "t.xlsx").notes


def test_npz_with_names_and_companions(tmp_path):
    taxa, sites = np.array(["a", "b", "c", "d"]), np.array(["s1", "s2", "s3"])
    counts = np.arange(12).reshape(3, 4)
    effort = np.full((3, 4), 2.0)
    np.savez(tmp_path / "t.npz", counts=counts, taxa=taxa, sites=sites, effort=effort, code=np.arange(9))
    frame = read_table(tmp_path / "t.npz", aside=["effort"])
    assert (frame.column_names, frame.row_names) == (tuple(taxa), tuple(sites))
    np.testing.assert_array_equal(frame.extras["effort"], effort)
    assert frame.notes == (
        "array 'taxa' taken as column names",
        "array 'sites' taken as row names",
        "table read from array 'counts'; left out: 'code'",
    )
    np.testing.assert_array_equal(read_table(tmp_path / "t.npz", part="effort").values, effort)
    with pytest.raises(ValueError, match=r"nothing called 'zzz' with a value for each row. It has 'effort'"):
        read_table(tmp_path / "t.npz", aside=["zzz"])
    with pytest.raises(ValueError, match="no two-dimensional array 'code'"):
        read_table(tmp_path / "t.npz", part="code")


@pytest.mark.parametrize("name", ["t.csv", "t.xlsx", "t.parquet", "t.npz", "t.npy", "t.mtx", "t.h5ad"])
def test_every_format_is_read_compressed(tmp_path, name):
    plain = tmp_path / name
    table = pd.DataFrame(np.abs(DENSE), columns=list("abc"))
    writers = {
        "t.csv": lambda: table.to_csv(plain, index=False),
        "t.xlsx": lambda: table.to_excel(plain, index=False),
        "t.parquet": lambda: table.to_parquet(plain),
        "t.npz": lambda: np.savez(plain, X=np.abs(DENSE)),
        "t.npy": lambda: np.save(plain, np.abs(DENSE)),
        "t.mtx": lambda: scipy_io.mmwrite(plain, np.abs(DENSE)),
        "t.h5ad": lambda: anndata.AnnData(np.abs(DENSE)).write_h5ad(plain),
    }
    writers[name]()
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    first, second = read_table(plain), read_table(packed)
    np.testing.assert_array_equal(first.values, np.abs(DENSE))
    np.testing.assert_array_equal(second.values, np.abs(DENSE))
    assert first.notes == second.notes
    assert first.column_names == second.column_names


@pytest.mark.parametrize("decimal", [None, ".", ","])
def test_row_names_keep_their_zeros(tmp_path, decimal):
    path = tmp_path / "t.csv"
    path.write_text("id;a;b\n007;1;2\n1.10;3;4\n1.1;2;7\n")
    frame = read_table(path, decimal=decimal)
    assert (frame.row_names, frame.column_names) == (("007", "1.10", "1.1"), ("a", "b"))
    path.write_text("plot;a;b\n007;1;2\n010;3;4\n")
    assert read_table(path, decimal=decimal, id_column="plot").row_names == ("007", "010")

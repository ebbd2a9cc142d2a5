"""`check_data`: what comes in, what the blocks hold, and what is left alone."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from anypca.engine import check_data
from anypca.engine._interface import make_source
from anypca.engine.data import cut_rows, default_block_rows


def entries(data):
    """The whole table, NaN where missing."""
    tables = [block.read() for block in data.blocks]
    return np.concatenate([t.x if t.observed is None else np.where(t.observed, t.x, np.nan) for t in tables])


def counts(n=40, p=6, seed=0):
    return np.random.default_rng(seed).poisson(0.7, size=(n, p))


@pytest.mark.parametrize(
    ("X", "expected"),
    [
        pytest.param(
            pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [0.5, 2.0]}),
            [[1, 0.5], [np.nan, 2]],
            id="nullable-integer",
        ),
        pytest.param(
            pd.DataFrame({"a": pd.array([True, None], dtype="boolean")}),
            [[1], [np.nan]],
            id="nullable-boolean",
        ),
        pytest.param(
            pd.DataFrame({"a": pd.array([1, None], dtype="int64[pyarrow]")}), [[1], [np.nan]], id="arrow"
        ),
        pytest.param(
            pd.DataFrame({"a": [True, False], "b": [3, 4]}), [[1, 3], [0, 4]], id="boolean-and-integer"
        ),
        pytest.param(
            pd.DataFrame({"a": [1, None, pd.NA]}, dtype=object), [[1], [np.nan], [np.nan]], id="object"
        ),
        pytest.param(pd.DataFrame({"a": pd.Categorical([2, 1])}), [[2], [1]], id="numeric-categories"),
        pytest.param(
            pd.DataFrame({"a": pd.arrays.SparseArray([1.0, np.nan]), "b": [1, 2]}),
            [[1, 1], [np.nan, 2]],
            id="filled-NaN",
        ),
        pytest.param(
            pd.DataFrame({"a": pd.arrays.SparseArray([0.0, 5.0]), "b": pd.arrays.SparseArray([0, 1])}),
            [[0, 0], [5, 1]],
            id="sparse-frame",
        ),
        pytest.param(
            pl.DataFrame({"a": [1, None], "b": [True, None], "c": [None, 2.5]}),
            [[1, 1, np.nan], [np.nan, np.nan, 2.5]],
            id="polars-null",
        ),
        pytest.param(np.ma.masked_equal([[1, 2], [3, 4]], 3), [[1, 2], [np.nan, 4]], id="masked"),
        pytest.param([[1, None], [2.5, True]], [[1, np.nan], [2.5, 1]], id="list"),
    ],
)
def test_missing_and_mixed_columns(X, expected):
    assert_array_equal(entries(check_data(X)), np.array(expected, dtype=float))


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_numpy_matrix():
    assert_array_equal(entries(check_data(np.matrix([[1, 2], [3, 4]]))), [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("f4", "f4"),
        (">f4", "f4"),
        ("f8", "f8"),
        ("f2", "f8"),
        ("i1", "f8"),
        ("u8", "f8"),
        ("?", "f8"),
        ("O", "f8"),
    ],
)
@pytest.mark.parametrize("kind", ["dense", "csr", "frame"])
def test_dtype(dtype, expected, kind):
    X = counts().astype(dtype)
    if kind == "csr" and dtype in ("O", "f2", ">f4"):
        pytest.skip("scipy has no such sparse matrices")
    X = {"dense": np.asarray, "csr": sparse.csr_array, "frame": pd.DataFrame}[kind](X)
    data = check_data(X)
    block = data.blocks[0]
    assert data.dtype == block.dtype == block.read().x.dtype == np.dtype(expected)
    assert_array_equal(entries(data), counts().astype(bool) if dtype == "?" else counts())


def test_all_float32_frames_stay_float32():
    X = counts().astype("f4")
    assert check_data(pl.DataFrame(X)).dtype == np.float32
    assert check_data(pd.DataFrame(X).astype("Float32")).dtype == np.float32
    assert check_data(pd.DataFrame(X).astype({0: "f8"})).dtype == np.float64


def test_integers_cannot_miss_and_floats_may():
    assert not check_data(counts()).may_miss
    assert check_data(counts().astype(float)).may_miss
    assert not check_data(sparse.csr_array(counts())).blocks[0].may_miss


@pytest.mark.parametrize(
    "container", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_matrix]
)
def test_stored_nan_is_missing_and_unstored_is_zero(container):
    dense = np.array([[0.0, np.nan, 2.0], [1.0, 0.0, 0.0]])
    table = check_data(container(dense)).blocks[0].read()
    assert_array_equal(table.observed, ~np.isnan(dense))
    assert_array_equal(table.x, [[0.0, 1.0, 2.0], [1.0, 0.0, 0.0]])


def test_repeated_and_unsorted_entries_are_summed_without_touching_the_input():
    values, columns, pointers = (
        np.array([1, 2, 3, 4], dtype="i1"),
        np.array([2, 0, 2, 1]),
        np.array([0, 3, 4]),
    )
    X = sparse.csr_matrix((values, columns, pointers), shape=(2, 3))
    assert_array_equal(entries(check_data(X)), [[2, 0, 4], [0, 4, 0]])
    assert X.nnz == 4
    assert_array_equal(X.indices, [2, 0, 2, 1])
    assert X.dtype == np.int8


@pytest.mark.parametrize(
    "X", [counts().astype(float), counts(), sparse.csr_array(counts().astype(float))], ids=str
)
def test_reading_gives_new_memory(X):
    block = check_data(X).blocks[0]
    first = block.read().x
    assert first.flags["C_CONTIGUOUS"]
    assert first.flags["WRITEABLE"]
    first[:] = -1.0
    assert_array_equal(block.read().x, counts())


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_are_not_copied(order):
    X = np.asarray(counts(), dtype="i2", order=order)
    assert np.shares_memory(check_data(X).blocks[0].source.array, X)
    frame = pd.DataFrame(np.asarray(counts(), dtype=float))
    assert np.shares_memory(check_data(frame).blocks[0].source.array, frame.to_numpy())


def test_memory_map_is_not_loaded(tmp_path):
    shape = (40_000, 50)  # 16 MB
    X = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype="f8", shape=shape)
    X[:] = np.arange(shape[1])
    X.flush()
    X = np.load(tmp_path / "x.npy", mmap_mode="r")
    tracemalloc.start()
    try:
        data = check_data(X, block_rows=1000)
        total = sum(block.read().x.sum() for block in data.blocks)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total == shape[0] * np.arange(shape[1]).sum()
    assert peak < X.nbytes / 8


def test_read_only_memory_map(tmp_path):
    np.save(tmp_path / "x.npy", np.array([[1.0, np.nan]]))
    table = check_data(np.load(tmp_path / "x.npy", mmap_mode="r")).blocks[0].read()
    assert_array_equal(table.x, [[1.0, 1.0]])


def test_feature_names():
    X = counts(p=2)
    assert check_data(pd.DataFrame(X, columns=["a", "b"])).feature_names == ("a", "b")
    assert check_data(pl.DataFrame({"a": [1], "b": [2]})).feature_names == ("a", "b")
    assert check_data(pd.DataFrame(X)).feature_names is None
    assert check_data(X).feature_names is None


@pytest.mark.parametrize("rows", [1, 7, 39, 40, 1000])
def test_blocks_tile_the_rows(rows):
    X = counts()
    data = check_data(
        X, block_rows=rows, sample_weight=np.arange(40), covariates=np.arange(80).reshape(40, 2)
    )
    sizes = [block.n_rows for block in data.blocks]
    assert max(sizes) <= rows
    assert max(sizes) - min(sizes) <= 1
    assert [block.start for block in data.blocks] == list(np.cumsum([0, *sizes[:-1]]))
    assert_array_equal(entries(data), X)
    assert_array_equal(np.concatenate([block.weight for block in data.blocks]), np.arange(40))
    assert_array_equal(
        np.concatenate([block.covariates for block in data.blocks]), np.arange(80).reshape(40, 2)
    )


@pytest.mark.parametrize("p", [1, 10, 1000, 16_791, 10**7])
@pytest.mark.parametrize("itemsize", [4, 8])
def test_default_block_size_is_bounded(p, itemsize):
    rows = default_block_rows(p, itemsize)
    assert rows >= 1
    assert rows == 1 or rows * p * itemsize <= 2**25
    assert rows <= max(1024, 2**16 // p)


def test_cut_rows_of_one_row():
    assert cut_rows(1, 256) == [(0, 1)]


def test_weights_offset_and_covariates_default_to_none():
    data = check_data(counts())
    block = data.blocks[0]
    assert block.weight is None
    assert block.offset() is None
    assert block.covariates.shape == (40, 0)
    assert (data.n_covariates, data.has_weights, data.is_distributed) == (0, False, False)


@pytest.mark.parametrize(
    "wrap",
    [np.asarray, list, pd.DataFrame, pl.DataFrame, sparse.csr_array, sparse.csc_matrix, np.asfortranarray],
    ids=["array", "list", "pandas", "polars", "csr", "csc", "fortran"],
)
@pytest.mark.parametrize("width", [1, 6])
def test_matrix_offsets(wrap, width):
    offset = np.random.default_rng(1).normal(size=(40, width))
    data = check_data(counts(), offset=wrap(offset), block_rows=9)
    read = np.concatenate([block.offset() for block in data.blocks])
    assert_array_equal(read, offset)


@pytest.mark.parametrize(
    "wrap", [np.asarray, list, pd.Series, pl.Series], ids=["array", "list", "pandas", "polars"]
)
def test_vectors_of_any_kind(wrap):
    values = np.arange(40.0)
    X = counts().astype("f4")
    data = check_data(
        X, offset=wrap(values), covariates=wrap(values), sample_weight=wrap(values), block_rows=9
    )
    block = data.blocks[1]
    rows = values[block.start : block.stop]
    assert_array_equal(block.offset(), rows[:, np.newaxis])
    assert_array_equal(block.covariates, rows[:, np.newaxis])
    assert_array_equal(block.weight, rows)
    assert block.offset().dtype == block.covariates.dtype == block.weight.dtype == np.float32
    assert data.n_covariates == 1


def test_caller_may_change_weights_afterwards():
    weight = np.ones(40)
    data = check_data(counts(), sample_weight=weight)
    weight[:] = 5
    assert_array_equal(data.blocks[0].weight, 1.0)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_rows_of_a_source(container):
    dense = counts().astype(float)
    source = make_source(container(dense), np.dtype("f8")).rows(5, 30)
    assert_allclose(source.read(2, 9), dense[7:14], rtol=0)


@pytest.mark.parametrize(
    "container", [np.asarray, np.asfortranarray, sparse.csr_array, sparse.csc_array], ids=str
)
def test_matrix_multiplies_like_the_table(container):
    data = check_data(container(counts()), block_rows=9)
    W = np.random.default_rng(3).normal(size=(6, 2))
    for block in data.blocks:
        matrix, x = block.matrix(), block.read().x
        assert_allclose(matrix @ W, x @ W, rtol=1e-13, atol=1e-13)
        assert_allclose(matrix.T @ x, x.T @ x, rtol=1e-13)


def test_matrix_needs_a_complete_block():
    block = check_data(counts().astype(float)).blocks[0]
    with pytest.raises(ValueError, match=r"missing entries.*read"):
        block.matrix()

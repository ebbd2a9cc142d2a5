"""Every container of a table gives the same fit: arrays, sparse matrices, data frames, files, streams, Dask."""

from __future__ import annotations

from dataclasses import fields

import dask.array as da
import numpy as np
import pandas as pd
import polars as pl
import pytest
import threadpoolctl
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from tests.draws import generator

from anypca import EPCA, PPCA
from anypca.columns.forms import Combination, Constant, Copy, Excluded, Recoded
from anypca.engine import Summary, check_data, check_values, executor_for, first_outside, summarise

N, P = 90, 7
NAMES = list("abcdefg")


def draw(missing=0.0):
    """Draw small counts, which float32 represents exactly, with missing entries."""
    rng = generator("containers")
    eta = 0.5 + 0.7 * rng.normal(size=(N, 1)) @ rng.normal(size=(1, P))
    X = np.minimum(rng.poisson(np.exp(eta)), 60).astype(float)  # one byte is enough
    X[rng.random(X.shape) < missing] = np.nan
    return X


def memory_map(X, folder):
    np.save(folder / "x.npy", X)
    return np.load(folder / "x.npy", mmap_mode="r")


def unsorted_csr(X):
    """Return a CSR matrix in which entries are unsorted and every value is stored in two halves."""
    one = sparse.csr_array(X)
    columns, values = np.repeat(one.indices, 2)[::-1], np.repeat(one.data / 2, 2)[::-1]
    pointers = 2 * (one.nnz - one.indptr)[::-1]
    return sparse.csr_array((values, columns, pointers), shape=X.shape)[::-1]


def parquet(X, folder):
    pl.DataFrame(X, schema=NAMES).write_parquet(folder / "t.parquet", row_group_size=7)
    return folder / "t.parquet"


# Each takes a float64 table and a folder.
CONTAINERS = {
    "c-order": lambda X, _: X,
    "f-order": lambda X, _: np.asfortranarray(X),
    "strided": lambda X, _: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
    "big-endian": lambda X, _: X.astype(">f8"),
    "objects": lambda X, _: X.astype(object),
    "list": lambda X, _: X.tolist(),
    "masked": lambda X, _: np.ma.masked_invalid(X),
    "pandas": lambda X, _: pd.DataFrame(X, columns=NAMES),
    "pandas-nullable": lambda X, _: pd.DataFrame(X, columns=NAMES).astype("Float64"),
    "pandas-arrow": lambda X, _: pd.DataFrame(X, columns=NAMES).astype("double[pyarrow]"),
    "pandas-sparse": lambda X, _: pd.DataFrame.sparse.from_spmatrix(sparse.csr_array(X), columns=NAMES),
    "polars": lambda X, _: pl.DataFrame(X, schema=NAMES),
    "csr_array": lambda X, _: sparse.csr_array(X),
    "csr_matrix": lambda X, _: sparse.csr_matrix(X),
    "csr-unsorted": lambda X, _: unsorted_csr(X),
    "csc_array": lambda X, _: sparse.csc_array(X),
    "csc_matrix": lambda X, _: sparse.csc_matrix(X),
    "coo_array": lambda X, _: sparse.coo_array(X),
    "lil_matrix": lambda X, _: sparse.lil_matrix(X),
    "dok_array": lambda X, _: sparse.dok_array(X),
    "bsr_array": lambda X, _: sparse.bsr_array(X, blocksize=(3, 1)),
    "memmap": memory_map,
    "dask": lambda X, _: da.from_array(X, chunks=(20, 3)),
    "dask-rows": lambda X, _: da.from_array(X, chunks=(1, -1)),
    "dask-csr": lambda X, _: da.from_array(X, chunks=(20, -1)).map_blocks(sparse.csr_matrix),
    "lazy-frame": lambda X, _: pl.DataFrame(X, schema=NAMES, nan_to_null=True).lazy(),
    "parquet-scan": lambda X, folder: pl.scan_parquet(parquet(X, folder)),
    "parquet-file": lambda X, folder: pytest.importorskip("pyarrow.parquet").ParquetFile(parquet(X, folder)),
    "arrow-dataset": lambda X, folder: pytest.importorskip("pyarrow.dataset").dataset(parquet(X, folder)),
    "duckdb": lambda X, folder: pytest.importorskip("duckdb").read_parquet(str(parquet(X, folder))),
}  # fmt: skip
SHORT = {
    "float32": lambda X, _: X.astype(np.float32),
    "pandas-float32": lambda X, _: pd.DataFrame(X.astype(np.float32)),
    "csr-float32": lambda X, _: sparse.csr_array(X.astype(np.float32)),
    "memmap-float32": lambda X, folder: memory_map(X.astype(np.float32), folder),
    "dask-float32": lambda X, _: da.from_array(X.astype(np.float32), chunks=(20, -1)),
}
INTEGERS = {
    "i1": lambda X, _: X.astype("i1"),
    "u2": lambda X, _: sparse.csr_array(X.astype("u2")),
    "f2": lambda X, _: X.astype("f2"),
    "pandas-integers": lambda X, _: pd.DataFrame(X.astype(int)).astype({0: "Int64", 1: "u1"}),
    "polars-integers": lambda X, _: pl.DataFrame(X.astype(int), schema=NAMES),
    "dask-integers": lambda X, _: da.from_array(X.astype("i4"), chunks=(40, 2)),
}


def assert_same_model(found, expected, atol):
    for name in ("components_", "intercept_", "noise_variance_", "explained_variance_"):
        if hasattr(expected, name):
            assert_allclose(getattr(found, name), getattr(expected, name), atol=atol, err_msg=name)


def scores_of(model, table):
    return np.asarray(model.transform(table))


@pytest.mark.parametrize("missing", [0.0, 0.2], ids=["complete", "gaps"])
@pytest.mark.parametrize(
    "container", (CONTAINERS | SHORT | INTEGERS).values(), ids=CONTAINERS | SHORT | INTEGERS
)
def test_fits_do_not_depend_on_the_container(container, missing, tmp_path):
    X = draw(missing)
    if container in INTEGERS.values():
        X = draw()
    table = container(X, tmp_path)
    atol = 2e-3 if container in SHORT.values() else 1e-6
    expected = PPCA(1, tol=1e-10).fit(X)
    found = PPCA(1, tol=1e-10).fit(table)
    assert_same_model(found, expected, atol)
    assert_allclose(scores_of(found, table), expected.transform(X), atol=atol)
    if hasattr(found, "feature_names_in_"):
        assert list(found.feature_names_in_) == NAMES


def step(block, local):
    x, observed = block.read()
    values = np.where(True if observed is None else observed, x, np.nan).astype(np.float64)
    weighted = np.nan_to_num(values) * block.weight.astype(np.float64)[:, np.newaxis]
    total = weighted.T @ np.hstack([weighted, block.covariates.astype(np.float64)])
    return (values, block.offset()), total


@pytest.mark.parametrize("missing", [0.0, 0.2], ids=["complete", "gaps"])
@pytest.mark.parametrize("container", (CONTAINERS | SHORT).values(), ids=CONTAINERS | SHORT)
def test_same_tables_sums_and_summaries(container, missing, tmp_path, rng):
    X = draw(missing)
    others = {
        "sample_weight": rng.integers(0, 3, size=N),
        "offset": rng.integers(-3, 3, size=(N, P)),
        "covariates": rng.integers(0, 2, size=(N, 2)),
    }
    data = check_data(container(X, tmp_path), block_rows=16, **others)
    with executor_for(data, n_jobs=2) as executor:
        local, total = executor.sweep(step, data)
        values, offset = (np.concatenate(parts) for parts in zip(*executor.gather(local), strict=True))
    assert (data.n_samples, data.n_features, data.n_covariates) == (N, P, 2)
    assert_array_equal(values, X)
    assert_array_equal(offset, others["offset"])
    weighted = np.nan_to_num(X) * others["sample_weight"][:, np.newaxis]
    assert_allclose(total, weighted.T @ np.hstack([weighted, others["covariates"]]), rtol=1e-12)
    data, reference = check_data(container(X, tmp_path), block_rows=16), check_data(X)
    with executor_for(data) as executor, executor_for(reference) as threads:
        found, expected = summarise(data, executor), summarise(reference, threads)
        assert check_values(found, data).may_miss == np.isnan(X).any()
        outside = first_outside(data, executor, lambda x: x < 3)
        assert outside == first_outside(reference, threads, lambda x: x < 3) is not None
    for field in fields(Summary):
        mine, theirs = getattr(found, field.name), getattr(expected, field.name)
        if isinstance(theirs, np.ndarray):
            assert_allclose(mine, theirs, rtol=1e-12, atol=1e-13, err_msg=field.name)
        else:
            assert mine == theirs, field.name


def company(rng):
    return {
        "sample_weight": rng.integers(1, 4, N).astype(float),
        "offset": 0.3 * rng.normal(size=(N, P)),
        "covariates": rng.integers(0, 2, (N, 1)).astype(float),
    }


WRAPS = {
    "lists": (np.ndarray.tolist, np.ndarray.tolist),
    "pandas": (pd.Series, pd.DataFrame),
    "polars": (pl.Series, lambda X: pl.DataFrame(X)),
    "sparse": (np.asarray, sparse.csr_array),
    "fortran": (np.asarray, np.asfortranarray),
    "dask": (lambda x: da.from_array(x, chunks=17), lambda X: da.from_array(X, chunks=(17, 3))),
}


@pytest.mark.parametrize(
    ("name", "is_dask"),
    [*((name, True) for name in WRAPS), *((name, False) for name in WRAPS if name != "dask")],
)
def test_weights_offsets_and_covariates_of_any_container(name, is_dask, rng):
    X, others = draw(), company(rng)
    expected = EPCA(1, family="poisson", tol=1e-9).fit(X, **others)
    wrapped = {key: WRAPS[name][np.ndim(value) - 1](value) for key, value in others.items()}
    if name == "sparse":  # covariates are dense
        wrapped["covariates"] = others["covariates"]
    table = da.from_array(X, chunks=(25, -1)) if is_dask else X
    found = EPCA(1, family="poisson", tol=1e-9).fit(table, **wrapped)
    assert_same_model(found, expected, 1e-5)


# Blocks, threads, memory


@pytest.mark.parametrize("missing", [0.0, 0.2], ids=["complete", "gaps"])
@pytest.mark.parametrize("rows", [1, 13, 89])
def test_moments_do_not_depend_on_blocks(rows, missing, rng):
    """Without components a Gaussian model has the columns' means and their pooled variance, however large a mean."""
    X = np.column_stack([rng.gamma(0.3, size=(N, 2)), 1e6 + rng.normal(size=N), rng.poisson(2.0, N)])
    X[rng.random(X.shape) < missing] = np.nan
    chunks = da.from_array(X, chunks=(rows, 2))
    found = EPCA(0, family="gaussian").fit(chunks)
    assert_allclose(found.intercept_, np.nanmean(X, axis=0), rtol=1e-10)
    n_observed = np.sum(~np.isnan(X), axis=0)
    pooled = np.nanvar(X, axis=0) @ n_observed / (n_observed.sum() - 4)
    assert_allclose(found.dispersion_, pooled, rtol=1e-5)


@pytest.mark.parametrize("n_jobs", [2, 5, -1])
def test_threads_do_not_change_a_fit(n_jobs, rng):
    X = rng.poisson(2.0, (3000, 4)).astype(float)
    fits = [EPCA(1, family="poisson", n_jobs=jobs, max_iter=2000).fit(X) for jobs in (1, n_jobs, n_jobs)]
    assert_allclose(fits[1].components_, fits[0].components_, atol=1e-4)
    assert_array_equal(fits[1].components_, fits[2].components_)


def test_a_fit_leaves_the_threads_of_blas_and_the_table_alone(rng):
    def threads():
        found = threadpoolctl.threadpool_info()
        return {info["num_threads"] for info in found if info["user_api"] == "blas"}

    X = draw()
    kept, matrix = X.copy(), unsorted_csr(X)
    stored = matrix.indices.copy(), matrix.data.copy()
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = threads()
        EPCA(1, family="poisson", n_jobs=2).fit(X)
        EPCA(1, family="poisson", n_jobs=2).fit(matrix)
        assert threads() == before
        with pytest.raises(ValueError, match="poisson"):
            EPCA(1, family="poisson").fit(-X)
        assert threads() == before
    assert_array_equal(X, kept)
    assert_array_equal(matrix.indices, stored[0])
    assert_array_equal(matrix.data, stored[1])


# Columns


COLUMNS = {
    "counts": (lambda r: r.poisson(4.0, N), 1.0),
    "multiples of five": (lambda r: 5 * r.integers(0, 40, N), 5.0),
    "shifted multiples": (lambda r: 3 + 100 * r.integers(-5, 5, N), 100.0),
    "one decimal": (lambda r: np.round(r.normal(50, 10, N), 1), 0.1),
    "quarters": (lambda r: 0.25 * r.integers(0, 60, N), 0.25),
    "inches": (lambda r: 2.54 * r.integers(50, 80, N), 2.54),
    "one late decimal": (lambda r: np.r_[r.integers(0, 50, N - 1), 7.5], 0.5),
    "large": (lambda r: 1e9 + 1000.0 * r.integers(0, 9, N), 1000.0),
}


@pytest.mark.parametrize("rows", [1, 7, N])
def test_steps_of_columns_do_not_depend_on_blocks(rows, rng):
    X = np.column_stack([draw_column(rng) for draw_column, _ in COLUMNS.values()])
    X = np.column_stack([X, rng.normal(size=N)])
    model = EPCA(0, family="gaussian").fit(da.from_array(X, chunks=(rows, -1)))
    assert_allclose(model.resolution_[:-1], [step for _, step in COLUMNS.values()], rtol=1e-10)
    # Numbers on no lattice are recorded to a share of their deviation.
    assert 0 < model.resolution_[-1] < 0.01


@pytest.mark.parametrize("name", ["f-order", "pandas", "polars", "csr_array", "csc_array", "memmap", "dask"])
def test_columns_that_follow_from_others_come_back_and_change_nothing(name, tmp_path):
    X = draw()[:, :4]
    table = np.column_stack([X, np.full(N, 2.5), 1.0 + 2.0 * X[:, 0], X[:, 1] - X[:, 2]])
    forms = [Constant(2.5), Copy(0, 1.0, 2.0), Combination((1, 2), 0.0, (1.0, -1.0))]
    model = EPCA(1, family="gaussian", tol=1e-9).fit(X)
    scores, means = model.transform(X), model.inverse_transform(model.transform(X))
    table = CONTAINERS[name](table, tmp_path)
    found = EPCA(1, family=["gaussian"] * 4 + forms, tol=1e-9).fit(table)
    assert_allclose(scores_of(found, table), scores, atol=1e-5)
    follow = [np.full(N, 2.5), 1.0 + 2.0 * means[:, 0], means[:, 1] - means[:, 2]]
    back = found.inverse_transform(scores_of(found, table))
    assert_allclose(back, np.column_stack([means, *follow]), atol=1e-5)


def test_forms_that_cannot_be():
    for forms in ([Constant(1.0)] * 3, ["gaussian", Excluded(), Copy(1)]):
        with pytest.raises(ValueError, match="column"):
            EPCA(1, family=forms).fit(draw()[:, :3])
    for levels in ((1.0,), (2.0, 1.0), (1.0, 1.0)):
        with pytest.raises(ValueError, match="increasing"):
            Recoded(levels)
    assert Copy(1, 0.0, 2.0) == eval(repr(Copy(1, 0.0, 2.0)))
    assert hash(Recoded((0, 2))) == hash(Recoded((0.0, 2.0)))

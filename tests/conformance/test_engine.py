"""Every container of a table gives the same tables, sums and summaries, row for row."""

from __future__ import annotations

from dataclasses import fields

import dask.array as da
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from tests.draws import generator

from anypca.engine import Summary, check_data, check_values, executor_for, first_outside, summarise

N, P = 90, 7


def memory_map(X, folder):
    np.save(folder / "x.npy", X)
    return np.load(folder / "x.npy", mmap_mode="r")


# Each takes a float64 table and a folder.
CONTAINERS = {
    "c-order": lambda X, _: X,
    "f-order": lambda X, _: np.asfortranarray(X),
    "strided": lambda X, _: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
    "float32": lambda X, _: X.astype(np.float32),
    "objects": lambda X, _: X.astype(object),
    "list": lambda X, _: X.tolist(),
    "pandas": lambda X, _: pd.DataFrame(X),
    "pandas-float32": lambda X, _: pd.DataFrame(X.astype(np.float32)),
    "pandas-nullable": lambda X, _: pd.DataFrame(X).astype("Float64"),
    "polars": lambda X, _: pl.DataFrame(X),
    "csr_array": lambda X, _: sparse.csr_array(X),
    "csr_matrix": lambda X, _: sparse.csr_matrix(X),
    "csr-float32": lambda X, _: sparse.csr_array(X.astype(np.float32)),
    "csc_array": lambda X, _: sparse.csc_array(X),
    "csc_matrix": lambda X, _: sparse.csc_matrix(X),
    "coo_array": lambda X, _: sparse.coo_array(X),
    "lil_matrix": lambda X, _: sparse.lil_matrix(X),
    "dok_array": lambda X, _: sparse.dok_array(X),
    "bsr_array": lambda X, _: sparse.bsr_array(X, blocksize=(3, 1)),
    "memmap": memory_map,
    "memmap-float32": lambda X, folder: memory_map(X.astype(np.float32), folder),
    "dask": lambda X, _: da.from_array(X, chunks=(20, 3)),
    "dask-float32": lambda X, _: da.from_array(X.astype(np.float32), chunks=(20, -1)),
    "dask-csr": lambda X, _: da.from_array(X, chunks=(20, -1)).map_blocks(sparse.csr_matrix),
}


def table(missing):
    """Small counts, which float32 holds exactly."""
    rng = generator("containers", str(missing))
    X = rng.poisson(0.8, size=(N, P)).astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    return X


@pytest.fixture(params=[0.0, 0.2], ids=["complete", "gaps"])
def X(request):
    return table(request.param)


def step(block, local):
    x, observed = block.read()
    offset = block.offset()
    values = np.where(True if observed is None else observed, x, np.nan).astype(np.float64)
    weighted = np.nan_to_num(values) * block.weight.astype(np.float64)[:, np.newaxis]
    return (values, offset), weighted.T @ np.hstack([weighted, block.covariates.astype(np.float64)])


@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
def test_same_tables_and_sums(X, container, tmp_path):
    rng = generator("companions")
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


@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
def test_same_summary(X, container, tmp_path):
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

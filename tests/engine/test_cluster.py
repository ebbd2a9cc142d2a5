"""Dask clusters: the fit of the same table in memory, lazily read chunks, lost workers."""

from __future__ import annotations

import dask.array as da
import distributed
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.draws import generator

from anypca import EPCA, PPCA

N, P = 200, 5


@pytest.fixture
def counts():
    rng = generator("cluster")
    return rng.poisson(np.exp(0.5 + 0.7 * rng.normal(size=(N, 1)) @ rng.normal(size=(1, P)))).astype(float)


@pytest.fixture
def cluster():
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster):
        yield cluster


def test_a_fit_on_a_cluster_is_the_fit_in_memory(cluster, counts):
    counts[7, 3] = np.nan
    table = da.from_array(counts, chunks=(33, -1))
    offset = generator("offset").normal(size=N)
    local, found, again = (
        EPCA(1, family="poisson", tol=1e-9).fit(X, offset=o)
        for X, o in ((counts, offset), (table, da.from_array(offset, chunks=17)), (table, offset))
    )
    assert_allclose(found.components_, local.components_, atol=1e-6)
    assert_allclose(again.components_, found.components_, atol=1e-8)
    scores = np.asarray(found.transform(table, offset=offset))
    assert_allclose(scores, local.transform(counts, offset=offset), atol=1e-5)
    with pytest.raises(ValueError, match=r"X\[7, 3\]"):
        EPCA(1, family="poisson").fit(
            da.from_array(np.where(np.isnan(counts), -1.0, counts), chunks=(33, -1))
        )


def test_errors_of_chunks_come_through(cluster, counts):
    def fail(chunk, block_info=None):
        if block_info is not None and block_info[0]["chunk-location"][0] == 2:
            raise ArithmeticError("third chunk")
        return chunk

    table = da.from_array(counts, chunks=(50, -1)).map_blocks(fail, meta=np.empty((0, 0)), dtype=float)
    with pytest.raises(ArithmeticError, match="third chunk"):
        PPCA(1).fit(table)
    assert_allclose(PPCA(1).fit(da.from_array(counts, chunks=(50, -1))).mean_, counts.mean(axis=0))


def test_without_a_cluster_chunks_are_read_when_they_are_needed(counts):
    reads = []

    def load(chunk):
        reads.append(len(chunk))
        return chunk

    table = da.from_array(counts, chunks=(100, P)).map_blocks(load, meta=np.empty((0, 0)), dtype=float)
    assert reads == []
    first = PPCA(1).fit(table)
    assert set(reads) == {100}
    assert_array_equal(PPCA(1).fit(table).components_, first.components_)
    gaps = da.concatenate([table[:0], table[:5], table[5:5], table[5:]])
    assert_allclose(PPCA(1).fit(gaps).components_, first.components_, atol=1e-10)

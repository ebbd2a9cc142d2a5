"""Dask: the same tables and sums; what belongs to rows stays on the workers."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

pytest.importorskip("distributed")
import dask
import dask.array as da
import distributed

from anypca.engine import check_data, check_values, executor_for, first_outside, summarise
from anypca.engine import dask as dask_module

N, P = 200, 5
X = np.random.default_rng(0).poisson(1.5, size=(N, P)).astype(float)
X[7, 3] = np.nan


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as client:
        yield client


@pytest.fixture(params=["threads", "cluster"])
def place(request):
    """Run a test with Dask's threads, and with a client in scope."""
    if request.param == "cluster":
        request.getfixturevalue("client")
    return request.param


def count_sweeps(block, local):
    """Row sums plus the number of sweeps as the local; Gram matrix as the total."""
    x = block.read().x
    return x.sum(axis=1) if local is None else local + 1.0, x.T @ x


def check_all(table, **others):
    data = check_data(table, **others)
    with executor_for(data) as executor:
        return check_values(summarise(data, executor), data)


def run(table, n_sweeps=3, **others):
    data = check_data(table, **others)
    with executor_for(data) as executor:
        local, totals = None, []
        for _ in range(n_sweeps):
            local, total = executor.sweep(count_sweeps, data, local)
            totals.append(total)
        return np.concatenate(executor.gather(local)), totals


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("chunks", [(10, 2), (200, 5), (33, -1)], ids=str)
def test_same_as_threads(chunks):
    scores, totals = run(X)
    dask_scores, dask_totals = run(da.from_array(X, chunks=chunks))
    assert_array_equal(dask_scores, scores)
    assert_allclose(dask_totals, totals, rtol=1e-13)


@pytest.mark.usefixtures("place")
def test_same_bits_again():
    table = da.from_array(np.random.default_rng(1).normal(size=(N, P)), chunks=(20, P))
    assert_array_equal(run(table)[1], run(table)[1])


@pytest.mark.usefixtures("place")
def test_summary_checks_and_first_outside():
    data, reference = check_data(da.from_array(X, chunks=(30, P))), check_data(X)
    with executor_for(data) as executor, executor_for(reference) as threads:
        found, expected = summarise(data, executor), summarise(reference, threads)
        assert_allclose(found.variance, expected.variance, rtol=1e-12)
        assert found.has_missing
        assert check_values(found, data) is data
        assert first_outside(data, executor, lambda x: x < 4) == first_outside(
            reference, threads, lambda x: x < 4
        )


@pytest.mark.usefixtures("place")
def test_complete_tables_are_marked_so_on_the_workers():
    data = check_data(da.ones((20, 2), chunks=(5, 2)))
    with executor_for(data) as executor:
        checked = check_values(summarise(data, executor), data)
        flags, _ = executor.sweep(lambda block, local: (block.may_miss, 0), checked)
        assert not checked.may_miss
        assert executor.gather(flags) == [False] * 4


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    "wrap", [np.asarray, functools.partial(da.from_array, chunks=17)], ids=["numpy", "dask"]
)
@pytest.mark.parametrize("width", [None, 1, P], ids=["vector", "column", "matrix"])
def test_company_follows_the_rows(wrap, width):
    rng = np.random.default_rng(2)
    offset = rng.normal(size=N if width is None else (N, width))
    covariates, weight = rng.normal(size=(N, 2)), rng.random(N)
    data = check_data(
        da.from_array(X.astype("f4"), chunks=(30, 2)),
        offset=wrap(offset),
        covariates=wrap(covariates),
        sample_weight=wrap(weight),
    )
    with executor_for(data) as executor:
        pieces, _ = executor.sweep(lambda b, local: ((b.offset(), b.covariates, b.weight), 0), data)
        found = [np.concatenate(parts) for parts in zip(*executor.gather(pieces), strict=True)]
    for part, expected in zip(found, [offset.reshape(N, -1), covariates, weight], strict=True):
        assert part.dtype == np.float32
        assert_array_equal(part, expected.astype("f4"))
    assert data.n_covariates == 2
    assert data.has_weights


@pytest.mark.usefixtures("place")
def test_sparse_offset_and_sparse_chunks():
    counts = np.nan_to_num(X)
    chunked = da.from_array(counts, chunks=(40, P)).map_blocks(sparse.csr_matrix)
    data = check_data(chunked, offset=sparse.csr_array(counts))
    with executor_for(data) as executor:
        pieces, _ = executor.sweep(lambda b, local: (b.read().x - b.offset(), 0), data)
        assert_array_equal(np.concatenate(executor.gather(pieces)), np.zeros((N, P)))


@pytest.mark.usefixtures("place")
def test_block_rows_and_empty_chunks():
    assert len(check_data(da.from_array(X, chunks=(200, P)), block_rows=50).blocks) == 4
    gaps = da.concatenate(
        [da.from_array(X[:0]), da.from_array(X[:5]), da.from_array(X[5:5]), da.from_array(X[5:9])]
    )
    data = check_data(gaps)
    assert len(data.blocks) == 2
    with executor_for(data) as executor:
        starts, _ = executor.sweep(lambda block, local: (block.start, 0), data)
        assert executor.gather(starts) == [0, 5]


def test_one_submission_and_one_fetched_number_per_sweep(client, monkeypatch):
    data = check_data(da.from_array(X, chunks=(10, P)))
    calls = []
    for name in ("persist", "compute", "get", "gather", "scatter", "submit"):
        original = getattr(distributed.Client, name)

        def record(self, *args, _name=name, _original=original, **others):
            calls.append((_name, len(args[0]) if _name == "gather" else None))
            return _original(self, *args, **others)

        monkeypatch.setattr(distributed.Client, name, record)
    with executor_for(data) as executor:
        local = None
        for _ in range(4):
            local, _ = executor.sweep(count_sweeps, data, local)
            assert calls == [("persist", None), ("gather", 1)]
            calls.clear()


def test_locals_are_on_the_workers_that_hold_the_blocks(client):
    data = check_data(da.from_array(X, chunks=(10, P)))
    distributed.wait(data.blocks)
    with executor_for(data) as executor:
        local, _ = executor.sweep(count_sweeps, data)
        distributed.wait(local)
    places = client.who_has(
        [*distributed.futures_of(list(local)), *distributed.futures_of(list(data.blocks))]
    )
    assert len(places) == 2 * len(data.blocks)
    assert all(places.values())


@pytest.mark.parametrize("size", [4, 2**18])
def test_only_small_totals_stay_on_the_workers(client, size):
    data = check_data(da.from_array(X, chunks=(100, P)))

    def visit(block, local):
        return (local or 0) + block.n_rows, np.ones(size)

    with executor_for(data) as executor:
        local, _ = executor.sweep(visit, data)
        for _ in range(2):
            local, total = executor.sweep(visit, data, local)
            assert np.array_equal(total, np.full(size, len(data.blocks)))
        kept = client.gather(distributed.futures_of(list(local)))
        assert all(isinstance(one, tuple) == (size == 4) for one in kept)
        # The locals are what they are, also for functions that come later.
        assert executor.gather(local) == [3 * rows for rows in data.block_rows]
        assert executor.sum(lambda block, rows: rows, data, local) == 3 * len(X)


def test_client_does_not_collect_history(client):
    data = check_data(da.from_array(X, chunks=(50, P)))
    held = []
    with executor_for(data) as executor:
        local = None
        for _ in range(12):
            local, _ = executor.sweep(count_sweeps, data, local)
            assert all(len(handle.__dask_graph__()) == 1 for handle in local)
            held.append(len(client.futures))
    # blocks, locals and the root of now and, while they are being released, of before
    assert max(held) <= 3 * len(data.blocks) + 2


def test_lazy_without_a_cluster():
    reads = []

    def load(chunk):
        reads.append(len(chunk))
        return chunk

    table = da.from_array(X, chunks=(100, P)).map_blocks(load, meta=np.empty((0, 0)))
    data = check_data(table)
    assert reads == []
    with executor_for(data) as executor:
        local, _ = executor.sweep(count_sweeps, data)
        executor.sweep(count_sweeps, data, local)
    assert reads == [100] * 4


@pytest.mark.usefixtures("place")
def test_errors_come_through():
    def fails(block, local):
        if block.start == 150:
            raise ArithmeticError("row 150")
        return None, 0.0

    data = check_data(da.from_array(X, chunks=(50, P)))
    with executor_for(data) as executor:
        with pytest.raises(ArithmeticError, match="row 150"):
            executor.sweep(fails, data)
        assert executor.sweep(count_sweeps, data)[1].shape == (P, P)


@pytest.mark.parametrize("n", [1, 2, 8, 9, 70])
def test_tree_sum(n):
    total = dask_module._tree_sum([dask.delayed((None, [i])) for i in range(n)])
    assert total.compute() == list(range(n))


UNKNOWN = da.from_array(X, chunks=(50, P))
UNKNOWN = UNKNOWN[da.from_array(np.ones(N, bool), chunks=50)]
WITH_NAN = np.ones(N)
WITH_NAN[120] = np.nan


@pytest.mark.parametrize(
    ("table", "others", "error", "message"),
    [
        pytest.param(
            UNKNOWN, {}, ValueError, r"unknown size.*compute_chunk_sizes\(\).*lengths=True", id="unknown"
        ),
        pytest.param(da.ones(3), {}, ValueError, "Expected 2D array, got 1D.*Reshape your data", id="1-d"),
        pytest.param(da.ones((2, 2, 2)), {}, ValueError, "dim 3.*Reshape your data", id="3-d"),
        pytest.param(da.ones((0, 2)), {}, ValueError, r"0 sample\(s\)", id="no-rows"),
        pytest.param(
            da.ones((2, 2), dtype=complex), {}, ValueError, "Complex data not supported", id="complex"
        ),
        pytest.param(da.from_array(np.array([["a"]])), {}, ValueError, "entries are strings", id="text"),
        pytest.param(
            da.from_array(X), {"offset": da.ones(3)}, ValueError, "offset must have shape", id="offset-shape"
        ),
        pytest.param(
            da.from_array(X),
            {"offset": UNKNOWN},
            ValueError,
            "offset has chunks of unknown",
            id="offset-unknown",
        ),
        pytest.param(
            da.from_array(X),
            {"covariates": da.ones((3, 1))},
            ValueError,
            "covariates must",
            id="covariates-shape",
        ),
        pytest.param(
            da.from_array(X),
            {"sample_weight": da.zeros(N)},
            ValueError,
            "zero for every row",
            id="zero-weights",
        ),
        pytest.param(
            da.from_array(X, chunks=(50, P)),
            {"offset": da.from_array(WITH_NAN)},
            ValueError,
            r"offset\[120\] is nan",
            id="offset-nan",
        ),
        pytest.param(
            da.from_array(X, chunks=(50, P)),
            {"covariates": da.from_array(WITH_NAN)},
            ValueError,
            r"covariates\[120\] is nan",
            id="covariates-nan",
        ),
        pytest.param(
            da.from_array(np.where(np.isnan(X), np.inf, X), chunks=(4, P)),
            {},
            ValueError,
            r"X\[7, 3\] is inf",
            id="inf",
        ),
    ],
)
def test_bad_input(table, others, error, message):
    with pytest.raises(error, match=message):
        check_all(table, **others)


def test_a_lost_worker_loses_nothing():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster),
    ):
        data = check_data(da.from_array(X, chunks=(20, P)))
        with executor_for(data) as executor:
            local, _ = executor.sweep(count_sweeps, data)
            local, before = executor.sweep(count_sweeps, data, local)
            cluster.sync(cluster.workers[0].close)
            local, after = executor.sweep(count_sweeps, data, local)
            scores = np.concatenate(executor.gather(local))
    assert_array_equal(after, before)
    assert_array_equal(scores, run(X)[0])

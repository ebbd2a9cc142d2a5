"""Threads: sums, order, errors, and the number of BLAS threads."""

from __future__ import annotations

import threading
import time
import traceback

import joblib
import numpy as np
import pytest
import threadpoolctl
from numpy.testing import assert_allclose, assert_array_equal

from anypca.engine import alone, check_data, executor_for
from anypca.engine.executors import ThreadExecutor, count_workers, one_blas_thread

X = np.random.default_rng(0).normal(size=(500, 4)) * np.logspace(-6, 6, 4)


def gram(block, local):
    """Row sums as the local, counting sweeps; the Gram matrix as the total."""
    x = block.read().x
    return x.sum(axis=1) if local is None else local + 1.0, x.T @ x


def blas_threads():
    return {info["num_threads"] for info in threadpoolctl.threadpool_info() if info["user_api"] == "blas"}


@pytest.fixture
def two_blas_threads():
    """Start from two threads, so that holding at one and restoring can both be seen."""
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        if blas_threads() != {2}:
            pytest.skip("this BLAS has no second thread")
        yield


@pytest.mark.parametrize("block_rows", [3, 64, 1000])
@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_block_size_and_threads_do_not_change_the_result(block_rows, n_jobs):
    data = check_data(X, block_rows=block_rows)
    with ThreadExecutor(n_jobs) as executor:
        local, total = executor.sweep(gram, data)
        local, total = executor.sweep(gram, data, local)
        scores = np.concatenate(executor.gather(local))
    scale = np.sqrt(np.outer(np.diag(X.T @ X), np.diag(X.T @ X)))
    assert_allclose(total / scale, X.T @ X / scale, rtol=0, atol=1e-12)
    assert_allclose(scores, X.sum(axis=1) + 1.0, rtol=1e-12)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_same_threads_same_bits(n_jobs):
    data = check_data(X, block_rows=7)
    totals = [ThreadExecutor(n_jobs).sweep(gram, data)[1] for _ in range(5)]
    for total in totals[1:]:
        assert_array_equal(total, totals[0])


@pytest.mark.parametrize("n_items", [0, 1, 2, 11])
@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_items_are_shared_in_order(n_jobs, n_items):
    """Whoever takes them, and inside of the context as outside."""
    executor, items = ThreadExecutor(n_jobs), np.arange(n_items)
    outside = executor.share(lambda run: items[run], n_items)
    with executor:
        inside = executor.share(lambda run: items[run], n_items)
    assert len(inside) == max(min(n_jobs, n_items), 1)
    for found in (outside, inside, alone(lambda run: items[run], n_items)):
        assert_array_equal(np.concatenate(found), items)


def test_items_are_shared_by_several_threads(two_blas_threads):
    meeting = threading.Barrier(2, timeout=30)

    def meet(run):
        meeting.wait()
        return threading.get_ident(), blas_threads()

    (one, held), (other, _) = ThreadExecutor(2).share(meet, 2)
    assert one != other
    assert held == {1}


def test_works_outside_of_the_context_and_after_it():
    data = check_data(X, block_rows=100)
    executor = ThreadExecutor(2)
    before = executor.sweep(gram, data)[1]
    with executor:
        inside = executor.sweep(gram, data)[1]
    assert_array_equal(before, inside)
    assert_array_equal(executor.sweep(gram, data)[1], inside)


def test_one_running_sum_per_worker():
    """Totals are added as they come: never more alive than one sum and one summand per worker."""
    lock, alive, most = threading.Lock(), 0, 0

    class Total:
        def __init__(self):
            nonlocal alive, most
            with lock:
                alive += 1
                most = max(most, alive)

        def __del__(self):
            nonlocal alive
            with lock:
                alive -= 1

        def __add__(self, other):
            return Total()

    data = check_data(X, block_rows=5)
    with ThreadExecutor(2) as executor:
        executor.sweep(lambda block, local: (None, Total()), data)
    # one sum, one summand, one result of their addition, and the name of the last summand, per worker
    assert most <= 8
    assert len(data.blocks) == 100


@pytest.mark.parametrize("n_jobs", [1, 2, 4])
def test_errors_keep_their_traceback_and_stop_the_sweep(n_jobs):
    visited = []

    def fails_in_the_middle(block, local):
        visited.append(block.start)
        if block.start == 250:
            raise ArithmeticError("row 250")
        time.sleep(0.001)
        return None, 0.0

    data = check_data(X, block_rows=5)
    with ThreadExecutor(n_jobs) as executor:
        with pytest.raises(ArithmeticError, match="row 250") as info:
            executor.sweep(fails_in_the_middle, data)
        assert "fails_in_the_middle" in "".join(traceback.format_tb(info.value.__traceback__))
        assert len(visited) < len(data.blocks)
        assert_allclose(executor.sweep(gram, data)[1], X.T @ X, rtol=1e-9)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("anypca")]


def test_floating_point_settings_reach_the_threads():
    data = check_data(X, block_rows=100)

    def settings(block, local):
        return np.geterr()["over"], 0

    with ThreadExecutor(4) as executor, np.errstate(over="raise"):
        assert set(executor.sweep(settings, data)[0]) == {"raise"}


@pytest.mark.usefixtures("two_blas_threads")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_blas_is_held_to_one_thread_and_released(n_jobs):
    data = check_data(X, block_rows=100)

    def count(block, local):
        return blas_threads(), 0

    with ThreadExecutor(n_jobs) as executor:
        assert blas_threads() == {1}
        assert all(found == {1} for found in executor.sweep(count, data)[0])
    assert blas_threads() == {2}


@pytest.mark.usefixtures("two_blas_threads")
def test_blas_is_released_after_an_error():
    def fails(block, local):
        raise ArithmeticError

    with pytest.raises(ArithmeticError), ThreadExecutor(2) as executor:
        executor.sweep(fails, check_data(X))
    assert blas_threads() == {2}


@pytest.mark.usefixtures("two_blas_threads")
def test_overlapping_fits_release_blas_once():
    """The first to leave must not free the other, and the last must restore what was there before both."""
    one_blas_thread.__enter__()
    with one_blas_thread:
        one_blas_thread.__exit__(None, None, None)
        assert blas_threads() == {1}
    assert blas_threads() == {2}


def test_nested_in_joblib_threads():
    data = check_data(X, block_rows=20)

    def fit():
        with executor_for(data, n_jobs=2) as executor:
            return executor.sweep(gram, data)[1]

    totals = joblib.Parallel(n_jobs=3, backend="threading")(joblib.delayed(fit)() for _ in range(6))
    for total in totals:
        assert_array_equal(total, totals[0])


def test_number_of_workers():
    cores = joblib.cpu_count()
    assert count_workers(None) == count_workers(-1) == cores
    assert count_workers(3) == 3
    assert count_workers(np.int64(2)) == 2
    assert count_workers(-cores - 5) == 1


@pytest.mark.parametrize(
    ("n_jobs", "error", "message"),
    [
        (0, ValueError, "must not be 0.*Use 1"),
        (1.5, TypeError, "integer"),
        (True, TypeError, "integer"),
        ("2", TypeError, "'2'"),
    ],
)
def test_bad_n_jobs(n_jobs, error, message):
    with pytest.raises(error, match=message):
        ThreadExecutor(n_jobs)


def test_after_an_error_the_other_workers_end_at_their_next_block():
    data = check_data(np.zeros((40, 2)), block_rows=1)
    visited = []

    def visit(block, _):
        if block.start == 0:
            raise ValueError("the first block")
        time.sleep(0.1)  # twenty such blocks, two seconds, are the second worker's share
        visited.append(block.start)
        return None, 0.0

    with ThreadExecutor(2) as executor, pytest.raises(ValueError, match="the first block"):
        executor.sweep(visit, data)
    assert len(visited) < 15

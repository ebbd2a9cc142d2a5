"""`summarise` against numpy and scipy on the whole table, for any blocks, weights and gaps."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from anypca.engine import check_data, check_values, executor_for, first_outside, summarise
from anypca.engine import summary as summary_module


def summary_of(X, n_jobs=2, **others):
    data = check_data(X, **others)
    with executor_for(data, n_jobs) as executor:
        return summarise(data, executor)


def table(missing=0.0, seed=0):
    """Counts, fractions, large means with small spread, a constant."""
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [rng.poisson(0.5, 200), rng.gamma(0.3, size=200), 1e7 + rng.normal(size=200), np.full(200, 3.25)]
    )
    X[rng.random(X.shape) < missing] = np.nan
    X[:, 3] = 3.25
    return X


@pytest.mark.parametrize("missing", [0.0, 0.3], ids=["complete", "gaps"])
@pytest.mark.parametrize("block_rows", [1, 13, 200])
@pytest.mark.parametrize("slab", [1, 2**17], ids=["narrow", "wide"])
def test_moments(missing, block_rows, slab, monkeypatch):
    monkeypatch.setattr(summary_module, "_SLAB_ENTRIES", slab)
    X = table(missing)
    found = summary_of(X, block_rows=block_rows)
    # relative to the spread: numpy itself is no better for column 2
    assert_allclose(found.mean, np.nanmean(X, axis=0), rtol=1e-14)
    assert_allclose(found.variance, np.nanvar(X, axis=0), rtol=1e-8)
    assert_allclose(found.skewness[:3], stats.skew(X[:, :3], nan_policy="omit"), rtol=1e-5)
    assert found.variance[3] == found.skewness[3] == 0.0
    assert_array_equal(found.minimum, np.nanmin(X, axis=0))
    assert_array_equal(found.maximum, np.nanmax(X, axis=0))
    assert_array_equal(found.n_observed, np.sum(~np.isnan(X), axis=0))
    assert_array_equal(found.weight, found.n_observed)
    assert_array_equal(found.n_zero, np.sum(X == 0, axis=0))
    assert_array_equal(found.n_noninteger, np.nansum(np.nan_to_num(X) % 1 != 0, axis=0))
    assert found.has_missing == (missing > 0)


@pytest.mark.parametrize("missing", [0.0, 0.3], ids=["complete", "gaps"])
@pytest.mark.parametrize("block_rows", [7, 1000])
def test_weights_count_rows(missing, block_rows):
    X = table(missing)
    weight = np.random.default_rng(1).integers(0, 4, size=len(X))
    weighted = summary_of(X, sample_weight=weight, block_rows=block_rows)
    repeated = summary_of(np.repeat(X, weight, axis=0))
    assert_allclose(weighted.weight, repeated.weight, rtol=1e-14)
    assert_allclose(weighted.mean, repeated.mean, rtol=1e-14)
    assert_allclose(weighted.variance, repeated.variance, rtol=1e-8)
    assert_allclose(weighted.skewness, repeated.skewness, rtol=1e-5)


def test_float32_is_summed_in_float64():
    X = (1000.0 + np.random.default_rng(0).normal(size=(5000, 2))).astype("f4")
    found = summary_of(X, block_rows=100)
    assert found.mean.dtype == np.float64
    assert_allclose(found.variance, X.astype("f8").var(axis=0), rtol=1e-10)


def test_infinite_entries_are_reported_and_left_out():
    X = table()
    X[150, 1], X[7, 2], X[8, 0] = np.inf, -np.inf, np.inf
    found = summary_of(X, block_rows=20)
    assert found.first_infinite == (7, 2, -np.inf)
    assert_array_equal(found.n_observed, [199, 199, 199, 200])
    assert np.isfinite(found.variance).all()
    assert not found.has_missing


def test_empty_rows_and_columns():
    X = table()
    X[:, 1] = np.nan
    X[10:30] = np.nan
    found = summary_of(X, block_rows=6)
    assert found.empty_columns == (1,)
    assert found.n_empty_rows == 20
    assert found.empty_rows == (10, 11, 12, 13, 14)
    assert np.isnan([found.mean[1], found.variance[1], found.minimum[1], found.maximum[1]]).all()


@pytest.mark.parametrize("missing", [0.0, 0.3], ids=["complete", "gaps"])
def test_check_values_knows_about_gaps(missing):
    data = check_data(table(missing), block_rows=50)
    with executor_for(data) as executor:
        checked = check_values(summarise(data, executor), data)
    assert data.may_miss
    assert checked.may_miss == (missing > 0)
    assert {block.may_miss for block in checked.blocks} == {missing > 0}


def test_all_missing_integers_stay_complete():
    data = check_data(np.arange(6).reshape(3, 2))
    with executor_for(data) as executor:
        assert check_values(summarise(data, executor), data) is data


@pytest.mark.parametrize("block_rows", [1, 3, 100])
def test_first_outside(block_rows):
    X = np.ones((20, 3))
    X[5, 1] = np.nan
    X[9, 2], X[9, 1], X[15, 0] = -4.0, -3.0, -1.0
    data = check_data(X, block_rows=block_rows)
    with executor_for(data, 2) as executor:
        assert first_outside(data, executor, lambda x: x >= 0) == (9, 1, -3.0)
        assert first_outside(data, executor, lambda x: x >= -4) is None
        assert first_outside(data, executor, lambda x: x < 0) == (0, 0, 1.0)


def test_missing_entries_are_not_outside():
    data = check_data(np.array([[np.nan, 5.0]]))
    with executor_for(data) as executor:
        assert first_outside(data, executor, lambda x: x > 2) is None

"""A table that was fitted can be read by its model: levels of ordered columns come from all rows."""

from __future__ import annotations

import dask.array as dask_array
import numpy as np
import pytest
from scipy import sparse
from tests.draws import generator

from anypca import EPCA, SePCA

N = 4600


def with_noise(column, rng):
    return np.column_stack([column, rng.normal(size=(len(column), 3))])


@pytest.mark.parametrize("model", [EPCA(1), SePCA()], ids=["EPCA", "SePCA"])
@pytest.mark.parametrize("n_amounts", [3, 12])
def test_a_long_column_with_a_few_amounts_fits(model, n_amounts):
    rng = generator("few amounts", n_amounts)
    column = np.zeros(N)
    column[rng.choice(N, n_amounts, replace=False)] = np.round(1 + 50 * rng.random(n_amounts), 2)
    X = with_noise(column, rng)
    model.fit(X)
    assert model.family_report_[0].family != "ordinal"
    assert np.isfinite(model.transform(X)).all()


def test_levels_that_are_rare_are_levels():
    """Six towns far apart, and one that is in a single row, wherever it is."""
    rng = generator("towns")
    towns = np.array([2e3, 3.5e4, 7e5, 6e6])
    column = towns[rng.integers(0, 4, N)]
    column[rng.integers(0, N)] = 5e5
    X = with_noise(column, rng)
    model = EPCA(1).fit(X)
    assert model.family_report_[0].family == "ordinal"
    assert np.isfinite(model.transform(X)).all()


def test_a_long_column_of_two_values_and_a_rare_third_is_no_answer_of_two():
    rng = generator("rare third")
    column = np.where(rng.random(N) < 0.5, 0.0, 1e5)
    column[rng.integers(0, N)] = 5e4 + 0.5
    model = EPCA(1).fit(with_noise(column, rng))
    assert model.family_report_[0].family != "bernoulli"


def test_rows_of_weight_zero_may_have_levels_of_their_own():
    rng = generator("weight zero")
    X = with_noise(rng.choice([1.5, 2.0, 3.7], 200), rng)
    weight = np.ones(200)
    X[7, 0], weight[7] = 2.2, 0.0
    model = EPCA(1).fit(X, sample_weight=weight)
    assert model.family_report_[0].family == "ordinal"
    assert np.isfinite(model.transform(X[weight > 0])).all()


@pytest.mark.parametrize("n_values", [8, 11, 30])
def test_many_distinct_fractions_are_no_levels(n_values):
    rng = generator("fractions", n_values)
    values = np.round(np.cumsum(0.05 + rng.random(n_values)), 2)
    report = EPCA(0).fit(with_noise(rng.choice(values, 600), rng)).family_report_
    assert report[0].family != "ordinal"


def test_every_container_gives_the_same_levels():
    rng = generator("containers")
    towns = np.array([2e3, 3.5e4, 7e5, 6e6])[rng.integers(0, 4, N)]
    towns[rng.integers(0, N)] = 5e5
    X = with_noise(towns, rng)
    expected = EPCA(0).fit(X).family_report_
    for table in (sparse.csr_array(X), dask_array.from_array(X, chunks=(700, 4))):
        found = EPCA(0).fit(table).family_report_
        assert [record[:3] for record in found] == [record[:3] for record in expected]

"""Fits of tall tables begin on a sample of their rows, and are decided on all of them."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pytest

from anypca import SePCA
from anypca.engine import check_data
from anypca.models._session import open_session
from anypca.models.sepca import _sample
from anypca.models.sepca._rounds import ahead
from anypca.models.sepca._sample import open_sample, sample_size


@pytest.fixture
def small_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples of 150 rows."""
    monkeypatch.setattr(_sample, "_FEWEST", 150)


def counts_and_numbers(n: int, seed: int = 0) -> tuple[Any, list[str]]:
    """Two components of twelve columns."""
    rng = np.random.default_rng(seed)
    eta = rng.normal(size=(n, 2)) @ rng.normal(size=(2, 12))
    X = np.hstack([eta[:, :6] + rng.normal(size=(n, 6)), rng.poisson(np.exp(0.4 * eta[:, 6:]))])
    return X, ["gaussian"] * 6 + ["poisson"] * 6


def test_only_tall_tables_have_a_sample():
    assert sample_size(19_999, 12) == 0
    assert sample_size(20_000, 12) == 5000
    assert sample_size(200_000, 12) == 10_000
    assert sample_size(50_000, 1500) == 0  # not tall enough
    assert sample_size(10**9, 20_000) == 0  # a sample would not fit into memory


@pytest.mark.parametrize("wide", [False, True])
def test_a_sample_has_all_that_belongs_to_its_rows(small_samples, wide):
    n = 700
    number = np.arange(n, dtype=float)
    offset = np.tile(number[:, None], 3) if wide else number
    data = check_data(
        np.column_stack([number, number, number]),
        sample_weight=1.0 + number,
        offset=offset,
        covariates=number,
        entry_weight=np.tile(number[:, None], 3) + 1.0,
        block_rows=64,
    )
    with open_session(data, 1) as session, open_sample(session) as sample:
        assert sample is not None
        rows = sample.gather(lambda block: (block.values(), block.weight, block.offset(), block.covariates))
        values, weight, offsets, covariates = (np.concatenate(part) for part in zip(*rows, strict=True))
        entry = np.concatenate(sample.gather(lambda block: block.entry_weight()))
    assert len(np.unique(values[:, 0])) == 150
    assert np.array_equal(weight, 1.0 + values[:, 0])
    assert np.array_equal(offsets, values if wide else values[:, :1])
    assert np.array_equal(covariates, values[:, :1])
    assert np.array_equal(entry, 1.0 + values)


def test_a_sample_that_says_nothing_of_a_column_is_not_used(small_samples):
    X = np.random.default_rng(0).normal(size=(700, 3))
    X[:, 1] = 0.0
    with open_session(check_data(X), 1) as session, open_sample(session) as sample:
        assert sample is not None  # a constant says in a sample what it says in the table
    X[3, 1] = 1.0  # a row that is not drawn
    with open_session(check_data(X), 1) as session, open_sample(session) as sample:
        assert sample is None


def test_the_whole_table_decides(small_samples, monkeypatch):
    X, families = counts_and_numbers(900)
    begun_on_sample = SePCA(family=families, n_jobs=1).fit(X)
    monkeypatch.setattr(_sample, "_FEWEST", 10**6)
    whole = SePCA(family=families, n_jobs=1).fit(X)
    assert begun_on_sample.n_components_ == whole.n_components_ == 2
    assert abs(begun_on_sample.evidence_ - whole.evidence_) < 0.5
    largest = np.abs(whole.components_).max()
    assert np.abs(begun_on_sample.components_ - whole.components_).max() < 0.02 * largest
    assert (np.diff(begun_on_sample.objective_trace_) >= 0).all()


def test_components_that_the_sample_cannot_tell_are_found(small_samples):
    rng = np.random.default_rng(1)
    loadings = np.array([[1.0], [0.25]]) * rng.choice([-1.0, 1.0], size=(2, 20))
    X = rng.normal(size=(3000, 2)) @ loadings + rng.normal(size=(3000, 20))
    alone = SePCA(family="gaussian", dispersion="shared", n_jobs=1).fit(X[:150])
    assert alone.n_components_ == 1
    assert SePCA(family="gaussian", dispersion="shared", n_jobs=1).fit(X).n_components_ == 2


def test_a_sample_of_a_distributed_table_is_the_same(small_samples):
    X, families = counts_and_numbers(700)
    here = SePCA(3, family=families, n_jobs=1).fit(X)
    there = SePCA(3, family=families).fit(da.from_array(X, chunks=(350, -1)))
    assert here.n_components_ == there.n_components_
    assert here.evidence_ == pytest.approx(there.evidence_, abs=1e-5)


def test_steps_of_dispersions_that_shrink_are_added_up():
    limit, start = np.array([0.5, 2.0]), np.array([1.0, 1.0])
    before, here, new = (limit * (start / limit) ** (0.8**step) for step in range(3))
    assert ahead(before, here, new) == pytest.approx(limit)
    # Growing steps lead nowhere; zeros, the border of shapes, stay.
    assert ahead(new, here, before) == pytest.approx(before)
    assert ahead(np.array([0.0, 1.0]), np.array([0.0, 1.0]), np.array([0.0, 1.0])).tolist() == [0.0, 1.0]

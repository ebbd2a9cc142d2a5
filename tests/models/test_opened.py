"""Blocks opened for computation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from anypca.engine import check_data
from anypca.engine import data as data_module
from anypca.families import Gaussian, Poisson
from anypca.models._opened import open_block

RNG = np.random.default_rng(0)
#: Whole numbers, among which none can be missing.
X = RNG.poisson(2.0, size=(6, 4))
WEIGHTS = RNG.uniform(0.5, 2.0, size=6)
HIDDEN = np.zeros(X.shape, dtype=bool)
HIDDEN[[0, 3, 5], [1, 2, 2]] = True


def open_rows(stored: Any, **options: Any):
    offset = options.pop("offset", None)
    return open_block(check_data(stored, offset=offset, sample_weight=WEIGHTS).blocks[0], **options)


@pytest.mark.parametrize("n_offsets", [1, 4], ids=["offset by row", "offset by entry"])
@pytest.mark.parametrize("stored", ["dense", "missing", "sparse"])
def test_products_leave_out_what_is_missing(stored: str, n_offsets: int) -> None:
    table = np.where(HIDDEN, np.nan, X) if stored == "missing" else X
    offset = RNG.normal(size=(6, n_offsets))
    rows = open_rows(sparse.csr_array(X) if stored == "sparse" else table, offset=offset, family=Poisson())
    known = np.nan_to_num(table)
    assert_allclose(rows.product @ np.eye(4), known)
    assert_allclose(rows.offset_values, (known * offset).sum(axis=1), rtol=1e-12)
    assert_allclose(rows.offset_totals, WEIGHTS @ (known * offset), rtol=1e-12)
    if stored == "missing":
        assert rows.observed is not None
        assert_array_equal(rows.observed, ~HIDDEN)


def test_entries_are_there_when_they_are_asked_for() -> None:
    plain, dense = (open_rows(sparse.csr_array(X), family=Poisson(), dense=dense) for dense in (False, True))
    assert plain.table is None
    assert_array_equal(dense.x, X)
    assert_allclose(plain.product @ np.eye(4), dense.product)


@pytest.mark.parametrize("family", [None, Gaussian()], ids=["no family", "gaussian"])
def test_without_a_linear_likelihood_there_are_entries_only(family: Any) -> None:
    rows = open_rows(X, offset=RNG.normal(size=(6, 1)), family=family)
    assert rows.product is None
    assert_array_equal(rows.x, X)
    assert_array_equal(rows.offset_values, np.zeros(6))
    assert_array_equal(rows.offset_totals, np.zeros(4))


def test_some_of_the_rows() -> None:
    rows = open_rows(np.where(HIDDEN, np.nan, X), offset=RNG.normal(size=(6, 4)), family=Poisson())
    some = rows.take(np.array([0, 5]))
    assert_array_equal(some.numbers, [0, 5])
    assert_allclose(some.offset_values, rows.offset_values[[0, 5]])
    assert_array_equal(some.product, rows.product[[0, 5]])
    assert_array_equal(some.weights, WEIGHTS[[0, 5]])


def test_small_arrays_keep_a_copy_in_single_precision_and_files_do_not(tmp_path, monkeypatch):
    counts = np.arange(12.0).reshape(4, 3)
    np.save(tmp_path / "counts.npy", counts)
    mapped = np.load(tmp_path / "counts.npy", mmap_mode="r")
    how = {"family": Poisson(), "precision": "float32"}

    def opened(table, **changes):
        block = replace(check_data(table).blocks[0], may_miss=False)
        return [open_block(block, **(how | changes)) for _ in range(2)]

    first, second = opened(counts)
    assert first.product is second.product
    assert first.product.dtype == np.float32
    np.testing.assert_array_equal(first.product, counts)
    for table in (mapped, np.asarray(mapped), mapped[1:], counts.astype(np.float32)):
        assert opened(table)[0].single is None
    monkeypatch.setattr(data_module, "_KEPT_ENTRIES", 11)
    assert opened(counts)[0].single is None


def test_a_kept_copy_is_used_by_rows_opened_in_double_precision():
    block = replace(check_data(np.arange(12.0).reshape(4, 3)).blocks[0], may_miss=False)
    kept = open_block(block, family=Poisson(), precision="float32").product
    rows = open_block(block, family=Poisson(), dense=True)
    assert rows.x.dtype == np.float64
    assert rows.astype(np.dtype(np.float32)).x is kept
    assert rows.take(np.array([0])).astype(np.dtype(np.float32)).x.shape == (1, 3)

"""Offsets: worked examples, invariances, what they do in a fit, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from anypca import PLNPCA, offsets

RNG = np.random.default_rng(0)
RATES = np.exp(RNG.normal(4.0, 1.0, size=40))
EFFORT = np.exp(RNG.normal(0.0, 0.7, size=30))
COUNTS = RNG.poisson(EFFORT[:, None] * RATES) + 1
METHODS = [offsets.total_counts, offsets.tss, offsets.rle, offsets.tmm]


def method_id(method: Any) -> str:
    return method.__name__


def as_dask(values: np.ndarray) -> Any:
    return pytest.importorskip("dask.array").from_array(values, chunks=(7, -1))


def test_total_counts() -> None:
    np.testing.assert_allclose(np.exp(offsets.total_counts(COUNTS)), COUNTS.sum(axis=1))


def test_tss_has_mean_effort_one() -> None:
    found = np.exp(offsets.tss(COUNTS))
    np.testing.assert_allclose(found.mean(), 1.0)
    np.testing.assert_allclose(found / found[0], COUNTS.sum(axis=1) / COUNTS[0].sum())


def test_rle_is_the_median_ratio() -> None:
    logs = np.log(COUNTS)
    wanted = np.median(logs - logs.mean(axis=0), axis=1)
    np.testing.assert_allclose(offsets.rle(COUNTS), wanted)
    with_zero = COUNTS.copy()
    with_zero[3, 5] = 0
    np.testing.assert_allclose(
        offsets.rle(with_zero), np.median(np.delete(logs - logs.mean(axis=0), 5, axis=1), axis=1)
    )
    np.testing.assert_allclose(offsets.rle(COUNTS - 1, pseudocount=1), wanted)


def test_rle_skips_zeros() -> None:
    found = np.exp(offsets.rle([[2, 0, 8], [0, 3, 2], [8, 12, 0]], zeros="skip"))
    mean = np.exp(np.array([np.log(16) / 3, np.log(36) / 3, np.log(16) / 3]))
    ratios = [np.array([2, 8]) / mean[[0, 2]], np.array([3, 2]) / mean[1:], np.array([8, 12]) / mean[:2]]
    np.testing.assert_allclose(found, [np.exp(np.median(np.log(r))) for r in ratios])


def test_tmm_ignores_few_columns_that_differ() -> None:
    changed = COUNTS.copy()
    changed[0, np.argsort(RATES)[-3:]] *= 20
    moved = offsets.total_counts(changed)[0] - offsets.total_counts(COUNTS)[0]
    assert moved > 1.0
    trimmed = offsets.tmm(changed, reference=1) - offsets.tmm(COUNTS, reference=1)
    assert abs(trimmed[0] - trimmed[1:].mean()) < 0.2


def test_tmm_factors_have_geometric_mean_one() -> None:
    factors = offsets.tmm(COUNTS) - offsets.total_counts(COUNTS)
    np.testing.assert_allclose(factors.mean(), 0.0, atol=1e-12)
    assert np.abs(factors).max() < 0.3


@pytest.mark.parametrize("method", METHODS, ids=method_id)
def test_offsets_tell_the_effort(method: Any) -> None:
    found = method(COUNTS)
    error = found - found.mean() - (np.log(EFFORT) - np.log(EFFORT).mean())
    assert np.abs(error).max() < 0.15


@pytest.mark.parametrize("method", METHODS, ids=method_id)
@pytest.mark.parametrize("convert", [sparse.csr_array, np.float32, as_dask], ids=["csr", "float32", "dask"])
def test_forms_of_the_table(method: Any, convert: Any) -> None:
    found = method(convert(COUNTS))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, method(COUNTS), rtol=1e-6)


@pytest.mark.parametrize("method", METHODS, ids=method_id)
def test_missing_entries_are_left_out(method: Any) -> None:
    holes = COUNTS.astype(float)
    holes[2, 4] = np.nan
    found = method(holes)
    assert np.isfinite(found).all()
    assert np.abs(found - method(COUNTS)).max() < 0.2


def test_fit_takes_them() -> None:
    offset = offsets.rle(COUNTS)
    model = PLNPCA(1, n_jobs=1).fit(COUNTS, offset=offset)
    assert model.explained_variance_[0] < PLNPCA(1, n_jobs=1).fit(COUNTS).explained_variance_[0] / 10


EMPTY = np.vstack([COUNTS[:3], np.zeros((1, 40))])
BAD = {
    "negative": (lambda: offsets.tss(-COUNTS), r"counts >= 0; X\[0, 0\] is"),
    "empty row": (lambda: offsets.total_counts(EMPTY), "no counts in row 3"),
    "empty row of rle": (lambda: offsets.rle(EMPTY, pseudocount=1), "no counts in row 3"),
    "zeros everywhere": (lambda: offsets.rle(np.eye(3)), "every column of X has a zero.*zeros='skip'"),
    "infinite": (lambda: offsets.tmm([[1.0, np.inf]]), "must be finite"),
    "unknown zeros": (lambda: offsets.rle(COUNTS, zeros="ignore"), "'drop' or 'skip'; got 'ignore'"),
    "negative pseudocount": (
        lambda: offsets.rle(COUNTS, pseudocount=-1),
        r"pseudocount must be a number in \[0",
    ),
    "all trimmed": (lambda: offsets.tmm(COUNTS, trim_ratios=0.5), "trim_ratios must be a number"),
    "reference": (lambda: offsets.tmm(COUNTS, reference=30), "number of a row, 0 to 29; got 30"),
    "nothing shared": (
        lambda: offsets.tmm(np.eye(3) * 5, reference=0),
        "row 1 of X shares no positive column",
    ),
}


@pytest.mark.parametrize(("call", "message"), BAD.values(), ids=BAD.keys())
def test_bad_input(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()

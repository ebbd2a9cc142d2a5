"""Offsets: worked examples, invariances, their effect on a fit, bad input."""

from __future__ import annotations

from typing import Any

import dask.array
import numpy as np
import pytest
from scipy import sparse

from anypca import PLNPCA, offsets
from tests.draws import generator

_RNG = generator("offsets")
RATES = np.exp(_RNG.normal(4.0, 1.0, size=40))
EFFORT = np.exp(_RNG.normal(0.0, 0.7, size=30))
COUNTS = _RNG.poisson(EFFORT[:, None] * RATES) + 1
METHODS = [offsets.total_counts, offsets.tss, offsets.rle, offsets.tmm]
each_method = pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)


def test_total_counts_and_tss() -> None:
    total = COUNTS.sum(axis=1)
    np.testing.assert_allclose(np.exp(offsets.total_counts(COUNTS)), total)
    np.testing.assert_allclose(np.exp(offsets.tss(COUNTS)), total / total.mean())


def test_rle_is_the_median_ratio() -> None:
    logs = np.log(COUNTS)
    ratios = logs - logs.mean(axis=0)
    np.testing.assert_allclose(offsets.rle(COUNTS), np.median(ratios, axis=1))
    np.testing.assert_allclose(offsets.rle(COUNTS - 1, pseudocount=1), np.median(ratios, axis=1))
    with_zero = COUNTS.copy()
    with_zero[3, 5] = 0
    expected = np.median(np.delete(ratios, 5, axis=1), axis=1)
    np.testing.assert_allclose(offsets.rle(with_zero), expected)
    found = np.exp(offsets.rle([[2, 0, 8], [0, 3, 2], [8, 12, 0]], zeros="skip"))
    mean = np.exp(np.array([np.log(16) / 3, np.log(36) / 3, np.log(16) / 3]))
    ratios = [np.array([2, 8]) / mean[[0, 2]], np.array([3, 2]) / mean[1:], np.array([8, 12]) / mean[:2]]
    np.testing.assert_allclose(found, [np.exp(np.median(np.log(r))) for r in ratios])


def test_tmm_is_a_trimmed_weighted_mean_of_log_ratios() -> None:
    factors = offsets.tmm(COUNTS) - offsets.total_counts(COUNTS)
    np.testing.assert_allclose(factors.mean(), 0.0, atol=1e-12)
    # A few columns that change by any factor of at least twenty are trimmed: no other row moves by their size.
    one, other = COUNTS.copy(), COUNTS.copy()
    one[0, np.argsort(RATES)[-3:]] *= 20
    other[0, np.argsort(RATES)[-3:]] *= 4000
    moved = offsets.total_counts(other)[0] - offsets.total_counts(one)[0]
    assert moved > 3.0
    found = offsets.tmm(other, reference=1) - offsets.tmm(one, reference=1)
    assert abs(found[0] - found[1:].mean()) < 0.1 * moved


@each_method
def test_offsets_find_the_effort_up_to_a_constant(method: Any) -> None:
    error = method(COUNTS) - np.log(EFFORT)
    assert np.ptp(error) < 0.6
    # Rows of the same composition differ by the logarithm of their ratio, up to the weights of tmm.
    scaled = np.vstack([COUNTS, 3 * COUNTS[:1]])
    found = method(scaled)
    np.testing.assert_allclose(found[-1] - found[0], np.log(3.0), atol=0.02)
    order = generator("order").permutation(len(COUNTS))
    np.testing.assert_allclose(method(COUNTS[order]), method(COUNTS)[order], rtol=1e-10, atol=1e-12)
    order = generator("order").permutation(COUNTS.shape[1])
    np.testing.assert_allclose(method(COUNTS[:, order]), method(COUNTS), rtol=1e-10, atol=1e-12)


@each_method
@pytest.mark.parametrize(
    "convert",
    [sparse.csr_array, np.float32, lambda table: dask.array.from_array(table, chunks=(7, -1))],
    ids=["csr", "float32", "dask"],
)
def test_containers(method: Any, convert: Any) -> None:
    found = method(convert(COUNTS))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, method(COUNTS), rtol=1e-6, atol=1e-6)


@each_method
def test_missing_entries_are_left_out(method: Any) -> None:
    holes = COUNTS.astype(float)
    holes[2, 4] = np.nan
    found = method(holes)
    assert np.isfinite(found).all()
    assert np.abs(found - method(COUNTS)).max() < 1.0


def test_an_offset_takes_the_effort_out_of_a_fit() -> None:
    plain, with_offset = (
        PLNPCA(1, n_jobs=1).fit(COUNTS, offset=offset) for offset in (None, offsets.rle(COUNTS))
    )
    assert with_offset.explained_variance_[0] < plain.explained_variance_[0] / 5


EMPTY = np.vstack([COUNTS[:3], np.zeros((1, 40))])
BAD = {
    "negative": (lambda: offsets.tss(-COUNTS), r"X\[0, 0\] is"),
    "empty row": (lambda: offsets.total_counts(EMPTY), "row 3"),
    "zeros everywhere": (lambda: offsets.rle(np.eye(3)), "zeros='skip'"),
    "infinite": (lambda: offsets.tmm([[1.0, np.inf]]), "finite"),
    "all trimmed": (lambda: offsets.tmm(COUNTS, trim_ratios=0.5), "trim_ratios"),
    "nothing shared": (lambda: offsets.tmm(np.eye(3) * 5, reference=0), "row 1 of X"),
}


@pytest.mark.parametrize(("call", "message"), BAD.values(), ids=BAD.keys())
def test_bad_input(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()

"""How far predictions of missing entries are believed: the slope of hidden entries on what fits say of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anypca import EPCA, GPCA, PLNPCA, PPCA, PiecewisePCA
from anypca.datasets import make_low_rank
from anypca.models._calibration import (
    N_FOLDS,
    HiddenEntries,
    _bulk,
    entry_numbers,
    hidden_in,
    without_calibration,
)
from anypca.models._calibration import slopes as slopes_within
from anypca.selection import select_rank

N, P = 50, 8
MODELS: dict[str, Any] = {
    "EPCA": lambda: EPCA(2, family="poisson", n_jobs=1),
    "GPCA": lambda: GPCA(2, family="poisson", n_jobs=1),
    "PLNPCA": lambda: PLNPCA(2, n_jobs=1),
    "PPCA": lambda: PPCA(2, n_jobs=1),
    "PiecewisePCA": lambda: PiecewisePCA(1, n_jobs=1, max_iter=10),
}


def counts(seed: int = 0, signal: float = 1.0) -> np.ndarray:
    X = make_low_rank(N, P, 2, family="poisson", signal=signal, random_state=seed).X
    return np.where(np.random.default_rng(seed).random(X.shape) < 0.1, np.nan, X)


@pytest.fixture
def table() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return counts(), rng.integers(1, 4, N).astype(float)


def test_numbers_do_not_hang_on_order_or_units(table: tuple[np.ndarray, np.ndarray]) -> None:
    (X, weight), rng = table, np.random.default_rng(2)
    numbers, rows, columns = entry_numbers(X, weight), rng.permutation(N), rng.permutation(P)
    assert len(np.unique(numbers)) > 0.9 * X.size
    np.testing.assert_array_equal(entry_numbers(X[rows], weight[rows]), numbers[rows])
    np.testing.assert_array_equal(entry_numbers(X[:, columns], weight), numbers[:, columns])
    np.testing.assert_array_equal(entry_numbers(X * rng.uniform(0.1, 9.0, P) + 3.0, weight), numbers)


def test_a_row_of_weight_two_is_two_rows(table: tuple[np.ndarray, np.ndarray]) -> None:
    X, weight = table
    again = np.repeat(np.arange(N), weight.astype(int))
    np.testing.assert_array_equal(
        entry_numbers(X[again], np.ones(len(again))), entry_numbers(X, weight)[again]
    )


def test_bits_are_told_apart() -> None:
    """Columns of zeros and ones have two ranks each: rows and columns differ by where they are."""
    bits = (np.random.default_rng(3).random((80, 12)) < 0.5).astype(float)
    numbers = entry_numbers(bits, np.ones(80))
    assert len(np.unique(numbers)) > 0.9 * len(np.unique(bits, axis=0)) * 12
    share = np.mean([bits[hidden_in(numbers, fold, bits >= 0)].mean() for fold in range(N_FOLDS)])
    assert share == pytest.approx(bits.mean(), abs=0.05)


def test_folds_hide_every_entry_once_and_leave_some_of_each_row_and_column() -> None:
    X = counts()
    X[0, 1:] = np.nan
    X[1:, 0] = np.nan
    X[7, 1:] = np.nan
    X[7, 3] = 2.0
    seen, numbers = ~np.isnan(X), entry_numbers(X, np.ones(N))
    hidden = np.sum([hidden_in(numbers, fold, seen) for fold in range(N_FOLDS)], axis=0)
    assert hidden[0, 0] == 0
    assert hidden.max() == 1
    assert hidden[seen].mean() > 0.9
    for fold in range(N_FOLDS):
        left = seen & ~hidden_in(numbers, fold, seen)
        assert left.any(axis=0).all()
        assert left.any(axis=1).all()


def test_slopes_are_those_of_the_entries() -> None:
    rng = np.random.default_rng(4)
    truth, weight = rng.normal(size=(4000, 3)), np.ones(4000)

    def slopes(hidden: HiddenEntries, weight: np.ndarray) -> np.ndarray:
        return slopes_within(hidden, weight, np.full(3, -np.inf), np.full(3, np.inf))[0]

    exact = slopes(HiddenEntries(truth, truth), weight)
    np.testing.assert_allclose(exact, 1.0)
    found, predicted = truth + rng.normal(size=truth.shape), 2.0 * truth
    bold = slopes(HiddenEntries(found, predicted), weight)
    np.testing.assert_allclose(bold, 0.5, atol=0.05)
    products, squares = (found * predicted).sum(axis=0), (predicted**2).sum(axis=0)
    assert np.all(bold < (products + products.mean()) / (squares + squares.mean()) - 1e-3)  # cautious
    noise = slopes(HiddenEntries(truth, rng.normal(size=truth.shape)), weight)
    assert noise.max() < 0.03
    np.testing.assert_array_equal(slopes(HiddenEntries(truth, -truth), weight), 0.0)
    timid = slopes(HiddenEntries(truth, 0.5 * truth), weight)
    np.testing.assert_array_equal(timid, 1.0)


def test_columns_have_their_own_slopes() -> None:
    rng = np.random.default_rng(5)
    truth, weight = rng.normal(size=(2000, 2)), np.ones(2000)
    everything = np.full(2, -np.inf), np.full(2, np.inf)
    found, _ = slopes_within(HiddenEntries(truth * [1.0, 0.0], truth), weight, *everything)
    assert found[0] > 0.7
    assert found[1] < 0.3


def test_what_is_beyond_the_bulk_of_columns_has_a_slope_of_its_own() -> None:
    rng = np.random.default_rng(7)
    truth, weight, bulk = rng.normal(size=(4000, 3)), np.ones(4000), (np.full(3, -1.0), np.full(3, 1.0))
    inside = np.clip(truth, *bulk)
    slope, far = slopes_within(HiddenEntries(inside + 0.3 * (truth - inside), truth), weight, *bulk)
    np.testing.assert_allclose(slope, 1.0, atol=0.02)
    assert far == pytest.approx(0.3, abs=0.02)
    # Two large entries of which one is right tell nothing.
    found, predicted = np.zeros((2, 1)), np.full((2, 1), 5.0)
    found[0] = 5.0
    assert slopes_within(HiddenEntries(found, predicted), np.ones(2), np.zeros(1), np.ones(1))[1] == 0.0


def test_a_bulk_is_what_nine_tenths_of_the_entries_hold() -> None:
    X, weight = np.arange(1.0, 201.0)[:, None], np.ones(200)
    X[199] = 1e6
    assert [end[0] for end in _bulk(X, weight, np.array([50.0]))] == [10.0, 190.0]
    assert [end[0] for end in _bulk(X, weight, np.array([1e4]))] == [10.0, 1e4]
    half = np.where(np.arange(200) < 100, 2.0, 1.0)
    twice = np.vstack([X, X[:100]])
    mean = np.array([50.0])
    np.testing.assert_array_equal(_bulk(X, half, mean), _bulk(twice, np.ones(300), mean))


@pytest.mark.parametrize(("n", "low", "high"), [(50, 6.0, 44.0), (12, 6.0, 6.0), (5, 3.0, 3.0)])
def test_some_entries_of_short_columns_are_beyond_their_bulk(n: int, low: float, high: float) -> None:
    X, mean = np.arange(1.0, n + 1.0)[:, None], np.array([min(6.0, (n + 1) / 2)])
    assert [end[0] for end in _bulk(X, np.ones(n), mean)] == [low, high]
    halves = np.vstack([X, X])
    np.testing.assert_array_equal(_bulk(halves, np.full(2 * n, 0.5), mean), _bulk(X, np.ones(n), mean))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore::anypca.exceptions.ConvergenceWarning")
def test_imputed_entries_are_drawn_to_the_means(name: str) -> None:
    X = counts(signal=0.5)
    model = MODELS[name]().fit(X)
    with without_calibration():
        bold = MODELS[name]().fit(X)
    assert bold.calibration_slope_ is None
    assert model.calibration_slope_.shape == (P,)
    assert np.all((model.calibration_slope_ >= 0) & (model.calibration_slope_ <= 1))
    mean = np.nanmean(X, axis=0)
    far, low, high = model._far
    inside = np.clip(bold.impute(X), low, high)
    believed = mean + model.calibration_slope_ * (inside - mean) + far * (bold.impute(X) - inside)
    expected = np.where(np.isnan(X), believed, X)
    np.testing.assert_allclose(model.impute(X), expected, rtol=1e-7)
    np.testing.assert_allclose(model.transform(X), bold.transform(X))


def test_slopes_do_not_hang_on_order_and_weights() -> None:
    X, rng = counts(6), np.random.default_rng(6)
    rows, columns, twice = rng.permutation(N), rng.permutation(P), np.arange(N) % 3 == 0

    def found(x: np.ndarray, **given: Any) -> np.ndarray:
        slope = EPCA(2, family="poisson", n_jobs=1).fit(x, **given).calibration_slope_
        assert slope is not None
        return slope

    plain = found(X)
    np.testing.assert_allclose(found(X[rows]), plain, atol=0.02)
    np.testing.assert_allclose(found(X[:, columns]), plain[columns], atol=0.02)
    weighted = found(X, sample_weight=np.where(twice, 2.0, 1.0))
    np.testing.assert_allclose(found(np.vstack([X, X[twice]])), weighted, atol=0.02)


def test_tables_that_are_not_calibrated() -> None:
    X = counts()
    complete = np.nan_to_num(X)
    assert PPCA(2).fit(complete).calibration_slope_ is None
    assert EPCA(2, family="poisson").fit(X, offset=np.zeros(N)).calibration_slope_ is None
    assert EPCA(2, family="poisson").fit(X, covariates=np.arange(N)[:, None] / N).calibration_slope_ is None
    assert EPCA(0, family="poisson").fit(X).calibration_slope_ is None


def test_a_choice_of_ranks_does_not_calibrate_its_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    real = PPCA._report_columns

    def note(self: PPCA, session: Any) -> None:
        real(self, session)
        seen.append(self.calibration_slope_)

    monkeypatch.setattr(PPCA, "_report_columns", note)
    select_rank(PPCA(), np.nan_to_num(counts()), ranks=[1, 2], criterion="held_out")
    assert len(seen) > 2
    assert all(slope is None for slope in seen)


def test_entry_weights_of_zero_are_missing() -> None:
    X = counts()
    weight = np.where(np.isnan(X), 0.0, 1.0)
    by_weight = EPCA(2, family="poisson", n_jobs=1).fit(np.nan_to_num(X), entry_weight=weight)
    by_nan = EPCA(2, family="poisson", n_jobs=1).fit(X)
    np.testing.assert_allclose(by_weight.calibration_slope_, by_nan.calibration_slope_, atol=0.02)

"""The ridge of EPCA chosen by hidden entries."""

from __future__ import annotations

import numpy as np
import pytest

from anypca import EPCA
from anypca.models.epca._fit import _damped
from anypca.models.epca._ridge import Trial, _keys, _search


def _counts(seed: int, n: int = 60, p: int = 15) -> np.ndarray:
    rng = np.random.default_rng(seed)
    eta = 0.7 * rng.normal(size=(n, 2)) @ rng.normal(size=(2, p))
    return rng.poisson(0.5 * np.exp(eta)).astype(float)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_hidden_entries_are_predicted_no_worse_than_by_means(seed: int) -> None:
    """Six components for two on few small counts: a ridge of 1 predicts some hidden entries absurdly."""
    X = _counts(seed)
    hidden = np.random.default_rng([seed, 1]).random(X.shape) < 0.1
    left = np.where(hidden, np.nan, X)
    means = np.broadcast_to(np.nanmean(left, axis=0), X.shape)
    model = EPCA(6, family="poisson", ridge="auto", n_jobs=1).fit(left)
    error, usual = (np.square(X - guess)[hidden].mean() for guess in (model.impute(left), means))
    assert error <= 1.1 * usual
    assert model.ridge_ in model.ridge_trials_
    assert model.ridge_ >= 1.0


def test_the_ridge_does_not_depend_on_the_order_of_rows() -> None:
    X = _counts(3)
    order = np.random.default_rng(0).permutation(len(X))
    first, second = (EPCA(2, family="poisson", ridge="auto", n_jobs=1).fit(x).ridge_ for x in (X, X[order]))
    assert first == second


def test_keys_are_those_of_the_entries() -> None:
    X = _counts(4)
    keys = _keys(X)
    assert len(np.unique(keys)) == len(np.unique(X, axis=0))
    np.testing.assert_array_equal(_keys(X[::-1]), keys[::-1])


def test_the_search_goes_up_where_the_first_is_absurd_and_down_while_it_gains() -> None:
    means = Trial(-1.0, np.ones(1))

    def judge(ridge: float) -> Trial:
        return Trial(-1.5 if ridge < 30 else -0.9, np.ones(1))

    assert sorted(_search(judge, means, 4.0)) == [2.0, 4.0, 32.0]
    assert sorted(_search(lambda ridge: Trial(-ridge, np.ones(1)), Trial(-9.0, np.ones(1)), 8.0)) == [
        1,
        2,
        4,
        8,
    ]


def test_a_trial_with_absurd_predictions_is_worse_than_means() -> None:
    means = Trial(-1.0, np.array([1.0, 1.0]))
    assert Trial(-0.5, np.array([0.5, 2.0])).is_worse_than_means(means)
    assert Trial(-1.1, np.array([0.5, 0.5])).is_worse_than_means(means)
    assert not Trial(-0.9, np.array([1.05, 0.5])).is_worse_than_means(means)


def test_dispersions_that_turn_back_go_half_way() -> None:
    last, previous, found = np.array([1.0, 1.0, 1.0]), np.array([4.0, 2.0, 2.0]), np.array([1.0, 3.0, 0.0])
    np.testing.assert_allclose(_damped(last, previous, found), [2.0, 3.0, 0.0])

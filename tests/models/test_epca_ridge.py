"""The ridge of EPCA from the size of noise, or chosen by hidden entries."""

from __future__ import annotations

import numpy as np
import pytest

from anypca import EPCA
from anypca.models.epca._fit import _damped
from anypca.models.epca._ridge import Trial, _search, lower_ridges


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
    model = EPCA(6, family="poisson", ridge="cv", n_jobs=1).fit(left)
    error, usual = (np.square(X - guess)[hidden].mean() for guess in (model.impute(left), means))
    assert error <= 1.1 * usual
    assert model.ridge_ in model.ridge_trials_
    assert model.ridge_ >= 1.0


def test_the_ridge_does_not_depend_on_the_order_of_rows_and_columns() -> None:
    X, rng = _counts(3), np.random.default_rng(0)
    rows, columns = rng.permutation(X.shape[0]), rng.permutation(X.shape[1])
    tables = X, X[rows], X[:, columns]
    first, *others = (EPCA(2, family="poisson", ridge="cv", n_jobs=1).fit(x).ridge_ for x in tables)
    assert others == [first, first]


def test_auto_is_half_of_what_noise_has() -> None:
    """Of the numbers of entries alone: a row of weight 2 is two rows, and a share of missing entries has less noise."""
    X = _counts(5)
    ridge = {"family": "poisson", "ridge": "auto", "n_jobs": 1}
    plain = EPCA(2, **ridge).fit(X)
    assert plain.ridge_ == pytest.approx(0.5 * (np.sqrt(60) + np.sqrt(15)))
    assert plain.ridge_trials_ is None
    assert EPCA(2, **ridge).fit(X, sample_weight=np.full(60, 2.0)).ridge_ == pytest.approx(
        0.5 * (np.sqrt(120) + np.sqrt(15))
    )
    # Each column has 55 of 60 entries.
    missing = np.add.outer(np.arange(60), np.arange(15)) % 12 == 0
    assert EPCA(2, **ridge).fit(np.where(missing, np.nan, X)).ridge_ < plain.ridge_
    # Five columns with 30 of 60 entries: 50 on average, as many as in 12.5 whole columns.
    half = (np.arange(60) % 2 == 1)[:, None] & (np.arange(15) < 5)
    expected = 0.5 * (np.sqrt(50.0) + np.sqrt(12.5))
    assert EPCA(2, **ridge).fit(np.where(half, np.nan, X)).ridge_ == pytest.approx(expected)
    assert EPCA(0, **ridge).fit(X).ridge_ == 1.0
    assert EPCA(2, **ridge, score_penalty="l1").fit(X).ridge_ == 1.0
    assert EPCA(0.3, **ridge).fit(X).ridge_ == 1.0


def _rare(seed: int) -> np.ndarray:
    """Counts that vary far more between rows than components say, most of them zero."""
    rng = np.random.default_rng(seed)
    return rng.negative_binomial(0.1, 0.1, (60, 20)).astype(float)


# Where a component is about to vanish no step may gain what rounding shows, which a fit tells on some processors.
@pytest.mark.filterwarnings("ignore:EPCA. stalled:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed", [0, 1])
def test_all_components_that_were_asked_for_stay(seed: int) -> None:
    X = _rare(seed)
    firm = EPCA(6, family="negative_binomial", ridge=8.0, n_jobs=1).fit(X)
    assert firm.explained_variance_.min() * len(X) < 1.0
    model = EPCA(6, family="negative_binomial", n_jobs=1).fit(X)
    assert 1.0 <= model.ridge_ < 8.0
    assert model.explained_variance_.min() * len(X) > 1.0


def test_ridges_that_follow_one_another_end_at_1() -> None:
    assert list(lower_ridges(8.0)) == [8.0, 6.0, 4.0, 2.0, 1.0]
    assert list(lower_ridges(1.0)) == [1.0]


def test_a_column_that_varies_much_with_a_component_is_part_of_it() -> None:
    """Its dispersion without components is so large that a firm ridge alone would leave it out."""
    rng = np.random.default_rng(0)
    scores, loadings = rng.normal(size=300), np.array([2.0, 0.5, -0.5, 0.5, -0.5, 0.5])
    X = np.exp(np.outer(scores, loadings)) * rng.gamma(2.5, 0.4, (300, 6))
    families = ["gamma"] * 3 + ["log_normal"] * 3
    model = EPCA(1, family=families, n_jobs=1).fit(X)
    assert model.ridge_ > 5.0
    assert model.dispersion_[0] < 1.0
    assert EPCA(1, family=families, ridge=model.ridge_, n_jobs=1).fit(X).dispersion_[0] > 5.0


@pytest.mark.parametrize(("share", "ridge"), [(0.5, 10.0), (0.3, 9.165), (0.03, 8.0)])
def test_rare_answers_have_less_noise(share: float, ridge: float) -> None:
    """Half of sqrt(400) + sqrt(400), times the root of share (1 - share), not below 8."""
    # Every column has the same share of ones, in rows of its own.
    shift = np.add.outer(np.arange(400), 7 * np.arange(400)) % 400
    X = (shift < 400 * share).astype(float)
    model = EPCA(1, family="bernoulli", ridge="auto", tol=1e-2, max_iter=20, n_jobs=1)
    assert model.fit(X).ridge_ == pytest.approx(ridge, rel=1e-3)


def test_answers_are_not_taken_for_rare() -> None:
    """A half that they tell nothing of is no reason for a ridge of 8."""
    shift = np.add.outer(np.arange(100), 7 * np.arange(12)) % 100
    model = EPCA(1, family="bernoulli", tol=1e-2, max_iter=20, n_jobs=1).fit((shift < 50).astype(float))
    assert model.ridge_ == pytest.approx(0.25 * (10.0 + np.sqrt(12.0)), rel=1e-3)


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

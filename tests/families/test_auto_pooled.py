"""Columns that look alike share a family unless their values clearly speak against it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine
from tests.draws import generator

from anypca import EPCA
from anypca.families import BetaBinomial

N = 300


def families_of(X):
    """The family of each column, from a fit without components."""
    return [record.family for record in EPCA(0).fit(X).family_report_]


def test_scores_out_of_one_bound_share_it():
    """Rare columns do not reach the bound of the others; their own values could be plain counts."""
    rng = generator("scores")
    chance = np.concatenate([rng.uniform(0.2, 0.8, 10), np.full(4, 0.02)])
    shapes = 1.5 * np.stack([chance, 1.0 - chance])
    X = rng.binomial(16, rng.beta(*shapes, size=(N, 14))).astype(float)
    X[0, :10] = 16
    model = EPCA(0).fit(X)
    assert set(families_of(X)) == {"beta_binomial"}
    assert model.family_ == BetaBinomial(n_trials=16)


@pytest.mark.parametrize("hidden", [0.0, 0.2])
def test_pixels_have_one_family(hidden):
    rng = generator("pixels")
    X = load_digits().data[rng.choice(1797, 500, replace=False)]
    X = X[:, np.ptp(X, axis=0) > 0]
    X[rng.random(X.shape) < hidden] = np.nan
    X = X[:, np.nanmax(X, axis=0) > 0]
    assert len(set(families_of(X))) == 1


def test_amounts_share_a_family():
    rng = generator("amounts")
    gamma = rng.gamma(1.5, 20.0, (100, 12)) + 0.01
    log_normal = np.exp(3.0 + rng.normal(size=(100, 12)))
    assert set(families_of(gamma)) == {"gamma"}
    assert set(families_of(log_normal)) == {"log_normal"}
    zeros = np.where(rng.random((100, 12)) < 0.3, 0.0, log_normal)
    assert set(families_of(np.hstack([log_normal, zeros]))) == {"log_normal", "zero_inflated_log_normal"}


def test_a_clear_exception_keeps_its_family():
    rng = generator("exception")
    X = rng.normal(size=(N, 9))
    X[:, 4] = rng.standard_t(1.0, N)
    found = families_of(X)
    assert found.pop(4) == "student_t"
    assert set(found) == {"gaussian"}


def test_measurements_below_one_are_no_shares():
    rng = generator("below one")
    X = np.clip(np.round(rng.normal(0.36, 0.12, (178, 2)), 2), 0.13, 0.66)
    X = np.column_stack([X, 10.0 + rng.normal(size=178)])
    assert "logit_normal" not in families_of(X)
    assert "logit_normal" not in families_of(load_wine().data)


@pytest.mark.parametrize("hidden", [0.0, 0.2])
@pytest.mark.parametrize("decimals", [3, 12])
def test_parts_of_a_whole_are_shares(hidden, decimals):
    """Columns that sum to one in every row, though each is far from one."""
    rng = generator("parts", decimals)
    parts = np.exp(0.3 * rng.normal(size=(N, 5)))
    X = np.round(parts / parts.sum(axis=1, keepdims=True), decimals)
    assert X.max() < 0.75
    X[rng.random(X.shape) < hidden] = np.nan
    beside = rng.normal(size=(N, 1))
    assert families_of(np.hstack([X, beside])) == [*["logit_normal"] * 5, "gaussian"]
    assert "logit_normal" not in families_of(np.hstack([X[:, :4], beside]))

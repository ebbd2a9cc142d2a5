"""Widths of loadings where a column says much of the scores itself."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose
from scipy.special import expit

from anypca import SePCA
from anypca.linalg import unpack_symmetric
from anypca.models.sepca import _fit, _widths


def answers(n=60, p=8, seed=0):
    rng = np.random.default_rng(seed)
    eta = np.outer(rng.normal(size=n), np.linspace(1.0, 4.0, p))
    return (rng.random((n, p)) < expit(eta)).astype(float)


def states_of(X, monkeypatch):
    """The model, and the state whose loadings it reports."""
    seen = []
    monkeypatch.setattr(
        _fit, "loading_deviations", lambda state: _widths.loading_deviations(seen.append(state) or state)
    )
    return SePCA(2, family="bernoulli", n_jobs=1).fit(X), seen[-1]


def test_scores_are_those_of_the_expected_likelihood(monkeypatch):
    """Their squares are those of averages over draws of the rows' posterior."""
    X = answers(n=300)
    model, state = states_of(X, monkeypatch)
    assert model.n_components_ == 1
    (scores,), loadings = list(state.local), state.loadings
    found = state.candidate.session.sum(
        lambda block, local: _widths.score_products(state.problem, block, loadings, local), state.local
    )
    rng, mean = np.random.default_rng(1), loadings.mean
    deviation = scores.precision[:, 0] ** -0.5
    z = scores.mean[:, 0] + deviation * rng.normal(size=(4000, 1))
    w = (
        mean[-1]
        + rng.normal(size=(4000, 2))
        @ np.linalg.cholesky(np.linalg.inv(unpack_symmetric(loadings.precision[-1:], 2)[0])).T
    )
    slope = X[:, -1] - expit(w[:, :1] * z + w[:, 1:])
    average = np.stack([(slope * z).mean(axis=0), slope.mean(axis=0)], axis=1)
    assert_allclose(unpack_symmetric(found.products[-1:], 2)[0], average.T @ average, rtol=0.1, atol=0.2)


def test_columns_that_tell_much_of_the_scores_are_known_less_well(monkeypatch):
    """The expected information would have them narrower, the last of them by far."""
    model, state = states_of(answers(seed=2), monkeypatch)
    monkeypatch.setattr(_widths, "_MOST_PRODUCTS", 0.0)
    ratio = model.components_std_[0] / _widths.loading_deviations(state)[:, 0]
    assert ratio[-1] > 1.2
    assert np.median(ratio) > 0.9

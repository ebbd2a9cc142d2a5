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
    """Their squares are those of averages over the posteriors of both sides, by quadrature."""
    X = answers(n=300)
    model, state = states_of(X, monkeypatch)
    assert model.n_components_ == 1
    (scores,), loadings = list(state.local), state.loadings
    found = state.candidate.session.sum(
        lambda block, local: _widths.score_products(state.problem, block, loadings, local), state.local
    )
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights /= weights.sum()
    z = scores.mean[:, 0] + scores.precision[:, 0] ** -0.5 * nodes[:, None]
    design, covariance = np.stack([z, np.ones_like(z)], axis=-1), unpack_symmetric(loadings.precision[-1:], 2)
    spread = np.sqrt(np.einsum("aib,bc,aic->ai", design, np.linalg.inv(covariance[0]), design))
    eta = design @ loadings.mean[-1] + spread * nodes[:, None, None]
    slope = X[:, -1] - np.einsum("e,eai->ai", weights, expit(eta))
    average = np.einsum("a,ai,aib->ib", weights, slope, design)
    # Close expectations are known to some ten thousandths, and without the last term the first entry is 13 % larger.
    assert_allclose(unpack_symmetric(found.products[-1:], 2)[0], average.T @ average, rtol=0.01)


def test_columns_that_tell_much_of_the_scores_are_known_less_well(monkeypatch):
    """The expected information would have them narrower, the last of them by far."""
    model, state = states_of(answers(seed=2), monkeypatch)
    monkeypatch.setattr(_widths, "_MOST_PRODUCTS", 0.0)
    ratio = model.components_std_[0] / _widths.loading_deviations(state)[:, 0]
    assert ratio[-1] > 1.2
    assert np.median(ratio) > 0.9

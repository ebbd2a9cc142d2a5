"""Counts with extra zeros: shares of columns, and fits that find them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from anypca import EPCA, SePCA
from anypca.families import NegativeBinomial, Poisson, ZeroInflatedNegativeBinomial, ZeroInflatedPoisson


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(7)
    eta = 1.0 + 0.5 * rng.normal(size=20) + 0.6 * rng.normal(size=(200, 2)) @ rng.normal(size=(2, 20))
    counts = rng.poisson(np.exp(eta)).astype(float)
    share = np.where(np.arange(20) < 10, 0.15, 0.45)
    return np.where(rng.random(counts.shape) < share, 0.0, counts), share


@pytest.mark.parametrize(
    ("family", "core"),
    [
        (ZeroInflatedPoisson(share=1e-9), Poisson()),
        (ZeroInflatedNegativeBinomial(share=1e-9), NegativeBinomial()),
    ],
    ids=["poisson", "negative_binomial"],
)
def test_without_extra_zeros_it_is_the_core(family, core):
    rng = np.random.default_rng(0)
    x, eta = rng.poisson(2.0, (30, 4)).astype(float), rng.normal(size=(30, 4))
    assert_allclose(family.log_likelihood(x, eta, 0.7), core.log_likelihood(x, eta, 0.7), rtol=1e-6)
    assert_allclose(family.pearson(x, eta, 0.7), core.pearson(x, eta, 0.7), rtol=1e-6)


def test_steps_majorise():
    """The quadratic with the curvature of the steps lies below the log-likelihood of a zero."""
    family, eta = ZeroInflatedPoisson(share=0.4), np.linspace(-3, 3, 61)
    zero = np.zeros_like(eta)
    value, gradient, curvature = family.evaluate(zero, eta)
    observed = family.observed_curvature(zero, eta, family.evaluate(zero, eta))
    assert (observed < 0).any()
    assert (curvature >= observed).all()
    step = 0.1 * gradient / np.maximum(curvature, 1e-9)
    assert (family.evaluate(zero, eta + step).value >= value - 1e-12).all()


def test_expectation_of_zeros_is_what_the_bound_and_its_looseness_are():
    family, mean = ZeroInflatedPoisson(share=0.4), np.linspace(-2, 2, 9)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    zero, variance = np.zeros_like(mean), np.full_like(mean, 0.1)
    values = [family.evaluate(zero, mean + node * np.sqrt(0.1), order=0).value for node in nodes]
    integral, bound = weights @ values / weights.sum(), family.expect(zero, mean, variance).value
    assert (integral - bound).max() > 0.025
    assert_allclose(bound + family.looseness(zero, mean, variance), integral, atol=2e-3)
    assert not family.looseness(zero + 1.0, mean, variance).any()
    assert_allclose(family.looseness(zero, mean, zero), 0.0, atol=1e-15)


def test_evidence_counts_the_looseness():
    """Without components the evidence is a product of integrals over the intercepts."""
    rng = np.random.default_rng(3)
    X = np.where(rng.random((40, 15)) < 0.4, 0.0, rng.poisson(1.0, (40, 15)))
    model = SePCA(0, family=ZeroInflatedPoisson(share=0.4)).fit(X)
    intercepts = np.linspace(-2, 2, 2001)
    logs = [
        model.family_.log_likelihood(X[:, j, None], np.tile(intercepts, (40, 1))).sum(axis=0)
        for j in range(15)
    ]
    # The density of the flat prior is that of a standard normal number at zero.
    width = (intercepts[1] - intercepts[0]) / np.sqrt(2.0 * np.pi)
    exact = sum(float(logsumexp(each)) + np.log(width) for each in logs)
    assert abs(model.evidence_ - exact) < 0.3 * abs(model.objective_trace_[-1] - exact)


def test_shares_and_dimension_are_found(table):
    X, share = table
    model = SePCA(family="zero_inflated_poisson", max_components=6).fit(X)
    assert model.n_components_ == 2
    assert_allclose(model.family_.share, share, atol=0.13)
    assert np.mean(np.abs(np.subtract(model.family_.share, share))) < 0.05
    assert model.evidence_ > SePCA(family="negative_binomial", max_components=6).fit(X).evidence_


def test_over_dispersed_counts_keep_their_share(table):
    X, share = table
    model = EPCA(2, family="zero_inflated_negative_binomial").fit(X)
    assert np.mean(np.abs(np.subtract(model.family_.share, share))) < 0.07
    assert (model.dispersion_ < 0.1).all()


def test_shares_that_are_given_stay(table):
    X, _ = table
    model = EPCA(1, family=ZeroInflatedPoisson(share=0.2)).fit(X)
    assert model.family_ == ZeroInflatedPoisson(share=0.2)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, (0.2, 1.5)])
def test_shares_are_between_zero_and_one(share):
    with pytest.raises(ValueError, match="between 0 and 1"):
        ZeroInflatedPoisson(share=share)

"""Log-likelihoods at plugged-in scores."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from anypca import EPCA, PLNPCA, PPCA, PiecewisePCA, SePCA

RNG = np.random.default_rng(0)
RATES = np.exp(RNG.normal(size=(50, 2)) @ RNG.normal(size=(2, 8)) * 0.5 + 1.0)
COUNTS = RNG.poisson(RATES).astype(float)
COUNTS[3, 2] = COUNTS[10, 7] = np.nan
REALS = RNG.normal(size=(50, 2)) @ RNG.normal(size=(2, 8)) + RNG.normal(size=(50, 8))
REALS[3, 2] = np.nan
ROWS, COLUMNS, VALUES = np.array([3, 10]), np.array([2, 7]), np.array([4.0, 2.0])

POISSON = {
    "epca": EPCA(2, family="poisson", n_jobs=1),
    "sepca": SePCA(3, family="poisson", n_jobs=1),
    "plnpca": PLNPCA(2, n_jobs=1),
    "piecewise": PiecewisePCA(2, n_pieces=1, family="poisson", n_init=1, n_jobs=1),
}
GAUSSIAN = {
    "epca": EPCA(2, family="gaussian", n_jobs=1),
    "ppca": PPCA(2, n_jobs=1),
    "piecewise": PiecewisePCA(2, n_pieces=1, n_init=1, n_jobs=1),
}


def noise(model):
    """Noise variance, whatever the model calls it."""
    return model.noise_variance_ if hasattr(model, "noise_variance_") else model.dispersion_[0]


@pytest.mark.parametrize("model", POISSON.values(), ids=POISSON)
def test_counts_against_scipy(model):
    model.fit(COUNTS)
    rates = model.inverse_transform(model.transform(COUNTS))
    terms = stats.poisson.logpmf(COUNTS, rates)
    np.testing.assert_allclose(model.plug_in_log_likelihood(COUNTS), np.nansum(terms, axis=1), rtol=1e-9)
    found = model.entry_log_likelihood(COUNTS, ROWS, COLUMNS, VALUES)
    np.testing.assert_allclose(found, stats.poisson.logpmf(VALUES, rates[ROWS, COLUMNS]), rtol=1e-9)


@pytest.mark.parametrize("model", GAUSSIAN.values(), ids=GAUSSIAN)
def test_reals_against_scipy(model):
    model.fit(REALS)
    means = model.inverse_transform(model.transform(REALS))
    terms = stats.norm.logpdf(REALS, means, np.sqrt(noise(model)))
    np.testing.assert_allclose(model.plug_in_log_likelihood(REALS), np.nansum(terms, axis=1), rtol=1e-9)
    found = model.entry_log_likelihood(REALS, ROWS, COLUMNS, VALUES)
    expected = stats.norm.logpdf(VALUES, means[ROWS, COLUMNS], np.sqrt(noise(model)))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_offsets_and_covariates_enter():
    offset, covariates = RNG.normal(size=50) * 0.3, RNG.normal(size=(50, 1))
    model = EPCA(1, family="poisson", n_jobs=1).fit(COUNTS, offset=offset, covariates=covariates)
    both = {"offset": offset, "covariates": covariates}
    rates = model.inverse_transform(model.transform(COUNTS, **both), **both)
    found = model.plug_in_log_likelihood(COUNTS, **both)
    expected = np.nansum(stats.poisson.logpmf(COUNTS, rates), axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_without_components_the_marginal_is_the_plug_in():
    model = EPCA(0, family="poisson", n_jobs=1).fit(COUNTS)
    means = np.nanmean(COUNTS, axis=0)
    expected = np.nansum(stats.poisson.logpmf(COUNTS, means), axis=1)
    np.testing.assert_allclose(model.score_samples(COUNTS), expected, rtol=1e-6)
    np.testing.assert_allclose(model.plug_in_log_likelihood(COUNTS), expected, rtol=1e-6)
    assert model.transform(COUNTS).shape == (50, 0)

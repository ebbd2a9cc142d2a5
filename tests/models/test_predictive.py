"""Probabilities of unseen entries, averaged over a posterior of their predictors."""

from __future__ import annotations

import numpy as np
import pytest

from anypca import SePCA
from anypca.families import Bernoulli, Gamma, Gaussian, NegativeBinomial, Ordinal, StudentT
from anypca.models._row_model import predictive_log_mass

CASES = {
    "gaussian": (Gaussian(), 1e-4, 3.0),
    "bernoulli": (Bernoulli(), 1.0, 1.0),
    "negative binomial": (NegativeBinomial(), 0.5, 40.0),
    "gamma": (Gamma(), 0.01, 9.0),
    "ordinal": (Ordinal(cuts=(-1.0, 0.5, 2.0)), 1.0, 3.0),
    "student t": (StudentT(), 0.01, 5.0),
}


@pytest.mark.parametrize(("family", "dispersion", "value"), CASES.values(), ids=CASES)
@pytest.mark.parametrize(("mean", "variance"), [(0.0, 0.3), (1.0, 2.0)])
def test_predictive_probability_is_the_integral(family, dispersion, value, mean, variance):
    """Also where a value tells a hundred times more of its predictor than is known beforehand."""
    phi, step = np.array([dispersion]), np.array([0.01])
    moments = np.array([mean]), np.array([variance])
    found = predictive_log_mass(family, np.array([value]), moments, phi, step)[0]
    eta = np.linspace(-9.0, 9.0, 100_001) * np.sqrt(variance) + mean
    mass = np.exp(family.log_mass(np.full((len(eta), 1), value), eta[:, None], phi, step)[:, 0])
    density = np.exp(-0.5 * (eta - mean) ** 2 / variance) / np.sqrt(2.0 * np.pi * variance)
    exact = np.log(np.trapezoid(mass * density, eta))
    # The tails of Student's t are no polynomial times a normal density.
    assert found == pytest.approx(exact, abs=0.01 if isinstance(family, StudentT) else 1e-4)


def test_without_spread_it_is_the_probability_at_the_predictor():
    family, x, eta, phi = Gaussian(), np.array([1.0]), np.array([0.4]), np.array([2.0])
    found = predictive_log_mass(family, x, (eta, np.zeros(1)), phi, np.ones(1))
    assert found == pytest.approx(family.log_mass(x, eta, phi, np.ones(1)))


def test_sepca_averages_over_its_posterior():
    """Rows that show nothing are predicted with the spread of the column, not with that of the noise alone."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(200, 1))
    X = z @ np.full((1, 6), 3.0) + 0.3 * rng.normal(size=(200, 6))
    model = SePCA(2, family="gaussian").fit(X)
    empty = np.full((50, 6), np.nan)
    values = 3.0 * rng.normal(size=50)
    found = model.entry_log_likelihood(empty, np.arange(50), np.zeros(50, int), values)
    width = np.sqrt(9.09)
    expected = (
        -0.5 * (values / width) ** 2 - np.log(width * np.sqrt(2 * np.pi)) + np.log(model.resolution_[0])
    )
    assert np.abs(found - expected).mean() < 0.1

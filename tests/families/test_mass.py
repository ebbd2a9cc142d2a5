"""Log-probabilities of values as they are recorded."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from anypca.families import Gamma, Gaussian, LogitNormal, LogNormal, Mixed, Poisson, StudentT, families

EXAMPLES = [example for name in families for example in families[name].examples()]
each_family = pytest.mark.parametrize("family", EXAMPLES, ids=str)


def draws(family, n=80):
    rng = np.random.default_rng(0)
    eta = 0.5 * rng.normal(size=(n, 2))
    phi = 0.7 if family.fixed_dispersion is None else family.fixed_dispersion
    return family.sample(eta, phi, rng), eta, phi


@each_family
@pytest.mark.parametrize("step", [1e-4, 1.0, 50.0])
def test_masses_are_log_probabilities(family, step):
    x, eta, phi = draws(family)
    mass = family.log_mass(x, eta, phi, step)
    if family.is_discrete:
        assert_array_equal(mass, np.minimum(family.log_likelihood(x, eta, phi), 0.0))
    assert (mass <= 1e-12).all()
    assert mass.dtype == eta.dtype
    assert family.log_mass(x.astype(np.float32), eta.astype(np.float32), phi, step).dtype == np.float32


@each_family
def test_fine_masses_are_densities_times_steps(family):
    x, eta, phi = draws(family)
    expected = family.log_likelihood(x, eta, phi) + family.log_step(x, 1e-6)
    assert_allclose(family.log_mass(x, eta, phi, 1e-6), expected, atol=1e-9)


@pytest.mark.parametrize("spread", [0.02, 0.1, 0.3, 0.49, 0.51, 2.0])
@pytest.mark.parametrize("eta", [0.0, 0.25, 0.5])
def test_masses_of_a_lattice_sum_to_one(spread, eta):
    x = np.arange(-40.0, 41.0)
    mass = Gaussian().log_mass(x, np.full_like(x, eta), spread**2, 1.0)
    # The density is within 0.003 nats of the interval from half a step on.
    assert np.exp(mass).sum() == pytest.approx(1.0, abs=1e-9 if spread < 0.5 else 0.02)


@pytest.mark.parametrize("spread", [0.01, 0.3, 1.0])
def test_masses_of_transformed_lattices_sum_to_one(spread):
    amounts = np.arange(1.0, 3000.0)
    mass = LogNormal().log_mass(amounts, np.full_like(amounts, 1.2), spread**2, 1.0)
    below = LogNormal().log_mass(np.array([0.25]), np.array([1.2]), spread**2, 0.5)
    assert np.exp(mass).sum() + np.exp(below).sum() == pytest.approx(1.0, abs=0.01)
    shares = np.arange(0.0, 101.0)
    mass = LogitNormal(upper=100, step=1).log_mass(shares, np.full_like(shares, 0.4), spread**2, 1.0)
    assert np.exp(mass).sum() == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("factor", [1e-3, 2.54])
def test_units_drop_out(factor):
    x, eta, phi = draws(Gaussian())
    scaled = Gaussian().log_mass(factor * x, factor * eta, factor**2 * phi, factor * 0.3)
    assert_allclose(scaled, Gaussian().log_mass(x, eta, phi, 0.3), atol=1e-9)
    amount, eta, phi = draws(LogNormal())
    scaled = LogNormal().log_mass(factor * amount, eta + np.log(factor), phi, factor * 0.3)
    assert_allclose(scaled, LogNormal().log_mass(amount, eta, phi, 0.3), atol=1e-9)


@pytest.mark.parametrize(
    "family", [Gaussian(), LogNormal(), LogitNormal(), StudentT(), Gamma()], ids=lambda family: family.name
)
def test_no_column_is_known_more_finely_than_it_is_recorded(family):
    """At the finest dispersion the mass of a step at the mean is at most 1, whatever the predictor."""
    mean, step = np.array([0.6, 0.3]), np.array([1e-3, 0.02])
    finest = family.finest_dispersion(mean, step)
    peak = family.saturated_log_likelihood(mean, finest) + family.log_step(mean, step)
    assert_allclose(peak, 0.0, atol=1e-3)


def test_columns_have_their_own_steps():
    family = Mixed((Gaussian(), Poisson()), (0, 1, 0))
    x, eta, steps = np.ones((4, 3)), np.zeros((4, 3)), np.array([0.1, 0.1, 2.0])
    mass = family.log_mass(x, eta, 1.0, steps)
    assert_allclose(mass[:, 1], Poisson().log_likelihood(x[:, 1], eta[:, 1]))
    assert_allclose(mass[:, 2], Gaussian().log_likelihood(x[:, 2], eta[:, 2]) + np.log(2.0))
    assert_array_equal(family.finest_dispersion(np.ones(3), steps)[1:2], [0.0])
    assert_allclose(family.log_step(x, steps)[0], [np.log(0.1), 0.0, np.log(2.0)])

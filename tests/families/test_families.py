"""What is particular to single families: reference densities, limits, constructors."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import expit, gammaln

from anypca.families import Bernoulli, Binomial, Exponential, Gamma, Gaussian, NegativeBinomial, Poisson

ETA = np.linspace(-3, 3, 13)
MU = np.exp(ETA)

REFERENCES = {
    "gaussian": (
        Gaussian(),
        2.0,
        np.array([-1.0, 0.0, 2.5]),
        lambda x: stats.norm.logpdf(x, ETA, np.sqrt(2.0)),
    ),
    "poisson": (Poisson(), 1.0, np.array([0.0, 1.0, 40.0]), lambda x: stats.poisson.logpmf(x, MU)),
    "bernoulli": (Bernoulli(), 1.0, np.array([0.0, 1.0]), lambda x: stats.bernoulli.logpmf(x, expit(ETA))),
    "binomial": (
        Binomial(n_trials=9),
        1.0,
        np.array([0.0, 4.0, 9.0]),
        lambda x: stats.binom.logpmf(x, 9, expit(ETA)),
    ),
    "negative_binomial": (
        NegativeBinomial(),
        0.7,
        np.array([0.0, 1.0, 300.0]),
        lambda x: stats.nbinom.logpmf(x, 1 / 0.7, 1 / (1 + 0.7 * MU)),
    ),
    "exponential": (Exponential(), 1.0, np.array([0.01, 2.0]), lambda x: stats.expon.logpdf(x, scale=MU)),
    "gamma": (
        Gamma(),
        0.4,
        np.array([0.01, 2.0, 30.0]),
        lambda x: stats.gamma.logpdf(x, 2.5, scale=0.4 * MU),
    ),
}


@pytest.mark.parametrize(("family", "phi", "values", "reference"), REFERENCES.values(), ids=REFERENCES)
def test_log_likelihood_equals_scipy(family, phi, values, reference):
    for value in values:
        x = np.full_like(ETA, value)
        assert_allclose(family.log_likelihood(x, ETA, phi), reference(x), rtol=1e-11, atol=1e-11)


# ------------------------------------------------------------------------------------ negative binomial


@pytest.mark.parametrize("alpha", [0.0, 1e-300, 1e-100, 1e-40, 1e-20])
@pytest.mark.parametrize("shape", ["scalar", "per column"])
def test_negative_binomial_tends_to_poisson(alpha, shape):
    eta = np.linspace(-25, 12, 38)
    x = np.random.default_rng(0).poisson(np.exp(eta)).astype(float)
    phi = alpha if shape == "scalar" else np.full(eta.size, alpha)
    family = NegativeBinomial()
    for part, limit in zip(family.evaluate(x, eta, phi), Poisson().evaluate(x, eta), strict=True):
        assert_allclose(part, limit, rtol=1e-13, atol=1e-300)
    for name in ("log_likelihood", "deviance", "pearson"):
        part, limit = getattr(family, name)(x, eta, phi), getattr(Poisson(), name)(x, eta)
        assert_allclose(part, limit, rtol=1e-10, atol=1e-9, err_msg=name)
    assert_allclose(family.variance(np.exp(eta), phi), np.exp(eta), rtol=1e-12)


def test_negative_binomial_float32_poisson_limit():
    eta = np.linspace(-10, 8, 19, dtype=np.float32)
    x = np.random.default_rng(0).poisson(np.exp(eta)).astype(np.float32)
    for part, limit in zip(NegativeBinomial().evaluate(x, eta, 0.0), Poisson().evaluate(x, eta), strict=True):
        assert part.dtype == np.float32
        assert_allclose(part, limit, rtol=1e-5)


def test_negative_binomial_samples_poisson_at_zero():
    draws = NegativeBinomial().sample(np.full(20_000, 1.0), 0.0, np.random.default_rng(0))
    assert_allclose(draws.var() / draws.mean(), 1.0, atol=0.05)


@pytest.mark.parametrize("size", [0.01, 1.0, 50.0, 99.9, 100.0, 1e4, 1e8, 1e14])
def test_negative_binomial_normaliser_equals_its_product(size):
    """G(x + r) / (G(r) r^x) is the product of 1 + k/r over k < x."""
    x = np.array([0.0, 1.0, 2.0, 17.0, 400.0])
    product = np.array([np.log1p(np.arange(count) / size).sum() for count in x])
    base = NegativeBinomial().log_base(x, 1.0 / size) + gammaln(x + 1)
    assert_allclose(base, product, rtol=1e-12, atol=2e-12)


@pytest.mark.parametrize("eta", [700.0, 709.0, 720.0, 5000.0])
@pytest.mark.parametrize("alpha", [0.1, 50.0])
def test_negative_binomial_is_linear_far_out(eta, alpha):
    x = np.array([0.0, 3.0])
    value, gradient, curvature = NegativeBinomial().evaluate(x, np.full(2, eta), alpha)
    assert_allclose(value, x * eta - (x + 1 / alpha) * (eta + np.log(alpha)), rtol=1e-13)
    assert_allclose(gradient, -1 / alpha, rtol=1e-13)
    assert_allclose(curvature, 1 / alpha, rtol=1e-13)


def test_both_forms_agree_when_one_entry_overflows():
    rng = np.random.default_rng(0)
    for family, x in ((NegativeBinomial(), rng.poisson(3.0, 50)), (Binomial(7), rng.integers(0, 8, 50))):
        eta, x = np.linspace(-30, 30, 50), x.astype(float)
        near = family.evaluate(x, eta, 0.6)
        far = family.evaluate(np.append(x, 1.0), np.append(eta, 1000.0), 0.6)
        for one, other in zip(near, far, strict=True):
            assert_allclose(other[:-1], one, rtol=1e-12, atol=1e-12)
            assert np.isfinite(other[-1])


# --------------------------------------------------------------------------------------------- logistic


@pytest.mark.parametrize("family", [Bernoulli(), Binomial(5)], ids=str)
def test_logistic_keeps_relative_accuracy_in_both_tails(family):
    eta = np.array([-300.0, -40.0, 40.0, 300.0])
    _, gradient, curvature = family.evaluate(np.zeros(4), eta)
    n = family.trials
    assert_allclose(gradient[:2], -n * np.exp(eta[:2]), rtol=1e-14)
    assert_allclose(curvature, n * np.exp(-np.abs(eta)), rtol=1e-14)


def test_bernoulli_is_binomial_with_one_trial():
    x, eta = np.array([0.0, 1.0, 1.0]), np.array([-2.0, 0.5, 30.0])
    for one, other in zip(Bernoulli().evaluate(x, eta), Binomial(1).evaluate(x, eta), strict=True):
        assert_array_equal(one, other)


# ----------------------------------------------------------------------- constructors and dispersions


@pytest.mark.parametrize(
    ("family", "fixed", "text"),
    [
        (Gaussian(), None, "Gaussian(variance=None)"),
        (Gaussian(2), 2.0, "Gaussian(variance=2.0)"),
        (Gamma(shape=4), 0.25, "Gamma(shape=4.0)"),
        (Gamma(), None, "Gamma(shape=None)"),
        (NegativeBinomial(size=np.float64(4)), 0.25, "NegativeBinomial(size=4.0)"),
        (NegativeBinomial(), None, "NegativeBinomial(size=None)"),
        (Binomial(np.int64(16)), 1.0, "Binomial(n_trials=16)"),
        (Poisson(), 1.0, "Poisson()"),
    ],
    ids=str,
)
def test_fixed_dispersion_and_repr(family, fixed, text):
    assert family.fixed_dispersion == fixed
    assert repr(family) == text
    if fixed is not None:
        assert_array_equal(family.initial_dispersion(np.ones(2), np.full(2, 9.0)), fixed)


@pytest.mark.parametrize("value", [0, -1.0, np.inf, np.nan, "2"], ids=str)
@pytest.mark.parametrize(
    ("factory", "parameter"), [(Gaussian, "variance"), (Gamma, "shape"), (NegativeBinomial, "size")]
)
def test_wrong_dispersions(factory, parameter, value):
    with pytest.raises(ValueError, match=f"{parameter} > 0 and finite; got {parameter}="):
        factory(**{parameter: value})


@pytest.mark.parametrize("value", [0, -3, 2.5, np.nan, np.inf, "7", True], ids=str)
def test_wrong_trials(value):
    with pytest.raises(ValueError, match="positive integer n_trials"):
        Binomial(n_trials=value)


def test_missing_trials():
    with pytest.raises(ValueError, match=r"Write Binomial\(n_trials=16\) or 'binomial\(16\)'"):
        Binomial()


@pytest.mark.parametrize(
    ("family", "inside", "outside"),
    [
        (Gaussian(), [-1e300, 0.0], []),
        (Poisson(), [0.0, 2.5], [-1e-9, -2.0]),
        (NegativeBinomial(), [0.0, 2.5], [-1e-9, -2.0]),
        (Bernoulli(), [0.0, 1.0], [-1.0, 0.5, 1.5, 2.0]),
        (Binomial(16), [0.0, 7.5, 16.0], [-1.0, 16.5]),
        (Exponential(), [1e-300, 3.0], [0.0, -1.0]),
        (Gamma(), [1e-300, 3.0], [0.0, -1.0]),
    ],
    ids=str,
)
def test_support(family, inside, outside):
    assert family.in_support(np.array(inside)).all()
    assert not family.in_support(np.array(outside)).any()


def test_dispersion_starts():
    mean, variance = np.array([10.0, 10.0, 0.0]), np.array([60.0, 4.0, 0.0])
    assert_allclose(NegativeBinomial().initial_dispersion(mean, variance), [0.5, 1e-4, 1e-4])
    assert_allclose(Gaussian().initial_dispersion(mean, variance), [60.0, 4.0, 1.0])
    assert_allclose(Gamma().initial_dispersion(mean[:2], variance[:2]), [0.6, 0.04])


def test_gaussian_start_ignores_spread_at_the_level_of_rounding():
    mean = np.array([1e6])
    assert Gaussian().initial_dispersion(mean, np.array([1e-22]))[0] == 1.0
    assert Gaussian().initial_dispersion(mean, np.array([1e-4]))[0] == 1e-4


def test_large_counts_keep_an_accurate_deviance():
    x = np.array([1e4, 1e6])
    for family, phi in ((Poisson(), 1.0), (NegativeBinomial(), 0.2)):
        near = family.deviance(x, np.log(x) + 1e-3, phi)
        curvature = family.evaluate(x, np.log(x), phi).curvature
        assert_allclose(near, curvature * 1e-6, rtol=2e-3)

"""Single families: reference densities, limits, parameters, probabilities of recorded values, mixtures."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import expit, gammaln, logit
from tests.draws import generator

from anypca.columns import Nominal
from anypca.families import (
    Bernoulli,
    BetaBinomial,
    Binomial,
    Exponential,
    Gamma,
    Gaussian,
    LogitNormal,
    LogNormal,
    Mixed,
    NegativeBinomial,
    Ordinal,
    Poisson,
    RoundedGaussian,
    StudentT,
    TruncatedPoisson,
    Tweedie,
    ZeroInflatedNegativeBinomial,
    ZeroInflatedPoisson,
    combine,
)
from anypca.families._cuts import _cut_terms, best_cuts, margin_cuts
from anypca.special import truncated_normal

ETA = np.linspace(-3, 3, 13)
MU, CUTS = np.exp(ETA), np.array([-1.0, 0.5, 2.0])


def ordinal_reference(x):
    edges = np.r_[-np.inf, CUTS, np.inf]
    return np.log(stats.logistic.cdf(edges[x + 1] - ETA) - stats.logistic.cdf(edges[x] - ETA))


def rounded_reference(x):
    return np.log(stats.norm.cdf(x + 0.5, ETA, 2**0.5) - stats.norm.cdf(x - 0.5, ETA, 2**0.5))


def inflated_reference(x):
    return np.log(0.3 * (x == 0) + 0.7 * stats.poisson.pmf(x, MU))


def beta_shapes():
    return 2.0 * expit(ETA), 2.0 * expit(-ETA)


REFERENCES = [
    (Gaussian(), 2.0, [-1.0, 0.0, 2.5], lambda x: stats.norm.logpdf(x, ETA, np.sqrt(2.0))),
    (StudentT(df=5.0), 2.0, [-1.0, 0.0, 9.0], lambda x: stats.t.logpdf(x, 5.0, ETA, np.sqrt(2.0))),
    (LogNormal(), 0.6, [0.1, 1.0, 9.0], lambda x: stats.lognorm.logpdf(x, np.sqrt(0.6), scale=MU)),
    (LogitNormal(), 0.6, [0.1, 0.9], lambda x: stats.norm.logpdf(logit(x), ETA, 0.6**0.5) - np.log(x - x * x)),
    (RoundedGaussian(), 2.0, [-1, 0, 2], rounded_reference),
    (Poisson(), 1.0, [0.0, 1.0, 40.0], lambda x: stats.poisson.logpmf(x, MU)),
    (TruncatedPoisson(), 1.0, [1.0, 4.0], lambda x: stats.poisson.logpmf(x, MU) - np.log(-np.expm1(-MU))),
    (ZeroInflatedPoisson(share=0.3), 1.0, [0.0, 2.0], inflated_reference),
    (NegativeBinomial(), 0.7, [0.0, 1.0, 300.0], lambda x: stats.nbinom.logpmf(x, 1 / 0.7, 1 / (1 + 0.7 * MU))),
    (Bernoulli(), 1.0, [0.0, 1.0], lambda x: stats.bernoulli.logpmf(x, expit(ETA))),
    (Binomial(n_trials=9), 1.0, [0.0, 4.0, 9.0], lambda x: stats.binom.logpmf(x, 9, expit(ETA))),
    (BetaBinomial(n_trials=9), 0.5, [0.0, 4.0, 9.0], lambda x: stats.betabinom.logpmf(x, 9, *beta_shapes())),
    (Ordinal(cuts=CUTS), 1.0, [0, 1, 3], ordinal_reference),
    (Exponential(), 1.0, [0.01, 2.0], lambda x: stats.expon.logpdf(x, scale=MU)),
    (Gamma(), 0.4, [0.01, 2.0, 30.0], lambda x: stats.gamma.logpdf(x, 2.5, scale=0.4 * MU)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("family", "phi", "values", "reference"), REFERENCES, ids=lambda one: getattr(one, "name", "")
)
def test_log_likelihood_equals_scipy(family, phi, values, reference):
    for value in values:
        found = family.log_likelihood(np.full_like(ETA, value), ETA, phi)
        assert_allclose(found, reference(value), rtol=1e-10, atol=1e-11)


# Limits


@pytest.mark.parametrize("alpha", [0.0, 1e-300, 1e-40, 1e-20])
def test_negative_binomial_tends_to_poisson(alpha):
    family, poisson = NegativeBinomial(), Poisson()
    eta = np.linspace(-25, 12, 38)
    x = generator("poisson").poisson(np.exp(eta)).astype(float)
    for phi in (alpha, np.full(eta.size, alpha)):
        for part, limit in zip(family.evaluate(x, eta, phi), poisson.evaluate(x, eta), strict=True):
            assert_allclose(part, limit, rtol=1e-13, atol=1e-300)
        for name in ("log_likelihood", "deviance", "pearson"):
            part, limit = getattr(family, name)(x, eta, phi), getattr(poisson, name)(x, eta)
            assert_allclose(part, limit, rtol=1e-10, atol=1e-9, err_msg=name)
    assert_allclose(family.variance(np.exp(eta), alpha), np.exp(eta), rtol=1e-12)
    draws = (one.sample(np.full(9, 1.0), alpha, np.random.default_rng(0)) for one in (family, poisson))
    assert all(np.isfinite(part).all() for part in draws)
    short = family.evaluate(x.astype(np.float32), eta.astype(np.float32), alpha)
    assert_allclose(short.gradient, poisson.evaluate(x, eta).gradient, rtol=1e-5, atol=1e-5 * np.abs(x).max())


@pytest.mark.parametrize("size", [0.01, 1.0, 50.0, 99.9, 100.0, 1e4, 1e8, 1e14])
def test_negative_binomial_normaliser_equals_its_product(size):
    """G(x + r) / (G(r) r^x) is the product of 1 + k/r over k < x."""
    x = np.array([0.0, 1.0, 2.0, 17.0, 400.0])
    product = np.array([np.log1p(np.arange(count) / size).sum() for count in x])
    base = NegativeBinomial().log_base_measure(x, 1.0 / size) + gammaln(x + 1)
    assert_allclose(base, product, rtol=1e-12, atol=2e-12)


@pytest.mark.parametrize("eta", [700.0, 709.0, 720.0, 5000.0])
@pytest.mark.parametrize("alpha", [0.1, 50.0])
def test_negative_binomial_is_linear_far_out(eta, alpha):
    x = np.array([0.0, 3.0])
    value, gradient, curvature = NegativeBinomial().evaluate(x, np.full(2, eta), alpha)
    assert_allclose(value, x * eta - (x + 1 / alpha) * (eta + np.log(alpha)), rtol=1e-13)
    assert_allclose(gradient, -1 / alpha, rtol=1e-13)
    assert_allclose(curvature, 1 / alpha, rtol=1e-13)


@pytest.mark.parametrize("family", [Bernoulli(), Binomial(5)], ids=str)
def test_logistic_keeps_relative_accuracy_in_both_tails(family):
    eta = np.array([-300.0, -40.0, 40.0, 300.0])
    _, gradient, curvature = family.evaluate(np.zeros(4), eta)
    n = family.trials
    assert_allclose(gradient[:2], -n * np.exp(eta[:2]), rtol=1e-14)
    assert_allclose(curvature, n * np.exp(-np.abs(eta)), rtol=1e-14)


@pytest.mark.parametrize(
    ("family", "core"),
    [
        (ZeroInflatedPoisson(share=1e-9), Poisson()),
        (ZeroInflatedNegativeBinomial(share=1e-9), NegativeBinomial()),
        (Binomial(1), Bernoulli()),
        (StudentT(df=1e9), Gaussian()),
    ],
    ids=lambda family: family.name,
)
def test_special_cases_coincide(family, core):
    rng = generator("core", core.name)
    eta = rng.normal(size=(30, 4))
    x = core.sample(eta, 0.7, rng)
    for method in ("log_likelihood", "pearson"):
        one, other = (getattr(each, method)(x, eta, 0.7) for each in (family, core))
        assert_allclose(one, other, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("spread", [1e-3, 0.02, 0.1, 0.3, 1.0, 3.0, 150.0])
@pytest.mark.parametrize("gap", [0.0, 0.2, 0.5, 0.8, 3.0, 12.0])
def test_rounded_terms_are_moments_of_truncated_normals(spread, gap):
    x, eta = np.array([gap, -gap]), np.zeros(2)
    family = RoundedGaussian()
    found = family.evaluate(x, eta, spread**2)
    expected = truncated_normal((x - 0.5) / spread, (x + 0.5) / spread)
    curvature = family.observed_curvature(x, eta, found, spread**2)
    size = 1.0 + np.abs(x) / spread
    assert_allclose(found.value, expected.log_interval_probability, rtol=1e-9, atol=1e-9)
    assert_allclose(found.gradient, expected.mean / spread, rtol=1e-9, atol=1e-9 * size.max() / spread)
    assert_allclose(curvature, (1.0 - expected.variance) / spread**2, rtol=1e-5, atol=1e-8 / spread**2)


# Expectations


@pytest.mark.parametrize(
    ("family", "x", "variance"),
    [(StudentT(df=4.0), np.linspace(-6.0, 6.0, 13), 0.5), (ZeroInflatedPoisson(share=0.4), np.zeros(9), 0.1)],
    ids=["student_t", "zero_inflated"],
)
def test_a_loose_bound_and_its_gap_are_the_expectation(family, x, variance):
    mean, phi = np.linspace(-2, 2, len(x)) if not x.any() else np.zeros_like(x), 1.5
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    values = [family.evaluate(x, mean + node * np.sqrt(variance), phi, order=0).value for node in nodes]
    integral, variances = weights @ values / weights.sum(), np.full_like(x, variance)
    bound, gap = (
        family.expected_log_likelihood(x, mean, variances, phi).value,
        family.bound_gap(x, mean, variances, phi),
    )
    assert (integral - bound).max() > 0.025
    assert_allclose(bound + gap, integral, atol=5e-3)
    assert_allclose(family.bound_gap(x, mean, np.zeros_like(x), phi), 0.0, atol=1e-15)


@pytest.mark.parametrize(
    "family", [ZeroInflatedPoisson(share=0.4), StudentT(df=3.0)], ids=lambda one: one.name
)
def test_steps_by_the_curvature_of_a_majoriser_never_lose(family):
    eta = np.linspace(-6, 6, 121)
    zero = np.zeros_like(eta)
    value, gradient, curvature = family.evaluate(zero, eta)
    assert (family.observed_curvature(zero, eta, family.evaluate(zero, eta)) < 0).any()
    for share in (0.1, 0.5, 1.0):
        step = share * gradient / np.maximum(curvature, 1e-9)
        assert (family.evaluate(zero, eta + step).value >= value - 1e-12).all()


# Cut points


def test_derivatives_in_the_cut_points():
    rng = generator("cuts")
    cuts, eta = np.array([-1.2, 0.1, 1.5]), np.linspace(-3, 3, 11)
    counts = rng.integers(0, 9, (4, 11)).astype(float)
    value, gradient, hessian = _cut_terms(cuts, counts, eta)
    step = 1e-5
    for a in range(3):
        high, low = (_cut_terms(cuts + sign * step * np.eye(3)[a], counts, eta) for sign in (1, -1))
        scale = counts.sum()
        assert_allclose((high[0] - low[0]) / (2 * step), gradient[a], rtol=1e-6, atol=1e-8 * scale)
        assert_allclose((low[1] - high[1]) / (2 * step), hessian[a], rtol=1e-6, atol=1e-8 * scale)
    x = np.repeat(np.arange(4.0)[:, None], 11, axis=1)
    total = (counts * Ordinal(cuts=cuts).log_likelihood(x, np.broadcast_to(eta, x.shape))).sum()
    assert_allclose(value, total, rtol=1e-12)


def test_best_cuts_are_the_truth_of_exact_shares():
    truth, grid = np.array([-1.0, 0.0, 2.0]), np.linspace(-3, 3, 25)
    edges = np.r_[-np.inf, truth, np.inf][:, None]
    counts = 1e6 * np.diff(expit(edges - grid), axis=0)
    found = best_cuts(np.array(margin_cuts(counts.sum(axis=1))), counts, grid)
    assert_allclose(found, truth, atol=1e-3)
    # The cut points of the margin are too close, since predictors vary.
    assert np.ptp(margin_cuts(counts.sum(axis=1))) < np.ptp(found) - 0.3
    # An unused level between used ones: pseudo-observations keep its cut points apart and finite.
    sparse = np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 3.0]])
    assert np.isfinite(best_cuts(np.array([-1.0, 1.0]), sparse, np.array([0.0, 1.0]))).all()


def test_parameters_follow_their_columns():
    ordinal = Ordinal(cuts=((-1.0, 1.0), (0.0,), (-2.0, 0.0, 2.0)), levels=((1, 2, 3), (5, 7), (0, 1, 2, 3)))
    x, eta = np.array([[1.0, 7.0, 3.0], [3.0, 5.0, 0.0]]), np.array([[0.3, -0.2, 0.1], [1.0, 2.0, -3.0]])
    picked = np.array([2, 0, 2])
    for family in (ordinal, StudentT(df=(3.0, 5.0, 9.0)), ZeroInflatedPoisson(share=(0.1, 0.4, 0.7))):
        whole = family.log_likelihood(x, eta)
        part = family.take(slice(1, 3)).log_likelihood(x[:, 1:], eta[:, 1:])
        assert_allclose(part, whole[:, 1:], rtol=1e-14)
        part = family.take(picked).log_likelihood(x[:, picked], eta[:, picked])
        assert_allclose(part, whole[:, picked], rtol=1e-14)
        mixed = Mixed((family, Gaussian()), (0, 1, 0, 0))
        wide, both = np.insert(eta, 1, 0.5, axis=1), np.insert(x, 1, 0.0, axis=1)
        assert_allclose(mixed.log_likelihood(both, wide)[:, [0, 2, 3]], whole, rtol=1e-14)
        part = mixed.take(slice(1, 3)).log_likelihood(both[:, 1:3], wide[:, 1:3])
        assert_allclose(part, mixed.log_likelihood(both, wide)[:, 1:3], rtol=1e-14)


# Parameters


NO_SIZES = [0, -1.0, np.inf, np.nan, "2"]
BAD = [
    (Gaussian, "variance", NO_SIZES),
    (Gamma, "shape", NO_SIZES),
    (NegativeBinomial, "size", NO_SIZES),
    (RoundedGaussian, "step", [0.0, -1.0, np.inf, np.nan, (1.0, 0.0)]),
    (Binomial, "n_trials", [0, -3, 2.5, np.nan, np.inf, "7", True]),
    (ZeroInflatedPoisson, "share", [0.0, 1.0, -0.1, (0.2, 1.5)]),
    (StudentT, "df", [2.0, np.inf]),
    (Tweedie, "power", [1.0, (1.5, 2.0)]),
    (Ordinal, "cuts", [(1.0, 0.0)]),
    (Ordinal, "levels", [(1, 2)]),
    (Nominal, "levels", [(2.0, 1.0)]),
]


@pytest.mark.parametrize(
    ("kind", "parameter", "value"),
    [(kind, name, value) for kind, name, values in BAD for value in values],
    ids=str,
)
def test_impossible_parameters_are_named(kind, parameter, value):
    with pytest.raises(ValueError, match=parameter):
        kind(**{parameter: value})


@pytest.mark.parametrize(
    ("family", "inside", "outside"),
    [
        (Gaussian(), [-1e300, 0.0], []),
        (Poisson(), [0.0, 2.5], [-1e-9, -2.0]),
        (TruncatedPoisson(), [1.0], [0.0, -1.0]),
        (Bernoulli(), [0.0, 1.0], [-1.0, 0.5, 1.5, 2.0]),
        (Binomial(16), [0.0, 7.5, 16.0], [-1.0, 16.5]),
        (Gamma(), [1e-300, 3.0], [0.0, -1.0]),
        (Tweedie(), [0.0, 3.0], [-1e-9]),
        (LogitNormal(upper=100), [0.0, 50.0, 100.0], [-0.1, 100.1]),
    ],
    ids=lambda one: getattr(one, "name", ""),
)
def test_supports(family, inside, outside):
    assert family.in_support(np.array(inside)).all()
    assert not family.in_support(np.array(outside)).any()


# Probabilities of values as they are recorded


@pytest.mark.parametrize("spread", [0.02, 0.1, 0.3, 0.49, 0.51, 2.0])
@pytest.mark.parametrize("eta", [0.0, 0.25, 0.5])
def test_masses_of_a_lattice_sum_to_one(spread, eta):
    x = np.arange(-40.0, 41.0)
    mass = Gaussian().log_interval_probability(x, np.full_like(x, eta), spread**2, 1.0)
    # From half a step on the density stands for the interval, which is 0.003 nats off.
    assert np.exp(mass).sum() == pytest.approx(1.0, abs=1e-9 if spread < 0.5 else 0.02)
    mass = RoundedGaussian(step=0.5).log_interval_probability(
        0.5 * x, np.full_like(x, eta), min(spread, 1.0) ** 2, 0.5
    )
    assert np.exp(mass).sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("factor", [1e-3, 2.54])
def test_masses_do_not_depend_on_units(factor):
    eta = generator("units").normal(size=(80, 2))
    for family, moved, phi in (
        (Gaussian(), factor * eta, factor**2),
        (LogNormal(), eta + np.log(factor), 1.0),
    ):
        x = family.sample(eta, 0.7, generator("units"))
        scaled = family.log_interval_probability(factor * x, moved, 0.7 * phi, factor * 0.3)
        assert_allclose(scaled, family.log_interval_probability(x, eta, 0.7, 0.3), atol=1e-8)


@pytest.mark.parametrize(
    "family", [Gaussian(), LogNormal(), LogitNormal(), StudentT(), Gamma()], ids=lambda family: family.name
)
def test_at_the_finest_dispersion_a_step_at_the_mean_has_mass_one(family):
    mean, step = np.array([0.6, 0.3]), np.array([1e-3, 0.02])
    finest = family.finest_dispersion(mean, step)
    peak = (
        family.saturated(mean, finest) + family.log_base_measure(mean, finest) + family.log_step(mean, step)
    )
    assert_allclose(peak, 0.0, atol=1e-3)


# Mixtures

MIXTURE = Mixed((Poisson(), Bernoulli(), Gaussian()), (0, 1, 1, 0, 2))


def test_impossible_mixtures():
    with pytest.raises(TypeError, match="members"):
        Mixed(("poisson",), (0,))
    for call in (MIXTURE.mean, lambda x: MIXTURE.evaluate(x, x), lambda x: MIXTURE.member_columns(4)):
        with pytest.raises(ValueError, match="5 columns; the array has 4"):
            call(np.zeros((3, 4)))
    with pytest.raises(ValueError, match="at least one column"):
        combine([])

"""Laws of every family in the registry; a new family is tested without a line here."""

from __future__ import annotations

import functools
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from tests.draws import generator

import anypca.families
from anypca.families import Family, Mixed, families
from anypca.families._canonical import CanonicalFamily
from anypca.families.mixed import known_dispersion

EXAMPLES = [example for name in families for example in families[name].examples()]
STEP = 1e-5


def dispersions(family):
    return [0.3, 1.0, 2.5] if family.fixed_dispersion is None else [family.fixed_dispersion]


CASES = [(family, value) for family in EXAMPLES for value in dispersions(family)]
each_case = pytest.mark.parametrize(("family", "phi"), CASES, ids=str)
each_family = pytest.mark.parametrize("family", EXAMPLES, ids=str)


def table(family, phi, n_rows=60, n_columns=3):
    """Draw a table from a family, and predictors near those that it was drawn from."""
    rng = generator("table", str(family))
    eta = rng.normal(size=(n_rows, n_columns))
    return family.sample(eta, phi, rng), eta + 0.5 * rng.normal(size=eta.shape)


def support_rule(family, eta, phi):
    """Return nodes and weights that sum or integrate functions of x over the support, for one eta."""
    if family.is_discrete:
        nodes = np.arange(4000.0)
        nodes = nodes[family.in_support(nodes)]
        return nodes, np.ones_like(nodes)
    if family.name == "scaled_poisson":  # a density per unit on the multiples of phi
        return phi * np.arange(4000.0), np.full(4000, phi)
    mean = family.mean(np.array([eta]))
    if family.in_support(np.array([-1.0]))[0]:
        spread = np.sqrt(family.variance(mean, phi))
        # Equal steps of asinh: dense near the mean, out to where heavy tails hold 1e-9 of the second moment.
        inner = np.linspace(-25, 25, 20001)
        return mean + spread * np.sinh(inner), spread * np.cosh(inner) * (inner[1] - inner[0])
    if not family.in_support(np.array([1e6]))[0]:  # shares: the rule in the logit
        logits = eta + np.sqrt(phi) * np.linspace(-12, 12, 4001)
        share = 1.0 / (1.0 + np.exp(-logits))
        return family.upper * share, family.upper * share * (1.0 - share) * (logits[1] - logits[0])
    # Positive amounts: the trapezoidal rule in log x, far down for shapes below one, and far up if the tail of the
    # logarithm is normal.
    is_short = family.log_likelihood(mean * np.exp(8), np.array([eta]), phi)[0] < -60
    logs = np.log(mean) + np.linspace(-150, 8 if is_short else 25, 20001)
    nodes, weights = np.exp(logs), np.exp(logs) * (logs[1] - logs[0])
    if family.in_support(np.array([0.0]))[0]:  # and zero, which has a probability
        return np.r_[0.0, nodes], np.r_[1.0, weights]
    return nodes, weights


@functools.cache
def distribution(family, eta, phi):
    """Return support points and their probabilities at eta."""
    x, weights = support_rule(family, eta, phi)
    return x, weights * np.exp(family.log_likelihood(x, np.full_like(x, eta), phi))


# Identities of the distribution


@each_case
@pytest.mark.parametrize("eta", [-1.5, 0.3, 2.0])
def test_moments_belong_to_the_density(family, phi, eta):
    x, probability = distribution(family, eta, phi)
    mean = family.mean(np.array([eta]), phi)
    assert_allclose(probability.sum(), 1.0, rtol=1e-9)
    assert_allclose(probability @ x, mean[0], rtol=1e-8)
    assert_allclose(probability @ (x - mean) ** 2, family.variance(mean, phi)[0], rtol=1e-8)
    assert_allclose(probability @ family.pearson(x, np.full_like(x, eta), phi), 1.0, rtol=1e-7)


@each_case
@pytest.mark.parametrize("eta", [-1.5, 0.3, 2.0])
def test_score_and_information_belong_to_the_density(family, phi, eta):
    x, probability = distribution(family, eta, phi)
    _, score, curvature = family.evaluate(x, np.full_like(x, eta), phi)
    information = probability @ score**2
    assert_allclose(probability @ score, 0.0, atol=1e-8 * np.sqrt(information))
    if family.has_information:
        assert_allclose(curvature, curvature[0], rtol=1e-12)
        assert_allclose(information, curvature[0], rtol=1e-8)
    else:  # the curvature of its steps has the size of the information
        assert 0.5 < probability @ curvature / information < 2.0
    low, high = (
        probability @ family.evaluate(x, np.full_like(x, eta + sign * STEP), phi, order=1).gradient
        for sign in (-1, 1)
    )
    assert_allclose((low - high) / (2 * STEP), information, rtol=1e-6)


@each_case
def test_draws_follow_the_distribution(family, phi):
    x, probability = distribution(family, 0.4, phi)
    n = 40_000
    draws = family.sample(np.full(n, 0.4), phi, generator("draws", str(family), phi))
    assert draws.dtype == np.float64
    assert family.in_support(draws).all()
    is_exact = family.is_discrete or family.name == "scaled_poisson"
    # Of a density, half of the last interval is to the left of its node; zero is a node of its own.
    expected = np.cumsum(probability) - (0.0 if is_exact else np.where(x == 0.0, 0.0, 0.5 * probability))
    found = np.searchsorted(np.sort(draws), x * (1.0 + 1e-12), side="right") / n
    # Dvoretzky, Kiefer and Wolfowitz: a larger distance has a probability below 2 exp(-2 n distance^2) = 1e-6.
    assert np.abs(found - expected).max() < np.sqrt(np.log(2e6) / (2 * n)) + 1e-4


# Derivatives


@each_case
def test_derivatives_in_the_predictor(family, phi):
    x, eta = table(family, phi)
    found = family.evaluate(x, eta, phi)
    high, low = (family.evaluate(x, eta + sign * STEP, phi, order=1) for sign in (1, -1))
    scale = np.abs(found.gradient).max()
    assert_allclose((high.value - low.value) / (2 * STEP), found.gradient, rtol=2e-6, atol=2e-6 * scale)
    observed = family.observed_curvature(x, eta, found, phi)
    slopes = (low.gradient - high.gradient) / (2 * STEP)
    assert_allclose(slopes, observed, rtol=2e-6, atol=2e-6 * np.abs(observed).max())
    newton = family.newton_curvature(x, eta, found, phi)
    assert (newton >= 0).all()
    if family.is_concave:
        assert_array_equal(newton, observed)
    else:  # the curvature of the steps, or a part of the observed one
        assert ((newton == found.curvature) | (newton == np.maximum(observed, 0.1 * found.curvature))).all()


@each_case
def test_value_is_concave_unless_the_family_is_not(family, phi):
    x = np.unique(table(family, phi)[0])[::3, None]
    eta = np.linspace(-30, 30, 241)
    values = family.evaluate(*np.broadcast_arrays(x, eta), phi, order=0).value
    # Each value is a sum of terms of about x eta and eta / phi; a second difference has the rounding of four.
    terms = np.abs(values) + (np.abs(x) + 1.0 / phi) * np.abs(eta)
    rounding = 4 * np.finfo(float).eps * np.maximum(terms[:, :-2], terms[:, 2:])
    is_convex = np.diff(values, n=2, axis=1) > rounding
    assert not (family.is_concave and is_convex.any())


@each_case
def test_expectation_has_consistent_derivatives(family, phi):
    x, mean = table(family, phi)
    variance = generator("variance").uniform(0.05, 1.5, mean.shape)
    found = family.expected_log_likelihood(x, mean, variance, phi)
    high, low = (
        family.expected_log_likelihood(x, mean + sign * STEP, variance, phi).value for sign in (1, -1)
    )
    scale = np.abs(found.gradient).max()
    assert_allclose((high - low) / (2 * STEP), found.gradient, rtol=2e-6, atol=2e-6 * scale)
    high, low = (
        family.expected_log_likelihood(x, mean, variance + sign * STEP, phi).value for sign in (1, -1)
    )
    # A value that is not concave may grow with the variance; the curvature is then zero.
    slopes = (low - high) / STEP
    slopes = slopes if family.is_concave else np.maximum(slopes, 0.0)
    assert_allclose(slopes, found.curvature, rtol=2e-6, atol=2e-6 * found.curvature.max())
    assert (found.curvature >= 0).all()


@each_case
def test_expectation_is_near_the_integral(family, phi):
    x, mean = table(family, phi)
    at_mean = family.evaluate(x, mean, phi, order=0).value
    assert_allclose(
        family.expected_log_likelihood(x, mean, np.zeros_like(mean), phi).value, at_mean, rtol=1e-9
    )
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    values = [family.evaluate(x, mean + 0.2 * node, phi, order=0).value for node in nodes]
    integral = np.tensordot(weights / weights.sum(), values, 1)
    found = family.expected_log_likelihood(x, mean, np.full_like(mean, 0.04), phi).value
    if family.expectation == "exact":
        assert_allclose(found, integral, rtol=1e-9)
        return
    # Approximations err by less than a few times the loss that the variance makes.
    assert_allclose(found, integral, atol=2.5 * np.abs(at_mean - integral).max())
    if family.expectation == "bound":
        assert (found <= integral + 1e-12).all()


@each_family
def test_linear_families_have_a_cumulant(family):
    """The terms are x eta - A, x - A' and A''."""
    eta = np.linspace(-6, 6, 25)
    if not isinstance(family, CanonicalFamily):
        return
    x = family.sample(eta, 1.0, generator("cumulant"))
    value, gradient, curvature = family.evaluate(x, eta)
    for order in (0, 1, 2):
        cumulant = family.cumulant(eta, order=order)
        assert [part is None for part in cumulant] == [position > order for position in range(3)]
        assert_allclose(x * eta - cumulant.value, value, rtol=1e-14, atol=1e-13)
    assert_allclose(x - cumulant.gradient, gradient, rtol=1e-14, atol=1e-14)
    assert_allclose(cumulant.curvature, curvature, rtol=1e-14)


# Links, saturation, deviance


@each_case
def test_link_inverts_the_mean_and_has_the_kind_it_claims(family, phi):
    eta = np.linspace(-8, 8, 65)
    for dispersion in (phi, None):
        assert_allclose(family.link(family.mean(eta, dispersion), dispersion), eta, rtol=1e-8, atol=1e-8)
    # Far below, where a truncated count or a share is at its end, means and odds change by the same factor.
    least, low, high = family.mean(np.array([-700.0, -9.0, -8.0]))
    if family.link_kind == "identity":
        assert_allclose(high - low, 1.0, rtol=1e-12)
    else:
        assert_allclose((high - least) / (low - least), np.e, rtol=2e-3)


@each_case
def test_saturated_value_is_the_supremum(family, phi):
    x = np.unique(table(family, phi)[0])
    x = x[:: max(len(x) // 12, 1), None]
    eta = np.linspace(-45, 45, 4501)
    both = np.broadcast_arrays(x, eta)
    best = family.evaluate(*both, phi, order=0).value.max(axis=1)
    saturated = family.saturated(x[:, 0], phi)
    assert (best <= saturated + 1e-9 * (1 + np.abs(saturated))).all()
    assert_allclose(best, saturated, rtol=1e-3, atol=2e-3)
    deviance = family.deviance(*both, phi)
    assert (deviance >= 0).all()
    best = family.saturated(x, phi) + family.log_base_measure(x, phi)
    gap = best - family.log_likelihood(*both, phi)
    assert_allclose(deviance, 2 * gap, rtol=1e-8, atol=1e-8 * (1 + np.abs(saturated).max()))


# Arrays


@each_case
@pytest.mark.parametrize("order", [0, 1, 2])
def test_orders_agree_and_give_new_arrays(family, phi, order):
    x, eta = table(family, phi)
    x_before, eta_before = x.copy(), eta.copy()
    full, found = family.evaluate(x, eta, phi), family.evaluate(x, eta, phi, order=order)
    assert_array_equal(x, x_before)
    assert_array_equal(eta, eta_before)
    assert [part is None for part in found] == [position > order for position in range(3)]
    assert (full.curvature >= 0).all()
    seen = [x, eta]
    for part, whole in zip(found[: order + 1], full, strict=False):
        assert_allclose(part, whole, rtol=1e-13, atol=1e-13)
        assert part.shape == eta.shape
        assert part.flags.writeable
        assert not any(np.shares_memory(part, other) for other in seen)
        seen.append(part)
    empty = np.zeros((0, 3))
    assert all(
        part is None or part.shape == (0, 3) for part in family.evaluate(empty, empty, 1.0, order=order)
    )


@each_case
def test_float32_stays_float32_and_close(family, phi):
    x, eta = (part.astype(np.float32) for part in table(family, phi))
    phi64 = np.full(x.shape[1], phi)
    exact = [x.astype(float), eta.astype(float), phi64]
    for short, long in zip(family.evaluate(x, eta, phi64), family.evaluate(*exact), strict=True):
        assert short.dtype == np.float32
        assert_allclose(short, long, rtol=2e-5, atol=2e-6 * np.abs(long).max())
    for method in ("log_likelihood", "deviance", "pearson"):
        short, long = getattr(family, method)(x, eta, phi64), getattr(family, method)(*exact)
        assert short.dtype == np.float32, method
        assert_allclose(short, long, rtol=1e-4, atol=2e-5 * np.abs(long).max(), err_msg=method)
    mean = family.mean(eta, phi64)
    assert mean.dtype == family.link(mean, phi64).dtype == family.variance(mean, phi64).dtype == np.float32


@each_case
@pytest.mark.parametrize("eta", [-700.0, 700.0])
def test_extreme_predictors_are_finite(family, phi, eta):
    x = np.unique(table(family, phi)[0])
    far = np.full_like(x, eta)
    for order in (0, 1, 2):
        parts = family.evaluate(x, far, phi, order=order)
        assert all(part is None or np.isfinite(part).all() for part in parts)
    assert np.isfinite(family.deviance(x, far, phi)).all()
    assert np.isfinite(family.mean(np.array([eta]))).all()
    mean = family.mean(np.array([eta]), phi)
    for part in (mean, family.pearson(x, far, phi), family.variance(mean, phi)):
        assert not np.isnan(part).any()


@each_case
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("eta", [-1e4, -800.0, 800.0, 1e4])
def test_overflow_makes_the_value_minus_infinity_never_nan(family, phi, eta, dtype):
    x = np.unique(table(family, phi)[0]).astype(dtype)
    found = family.evaluate(x, np.full_like(x, eta), phi)
    assert not any(np.isnan(part).any() for part in found)
    assert (found.value < np.inf).all()
    assert (family.deviance(x, np.full_like(x, eta), phi) >= 0).all()


@each_case
def test_a_nan_stays_in_its_place(family, phi):
    """Trial steps of a solver may overflow in one row and be NaN in another."""
    x = np.unique(table(family, phi)[0])[:2].repeat(2)
    eta = np.full_like(x, 800.0)
    expected = family.evaluate(x, eta, phi)
    eta[0] = np.nan
    with np.errstate(over="ignore", invalid="ignore"):
        found = family.evaluate(x, eta, phi)
    for part, whole in zip(found, expected, strict=True):
        assert_array_equal(part[1:], whole[1:])
    assert np.isnan(found.value[0])


# Support, starts, values


@each_family
def test_support(family):
    assert family.in_support(np.array([1.0]))[0]  # stands for missing entries
    assert not family.in_support(np.array([np.nan, np.inf, -np.inf])).any()
    assert family.support
    assert family.remedy


@each_family
def test_starts_are_inside(family):
    values = np.arange(0.0, 20.0)
    values = values[family.in_support(values)]
    start = family.smoothed_mean(10 * values, np.full_like(values, 10.0))
    assert np.isfinite(family.link(start)).all()
    share = 0.4 if family.in_support(np.array([0.4]))[0] else 1.4
    assert_allclose(family.smoothed_mean(np.array([share * 1e9]), np.array([1e9])), share, rtol=1e-6)
    if family.fixed_dispersion is None:
        dispersion = family.dispersion_from_moments(values, np.zeros_like(values))
        assert ((dispersion > 0) & np.isfinite(dispersion)).all()
        mean = family.mean(np.array([0.3, 1.0]), 0.7)
        dispersion = family.dispersion_from_moments(mean, family.variance(mean, 0.7))
        assert family.dispersion_kind is not None
        assert np.isnan(known_dispersion(family, 2)).all()
        # The dispersion itself if moments have a closed form, else a value near it.
        assert_allclose(np.log(dispersion / 0.7), 0.0, atol=1.0)
    else:
        assert_array_equal(known_dispersion(family, 2), family.fixed_dispersion)


@each_family
@pytest.mark.parametrize("step", [1e-6, 1.0, 50.0])
def test_masses_are_log_probabilities(family, step):
    phi = 0.7 if family.fixed_dispersion is None else family.fixed_dispersion
    x, eta = table(family, phi)
    mass = family.log_interval_probability(x, eta, phi, step)
    assert (mass <= 1e-12).all()
    assert mass.dtype == eta.dtype
    if family.is_discrete:
        assert_array_equal(mass, np.minimum(family.log_likelihood(x, eta, phi), 0.0))
    elif step < 1e-3:  # the density times the step
        assert_allclose(mass, family.log_likelihood(x, eta, phi) + family.log_step(x, step), atol=1e-8)
    assert (
        family.log_interval_probability(x.astype(np.float32), eta.astype(np.float32), phi, step).dtype
        == np.float32
    )


@each_family
def test_families_are_values(family):
    ((member, index),) = family.member_columns(4)
    assert member == family == family.take(slice(1, 3))
    assert_array_equal(index, np.arange(4))
    twin = eval(repr(family), vars(anypca.families))
    for other in (twin, pickle.loads(pickle.dumps(family)), clone(family, safe=False)):
        assert other == family
        assert hash(other) == hash(family)
        assert repr(other) == repr(family)
    with pytest.raises(AttributeError):
        family.name = "other"


def test_the_registry_holds_every_family():
    assert len(set(EXAMPLES)) == len(EXAMPLES)
    public = (getattr(anypca.families, name) for name in anypca.families.__all__)
    exported = {each for each in public if isinstance(each, type) and issubclass(each, Family)}
    assert exported - {Family, Mixed} == {families[name] for name in families}
    assert list(families) == sorted(families)


# Mixtures over columns


@pytest.fixture(params=["interleaved", "contiguous", "irregular"])
def mixture(request):
    """Return a mixture of all families with a table, predictors and dispersions."""
    rng = generator("mixture", request.param)
    index = np.tile(np.arange(len(EXAMPLES)), 2)
    index = {"interleaved": index, "contiguous": np.sort(index), "irregular": rng.permutation(index)}
    family = Mixed(tuple(EXAMPLES), index[request.param])
    phi = known_dispersion(family, len(family.assignment))
    phi[np.isnan(phi)] = rng.uniform(0.3, 2.0, np.isnan(phi).sum())
    eta = rng.normal(size=(20, phi.size))
    return family, family.sample(eta, phi, rng), eta, phi


def all_values(family, x, eta, phi, step):
    """Return all elementwise functions of a family."""
    found, mean = family.evaluate(x, eta, phi), family.mean(eta, phi)
    return [
        *found,
        *family.expected_log_likelihood(x, eta, np.full_like(eta, 0.3), phi),
        family.observed_curvature(x, eta, found, phi),
        family.newton_curvature(x, eta, found, phi),
        family.log_likelihood(x, eta, phi),
        family.deviance(x, eta, phi),
        family.pearson(x, eta, phi),
        family.saturated(x, phi),
        family.log_interval_probability(x, eta, phi, step),
        mean,
        family.link(mean, phi),
        family.variance(mean, phi),
        family.in_support(x),
    ]


def test_a_mixture_equals_its_members_column_by_column(mixture):
    family, x, eta, phi = mixture
    step = np.linspace(0.1, 2.0, phi.size)
    whole = all_values(family, x, eta, phi, step)
    count = np.full(phi.size, float(len(x)))
    start = family.smoothed_mean(x.sum(axis=0), count)
    for j, number in enumerate(family.assignment):
        member, one = EXAMPLES[number], slice(j, j + 1)
        assert family.take(one) == member
        for mine, part in zip(
            whole, all_values(member, x[:, one], eta[:, one], phi[j], step[one]), strict=True
        ):
            assert_allclose(mine[:, one], part, rtol=1e-12, atol=1e-12)
        assert_allclose(start[one], member.smoothed_mean(x[:, one].sum(axis=0), count[one]), rtol=1e-12)

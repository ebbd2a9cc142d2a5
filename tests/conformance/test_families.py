"""What every family of the registry must satisfy; a new family is tested without a line here."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import anypca.families
from anypca.families import Mixed, families

EXAMPLES = [example for name in families for example in families[name].examples()]


def dispersions(family):
    if family.fixed_dispersion is not None:
        return [family.fixed_dispersion]
    return [0.3, 1.0, 2.5]


CASES = [(family, value) for family in EXAMPLES for value in dispersions(family)]
each_case = pytest.mark.parametrize(("family", "phi"), CASES, ids=lambda value: str(value))
each_family = pytest.mark.parametrize("family", EXAMPLES, ids=str)


def table(family, phi, n_rows=60, n_columns=3, seed=0):
    """A table of the family's own draws with the predictor it was drawn from."""
    rng = np.random.default_rng(seed)
    eta = rng.normal(size=(n_rows, n_columns))
    return family.sample(eta, phi, rng), eta + 0.5 * rng.normal(size=eta.shape)


def support_rule(family, eta, phi):
    """Nodes and weights that sum or integrate functions of x over the support, for one scalar eta."""
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
    # Positive amounts: the trapezoidal rule in log x, far down for shapes below one.
    # and far up where the logarithm has the tail and not the number.
    is_short = family.log_likelihood(mean * np.exp(8), np.array([eta]), phi)[0] < -60
    logs = np.log(mean) + np.linspace(-150, 8 if is_short else 25, 20001)
    nodes, weights = np.exp(logs), np.exp(logs) * (logs[1] - logs[0])
    if family.in_support(np.array([0.0]))[0]:  # and zero, which has a probability
        return np.r_[0.0, nodes], np.r_[1.0, weights]
    return nodes, weights


def expectation(family, eta, phi):
    """Support points and their probabilities at eta."""
    x, weights = support_rule(family, eta, phi)
    return x, weights * np.exp(family.log_likelihood(x, np.full_like(x, eta), phi))


# ---------------------------------------------------------------------------------------- identities


@each_case
@pytest.mark.parametrize("eta", [-1.5, 0.3, 2.0])
def test_density_is_normalised(family, phi, eta):
    _, probability = expectation(family, eta, phi)
    assert_allclose(probability.sum(), 1.0, rtol=1e-9)


@each_case
@pytest.mark.parametrize("eta", [-1.5, 0.3, 2.0])
def test_mean_and_variance_are_those_of_the_density(family, phi, eta):
    x, probability = expectation(family, eta, phi)
    mean = family.mean(np.array([eta]), phi)
    assert_allclose(probability @ x, mean[0], rtol=1e-8)
    assert_allclose(probability @ (x - mean) ** 2, family.variance(mean, phi)[0], rtol=1e-8)


@each_case
@pytest.mark.parametrize("eta", [-1.5, 0.3, 2.0])
def test_score_has_mean_zero_and_variance_curvature(family, phi, eta):
    x, probability = expectation(family, eta, phi)
    _, score, curvature = family.evaluate(x, np.full_like(x, eta), phi)
    information = probability @ score**2
    assert_allclose(probability @ score, 0.0, atol=1e-8 * np.sqrt(information))
    if family.has_information:
        assert_allclose(curvature, curvature[0], rtol=1e-12)
        assert_allclose(information, curvature[0], rtol=1e-8)
    else:  # what it steps by instead is of the size of the information
        assert 0.5 < probability @ curvature / information < 2.0


@each_case
@pytest.mark.parametrize("eta", [-1.5, 0.3, 2.0])
def test_curvature_is_minus_the_derivative_of_the_expected_gradient(family, phi, eta):
    x, probability = expectation(family, eta, phi)
    step = 1e-5
    ends = [
        probability @ family.evaluate(x, np.full_like(x, eta + sign * step), phi, order=1).gradient
        for sign in (-1, 1)
    ]
    information = probability @ family.evaluate(x, np.full_like(x, eta), phi, order=1).gradient ** 2
    assert_allclose((ends[0] - ends[1]) / (2 * step), information, rtol=1e-6)


@each_case
def test_gradient_is_the_derivative_of_the_value(family, phi):
    x, eta = table(family, phi)
    step = 1e-5
    high, low = (family.evaluate(x, eta + sign * step, phi, order=0).value for sign in (1, -1))
    gradient = family.evaluate(x, eta, phi, order=1).gradient
    assert_allclose((high - low) / (2 * step), gradient, rtol=2e-6, atol=2e-6 * np.abs(gradient).max())


def convex_places(family, phi):
    """Values of eta next to which the log-likelihood of some x bends upwards by more than rounding."""
    x = np.unique(table(family, phi)[0])[::3, None]
    eta = np.linspace(-30, 30, 241)
    values = family.evaluate(*np.broadcast_arrays(x, eta), phi, order=0).value
    # Each value is a sum of about x eta, eta / phi and what is left; a bend is four values' rounding at that place.
    terms = np.abs(values) + (np.abs(x) + 1.0 / phi) * np.abs(eta)
    rounding = 4 * np.finfo(float).eps * np.maximum(terms[:, :-2], terms[:, 2:])
    return eta[1:-1][(np.diff(values, n=2, axis=1) > rounding).any(axis=0)]


@each_case
def test_value_is_concave_in_eta_unless_the_family_says_so(family, phi):
    assert not (family.is_concave and convex_places(family, phi).size)


def test_a_family_that_is_not_concave_is_noticed():
    class Wide(anypca.families.Gaussian):
        """Student's t with three degrees of freedom, which is convex in its tails."""

        def evaluate(self, x, eta, dispersion=1.0, *, order=2):
            value, _, _ = super().evaluate(x, eta, dispersion, order=0)
            return anypca.families.Evaluation(-2.0 * np.log1p(-value / 1.5), None, None)

    assert convex_places(Wide(), 1.0).size


@each_case
@pytest.mark.parametrize("eta", [-1.5, 0.3, 2.0])
def test_pearson_has_mean_one(family, phi, eta):
    x, probability = expectation(family, eta, phi)
    mean = probability @ family.pearson(x, np.full_like(x, eta), phi)
    assert_allclose(mean, 1.0, rtol=1e-7)


@each_case
@pytest.mark.parametrize("given", [True, False])
def test_link_inverts_mean(family, phi, given):
    eta = np.linspace(-8, 8, 65)
    dispersion = phi if given else None
    assert_allclose(family.link(family.mean(eta, dispersion), dispersion), eta, rtol=1e-8, atol=1e-8)


@each_case
def test_adding_to_the_predictor_does_what_the_link_kind_says(family, phi):
    """Far below, where a truncated count or a share is at its end, means and odds change by the same factor."""
    eta = np.array([-9.0, -8.0])
    low, high = family.mean(eta)
    if family.link_kind == "identity":
        assert_allclose(high - low, 1.0, rtol=1e-12)
    else:
        least = family.mean(np.array([-700.0]))[0]
        assert_allclose((high - least) / (low - least), np.e, rtol=2e-3)


# ------------------------------------------------------------------------------ saturation, deviance


@each_case
def test_saturated_is_the_supremum_of_the_value(family, phi):
    x = np.unique(table(family, phi)[0])
    x = x[:: max(len(x) // 12, 1)]
    eta = np.linspace(-45, 45, 4501)
    best = family.evaluate(*np.broadcast_arrays(x[:, None], eta), phi, order=0).value.max(axis=1)
    saturated = family.saturated(x, phi)
    assert (best <= saturated + 1e-9 * (1 + np.abs(saturated))).all()
    assert_allclose(best, saturated, rtol=1e-3, atol=2e-3)


@each_case
def test_deviance_is_nonnegative_and_zero_at_saturation(family, phi):
    x, eta = table(family, phi)
    deviance = family.deviance(x, eta, phi)
    assert (deviance >= 0).all()
    # The best of many predictors comes close to saturation from above.
    grid = np.linspace(-45, 45, 4501)
    first = x[:3, :1]
    best = family.deviance(*np.broadcast_arrays(first, grid), phi).min(axis=1)
    assert_allclose(best, 0.0, atol=2e-3 * (1 + np.abs(family.saturated(first, phi)).max()))


@each_case
def test_deviance_is_twice_the_gap_of_log_likelihoods(family, phi):
    x, eta = table(family, phi)
    gap = family.saturated_log_likelihood(x, phi) - family.log_likelihood(x, eta, phi)
    assert_allclose(family.deviance(x, eta, phi), 2 * gap, rtol=1e-9, atol=1e-9)


# --------------------------------------------------------------------------------- fused evaluation


@each_case
def test_orders_agree(family, phi):
    x, eta = table(family, phi)
    full = family.evaluate(x, eta, phi, order=2)
    first = family.evaluate(x, eta, phi, order=1)
    value = family.evaluate(x, eta, phi, order=0)
    assert value.gradient is None
    assert value.curvature is None
    assert first.curvature is None
    for other in (first, value):
        assert_allclose(other.value, full.value, rtol=1e-13, atol=1e-13)
    assert_allclose(first.gradient, full.gradient, rtol=1e-14)
    assert (full.curvature >= 0).all()


@each_case
@pytest.mark.parametrize("order", [0, 1, 2])
def test_outputs_are_new_arrays_and_inputs_are_kept(family, phi, order):
    x, eta = table(family, phi)
    x_before, eta_before = x.copy(), eta.copy()
    arrays = [part for part in family.evaluate(x, eta, phi, order=order) if part is not None]
    assert_array_equal(x, x_before)
    assert_array_equal(eta, eta_before)
    for position, part in enumerate(arrays):
        assert part.shape == eta.shape
        assert part.flags.writeable
        assert not any(np.shares_memory(part, other) for other in [x, eta, *arrays[:position]])


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
    assert mean.dtype == family.link(mean, phi64).dtype == np.float32
    assert family.variance(mean, phi64).dtype == np.float32


@each_family
def test_dispersion_per_column(family):
    values = np.array([0.3, 1.0, 2.5]) if family.fixed_dispersion is None else np.ones(3)
    x, eta = table(family, values)
    for method in ("log_likelihood", "deviance", "pearson"):
        together = getattr(family, method)(x, eta, values)
        for j, value in enumerate(values):
            assert_allclose(together[:, j], getattr(family, method)(x[:, j], eta[:, j], value), rtol=1e-13)


@each_family
def test_linear_families_have_a_cumulant(family):
    """With ``is_linear`` the terms are x eta - A, x - A' and A''; other families refuse."""
    eta = np.linspace(-6, 6, 25)
    if not family.is_linear:
        with pytest.raises(NotImplementedError, match="not linear in x"):
            family.cumulant(eta)
        return
    x = family.sample(eta, 1.0, np.random.default_rng(0))
    value, gradient, curvature = family.evaluate(x, eta)
    for order in (0, 1, 2):
        cumulant = family.cumulant(eta, order=order)
        assert [part is None for part in cumulant] == [position > order for position in range(3)]
        assert_allclose(x * eta - cumulant.value, value, rtol=1e-14, atol=1e-13)
    assert_allclose(x - cumulant.gradient, gradient, rtol=1e-14, atol=1e-14)
    assert_allclose(cumulant.curvature, curvature, rtol=1e-14)


# ----------------------------------------------------------------------------------------- extremes


@each_case
@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("eta", [-700.0, 700.0])
def test_extreme_predictors_are_finite(family, phi, order, eta):
    x = np.unique(table(family, phi)[0])
    for part in family.evaluate(x, np.full_like(x, eta), phi, order=order):
        assert part is None or np.isfinite(part).all()
    assert np.isfinite(family.deviance(x, np.full_like(x, eta), phi)).all()
    assert np.isfinite(family.mean(np.array([eta]))).all()
    mean = family.mean(np.array([eta]), phi)
    assert not np.isnan(mean).any()
    assert not np.isnan(family.pearson(x, np.full_like(x, eta), phi)).any()
    assert not np.isnan(family.variance(mean, phi)).any()


@each_case
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("eta", [-1e4, -800.0, 800.0, 1e4])
def test_overflow_makes_the_value_minus_infinity_never_nan(family, phi, eta, dtype):
    x = np.unique(table(family, phi)[0]).astype(dtype)
    value, gradient, curvature = family.evaluate(x, np.full_like(x, eta), phi)
    assert not np.isnan(value).any()
    assert (value < np.inf).all()
    assert not np.isnan(gradient).any()
    assert not np.isnan(curvature).any()
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


@each_family
def test_empty_arrays(family):
    empty = np.zeros((0, 3))
    assert all(part.shape == (0, 3) for part in family.evaluate(empty, empty, 1.0))


# ----------------------------------------------------------------------------------------- sampling


@each_case
def test_sampler_moments(family, phi):
    rng = np.random.default_rng(1)
    eta = np.full(40_000, 0.4)
    draws = family.sample(eta, phi, rng)
    means = family.mean(eta[:1], phi)
    mean, variance = means[0], family.variance(means, phi)[0]
    squares = (draws - mean) ** 2
    assert draws.dtype == np.float64
    assert family.in_support(draws).all()
    assert abs(draws.mean() - mean) < 4 * np.sqrt(variance / draws.size)
    assert abs(squares.mean() - variance) < 4 * squares.std() / np.sqrt(draws.size)


@each_family
def test_sampler_is_reproducible_and_takes_dispersion_per_column(family):
    eta = np.zeros((5, 2))
    phi = np.array([0.5, 1.5])
    first, second = (family.sample(eta, phi, np.random.default_rng(3)) for _ in range(2))
    assert first.shape == eta.shape
    assert_array_equal(first, second)


# ----------------------------------------------------------------------------- support and starts


@each_family
def test_support(family):
    # The engine puts 1.0 in the place of missing entries.
    assert family.in_support(np.array([1.0]))[0]
    assert not family.in_support(np.array([np.nan, np.inf, -np.inf])).any()
    assert family.support
    assert family.remedy


@each_family
def test_interior_mean_has_a_finite_link(family):
    values = np.arange(0.0, 20.0)
    values = values[family.in_support(values)]
    start = family.interior_mean(10 * values, np.full_like(values, 10.0))
    assert np.isfinite(family.link(start)).all()
    share = 0.4 if family.in_support(np.array([0.4]))[0] else 1.4
    plain = family.interior_mean(np.array([share * 1e9]), np.array([1e9]))
    assert_allclose(plain, share, rtol=1e-6)


@each_family
def test_dispersion_kind_and_start(family):
    eta = np.array([0.3, 1.0])
    mean = family.mean(eta, 0.7)
    variance = family.variance(mean, 0.7)
    start = family.initial_dispersion(mean, variance)
    known = family.known_dispersion(2)
    if family.fixed_dispersion is None:
        assert family.dispersion_kind is not None
        assert np.isnan(known).all()
        # The columns' own dispersion where moments have a closed form, near it elsewhere.
        assert_allclose(np.log(start / 0.7), 0.0, atol=1.0)
    else:
        assert_array_equal(start, family.fixed_dispersion)
        assert_array_equal(known, family.fixed_dispersion)


@each_family
def test_dispersion_start_of_constant_columns_is_positive(family):
    mean = np.array([0.0, 1.0, 5.0])
    mean = mean[family.in_support(mean)]
    start = family.initial_dispersion(mean, np.zeros_like(mean))
    assert ((start > 0) & np.isfinite(start)).all()


@each_family
def test_one_group_of_columns(family):
    ((member, index),) = family.member_columns(4)
    assert member == family == family.columns(slice(1, 3))
    assert_array_equal(index, np.arange(4))


# ---------------------------------------------------------------------------------- families as values


@each_family
def test_families_are_values(family):
    twin = eval(repr(family), vars(anypca.families))
    for other in (twin, pickle.loads(pickle.dumps(family)), clone(family, safe=False)):
        assert other == family
        assert hash(other) == hash(family)
        assert repr(other) == repr(family)
    with pytest.raises(AttributeError):
        family.name = "other"


def test_families_differ():
    assert len(set(EXAMPLES)) == len(EXAMPLES)


# --------------------------------------------------------------------------------------------- mixed

LAYOUTS = {
    "interleaved": tuple(range(len(EXAMPLES))) * 2,
    "contiguous": tuple(sorted(tuple(range(len(EXAMPLES))) * 2)),
    "irregular": tuple(np.random.default_rng(0).permutation(tuple(range(len(EXAMPLES))) * 3).tolist()),
}


@pytest.fixture(params=LAYOUTS.values(), ids=LAYOUTS)
def mixed_table(request):
    """A mixture of all families with a table, a predictor and dispersions."""
    family = Mixed(tuple(EXAMPLES), request.param)
    rng = np.random.default_rng(0)
    phi = family.known_dispersion(len(request.param))
    phi[np.isnan(phi)] = rng.uniform(0.3, 2.0, np.isnan(phi).sum())
    eta = rng.normal(size=(20, phi.size))
    return family, family.sample(eta, phi, rng), eta, phi


def test_mixed_equals_its_members_column_by_column(mixed_table):
    family, x, eta, phi = mixed_table
    values = {
        "evaluate": family.evaluate(x, eta, phi),
        "observed": family.observed_curvature(x, eta, family.evaluate(x, eta, phi), phi),
        "newton": family.newton_curvature(x, eta, family.evaluate(x, eta, phi), phi),
        **{name: getattr(family, name)(x, eta, phi) for name in ("log_likelihood", "deviance", "pearson")},
        "saturated": family.saturated(x, phi),
        "mean": family.mean(eta, phi),
        "link": family.link(family.mean(eta, phi), phi),
        "variance": family.variance(family.mean(eta, phi), phi),
        "in_support": family.in_support(x),
    }
    assert values["in_support"].all()
    for j, number in enumerate(family.assignment):
        member, column, predictor = EXAMPLES[number], x[:, j], eta[:, j]
        for whole, part in zip(values["evaluate"], member.evaluate(column, predictor, phi[j]), strict=True):
            assert_allclose(whole[:, j], part, rtol=1e-14)
        found = member.evaluate(column, predictor, phi[j])
        for kind in ("observed", "newton"):
            part = getattr(member, f"{kind}_curvature")(column, predictor, found, phi[j])
            assert_allclose(values[kind][:, j], part, rtol=1e-14)
        for name in ("log_likelihood", "deviance", "pearson"):
            part = getattr(member, name)(column, predictor, phi[j])
            assert_allclose(values[name][:, j], part, rtol=1e-14, err_msg=name)
        mean = member.mean(predictor, phi[j])
        assert_allclose(values["saturated"][:, j], member.saturated(column, phi[j]), rtol=1e-14)
        assert_allclose(values["mean"][:, j], mean, rtol=1e-14)
        assert_allclose(values["link"][:, j], member.link(mean, phi[j]), rtol=1e-14)
        assert_allclose(values["variance"][:, j], member.variance(mean, phi[j]), rtol=1e-14)


def test_mixed_starts_equal_those_of_its_members(mixed_table):
    family, x, _, _ = mixed_table
    count = np.full(x.shape[1], float(len(x)))
    start = family.interior_mean(x.sum(axis=0), count)
    dispersion = family.initial_dispersion(x.mean(axis=0), x.var(axis=0))
    for j, number in enumerate(family.assignment):
        column = x[:, j : j + 1]
        assert_allclose(
            start[j], EXAMPLES[number].interior_mean(column.sum(axis=0), count[:1])[0], rtol=1e-14
        )
        one = EXAMPLES[number].initial_dispersion(column.mean(axis=0), column.var(axis=0))
        assert_allclose(dispersion[j], one[0], rtol=1e-12)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_mixed_keeps_float32_and_orders(mixed_table, order):
    family, x, eta, phi = mixed_table
    parts = family.evaluate(x.astype(np.float32), eta.astype(np.float32), phi, order=order)
    assert [part is None for part in parts] == [position > order for position in range(3)]
    assert all(part.dtype == np.float32 for part in parts if part is not None)
    assert family.mean(eta.astype(np.float32)).dtype == np.float32


@each_case
def test_observed_curvature_is_minus_the_derivative_of_the_gradient(family, phi):
    x, eta = table(family, phi)
    step = 1e-5
    high, low = (family.evaluate(x, eta + sign * step, phi, order=1).gradient for sign in (1, -1))
    found = family.evaluate(x, eta, phi)
    observed = family.observed_curvature(x, eta, found, phi)
    assert_allclose((low - high) / (2 * step), observed, rtol=2e-6, atol=2e-6 * np.abs(observed).max())
    newton = family.newton_curvature(x, eta, found, phi)
    assert (newton >= 0).all()
    if family.is_concave:
        assert_array_equal(newton, observed)
    else:  # what it steps by, or as much of the observed one as can be stepped by
        assert ((newton == found.curvature) | (newton == np.maximum(observed, 0.1 * found.curvature))).all()


@each_case
def test_expectation_has_consistent_derivatives(family, phi):
    x, mean = table(family, phi)
    variance = np.random.default_rng(5).uniform(0.05, 1.5, mean.shape)
    found = family.expect(x, mean, variance, phi)
    step = 1e-5
    high, low = (family.expect(x, mean + sign * step, variance, phi).value for sign in (1, -1))
    scale = np.abs(found.gradient).max()
    assert_allclose((high - low) / (2 * step), found.gradient, rtol=2e-6, atol=2e-6 * scale)
    high, low = (family.expect(x, mean, variance + sign * step, phi).value for sign in (1, -1))
    # What is not concave may gain from variance; the curvature is then zero.
    slopes = (low - high) / step
    slopes = slopes if family.is_concave else np.maximum(slopes, 0.0)
    assert_allclose(slopes, found.curvature, rtol=2e-6, atol=2e-6 * found.curvature.max())
    assert (found.curvature >= 0).all()


@each_case
def test_expectation_without_variance_is_the_value(family, phi):
    x, eta = table(family, phi)
    assert_allclose(
        family.expect(x, eta, np.zeros_like(eta), phi).value,
        family.evaluate(x, eta, phi, order=0).value,
        rtol=1e-9,
    )


@each_case
def test_expectation_is_near_the_integral(family, phi):
    x, mean = table(family, phi)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    variance = np.full_like(mean, 0.04)
    integral = sum(
        w * family.evaluate(x, mean + node * 0.2, phi, order=0).value
        for node, w in zip(nodes, weights, strict=True)
    )
    found = family.expect(x, mean, variance, phi).value
    if family.expectation == "exact":
        assert_allclose(found, integral, rtol=1e-9)
        return
    # Both lose what the curvature takes away; the stand-ins see more or less of it.
    loss = family.evaluate(x, mean, phi, order=0).value - integral
    assert_allclose(found, integral, atol=2.5 * np.abs(loss).max())
    if family.expectation == "bound":
        assert (found <= integral + 1e-12).all()

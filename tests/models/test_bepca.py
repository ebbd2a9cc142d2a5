"""Bayesian exponential-family PCA: density, conditionals, and what its users see."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.special import expit

from anypca import BEPCA
from anypca.datasets import make_low_rank, make_prototype_bits
from anypca.engine import Table, check_data
from anypca.exceptions import ConvergenceWarning
from anypca.families import (
    Bernoulli,
    Binomial,
    Exponential,
    Gamma,
    Gaussian,
    LogNormal,
    NegativeBinomial,
    Poisson,
    ScaledPoisson,
)
from anypca.families.mixed import Mixed
from anypca.models._bayes import chains
from anypca.models._bayes.augment import augment, draw_normal
from anypca.models._bayes.chains import judge
from anypca.models._bayes.rows import N_AVERAGED, thin
from anypca.models._opened import OpenedBlock
from anypca.models.bepca._density import FactorDensity, FactorPrior, Factors
from anypca.models.bepca._fit import make_gibbs
from anypca.models.bepca._report import align_draws, mean_product, rank_bic

pytest.importorskip("nutpie")
pytest.importorskip("arviz")
pytest.importorskip("polyagamma")

N, P, K = 7, 5, 3
FAMILIES = [
    (Bernoulli(), 1.0),
    (Binomial(10), 1.0),
    (Poisson(), 1.0),
    (Gaussian(), 0.5),
    (Exponential(), 1.0),
    (Gamma(), 0.2),
    (NegativeBinomial(), 1 / 3),
    (ScaledPoisson(), 0.5),
    (Mixed((Poisson(), Gaussian()), (0, 1, 1, 0, 1)), 0.5),
]
GIBBS = [FAMILIES[index] for index in (0, 1, 3, 6)]


def name(case):
    return case[0].name


def table(family, dispersion, n=N, n_fixed=0, seed=1):
    """A density on a small table with holes."""
    rng = np.random.default_rng(seed)
    phi = np.full(P, dispersion)
    x = family.sample(rng.normal(0, 0.7, (n, P)), phi, rng)
    rows = OpenedBlock(
        Table(x, rng.random((n, P)) < 0.9),
        None,
        None,
        None,
        np.ones((n, n_fixed)),
        P,
        np.dtype(float),
        np.arange(n),
    )
    m = K + n_fixed
    value = np.tile(family.mean(np.full(P, 0.3)), (m, 1))
    return FactorDensity(family, rows, phi, FactorPrior(value, np.full((m, 1), 3.0), 2.0, 1.0), K)


@pytest.mark.parametrize("n_fixed", [0, 1])
@pytest.mark.parametrize("case", FAMILIES, ids=name)
def test_the_gradient_is_that_of_the_density(case, n_fixed):
    density = table(*case, n_fixed=n_fixed)
    m = K + n_fixed
    position = np.random.default_rng(2).normal(0, 0.5, N * K + P * m + 2 * K)
    gradient = density(position)[1]
    step = 1e-5
    sides = [[density(position + side * e)[0] for side in (step, -step)] for e in np.eye(len(position))]
    differences = np.array([up - down for up, down in sides]) / (2 * step)
    assert_allclose(differences, gradient, atol=1e-7 * np.abs(gradient).max())


@pytest.mark.parametrize("case", FAMILIES[:-1], ids=name)
def test_the_prior_of_a_loading_is_proper_and_peaks_at_its_value(case):
    """Pseudo-observations: the conjugate density has a finite integral and its mode where the mean is their value."""
    family, phi = case
    value = family.mean(np.array([0.3]))

    def density(t):
        return float(np.exp(3.0 * family.evaluate(value, np.array([t]), phi, order=0).value[0]))

    assert 0 < quad(density, -40, 40, points=[-2, 0, 2], limit=400)[0] < np.inf
    slope = family.evaluate(value, np.array([0.3]), phi, order=1).gradient
    assert_allclose(slope, 0.0, atol=1e-12)


@pytest.mark.parametrize(
    ("family", "phi", "formula"),
    [
        (Bernoulli(), 1.0, lambda t: 1.2 * t - 4 * np.logaddexp(0, t)),
        (Poisson(), 1.0, lambda t: 1.2 * t - 4 * np.exp(t)),
        (Gamma(), 0.2, lambda t: (-1.2 * np.exp(-t) - 4 * t) / 0.2),
        (
            NegativeBinomial(),
            0.25,
            lambda t: 1.2 * (t - np.log(4)) - (1.2 + 16) * np.logaddexp(0, t - np.log(4)),
        ),
    ],
    ids=["bernoulli", "poisson", "gamma", "negative_binomial"],
)
def test_pseudo_observations_are_the_conjugate_prior(family, phi, formula):
    """``lambda t - nu A(t)`` with lambda = 1.2 and nu = 4 is the likelihood of 4 observations of 0.3."""
    t = np.linspace(-2, 2, 9)
    found = 4 * family.evaluate(np.full(9, 0.3), t, phi, order=0).value
    difference = found - formula(t)
    assert_allclose(difference, difference[0], atol=1e-10)


@pytest.mark.parametrize("case", GIBBS, ids=name)
def test_the_augmentation_integrates_to_the_likelihood(case):
    """``E exp(kappa psi - omega psi^2 / 2)`` under the weights at psi = 0 is the likelihood up to a constant."""
    family, phi = case
    x, rng = np.array([[1.0, 0.0]]), np.random.default_rng(0)
    terms = augment(family, x, np.full(2, phi))
    eta = np.linspace(-1, 1, 5)[:, None, None] * np.ones((1, 2))
    weights = terms.draw_weights(np.broadcast_to(-terms.shift, (40_000, 1, 2)), rng)
    psi = eta + terms.shift
    found = [np.log(np.exp(-0.5 * weights * one**2).mean(axis=0)) + terms.kappa * one for one in psi]
    exact = family.evaluate(np.broadcast_to(x, eta.shape), eta, phi, order=0).value
    difference = np.array(found) - exact
    assert_allclose(difference - difference[0], 0.0, atol=0.02)


@pytest.mark.parametrize("family", [Gaussian(), LogNormal()], ids=["gaussian", "log_normal"])
def test_normal_columns_are_quadratic_on_their_own_scale(family):
    x, phi, eta = np.array([[0.5, 2.0, 3.0]]), np.array([0.5, 1.0, 2.0]), np.array([[0.3, -1.0, 2.0]])
    terms = augment(family, x, phi)
    assert_allclose(terms.kappa - terms.weight * eta, family.evaluate(x, eta, phi, order=1).gradient)


def test_poisson_columns_have_no_augmentation_and_nearly_poisson_ones_neither():
    x = np.ones((2, 2))
    assert augment(Poisson(), x, np.ones(2)) is None
    assert augment(NegativeBinomial(), x, np.full(2, 1e-6)) is None
    mixed = Mixed((Gaussian(), Bernoulli()), (0, 1))
    assert_array_equal(augment(mixed, x, np.ones(2)).is_drawn, [False, True])


def test_normal_draws_have_their_moments():
    rng = np.random.default_rng(0)
    precision = np.array([[2.0, 0.6], [0.6, 1.0]])
    draws = draw_normal(np.tile(precision, (50_000, 1, 1)), np.tile([1.0, -1.0], (50_000, 1)), rng)
    covariance = np.linalg.inv(precision)
    assert_allclose(draws.mean(axis=0), covariance @ [1.0, -1.0], atol=0.02)
    assert_allclose(np.cov(draws.T), covariance, atol=0.03)


@pytest.mark.parametrize("n_fixed", [0, 1])
@pytest.mark.parametrize("case", GIBBS, ids=name)
def test_gibbs_draws_leave_the_density_as_it_is(case, n_fixed):
    """Geweke: sweeps that alternate with new tables keep the prior of the factors."""
    family, phi = case
    density = table(family, phi, n=4, n_fixed=n_fixed)
    chains, rng, m = 800, np.random.default_rng(3), K + n_fixed
    prior = density.prior
    draw = _draw_prior(family, phi, prior, chains, rng, n=4)
    start = draw
    for _ in range(3):
        eta = draw.scores @ draw.loadings.swapaxes(1, 2) + draw.fixed.sum(axis=-1)[:, None, :]
        draw = _sweep_each(density, family.sample(eta, density.dispersion, rng), draw, rng)
    for before, after in [
        (expit(start.joint), expit(draw.joint)),
        (start.mean, draw.mean),
        (np.log(start.variance), np.log(draw.variance)),
        (np.tanh(start.scores), np.tanh(draw.scores)),
    ]:
        for power in (1, 2):
            a, b = before**power, after**power
            error = np.sqrt((a.var(axis=0) + b.var(axis=0)) / chains)
            z = (a.mean(axis=0) - b.mean(axis=0)) / error
            assert np.abs(z).max() < 4.5
    assert draw.joint.shape == (chains, P, m)


def _draw_prior(family, phi, prior, chains, rng, n):
    """Factors from their prior; loadings by their density on a grid."""
    grid = np.linspace(-25, 25, 20_001)
    joint = np.empty((chains, P, len(prior.value)))
    for a, (values, weight) in enumerate(zip(prior.value, prior.weight[:, 0], strict=True)):
        for j in range(P):
            logs = weight * family.evaluate(np.full(len(grid), values[j]), grid, phi, order=0).value
            mass = np.cumsum(np.exp(logs - logs.max()))
            joint[:, j, a] = np.interp(rng.random(chains), mass / mass[-1], grid)
    variance = prior.rate / rng.standard_gamma(prior.shape, (chains, K))
    mean = rng.standard_normal((chains, K)) * np.sqrt(prior.mean_variance)
    scores = mean[:, None] + rng.standard_normal((chains, n, K)) * np.sqrt(variance)[:, None]
    return Factors(scores, joint, mean, variance)


def _sweep_each(density, tables, draws, rng):
    """One sweep of each chain on a table of its own."""
    swept = []
    for x, *factors in zip(tables, *draws, strict=True):
        rows = density.rows
        own = FactorDensity(
            density.family,
            OpenedBlock(Table(x, None), None, None, None, rows.features, P, rows.dtype, rows.numbers),
            density.dispersion,
            density.prior,
            K,
        )
        swept.append(make_gibbs(own).sweep(Factors(*factors), rng))
    return Factors(*(np.array(part) for part in zip(*swept, strict=True)))


def fit(X, n_components=2, **settings):
    """Short chains, without a word about R-hat, for which they are too short."""
    chosen = {"n_draws": 40, "n_tune": 40, "n_chains": 2, **settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return BEPCA(n_components, **chosen).fit(X)


@pytest.fixture(scope="module")
def bits():
    return make_prototype_bits(missing=0.1, random_state=11)


@pytest.fixture(scope="module")
def model(bits):
    return fit(bits.X, 6, family="bernoulli", fit_intercept=False, n_draws=120, n_tune=80, random_state=1)


def test_bits_are_predicted_nearly_as_by_the_truth(model, bits):
    rows, columns = np.nonzero(np.isnan(bits.X))
    found = model.entry_log_likelihood(bits.X, rows, columns, bits.complete[rows, columns])
    truth = np.where(bits.complete == 1, bits.mean, 1 - bits.mean)[rows, columns]
    assert found.mean() > np.log(truth).mean() - 0.1
    filled = model.impute(bits.X)[rows, columns]
    assert_allclose(
        np.where(bits.complete[rows, columns] == 1, filled, 1 - filled), np.exp(found), atol=1e-10
    )


def test_bic_finds_the_number_of_prototypes(model):
    assert model.rank_ == 3
    assert sorted(model.bic_by_rank_) == list(range(7))


def test_five_hundred_sweeps_of_ten_components_take_less_than_two_seconds(bits):
    family = Bernoulli()
    observed = ~np.isnan(bits.X)
    rows = OpenedBlock(
        Table(np.where(observed, bits.X, 1.0), observed),
        None,
        None,
        None,
        np.zeros((120, 0)),
        16,
        np.dtype(float),
        np.arange(120),
    )
    prior = FactorPrior(np.full((10, 16), 0.5), np.full((10, 1), 4.0), 10.0, 2.5)
    density = FactorDensity(family, rows, np.ones(16), prior, 10)
    rng = np.random.default_rng(0)
    start = Factors(rng.standard_normal((120, 10)), np.zeros((16, 10)), np.zeros(10), np.ones(10))
    began = time.process_time()
    for _ in make_gibbs(density).run(start, 100, rng):
        pass
    assert (
        time.process_time() - began < 0.4 * 3
    )  # a fifth of 500 sweeps in 2 s, on a machine three times slower


def test_rows_agree_with_the_chains(model, bits):
    """Averages over 64 draws, each integrated on its own, and those of all draws of the chain."""
    draws = model.posterior_.posterior
    assert draws["scores"].shape == (2, 120, 120, 6)
    assert_allclose(
        np.abs(
            np.corrcoef(draws["scores"].values.mean(axis=(0, 1))[:, 0], model.transform(bits.X)[:, 0])[0, 1]
        ),
        1.0,
        atol=0.01,
    )
    expected = draws["expected"].values.mean(axis=(0, 1))
    chosen = np.unique(np.linspace(0, 120 * 16 - 1, 200).round().astype(int))
    block = check_data(bits.X).blocks[0]
    rows = model._row_model()
    found = rows.solve(rows.open(block)).expected.ravel()[chosen]
    assert np.sqrt(np.mean((found - expected) ** 2)) < 0.025


def test_rows_are_averaged_over_at_least_fifty_draws(model):
    assert len(model._row_model().loadings) == N_AVERAGED >= 50
    assert_array_equal(thin(5), np.arange(5))


def test_answers_are_averages_and_not_plugged_in(model, bits):
    """The mean over draws of a bent function is not the function at the mean."""
    scores = model.transform(bits.X)
    eta = model._row_model().predictor(None, scores)
    assert np.abs(model.inverse_transform(scores) - expit(eta)).max() > 0.01
    spread = np.abs(expit(eta) - 0.5) - np.abs(model.inverse_transform(scores) - 0.5)
    assert spread.mean() > 0  # averages are nearer to one half


def test_the_aligned_draws_have_the_predictor_of_the_draws():
    rng = np.random.default_rng(0)
    draws = Factors(
        rng.normal(1, 1, (6, 9, 2)), rng.normal(size=(6, 4, 3)), rng.normal(size=(6, 2)), np.ones((6, 2))
    )
    aligned = align_draws(draws, centre=True)
    before = draws.scores @ draws.loadings.swapaxes(1, 2) + draws.fixed.swapaxes(1, 2)
    after = aligned.draws.scores @ aligned.draws.loadings.swapaxes(1, 2) + aligned.draws.fixed.swapaxes(1, 2)
    assert_allclose(after, before, atol=1e-10)
    assert_allclose(
        (draws.scores - aligned.centre[:, None]) @ aligned.forward, aligned.draws.scores, atol=1e-10
    )
    assert_allclose((aligned.draws.scores**2).mean(axis=1), 1.0, atol=1e-10)
    turned = aligned.reordered(np.array([1, 0]))
    assert_array_equal(turned.draws.scores, aligned.draws.scores[..., ::-1])
    assert_array_equal(turned.forward, aligned.forward[..., ::-1])


def test_the_bic_counts_scores_and_loadings():
    product = np.diag([30.0, 20.0, 1.0, 0.5])
    found = rank_bic(product, 3)
    assert max(found, key=found.get) == 2
    assert_allclose(found[1], -0.5 * (400 + 1 + 0.25) - 0.5 * 7 * np.log(4))
    pair = Factors(np.ones((2, 3, 1)), np.array([1.0, 3.0])[:, None, None] * np.ones((2, 2, 1)), None, None)
    assert_allclose(mean_product(pair), np.full((3, 2), 2.0))


@pytest.mark.parametrize("family", ["poisson", "gamma"])
def test_other_families_are_drawn_by_nuts(family):
    drawn = make_low_rank(30, 6, 1, family=family, signal=1.0, missing=0.1, random_state=0)
    model = fit(drawn.X, 1, family=family)
    assert "diverging" in model.posterior_.sample_stats
    assert np.abs(np.corrcoef(model.transform(drawn.X)[:, 0], drawn.scores[:, 0])[0, 1]) > 0.8
    assert np.isfinite(model.impute(drawn.X)).all()


def test_gibbs_and_nuts_agree():
    """Two samplers of one density; the rms of differences of posterior means is that of the draws' errors."""
    X = make_prototype_bits(2, n_features=6, samples_per_prototype=10, missing=0.1, random_state=3).X
    settings = {"family": "bernoulli", "fit_intercept": False, "random_state": 0}
    gibbs = fit(X, 2, n_draws=600, n_tune=50, **settings)
    nuts = fit(X, 2, sampler="nuts", n_draws=200, n_tune=150, **settings)
    means = [one.posterior_.posterior["expected"].values.mean(axis=(0, 1)) for one in (gibbs, nuts)]
    assert np.sqrt(np.mean((means[0] - means[1]) ** 2)) < 0.03


def test_gaussian_columns_keep_their_units():
    drawn = make_low_rank(40, 5, 1, family="gaussian", signal=1.0, random_state=0)
    scale = np.array([1.0, 10.0, 0.1, 1.0, 1.0])
    plain, scaled = (
        fit(X, 1, family=[Gaussian(float(v)) for v in variances])
        for X, variances in ((drawn.X, np.ones(5)), (drawn.X * scale, scale**2))
    )
    sign = np.sign(scaled.components_[0, 0] * plain.components_[0, 0])  # the largest loading is another
    assert_allclose(sign * scaled.components_, plain.components_ * scale, rtol=1e-6)
    assert_allclose(sign * scaled.transform(drawn.X * scale), plain.transform(drawn.X), rtol=1e-5, atol=1e-6)


def test_the_dispersion_is_given_known_or_estimated():
    drawn = make_low_rank(60, 6, 1, family="gaussian", signal=2.0, random_state=0)
    assert_allclose(fit(drawn.X, 1, family="gaussian").dispersion_, 1.0, atol=0.4)
    assert_allclose(fit(drawn.X, 1, family="gaussian", dispersion=2.5).dispersion_, 2.5)
    assert_allclose(fit(drawn.X, 1, family=Gaussian(0.7), dispersion=2.5).dispersion_, 0.7)


def test_an_intercept_takes_the_means():
    drawn = make_low_rank(60, 6, 1, family="gaussian", intercept=20.0, signal=1.0, random_state=0)
    model = fit(drawn.X, 1, family="gaussian")
    assert_allclose(model.intercept_, drawn.X.mean(axis=0), atol=0.7)
    assert_allclose(model.transform(drawn.X).mean(axis=0), 0.0, atol=0.2)
    assert not fit(drawn.X, 2, family="gaussian", fit_intercept=False).intercept_.any()


def test_new_rows_are_drawn_from_the_predictive_distribution(model, bits):
    drawn = model.sample(4000, random_state=0)
    assert set(np.unique(drawn)) == {0.0, 1.0}
    assert_allclose(drawn.mean(axis=0), np.nanmean(bits.X, axis=0), atol=0.15)


def test_score_samples_are_the_log_of_an_average_probability(model):
    """Probabilities of all rows of bits that differ in two columns sum to that of the rest."""
    X = np.tile(np.random.default_rng(0).integers(0, 2, 16).astype(float), (5, 1))
    X[:4, :2] = [[0, 0], [0, 1], [1, 0], [1, 1]]
    X[4, :2] = np.nan
    found = model.score_samples(X)
    assert_allclose(np.exp(found[:4]).sum(), np.exp(found[4]), rtol=0.1)


def test_the_same_seed_gives_the_same_draws(bits):
    settings = {"family": "bernoulli", "n_draws": 10, "n_tune": 2}
    a, b, c = (fit(bits.X[::4], 2, random_state=seed, **settings) for seed in (5, 5, 6))
    assert_array_equal(a.components_, b.components_)
    assert not np.allclose(a.components_, c.components_)


def test_chains_that_disagree_are_told_of(bits, monkeypatch):
    monkeypatch.setattr(chains, "MAX_R_HAT", 0.5)
    with pytest.warns(ConvergenceWarning, match="chains disagree.*largest R-hat"):
        BEPCA(2, family="bernoulli", n_draws=10, n_tune=5).fit(bits.X)


def test_quantities_that_do_not_vary_do_not_count():
    assert judge(None, np.zeros(3), np.array([np.nan, 1.01])).converged
    assert not judge(None, np.zeros(3), np.array([np.nan, 1.2])).converged


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"family": "poisson", "sampler": "gibbs"}, "sampler='gibbs' is for"),
        ({"n_draws": 5}, "n_draws of at least 10"),
        ({"prior_value": 0.0}, "prior_value must be a mean"),
        ({"n_components": 99}, "n_components=99 is more than"),
        ({"n_components": 0}, "n_components"),
        ({"sampler": "hmc"}, "sampler"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_bad_settings_are_refused(settings, message):
    X = np.random.default_rng(0).poisson(2, (12, 4)).astype(float)
    with pytest.raises(ValueError, match=message):
        BEPCA(**{"family": "poisson", **settings}).fit(X)


def test_draws_beyond_memory_are_refused(bits, monkeypatch):
    monkeypatch.setattr(chains, "_MAX_BYTES", 1000)
    with pytest.raises(ValueError, match="Ask for fewer draws, or use SePCA"):
        BEPCA(2, family="bernoulli").fit(bits.X)

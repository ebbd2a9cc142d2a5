"""VAE: its bound, its start at probabilistic PCA, its likelihood against quadrature, and what it says of rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import check_grad
from scipy.special import logsumexp

from anypca import PPCA, VAE
from anypca.datasets import make_low_rank
from anypca.engine import check_data
from anypca.exceptions import ConvergenceWarning
from anypca.families import Bernoulli, Binomial, Gamma, Gaussian, NegativeBinomial, Poisson, combine, families
from anypca.models._bayes.points import collect_rows
from anypca.models._gaussian.posterior import find_patterns, find_posterior
from anypca.models._gaussian.principal import fit_principal
from anypca.models._opened import open_block
from anypca.models._session import open_session
from anypca.models.vae._fit import _row_model
from anypca.models.vae._model import Model
from anypca.models.vae._posterior import Likelihood, marginal
from anypca.models.vae._start import linear_start, null_inputs, scale_loadings
from anypca.models.vae._training import Judge, improve_dispersion
from anypca.solvers.adam import Adam

pytestmark = pytest.mark.filterwarnings("ignore::anypca.exceptions.ConvergenceWarning")
MIXED = combine([Gaussian(), Poisson(), Bernoulli(), NegativeBinomial(), Gamma(), Gaussian()])
FAMILIES = [*(family for name in families for family in families[name].examples()), MIXED]
FEW = {"max_iter": 15, "score_draws": 30, "random_state": 0, "n_jobs": 1}


def table(family, n=60):
    return make_low_rank(n, 6, 2, family=family, signal=0.8, dispersion=0.3, random_state=0).X


def start(X, k, family, hidden=(5,), **companions):
    with open_session(check_data(X, **companions), n_jobs=1) as session:
        rows = collect_rows(session, fit_intercept=False)
        inputs = null_inputs(session, family, rows)
        return rows, linear_start(inputs, rows, k, hidden, "tanh", np.random.default_rng(0))


def shaken(model: Model, size=0.2) -> Model:
    noise = np.random.default_rng(1).standard_normal(model.vector.size)
    return model.with_vector(model.vector + size * noise)


def with_holes(X):
    holes = X.copy()
    holes[np.arange(len(X)), np.arange(len(X)) % X.shape[1]] = np.nan
    return holes


# ---- the bound


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_the_gradient_of_the_bound_is_its_difference(family):
    weight = np.linspace(0.5, 2.0, 12)
    rows, model = start(
        with_holes(table(family, 12)),
        2,
        family,
        (3,),
        sample_weight=weight,
        offset=np.linspace(-0.2, 0.2, 12),
    )
    model = shaken(model, 0.05)
    noise = np.random.default_rng(2).standard_normal((12, 2))

    def value(vector):
        return float(rows.weights @ model.with_vector(vector).bound(rows, noise[None]))

    def slope(vector):
        return model.with_vector(vector).gradient(rows, noise)

    scale = np.linalg.norm(slope(model.vector))
    assert check_grad(value, slope, model.vector) < 2e-5 * max(scale, 1.0)


def test_the_bound_is_below_the_likelihood_and_equals_it_for_the_exact_posterior():
    X = table(Gaussian())
    rows, model = start(X, 2, Gaussian())
    noise = np.random.default_rng(0).standard_normal((4000, 1, 2)).repeat(len(X), axis=1)
    exact = marginal(
        Likelihood(Gaussian(), model.dispersion, model.decoder), rows, [np.zeros((60, 2))], noise[:1, 0]
    )
    # The posterior of a row is that of the encoder; only the mean over draws is noise.
    assert_allclose(model.bound(rows, noise), exact, atol=0.3)
    assert_allclose(model.bound(rows, noise).mean(), exact.mean(), atol=0.05)
    moved = replace(model, encoder=replace(model.encoder, bias=model.encoder.bias + 0.3))
    assert (moved.bound(rows, noise) < exact).mean() > 0.95


def test_each_row_starts_at_the_likeliest_of_some_points():
    rows, model = start(table(Poisson()), 2, Poisson())
    likelihood = Likelihood(Poisson(), model.dispersion, model.decoder)
    points = np.random.default_rng(5).standard_normal((9, 2))
    best = likelihood.best_of(rows, points)
    heights = likelihood.height(
        rows.take(np.repeat(np.arange(rows.n_rows), 9)), np.tile(points, (len(rows.x), 1))
    ).reshape(-1, 9)
    assert_allclose(likelihood.height(rows, best), heights.max(axis=1), rtol=1e-12)
    assert len(np.unique(best, axis=0)) > 1


# ---- the start


@pytest.mark.parametrize("k", [1, 2, 4])
def test_one_draw_at_the_start_is_the_likelihood_of_probabilistic_pca(k):
    X = 3.0 + 5.0 * table(Gaussian())
    rows, model = start(X, k, Gaussian())
    with open_session(check_data(X), n_jobs=1) as session:
        principal = fit_principal(session, k)[1].shared
        opened = open_block(session.data.blocks[0])
        posterior = find_posterior(opened.table, principal.parameters, find_patterns(None, len(X)))
        one_draw = _row_model(model, np.eye(k), 1, np.random.default_rng(3)).log_likelihood(opened)
    assert_allclose(one_draw, posterior.log_likelihood, rtol=1e-10)
    assert_allclose(model.encode(model.inputs.of(rows)).mean, posterior.mean, atol=1e-10)


@pytest.mark.parametrize(
    "family", [Gaussian(), Poisson(), Bernoulli(), Binomial(5), NegativeBinomial()], ids=str
)
def test_the_start_is_better_than_no_latents(family):
    X = make_low_rank(200, 20, 2, family=family, signal=1.0, random_state=0).X
    rows, model = start(X, 2, family)
    judge = Judge(rows, np.random.default_rng(0).standard_normal((8, 200, 2)))
    nothing = replace(model.decoder, weights=np.zeros_like(model.decoder.weights))
    silent = model.encoder.with_vector(np.zeros(model.encoder.n_parameters))
    null = replace(model, encoder=silent, decoder=nothing)
    chosen = scale_loadings(model, judge)
    assert judge(chosen) > judge(null)
    assert judge(chosen) >= judge(model)
    if family == Gaussian():
        assert_array_equal(chosen.decoder.weights, model.decoder.weights)


def test_a_start_that_is_off_the_scale_is_drawn_in():
    rows, model = start(table(Poisson()), 2, Poisson())
    huge = replace(model, decoder=replace(model.decoder, weights=1e3 * model.decoder.weights))
    judge = Judge(rows, np.random.default_rng(0).standard_normal((2, 60, 2)))
    assert judge(huge) == -np.inf
    assert np.isfinite(judge(scale_loadings(huge, judge)))


# ---- training


def test_adam_is_the_published_one():
    adam = Adam.start(0.1, 2)
    for gradient in ([1.0, -2.0], [0.5, 1.0]):
        adam = adam.after(np.array(gradient))
    mean = 0.9 * 0.1 * np.array([1.0, -2.0]) + 0.1 * np.array([0.5, 1.0])
    square = 0.999 * 0.001 * np.array([1.0, 4.0]) + 0.001 * np.array([0.25, 1.0])
    expected = 0.1 * (mean / (1 - 0.9**2)) / (np.sqrt(square / (1 - 0.999**2)) + 1e-8)
    assert_allclose(adam.step, expected, rtol=1e-12)


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_every_family_is_trained_and_nothing_becomes_infinite(family):
    X = with_holes(table(family))
    model = VAE(2, family=family, hidden_layer_sizes=8, **FEW).fit(X)
    assert (np.diff(model.objective_trace_) >= 0).all()
    assert model.objective_trace_.shape == (model.n_iter_,)
    for found in (
        model.transform(X, return_std=True),
        model.score_samples(X),
        model.impute(X),
        model.sample(5, random_state=0),
        model.components_,
        model.dispersion_,
    ):
        assert np.isfinite(found).all()
    assert 0 <= model.explained_deviance_ratio_.sum() <= 1


def test_one_seed_gives_one_answer():
    X = table(Gaussian())
    one, two, other = (VAE(2, **FEW | {"random_state": seed}).fit(X) for seed in (0, 0, 1))
    assert_array_equal(one.transform(X), two.transform(X))
    assert_array_equal(one.score_samples(X), two.score_samples(X))
    assert_array_equal(one.score_samples(X), one.score_samples(X))
    assert not np.array_equal(one.transform(X), other.transform(X))


def test_a_huge_learning_rate_is_halved_and_the_best_epoch_kept():
    X = table(Poisson())
    model = VAE(2, family="poisson", learning_rate_init=50.0, **FEW).fit(X)
    assert np.isfinite(model.objective_trace_).all()
    assert np.isfinite(model.score_samples(X)).all()


def test_running_out_of_epochs_is_told():
    with pytest.warns(
        ConvergenceWarning, match=r"VAE: stopped at max_iter while the objective .* \(iterations: 3\)"
    ):
        model = VAE(1, max_iter=2, n_iter_no_change=5).fit(table(Gaussian()))
    assert not model.converged_


@pytest.mark.filterwarnings("error::anypca.exceptions.ConvergenceWarning")
def test_training_ends_for_want_of_progress():
    model = VAE(1, hidden_layer_sizes=(), n_iter_no_change=3, max_iter=500, random_state=0).fit(
        table(Gaussian())
    )
    assert model.converged_
    assert "stopped rising" in model.status_
    assert model.n_iter_ < 500


@pytest.mark.parametrize("family", [Gaussian(), NegativeBinomial(), Gamma(), MIXED], ids=str)
def test_dispersion_climbs_to_the_best(family):
    X = make_low_rank(400, 6, 1, family=family, signal=0.5, dispersion=0.3, random_state=0).X
    rows, model = start(X, 1, family)
    wrong = replace(model, dispersion=2.0 * model.dispersion)
    for _ in range(20):
        wrong = replace(wrong, dispersion=improve_dispersion(wrong, rows, np.random.default_rng(0)))
    found = model.encode(model.inputs.of(rows))
    z = found.mean + found.deviation * np.random.default_rng(0).standard_normal(found.mean.shape)
    eta = model.decoder(z)

    def value(change):
        return family.log_likelihood(rows.x, eta, wrong.dispersion * np.exp(change)).sum()

    assert value(0.0) > max(value(-0.05), value(0.05))
    if family == Gaussian():
        assert_allclose(wrong.dispersion, np.mean((X - eta) ** 2), rtol=1e-3)


def test_a_bend_is_found_where_a_plane_misses_it():
    rng = np.random.default_rng(0)
    t = rng.standard_normal((600, 1))
    X = np.hstack([t, np.sin(2.0 * t), 0.5 * t]) + 0.2 * rng.standard_normal((600, 3))
    model = VAE(
        1, family="gaussian", hidden_layer_sizes=16, max_iter=150, learning_rate_init=0.01, random_state=0
    )
    gain = model.fit(X[:400]).score(X[400:]) - PPCA(1).fit(X[:400]).score(X[400:])
    assert gain > 0.3


# ---- rows


@pytest.mark.parametrize("family", [Gaussian(), Poisson(), Binomial(3), MIXED], ids=str)
def test_the_likelihood_is_that_of_quadrature(family):
    X = with_holes(table(family))
    model = VAE(
        2, family=family, **FEW | {"score_draws": 2000, "max_iter": 60, "learning_rate_init": 0.01}
    ).fit(X)
    rows = open_block(check_data(X).blocks[0])
    grid = np.linspace(-7, 7, 141)
    points = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    likelihood = model._row_model().likelihood_of_rows
    terms = family.log_base(rows.x, model.dispersion_)
    if family is MIXED:
        terms = terms + family.log_step(rows.x, model.resolution_)
    base = rows.only_observed(terms).sum(axis=1)
    for i in range(5):
        heights = likelihood.height(rows.take(np.full(len(points), i)), points)
        exact = logsumexp(heights) + 2 * np.log(grid[1] - grid[0]) - np.log(2 * np.pi) + base[i]
        assert abs(model.score_samples(X[i : i + 1])[0] - exact) < 0.1


@pytest.mark.parametrize("family", [Gaussian(), Poisson(), MIXED], ids=str)
def test_scores_are_modes(family):
    X = with_holes(table(family))
    rows, model = start(X, 2, family)
    model = shaken(model, 0.1)
    likelihood = Likelihood(family, model.dispersion, model.decoder)
    modes = likelihood.modes(rows, np.zeros((60, 2)))
    slope = likelihood.slope(rows, modes.points)
    assert_allclose(slope.gradient, 0.0, atol=1e-6)
    # Rows that converge early are left out of later steps; products of fewer rows round otherwise.
    assert_allclose(slope.height, modes.height, rtol=1e-13)
    for a in range(2):
        for step in (-1e-3, 1e-3):
            moved = modes.points + step * np.eye(2)[a]
            assert (likelihood.height(rows, moved) <= modes.height).all()


def test_the_slope_of_the_joint_density_is_its_difference():
    rows, model = start(with_holes(table(MIXED)), 2, MIXED)
    likelihood = Likelihood(MIXED, model.dispersion, shaken(model, 0.1).decoder)
    z = np.random.default_rng(0).standard_normal((60, 2))
    gradient = likelihood.slope(rows, z).gradient
    for a in range(2):
        step = 1e-5 * np.eye(2)[a]
        difference = (likelihood.height(rows, z + step) - likelihood.height(rows, z - step)) / 2e-5
        assert_allclose(gradient[:, a], difference, rtol=1e-5, atol=1e-5)


def test_a_row_does_not_know_its_neighbours_and_containers_agree():
    X = table(Poisson())
    model = VAE(2, family="poisson", **FEW).fit(X)
    assert_allclose(model.transform(X[3:5]), model.transform(X)[3:5], atol=1e-7)
    assert_allclose(model.score_samples(X[3:5]), model.score_samples(X)[3:5], atol=1e-8)
    assert_allclose(model.transform(sparse.csr_array(X)), model.transform(X), atol=1e-12)
    again = VAE(2, family="poisson", **FEW).fit(sparse.csr_array(X))
    assert_allclose(again.transform(X), model.transform(X), atol=1e-6)


def test_offsets_shift_the_predictor():
    rng = np.random.default_rng(0)
    effort = rng.normal(0.0, 1.0, 200)
    Z = rng.standard_normal((200, 1))
    X = rng.poisson(np.exp(effort[:, None] + 1.0 + Z @ rng.standard_normal((1, 6)))).astype(float)
    model = VAE(1, family="poisson", **FEW).fit(X, offset=effort)
    scores = model.transform(X, offset=effort)
    more = model.inverse_transform(scores, offset=effort + 1.0)
    assert_allclose(more, np.e * model.inverse_transform(scores, offset=effort), rtol=1e-10)
    assert abs(np.corrcoef(scores[:, 0], effort)[0, 1]) < 0.4
    with pytest.raises(ValueError, match="was fitted with an offset"):
        model.transform(X)


def test_hidden_entries_are_predicted_better_than_by_means():
    X = make_low_rank(300, 12, 2, family="gaussian", signal=2.0, dispersion=0.3, random_state=0).X
    hide = np.random.default_rng(1).random(X.shape) < 0.2
    holes = np.where(hide, np.nan, X)
    model = VAE(2, family="gaussian", **FEW | {"max_iter": 30}).fit(holes)
    filled, std = model.impute(holes, return_std=True)
    error = (filled - X)[hide]
    assert np.mean(error**2) < 0.4 * np.mean((X - X.mean(axis=0))[hide] ** 2)
    assert 0.6 < np.mean((error / std[hide]) ** 2) < 1.6
    rows, columns = np.nonzero(hide)
    mean, _ = model.entry_posterior(holes, rows, columns)
    # Predictions are kept within three standard deviations of the column.
    limits = model._limits
    assert_allclose(np.clip(mean, limits.low[columns], limits.high[columns]), filled[hide], rtol=1e-8)


def test_latents_lie_along_the_principal_axes_of_the_slopes():
    X = table(Gaussian())
    model = VAE(3, family="gaussian", **FEW).fit(X)
    gram = model.components_ @ model.components_.T  # one dispersion: the noise has the same units everywhere
    assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-8 * gram.max())
    assert (np.diff(np.diag(gram)) <= 0).all()
    assert (np.diff(model.explained_deviance_ratio_) <= 0).all()


def test_samples_look_like_the_table():
    X = make_low_rank(400, 8, 2, family="poisson", signal=0.7, random_state=0).X
    model = VAE(2, family="poisson", **FEW).fit(X)
    drawn = model.sample(20_000, random_state=0)
    assert_allclose(drawn.mean(axis=0), X.mean(axis=0), rtol=0.25)


def test_latents_are_at_most_as_many_as_columns_and_rows_may_be_few():
    assert VAE(9, **FEW).fit(table(Gaussian())).n_components_ == 6
    few = VAE(4, **FEW).fit(table(Gaussian())[:3])
    assert np.isfinite(few.transform(table(Gaussian()))).all()
    with pytest.raises(ValueError, match="VAE needs at least 2 rows"):
        VAE().fit(table(Gaussian())[:1])


def test_constant_columns_and_huge_counts_do_no_harm():
    X = table(Poisson())
    X[:, 0], X[:, 1], X[0, 2] = 0.0, 7.0, 1e6
    model = VAE(2, family="poisson", **FEW).fit(X)
    assert np.isfinite(model.transform(X)).all()
    assert np.isfinite(model.score_samples(X)).all()


def test_a_spread_of_rows_reaches_over_all_of_them():
    rows = open_block(check_data(np.arange(10.0)[:, None]).blocks[0])
    assert_array_equal(rows.spread(4).x[:, 0], [0.0, 3.0, 6.0, 9.0])
    assert len(rows.spread(10).x) == len(rows.spread(99).x) == 10

"""SePCA by sampling: the density, its coordinates, alignment, relevances, and what a fit holds."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from anypca.datasets import make_low_rank
from anypca.engine import check_data
from anypca.families import resolve_family
from anypca.linalg import pack_symmetric
from anypca.models._bayes import chains
from anypca.models._bayes.points import Point, align, collect_rows, take_components
from anypca.models._session import open_session
from anypca.models.sepca import _hmc
from anypca.models.sepca._density import JointDensity, Whitened
from anypca.models.sepca._hmc import evidence_gain, fit_draws
from anypca.models.sepca._posterior import Loadings
from anypca.models.sepca._relevance import update_relevance
from anypca.models.sepca._settings import SamplerSettings, Settings
from anypca.solvers.nuts import NutsOptions, import_sampler, sample_nuts

N, P, K = 12, 5, 2
FAMILIES = ["gaussian", "poisson", "bernoulli", "binomial(8)", "negative_binomial", "exponential", "gamma"]
SHORT = SamplerSettings(n_draws=120, n_tune=60, n_chains=2, max_attempts=1)


def density_of(name, *, rich=False, seed=0):
    """A density on a small table; a rich one has missing entries, weights, offsets and a covariate."""
    rng = np.random.default_rng(seed)
    X = make_low_rank(N, P, K, family=name, dispersion=0.4, missing=0.2 if rich else 0.0, random_state=seed).X
    extra = {}
    if rich:
        extra = {
            "sample_weight": rng.uniform(0.5, 2.0, N),
            "offset": rng.normal(size=(N, P)),
            "covariates": rng.normal(size=(N, 1)),
        }
    with open_session(check_data(X, **extra), 1) as session:
        rows = collect_rows(session, fit_intercept=True)
    family = resolve_family(name, P)
    dispersion = np.full(P, 0.4 if family.fixed_dispersion is None else 1.0)
    fixed = rng.uniform(0.0, 1.0, (P, 2 if rich else 1))
    return JointDensity(family, rows, dispersion, np.array([0.7, 3.0]), fixed)


def point_of(density, seed=1):
    rng = np.random.default_rng(seed)
    m = K + density.fixed_precision.shape[1]
    return Point(rng.normal(size=(N, K)), 0.5 * rng.normal(size=(P, m)))


def numerical_gradient(function, position, step=1e-6):
    def slope(index):
        move = np.zeros_like(position)
        move[index] = step
        return (function(position + move) - function(position - move)) / (2 * step)

    return np.array([slope(index) for index in range(position.size)])


@pytest.mark.parametrize("rich", [False, True], ids=["plain", "rich"])
@pytest.mark.parametrize(
    "name", [*FAMILIES, ["poisson", "bernoulli", "gaussian", "gamma", "poisson"]], ids=str
)
def test_gradient_agrees_with_finite_differences(name, rich):
    density = density_of(name, rich=rich)
    whitened = Whitened.at(density, point_of(density))
    position = np.random.default_rng(2).normal(size=N * K + whitened.centre.joint.size)
    found = whitened(position)[1]
    assert_allclose(found, numerical_gradient(lambda u: whitened(u)[0], position), rtol=1e-5, atol=1e-5)


def test_value_is_the_log_joint_density():
    density = density_of("poisson", rich=True)
    point, rows = point_of(density), density.rows
    eta = np.hstack([point.scores, rows.features]) @ point.joint.T + rows.offset
    terms = np.where(rows.observed, rows.x * eta - np.exp(eta), 0.0)
    expected = rows.weight @ terms.sum(axis=1) - 0.5 * (point.scores**2).sum()
    expected -= 0.5 * (density.alpha * point.loadings**2).sum()
    expected -= 0.5 * (density.fixed_precision * point.fixed**2).sum()
    assert_allclose(density.evaluate(point)[0], expected, rtol=1e-12)


@pytest.mark.parametrize("rich", [False, True], ids=["plain", "rich"])
def test_precisions_are_the_curvatures_of_rows_and_columns(rich):
    density = density_of("poisson", rich=rich)
    point = point_of(density)
    by_row, by_column = density.precisions(point)

    def row_gradient(z):
        return density.evaluate(point._replace(scores=np.vstack([z, point.scores[1:]])))[1].scores[0]

    def column_gradient(w):
        return density.evaluate(point._replace(joint=np.vstack([w, point.joint[1:]])))[1].joint[0]

    assert_allclose(-numerical_gradient(row_gradient, point.scores[0]), by_row[0], rtol=1e-5, atol=1e-5)
    assert_allclose(-numerical_gradient(column_gradient, point.joint[0]), by_column[0], rtol=1e-5, atol=1e-5)


def test_whitened_coordinates_can_be_undone():
    density = density_of("bernoulli", rich=True)
    whitened = Whitened.at(density, point_of(density))
    positions = np.random.default_rng(0).normal(size=(3, N * K + whitened.centre.joint.size))
    assert_allclose(whitened.positions(whitened.restore(positions)), positions, atol=1e-10)


def noisy_copies(n_draws=40, noise=0.05, seed=0):
    """Draws around one point, each in its own latent coordinates."""
    rng = np.random.default_rng(seed)
    scores, loadings, b = (
        rng.normal(size=(30, 3)),
        rng.normal(size=(8, 3)) * [3, 2, 1],
        rng.normal(size=(8, 1)),
    )
    turns = [np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(n_draws)]
    return Point(
        np.stack([(scores + noise * rng.normal(size=scores.shape)) @ turn for turn in turns]),
        np.stack(
            [np.hstack([(loadings + noise * rng.normal(size=loadings.shape)) @ turn, b]) for turn in turns]
        ),
    )


def predictors(draws):
    return draws.scores @ np.swapaxes(draws.loadings, 1, 2) + draws.fixed[..., 0][:, None]


def test_alignment_undoes_rotations():
    draws = noisy_copies()
    aligned = align(draws, Point(draws.scores[0], draws.joint[0]))
    assert_allclose(predictors(aligned), predictors(draws), atol=1e-10)
    assert draws.loadings.std(axis=0).max() > 0.5
    assert aligned.loadings.std(axis=0).max() < 0.15
    mean = aligned.loadings.mean(axis=0)
    assert_allclose(mean.T @ mean, np.diag(np.diag(mean.T @ mean)), atol=1e-9)
    assert (np.diff((mean**2).sum(axis=0)) < 0).all()
    assert (mean[np.abs(mean).argmax(axis=0), np.arange(3)] > 0).all()


def test_relevance_is_equation_8_in_white_coordinates():
    draws = noisy_copies()
    aligned = align(draws, Point(draws.scores[0], draws.joint[0]))
    found = update_relevance(aligned, centre=True)
    moved = found.apply(aligned)
    assert_allclose(predictors(moved), predictors(draws), atol=1e-10)
    assert_allclose(found.alpha, 8 / (moved.loadings**2).sum(axis=1).mean(axis=0), rtol=1e-9)
    flat = moved.scores.reshape(-1, 3)
    assert_allclose(flat.mean(axis=0), 0.0, atol=1e-10)
    assert_allclose(flat.T @ flat / len(flat), np.eye(3), atol=1e-9)


def test_components_can_be_taken():
    draws = noisy_copies(n_draws=2)
    kept = take_components(draws, np.array([0, 2]))
    assert_array_equal(kept.joint, draws.joint[..., [0, 2, 3]])
    assert_array_equal(kept.scores, draws.scores[..., [0, 2]])


def normal_density(position):
    scaled = position / np.array([1.0, 4.0, 0.25]) ** 2
    return -0.5 * float(position @ scaled), -scaled


def test_sampler_has_the_moments_of_a_normal_density_and_a_seed():
    options = NutsOptions(n_draws=400, n_tune=100, n_chains=2)
    starts = np.ones((1, 3))
    found = sample_nuts(normal_density, starts, options, seed=1)
    flat = found.position.reshape(-1, 3)
    assert_allclose(flat.std(axis=0), [1.0, 4.0, 0.25], rtol=0.15)
    assert_allclose(found.log_density[0, 0], normal_density(found.position[0, 0])[0], rtol=1e-10)
    again = sample_nuts(normal_density, starts, replace(options, cores=2), seed=1)
    assert_array_equal(again.position, found.position)


def test_patient_sampler_keeps_one_draw_in_two():
    options = NutsOptions(n_draws=300, n_tune=100, n_chains=2, low_rank=True, thin=2)
    found = sample_nuts(normal_density, np.ones((1, 3)), options, seed=1)
    assert found.position.shape == (2, 300, 3)
    assert found.log_density.shape == found.diverging.shape == found.n_steps.shape == (2, 300)
    assert_allclose(found.log_density[1, -1], normal_density(found.position[1, -1])[0], rtol=1e-10)
    assert_allclose(found.position.reshape(-1, 3).std(axis=0), [1.0, 4.0, 0.25], rtol=0.2)


def test_sampler_accepts_nothing_to_draw():
    found = sample_nuts(normal_density, np.zeros((1, 0)), NutsOptions(7, 5, 3), seed=0)
    assert found.position.shape == (3, 7, 0)


@pytest.mark.parametrize("module", ["nutpie", "arviz"])
def test_missing_modules_are_named_with_the_remedy(monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"pip install 'anypca\[mcmc\]'"):
        import_sampler()


def test_evidence_gain_is_the_savage_dickey_ratio_of_normal_densities():
    v, c, alpha = np.array([[1.0], [-0.5]]), np.array([0.2, 0.4]), 3.0
    precision = np.stack([pack_symmetric(np.array([[1 / one]])) for one in c])
    loadings = Loadings(v, precision, np.array([alpha]), np.ones(2), np.zeros((2, 0)))
    posterior = np.exp(-0.5 * v[:, 0] ** 2 / c) / np.sqrt(2 * np.pi * c)
    prior = np.sqrt(alpha / (2 * np.pi))
    assert_allclose(evidence_gain(loadings), [np.log(prior / posterior).sum()], rtol=1e-12)


def fit_table(X, name, sampling=SHORT, *, max_components=4, callback=lambda _: None, **auxiliary):
    data = check_data(X, **auxiliary)
    rng = np.random.default_rng(0)
    with open_session(data, 1, callback=callback, rng=rng, max_iter=500, tol=1e-4) as session:
        family = resolve_family(name, data.n_features)
        return fit_draws(session, family, Settings(max_components), sampling)


@pytest.fixture(scope="module")
def table():
    drawn = make_low_rank(40, 8, 1, family="gaussian", signal=1.5, missing=0.1, random_state=3)
    rng = np.random.default_rng(0)
    auxiliary = {"offset": rng.normal(size=40), "covariates": rng.normal(size=(40, 1))}
    return drawn, drawn.X + auxiliary["offset"][:, None], auxiliary


@pytest.fixture(scope="module")
def fitted(table):
    _, X, auxiliary = table
    reports = []
    # With 120 draws the largest of some sixty R-hats may be above 1.1 by chance.
    sampling = replace(SHORT, n_draws=240)
    return fit_table(X, "gaussian", sampling, callback=reports.append, **auxiliary), reports


def test_fit_finds_the_dimension_on_its_own(fitted):
    fit, reports = fitted
    assert fit.loadings.n_components == 1
    # Two components were added to the variational ones; both left, one at a time.
    assert [removal.n_components for removal in fit.removals] == [3, 2]
    assert {removal.reason for removal in fit.removals} <= {"relevance", "evidence"}
    assert fit.result.n_iter == len(fit.result.trace) == fit.result.trace.size
    assert reports[-1].max_iter == SHORT.max_rounds
    assert 0 < fit.deviances.full < fit.deviances.null


def test_posterior_has_names_and_dimensions(fitted):
    found = fitted[0].summary.posterior.posterior
    assert found["scores"].dims == ("chain", "draw", "row", "component")
    assert found["loadings"].dims == ("chain", "draw", "component", "feature")
    assert found["intercept"].dims == ("chain", "draw", "feature")
    assert found["coef"].dims == ("chain", "draw", "covariate", "feature")
    assert dict(found.sizes) == {
        "chain": 2,
        "draw": 240,
        "row": 40,
        "component": 1,
        "feature": 8,
        "covariate": 1,
    }


def test_chains_agree_after_alignment(fitted):
    fit = fitted[0]
    assert set(fit.summary.r_hat) == set(fit.summary.ess) == {"scores", "loadings", "intercept", "coef"}
    assert fit.result.criterion == max(values.max() for values in fit.summary.r_hat.values())
    assert fit.result.criterion < 1.1
    assert fit.summary.ess["loadings"].min() > 20
    assert fit.result.converged == (fit.result.criterion <= 1.05)


def test_loadings_are_the_moments_of_the_draws(fitted):
    fit = fitted[0]
    found = fit.summary.posterior.posterior
    draws = np.concatenate(
        [found["loadings"].values, found["intercept"].values[:, :, None], found["coef"].values], axis=2
    ).reshape(-1, 3, 8)
    assert_allclose(fit.loadings.mean.T, draws.mean(axis=0), atol=1e-12)
    assert_allclose(fit.loadings.covariance[2], np.cov(draws[:, :, 2].T), rtol=1e-8)
    assert_allclose(fit.alpha, 8 / (draws[:, :1] ** 2).sum(axis=2).mean(axis=0), rtol=1e-12)


def test_rows_solved_with_the_loadings_agree_with_the_drawn_scores(fitted):
    fit = fitted[0]
    solved = np.concatenate([scores.mean for scores in fit.local])
    drawn = fit.summary.posterior.posterior["scores"].mean(("chain", "draw")).values
    assert_allclose(solved, drawn, atol=0.15)


def test_drawn_predictors_are_near_the_truth_at_missing_entries(fitted, table):
    fit, (drawn, X, auxiliary) = fitted[0], table
    rows, columns = np.nonzero(np.isnan(X))
    found = fit.summary.posterior.posterior
    eta = found["scores"].values @ found["loadings"].values + found["intercept"].values[:, :, None]
    eta += auxiliary["covariates"] @ found["coef"].values + auxiliary["offset"][:, None]
    truth = (drawn.eta + auxiliary["offset"][:, None])[rows, columns]
    assert np.corrcoef(eta.mean(axis=(0, 1))[rows, columns], truth)[0, 1] > 0.9


def test_intercepts_alone_have_their_exact_posterior():
    X = np.random.default_rng(0).normal(3.0, 2.0, size=(50, 4))
    fit = fit_table(X, "gaussian", replace(SHORT, n_draws=300), max_components=0)
    draws = fit.summary.posterior.posterior["intercept"].values.reshape(-1, 4)
    exact = np.sqrt(fit.loadings.dispersion / 50)
    assert_allclose(draws.mean(axis=0), X.mean(axis=0), atol=4 * exact.max() / np.sqrt(300))
    assert_allclose(draws.std(axis=0), exact, rtol=0.2)
    assert fit.summary.posterior.posterior["scores"].shape == (2, 300, 50, 0)


def test_all_components_may_leave(monkeypatch):
    monkeypatch.setattr(_hmc, "_ROUND", NutsOptions(n_draws=15, n_tune=15, n_chains=2))
    X = np.random.default_rng(0).normal(size=(15, 4))
    fit = fit_table(X, "gaussian", SamplerSettings(n_draws=20, n_tune=20, n_chains=2), max_components=2)
    assert fit.loadings.n_components == 0
    assert [removal.n_components for removal in fit.removals] == [2, 1]
    assert fit.summary.posterior.posterior["loadings"].shape == (2, 20, 0, 4)


def test_same_seed_same_draws():
    X = make_low_rank(12, 4, 1, family="poisson", random_state=0).X
    sampling = SamplerSettings(n_draws=10, n_tune=10, n_chains=2, max_rounds=1)
    first, second = (fit_table(X, "poisson", sampling, max_components=1) for _ in range(2))
    assert_array_equal(
        first.summary.posterior.posterior["intercept"].values,
        second.summary.posterior.posterior["intercept"].values,
    )


def test_chains_that_disagree_get_a_second_run(monkeypatch):
    monkeypatch.setattr(_hmc, "MAX_R_HAT", 0.5)
    asked = []
    monkeypatch.setattr(_hmc, "sample_nuts", lambda *a, **k: asked.append(a[2]) or sample_nuts(*a, **k))
    sampling = SamplerSettings(n_draws=10, n_tune=10, n_chains=2)
    fit = fit_table(np.random.default_rng(0).normal(size=(10, 3)), "gaussian", sampling, max_components=0)
    assert [(options.thin, options.low_rank) for options in asked] == [(1, False), (2, True)]
    assert not fit.result.converged
    assert "increase n_draws" in fit.result.status.value


def test_too_few_draws_are_refused():
    with pytest.raises(ValueError, match="n_draws of at least 10"):
        fit_table(np.ones((3, 2)), "gaussian", SamplerSettings(n_draws=9))


def test_a_single_chain_is_compared_with_itself():
    X = np.random.default_rng(0).normal(size=(10, 3))
    fit = fit_table(X, "gaussian", SamplerSettings(n_draws=101, n_tune=50, n_chains=1), max_components=0)
    assert fit.summary.r_hat["intercept"].shape == fit.summary.ess["intercept"].shape == (3,)
    assert 0.9 < fit.result.criterion < 1.5


def test_draws_beyond_memory_are_refused(monkeypatch):
    monkeypatch.setattr(chains, "_MAX_BYTES", 1000)
    with pytest.raises(ValueError, match="Ask for fewer draws, or use inference='vb'"):
        fit_table(np.random.default_rng(0).normal(size=(10, 3)), "gaussian", max_components=0)


def test_large_tables_are_warned_of(monkeypatch):
    monkeypatch.setattr(chains, "_LARGE_TABLE", 10)
    with pytest.warns(UserWarning, match="inference='vb', which takes minutes"):
        fit_table(np.random.default_rng(0).normal(size=(10, 3)), "gaussian", max_components=0)

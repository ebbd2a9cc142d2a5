"""Piecewise PCA, Gaussian: density, gradients, posterior, EM, special cases."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr

from anypca import PPCA, PiecewisePCA
from anypca.engine import check_data
from anypca.exceptions import ConvergenceWarning
from anypca.families import Gaussian
from anypca.models._opened import open_block
from anypca.models._session import open_session
from anypca.models.piecewise._gaussian_ascent import ExactLikelihood, make_chart, sum_rows
from anypca.models.piecewise._pieces import (
    COUPLINGS,
    Coefficients,
    Pieces,
    contract,
    expand,
    make_canonical,
)
from anypca.models.piecewise._problem import GaussianProblem
from anypca.models.piecewise._row_model import GaussianRowModel
from anypca.models.piecewise._settings import Settings, count_parameters


def hinge(n=300, seed=0, corner=0.0, noise=0.1):
    """A sheet bent along one line: z = |x - corner|."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=(n, 2))
    return np.column_stack([w, np.abs(w[:, 0] - corner)]) + noise * rng.normal(size=(n, 3))


def true_pieces(corner=0.0, noise=0.1):
    """The map behind `hinge`: the first latent coordinate is y, t is x."""
    flat = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    left, right = flat.copy(), flat.copy()
    left[2], right[2] = [0.0, -1.0, corner], [0.0, 1.0, -corner]
    return Pieces(np.array([left, right]), noise**2, np.array([corner]))


def random_pieces(coupling, p=4, q=2, breakpoints=(-0.4, 0.6), noise=0.3, seed=1):
    rng = np.random.default_rng(seed)
    edges = np.array(breakpoints)
    size = COUPLINGS[coupling](q, edges).shape[1]
    return Coefficients(rng.normal(size=(p, size)), noise, edges)


def gaps(X, share, seed=0):
    """X with a share of its entries missing, no row empty."""
    rng = np.random.default_rng(seed)
    missing = rng.random(X.shape) < share
    missing[missing.all(axis=1), 0] = False
    return np.where(missing, np.nan, X)


class Bench:
    """A table and a problem, for the parts below the estimator."""

    def __init__(self, X, coupling, q=2, sample_weight=None):
        with open_session(check_data(X, sample_weight=sample_weight), 1) as session:
            self.session = session
        self.problem = GaussianProblem(COUPLINGS[coupling], q, 1e-9)

    def sums(self, shared):
        return sum_rows(self.problem, shared, self.session)

    def value(self, shared):
        return self.sums(shared).log_likelihood


def assert_rises(model, X):
    """The trace of a Gaussian fit, as it is, falls nowhere by more than the log-likelihood's rounding."""
    shared = contract(model._row_model().pieces, COUPLINGS[model.coupling])
    bench = Bench(X, model.coupling, q=model.n_components)
    assert np.diff(model.objective_trace_).min() >= -bench.problem.resolution(shared, bench.sums(shared))


def row_model(pieces):
    return GaussianRowModel(pieces, Gaussian(), np.full(pieces.maps.shape[1], pieces.noise))


def rows_of(pieces, X):
    """The model of some pieces, the rows of a table, and their posteriors."""
    (block,) = check_data(X).blocks
    model, rows = row_model(pieces), open_block(block)
    return model, rows, model.solve(rows)


def log_likelihood(pieces, X):
    return sum(row_model(pieces).log_likelihood(open_block(block)).sum() for block in check_data(X).blocks)


def quadrature(pieces, y, n=161):
    """Log density and posterior moments of one row (NaN missing) with q = 2 on a fine grid.

    The density jumps at the breakpoints, so every slab has its own Gauss-Legendre rule.
    """
    seen = ~np.isnan(y)
    edges = np.clip(pieces.edges, -7, 7)
    first = np.linspace(-7, 7, n)
    total, moments = 0.0, np.zeros(5)
    probability = []
    for k, matrix in enumerate(pieces.maps):
        nodes, weights = np.polynomial.legendre.leggauss(n)
        half = 0.5 * (edges[k + 1] - edges[k])
        t, width = edges[k] + half * (nodes + 1), np.tile(half * weights, n)
        a, b = np.meshgrid(first, t, indexing="ij")
        w = np.stack([a.ravel(), b.ravel()], axis=1)
        fitted = w @ matrix[seen, :-1].T + matrix[seen, -1]
        squares = ((y[seen] - fitted) ** 2).sum(axis=1) / pieces.noise + (w**2).sum(axis=1)
        density = (
            np.exp(-0.5 * squares)
            * (2 * np.pi) ** (-0.5 * seen.sum() - 1)
            * pieces.noise ** (-0.5 * seen.sum())
        )
        mass = density * width * (first[1] - first[0])
        total += mass.sum()
        probability.append(mass.sum())
        moments += [mass @ f for f in (w[:, 0], w[:, 1], w[:, 0] ** 2, w[:, 1] ** 2, w[:, 0] * w[:, 1])]
    return np.log(total), np.array(probability) / total, moments / total


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_density_integrates_to_one(coupling):
    pieces = expand(random_pieces(coupling, p=2, q=1), COUPLINGS[coupling], 1)
    grid = np.linspace(-12, 12, 301)
    points = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 2)
    model = row_model(pieces)
    total = sum(np.exp(model.log_likelihood(open_block(block))).sum() for block in check_data(points).blocks)
    assert total * (grid[1] - grid[0]) ** 2 == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("missing", [False, True], ids=["complete", "gaps"])
def test_posterior_equals_quadrature(coupling, missing):
    pieces = expand(random_pieces(coupling), COUPLINGS[coupling], 2)
    y = np.array([0.7, -0.4, 1.1, 0.2])
    if missing:
        y[1] = np.nan
    model, rows, solved = rows_of(pieces, y[None])
    log_density, probability, moments = quadrature(pieces, y)
    assert model.log_likelihood(rows)[0] == pytest.approx(log_density, abs=1e-8)
    np.testing.assert_allclose(model.probabilities(solved)[0], probability, atol=1e-8)
    np.testing.assert_allclose(model.scores(solved)[0], moments[:2], atol=1e-8)
    np.testing.assert_allclose(model.deviations(solved)[0] ** 2, moments[2:4] - moments[:2] ** 2, atol=1e-8)


@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("share", [0.0, 0.2], ids=["complete", "gaps"])
def test_gradient_of_the_exact_likelihood(coupling, share):
    X = gaps(np.random.default_rng(3).normal(size=(40, 4)), share)
    weight = np.random.default_rng(4).uniform(0.5, 2.0, 40)
    bench = Bench(X, coupling, sample_weight=weight)
    shared = random_pieces(coupling)
    slope = bench.problem.gradient(shared, bench.sums(shared))
    rng, step = np.random.default_rng(5), 1e-5
    direction = rng.normal(size=shared.matrix.shape)

    def along(name, change):
        up, down = (bench.value(replace(shared, **{name: change(sign * step)})) for sign in (1, -1))
        return (up - down) / (2 * step)

    numeric = along("matrix", lambda h: shared.matrix + h * direction)
    assert numeric == pytest.approx(np.vdot(direction, slope.matrix), rel=1e-6)
    assert along("noise", lambda h: shared.noise * np.exp(h)) == pytest.approx(slope.log_noise, rel=1e-6)
    for j, unit in enumerate(np.eye(2)):
        numeric = along("breakpoints", lambda h, unit=unit: shared.breakpoints + h * unit)
        assert numeric == pytest.approx(slope.breakpoints[j], rel=1e-5, abs=1e-4)


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_chart_pulls_the_gradient_back(coupling):
    bench = Bench(np.random.default_rng(3).normal(size=(30, 4)), coupling)
    origin = random_pieces(coupling)
    chart = make_chart(bench.problem, origin, bench.sums(origin), fit_breakpoints=True)
    likelihood = ExactLikelihood(bench.problem, bench.session, chart)
    rng = np.random.default_rng(6)
    point, direction = 0.3 * rng.normal(size=(2, chart.size))
    slope = likelihood.value_and_gradient(point)[1]
    up, down = (likelihood.value_and_gradient(point + h * direction)[0] for h in (1e-5, -1e-5))
    assert (up - down) / 2e-5 == pytest.approx(slope @ direction, rel=1e-5)


@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("share", [0.0, 0.15], ids=["complete", "gaps"])
def test_em_never_decreases_the_likelihood(coupling, share):
    bench = Bench(gaps(hinge(150), share), coupling)
    start = random_pieces(coupling, p=3, breakpoints=(0.0,))
    loop = bench.session.loop(bench.problem, max_iter=60, tol=0.0, accelerate=False)
    trace = loop.run(start)[0].trace
    assert len(trace) >= 60
    assert np.diff(trace).min() > 0


@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("share", [0.0, 0.15], ids=["complete", "gaps"])
def test_trace_of_a_fit_is_monotone_and_ends_at_a_stationary_point(coupling, share):
    X = gaps(hinge(120), share)
    model = PiecewisePCA(coupling=coupling, n_init=2, n_jobs=1).fit(X)
    assert model.converged_
    assert_rises(model, X)
    assert model.objective_trace_[-1] == pytest.approx(model.log_likelihood_, abs=1e-8)
    assert model.score_samples(X).sum() == pytest.approx(model.log_likelihood_, abs=1e-7)


@pytest.mark.parametrize(
    ("scale", "breakpoints"), [(1e-20, "quantile"), (1e-20, "fit"), (1e-12, "quantile"), (1e20, "quantile")]
)
def test_units_do_not_matter(scale, breakpoints):
    X = hinge(150)
    here, there = (PiecewisePCA(breakpoints=breakpoints, n_init=2, n_jobs=1).fit(c * X) for c in (1.0, scale))
    assert_rises(there, scale * X)
    shift = X.size * np.log(scale)
    assert there.log_likelihood_ + shift == pytest.approx(here.log_likelihood_, abs=1e-5)
    np.testing.assert_allclose(there.components_ / scale, here.components_, atol=1e-4)
    assert there.noise_variance_ / scale**2 == pytest.approx(here.noise_variance_, rel=1e-5)


def test_trace_of_tight_fits_rises():
    X = hinge(100, seed=5)
    for tol in (1e-7, 1e-9):
        model = PiecewisePCA(n_init=2, tol=tol, n_jobs=1)
        with warnings.catch_warnings():  # rounding may end the fit before the gradient is that small
            warnings.simplefilter("ignore", ConvergenceWarning)
            assert_rises(model.fit(X), X)


def test_trace_of_rows_on_the_pieces_rises_to_the_noise_floor():
    """The likelihood has no maximum: the noise ends at its floor, a share of 1e-10 of the variance."""
    X = hinge(200, noise=0.0)
    model = PiecewisePCA(n_init=2, n_jobs=1).fit(X)
    assert_rises(model, X)
    assert model.noise_variance_ == pytest.approx(1e-10 * X.var(axis=0).mean(), rel=0.02)


def test_continuous_pieces_meet_at_the_hinge():
    coefficients = random_pieces("continuous")
    pieces = expand(coefficients, COUPLINGS["continuous"], 2)
    for k, c in enumerate(coefficients.breakpoints):
        for first in (-2.0, 0.0, 3.0):
            here, there = (pieces.maps[i] @ [first, c, 1.0] for i in (k, k + 1))
            np.testing.assert_allclose(here, there, atol=1e-14)


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_contract_inverts_expand(coupling):
    coefficients = random_pieces(coupling)
    again = contract(expand(coefficients, COUPLINGS[coupling], 2), COUPLINGS[coupling])
    np.testing.assert_allclose(again.matrix, coefficients.matrix, atol=1e-12)


@pytest.mark.parametrize("q", [1, 2])
@pytest.mark.parametrize("coupling", COUPLINGS)
def test_one_piece_is_ppca(q, coupling):
    X = hinge(120)
    model = PiecewisePCA(q, n_pieces=1, coupling=coupling, n_jobs=1).fit(X)
    ppca = PPCA(q).fit(X)
    n = len(X)
    assert model.log_likelihood_ == pytest.approx(ppca.objective_trace_[-1], abs=1e-8)
    assert model.noise_variance_ == pytest.approx(ppca.noise_variance_ * (n - 1) / n, rel=1e-8)
    lengths = np.linalg.norm(model.components_, axis=1)
    np.testing.assert_allclose(model.components_ / lengths[:, None], ppca.components_, atol=1e-6)


def test_one_piece_with_gaps_is_ppca():
    X = gaps(hinge(150), 0.1)
    model = PiecewisePCA(1, n_pieces=1, tol=1e-7, n_jobs=1).fit(X)
    ppca = PPCA(1, tol=1e-7).fit(X)
    assert model.log_likelihood_ == pytest.approx(ppca.objective_trace_[-1], abs=1e-6)


def test_looser_couplings_fit_at_least_as_well():
    X = hinge(100, seed=3)
    values = [PiecewisePCA(coupling=c, n_init=2, n_jobs=1).fit(X).log_likelihood_ for c in COUPLINGS]
    assert values[0] <= values[1] + 1e-6
    assert values[1] <= values[2] + 1e-6


def test_hinge_is_found():
    X, new = hinge(300, seed=7), hinge(1000, seed=8)
    model = PiecewisePCA(n_init=8, n_jobs=1).fit(X)
    assert model.log_likelihood_ >= log_likelihood(true_pieces(), X)
    assert model.noise_variance_ == pytest.approx(0.01, rel=0.2)
    assert model.score_samples(new).sum() > 1.03 * log_likelihood(true_pieces(), new)  # both negative


def test_breakpoint_is_found():
    model = PiecewisePCA(breakpoints="fit", n_init=6, n_jobs=1).fit(hinge(400, corner=0.4))
    assert model.converged_
    assert model.breakpoints_[0] == pytest.approx(0.4, abs=0.15)
    assert model.n_parameters_ == 3 * 4 + 1 + 1


def test_given_breakpoints_stay():
    model = PiecewisePCA(breakpoints=[0.4], n_init=6, n_jobs=1).fit(hinge(200, corner=0.4))
    assert model.breakpoints_.tolist() == [0.4]


@pytest.mark.parametrize(
    ("coupling", "expected"),
    [("continuous", 8 * 5 - 1), ("shared", 8 * 6 - 1), ("free", 2 * 8 * 4 - 2)],
)
def test_parameter_counts(coupling, expected):
    fixed, fitted = (Settings(3, coupling, np.zeros(1), is_fitted, 1) for is_fitted in (False, True))
    assert count_parameters(fixed, 8) == expected
    assert count_parameters(fitted, 8) == expected + 1


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_parameter_count_of_one_piece_is_that_of_ppca(coupling):
    assert count_parameters(Settings(3, coupling, np.empty(0), False, 1), 8) == 8 * 4 - 3


def test_rotations_and_mirrors_leave_the_density():
    X = hinge(60)
    model = PiecewisePCA(coupling="free", n_init=2, n_jobs=1).fit(X)
    # The canonical form must be the same density as the one that was fitted.
    assert model.score_samples(X).sum() == pytest.approx(model.objective_trace_[-1], abs=1e-7)
    assert np.abs(model.components_).max(axis=1) == pytest.approx(model.components_.max(axis=1))


@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("sign", [1.0, -1.0], ids=["as-it-is", "mirrored"])
def test_canonical_form_tells_whether_it_is_mirrored(coupling, sign):
    coefficients = random_pieces(coupling, breakpoints=(-0.5, 0.5))
    pieces = expand(coefficients, COUPLINGS[coupling], 2)
    pieces, _ = make_canonical(pieces, is_free=coupling == "free", may_mirror=True)
    other = pieces.maps[:: int(sign)] * [1.0, sign, 1.0]
    again, is_mirrored = make_canonical(
        replace(pieces, maps=other), is_free=coupling == "free", may_mirror=True
    )
    assert is_mirrored == (sign < 0)
    np.testing.assert_allclose(again.maps, pieces.maps, atol=1e-12)
    assert not make_canonical(replace(pieces, maps=other), is_free=False, may_mirror=False)[1]


@pytest.mark.parametrize("seed", range(3))
def test_shares_are_mean_probabilities_in_the_order_of_the_pieces(seed):
    rng = np.random.default_rng(seed)
    t = rng.exponential(size=150) - 0.7  # skewed, so that the pieces have different numbers of rows
    X = np.column_stack([t, np.abs(t), rng.normal(size=150)]) + 0.1 * rng.normal(size=(150, 3))
    X *= rng.choice([-1.0, 1.0], 3)  # some fits are mirrored, some are not
    weight = rng.integers(1, 3, 150)
    model = PiecewisePCA(n_init=2, random_state=seed, n_jobs=1).fit(X, sample_weight=weight)
    expected = np.average(model.piece_proba(X), axis=0, weights=weight)
    np.testing.assert_allclose(model.piece_shares_, expected, atol=1e-10)
    assert abs(model.piece_shares_[0] - 0.5) > 0.01


def test_latent_draws_have_the_posterior_moments():
    pieces = expand(random_pieces("free", noise=0.6), COUPLINGS["free"], 2)
    y = np.array([[0.3, -0.2, 0.5, 0.1]])
    model, _, solved = rows_of(pieces, np.repeat(y, 400, axis=0))
    draws = model.draw_latent(solved, 200, np.random.default_rng(0)).reshape(-1, 2)
    mean, std = model.scores(solved)[0], model.deviations(solved)[0]
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 4.5 * std / np.sqrt(len(draws)))
    np.testing.assert_allclose(draws.std(axis=0), std, rtol=0.02)
    share = np.bincount(pieces.piece_of(draws), minlength=3) / len(draws)
    np.testing.assert_allclose(share, model.probabilities(solved)[0], atol=0.01)


def test_draws_in_far_tails_stay_in_their_slab():
    pieces = replace(true_pieces(), breakpoints=np.array([9.0]))
    model, _, solved = rows_of(pieces, np.array([[9.5, 0.0, -9.5], [0.0, 0.0, 0.0]]))
    draws = model.draw_latent(solved, 50, np.random.default_rng(1))
    assert np.all(np.isfinite(draws))


def test_moments_of_entries_equal_simulation():
    pieces = expand(random_pieces("continuous", noise=0.5), COUPLINGS["continuous"], 2)
    y = np.array([[0.4, np.nan, -0.3, np.nan]])
    model, rows, solved = rows_of(pieces, np.repeat(y, 500, axis=0))
    w = model.draw_latent(solved, 100, np.random.default_rng(2)).reshape(-1, 2)
    predictor = pieces.predict(w)
    drawn = predictor + np.sqrt(0.5) * np.random.default_rng(0).normal(size=predictor.shape)
    filled, entries = model.expected(None, rows, solved)[0], (np.zeros(4, dtype=int), np.arange(4))
    mean, variance = model.entry_moments(rows, solved, *entries)
    std = model.entry_deviations(rows, solved, *entries)
    np.testing.assert_allclose(mean, filled, rtol=1e-12)
    np.testing.assert_allclose(std, np.sqrt(variance + 0.5), rtol=1e-12)
    assert np.all(np.abs(predictor.mean(axis=0) - filled) < 5 * std / np.sqrt(len(w)))
    np.testing.assert_allclose(predictor.var(axis=0), variance, rtol=0.04)
    np.testing.assert_allclose(drawn.std(axis=0)[[1, 3]], std[[1, 3]], rtol=0.02)
    # A row whose missing entries no other row shares has the same moments.
    model, alone, solved = rows_of(pieces, y)
    np.testing.assert_allclose(model.entry_moments(alone, solved, *entries), (mean, variance), rtol=1e-12)


def test_samples_have_the_model_density():
    model = PiecewisePCA(n_init=4, n_jobs=1).fit(hinge(300))
    drawn = model.sample(4000, random_state=0)
    values = model.score_samples(drawn)
    expected = model.score_samples(model.sample(4000, random_state=1))
    assert values.mean() == pytest.approx(expected.mean(), abs=5 * values.std() / np.sqrt(4000) * np.sqrt(2))
    assert drawn[:, 2].min() > -1.0  # nothing below the hinge


def test_reconstruction_follows_the_hinge():
    X = hinge(200)
    model = PiecewisePCA(n_init=4, n_jobs=1).fit(X)
    residual = X - model.reconstruct(X)
    assert np.mean(residual**2) < 0.01
    w = model.transform(X)
    sure = model.piece_proba(X).max(axis=1) > 0.999
    np.testing.assert_allclose(model.inverse_transform(w)[sure], model.reconstruct(X)[sure], atol=0.05)
    np.testing.assert_array_equal(model.predict_piece(X), model.piece_proba(X).argmax(axis=1))


def test_pseudo_r2_is_a_share():
    model = PiecewisePCA(n_init=4, n_jobs=1).fit(hinge(200))
    assert 0.0 < model.pseudo_r2_ <= 1.0
    assert model.explained_deviance_ratio_.sum() == pytest.approx(model.pseudo_r2_)
    single = PiecewisePCA(n_pieces=1, n_jobs=1).fit(hinge(200))
    n, variance = 200, single.noise_variance_
    best = -0.5 * 3 * n * np.log(2 * np.pi * variance)
    X = hinge(200)
    worst = best - ((X - X.mean(axis=0)) ** 2).sum() / (2 * variance)
    assert single.pseudo_r2_ == pytest.approx((single.log_likelihood_ - worst) / (best - worst))


def test_criteria_count_parameters():
    model = PiecewisePCA(n_pieces=1, n_jobs=1).fit(hinge(100))
    assert model.n_parameters_ == 3 * 3 + 1 - 1
    assert model.bic_ == pytest.approx(-2 * model.log_likelihood_ + 9 * np.log(100))
    assert model.aic_ == pytest.approx(-2 * model.log_likelihood_ + 18)


def test_select_finds_the_size():
    selection = PiecewisePCA(n_init=4, n_jobs=1).select(hinge(200), n_pieces=[1, 2], n_components=[1, 2])
    assert (selection.n_pieces, selection.n_components) == (2, 2)
    assert len(selection.trials) == 4
    assert selection.best.bic_ == min(trial.bic for trial in selection.trials)


def test_selection_compares_the_fits_themselves():
    X, weight = hinge(120), np.random.default_rng(0).uniform(0.5, 2.0, 120)
    model = PiecewisePCA(n_init=1, n_jobs=1)
    found = model.select(
        X, n_pieces=iter((2, 1)), n_components=iter((1, 2)), criterion="aic", sample_weight=weight
    )
    assert not hasattr(model, "n_components_")
    assert [trial[:2] for trial in found.trials] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    alone = PiecewisePCA(1, n_pieces=2, n_init=1, n_jobs=1).fit(X, sample_weight=weight)
    values = (alone.log_likelihood_, alone.n_parameters_, alone.bic_, alone.aic_)
    assert found.trials[2][2:] == pytest.approx(values)
    assert found.best.aic_ == pytest.approx(min(trial.aic for trial in found.trials))
    assert found.criterion == "aic"
    for empty in ({"n_pieces": ()}, {"n_components": ()}):
        with pytest.raises(ValueError, match="empty grid"):
            model.select(X, **empty)
    with pytest.raises(ValueError, match="'bic' or 'aic'"):
        model.select(X, criterion="icl")


def test_an_empty_piece_is_restarted_and_reported():
    model = PiecewisePCA(1, n_pieces=3, breakpoints=[0.0, 8.0], n_init=2, n_jobs=1)
    with pytest.warns(ConvergenceWarning, match="no rows are left in piece"):
        model.fit(hinge(80))
    assert model.n_restarts_ == 2
    assert np.all(np.isfinite(model.piece_loadings_))
    assert np.isfinite(model.log_likelihood_)


def test_a_row_does_not_depend_on_its_neighbours():
    X = gaps(hinge(100), 0.1)
    model = PiecewisePCA(n_init=2, n_jobs=1).fit(X)
    np.testing.assert_allclose(model.transform(X[:3]), model.transform(X)[:3], atol=1e-10)


def test_weights_count_rows():
    X = hinge(80)
    weight = np.random.default_rng(0).integers(1, 3, 80)
    bench, repeated = Bench(X, "free", sample_weight=weight), Bench(np.repeat(X, weight, axis=0), "free")
    shared = random_pieces("free", p=3)
    assert bench.value(shared) == pytest.approx(repeated.value(shared), rel=1e-12)


def test_weighted_fit_is_the_fit_of_repeated_rows():
    X = hinge(100, seed=4)
    weight = np.random.default_rng(0).integers(0, 3, 100)
    weighted = PiecewisePCA(n_init=4, n_jobs=1).fit(X, sample_weight=weight)
    repeated = PiecewisePCA(n_init=4, n_jobs=1).fit(np.repeat(X, weight, axis=0))
    assert weighted.log_likelihood_ == pytest.approx(repeated.log_likelihood_, abs=1e-3)
    assert weighted.bic_ == pytest.approx(repeated.bic_, abs=1e-3)


def test_prior_probabilities():
    np.testing.assert_allclose(
        expand(random_pieces("free"), COUPLINGS["free"], 2).prior,
        [ndtr(-0.4), ndtr(0.6) - ndtr(-0.4), 1 - ndtr(0.6)],
    )


def test_loadings_have_names():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(hinge(100), columns=["x", "y", "z"])
    table = PiecewisePCA(n_init=2, n_jobs=1).fit(frame).loadings_frame()
    assert list(table.index) == ["x", "y", "z"]
    assert table.columns[0] == ("1: t <= 0", "w1")
    assert table.shape == (3, 6)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"n_pieces": 0}, "n_pieces"),
        ({"n_pieces": 3, "breakpoints": [1.0, 0.0]}, "increasing"),
        ({"n_pieces": 3, "breakpoints": [0.0]}, "needs 2 breakpoint"),
        ({"breakpoints": [np.inf]}, "finite"),
        ({"breakpoints": ["a"]}, "must be numbers"),
        ({"breakpoints": "fitt"}, "Did you mean 'fit'"),
        ({"coupling": "continous"}, "Did you mean 'continuous'"),
        ({"n_components": 3}, "less than the number of columns"),
        ({"family": "gamma", "breakpoints": "fit"}, "family='gaussian'"),
        ({"n_pieces": 40}, "needs at least 120 rows"),
    ],
)
def test_bad_parameters(options, match):
    with pytest.raises(ValueError, match=match):
        PiecewisePCA(**options).fit(np.abs(hinge(50)))


def test_bad_tables():
    with pytest.raises(ValueError, match="constant"):
        PiecewisePCA().fit(np.ones((50, 3)))
    with pytest.raises(ValueError, match="cannot be given as numbers"):
        PiecewisePCA(breakpoints=[0.0]).select(hinge(50))

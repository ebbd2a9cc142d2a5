"""Piecewise PCA of counts: the variational bound, its derivatives, fits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import gammaln, xlogy

from anypca import PiecewisePCA
from anypca.engine import check_data
from anypca.families import Poisson
from anypca.models._opened import open_block
from anypca.models.piecewise._bound import Scores, evaluate, solve_scores
from anypca.models.piecewise._bound import sum_columns as sum_all_columns
from anypca.models.piecewise._pieces import COUPLINGS, Coefficients, Pieces, expand
from anypca.models.piecewise._problem import BoundProblem
from anypca.models.piecewise._row_model import BoundRowModel
from anypca.models.piecewise._slabs import rate_integrals
from anypca.models.piecewise._terms import Counts

Q = 2


def setting(seed=0, n=4, p=5):
    """Counts with offsets and one gap, pieces, and some posteriors."""
    rng = np.random.default_rng(seed)
    pieces = Pieces(0.5 * rng.normal(size=(3, p, Q + 1)), 1.0, np.array([-0.4, 0.6]))
    y = rng.poisson(2.0, (n, p)).astype(float)
    offset = 0.3 * rng.normal(size=(n, p))
    observed = np.ones((n, p), dtype=bool)
    observed[1, 2], y[1, 2] = False, 1.0
    base = -np.where(observed, gammaln(y + 1), 0.0).sum(axis=1)
    counts = Counts(y, observed, offset, base, Poisson(), np.ones(p))
    return counts, pieces, 0.5 * rng.normal(size=(n, Q)), rng.uniform(0.3, 0.8, (n, Q))


def sum_columns(counts, pieces, scores, weight):
    found = sum_all_columns(counts, pieces, scores, weight, np.zeros((len(weight), 0)))
    return found.slope, found.curvature, found.occupancy


def row_model(pieces):
    return BoundRowModel(pieces, Poisson(), np.ones(pieces.maps.shape[1]))


def bent_counts(n=150, seed=0):
    rng = np.random.default_rng(seed)
    w = rng.normal(size=(n, Q))
    loadings = np.array([[1.0, 0.0], [0.0, 0.8], [0.5, 0.5], [-0.6, 0.3], [0.2, -0.7]])
    eta = 1.0 + w @ loadings.T
    eta[:, :3] += np.abs(w[:, 1:])
    return rng.poisson(np.exp(eta)).astype(float)


def quadrature(counts, pieces, m, s, i):
    """The bound of row i: Gauss-Hermite in the first coordinate, midpoints in each slab of t."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()
    edges = np.clip(pieces.edges, m[i, 1] - 9 * s[i, 1], m[i, 1] + 9 * s[i, 1])
    total = 0.0
    for k, matrix in enumerate(pieces.maps):
        t, dt = np.linspace(edges[k], edges[k + 1], 4001, retstep=True)
        t = 0.5 * (t[1:] + t[:-1])
        density = np.exp(-0.5 * ((t - m[i, 1]) / s[i, 1]) ** 2) / (np.sqrt(2 * np.pi) * s[i, 1]) * dt
        for node, weight in zip(nodes, weights, strict=True):
            w = np.column_stack([np.full(len(t), m[i, 0] + s[i, 0] * node), t])
            eta = w @ matrix[:, :-1].T + matrix[:, -1] + counts.offset[i]
            value = (counts.x[i] * eta - np.exp(eta) - gammaln(counts.x[i] + 1)) @ counts.observed[i]
            total += weight * (value @ density)
    return total - 0.5 * (m[i] ** 2 + s[i] ** 2 - 2 * np.log(s[i]) - 1).sum()


def test_bound_equals_quadrature():
    counts, pieces, m, s = setting()
    value = evaluate(counts, pieces, m, s).value
    np.testing.assert_allclose(value[:2], [quadrature(counts, pieces, m, s, i) for i in (0, 1)], atol=1e-5)


def test_expected_rate_of_a_half_line():
    """E[exp(b t) 1(t > 0)] with t ~ N(0.3, 0.6^2), b = -0.8."""
    rates = rate_integrals(np.array([[-0.8, 0.0]]), None, 0.0, np.inf, np.array([[0.3]]), np.array([[0.6]]))
    assert rates.value[0, 0] == pytest.approx(0.44838, abs=1e-5)


@pytest.mark.parametrize("coordinate", range(Q))
def test_gradient_in_the_rows(coordinate):
    counts, pieces, m, s = setting()
    at = evaluate(counts, pieces, m, s)
    step = np.zeros_like(m)
    step[:, coordinate] = h = 1e-6
    in_m = (evaluate(counts, pieces, m + step, s).value - evaluate(counts, pieces, m - step, s).value) / (
        2 * h
    )
    up, down = (evaluate(counts, pieces, m, s * np.exp(sign * step)).value for sign in (1, -1))
    np.testing.assert_allclose(at.slope_m[:, coordinate], in_m, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(at.slope_log_s[:, coordinate], (up - down) / (2 * h), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("piece", range(3))
def test_gradient_and_curvature_in_the_maps(piece):
    counts, pieces, m, s = setting()
    weight = np.array([1.0, 2.0, 0.5, 1.0])
    slope, curvature, _ = sum_columns(counts, pieces, Scores(m, s), weight)
    for column, a in ((0, 0), (2, 1), (4, 2)):
        change = np.zeros_like(pieces.maps)
        change[piece, column, a] = h = 1e-6
        up, down = (replace(pieces, maps=pieces.maps + sign * change) for sign in (1, -1))
        value = [weight @ evaluate(counts, moved, m, s).value for moved in (up, down)]
        assert slope[piece, column, a] == pytest.approx((value[0] - value[1]) / (2 * h), rel=1e-6, abs=1e-7)
        slopes = [sum_columns(counts, moved, Scores(m, s), weight)[0][piece, column] for moved in (up, down)]
        numeric = -(slopes[0] - slopes[1]) / (2 * h)
        np.testing.assert_allclose(curvature[piece, column, a], numeric, rtol=1e-6, atol=1e-7)


def test_mean_has_its_closed_form_at_a_newton_fixed_point():
    """At the optimum over mu the expected rates of a piece sum to its expected counts."""
    counts, pieces, m, s = setting()
    moved = pieces
    for _ in range(30):
        slope, curvature, _ = sum_columns(counts, moved, Scores(m, s), np.ones(4))
        maps = moved.maps.copy()
        maps[:, :, -1] += slope[:, :, -1] / curvature[:, :, -1, -1]
        moved = replace(moved, maps=maps)
    np.testing.assert_allclose(
        sum_columns(counts, moved, Scores(m, s), np.ones(4))[0][:, :, -1], 0, atol=1e-9
    )


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_gradient_in_the_coupled_coefficients(coupling):
    counts, pieces, m, s = setting()
    transfer = COUPLINGS[coupling]
    problem = BoundProblem(transfer, Q, Poisson(), np.ones(5))
    rng = np.random.default_rng(1)
    size = transfer(Q, pieces.breakpoints).shape[1]
    shared = Coefficients(0.4 * rng.normal(size=(5, size)), 1.0, pieces.breakpoints)
    (block,) = check_data(np.where(counts.observed, counts.x, np.nan), offset=counts.offset).blocks
    scores, stats = problem.step(block, shared, Scores(m, s))
    direction = rng.normal(size=shared.matrix.shape)

    def value(h):
        moved = expand(replace(shared, matrix=shared.matrix + h * direction), transfer, Q)
        return evaluate(problem.read(open_block(block), moved), moved, scores.m, scores.s).value.sum()

    numeric = (value(1e-6) - value(-1e-6)) / 2e-6
    assert np.vdot(problem.derivatives(shared, stats)[0], direction) == pytest.approx(numeric, rel=1e-6)


def test_rows_are_stationary_and_independent():
    counts, pieces, _, _ = setting(n=12)
    scores, at = solve_scores(counts, pieces)
    assert np.abs(at.slope_m).max() < 1e-5
    assert np.abs(at.slope_log_s).max() < 1e-5
    alone = solve_scores(counts.take(np.array([3])), pieces)[0]
    np.testing.assert_allclose(alone.m[0], scores.m[3], atol=1e-5)


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_bound_never_decreases(coupling):
    X = bent_counts(100)
    model = PiecewisePCA(family="poisson", coupling=coupling, n_init=2, tol=1e-3, n_jobs=1).fit(X)
    rounding = np.finfo(float).eps * (10 * abs(model.log_likelihood_) + X.size)
    assert np.diff(model.objective_trace_).min() >= -rounding
    assert model.objective_trace_[-1] == model.log_likelihood_
    assert model.converged_
    assert 0 < model.pseudo_r2_ < 1
    assert np.isnan(model.noise_variance_)


def test_shares_pseudo_r2_and_parameters_of_a_weighted_fit_with_offsets_and_gaps():
    rng = np.random.default_rng(3)
    X, offset, weight = bent_counts(100, seed=3), 0.4 * rng.normal(size=(100, 5)), rng.integers(1, 3, 100)
    X[rng.random(X.shape) < 0.1] = np.nan
    for seed in (0, 1):  # one of them is mirrored
        model = PiecewisePCA(family="poisson", n_init=1, tol=1e-3, n_jobs=1, random_state=seed)
        model.fit(X, sample_weight=weight, offset=offset)
        shares = np.average(model.piece_proba(X, offset=offset), axis=0, weights=weight)
        np.testing.assert_allclose(model.piece_shares_, shares, atol=1e-3)  # rows of the fit are at its tol
    seen, y = np.isfinite(X), np.nan_to_num(X)
    w = weight[:, None] * seen
    rate = (w * y).sum(axis=0) / (w * np.exp(offset)).sum(axis=0) * np.exp(offset)
    worst, best = ((w * (xlogy(y, mean) - mean - gammaln(y + 1))).sum() for mean in (rate, y))
    assert model.pseudo_r2_ == pytest.approx((model.log_likelihood_ - worst) / (best - worst), rel=1e-12)
    assert model.explained_deviance_ratio_.sum() == pytest.approx(model.pseudo_r2_)
    assert model.n_parameters_ == 5 * 4  # as for real numbers, without a noise variance
    assert model.bic_ == pytest.approx(-2 * model.log_likelihood_ + 20 * np.log(weight.sum()))


def test_bend_is_seen_in_the_bound():
    X = bent_counts(150)
    bounds = [
        PiecewisePCA(family="poisson", n_pieces=k, n_init=3, tol=1e-3, n_jobs=1).fit(X).bic_ for k in (1, 2)
    ]
    assert bounds[1] < bounds[0]


def test_offsets_are_exposures():
    """Doubling counts' exposure with matching offsets leaves loadings and scores nearly where they were."""
    rng = np.random.default_rng(0)
    exposure = rng.uniform(1.0, 3.0, 120)
    base = bent_counts(120)
    X = rng.poisson(base * exposure[:, None]).astype(float)
    options = {"family": "poisson", "n_pieces": 1, "n_components": 1, "tol": 1e-4, "n_jobs": 1}
    with_offset = PiecewisePCA(**options).fit(X, offset=np.log(exposure))
    plain = PiecewisePCA(**options).fit(X)
    assert with_offset.log_likelihood_ > plain.log_likelihood_
    scores = with_offset.transform(X, offset=np.log(exposure))
    assert scores.shape == (120, 1)
    shifted = PiecewisePCA(**options).fit(X, offset=np.log(exposure) + 1.0)
    np.testing.assert_allclose(shifted.intercept_, with_offset.intercept_ - 1.0, atol=2e-3)
    np.testing.assert_allclose(shifted.components_, with_offset.components_, atol=2e-3)


def test_missing_counts_are_filled():
    X = bent_counts(150, seed=2)
    rng = np.random.default_rng(0)
    gap = rng.random(X.shape) < 0.1
    model = PiecewisePCA(family="poisson", n_init=2, tol=1e-3, n_jobs=1).fit(np.where(gap, np.nan, X))
    filled, std = model.impute(np.where(gap, np.nan, X), return_std=True)
    error = np.abs(np.log1p(filled[gap]) - np.log1p(X[gap])).mean()
    naive = np.abs(np.log1p(np.broadcast_to(X.mean(axis=0), X.shape)[gap]) - np.log1p(X[gap])).mean()
    assert error < 0.8 * naive
    assert np.all(std[gap] > 0)
    assert np.all(std[~gap] == 0)


@pytest.mark.parametrize("width", [1, 5], ids=["by-row", "by-entry"])
def test_moments_of_entries_equal_simulation(width):
    counts, pieces, m, s = setting()
    (block,) = check_data(
        counts.x, offset=counts.offset[:, :width] if width > 1 else counts.offset[:, 0]
    ).blocks
    rows, model, posterior = open_block(block), row_model(pieces), Scores(m, s)
    row, columns = np.full(5, 2), np.arange(5)
    w = model.draw_latent(posterior, 200_000, np.random.default_rng(0))[:, 2]
    eta = pieces.predict(w)
    rates = np.exp(eta + rows.offset[2])
    mean, variance = model.entry_moments(rows, posterior, row, columns)
    assert np.all(np.abs(eta.mean(axis=0) - mean) < 5 * eta.std(axis=0) / np.sqrt(len(eta)))
    np.testing.assert_allclose(eta.var(axis=0), variance, rtol=0.02)
    np.testing.assert_allclose(model.expected(block, rows, posterior)[2], rates.mean(axis=0), rtol=0.02)
    std = model.entry_deviations(rows, posterior, row, columns)
    np.testing.assert_allclose(std, np.sqrt(rates.var(axis=0) + rates.mean(axis=0)), rtol=0.02)


def test_draws_have_the_pieces_probabilities():
    _, pieces, m, s = setting()
    model, posterior = row_model(pieces), Scores(m, s)
    drawn = model.draw_latent(posterior, 20_000, np.random.default_rng(0))
    share = [np.mean(pieces.piece_of(drawn[:, i]) == 1) for i in range(len(m))]
    np.testing.assert_allclose(model.probabilities(posterior)[:, 1], share, atol=0.02)
    np.testing.assert_allclose(model.probabilities(posterior).sum(axis=1), 1.0, atol=1e-12)


def test_samples_follow_the_maps():
    pieces = Pieces(np.array([[[0.0, 1.0], [0.0, 0.0]], [[0.0, 2.0], [0.5, 0.0]]]), 1.0, np.array([0.0]))
    model, rng = row_model(pieces), np.random.default_rng(0)
    w = model.draw_scores(20_000, rng)
    (block,) = check_data(np.zeros((20_000, 2))).blocks
    drawn = model.family.sample(model.predictor(block, w), model.dispersion, rng)
    low = w[:, -1] <= 0
    assert drawn[low, 0].mean() == pytest.approx(np.e, rel=0.03)
    assert drawn[~low, 0].mean() == pytest.approx(np.e**2, rel=0.03)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda X: X * -1.0, "needs values >= 0"),
        (lambda X: X * [0, 1, 1, 1, 1], "constant at 0"),
    ],
    ids=["negative", "zero-column"],
)
def test_bad_counts(change, match):
    with pytest.raises(ValueError, match=match):
        PiecewisePCA(family="poisson").fit(change(bent_counts(60)))


@pytest.mark.parametrize("bad", [np.nan, -np.inf], ids=["nan", "log-zero"])
def test_bad_offsets(bad):
    offset = np.zeros(60)
    offset[3] = bad
    with pytest.raises(ValueError, match="offset"):
        PiecewisePCA(family="poisson").fit(bent_counts(60), offset=offset)


def test_new_rows_need_what_the_fit_had():
    X = bent_counts(60)
    model = PiecewisePCA(1, n_pieces=1, family="poisson", tol=1e-3, n_jobs=1).fit(X, offset=np.zeros(60))
    with pytest.raises(ValueError, match="fitted with an offset"):
        model.transform(X)
    X[2, 1] = -1
    with pytest.raises(ValueError, match=r"X\[2, 1\] is -1"):
        model.transform(X, offset=np.zeros(60))
    assert model.sample(5, offset=np.zeros(5), random_state=0).shape == (5, 5)
    assert model.inverse_transform(np.zeros((2, 1)), offset=np.zeros(2)).min() > 0

"""EM for PPCA with missing entries."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from anypca import PPCA
from anypca.engine import check_data, check_values, executor_for, summarise
from anypca.exceptions import ConvergenceWarning
from anypca.models._gaussian.posterior import Parameters, Patterns, find_patterns, inverse_and_log_determinant
from anypca.models._gaussian.problem import MissingProblem, residual_products
from anypca.solvers import Loop

K = 3


def draw(n, p, *, noise=1.0, seed=0):
    """A table and the parameters it was drawn from."""
    rng = np.random.default_rng(seed)
    truth = Parameters(rng.uniform(-5, 5, p), rng.standard_normal((p, K)), noise**2)
    scores = rng.standard_normal((n, K))
    X = truth.mean + scores @ truth.loadings.T + noise * rng.standard_normal((n, p))
    return X, truth


def punch(X, share, seed=1):
    X = X.copy()
    missing = np.random.default_rng(seed).random(X.shape) < share
    missing[missing.all(axis=1), 0] = False
    X[missing] = np.nan
    return X


def sweep(X, parameters, **kwargs):
    data = check_data(X, **kwargs)
    with executor_for(data, 1) as executor:
        data = check_values(summarise(data, executor), data)
        problem = MissingProblem(1e-12)
        return executor.sweep(lambda block, local: problem.step(block, parameters, local), data)[1]


def run_em(X, start, **kwargs):
    data = check_data(X)
    with executor_for(data, 1) as executor:
        data = check_values(summarise(data, executor), data)
        return Loop(MissingProblem(1e-12), data, executor, max_iter=2000, **kwargs).run(start)[0]


def is_monotone(trace):
    return np.diff(trace).min(initial=0.0) >= -1e-12 * np.abs(trace).max()


@pytest.mark.parametrize(("n", "p"), [(150, 10), (20, 40)], ids=["tall", "wide"])
@pytest.mark.parametrize("accelerate", [True, False], ids=["accelerated", "plain"])
def test_em_on_complete_data_reaches_the_closed_form(n, p, accelerate):
    X, _ = draw(n, p)
    rng = np.random.default_rng(3)
    start = Parameters(np.zeros(p), rng.standard_normal((p, K)), 2.0)
    result = run_em(X, start, tol=1e-7, accelerate=accelerate)
    closed = PPCA(K).fit(X)
    assert result.converged
    assert result.n_iter > 4
    assert is_monotone(result.trace)
    np.testing.assert_allclose(result.trace[-1], closed.objective_trace_[-1], rtol=1e-9)
    axes = np.linalg.svd(result.shared.loadings, full_matrices=False)[0]
    np.testing.assert_allclose(np.abs(closed.components_ @ axes), np.eye(K), atol=1e-4)


def test_one_missing_cell_hardly_changes_the_fit():
    X, _ = draw(500, 10)
    complete = PPCA(K).fit(X)
    X[4, 2] = np.nan
    missing = PPCA(K).fit(X)
    assert missing.n_iter_ > 1
    np.testing.assert_allclose(missing.noise_variance_, complete.noise_variance_, rtol=5e-3)
    np.testing.assert_allclose(missing.explained_variance_, complete.explained_variance_, rtol=5e-3)


def test_imputation_is_as_good_as_with_the_true_parameters():
    full, truth = draw(2000, 20)
    X = punch(full, 0.2)
    missing = np.isnan(X)
    covariance = truth.loadings @ truth.loadings.T + truth.noise * np.eye(20)
    oracle = full.copy()
    for row, gone in zip(oracle, missing, strict=True):
        seen = ~gone
        gain = np.linalg.solve(covariance[np.ix_(seen, seen)], (row - truth.mean)[seen])
        row[gone] = truth.mean[gone] + covariance[np.ix_(gone, seen)] @ gain
    filled = PPCA(K).fit(X).impute(X)
    error, bound = (np.sqrt(np.mean((guess - full)[missing] ** 2)) for guess in (filled, oracle))
    assert error < 1.02 * bound


def gradient(at, sums):
    """Derivatives of the log-likelihood in the mean, the loadings and the logarithm of the noise."""
    slope = residual_products(at, sums) / at.noise
    return slope[:, -1], slope[:, :-1], 0.5 * (sums.squares / at.noise - sums.n_entries)


def test_gradient_of_the_observed_likelihood():
    X = punch(draw(40, 6)[0], 0.3)
    weight = np.random.default_rng(5).uniform(0.5, 2, len(X))
    rng = np.random.default_rng(4)
    at = Parameters(rng.standard_normal(6), rng.standard_normal((6, 2)), 0.7)

    def value(mean, loadings, log_noise):
        return sweep(
            X, Parameters(mean, loadings, float(np.exp(log_noise))), sample_weight=weight
        ).log_likelihood

    log_noise = np.log(at.noise)
    d_mean, d_loadings, d_noise = gradient(at, sweep(X, at, sample_weight=weight))
    step = 1e-5
    for j in range(6):
        shift = step * np.eye(6)[j]
        numeric = value(at.mean + shift, at.loadings, log_noise) - value(
            at.mean - shift, at.loadings, log_noise
        )
        np.testing.assert_allclose(d_mean[j], numeric / (2 * step), rtol=1e-6, atol=1e-5)
        for a in range(2):
            bump = np.zeros((6, 2))
            bump[j, a] = step
            numeric = value(at.mean, at.loadings + bump, log_noise) - value(
                at.mean, at.loadings - bump, log_noise
            )
            np.testing.assert_allclose(d_loadings[j, a], numeric / (2 * step), rtol=1e-6, atol=1e-5)
    numeric = value(at.mean, at.loadings, log_noise + step) - value(at.mean, at.loadings, log_noise - step)
    np.testing.assert_allclose(d_noise, numeric / (2 * step), rtol=1e-6)


def test_fit_is_stationary():
    X = punch(draw(300, 8)[0], 0.3)
    model = PPCA(K, tol=1e-9).fit(X)
    n = len(X)
    ml = Parameters(
        model.mean_,
        model.components_.T * np.sqrt((model.explained_variance_ - model.noise_variance_) * (n - 1) / n),
        model.noise_variance_ * (n - 1) / n,
    )
    stats = sweep(X, ml)
    np.testing.assert_allclose(stats.log_likelihood, model.objective_trace_[-1], rtol=1e-12)
    for derivative in gradient(ml, stats):
        np.testing.assert_allclose(derivative, 0.0, atol=1e-4)


def constant_columns(rng):
    X = rng.standard_normal((80, 8))
    X[:, [1, 5]] = [3.0, 0.0]
    return X


def repeated_columns(rng):
    X = rng.standard_normal((80, 4))
    return np.hstack([X, X])


TABLES = {
    "random": lambda rng: rng.standard_normal((100, 8)),
    "constant columns": constant_columns,
    "low rank, little noise": lambda rng: (
        rng.standard_normal((100, 2)) @ rng.standard_normal((2, 8)) + 1e-3 * rng.standard_normal((100, 8))
    ),
    "repeated columns": repeated_columns,
    "huge": lambda rng: 1e6 * rng.standard_normal((100, 8)) + 1e7,
    "tiny": lambda rng: 1e-9 * rng.standard_normal((100, 8)),
    "unequal scales": lambda rng: rng.standard_normal((100, 8)) * 10.0 ** np.arange(-4, 4),
    "heavy tails": lambda rng: rng.standard_t(1.5, size=(100, 8)),
    "wide": lambda rng: rng.standard_normal((15, 50)),
}


@pytest.mark.usefixtures("uncalibrated")
@pytest.mark.parametrize("share", [0.1, 0.5], ids=["10 %", "50 %"])
@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_objective_never_decreases(table, share):
    X = punch(table(np.random.default_rng(7)), share)
    model = PPCA(K).fit(X)
    assert model.converged_
    assert len(model.objective_trace_) == model.n_iter_
    assert is_monotone(model.objective_trace_)
    filled = model.impute(X)
    assert np.isfinite(filled).all()


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_fit_follows_the_scale_of_the_data(scale):
    X = punch(draw(150, 8)[0], 0.2)
    model, scaled = PPCA(K, tol=1e-8).fit(X), PPCA(K, tol=1e-8).fit(scale * X)
    np.testing.assert_allclose(scaled.noise_variance_, scale**2 * model.noise_variance_, rtol=1e-6)
    np.testing.assert_allclose(scaled.components_, model.components_, atol=1e-6)
    np.testing.assert_allclose(scaled.mean_, scale * model.mean_, rtol=1e-6)


def test_low_rank_tables_are_completed():
    rng = np.random.default_rng(0)
    full = rng.standard_normal((200, 2)) @ rng.standard_normal((2, 15)) + 4.0
    X = punch(full, 0.3)
    np.testing.assert_allclose(PPCA(2).fit(X).impute(X), full, atol=1e-5)


def test_columns_may_be_permuted():
    X = punch(draw(150, 8)[0], 0.2)
    order = np.random.default_rng(0).permutation(8)
    model, permuted = PPCA(K, tol=1e-8).fit(X), PPCA(K, tol=1e-8).fit(X[:, order])
    np.testing.assert_allclose(permuted.components_, model.components_[:, order], atol=1e-6)


def test_block_size_does_not_change_the_statistics():
    X = punch(draw(120, 6)[0], 0.3)
    at = Parameters(np.zeros(6), np.random.default_rng(0).standard_normal((6, 2)), 0.5)
    whole, pieces = sweep(X, at), sweep(X, at, block_rows=7)
    for name in ("log_likelihood", "weight", "n_entries", "squares", "cross", "curvature", "moments"):
        np.testing.assert_allclose(getattr(pieces, name), getattr(whole, name), rtol=1e-10, atol=1e-10)


def test_repeated_patterns_give_the_statistics_of_single_rows():
    X, _ = draw(90, 6)
    X[:30, 0] = np.nan
    X[30:60, 2:4] = np.nan
    observed = ~np.isnan(X)
    patterns = find_patterns(observed, 90)
    assert len(patterns.first) == 3
    np.testing.assert_array_equal(patterns.one_each(observed)[patterns.index], observed)
    at = Parameters(np.zeros(6), np.random.default_rng(0).standard_normal((6, 2)), 0.5)
    block = check_data(X).blocks[0]
    problem = MissingProblem(1e-12)
    grouped, single = problem.step(block, at, None)[1], problem.step(block, at, Patterns(None, None))[1]
    for name in ("log_likelihood", "n_entries", "squares", "cross", "curvature", "moments"):
        np.testing.assert_allclose(getattr(grouped, name), getattr(single, name), rtol=1e-10, atol=1e-10)


def test_unlike_rows_are_not_grouped():
    observed = np.random.default_rng(0).random((50, 20)) < 0.5
    assert find_patterns(observed, 50) == Patterns(None, None)


@pytest.mark.parametrize("condition", [1.0, 1e6], ids=["well", "badly conditioned"])
def test_batched_inverse(condition):
    rng = np.random.default_rng(0)
    roots = rng.standard_normal((40, 5, 9)) * np.linspace(1, np.sqrt(condition), 5)[:, None]
    matrices = roots @ roots.transpose(0, 2, 1)
    untouched = matrices.copy()
    inverse, log_determinant = inverse_and_log_determinant(matrices)
    np.testing.assert_array_equal(matrices, untouched)
    np.testing.assert_allclose(inverse @ matrices, np.broadcast_to(np.eye(5), (40, 5, 5)), atol=1e-7)
    np.testing.assert_allclose(log_determinant, np.linalg.slogdet(matrices)[1], rtol=1e-10)


@pytest.mark.parametrize("n_components", [0.6, "mle", None], ids=["share", "mle", "default"])
def test_number_of_components_with_missing_entries(n_components):
    X, _ = draw(400, 10, noise=0.3)
    complete = PPCA(n_components).fit(X).n_components_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        missing = PPCA(n_components, max_iter=5).fit(punch(X, 0.02)).n_components_
    assert abs(missing - complete) <= 1


def test_running_out_of_iterations_warns():
    X = punch(draw(100, 8)[0], 0.3)
    with pytest.warns(ConvergenceWarning, match=r"PPCA: stopped at max_iter.*iterations: 2"):
        model = PPCA(K, max_iter=2, tol=1e-12).fit(X)
    assert not model.converged_

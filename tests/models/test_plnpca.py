"""PLNPCA as an estimator: what it reports, and what must not change it."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import gammaln
from sklearn.base import clone

from anypca import PLNPCA
from anypca.exceptions import ConvergenceWarning

N, P = 60, 10
TIGHT: dict[str, Any] = {"tol": 1e-7, "max_iter": 5000, "n_jobs": 1}


def draw(seed: int = 0, n: int = N, p: int = P) -> tuple[np.ndarray, dict[str, Any]]:
    """Counts of rank two, and their offset by row and covariate."""
    rng = np.random.default_rng(seed)
    offset, covariate = rng.normal(size=n), rng.normal(size=(n, 1))
    loadings, slope = 0.8 * rng.normal(size=(2, p)), 0.5 * rng.normal(size=(1, p))
    z = offset[:, None] + 1.0 + covariate @ slope + rng.normal(size=(n, 2)) @ loadings
    return rng.poisson(np.exp(z)), {"offset": offset, "covariates": covariate}


X, COMPANIONS = draw()


@pytest.fixture(scope="module")
def model() -> PLNPCA:
    return PLNPCA(2, **TIGHT).fit(X, **COMPANIONS)


@pytest.fixture(scope="module")
def usual() -> PLNPCA:
    return PLNPCA(2, n_jobs=1).fit(X, **COMPANIONS)


def test_reaches_the_maximum_of_lbfgs(model: PLNPCA) -> None:
    k, design = 2, np.column_stack([np.ones(N), COMPANIONS["covariates"]])

    def minus(vector: np.ndarray) -> tuple[float, np.ndarray]:
        rows, columns = vector[: 2 * N * k].reshape(2, N, k), vector[2 * N * k :].reshape(P, k + 2)
        (m, log_s), c, b = rows, columns[:, :k], columns[:, k:]
        s = np.exp(log_s)
        z = COMPANIONS["offset"][:, None] + design @ b.T + m @ c.T
        rates = np.exp(np.minimum(z + 0.5 * s @ (c**2).T, 50.0))
        value = (X * z - rates - gammaln(X + 1)).sum() - 0.5 * (m**2 + s - log_s - 1).sum()
        gap = X - rates
        on_rows = np.stack([gap @ c - m, 0.5 * (1 - s * (1 + rates @ c**2))])
        on_columns = np.hstack([gap.T @ m - (rates.T @ s) * c, gap.T @ design])
        return -value, -np.concatenate([on_rows.ravel(), on_columns.ravel()])

    start = 0.3 * np.random.default_rng(1).normal(size=2 * N * k + P * (k + 2))
    found = minimize(minus, start, jac=True, method="L-BFGS-B", options={"maxiter": 3000, "maxfun": 5000})
    assert model.objective_trace_[-1] >= -found.fun - 1e-3
    np.testing.assert_allclose(model.objective_trace_[-1], -found.fun, atol=0.5)


@pytest.mark.usefixtures("uncalibrated")
@pytest.mark.parametrize("seed", range(4))
def test_bound_never_decreases(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.negative_binomial(0.3, 0.02, size=(30, 12)).astype(float)
    counts[rng.random(counts.shape) < 0.1] = np.nan
    trace = PLNPCA(3, n_jobs=1).fit(counts).objective_trace_
    assert np.diff(trace).min() >= -1e-11 * abs(trace[-1])
    assert np.isfinite(trace).all()


def test_bound_of_rows_sums_to_the_objective(model: PLNPCA) -> None:
    rows = model.score_samples(X, **COMPANIONS)
    np.testing.assert_allclose(rows.sum(), model.objective_trace_[-1], rtol=1e-10)
    np.testing.assert_allclose(model.score(X, **COMPANIONS), rows.mean(), rtol=1e-12)


def log_likelihoods(model: PLNPCA, counts: np.ndarray, fixed: np.ndarray) -> np.ndarray:
    """Exact log-likelihood of rows of a model, by Gauss-Hermite quadrature around the posteriors.

    ``counts`` may hold NaN; ``fixed`` is the predictor without components, both (rows, P).
    """
    k = model.n_components_
    nodes, weight = np.polynomial.hermite_e.hermegauss(50)
    grid = np.stack(np.meshgrid(*[nodes] * k, indexing="ij"), axis=-1).reshape(-1, k)
    logs = np.log(weight / weight.sum())
    logs = sum(np.meshgrid(*[logs] * k, indexing="ij")).ravel()
    loadings, y = model._fit.coefficients.loadings, np.nan_to_num(counts)
    found = []
    for row, base, seen in zip(y, fixed, ~np.isnan(counts), strict=True):
        mode = np.zeros(k)
        for _ in range(100):
            rate = np.exp(base + loadings @ mode) * seen
            curvature = np.eye(k) + (loadings.T * rate) @ loadings
            mode = mode + np.clip(
                np.linalg.solve(curvature, loadings.T @ (row * seen - rate) - mode), -0.5, 0.5
            )
        root = 1.2 * np.linalg.cholesky(np.linalg.inv(curvature))
        w = mode + grid @ root.T
        z = base + w @ loadings.T
        joint = ((row * z - np.exp(z) - gammaln(row + 1)) * seen).sum(axis=1) - 0.5 * (w**2).sum(axis=1)
        proposal = -0.5 * (grid**2).sum(axis=1) - np.log(np.abs(np.linalg.det(root)))
        found.append(np.logaddexp.reduce(logs + joint - proposal))
    return np.array(found)


def test_bound_is_below_the_likelihood(model: PLNPCA) -> None:
    rows = slice(0, 8)
    fixed = (
        COMPANIONS["offset"][rows, None] + model.intercept_ + COMPANIONS["covariates"][rows] @ model.coef_.T
    )
    gap = log_likelihoods(model, X[rows].astype(float), fixed) - model.score_samples(X, **COMPANIONS)[rows]
    assert (gap > 0).all()
    assert (gap < 0.7).all()


def test_components_are_the_svd_of_the_predictor(model: PLNPCA) -> None:
    scores = model.transform(X, **COMPANIONS)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(scores.mean(axis=0), 0.0, atol=1e-4)
    np.testing.assert_allclose(np.cov(scores.T, bias=True), np.diag(model.explained_variance_), atol=1e-4)
    assert np.diff(model.explained_variance_).max() <= 0
    largest = np.abs(model.components_).argmax(axis=1)
    assert (model.components_[[0, 1], largest] > 0).all()
    sizes = np.linalg.svd(scores @ model.components_, compute_uv=False)[:2]
    np.testing.assert_allclose(sizes**2 / N, model.explained_variance_, rtol=1e-4)


def test_scores_of_training_rows_do_not_depend_on_their_neighbours(model: PLNPCA) -> None:
    whole, std = model.transform(X, **COMPANIONS, return_std=True)
    part = {name: values[5:8] for name, values in COMPANIONS.items()}
    alone, alone_std = model.transform(X[5:8], **part, return_std=True)
    np.testing.assert_allclose(alone, whole[5:8], atol=1e-9)
    np.testing.assert_allclose(alone_std, std[5:8], atol=1e-9)
    again = clone(model).fit_transform(X, **COMPANIONS)
    np.testing.assert_allclose(again, whole, atol=1e-9)


def test_latent_covariance(model: PLNPCA) -> None:
    covariance = model.latent_covariance_
    loadings = model._fit.coefficients.loadings
    np.testing.assert_allclose(np.diag(model._fit.second_moment), 1.0, atol=1e-5)
    np.testing.assert_allclose(covariance, loadings @ model._fit.second_moment @ loadings.T, rtol=1e-12)
    assert np.linalg.matrix_rank(covariance, tol=1e-8) == 2


def test_criteria(model: PLNPCA) -> None:
    bound, n_parameters = model.objective_trace_[-1], P * (2 + 2) - 1
    assert model.n_parameters_ == n_parameters
    np.testing.assert_allclose(model.bic_, -2 * bound + n_parameters * np.log(N))
    np.testing.assert_allclose(model.aic_, -2 * bound + 2 * n_parameters)
    np.testing.assert_allclose(model.icl_, model.bic_ + 2 * model.entropy_)
    coefficients, matrix = model._fit.coefficients, model._fit.canonical.gauge.matrix
    mean = model.transform(X, **COMPANIONS) @ np.linalg.inv(matrix)
    fixed = (
        COMPANIONS["offset"][:, None]
        + np.column_stack([np.ones(N), COMPANIONS["covariates"]]) @ coefficients.fixed.T
    )
    loadings = coefficients.loadings
    variance = np.ones((N, 2))
    for _ in range(200):
        variance = 1 / (
            1 + np.exp(fixed + mean @ loadings.T + 0.5 * variance @ (loadings**2).T) @ loadings**2
        )
    entropy = 0.5 * (N * 2 * np.log(2 * np.pi * np.e) + np.log(variance).sum())
    np.testing.assert_allclose(model.entropy_, entropy, rtol=1e-5)


def test_pseudo_r2(model: PLNPCA) -> None:
    from sklearn.linear_model import PoissonRegressor

    means = model.inverse_transform(model.transform(X, **COMPANIONS), **COMPANIONS)
    effort = np.exp(COMPANIONS["offset"])
    null = np.empty(X.shape)
    for j in range(P):
        # Rates with weights are counts with offsets.
        fit = PoissonRegressor(alpha=0.0, tol=1e-10, max_iter=1000)
        null[:, j] = effort * fit.fit(COMPANIONS["covariates"], X[:, j] / effort, effort).predict(
            COMPANIONS["covariates"]
        )

    def likelihood(mu: np.ndarray) -> float:
        return float((X * np.log(np.where(X > 0, mu, 1.0)) - mu).sum())

    least, most = likelihood(null), likelihood(X.astype(float))
    np.testing.assert_allclose(model.pseudo_r2_, (likelihood(means) - least) / (most - least), atol=1e-5)
    np.testing.assert_allclose(model.percent_variance_.sum(), 100 * model.pseudo_r2_)
    np.testing.assert_allclose(model.explained_deviance_ratio_, model.percent_variance_ / 100)
    assert model.pseudo_r2_ <= 1


def as_dask(values: np.ndarray) -> Any:
    return pytest.importorskip("dask.array").from_array(values, chunks=(17, -1))


def as_csr(values: np.ndarray) -> Any:
    return sparse.csr_array(values)


@pytest.mark.parametrize(
    "convert", [as_csr, sparse.csc_matrix, as_dask, np.float32], ids=["csr", "csc", "dask", "float32"]
)
def test_other_forms_of_the_table_give_the_same(usual: PLNPCA, convert: Any) -> None:
    other = clone(usual).fit(convert(X), **COMPANIONS)
    rough = convert is np.float32
    # The order of sums differs between forms, and fits end anywhere within tol.
    tolerance = 2e-2 if rough else 3e-4
    np.testing.assert_allclose(other.components_, usual.components_, atol=tolerance)
    np.testing.assert_allclose(
        other.objective_trace_[-1], usual.objective_trace_[-1], rtol=1e-5 if rough else 1e-7
    )
    scores = other.transform(convert(X), **COMPANIONS)
    assert scores.dtype == (np.float32 if rough else np.float64)
    np.testing.assert_allclose(scores, usual.transform(X, **COMPANIONS), atol=5 * tolerance)


def test_threads_and_blocks_change_nothing() -> None:
    counts, companions = draw(1, n=1300, p=6)
    one = PLNPCA(1, n_jobs=1).fit(counts, **companions)
    two = PLNPCA(1, n_jobs=2).fit(counts, **companions)
    np.testing.assert_allclose(two.components_, one.components_, atol=1e-8)
    np.testing.assert_allclose(two.objective_trace_, one.objective_trace_, rtol=1e-9)


def test_weight_two_is_a_row_twice() -> None:
    weights = np.array([1.0, 2.0, 0.0] * (N // 3))
    repeated = np.repeat(np.arange(N), weights.astype(int))
    weighted = PLNPCA(2, n_jobs=1).fit(X, **COMPANIONS, sample_weight=weights)
    companions = {name: values[repeated] for name, values in COMPANIONS.items()}
    twice = PLNPCA(2, n_jobs=1).fit(X[repeated], **companions)
    np.testing.assert_allclose(weighted.objective_trace_[-1], twice.objective_trace_[-1], rtol=1e-9)
    np.testing.assert_allclose(weighted.components_, twice.components_, atol=1e-5)
    np.testing.assert_allclose([weighted.bic_, weighted.icl_], [twice.bic_, twice.icl_], rtol=1e-9)


@pytest.mark.parametrize("stored", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_missing_entries(stored: Any) -> None:
    rng = np.random.default_rng(2)
    hidden = rng.random(X.shape) < 0.15
    hidden[:, 0] = False
    holes = np.where(hidden, np.nan, X)
    model = PLNPCA(2, n_jobs=1).fit(stored(holes), **COMPANIONS)
    assert model.converged_
    filled = model.impute(stored(holes), **COMPANIONS)
    np.testing.assert_array_equal(filled[~hidden], X[~hidden])
    null = np.exp(COMPANIONS["offset"])[:, None] * (X.sum(axis=0) / np.exp(COMPANIONS["offset"]).sum())
    error = np.abs(np.log1p(filled) - np.log1p(X))[hidden].mean()
    assert error < 0.75 * np.abs(np.log1p(null) - np.log1p(X))[hidden].mean()


def test_bound_with_a_missing_entry_is_below_the_likelihood_of_the_others() -> None:
    model = PLNPCA(1, n_jobs=1).fit(X)
    rows = X[:6].astype(float)
    rows[np.arange(6), np.arange(6)] = np.nan
    gap = log_likelihoods(model, rows, np.broadcast_to(model.intercept_, rows.shape)) - model.score_samples(
        rows
    )
    assert (gap > 0).all()
    assert (gap < 0.1).all()


def test_constant_offset_moves_the_intercept() -> None:
    plain, shifted = PLNPCA(1, **TIGHT).fit(X), PLNPCA(1, **TIGHT).fit(X, offset=np.full(N, 2.5))
    np.testing.assert_allclose(shifted.intercept_ + 2.5, plain.intercept_, atol=1e-5)
    np.testing.assert_allclose(shifted.objective_trace_[-1], plain.objective_trace_[-1], rtol=1e-9)


def test_covariates_explain_what_components_would(model: PLNPCA) -> None:
    without = PLNPCA(2, n_jobs=1).fit(X, offset=COMPANIONS["offset"])
    assert model.objective_trace_[-1] > without.objective_trace_[-1] + 20
    assert model.coef_.shape == (P, 1)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_dependent_covariates_warn_and_change_nothing(fit_intercept: bool) -> None:
    base = COMPANIONS["covariates"]
    plain = PLNPCA(1, fit_intercept=fit_intercept, n_jobs=1).fit(X, covariates=base)
    extra = (
        np.column_stack([base, np.ones(N), 2 * base + 1])
        if fit_intercept
        else np.column_stack([base, -3 * base])
    )
    model = PLNPCA(1, fit_intercept=fit_intercept, n_jobs=1)
    with pytest.warns(UserWarning, match="linear combinations"):
        model.fit(X, covariates=extra)
    np.testing.assert_allclose(model.objective_trace_[-1], plain.objective_trace_[-1], rtol=1e-9)
    np.testing.assert_allclose(model.components_, plain.components_, atol=1e-7)
    np.testing.assert_array_equal(model.coef_[:, 1:], 0.0)
    assert model.n_parameters_ == plain.n_parameters_


def test_path_is_warm_started_and_picks_the_rank() -> None:
    counts, companions = draw(4, n=120, p=12)
    path = PLNPCA(n_jobs=1).path(counts, [3, 1, 2, 2], **companions)
    np.testing.assert_array_equal(path.ranks, [1, 2, 3])
    assert np.diff(path.log_likelihood).min() > 0
    assert np.diff(path.r2).min() > 0
    assert path.select_rank("bic") == 2
    best = path.best("bic")
    assert best.n_components == best.n_components_ == 2
    alone = PLNPCA(2, n_jobs=1).fit(counts, **companions)
    np.testing.assert_allclose(path.log_likelihood[1], alone.objective_trace_[-1], atol=0.5)
    np.testing.assert_allclose(path.bic[1], best.bic_)
    assert best.transform(counts, **companions).shape == (120, 2)
    assert set(path.as_dict()) == {"ranks", "log_likelihood", "n_parameters", "bic", "icl", "aic", "r2"}


def test_samples_have_the_moments_of_the_model() -> None:
    rng = np.random.default_rng(0)
    model = PLNPCA(2, n_jobs=1).fit(
        rng.poisson(np.exp(1.0 + 0.4 * rng.normal(size=(80, 2)) @ rng.normal(size=(2, 5))))
    )
    drawn = model.sample(100_000, random_state=0)
    covariance = model.latent_covariance_
    mean = np.exp(model.intercept_ + 0.5 * np.diag(covariance))
    np.testing.assert_allclose(drawn.mean(axis=0), mean, rtol=0.03)
    excess = np.outer(mean, mean) * np.expm1(covariance)
    np.testing.assert_allclose(np.cov(drawn.T), excess + np.diag(mean), rtol=0.15, atol=0.3)
    assert model.sample(3, random_state=1).shape == (3, 5)


def test_draws_have_the_latent_covariance_that_is_reported() -> None:
    """Three directions of few rows: their posteriors' second moment is not that of the prior, which is I."""
    rng = np.random.default_rng(3)
    counts = rng.poisson(np.exp(0.8 * rng.normal(size=(40, 3)) @ rng.normal(size=(3, 6))))
    model = PLNPCA(3, n_jobs=1).fit(counts)
    n, covariance = 200_000, model.latent_covariance_
    drawn = model._row_model().draw_scores(n, np.random.default_rng(0)) @ model.components_
    size = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    # Correlations of n normal pairs are off by at most sqrt(2 / n) = 0.003; five times that.
    np.testing.assert_allclose(np.cov(drawn.T) / size, covariance / size, atol=0.016)
    loadings = model._fit.coefficients.loadings
    assert np.abs(loadings @ loadings.T - covariance).max() > 0.05 * size.max()


def test_recovers_the_truth() -> None:
    rng = np.random.default_rng(8)
    loadings = np.linalg.qr(rng.normal(size=(20, 2)))[0] * [4.0, 2.0]
    counts = rng.poisson(np.exp(2.0 + rng.normal(size=(500, 2)) @ loadings.T))
    model = PLNPCA(2, n_jobs=1).fit(counts)
    cosines = np.abs(np.sum(model.components_.T * loadings / [4.0, 2.0], axis=0))
    assert cosines.min() > 0.995
    np.testing.assert_allclose(model.explained_variance_, [16.0, 4.0], rtol=0.15)
    np.testing.assert_allclose(model.latent_covariance_, loadings @ loadings.T, atol=0.6)


def test_survives_pickling(model: PLNPCA) -> None:
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(X, **COMPANIONS), model.transform(X, **COMPANIONS))


def test_runs_out_of_iterations_aloud() -> None:
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model = PLNPCA(2, max_iter=3, n_jobs=1).fit(X)
    assert not model.converged_
    assert model.n_iter_ == 3


HARD = {
    "zero column": np.column_stack([X, np.zeros(N)]),
    "zero row": np.vstack([X, np.zeros((1, P))]),
    "huge counts": X * 10**6,
    "one column": X[:, :1],
    "constant": np.full((10, 4), 7),
    "all zero but one": np.eye(6)[:, :3] * [1, 0, 0] + [[0, 0, 0]] * 6,
    "fewer rows than columns": X[:4],
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("counts", HARD.values(), ids=HARD.keys())
def test_hard_tables_stay_finite(counts: np.ndarray) -> None:
    model = PLNPCA(1, n_jobs=1, max_iter=300).fit(counts)
    trace = model.objective_trace_
    assert np.diff(trace).min(initial=0.0) >= -1e-10 * abs(trace[-1]) - 1e-9
    assert np.isfinite(model.transform(counts)).all()
    assert np.isfinite(model.components_).all()
    assert model.pseudo_r2_ <= 1.0


BAD = {
    "negative": (lambda: PLNPCA().fit(X - 1000), "needs values >= 0"),
    "negative new rows": (lambda: PLNPCA(1, n_jobs=1).fit(X).transform(-X), "needs values >= 0"),
    "nan offset": (lambda: PLNPCA().fit(X, offset=np.full(N, np.nan)), r"offset\[0\] is nan"),
    "log of zero": (lambda: PLNPCA().fit(X, offset=np.full(N, -np.inf)), "the logarithm of 0"),
    "short offset": (lambda: PLNPCA().fit(X, offset=np.zeros(3)), "offset must have shape"),
    "nan covariates": (lambda: PLNPCA().fit(X, covariates=np.full(N, np.nan)), "covariates"),
    "too many components": (lambda: PLNPCA(11).fit(X), "Choose at most 10"),
    "no offset for new rows": (
        lambda: PLNPCA(1, n_jobs=1).fit(X, offset=np.zeros(N)).transform(X),
        "fitted with an offset",
    ),
    "no components": (lambda: PLNPCA(0).fit(X), "n_components"),
    "true as a number": (lambda: PLNPCA(True).fit(X), "must be a number"),
    "empty ranks": (lambda: PLNPCA().path(X, []), "ranks is empty"),
    "large rank": (lambda: PLNPCA().path(X, [1, 99]), "from 1 to min"),
    "unknown criterion": (lambda: PLNPCA(n_jobs=1).path(X, [1]).best("waic"), "'bic', 'icl', 'aic'"),
    "negative weight": (lambda: PLNPCA().fit(X, sample_weight=-np.ones(N)), "weights must be >= 0"),
}


@pytest.mark.parametrize(("call", "message"), BAD.values(), ids=BAD.keys())
def test_bad_input(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_ranks_that_are_no_integers() -> None:
    with pytest.raises(TypeError, match="integers"):
        PLNPCA().path(X, [1.5])


def test_warnings_point_at_the_caller() -> None:
    with pytest.warns(UserWarning, match="linear combinations") as found:
        PLNPCA(1, n_jobs=1).fit(X, covariates=np.ones(N))
    assert [warning.filename for warning in found] == [__file__]


def test_rows_with_overflowing_rates_get_the_prior(usual: PLNPCA) -> None:
    scores, std = usual.transform(X[:1], offset=[800.0], covariates=[[0.0]], return_std=True)
    assert np.isfinite(scores).all()
    assert np.isfinite(std).all()


def test_fractions_warn() -> None:
    with pytest.warns(UserWarning, match="fractions"):
        PLNPCA(1, n_jobs=1).fit(X + 0.5)

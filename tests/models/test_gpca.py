"""Generalised PCA: known answers, derivatives, missing entries, sparse loadings, the bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.decomposition import PCA

from anypca import GPCA
from anypca.datasets import make_low_rank
from anypca.exceptions import ConvergenceWarning
from anypca.families import Bernoulli, Binomial, Family, Gaussian, Poisson
from anypca.models.gpca._orthonormal import improve, rotate_pairs, threshold_columns
from anypca.models.gpca._projection import Subspace, evaluate, project
from anypca.models.gpca._reader import HoldOut, SaturatedRows, saturated_parameters
from anypca.priors import L1, Group, Prior, Ridge, Scaled, priors

FAMILIES: list[Family] = [Gaussian(), Poisson(), Bernoulli(), Binomial(n_trials=7)]
NAMES = ["gaussian", "poisson", "bernoulli", "binomial(7)"]


def draw(family: str, n: int = 150, p: int = 10, **changes: Any) -> np.ndarray:
    settings = {"signal": 0.8, "intercept": 0.5, "random_state": 0, **changes}
    X = make_low_rank(n, p, 2, family=family, **settings).X
    return X[np.isfinite(X).any(axis=1)]


def fit(X: Any, family: str, n_components: int = 2, *, weight: Any = None, **settings: Any) -> GPCA:
    settings = {"bound": 4.0, **settings}
    return GPCA(n_components, family=family, n_jobs=1, **settings).fit(X, sample_weight=weight)


def angle(found: np.ndarray, expected: np.ndarray) -> float:
    """Sine of the largest angle between the row spaces of two matrices with orthonormal rows."""
    return float(np.linalg.norm(found - found @ expected.T @ expected, 2))


def assert_monotone(model: GPCA) -> None:
    trace = model.objective_trace_
    assert np.diff(trace).min(initial=0.0) >= -1e-10 * (1.0 + np.abs(trace).max())


# Gaussian tables: principal components


@pytest.mark.parametrize("shape", [(200, 8), (20, 40)], ids=["tall", "wide"])
def test_gaussian_is_pca(shape: tuple[int, int]) -> None:
    X = draw("gaussian", *shape, intercept=30.0)
    model, expected = fit(X, "gaussian"), PCA(2).fit(X)
    signs = np.sign(np.sum(model.components_ * expected.components_, axis=1))
    np.testing.assert_allclose(model.components_, expected.components_ * signs[:, None], rtol=0, atol=1e-8)
    np.testing.assert_allclose(model.transform(X), expected.transform(X) * signs, rtol=0, atol=1e-8)
    np.testing.assert_allclose(model.intercept_, expected.mean_, rtol=0, atol=1e-8)
    scores = expected.transform(X)
    np.testing.assert_allclose(
        model.inverse_transform(scores * signs), expected.inverse_transform(scores), atol=1e-8
    )
    ratio = expected.explained_variance_ratio_
    np.testing.assert_allclose(model.explained_deviance_ratio_, ratio, rtol=1e-8)
    np.testing.assert_allclose(model.explained_variance_, expected.explained_variance_, rtol=1e-8)
    assert model.n_iter_ == 1
    assert model.converged_


def test_gaussian_units_do_not_matter() -> None:
    X = draw("gaussian", missing=0.1)
    small, large = fit(X, "gaussian", penalty="l1"), fit(1e6 * X, "gaussian", penalty="l1")
    assert small.n_iter_ == large.n_iter_
    np.testing.assert_allclose(large.components_, small.components_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(large.transform(1e6 * X), 1e6 * small.transform(X), rtol=1e-5, atol=1e-1)


def test_without_main_effects_gaussian_is_an_uncentred_svd() -> None:
    X = draw("gaussian", intercept=2.0)
    model = fit(X, "gaussian", fit_intercept=False)
    axes = np.linalg.svd(X, full_matrices=False)[2][:2]
    assert angle(model.components_, axes) < 1e-8
    np.testing.assert_array_equal(model.intercept_, 0.0)


# The mathematics


@pytest.mark.parametrize(
    ("family", "x", "expected"),
    [
        (Gaussian(), [-9.0, 0.0, 9.0], [-9.0, 0.0, 9.0]),
        (Poisson(), [0.0, 1e-9, 1.0, 1000.0], [-3.0, -3.0, 0.0, np.log(1000.0)]),
        (Bernoulli(), [0.0, 1.0], [-3.0, 3.0]),
        (Binomial(n_trials=4), [0.0, 1.0, 2.0, 4.0], [-3.0, -np.log(3.0), 0.0, 3.0]),
        (Binomial(n_trials=1000), [1.0, 999.0], [-3.0, 3.0]),
    ],
    ids=lambda value: repr(value) if isinstance(value, Family) else "",
)
def test_saturated_parameters(family: Family, x: list[float], expected: list[float]) -> None:
    np.testing.assert_allclose(saturated_parameters(family, np.array(x), 3.0), expected, rtol=1e-12)


def make_rows(family: Family, *, missing: bool) -> tuple[SaturatedRows, Subspace]:
    rng = np.random.default_rng(1)
    n, p, k = 12, 6, 2
    x = family.sample(rng.normal(size=(n, p)), 1.0, rng)
    observed = rng.random((n, p)) < 0.6 if missing else None
    if observed is not None:
        observed[:2] = False  # a row with one entry and a row with none
        observed[0, 1] = True
    U = np.linalg.qr(rng.normal(size=(p, k)))[0]
    rows = SaturatedRows(x, saturated_parameters(family, x, 2.0), observed, None, rng.uniform(0.5, 2.0, n))
    return rows, Subspace(U, 0.3 * rng.normal(size=p), 0.3 * rng.normal(size=p))


@pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])
@pytest.mark.parametrize("family", FAMILIES, ids=NAMES)
def test_gradient_against_finite_differences(family: Family, missing: bool) -> None:
    rows, at = make_rows(family, missing=missing)
    found = evaluate(family, rows, at).gradient
    k, step = at.loadings.shape[1], 1e-6

    def value(table: np.ndarray) -> float:
        # The likelihood is a function of the space: any orthonormal basis of it will do.
        basis = np.linalg.qr(table[:, :k])[0]
        return evaluate(family, rows, Subspace(basis, table[:, k], at.typical)).value

    centre = np.column_stack([at.loadings, at.intercept])
    numeric = np.empty_like(centre)
    for index in np.ndindex(centre.shape):
        shift = np.zeros_like(centre)
        shift[index] = step
        numeric[index] = (value(centre + shift) - value(centre - shift)) / (2 * step)
    np.testing.assert_allclose(found, numeric, rtol=1e-5, atol=1e-5 * np.abs(numeric).max())
    np.testing.assert_allclose(at.loadings.T @ found[:, :k], 0.0, atol=1e-8 * np.abs(found).max())


@pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])
def test_value_depends_on_the_space_alone(missing: bool) -> None:
    rows, at = make_rows(Poisson(), missing=missing)
    turn = np.array([[0.6, 0.8], [-0.8, 0.6]])
    moved = at.intercept + at.loadings @ [0.4, -1.1]
    values = [
        evaluate(Poisson(), rows, Subspace(U, b, at.typical)).value
        for U, b in ((at.loadings, at.intercept), (at.loadings @ turn, at.intercept), (at.loadings, moved))
    ]
    np.testing.assert_allclose(values, values[0], rtol=1e-9)


def test_scores_are_where_filling_in_values_half_way_between_fitted_and_typical_ones_ends() -> None:
    rows, at = make_rows(Poisson(), missing=True)
    assert rows.observed is not None
    several = rows.observed.sum(axis=1) > 3
    filled = np.where(rows.observed, rows.saturated, at.intercept)
    for _ in range(3000):
        scores = (filled - at.intercept) @ at.loadings
        fitted = at.intercept + scores @ at.loadings.T
        filled = np.where(rows.observed, rows.saturated, 0.5 * (fitted + at.typical))
    np.testing.assert_allclose(project(rows, at).scores[several], scores[several], rtol=1e-9, atol=1e-9)


# Fits


@pytest.mark.parametrize("missing", [0.0, 0.2], ids=["complete", "missing"])
@pytest.mark.parametrize("family", NAMES)
def test_fits_are_monotone_consistent_and_reported_as_promised(family: str, missing: float) -> None:
    X = draw(family, missing=missing)
    model = fit(X, family, 3)
    assert_monotone(model)
    assert model.converged_
    assert len(model.objective_trace_) == model.n_iter_
    np.testing.assert_allclose(-2.0 * model.objective_trace_[-1], model.deviance_, rtol=1e-9)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(3), atol=1e-10)
    largest = np.abs(model.components_).argmax(axis=1)
    assert np.all(model.components_[np.arange(3), largest] > 0)
    shares = model.explained_deviance_ratio_
    assert np.all(shares >= 0)
    assert np.all(np.diff(shares) <= 0)
    np.testing.assert_allclose(shares.sum(), 1.0 - model.deviance_ / model.null_deviance_, rtol=1e-9)
    scores = model.transform(X)
    np.testing.assert_allclose(scores.mean(axis=0), 0.0, atol=1e-7 * np.abs(scores).max())
    np.testing.assert_allclose(np.var(scores, axis=0, ddof=1), model.explained_variance_, rtol=1e-6)
    np.testing.assert_allclose(scores, clone(model).fit_transform(X), rtol=1e-12)
    # The scores of the fit are those of transform: they have its deviance.
    eta = model.intercept_ + scores @ model.components_
    seen = np.isfinite(X)
    deviance = model.family_.deviance(np.where(seen, X, 1.0), eta)
    np.testing.assert_allclose(deviance[seen].sum(), model.deviance_, rtol=1e-9)


@pytest.mark.parametrize("family", NAMES)
def test_no_nearby_space_is_better(family: str) -> None:
    X = draw(family, missing=0.1)
    model = fit(X, family, tol=1e-7)
    rng = np.random.default_rng(2)
    x, observed = np.where(np.isnan(X), 1.0, X), np.isfinite(X)
    rows = SaturatedRows(x, saturated_parameters(model.family_, x, 4.0), observed, None, np.ones(len(X)))
    typical = model._fit.subspace.typical
    best = evaluate(model.family_, rows, Subspace(model.components_.T, model.intercept_, typical)).value
    for scale in (1e-3, 1e-2, 1e-1):
        for _ in range(5):
            U = np.linalg.qr(model.components_.T + scale * rng.normal(size=(X.shape[1], 2)))[0]
            b = model.intercept_ + scale * rng.normal(size=X.shape[1])
            assert evaluate(model.family_, rows, Subspace(U, b, typical)).value < best


def test_transform_of_complete_rows_is_a_matrix_product() -> None:
    X = draw("bernoulli")
    model = fit(X, "bernoulli", bound=3.0)
    new = draw("bernoulli", random_state=5)
    expected = (3.0 * (2.0 * new - 1.0) - model.intercept_) @ model.components_.T
    np.testing.assert_allclose(model.transform(new), expected, rtol=0, atol=1e-12)


def test_scores_do_not_depend_on_the_other_rows() -> None:
    X = draw("poisson", missing=0.3)
    model = fit(X, "poisson")
    scores = model.transform(X)
    single = np.vstack([model.transform(row[None]) for row in X[:20]])
    np.testing.assert_allclose(single, scores[:20], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        model.transform(np.full((1, X.shape[1]), np.nan)), model.transform(X[:1]) * 0, atol=20
    )


def test_votes_with_missing_entries() -> None:
    rng = np.random.default_rng(3)
    party = np.where(rng.random((435, 1)) < 0.6, 1.0, -1.0)
    lean = rng.choice([-1.0, 1.0], 16) * rng.uniform(0.5, 3.0, 16)
    full = (rng.random((435, 16)) < 1 / (1 + np.exp(-party * lean))).astype(float)
    X = full.copy()
    X.flat[rng.permutation(X.size)[:392]] = np.nan
    hidden = np.isnan(X)
    assert hidden.sum() == 392
    model = fit(X, "bernoulli")
    assert model.converged_
    assert_monotone(model)
    scores = model.transform(X)
    assert np.all(np.isfinite(scores))
    assert np.mean((scores[:, 0] > 0) == (party[:, 0] * np.sign(scores[:, 0] @ party) > 0)) > 0.97
    means = model.impute(X)
    np.testing.assert_array_equal(means[~hidden], full[~hidden])
    assert np.all((means >= 0) & (means <= 1))
    guess = np.broadcast_to(np.nanmean(X, axis=0), X.shape)
    wrong = [np.mean((values[hidden] > 0.5) != full[hidden]) for values in (means, guess)]
    assert wrong[0] < 0.5 * wrong[1]


@pytest.mark.parametrize(
    ("family", "intercept"), [("gaussian", 0.0), ("poisson", 4.5), ("binomial(30)", 0.0)]
)
def test_known_components_are_recovered(family: str, intercept: float) -> None:
    # Where few entries are at the bound; more of them draw the components to the columns that have them.
    drawn = make_low_rank(
        600, 12, 2, family=family, signal=0.7, dispersion=0.2, intercept=intercept, random_state=3
    )
    model = fit(drawn.X, family, bound=3.0)
    assert angle(model.components_, drawn.components) < 0.15


@pytest.mark.parametrize("family", NAMES)
@pytest.mark.parametrize("penalty", [None, "l1"], ids=["dense", "sparse"])
def test_a_weight_of_two_is_a_row_twice(family: str, penalty: str | None) -> None:
    X = draw(family, 60, missing=0.1)
    weight = np.random.default_rng(4).integers(0, 3, len(X))
    settings: dict[str, Any] = {"tol": 1e-6, "penalty": penalty}
    found, twice = (
        fit(X, family, weight=weight, **settings),
        fit(np.repeat(X, weight, axis=0), family, **settings),
    )
    # Sparse fits may end at neighbouring points: only moves of single columns and rotations of pairs are tried.
    rtol = 1e-8 if penalty is None else 1e-6
    np.testing.assert_allclose(found.objective_trace_[-1], twice.objective_trace_[-1], rtol=rtol)
    np.testing.assert_allclose(found.components_, twice.components_, rtol=0, atol=1e-4)
    np.testing.assert_allclose(found.explained_deviance_ratio_, twice.explained_deviance_ratio_, atol=1e-5)


@pytest.mark.parametrize("penalty", [None, "scad"], ids=["dense", "penalised"])
def test_sparse_single_precision_and_threads_agree(penalty: str | None) -> None:
    X = draw("bernoulli", 2000, 40, intercept=-0.5)  # two blocks
    settings: dict[str, Any] = {"family": "bernoulli", "penalty": penalty, "tol": 1e-6}
    first = GPCA(2, n_jobs=1, **settings).fit(X)
    others = [
        GPCA(2, n_jobs=1, **settings).fit(sp.csr_array(X)),
        GPCA(2, n_jobs=2, **settings).fit(X),
        GPCA(2, n_jobs=1, **settings).fit(X.astype(np.float32)),
    ]
    for other in others:
        np.testing.assert_allclose(other.components_, first.components_, rtol=0, atol=1e-5)
        np.testing.assert_allclose(
            other.explained_deviance_ratio_, first.explained_deviance_ratio_, atol=1e-6
        )
    assert others[2].transform(X.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("family", ["poisson", "bernoulli"])
def test_a_rough_start_leads_to_the_same_fit(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X = draw(family, missing=0.1)
    exact = fit(X, family, tol=1e-7)
    monkeypatch.setattr("anypca.models.gpca._start._DENSE_LIMIT", 1)
    rough = fit(X, family, tol=1e-7)
    np.testing.assert_allclose(rough.objective_trace_[-1], exact.objective_trace_[-1], rtol=1e-9)
    np.testing.assert_allclose(rough.components_, exact.components_, rtol=0, atol=1e-4)


def test_dask_tables_agree() -> None:
    da = pytest.importorskip("dask.array")
    X = draw("bernoulli", missing=0.1)
    first = fit(X, "bernoulli", tol=1e-7)
    other = fit(da.from_array(X, chunks=(40, X.shape[1])), "bernoulli", tol=1e-7)
    np.testing.assert_allclose(other.components_, first.components_, rtol=0, atol=1e-5)


@pytest.mark.parametrize("family", ["poisson", "bernoulli", "binomial(7)"])
@pytest.mark.parametrize("penalty", [None, "l1", "scad"])
def test_hard_tables(family: str, penalty: str | None) -> None:
    X = draw(family, 60)
    X[:, 0], X[:, 1], X[3] = 0.0, 1.0, 0.0
    model = fit(X, family, penalty=penalty)
    assert_monotone(model)
    for value in (
        model.components_,
        model.intercept_,
        model.explained_deviance_ratio_,
        model.score_samples(X),
    ):
        assert np.all(np.isfinite(value))
    # A column with one value is in no component; its predictor is its saturated parameter.
    np.testing.assert_array_equal(model.components_[:, 0], 0.0)
    np.testing.assert_allclose(model.intercept_[0], -4.0, rtol=1e-12)


def test_huge_counts() -> None:
    X = np.round(np.exp(np.random.default_rng(2).uniform(0.0, np.log(1e6), (60, 12))))
    model = fit(X, "poisson")
    assert_monotone(model)
    assert model.deviance_ < model.null_deviance_


def test_as_many_components_as_columns_saturate() -> None:
    X = draw("poisson", 60, 4) + 1.0  # without zeros the saturated parameters are not bounded
    model = fit(X, "poisson", 4)
    np.testing.assert_allclose(model.inverse_transform(model.transform(X)), X, rtol=1e-8)
    assert model.deviance_ < 1e-8 * model.null_deviance_


def test_running_out_of_iterations_is_said() -> None:
    with pytest.warns(ConvergenceWarning, match="stopped at max_iter"):
        model = fit(draw("poisson"), "poisson", max_iter=2)
    assert not model.converged_
    assert model.n_iter_ == 2


# Sparse loadings


def sparse_truth(family: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A table of 30 columns whose two components have five columns each."""
    rng = np.random.default_rng(seed)
    loadings = np.zeros((2, 30))
    loadings[0, :5], loadings[1, 5:10] = 0.6, 0.6
    eta = 1.0 + rng.normal(size=(300, 2)) @ loadings
    chosen = {"gaussian": Gaussian(), "poisson": Poisson(), "bernoulli": Bernoulli()}[family]
    scale = 3.0 if family == "bernoulli" else 1.0
    return chosen.sample(scale * (eta - (family == "bernoulli")), 0.2, rng), loadings


@pytest.mark.parametrize("penalty", ["l1", "scad", "group"])
@pytest.mark.parametrize(
    ("family", "alpha"),
    [("gaussian", 0.04), ("poisson", 0.04), ("bernoulli", 0.02)],
    ids=["gaussian", "poisson", "bernoulli"],
)
def test_supports_are_found(family: str, alpha: float, penalty: str) -> None:
    X, truth = sparse_truth(family)
    model = fit(X, family, penalty=penalty, alpha=alpha)
    assert model.converged_
    assert_monotone(model)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(2), atol=1e-10)
    found, expected = (model.components_ != 0).any(axis=0), (truth != 0).any(axis=0)
    score = 2.0 * np.sum(found & expected) / (found.sum() + expected.sum())
    assert score > 0.9
    assert np.all(np.diff(model.explained_deviance_ratio_) <= 0)
    penalised = priors.create(penalty).value(np.sqrt(30.0) * model.components_.T).sum() / np.sqrt(30.0)
    objective = -0.5 * model.deviance_ - 0.5 * alpha * model.null_deviance_ * penalised
    np.testing.assert_allclose(model.objective_trace_[-1], objective, rtol=1e-9)


def test_a_larger_penalty_leaves_fewer_loadings() -> None:
    X, _ = sparse_truth("poisson")
    counts = [
        np.count_nonzero(fit(X, "poisson", penalty="l1", alpha=a).components_) for a in (0.003, 0.02, 10.0)
    ]
    assert counts[0] > counts[1] > counts[2] == 2


@pytest.mark.parametrize("family", ["gaussian", "poisson", "bernoulli"])
def test_without_weight_the_penalised_model_is_the_dense_one(family: str) -> None:
    X = draw(family)
    dense, sparse = fit(X, family, tol=1e-6), fit(X, family, penalty="l1", alpha=0.0, tol=1e-6, max_iter=5000)
    np.testing.assert_allclose(sparse.deviance_, dense.deviance_, rtol=1e-6)
    assert angle(sparse.components_, dense.components_) < 1e-3


def test_missing_entries_and_sparse_loadings() -> None:
    X, _ = sparse_truth("poisson")
    X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    model = fit(X, "poisson", penalty="scad", alpha=0.04)
    assert_monotone(model)
    assert np.count_nonzero(model.components_) < 20
    scores = model.transform(X)
    assert scores.shape == (300, 2)
    np.testing.assert_allclose(scores.mean(axis=0), 0.0, atol=1e-7)


@pytest.mark.parametrize("family", ["gaussian", "poisson", "bernoulli"])
@pytest.mark.parametrize("penalty", ["group", "adaptive_l0", L1(2.0), Scaled(Group(), 0.3, 2.0, ridge=0.1)])
def test_any_prior_is_a_penalty(family: str, penalty: str | Prior) -> None:
    model = fit(draw(family, 100, 8), family, penalty=penalty, alpha=0.02)
    assert model.converged_
    assert_monotone(model)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(2), atol=1e-10)


def test_a_group_penalty_takes_columns_out_of_all_components() -> None:
    X, truth = sparse_truth("poisson")
    turned = fit(X, "poisson", penalty="group", alpha=0.05)
    used = turned.components_ != 0
    np.testing.assert_array_equal(used.any(axis=0), used.all(axis=0))
    np.testing.assert_array_equal(used.any(axis=0), (truth != 0).any(axis=0))
    # Its components may be rotated: they are those of uncorrelated scores.
    correlation = np.corrcoef(turned.transform(X).T)[0, 1]
    assert abs(correlation) < 1e-8
    # Strength and weight multiply.
    again = fit(X, "poisson", penalty=Group(0.5), alpha=0.1)
    np.testing.assert_allclose(again.components_, turned.components_, rtol=0, atol=1e-9)


@pytest.mark.parametrize("penalty", ["ridge", Ridge(3.0)])
def test_a_ridge_changes_nothing(penalty: str | Prior) -> None:
    X = draw("poisson")
    model, plain = fit(X, "poisson", penalty=penalty), fit(X, "poisson")
    np.testing.assert_array_equal(model.components_, plain.components_)
    # One that weighs the columns of the table does: here it keeps the first of them out.
    heavy = fit(X, "poisson", penalty=Ridge(1.0, np.where(np.arange(10) < 3, 1e4, 0.0)))
    assert_monotone(heavy)
    assert np.abs(heavy.components_[:, :3]).max() < 0.1 * np.abs(plain.components_[:, :3]).max()


@pytest.mark.parametrize(
    "prior", [Group(0.8), Ridge(np.array([1.0, 2.0, 5.0])), Scaled(Group(), 0.5, ridge=1.0)]
)
def test_rows_move_to_the_best_orthonormal_loadings(prior: Prior) -> None:
    rng = np.random.default_rng(0)
    old = np.linalg.qr(rng.normal(size=(12, 3)))[0]
    gradient = rng.normal(size=(12, 3))
    found = improve(old, gradient, prior, 4.0)
    new, target = found.stepped, found.curvature * old + gradient
    np.testing.assert_allclose(new.T @ new, np.eye(3), atol=1e-12)
    np.testing.assert_array_equal(found.turned, new)

    def value(v: np.ndarray) -> float:
        return float(np.vdot(target, v) - prior.value(v).sum())

    for scale in (1e-3, 1e-2, 0.1, 1.0):
        for _ in range(100):
            left, _, right = np.linalg.svd(new + scale * rng.normal(size=(12, 3)), full_matrices=False)
            assert value(left @ right) <= value(new) + 1e-10
    if isinstance(prior, Group):
        assert 0 < np.sum((new == 0).all(axis=1)) < 9


def test_a_curvature_that_leaves_nothing_is_doubled() -> None:
    old = np.linalg.qr(np.random.default_rng(0).normal(size=(12, 2)))[0]
    found = improve(old, np.zeros((12, 2)), Group(3.0), 1e-3)
    assert found.curvature > 1.0
    np.testing.assert_allclose(found.stepped.T @ found.stepped, np.eye(2), atol=1e-12)


def test_thresholds_maximise_over_the_sphere() -> None:
    rng = np.random.default_rng(0)
    old = np.linalg.qr(rng.normal(size=(12, 3)))[0]
    gradient, thresholds = rng.normal(size=(12, 3)), rng.uniform(0.2, 0.6, (12, 3))
    new, curvature = threshold_columns(old, gradient, thresholds, 2.0)
    assert curvature == 2.0
    np.testing.assert_allclose(new.T @ new, np.eye(3), atol=1e-12)
    assert np.count_nonzero(new) < new.size

    def value(u: np.ndarray, a: int) -> float:
        return float(u @ (2.0 * old[:, a] + gradient[:, a]) - thresholds[:, a] @ np.abs(u))

    # The last column is at its maximum among unit vectors orthogonal to the others; those before gained too.
    others = new[:, :2]
    for _ in range(300):
        trial = new[:, 2] + rng.choice([1e-3, 0.1, 1.0]) * rng.normal(size=12)
        trial -= others @ (others.T @ trial)
        assert value(trial / np.linalg.norm(trial), 2) <= value(new[:, 2], 2) + 1e-12
    assert sum(value(new[:, a], a) for a in range(3)) > sum(value(old[:, a], a) for a in range(3))


@pytest.mark.parametrize("n_features", [12, 500], ids=["all-angles", "some-angles"])
def test_rotations_find_a_sparse_basis(n_features: int) -> None:
    truth = np.zeros((n_features, 2))
    truth[: n_features // 3, 0] = truth[-n_features // 3 :, 1] = 1.0
    truth += 1e-3 * np.random.default_rng(1).normal(size=truth.shape) * (truth != 0)
    truth /= np.linalg.norm(truth, axis=0)
    turn = np.array([[0.8, -0.6], [0.6, 0.8]])
    found, rotation = rotate_pairs(truth @ turn, L1())
    np.testing.assert_allclose(found, truth @ turn @ rotation, atol=1e-12)
    assert np.abs(found).sum() <= np.abs(truth).sum() * (1.0 + 1e-3)
    again, still = rotate_pairs(truth, L1())
    np.testing.assert_array_equal(still, np.eye(2))
    np.testing.assert_array_equal(again, truth)


# The bound


def test_the_default_bound_is_the_best_of_doubled_ones() -> None:
    X, rng = draw("poisson", 60, 8), np.random.default_rng(3)
    model = fit(X, "poisson", 1, bound="auto")
    found = model.bound_deviances_
    assert found is not None
    assert list(found) == [1.0, 2.0, 4.0, 8.0][: len(found)]
    assert model.bound_ == min(found, key=found.__getitem__)
    # Neither the order of the table nor weights in place of rows matter.
    rows, columns, twice = rng.permutation(60), rng.permutation(8), np.arange(60) % 3 == 0
    np.testing.assert_allclose(
        list(fit(X[rows][:, columns], "poisson", 1, bound="auto").bound_deviances_.values()),
        list(found.values()),
    )
    by_weight = fit(X, "poisson", 1, bound="auto", weight=np.where(twice, 2.0, 1.0)).bound_deviances_
    repeated = fit(np.vstack([X, X[twice]]), "poisson", 1, bound="auto").bound_deviances_
    np.testing.assert_allclose(list(by_weight.values()), list(repeated.values()), rtol=1e-6)


def test_a_large_table_has_the_usual_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anypca.models.gpca._fit._MOST_ENTRIES", 100)
    model = fit(draw("poisson", 60, 8), "poisson", 1, bound="auto")
    assert model.bound_ == 4.0
    assert model.bound_deviances_ == {}


def test_the_bound_is_chosen_by_held_out_entries() -> None:
    X = draw("bernoulli", 120, 12, signal=1.5)
    model = fit(X, "bernoulli", 1, bound="cv")
    assert model.bound_deviances_ is not None
    assert model.bound_ == min(model.bound_deviances_, key=model.bound_deviances_.__getitem__)
    assert np.all(np.isfinite(list(model.bound_deviances_.values())))
    again = fit(X, "bernoulli", 1, bound=model.bound_)
    np.testing.assert_array_equal(model.components_, again.components_)
    assert fit(X, "gaussian", bound="cv").bound_deviances_ is None


def test_held_out_entries_do_not_depend_on_blocks() -> None:
    whole = HoldOut(1, 5, 7).mask(0, (40, 9))
    parts = np.vstack([HoldOut(1, 5, 7).mask(start, (10, 9)) for start in range(0, 40, 10)])
    np.testing.assert_array_equal(whole, parts)
    folds = np.array([HoldOut(fold, 5, 7).mask(0, (400, 90)) for fold in range(5)])
    np.testing.assert_array_equal(folds.sum(axis=0), 1)
    np.testing.assert_allclose(folds.mean(axis=(1, 2)), 0.2, atol=0.01)
    assert np.any(whole != HoldOut(1, 5, 8).mask(0, (40, 9)))


# Densities, samples, errors


@pytest.mark.parametrize("family", NAMES)
def test_log_likelihoods_and_samples(family: str) -> None:
    X = draw(family)
    model = fit(X, family)
    eta = model.intercept_ + model.transform(X) @ model.components_
    expected = model.family_.log_likelihood(X, eta, model.dispersion_).sum(axis=1)
    np.testing.assert_allclose(model.score_samples(X), expected, rtol=1e-10)
    np.testing.assert_allclose(model.score(X), expected.mean(), rtol=1e-10)
    drawn = model.sample(500, random_state=1)
    assert drawn.shape == (500, X.shape[1])
    assert np.all(model.family_.in_support(drawn))
    np.testing.assert_array_equal(drawn, model.sample(500, random_state=1))


@pytest.mark.parametrize(
    ("values", "expected"),
    [([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]], "bernoulli"), ([[0.0, 5.0], [1.0, 3.0], [1.0, 0.0]], "poisson"),
     ([[0.5, 5.0], [1.0, 3.0], [1.0, 0.0]], "gaussian"), ([[-1.0, 5.0], [1.0, 3.0], [1.0, 0.0]], "gaussian")],
)  # fmt: skip
def test_the_family_is_guessed(values: list[list[float]], expected: str) -> None:
    assert fit(np.array(values), "auto", 1).family_.name == expected


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"family": "gamma"}, "'gaussian', 'poisson', 'bernoulli' and 'binomial"),
        ({"family": ["poisson"] * 9 + ["bernoulli"]}, "got 'mixed'"),
        ({"family": "bernoulli"}, "family 'bernoulli' needs values 0 or 1"),
        ({"family": "poisson", "penalty": "lasso"}, "penalty='lasso': .* Did you mean 'l1'"),
        ({"family": "poisson", "bound": 0.0}, "'bound'"),
        ({"family": "poisson", "n_components": 11}, "Choose at most 10"),
    ],
    ids=["family", "mixed", "support", "penalty", "bound", "rank"],
)
def test_errors_say_what_to_do(settings: dict[str, Any], match: str) -> None:
    X = draw("poisson")
    X[:, -1] = X[:, -1] > 0
    with pytest.raises(ValueError, match=match):
        GPCA(**settings).fit(X + (settings["family"] == "gamma"))


def test_new_rows_outside_the_support_are_named() -> None:
    model = fit(draw("poisson"), "poisson")
    with pytest.raises(ValueError, match=r"X\[1, 2\] is -3"):
        model.transform(np.where(np.arange(20).reshape(2, 10) == 12, -3.0, 1.0))

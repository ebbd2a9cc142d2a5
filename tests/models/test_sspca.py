"""SSPCA: its objective and cross-validation by their definitions, what it selects, odd tables."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from sklearn.decomposition import PCA
from tests.draws import seed
from tests.models.tables import draw_selected as make_table
from tests.models.tables import is_monotone

from anypca import GSPPCA, SSPCA
from anypca.exceptions import ConvergenceWarning


def fit(X: Any, n_components: int = 3, **options: Any) -> SSPCA:
    return SSPCA(n_components, n_jobs=1, **({"n_penalties": 6} | options)).fit(X)


def largest_penalty(X: np.ndarray, n_components: int = 3) -> float:
    """From here on nothing is left: a score on the longest column alone gains nothing."""
    return float(np.sqrt(n_components * X.var(axis=0).max() / len(X)) / X.shape[1])


# The objective


def best_scores(R: np.ndarray, V: np.ndarray, constraint: str) -> np.ndarray:
    """Scores of a group that fit residuals R best: squares of at most their number, or orthonormal columns."""
    k, B = V.shape[1], R @ V
    if constraint == "orthogonal":
        left, _, right = np.linalg.svd(B, full_matrices=False)
        return left @ right

    def scores(log_mu: float) -> np.ndarray:
        return np.linalg.solve(V.T @ V + np.exp(log_mu) * np.eye(k), B.T).T

    def excess(log_mu: float) -> float:
        return float((scores(log_mu) ** 2).sum() - k)

    low = -30.0
    return scores(low) if excess(low) <= 0 else scores(brentq(excess, low, 20.0, xtol=1e-12))


def unscaled(W: np.ndarray, options: dict[str, Any]) -> np.ndarray:
    """Loadings V of a group from those of orthonormal scores, ``P W' = U V'``: U has the best metric of its size."""
    k, used = W.shape[1], W.any(axis=1)
    if options.get("constraint") == "orthogonal":
        return W
    V, a = W.copy(), options.get("exponent", 1.0)
    for _ in range(300):
        sizes = np.linalg.norm(V[used], axis=1)
        values, basis = np.linalg.eigh((W[used].T * sizes ** (a - 2.0)) @ W[used])
        roots = np.maximum(values, 1e-30) ** 0.25
        V = W @ (basis / roots) @ basis.T * np.sqrt((roots**2).sum() / k)
    return V


def objective(X: np.ndarray, V: np.ndarray, penalty: float, options: dict[str, Any]) -> float:
    """The objective of loadings with the best scores for them."""
    a, groups = (
        options.get("exponent", 1.0),
        np.array_split(np.arange(V.shape[1]), options.get("n_patterns", 1)),
    )
    U = np.zeros((len(X), V.shape[1]))
    for _ in range(60 if len(groups) > 1 else 1):
        for group in groups:
            others = np.setdiff1d(np.arange(V.shape[1]), group)
            left = X - U[:, others] @ V[:, others].T
            U[:, group] = best_scores(left, V[:, group], options.get("constraint", "ball"))
    sizes = sum((np.linalg.norm(V[:, g], axis=1) ** a).sum() ** (1 / a) for g in groups)
    return float(((X - U @ V.T) ** 2).sum() / (2 * X.size) + penalty * sizes)


OPTIONS = [{}, {"constraint": "orthogonal"}, {"n_patterns": 2}, {"n_patterns": 3}, {"exponent": 0.6}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("share", [0.02, 0.1, 0.4])
def test_no_nearby_loadings_are_better(
    share: float, options: dict[str, Any], rng: np.random.Generator
) -> None:
    X = make_table(rng, 30, 12, noise=0.6)
    penalty = share * largest_penalty(X)
    model = fit(X, penalty=penalty, tol=1e-10, max_iter=20_000, **options)
    assert is_monotone(model.objective_trace_, 1e-12)
    Xc, W = X - X.mean(axis=0), model.penalised_components_.T
    groups = np.array_split(np.arange(3), options.get("n_patterns", 1))
    V = np.hstack([unscaled(W[:, group], options) for group in groups])
    sizes = np.linalg.norm(W, axis=1)
    np.testing.assert_allclose(model.relevance_, sizes / sizes.max(), rtol=1e-9)
    best = objective(Xc, V, penalty, options)
    np.testing.assert_allclose(-model.objective_trace_[-1], best, rtol=1e-7)
    for scale in (1e-3, 1e-2, 1e-1):
        for _ in range(2):
            move = scale * np.abs(V).max() * rng.normal(size=V.shape)
            if "exponent" in options:  # rows that are zero stay so, in a penalty that is not convex
                move *= V != 0
            assert objective(Xc, V + move, penalty, options) >= best * (1 - 1e-9)


def test_from_the_largest_penalty_on_nothing_is_left(rng: np.random.Generator) -> None:
    X = make_table(rng)
    largest = largest_penalty(X)
    np.testing.assert_allclose(fit(X).penalty_path_[-1], largest, rtol=1e-8)
    with pytest.warns(UserWarning, match=r"no variable was selected.*Lower penalty"):
        model = fit(X, penalty=largest * (1 + 1e-9))
    np.testing.assert_array_equal(model.components_, 0.0)
    np.testing.assert_array_equal(model.transform(X), 0.0)
    np.testing.assert_allclose(model.inverse_transform(np.zeros((2, 3))), np.tile(X.mean(axis=0), (2, 1)))
    assert fit(X, penalty=0.9 * largest).n_features_selected_ >= 1


# Cross-validation


def press(train: np.ndarray, x: np.ndarray, support: np.ndarray, k: int) -> float:
    """Squared errors of the cells of a row, each predicted from the others by probabilistic PCA of the support."""
    total = float((x[~support] ** 2).sum())
    q = int(support.sum())
    if not q:
        return total
    values, vectors = np.linalg.eigh(train[:, support].T @ train[:, support])
    k = min(k, q - 1)
    noise = values[: q - k].mean()
    C = noise * np.eye(q) + (vectors[:, q - k :] * (values[q - k :] - noise)) @ vectors[:, q - k :].T
    for j in range(q):
        others = np.arange(q) != j
        gain = np.linalg.solve(C[np.ix_(others, others)], C[others, j])
        total += float((x[support][j] - x[support][others] @ gain) ** 2)
    return total


def row_distance(x: np.ndarray, loadings: np.ndarray) -> float:
    basis = np.linalg.svd(loadings, full_matrices=False)[2] if loadings.any() else np.zeros((1, len(x)))
    return float(((x - x @ basis.T @ basis) ** 2).sum())


@pytest.mark.parametrize("criterion", ["press", "row"])
def test_errors_of_rows_left_out_by_their_definition(criterion: str, rng: np.random.Generator) -> None:
    X = make_table(rng, 8, 6, d=2, q=4, noise=0.2)
    model = fit(X, 2, criterion=criterion, n_folds=8, n_penalties=3)
    shares = model.penalty_path_ / model.penalty_path_[-1]
    expected = np.empty((8, 3))
    for i in range(8):
        train, x = np.delete(X, i, axis=0), X[i] - np.delete(X, i, axis=0).mean(axis=0)
        centred = train - train.mean(axis=0)
        for j, share in enumerate(shares[:-1]):
            one = fit(train, 2, penalty=share * largest_penalty(train, 2))
            if criterion == "press":
                expected[i, j] = press(centred, x, one.support_, 2)
            else:
                expected[i, j] = row_distance(x, one.penalised_components_)
        expected[i, -1] = x @ x
    # Which rows are in which fold depends on the seed.
    np.testing.assert_allclose(np.sort(model.cv_errors_, axis=0), np.sort(expected / 6, axis=0), rtol=2e-2)
    mean = model.cv_errors_.mean(axis=0)
    if criterion == "press":
        chosen = mean.argmin()
    else:
        margin = model.cv_errors_[:, mean.argmin()].std(ddof=1) / np.sqrt(8)
        chosen = np.flatnonzero(mean <= mean.min() + margin)[-1]
    np.testing.assert_allclose(model.penalty_, model.penalty_path_[chosen])


@pytest.mark.parametrize("criterion", ["press", "row"])
def test_a_weight_is_a_number_of_copies_in_one_fold(criterion: str, rng: np.random.Generator) -> None:
    X, weight = make_table(rng, 30, 10, q=5), rng.integers(0, 4, 30)
    model = SSPCA(3, n_jobs=1, n_penalties=4, criterion=criterion).fit(X, sample_weight=weight)
    other = fit(np.repeat(X, weight, axis=0), criterion=criterion, n_penalties=4)
    np.testing.assert_allclose(model.cv_errors_, other.cv_errors_, rtol=1e-5)
    np.testing.assert_allclose(model.components_, other.components_, atol=1e-7)
    order = rng.permutation(10)
    moved = SSPCA(3, n_jobs=1, n_penalties=4, criterion=criterion).fit(X[:, order], sample_weight=weight)
    np.testing.assert_allclose(model.cv_errors_, moved.cv_errors_, rtol=1e-5)


def test_the_seed_draws_the_folds_only(rng: np.random.Generator) -> None:
    X = make_table(rng, 30, 10, q=5)
    first, again, other = (fit(X, random_state=seed(s), n_penalties=4) for s in (0, 0, 1))
    np.testing.assert_array_equal(first.cv_errors_, again.cv_errors_)
    assert not np.array_equal(first.cv_errors_, other.cv_errors_)
    first, other = (fit(X, n_features_to_select=5, random_state=seed(s)) for s in (0, 1))
    np.testing.assert_array_equal(first.components_, other.components_)


# Selection


@pytest.mark.parametrize(
    "options", [{}, {"criterion": "row"}, {"constraint": "orthogonal"}, {"exponent": 0.6}], ids=str
)
@pytest.mark.parametrize("shape", [(60, 20), (40, 60)], ids=["tall", "wide"])
def test_finds_the_active_columns(
    shape: tuple[int, int], options: dict[str, Any], rng: np.random.Generator
) -> None:
    model = fit(make_table(rng, *shape), n_penalties=12, tol=1e-6, **options)
    assert set(range(8)) <= set(model.get_support(indices=True))
    assert model.n_features_selected_ <= 15
    assert set(model.ranking_[:8]) == set(range(8))
    np.testing.assert_array_equal(model.relevance_ > 0, model.support_)
    assert model.relevance_.max() == 1.0
    assert model.cv_errors_.shape == (5, 12)
    exact = fit(make_table(rng, *shape), n_features_to_select=8, **options)
    np.testing.assert_array_equal(exact.get_support(indices=True), np.arange(8))
    np.testing.assert_array_equal(exact.get_feature_names_out(selected=True), [f"x{j}" for j in range(8)])


@pytest.mark.parametrize("kind", [GSPPCA, SSPCA])
def test_components_are_those_of_pca_on_the_selected_columns(kind: Any, rng: np.random.Generator) -> None:
    X = make_table(rng)
    model = kind(3, n_jobs=1, n_features_to_select=8).fit(X)
    pca = PCA(3, svd_solver="full").fit(X[:, model.support_])
    for ours, theirs in zip(model.components_[:, model.support_], pca.components_, strict=True):
        np.testing.assert_allclose(ours * np.sign(ours @ theirs), theirs, atol=1e-8)
    np.testing.assert_allclose(model.explained_variance_, pca.explained_variance_, rtol=1e-9)
    share = pca.explained_variance_.sum() / X.var(axis=0, ddof=1).sum()
    np.testing.assert_allclose(model.explained_variance_ratio_.sum(), share, rtol=1e-9)
    np.testing.assert_array_equal(model.components_[:, ~model.support_], 0.0)
    scores, centred = model.transform(X), X - X.mean(axis=0)
    np.testing.assert_allclose(scores, centred @ model.components_.T, atol=1e-10)
    left = X - model.inverse_transform(scores)
    if kind is GSPPCA:  # columns outside of the model stay at their means
        np.testing.assert_allclose(left[:, ~model.support_], centred[:, ~model.support_], atol=1e-9)
        return
    best = centred - scores @ np.linalg.lstsq(scores, centred, rcond=None)[0]
    np.testing.assert_allclose(left, best, atol=1e-9)
    np.testing.assert_allclose(model.score_samples(X), -(best**2).sum(axis=1), rtol=1e-7)


# Odd tables and errors


ODD = {
    "constant": lambda X: np.ones((5, 4)),
    "one-odd-row": lambda X: np.vstack([np.zeros((9, 4)), np.ones((1, 4))]),
    "copies": lambda X: np.hstack([X, X]),
    "constant-columns": lambda X: np.hstack([X, np.ones((12, 3))]),
    "three-rows": lambda X: X[:3],
    "huge": lambda X: 1e100 * X,
    "tiny": lambda X: 1e-100 * X,
    "rank-one": lambda X: np.outer(X[:, 0], X[0]),
}


@pytest.mark.parametrize("table", ODD)
@pytest.mark.parametrize("options", OPTIONS[:3] + OPTIONS[4:], ids=str)
@pytest.mark.parametrize("penalty", ["auto", 0.0])
def test_odd_tables_give_finite_numbers(
    table: str, options: dict[str, Any], penalty: Any, rng: np.random.Generator
) -> None:
    X = ODD[table](make_table(rng, 12, 6, q=3))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "no variable was selected")
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SSPCA(2, penalty=penalty, n_penalties=4, n_jobs=1, max_iter=50, **options).fit(X)
    assert np.isfinite(model.inverse_transform(model.transform(X))).all()
    for name in ("components_", "penalised_components_", "explained_variance_ratio_", "objective_trace_"):
        assert np.isfinite(getattr(model, name)).all(), name
    trace = model.objective_trace_
    assert np.diff(trace).min(initial=0.0) >= -1e-12 * abs(trace[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 7}, "n_components=7 is more than min.*Choose at most 6"),
        ({"n_patterns": 3}, "n_patterns=3 is more than n_components=2.*fewer patterns"),
        ({"n_features_to_select": 6}, "n_features_to_select=6 must be at most 5.*Ask for fewer"),
    ],
    ids=str,
)
def test_bad_settings_are_named(options: dict[str, Any], message: str, rng: np.random.Generator) -> None:
    X = make_table(rng, 9, 6)
    X[:, 2] = 1.0
    with pytest.raises(ValueError, match=message):
        SSPCA(**({"n_components": 2} | options)).fit(X)
    with pytest.raises(ValueError, match="SSPCA needs at least 2 rows; X has 1 sample"):
        SSPCA(1).fit(X[:1])

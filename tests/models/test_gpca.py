"""GPCA: projections of saturated parameters, the best space, sparse loadings, the bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.decomposition import PCA
from tests.draws import seed
from tests.models.tables import column_shares, draw_real, is_monotone, punch, sine, sorted_by_share

from anypca import GPCA
from anypca.datasets import make_low_rank
from anypca.families import Bernoulli, Gaussian, Poisson
from anypca.priors import L1, Group, Prior, Ridge, Scaled, priors

NAMES = ["gaussian", "poisson", "bernoulli", "binomial(7)"]
BOUND = 3.0
# Rounding may keep tight fits above tol, at the same optimum.
pytestmark = pytest.mark.filterwarnings("ignore:.* stalled:sklearn.exceptions.ConvergenceWarning")


def draw(family: str, n: int = 150, p: int = 10, **changes: Any) -> np.ndarray:
    settings = {"signal": 0.8, "intercept": 0.5, "random_state": seed(), **changes}
    return make_low_rank(n, p, 2, family=family, **settings).X


def fit(X: Any, family: str, n_components: int = 2, *, weight: Any = None, **settings: Any) -> GPCA:
    settings = {"bound": BOUND, **settings}
    return GPCA(n_components, family=family, n_jobs=1, **settings).fit(X, sample_weight=weight)


def saturated(family: str, X: np.ndarray) -> np.ndarray:
    """Predictors that fit entries as well as the bound allows."""
    with np.errstate(divide="ignore"):
        if family == "gaussian":
            return X
        if family == "poisson":
            return np.maximum(np.log(X), -BOUND)
        trials = 7 if family == "binomial(7)" else 1
        return np.clip(np.log(X) - np.log(trials - X), -BOUND, BOUND)


def predictor(family: str, X: np.ndarray, U: np.ndarray, intercept: np.ndarray, typical: np.ndarray) -> Any:
    """Predictors and scores of rows: least squares, a missing entry at its column's mean with half the weight."""
    seen = ~np.isnan(X)
    deviation = np.where(seen, saturated(family, np.nan_to_num(X, nan=1.0)), typical) - intercept
    trust = np.where(seen, 1.0, 0.5)
    gram = np.einsum("ij,ja,jb->iab", trust, U, U)
    scores = np.linalg.solve(gram, ((trust * deviation) @ U)[:, :, None])[:, :, 0]
    return intercept + scores @ U.T, scores


def typical_of(model: GPCA, X: np.ndarray) -> np.ndarray:
    return np.asarray(model.family_.link(np.nanmean(X, axis=0)))


def column_deviances(model: GPCA, X: np.ndarray, eta: np.ndarray) -> np.ndarray:
    found = model.family_.deviance(np.nan_to_num(X, nan=1.0), eta)
    return np.asarray(np.where(np.isnan(X), 0.0, found).sum(axis=0))


def total_deviance(model: GPCA, X: np.ndarray, eta: np.ndarray) -> float:
    return float(column_deviances(model, X, eta).sum())


# Known answers


@pytest.mark.parametrize("shape", [(200, 8), (20, 40)], ids=["tall", "wide"])
def test_gaussian_is_pca(shape: tuple[int, int], rng: np.random.Generator) -> None:
    X = draw_real(rng, *shape) + 30.0
    model, expected = fit(X, "gaussian"), sorted_by_share(PCA(2).fit(X), X)
    signs = np.sign(np.sum(model.components_ * expected.components_, axis=1))
    np.testing.assert_allclose(model.components_, expected.components_ * signs[:, None], rtol=0, atol=1e-8)
    np.testing.assert_allclose(model.transform(X), expected.transform(X) * signs, rtol=0, atol=1e-7)
    np.testing.assert_allclose(model.intercept_, expected.mean_, rtol=1e-8)
    ratio = column_shares(expected, X).mean(axis=0)
    np.testing.assert_allclose(model.explained_deviance_ratio_, ratio, rtol=1e-8)
    np.testing.assert_allclose(model.explained_variance_, expected.explained_variance_, rtol=1e-8)
    assert model.n_iter_ == 1
    origin = fit(X, "gaussian", fit_intercept=False)
    assert sine(origin.components_, np.linalg.svd(X, full_matrices=False)[2][:2]) < 1e-7
    np.testing.assert_array_equal(origin.intercept_, 0.0)


@pytest.mark.parametrize("missing", [0.0, 0.2], ids=["complete", "missing"])
@pytest.mark.parametrize("family", NAMES)
def test_scores_are_projections_on_the_best_space(
    family: str, missing: float, rng: np.random.Generator
) -> None:
    X = draw(family, 100, 8)
    X = punch(X, missing, rng) if missing else X
    model = fit(X, family, tol=1e-8, max_iter=5000)
    U, typical = model.components_.T, typical_of(model, X)
    eta, scores = predictor(family, X, U, model.intercept_, typical)
    np.testing.assert_allclose(model.transform(X), scores, rtol=0, atol=1e-9 * np.abs(scores).max())
    best = total_deviance(model, X, eta)
    np.testing.assert_allclose(model.deviance_, best, rtol=1e-9)
    np.testing.assert_allclose(model.objective_trace_[-1], -0.5 * best, rtol=1e-9)
    null = np.broadcast_to(typical, X.shape)
    shares = 1.0 - column_deviances(model, X, eta) / column_deviances(model, X, null)
    np.testing.assert_allclose(
        model.explained_deviance_ratio_.sum(), np.maximum(shares, 0.0).mean(), rtol=1e-9
    )
    np.testing.assert_allclose(scores.mean(axis=0), 0.0, atol=1e-6 * np.abs(scores).max())
    np.testing.assert_allclose(
        np.cov(scores.T), np.diag(model.explained_variance_), atol=1e-5 * np.var(scores)
    )
    if family != "gaussian":
        expected = model.family_.log_likelihood(np.nan_to_num(X, nan=1.0), eta, 1.0)
        np.testing.assert_allclose(
            model.score_samples(X), np.where(np.isnan(X), 0.0, expected).sum(axis=1), rtol=1e-9
        )

    def value(direction: np.ndarray) -> float:
        turned = np.linalg.qr(U + direction[:, :2])[0]
        return total_deviance(
            model, X, predictor(family, X, turned, model.intercept_ + direction[:, 2], typical)[0]
        )

    for _ in range(20):
        move = rng.normal(size=(8, 3))
        up, down = value(1e-4 * move), value(-1e-4 * move)
        # A difference of values of the second order, against their curvature.
        assert abs(up - down) <= 2e-2 * (up + down - 2 * best) + 1e-10 * best
        for scale in (1e-2, 1e-1):
            assert value(scale * move) > best


@pytest.mark.parametrize(
    ("family", "intercept"), [("gaussian", 0.0), ("poisson", 6.0), ("binomial(30)", 0.0)]
)
def test_known_components_are_recovered(family: str, intercept: float) -> None:
    """If few entries are at the bound; more of them draw components to the columns that have them."""
    drawn = make_low_rank(
        600, 12, 2, family=family, signal=0.7, dispersion=0.2, intercept=intercept, random_state=seed(3)
    )
    assert sine(fit(drawn.X, family).components_, drawn.components) < 0.25


def test_as_many_components_as_columns_saturate() -> None:
    X = draw("poisson", 60, 4) + 1.0  # without zeros saturated parameters are not bounded
    model = fit(X, "poisson", 4)
    np.testing.assert_allclose(model.inverse_transform(model.transform(X)), X, rtol=1e-7)
    assert model.deviance_ < 1e-8 * model.null_deviance_


@pytest.mark.parametrize("family", ["poisson", "bernoulli", "binomial(7)"])
@pytest.mark.parametrize("penalty", [None, "l1", "scad"])
def test_constant_columns_are_in_no_component(family: str, penalty: str | None) -> None:
    X = draw(family, 60)
    X[:, 0], X[:, 1], X[3] = 0.0, 1.0, 0.0
    model = fit(X, family, penalty=penalty)
    assert is_monotone(model.objective_trace_)
    assert np.isfinite(model.score_samples(X)).all()
    np.testing.assert_allclose(model.components_[:, 0], 0.0, atol=1e-12)
    np.testing.assert_allclose(model.intercept_[0], -BOUND, rtol=1e-12)


# Sparse loadings


def sparse_truth(family: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A table of 30 columns whose two components have five columns each."""
    loadings = np.zeros((2, 30))
    loadings[0, :5], loadings[1, 5:10] = 0.8, 0.6
    eta = 1.0 + rng.normal(size=(300, 2)) @ loadings
    chosen = {"gaussian": Gaussian(), "poisson": Poisson(), "bernoulli": Bernoulli()}[family]
    scale = 3.0 if family == "bernoulli" else 1.0
    return chosen.sample(scale * (eta - (family == "bernoulli")), 0.2, rng), loadings


def penalised(penalty: str | Prior, U: np.ndarray) -> float:
    prior = priors.create(penalty) if isinstance(penalty, str) else penalty
    p = len(U)
    return float(prior.value(np.sqrt(p) * U).sum() / np.sqrt(p))


@pytest.mark.parametrize("penalty", ["l1", "scad", "group"])
@pytest.mark.parametrize(("family", "alpha"), [("gaussian", 0.04), ("poisson", 0.04), ("bernoulli", 0.02)])
def test_supports_are_found(family: str, alpha: float, penalty: str, rng: np.random.Generator) -> None:
    X, truth = sparse_truth(family, rng)
    model = fit(X, family, penalty=penalty, alpha=alpha, tol=1e-7, max_iter=5000)
    assert is_monotone(model.objective_trace_)
    U = model.components_.T
    np.testing.assert_allclose(U.T @ U, np.eye(2), atol=1e-10)
    found, expected = (U != 0).any(axis=1), (truth != 0).any(axis=0)
    assert 2.0 * np.sum(found & expected) / (found.sum() + expected.sum()) > 0.8
    assert np.all(np.diff(model.explained_deviance_ratio_) <= 0)
    if (
        penalty == "group"
    ):  # columns leave all components at once, which may be rotated: scores are uncorrelated
        np.testing.assert_array_equal(found, (U != 0).all(axis=1))
        assert abs(np.corrcoef(model.transform(X).T)[0, 1]) < 1e-8

    def value(loadings: np.ndarray) -> float:
        eta = predictor(family, X, loadings, model.intercept_, model.intercept_)[0]
        return -0.5 * total_deviance(model, X, eta) - weight * penalised(penalty, loadings)

    weight = 0.5 * alpha * model.null_deviance_
    best = value(U)
    np.testing.assert_allclose(model.objective_trace_[-1], best, rtol=1e-9)
    if (np.count_nonzero(U, axis=1) <= 1).all():  # then moves within the supports stay orthogonal
        for scale in (1e-3, 1e-2, 1e-1):
            moved = U + scale * rng.normal(size=U.shape) * (U != 0)
            assert value(moved / np.linalg.norm(moved, axis=0)) <= best + 1e-9 * abs(best)


def test_weights_of_penalties(rng: np.random.Generator) -> None:
    """More of it leaves fewer loadings, none of it the dense model, and strengths multiply."""
    X, _ = sparse_truth("poisson", rng)
    counts = [
        np.count_nonzero(fit(X, "poisson", penalty="l1", alpha=a).components_) for a in (0.003, 0.03, 10)
    ]
    assert counts[0] > counts[1] > counts[2] == 2
    dense = fit(X, "poisson", tol=1e-6)
    none = fit(X, "poisson", penalty="l1", alpha=0.0, tol=1e-6, max_iter=5000)
    np.testing.assert_allclose(none.deviance_, dense.deviance_, rtol=1e-6)
    assert sine(none.components_, dense.components_) < 1e-2
    one = fit(X, "poisson", penalty="group", alpha=0.05)
    other = fit(X, "poisson", penalty=Group(0.5), alpha=0.1)
    np.testing.assert_allclose(other.components_, one.components_, rtol=0, atol=1e-9)


@pytest.mark.filterwarnings("ignore:.*stopped at max_iter:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("family", ["gaussian", "poisson", "bernoulli"])
@pytest.mark.parametrize("penalty", ["adaptive_l0", L1(2.0), Scaled(Group(), 0.3, 2.0, ridge=0.1)], ids=str)
def test_any_prior_is_a_penalty(family: str, penalty: str | Prior, rng: np.random.Generator) -> None:
    X = draw(family, 100, 8)
    X = punch(X, 0.1, rng) if isinstance(penalty, L1) else X
    model = fit(X, family, penalty=penalty, alpha=0.02, max_iter=300)
    assert is_monotone(model.objective_trace_)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(2), atol=1e-10)


def test_a_ridge_changes_nothing_unless_it_weighs_columns() -> None:
    X = draw("poisson")
    plain = fit(X, "poisson")
    for penalty in ("ridge", Ridge(3.0)):
        np.testing.assert_array_equal(fit(X, "poisson", penalty=penalty).components_, plain.components_)
    heavy = fit(X, "poisson", penalty=Ridge(1.0, np.where(np.arange(10) < 3, 1e4, 0.0)))
    assert is_monotone(heavy.objective_trace_)
    assert np.abs(heavy.components_[:, :3]).max() < 0.1 * np.abs(plain.components_[:, :3]).max()


# The bound


def test_the_bound_is_the_best_of_those_compared(rng: np.random.Generator) -> None:
    X = draw("poisson", 60, 8)
    model = fit(X, "poisson", 1, bound="cv")
    found = model.bound_deviances_
    assert found is not None
    assert list(found) == [1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0]
    assert model.bound_ == min(found, key=found.__getitem__)
    np.testing.assert_allclose(
        fit(X, "poisson", 1, bound=model.bound_).components_, model.components_, rtol=0, atol=1e-9
    )
    # Which entries are hidden follows values, not places. The rough fits end at a scaled gradient of .01, so
    # that rounding moves where they end; other hidden entries would change deviances by percents.
    rows, columns, twice = rng.permutation(60), rng.permutation(8), np.arange(60) % 3 == 0
    moved = fit(X[rows][:, columns], "poisson", 1, bound="cv")
    np.testing.assert_allclose(list(moved.bound_deviances_.values()), list(found.values()), rtol=1e-3)
    by_weight = fit(X, "poisson", 1, bound="cv", weight=np.where(twice, 2.0, 1.0))
    repeated = fit(np.vstack([X, X[twice]]), "poisson", 1, bound="cv")
    np.testing.assert_allclose(
        list(by_weight.bound_deviances_.values()), list(repeated.bound_deviances_.values()), rtol=1e-3
    )
    assert fit(X, "gaussian", bound="cv").bound_deviances_ is None


def test_usual_bounds_depend_on_the_family() -> None:
    """A zero count has the logarithm of 3/8, an answer the logit 4."""
    assert np.exp(-fit(draw("poisson"), "poisson", bound="auto").bound_) == pytest.approx(3 / 8)
    assert fit(draw("bernoulli"), "bernoulli", bound="auto").bound_ == 4.0


# Samples, families, errors


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"family": "gamma"}, "'gaussian', 'poisson', 'bernoulli' and 'binomial"),
        ({"family": ["poisson"] * 9 + ["bernoulli"]}, "got 'mixed'"),
        ({"family": "poisson", "penalty": "lasso"}, "penalty='lasso': .* Did you mean 'l1'"),
        ({"family": "poisson", "n_components": 11}, "Choose at most 10"),
    ],
    ids=["family", "mixed", "penalty", "rank"],
)
def test_errors_say_what_to_do(settings: dict[str, Any], match: str) -> None:
    X = draw("poisson")
    X[:, -1] = X[:, -1] > 0
    with pytest.raises(ValueError, match=match):
        GPCA(**settings).fit(X + (settings["family"] == "gamma"))

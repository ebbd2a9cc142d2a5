"""EPCA: the optimum of its objective, known answers, what its methods return, and the ridge."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.stats import multivariate_normal, norm
from sklearn.decomposition import PCA
from tests.draws import generator, seed
from tests.models.tables import (
    assert_moments,
    column_shares,
    draw_counts,
    draw_eta,
    draw_real,
    is_monotone,
    punch,
    sine,
    sorted_by_share,
)

from anypca import EPCA, SePCA
from anypca.datasets import load_penguins, make_low_rank
from anypca.exceptions import DataConversionWarning
from anypca.families import Bernoulli, Family, Gaussian, Mixed, NegativeBinomial, Poisson, combine, families
from anypca.interpretation import cos2

EXACT: dict[str, Any] = {"n_jobs": 1, "tol": 1e-9, "max_iter": 5000}
# Rounding may keep tight fits above tol, at the same optimum.
pytestmark = pytest.mark.filterwarnings("ignore:.* stalled:sklearn.exceptions.ConvergenceWarning")


def draw(family: Any, n: int = 150, p: int = 10, k: int = 2, **changes: Any) -> Any:
    settings = {"signal": 0.7, "dispersion": 0.3, "intercept": 1.0, "random_state": seed(), **changes}
    return make_low_rank(n, p, k, family=family, **settings)


# The objective


class Objective:
    """The penalised log-likelihood of a fitted model's table as a function of scores and coefficients, by formula."""

    def __init__(self, model: EPCA, X: np.ndarray, ridge: float, given: dict[str, np.ndarray]) -> None:
        n, p = X.shape
        self.family, self.dispersion, self.ridge = model.family_, model.dispersion_, ridge
        self.seen = ~np.isnan(X)
        self.x = np.where(self.seen, X, 1.0)
        self.weight = given.get("sample_weight", np.ones(n))[:, None]
        self.offset = given.get("offset", np.zeros((n, p)))
        self.features = np.hstack([np.ones((n, 1)), given.get("covariates", np.zeros((n, 0)))])
        # Loadings are penalised in units of the noise of their columns.
        self.units, variance = np.ones(p), np.ones(p)
        seen = self.weight * self.seen
        mean = (seen * self.x).sum(axis=0) / seen.sum(axis=0)
        for member, columns in self.family.member_columns(p):
            if member.has_units:
                self.units[columns] = self.dispersion[columns]
                variance[columns] = ((seen * (self.x - mean) ** 2).sum(axis=0) / seen.sum(axis=0))[columns]
        # Coefficients of standardised covariates have a normal prior.
        spread = np.cov(self.features.T, aweights=self.weight[:, 0], bias=True).reshape(
            -1, self.features.shape[1]
        )
        self.on_fixed = np.diag(spread) / (model.coef_scale**2 * variance[:, None])
        steps = np.where(self.seen, self.family.log_step(self.x, model.resolution_), 0.0)
        self.constant = float((self.weight * steps).sum())

    def balanced(self, model: EPCA, scores: np.ndarray) -> np.ndarray:
        """The fitted predictor in the coordinates in which the two ridges are least."""
        predictor = np.sqrt(self.weight) * scores @ model.components_ / np.sqrt(self.units)
        left, sizes, right = np.linalg.svd(predictor, full_matrices=False)
        roots = np.sqrt(sizes[: scores.shape[1]])
        z = left[:, : len(roots)] * roots / np.sqrt(self.weight)
        w = right[: len(roots)].T * roots * np.sqrt(self.units)[:, None]
        joint = np.column_stack([w, model.intercept_, model.coef_])
        return np.concatenate([z.ravel(), joint.ravel()])

    def __call__(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient, with the opposite sign."""
        (n, p), m = self.x.shape, self.features.shape[1]
        k = (vector.size - p * m) // (n + p)
        z, joint = vector[: n * k].reshape(n, k), vector[n * k :].reshape(p, k + m)
        design = np.hstack([z, self.features])
        eta = design @ joint.T + self.offset
        found = np.where(self.seen, self.family.log_likelihood(self.x, eta, self.dispersion), 0.0)
        slope = np.where(self.seen, self.family.evaluate(self.x, eta, self.dispersion, order=1).gradient, 0.0)
        on_loadings = self.ridge / self.units[:, None]
        penalty = self.ridge * (self.weight * z**2).sum() + (on_loadings * joint[:, :k] ** 2).sum()
        penalty += (self.on_fixed * joint[:, k:] ** 2).sum()
        on_scores = self.weight * (slope @ joint[:, :k] - self.ridge * z)
        on_joint = (self.weight * slope).T @ design
        on_joint[:, :k] -= on_loadings * joint[:, :k]
        on_joint[:, k:] -= self.on_fixed * joint[:, k:]
        value = (self.weight * found).sum() - 0.5 * penalty + self.constant
        return -value, -np.concatenate([on_scores.ravel(), on_joint.ravel()])


MIXED = combine([(Poisson(), Bernoulli(), Gaussian(), NegativeBinomial())[j % 4] for j in range(7)])
FAMILIES = [*(family for name in families for family in families[name].examples()), MIXED]


def companions(rng: np.random.Generator, n: int, p: int) -> dict[str, np.ndarray]:
    return {
        "sample_weight": rng.integers(1, 4, n).astype(float),
        "offset": 0.3 * rng.standard_normal((n, p)),
        "covariates": rng.standard_normal((n, 2)),
    }


def assert_optimal(model: EPCA, X: np.ndarray, ridge: float, given: dict[str, np.ndarray]) -> None:
    objective = Objective(model, X, ridge, given)
    rows = {name: value for name, value in given.items() if name != "sample_weight"}
    at = objective.balanced(model, model.transform(X, **rows))
    value = -objective(at)[0]
    np.testing.assert_allclose(model.objective_trace_[-1], value, rtol=1e-7, atol=1e-6)
    better = minimize(objective, at, jac=True, method="L-BFGS-B", options={"maxiter": 300, "gtol": 1e-7})
    assert -better.fun - value <= 1e-6 * (1.0 + abs(value))


@pytest.mark.parametrize("given", [False, True], ids=["plain", "missing-weights-offset-covariates"])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name if f is MIXED else repr(f))
def test_nothing_is_left_to_gain_after_a_fit(family: Family, given: bool, rng: np.random.Generator) -> None:
    X = draw(family, 25, 7, intercept=0.0).X
    extra = companions(rng, 25, 7) if given else {}
    X = punch(X, 0.3, rng) if given else X
    model = EPCA(2, family=family, ridge=0.5, **{**EXACT, "tol": 1e-8}).fit(X, **extra)
    assert is_monotone(model.objective_trace_)
    assert_optimal(model, X, 0.5, extra)


@pytest.mark.parametrize("given", [False, True], ids=["plain", "missing-weights-offset-covariates"])
@pytest.mark.parametrize("family", ["poisson", "bernoulli", "gamma(2)"])
def test_many_components_reach_the_same_optimum(family: str, given: bool, rng: np.random.Generator) -> None:
    """From 16 components on steps are found by conjugate gradients."""
    X = draw(family, 40, 18).X
    extra = companions(rng, 40, 18) if given else {}
    X = punch(X, 0.1, rng) if given else X
    model = EPCA(16, family=family, ridge=3.0, **{**EXACT, "tol": 1e-7}).fit(X, **extra)
    assert_optimal(model, X, 3.0, extra)


@pytest.mark.parametrize("ridge", [0.0, 3.0])
def test_gaussian_tables_have_softened_singular_values(ridge: float, rng: np.random.Generator) -> None:
    """Both ridges together are a nuclear norm: singular values of X / sigma lose the ridge."""
    X = draw_real(rng)
    model, pca = (
        EPCA(2, family=Gaussian(variance=0.25), ridge=ridge, **EXACT).fit(X),
        sorted_by_share(PCA(2).fit(X), X),
    )
    signs = np.sign(np.sum(model.components_ * pca.components_, axis=1))
    np.testing.assert_allclose(model.components_ * signs[:, None], pca.components_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(model.intercept_, X.mean(axis=0), rtol=0, atol=1e-6)
    shrunk = (pca.singular_values_ - 0.5 * ridge) / pca.singular_values_
    np.testing.assert_allclose(model.transform(X), pca.transform(X) * signs * shrunk, rtol=0, atol=1e-5)
    if not ridge:
        shares = column_shares(pca, X).mean(axis=0)
        np.testing.assert_allclose(model.explained_deviance_ratio_, shares, rtol=1e-6)


def test_seeds_lead_to_one_optimum(rng: np.random.Generator) -> None:
    X = draw_counts(rng)
    one, other = (EPCA(2, family="poisson", random_state=seed(s), **EXACT).fit(X) for s in (1, 2))
    np.testing.assert_allclose(other.components_, one.components_, rtol=0, atol=1e-5)
    np.testing.assert_allclose(other.objective_trace_[-1], one.objective_trace_[-1], rtol=1e-10)


@pytest.mark.parametrize("family", ["gaussian(0.5)", "poisson", "bernoulli", "gamma(2)"])
def test_reported_coordinates_and_shares_follow_their_definitions(
    family: str, rng: np.random.Generator
) -> None:
    X = punch(draw(family).X, 0.1, rng)
    model = EPCA(3, family=family, **{**EXACT, "tol": 1e-8}).fit(X)
    U, scores = model.components_, model.transform(X)
    np.testing.assert_allclose(U @ U.T, np.eye(3), atol=1e-10)
    size = np.sqrt(model.explained_variance_)
    moments = scores.T @ scores / len(X) / np.outer(size, size)
    np.testing.assert_allclose(moments, np.eye(3), atol=1e-4)
    np.testing.assert_allclose(scores.mean(axis=0) / size, 0.0, atol=1e-4)

    def deviance(z: np.ndarray, intercept: np.ndarray) -> np.ndarray:
        found = model.family_.deviance(np.nan_to_num(X, nan=1.0), intercept + z @ U, model.dispersion_)
        return np.asarray(np.where(np.isnan(X), 0.0, found).sum(axis=0))

    null = EPCA(0, family=model.family_, **EXACT).fit(X).intercept_
    full, nothing = deviance(scores, model.intercept_), deviance(0 * scores, null)
    np.testing.assert_allclose(
        [model.deviance_, model.null_deviance_], [full.sum(), nothing.sum()], rtol=1e-5
    )
    lost = np.array([deviance(scores * (np.arange(3) != a), model.intercept_) for a in range(3)]) - full
    lost = np.maximum(lost, 0.0)
    expected = np.maximum(1.0 - full / nothing, 0.0) * lost / lost.sum(axis=0)
    np.testing.assert_allclose(model.explained_deviance_ratio_, expected.mean(axis=1), rtol=1e-4)
    np.testing.assert_allclose(
        model.explained_deviance_ratio_, cos2(model, X).columns.mean(axis=0), atol=1e-4
    )


@pytest.mark.parametrize("name", ["EPCA", "SePCA"])
def test_a_near_copy_of_a_column_is_not_all_that_is_explained(name: str, rng: np.random.Generator) -> None:
    """A column without noise has a deviance without bounds, and counts as one column."""
    eta = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 6))
    X = eta + rng.normal(size=(200, 6))
    X[:, 4:] = rng.poisson(np.exp(0.4 * eta[:, 4:] + 1.0))
    copied = np.column_stack([X, X[:, 0] + 1e-5 * rng.normal(size=200)])
    family = ["gaussian"] * 4 + ["poisson"] * 2 + ["gaussian"]
    model = {"EPCA": EPCA(2, family=family, n_jobs=1), "SePCA": SePCA(3, family=family, n_jobs=1)}[name]
    shares = model.fit(copied).explained_deviance_ratio_
    assert np.all(shares >= 0)
    assert np.all(np.diff(shares) <= 0)
    # The two copies are two of seven columns.
    assert shares.sum() < 0.9


@pytest.mark.parametrize("unit", [1e-3, 453.6])
@pytest.mark.parametrize("ridge", ["auto", 1.0])
def test_units_of_a_column_of_a_mixed_table_change_its_loadings_only(
    ridge: Any, unit: float, rng: np.random.Generator
) -> None:
    eta = rng.normal(size=(150, 2)) * [1.5, 0.8] @ rng.normal(size=(2, 7))
    X = eta + rng.normal(size=(150, 7))
    X[:, 3:5] = rng.poisson(np.exp(0.4 * eta[:, 3:5] + 1.0))
    X[:, 5] = X[:, 5] > 0
    scaled = X * np.where(np.arange(7) == 0, unit, 1.0)
    family = ["gaussian"] * 3 + ["poisson"] * 2 + ["bernoulli", "gaussian"]
    one, other = (EPCA(2, family=family, ridge=ridge, n_jobs=1).fit(table) for table in (X, scaled))
    rows = one.transform(X)
    np.testing.assert_allclose(other.transform(scaled), rows, rtol=0, atol=1e-5 * np.abs(rows).max())
    back = other.components_ / np.where(np.arange(7) == 0, unit, 1.0)
    np.testing.assert_allclose(back, one.components_, rtol=0, atol=1e-5 * np.abs(back).max())
    np.testing.assert_allclose(other.explained_deviance_ratio_, one.explained_deviance_ratio_, atol=1e-5)
    free = one.components_ / np.where(np.isin(np.arange(7), [3, 4, 5]), 1.0, np.sqrt(one.dispersion_))
    np.testing.assert_allclose(free @ free.T, np.eye(2), atol=1e-10)


@pytest.mark.parametrize("ridge", ["auto", 1.0])
def test_scores_converge_where_a_column_is_far_from_zero(ridge: Any) -> None:
    """Years round more than their noise allows a small step to be seen; a warning is an error."""
    X = load_penguins().X
    assert np.isfinite(EPCA(2, ridge=ridge, n_jobs=1).fit(X).transform(X)).all()


def test_white_scores_are_the_same_model(rng: np.random.Generator) -> None:
    X = draw_counts(rng)
    plain, white = (EPCA(2, family="poisson", whiten=whiten, **EXACT).fit(X) for whiten in (False, True))
    scores, size = white.transform(X), np.sqrt(plain.explained_variance_)
    np.testing.assert_allclose((scores**2).mean(axis=0), 1.0, rtol=1e-4)
    np.testing.assert_allclose(white.components_, plain.components_ * size[:, None], rtol=1e-8)
    np.testing.assert_allclose(scores, plain.transform(X) / size, rtol=0, atol=1e-4)
    np.testing.assert_allclose(white.score_samples(X), plain.score_samples(X), rtol=1e-5)


def test_a_share_of_the_deviance_takes_the_fewest_components(rng: np.random.Generator) -> None:
    X = draw_real(rng)
    exact = {"family": "gaussian", "ridge": 0.0, "tol": 1e-8, "n_jobs": 1}
    explained = np.cumsum(column_shares(PCA().fit(X), X).mean(axis=0))
    for share in (0.3, 0.7, 0.95):
        assert EPCA(share, **exact).fit(X).n_components_ == 1 + int((explained < share).sum())
    counts = draw_counts(rng)
    model = EPCA(0.6, family="poisson", n_jobs=1).fit(counts)
    assert model.explained_deviance_ratio_.sum() >= 0.6
    fewer = EPCA(model.n_components_ - 1, family="poisson", ridge=1.0, n_jobs=1).fit(counts)
    assert fewer.explained_deviance_ratio_.sum() < 0.6
    with pytest.warns(UserWarning, match=r"n_components=0.999 asks for 99.9 %"):
        EPCA(0.999, family="poisson", ridge=20.0, n_jobs=1).fit(counts)


# Truth


@pytest.mark.parametrize("family", ["poisson", "gaussian", "gamma", "binomial(20)"])
@pytest.mark.parametrize(("missing", "most"), [(0.0, 0.2), (0.4, 0.25)], ids=["complete", "missing"])
def test_known_components_are_recovered(family: str, missing: float, most: float) -> None:
    drawn = draw(family, 800, 12, signal=0.8, intercept=1.5, missing=missing)
    keep = np.isfinite(drawn.X).any(axis=1)
    model = EPCA(2, family=family, ridge=1.0, n_jobs=1).fit(drawn.X[keep])
    assert sine(model.components_, drawn.components) < most


def test_offsets_take_exposures_out(rng: np.random.Generator) -> None:
    eta = draw_eta(rng, 300, 10)
    exposure = rng.choice([0.5, 1.0, 2.0], 300)
    X = rng.poisson(np.exp(eta) * exposure[:, None]).astype(float)
    row = np.log(exposure)
    settings: dict[str, Any] = {"family": "poisson", "ridge": 1.0, "tol": 1e-8, "n_jobs": 1}
    first = EPCA(2, **settings).fit(X, offset=row)
    assert sine(first.components_, np.linalg.svd(eta - eta.mean(axis=0))[2][:2]) < 0.15
    wide = np.repeat(row[:, None], 10, axis=1)
    for offset in (row[:, None], wide, sp.csr_array(wide)):
        other = EPCA(2, **settings).fit(X, offset=offset)
        np.testing.assert_allclose(
            other.transform(X, offset=offset), first.transform(X, offset=row), rtol=0, atol=1e-4
        )
    none, zero = EPCA(2, **settings).fit(X), EPCA(2, **settings).fit(X, offset=np.zeros(300))
    np.testing.assert_allclose(zero.components_, none.components_, rtol=0, atol=1e-6)


# Dispersions


@pytest.mark.parametrize(
    ("family", "dispersion"), [("gaussian", 2.0), ("gamma", 0.3), ("negative_binomial", 0.5)]
)
@pytest.mark.parametrize("missing", [0.0, 0.3], ids=["complete", "missing"])
def test_dispersions_are_recovered(family: str, dispersion: float, missing: float) -> None:
    drawn = draw(family, 1500, 12, 1, dispersion=dispersion, missing=missing)
    model = EPCA(1, family=family, ridge=1.0, n_jobs=1).fit(drawn.X[np.isfinite(drawn.X).any(axis=1)])
    np.testing.assert_allclose(model.dispersion_, dispersion, rtol=0.3 if "_" in family else 0.08)


@pytest.mark.parametrize("ridge", [0.0, 3.0])
def test_a_shared_variance_has_the_degrees_of_freedom_of_a_low_rank_fit(
    ridge: float, rng: np.random.Generator
) -> None:
    """n p - k (n + p - k) - p: rotations of scores and loadings are free of charge."""
    (n, p), k = (60, 12), 2
    X = rng.standard_normal((n, k)) @ rng.standard_normal((k, p)) + 0.3 * rng.standard_normal((n, p))
    model = EPCA(k, family="gaussian", ridge=ridge, n_jobs=1, tol=1e-8).fit(X)
    residuals = X - model.inverse_transform(model.transform(X))
    wanted = (residuals**2).sum() / (n * p - k * (n + p - k) - p)
    # Rounds of fit and dispersion end at a change of one per cent.
    np.testing.assert_allclose(model.dispersion_, wanted, rtol=0.02)


# Families


KINDS = ["poisson", "bernoulli", "gaussian", "gaussian", "gamma"]


def table(n: int = 400) -> pd.DataFrame:
    rng = generator("table of kinds")
    z = rng.standard_normal(n)
    return pd.DataFrame(
        {
            "visits": rng.poisson(np.exp(0.5 * z + 1.0)).astype(float),
            "answer": (rng.random(n) < 1 / (1 + np.exp(-z))).astype(float),
            "height": 170.0 + 8.0 * z + 4.0 * rng.standard_normal(n),
            "weight": 70.0 + 6.0 * z + 5.0 * rng.standard_normal(n),
            "amount": np.exp(0.4 * z) * rng.gamma(3.0, 1.0, n),
        }
    )


def test_families_by_list_by_name_and_by_values_agree() -> None:
    X = table()
    by_list = EPCA(1, family=KINDS, n_jobs=1).fit(X)
    chosen = {"visits": "poisson", "answer": Bernoulli(), 4: "gamma", "default": "gaussian"}
    by_name = EPCA(1, family=chosen, n_jobs=1).fit(X)
    assert isinstance(by_name.family_, Mixed)
    assert by_list.family_report_ is None
    np.testing.assert_allclose(by_name.components_, by_list.components_, rtol=0, atol=1e-6)
    auto = EPCA(1, family="auto", n_jobs=1).fit(X)
    members = [auto.family_.take(slice(j, j + 1)).name for j in range(5)]
    assert members[1] == "bernoulli"
    assert all(name in str(auto.family_report_) for name in X.columns)
    assert abs(np.corrcoef(auto.transform(X)[:, 0], by_list.transform(X)[:, 0])[0, 1]) > 0.95


# Means, densities, deviations, samples


def test_means_follow_the_link_and_add_up_to_the_table(rng: np.random.Generator) -> None:
    X = draw_counts(rng)
    model = EPCA(2, family="poisson", **EXACT).fit(X)
    scores = model.transform(X)
    expected = np.exp(model.intercept_ + scores @ model.components_)
    np.testing.assert_allclose(model.inverse_transform(scores), expected, rtol=1e-12)
    np.testing.assert_allclose(expected.sum(axis=0), X.sum(axis=0), rtol=1e-5)
    origin = EPCA(2, family="poisson", fit_intercept=False, n_jobs=1).fit(X)
    np.testing.assert_array_equal(origin.intercept_, 0.0)
    np.testing.assert_allclose(origin.inverse_transform(np.zeros((1, 2))), 1.0)
    # Without penalty the objective is the log-likelihood with all constants.
    free = EPCA(1, family="poisson", ridge=0.0, **EXACT).fit(X)
    np.testing.assert_allclose(free.objective_trace_[-1], free.plug_in_log_likelihood(X).sum(), rtol=1e-8)


def test_gaussian_rows_follow_one_normal_distribution(rng: np.random.Generator) -> None:
    X = draw_real(rng)
    model = EPCA(2, family="gaussian", n_jobs=1).fit(X)
    U = model.components_.T
    covariance = (U * model.explained_variance_) @ U.T + np.diag(model.dispersion_)
    X[3, :4] = np.nan
    found = model.score_samples(X[:20])
    np.testing.assert_allclose(model.score(X[:20]), found.mean(), rtol=1e-12)
    for x, value in zip(X[:20], found, strict=True):
        seen = np.isfinite(x)
        normal = multivariate_normal(model.intercept_[seen], covariance[np.ix_(seen, seen)])
        np.testing.assert_allclose(value, normal.logpdf(x[seen]), rtol=1e-9)
    assert_moments(model.sample(40_000, random_state=seed()), model.intercept_, covariance)


@pytest.mark.parametrize("family", ["poisson", "bernoulli", "negative_binomial(2)", "gamma(2)"])
def test_log_likelihoods_agree_with_quadrature(family: str) -> None:
    X = draw(family, p=30, k=1).X
    model = EPCA(1, family=family, n_jobs=1).fit(X)
    grid = np.linspace(-8.0, 8.0, 1601)
    scores = np.sqrt(model.explained_variance_[0]) * grid
    eta = np.repeat((model.intercept_ + scores[:, None] * model.components_[0])[None], 30, axis=0)
    entries = np.repeat(X[:30, None, :], len(grid), axis=1)
    rows = model.family_.log_likelihood(entries, eta, model.dispersion_).sum(axis=2)
    exact = np.logaddexp.reduce(rows + norm.logpdf(grid) + np.log(grid[1] - grid[0]), axis=1)
    # Laplace's approximation errs by the skewness and kurtosis of the posterior, little for rows of 30 entries.
    error = np.abs(model.score_samples(X[:30]) - exact)
    assert error.max() < 0.1
    assert error.mean() < 0.02


@pytest.mark.parametrize("ridge", [0.1, 10.0])
@pytest.mark.parametrize("family", ["gaussian", "poisson", "binomial(50)"])
def test_deviations_are_how_far_scores_follow_their_entries(family: str, ridge: float) -> None:
    """With a canonical link the gradient of a row is W (x - mu) / phi - P z, hence dz / dx_j = C w_j / phi_j."""
    X = draw(family, 60, 6, intercept=1.5).X
    model = EPCA(2, family=family, ridge=ridge, n_jobs=1, tol=1e-8).fit(X)
    row, step = X[3:4], 1e-4
    _, std = model.transform(row, return_std=True)
    up, down = (model.transform(row + sign * step * np.eye(6)) for sign in (1, -1))
    slopes = (up - down) / (2 * step) * model.dispersion_[:, None]
    covariance = np.linalg.lstsq(model.components_.T, slopes, rcond=None)[0]
    np.testing.assert_allclose(std[0], np.sqrt(np.diag(covariance)), rtol=1e-5)
    if family == "gaussian":
        holes = np.where(np.arange(6) % 2 == 0, np.nan, X)
        assert np.all(model.transform(holes, return_std=True)[1] > model.transform(X, return_std=True)[1])


VARIANTS = [
    {"n_components": 0},
    {"ridge": 0.0},
    {"whiten": True},
    {"fit_intercept": False},
    {"n_components": 0.5},
    {"family": "student_t"},
    {"score_penalty": "l1"},
]


@pytest.mark.parametrize("max_iter", [3, 500], ids=["stopped early", "converged"])
@pytest.mark.parametrize("changes", VARIANTS, ids=str)
@pytest.mark.filterwarnings("ignore::anypca.exceptions.ConvergenceWarning")
def test_fit_transform_is_fit_then_transform(
    changes: dict[str, Any], max_iter: int, rng: np.random.Generator
) -> None:
    X = draw_counts(rng)
    model = EPCA(**{"n_components": 2, "family": "poisson", "n_jobs": 1, "max_iter": max_iter, **changes})
    given = {"offset": 0.1 * rng.normal(size=len(X)), "covariates": rng.normal(size=(len(X), 1))}
    scores = model.fit_transform(X, sample_weight=rng.integers(0, 3, len(X)), **given)
    np.testing.assert_allclose(scores, model.transform(X, **given), rtol=1e-8, atol=1e-8)


# The ridge


def test_auto_is_half_of_what_noise_has(rng: np.random.Generator) -> None:
    """From the numbers of entries alone, at least 8 for counts; answers have half of it and rare ones less."""
    X = draw_counts(rng, 300, 15)
    ridge: dict[str, Any] = {"family": "poisson", "ridge": "auto", "n_jobs": 1}
    plain = EPCA(2, **ridge).fit(X)
    assert plain.ridge_ == pytest.approx(0.5 * (np.sqrt(300) + np.sqrt(15)))
    assert plain.ridge_trials_ is None
    double = EPCA(2, **ridge).fit(X, sample_weight=np.full(300, 2.0))
    assert double.ridge_ == pytest.approx(0.5 * (np.sqrt(600) + np.sqrt(15)))
    half = (np.arange(300) % 2 == 1)[:, None] & (np.arange(15) < 5)
    holed = EPCA(2, **ridge).fit(np.where(half, np.nan, X))
    assert holed.ridge_ == pytest.approx(0.5 * (np.sqrt(250.0) + np.sqrt(12.5)))
    for changes in ({"n_components": 0}, {"score_penalty": "l1"}, {"n_components": 0.3}):
        assert EPCA(**{**ridge, **changes}, tol=1e-2).fit(X).ridge_ == 1.0


def test_hidden_cells_choose_a_ridge_that_predicts_no_worse_than_means(rng: np.random.Generator) -> None:
    """Six components for two on few small counts: a ridge of 1 predicts some hidden cells absurdly."""
    eta = 0.7 * rng.standard_normal((60, 2)) @ rng.standard_normal((2, 15))
    X = rng.poisson(0.5 * np.exp(eta)).astype(float)
    model = EPCA(6, family="poisson", ridge="cv", n_jobs=1).fit(X)
    assert model.ridge_ in model.ridge_trials_
    assert model.ridge_ >= 1.0
    assert model.ridge_trials_[model.ridge_] == max(model.ridge_trials_.values())
    rows, columns = rng.permutation(60), rng.permutation(15)
    assert EPCA(6, family="poisson", ridge="cv", n_jobs=1).fit(X[rows][:, columns]).ridge_ == model.ridge_


# What a user is told


def test_fractions_of_counts_are_named(rng: np.random.Generator) -> None:
    X = draw_counts(rng)
    X[0, 3] = 1.5
    with pytest.warns(DataConversionWarning, match=r"'poisson' is for integers; column 3"):
        EPCA(1, family="poisson", n_jobs=1).fit(X)

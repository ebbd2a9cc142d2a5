"""GSPPCA: its variational EM, its evidence, what it selects, and one normal distribution of rows."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import gammaln
from scipy.stats import binom, multivariate_normal, norm
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler
from tests.draws import seed
from tests.models.tables import assert_moments, is_monotone, punch
from tests.models.tables import draw_selected as make_table

from anypca import GSPPCA
from anypca.exceptions import NotFittedError


def fit(X: Any, n_components: int = 3, **options: Any) -> GSPPCA:
    return GSPPCA(n_components, n_jobs=1, **options).fit(X)


# The variational EM and the evidence


class Literal:
    """The updates of the relaxed model as the formulas stand, with one covariance for each column."""

    def __init__(self, X: np.ndarray, d: int, noise: float) -> None:
        p, right = X.shape[1], np.linalg.svd(X, full_matrices=False)[2]
        self.X, self.s2, self.u = X, noise, np.ones(p)
        self.M = right[:d].T * np.sqrt(np.maximum((X @ right[:d].T).var(axis=0) - noise, noise))
        self.alpha = float(X.var(axis=0).sum() / (p * d))
        self.S = np.tile(0.01 * self.alpha * np.eye(d), (p, 1, 1))
        self.update_rows()

    def second(self) -> np.ndarray:
        return self.S + self.M[:, :, None] * self.M[:, None, :]

    def update_rows(self) -> None:
        n, d = len(self.X), self.M.shape[1]
        weighted = np.einsum("k,kab->ab", self.u**2, self.second())
        self.Sigma = np.linalg.inv(np.eye(d) + weighted / self.s2)
        self.Y = self.X @ (self.u[:, None] * self.M) @ self.Sigma / self.s2
        self.A = n * self.Sigma + self.Y.T @ self.Y

    def misfit(self) -> tuple[float, np.ndarray, np.ndarray]:
        fitted = np.einsum("ka,ia,ik->k", self.M, self.Y, self.X)
        spread = np.einsum("ab,kab->k", self.A, self.second())
        return np.sum(self.X**2) - 2 * self.u @ fitted + self.u**2 @ spread, fitted, spread

    def update_columns(self) -> None:
        (n, p), d = self.X.shape, self.M.shape[1]
        self.S = np.linalg.inv(np.eye(d) / self.alpha + (self.u**2 / self.s2)[:, None, None] * self.A)
        self.M = (self.u / self.s2)[:, None] * np.einsum("kab,kb->ka", self.S, self.X.T @ self.Y)
        self.alpha = np.einsum("kaa->", self.second()) / (d * p)
        total, fitted, spread = self.misfit()
        self.s2 = total / (n * p)
        self.u = np.clip(fitted / spread, 0.0, 1.0)

    def bound(self) -> float:
        (n, p), d = self.X.shape, self.M.shape[1]
        energy = n * p / 2 * np.log(2 * np.pi * self.s2) + self.misfit()[0] / (2 * self.s2)
        energy += d * p / 2 * np.log(self.alpha) + np.einsum("kaa->", self.second()) / (2 * self.alpha)
        energy += n / 2 * np.trace(self.Sigma) + 0.5 * np.sum(self.Y**2)
        energy -= n / 2 * np.linalg.slogdet(self.Sigma)[1] + 0.5 * np.linalg.slogdet(self.S)[1].sum()
        return float((n + p) * d / 2 - energy)


@pytest.mark.parametrize("shape", [(30, 14), (12, 20)], ids=["tall", "wide"])
def test_the_em_ends_where_its_literal_form_does(shape: tuple[int, int], rng: np.random.Generator) -> None:
    X = make_table(rng, *shape, q=6)
    model = fit(X, tol=1e-8, max_iter=20_000)
    literal = Literal(X - X.mean(axis=0), 3, 0.16)
    for _ in range(3000):
        literal.update_columns()
        literal.update_rows()
    # Relevances that vanish approach zero slowly in the literal form.
    assert -0.1 <= literal.bound() - model.objective_trace_[-1] <= 1e-4
    size = np.sqrt(np.einsum("kaa->k", literal.second())) * literal.u
    np.testing.assert_allclose(model.relevance_, size / size.max(), atol=0.05)
    np.testing.assert_array_equal(
        model.ranking_[: model.n_features_selected_],
        np.argsort(-model.relevance_)[: model.n_features_selected_],
    )


def log_mixture(radius: float, q: int, d: int, log_alpha: float, noise: float) -> float:
    """log of the integral of N(x; 0, (noise + alpha tau) I) over tau ~ chi2 with d degrees of freedom."""

    def exponent(t: float) -> float:
        variance = noise + np.exp(log_alpha + t)
        gauss = -q / 2 * np.log(2 * np.pi * variance) - radius**2 / (2 * variance)
        return float(gauss + d / 2 * t - np.exp(t) / 2 - d / 2 * np.log(2) - gammaln(d / 2))

    peak = minimize_scalar(lambda t: -exponent(t), bounds=(-30, 30), method="bounded").x
    top = exponent(peak)
    ends = np.array([-40.0, -3.0, -1.0, 0.0, 1.0, 3.0, 10.0]) + peak
    pieces = [
        quad(lambda t: np.exp(exponent(t) - top), *end, epsabs=0, epsrel=1e-10)[0] for end in pairwise(ends)
    ]
    return top + float(np.log(sum(pieces)))


@pytest.mark.filterwarnings("ignore:GSPPCA selected")  # with d = 1 a component is left in the noise
@pytest.mark.parametrize("evidence", ["noiseless", "noisy"])
@pytest.mark.parametrize("d", [1, 4])
def test_the_evidence_is_that_of_scale_mixtures_at_the_best_prior_variance(
    evidence: str, d: int, rng: np.random.Generator
) -> None:
    X = make_table(rng, 12, 7, d=2, q=4)
    model = fit(X, d, **({"evidence": "noisy"} if evidence == "noisy" else {}))
    noise, centred = model.noise_variance_, X - X.mean(axis=0)
    for q in (1, 3, 7):
        active, rest = centred[:, model.ranking_[:q]], centred[:, model.ranking_[q:]]
        radii = np.linalg.norm(active, axis=1)

        def total(log_alpha: float, radii: np.ndarray = radii, q: int = q) -> float:
            return sum(log_mixture(r, q, d, log_alpha, noise * (evidence == "noisy")) for r in radii)

        best = minimize_scalar(lambda s: -total(s), bounds=(-8, 6), method="bounded", options={"xatol": 1e-4})
        expected = norm.logpdf(rest, scale=np.sqrt(noise)).sum() - best.fun
        np.testing.assert_allclose(model.evidence_path_[q - 1], expected, rtol=1e-5)


def test_priors_of_the_number_of_columns(rng: np.random.Generator) -> None:
    X = make_table(rng, 15, 120, noise=1.0)
    uniform, few = (fit(X, prior=prior) for prior in ("uniform", "sparse"))
    assert uniform.inclusion_probability_ == 0.5
    # More active columns than rows have a probability of 5 %.
    np.testing.assert_allclose(binom.sf(15, 120, few.inclusion_probability_), 0.05, rtol=1e-8)
    np.testing.assert_allclose(few.evidence_path_, uniform.evidence_path_)
    q = np.arange(1, 121)
    for model, rho in ((uniform, 0.5), (few, few.inclusion_probability_)):
        total = model.evidence_path_ + q * np.log(rho) + (120 - q) * np.log1p(-rho)
        assert model.n_features_selected_ == total.argmax() + 1
    assert fit(X[:, :20], prior="sparse").inclusion_probability_ == 0.5


def ml_noise(X: np.ndarray, d: int) -> float:
    """Mean of the p - d smallest eigenvalues of the covariance with divisor n."""
    values = np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2 / len(X)
    return float(values[d:].sum() / (X.shape[1] - d))


@pytest.mark.filterwarnings("ignore:GSPPCA selected")  # scaling makes the noise unequal
@pytest.mark.parametrize("scale", [False, True], ids=["as it is", "scaled"])
def test_noise_is_estimated_as_asked_for(scale: bool, rng: np.random.Generator) -> None:
    X = make_table(rng, 40, 12, d=2, q=6)
    seen = StandardScaler().fit_transform(X) if scale else X
    expected = {"ml": ml_noise(seen, 2), "jl": np.median(seen.var(axis=0))}
    for noise, value in expected.items():
        model = fit(X, 2, noise=noise, scale=scale, tol=1e-1)
        np.testing.assert_allclose(model.noise_variance_, value, rtol=1e-8)


# Selection


@pytest.mark.parametrize(
    "options", [{"noise": n} for n in ("bc", "ml", "jl")] + [{"evidence": "noisy"}], ids=str
)
@pytest.mark.parametrize("shape", [(60, 20), (40, 150)], ids=["tall", "wide"])
def test_finds_the_active_columns(
    shape: tuple[int, int], options: dict[str, Any], rng: np.random.Generator
) -> None:
    model = fit(make_table(rng, *shape, noise=0.3), **options)
    assert set(model.ranking_[:8]) == set(range(8))
    # A column of noise may look active.
    assert 8 <= model.n_features_selected_ <= 10
    assert model.n_features_selected_ == np.argmax(model.evidence_path_) + 1
    selected = np.sort(model.ranking_[: model.n_features_selected_])
    np.testing.assert_array_equal(model.get_support(indices=True), selected)
    np.testing.assert_array_equal(model.get_support(), model.support_)
    assert model.relevance_.max() == 1.0
    assert model.converged_
    assert is_monotone(model.objective_trace_, 1e-9)


def test_the_dimension_with_the_largest_bound_is_taken(rng: np.random.Generator) -> None:
    model = GSPPCA(n_jobs=1).fit(make_table(rng, 100, 30, d=4, q=12, noise=0.2))
    assert model.latent_dimension_ == model.evidence_grid_.argmax() + 1 in (4, 5)
    np.testing.assert_array_equal(model.n_components_grid_, np.arange(1, len(model.n_components_grid_) + 1))
    np.testing.assert_allclose(model.evidence_grid_.max(), model.objective_trace_[-1])


@pytest.mark.filterwarnings("ignore:GSPPCA selected")  # scaling makes the noise unequal
def test_scaling_is_standardising_first(rng: np.random.Generator) -> None:
    X = make_table(rng) * np.geomspace(0.01, 100, 20)
    scaled, by_hand = fit(X, scale=True), fit(StandardScaler().fit_transform(X))
    np.testing.assert_array_equal(scaled.support_, by_hand.support_)
    expected = by_hand.transform(StandardScaler().fit_transform(X))
    np.testing.assert_allclose(scaled.transform(X), expected, atol=1e-7)
    np.testing.assert_allclose(scaled.scale_, X.std(axis=0))
    back = by_hand.inverse_transform(expected) * X.std(axis=0) + X.mean(axis=0)
    np.testing.assert_allclose(scaled.inverse_transform(expected), back, atol=1e-6 * np.abs(back).max())


@pytest.mark.filterwarnings("ignore:GSPPCA selected")  # copies have the same noise
def test_constant_and_copied_columns(rng: np.random.Generator) -> None:
    X = make_table(rng)
    padded = np.insert(X, [0, 10, 20], [0.1, 0.0, -7e6], axis=1)
    model, plain, constant = fit(padded), fit(X), [0, 11, 22]
    np.testing.assert_array_equal(model.relevance_[constant], 0.0)
    np.testing.assert_array_equal(np.delete(model.support_, constant), plain.support_)
    np.testing.assert_allclose(model.evidence_path_, plain.evidence_path_, rtol=1e-8)
    assert len(model.ranking_) == 20
    assert np.isfinite(fit(padded, scale=True).transform(padded)).all()
    double = fit(np.hstack([X, X]))
    np.testing.assert_allclose(double.relevance_[:20], double.relevance_[20:], rtol=1e-5, atol=1e-10)


ODD = {
    "fewer-active-columns-than-components": (
        lambda rng: make_table(rng, q=2, d=2),
        {"n_components": 5, "n_features_to_select": 2},
    ),
    "fewer-rows-than-components": (lambda rng: make_table(rng, 6, 40), {"n_components": 10}),
    "rows-of-zeros": (lambda rng: np.vstack([np.zeros((5, 20)), make_table(rng)]), {}),
    "low-rank": (lambda rng: rng.normal(size=(30, 2)) @ rng.normal(size=(2, 9)), {"n_components": 2}),
}


@pytest.mark.filterwarnings("ignore:GSPPCA selected")  # rows of zeros have no noise
@pytest.mark.parametrize("case", ODD)
def test_odd_tables_give_finite_numbers(case: str, rng: np.random.Generator) -> None:
    draw, options = ODD[case]
    X = draw(rng)
    model = fit(X, **options)
    assert np.isfinite(model.evidence_path_).all()
    assert np.isfinite(model.objective_trace_).all()
    assert model.noise_variance_ > 0
    selected = X[:, model.support_]
    best = PCA(model.n_components_, svd_solver="full").fit(selected).explained_variance_
    np.testing.assert_allclose(model.explained_variance_, best, rtol=1e-6)


# Rows


@pytest.fixture(params=[False, True], ids=["as it is", "scaled"])
def model(request: pytest.FixtureRequest, rng: np.random.Generator) -> GSPPCA:
    X = make_table(rng, 40, 12, d=2, q=6) * np.geomspace(0.5, 2.0, 12)
    return fit(X, 2, n_features_to_select=6, scale=request.param, tol=1e-2)


def covariances(model: GSPPCA) -> tuple[np.ndarray, np.ndarray]:
    """Of the predictor and of the noise, in the units of the table."""
    U = model.components_ * model.scale_
    excess = np.maximum(model.explained_variance_ - model.noise_variance_, 0.0)
    return (U.T * excess) @ U, np.diag(model.noise_variance_ * np.broadcast_to(model.scale_, 12) ** 2)


def test_rows_follow_one_normal_distribution(model: GSPPCA, rng: np.random.Generator) -> None:
    full = rng.normal(size=(30, 12)) + model.mean_
    signal, noise = covariances(model)
    C = signal + noise
    expected = multivariate_normal(model.mean_, C).logpdf(full)
    np.testing.assert_allclose(model.score_samples(full), expected, rtol=1e-9)
    X = punch(full, 0.3, rng)
    filled, std = model.impute(X, return_std=True)
    rows, columns = np.nonzero(np.isnan(X))
    mean, deviation = model.entry_posterior(X, rows, columns)
    for i, x in enumerate(X):
        seen, gone = ~np.isnan(x), np.isnan(x)
        gain = np.linalg.solve(C[np.ix_(seen, seen)], signal[seen]).T
        centre = model.mean_ + gain @ (x - model.mean_)[seen]
        spread = np.maximum(np.diag(signal - gain @ signal[seen]), 0.0)
        np.testing.assert_allclose(filled[i], np.where(gone, centre, x), rtol=1e-8, atol=1e-8)
        expected = np.sqrt(np.where(gone, spread + np.diag(noise), 0.0))
        np.testing.assert_allclose(std[i], expected, rtol=1e-7, atol=1e-10)
        np.testing.assert_allclose(mean[rows == i], centre[gone], rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(deviation[rows == i], np.sqrt(spread[gone]), rtol=1e-6, atol=1e-6)
    assert_moments(model.sample(40_000, random_state=seed()), model.mean_, C)


def test_scores_are_projections_that_err_by_the_noise(model: GSPPCA, rng: np.random.Generator) -> None:
    """A row x = U' t + e of the standardised table has the projection t + U e."""
    X = rng.normal(size=(10, 12)) + model.mean_
    scores, std = model.transform(X, return_std=True)
    standardised = (X - model.mean_) / model.scale_
    np.testing.assert_allclose(scores, standardised @ model.components_.T, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(std, np.sqrt(model.noise_variance_), rtol=1e-12)


# What a user sees


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 21}, "n_components=21 is more than n_features allows. Choose at most 20"),
        ({"n_features_to_select": 21}, "n_features_to_select=21 must be at most 20"),
    ],
    ids=str,
)
def test_wrong_parameters_are_named(options: dict[str, Any], message: str, rng: np.random.Generator) -> None:
    with pytest.raises(ValueError, match=message):
        GSPPCA(**{"n_components": 3, **options}).fit(make_table(rng))


def test_tables_without_variance_are_refused(rng: np.random.Generator) -> None:
    with pytest.raises(ValueError, match="all 4 columns of X are constant"):
        GSPPCA(1).fit(np.ones((5, 4)))
    with pytest.raises(ValueError, match="1 sample"):
        GSPPCA(1).fit(np.ones((1, 4)))
    with pytest.raises(ValueError, match="21 columns, 1 of them constant"):
        GSPPCA(1, n_features_to_select=21).fit(np.insert(make_table(rng), [0], [1.0], axis=1))
    for method in ("get_support", "get_feature_names_out", "sample"):
        with pytest.raises(NotFittedError):
            getattr(GSPPCA(), method)()

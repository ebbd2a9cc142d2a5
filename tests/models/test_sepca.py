"""SePCA: dimension, evidence, standard errors, rows, and how a fit reports its end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.linalg import subspace_angles
from scipy.optimize import minimize, minimize_scalar
from scipy.special import logsumexp
from scipy.stats import bernoulli, multivariate_normal, norm, poisson
from tests.models.sepca_tables import DISPERSION, draw, draw_eta, draw_mixed, fit, hide, orthogonal
from tests.models.tables import is_monotone

from anypca import EPCA, SePCA

FAMILIES = ["gaussian", "poisson", "bernoulli", "binomial(8)", "negative_binomial", "exponential", "gamma"]
FITTED = (
    "components_",
    "components_std_",
    "intercept_",
    "dispersion_",
    "objective_trace_",
    "evidence_",
    "explained_deviance_ratio_",
)


def assert_usable(model: SePCA, X: np.ndarray, k: int | None = None) -> None:
    """All figures are finite, of the right shape and within their limits."""
    k = model.n_components_ if k is None else k
    n, p = X.shape
    assert model.n_components_ == k
    assert model.components_.shape == model.components_std_.shape == (k, p)
    for name in FITTED:
        assert np.isfinite(getattr(model, name)).all(), name
    scores, std = model.transform(X, return_std=True)
    assert scores.shape == std.shape == (n, k)
    for found in (scores, std, model.inverse_transform(scores), model.score_samples(X)):
        assert np.isfinite(found).all()
    assert ((std > 0) & (std < 1 + 1e-9)).all()
    assert model.explained_deviance_ratio_.sum() <= 1.0


# Dimension


def test_the_dimension_is_found(rng: np.random.Generator) -> None:
    """On noise a component may be found by chance, once in fifty tables: four of fifteen have one once in 10 000."""
    names = ["gaussian", "poisson", "bernoulli", "negative_binomial", "gamma"]
    excess = []
    for truth in (0, 1, 3):
        for family in names:
            model = fit(draw(family, rng, 120, 20, truth), family, 6)
            assert model.converged_
            assert model.evidence_by_rank_[model.n_components_] == model.evidence_
            assert max(model.evidence_by_rank_, key=model.evidence_by_rank_.get) == model.n_components_
            excess.append(model.n_components_ - truth)
    assert min(excess) >= 0
    assert np.count_nonzero(excess) <= 3


def test_components_of_one_size_are_all_found(rng: np.random.Generator) -> None:
    """Six components of yes/no answers, each three times as strong as what can be seen."""
    eta = 1.2 * orthogonal(rng, 300, 6) @ np.kron(np.eye(6), np.ones(8)) * 2.0
    X = (rng.random(eta.shape) < 1.0 / (1.0 + np.exp(-eta))).astype(float)
    assert fit(X, "bernoulli", None).n_components_ == 6


@pytest.mark.parametrize("family", ["gaussian", "poisson", "negative_binomial", "bernoulli", "gamma"])
def test_the_planes_are_those_of_the_truth(family: str, rng: np.random.Generator) -> None:
    n, p = 400, 16
    state = rng.bit_generator.state
    X = draw(family, rng, n, p)
    rng.bit_generator.state = state
    truth = np.linalg.svd(draw_eta(rng, n, p, 2) - 1.0, full_matrices=False)[2][:2]
    model = fit(X, family, n_components=2)
    assert np.degrees(subspace_angles(model.components_.T, truth.T).max()) < 15.0
    if family in ("gaussian", "poisson", "gamma"):
        theirs = EPCA(2, family=model.family_, n_jobs=1).fit(X).components_
        assert np.degrees(subspace_angles(model.components_.T, theirs.T).max()) < 8.0


def test_no_components_allowed_or_none_found(rng: np.random.Generator) -> None:
    X = 3.0 + rng.standard_normal((200, 6))
    none = fit(X, "gaussian", 0, dispersion="shared")
    assert_usable(none, X, 0)
    np.testing.assert_allclose(none.intercept_, X.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(none.inverse_transform(np.zeros((2, 0))), [X.mean(axis=0)] * 2, rtol=1e-6)
    mean, std = none.entry_posterior(X, [0], [0])
    assert mean[0] == pytest.approx(X[:, 0].mean())
    assert std[0] == pytest.approx(np.sqrt(none.dispersion_[0] / 200), rel=1e-6)
    found = fit(X, "gaussian", dispersion="shared")
    # Rounds of dispersions end when they gain less than a tenth of a nat.
    assert found.evidence_ == pytest.approx(none.evidence_, abs=0.1) or found.evidence_ > none.evidence_


# Evidence


EXACT = {
    "poisson": (
        lambda eta, rng: rng.poisson(np.exp(eta)),
        lambda x, eta: poisson.logpmf(x, np.exp(eta)),
        1e-9,
    ),
    "gaussian": (
        lambda eta, rng: eta + rng.standard_normal(eta.shape),
        lambda x, eta: norm.logpdf(x, eta),
        1e-9,
    ),
    # Its expectations are known to some ten thousandths of an entry.
    "bernoulli": (
        lambda eta, rng: rng.random(eta.shape) < 1.0 / (1.0 + np.exp(-eta)),
        lambda x, eta: bernoulli.logpmf(x, 1.0 / (1.0 + np.exp(-eta))),
        3e-4,
    ),
}


@pytest.mark.parametrize("family", EXACT)
def test_without_unknowns_the_evidence_is_the_likelihood(family: str, rng: np.random.Generator) -> None:
    sample, log_density, tolerance = EXACT[family]
    offset = rng.standard_normal((50, 5))
    X = sample(offset, rng).astype(float)
    companions = {"offset": offset, "sample_weight": rng.uniform(0.5, 2.0, 50)}
    settings = {"fit_intercept": False, "resolution": 0.5, "dispersion": 1.0}
    expected = log_density(X, offset) + (np.log(0.5) if family == "gaussian" else 0.0)
    expected = companions["sample_weight"] @ expected.sum(axis=1)
    found = fit(X, family, 0, companions, **settings).evidence_
    assert found == pytest.approx(expected, abs=tolerance * X.size)


def exact_evidence(X: np.ndarray) -> float:
    """Log evidence of one gaussian component in unit noise, by quadrature over its loadings.

    Rows are N(0, I + w w'), loadings N(0, I / alpha). The best alpha is taken and costs half the logarithm of the
    number of loadings.
    """
    n, p = X.shape
    gram = X.T @ X
    values, vectors = np.linalg.eigh(gram / n)
    nodes, weights = np.polynomial.hermite_e.hermegauss(8)
    grid = np.stack(np.meshgrid(*[nodes] * p), axis=-1).reshape(-1, p)
    log_weights = np.stack(np.meshgrid(*[np.log(weights)] * p), axis=-1).reshape(-1, p).sum(axis=1)

    def log_joint(w: np.ndarray, alpha: float) -> np.ndarray:
        size = (w**2).sum(axis=-1)
        quadratic = np.trace(gram) - ((w @ gram) * w).sum(axis=-1) / (1.0 + size)
        likelihood = -0.5 * (n * p * np.log(2 * np.pi) + n * np.log1p(size) + quadratic)
        return np.asarray(likelihood + 0.5 * p * np.log(alpha / (2 * np.pi)) - 0.5 * alpha * size)

    def negative(log_alpha: float) -> float:
        alpha = float(np.exp(log_alpha))
        start = vectors[:, -1] * np.sqrt(values[-1] - 1.0)
        mode = minimize(lambda w: -float(log_joint(w, alpha)), start, method="BFGS").x
        steps = 1e-3 * np.eye(p)
        differences = log_joint(mode + steps[:, None] + steps, alpha)
        differences += log_joint(mode - steps[:, None] - steps, alpha)
        differences -= 2.0 * log_joint(mode + steps[:, None] - steps, alpha)
        factor = np.linalg.cholesky(np.linalg.inv(-differences / 4e-6))
        heights = log_joint(mode + grid @ factor.T, alpha) + 0.5 * (grid**2).sum(axis=1)
        # The loadings with all signs turned are as likely.
        return -float(np.log(2.0) + logsumexp(heights + log_weights) + np.log(np.diag(factor)).sum())

    return -float(minimize_scalar(negative, bracket=(-1.0, 1.0), tol=1e-3).fun) - 0.5 * np.log(p)


@pytest.mark.parametrize("size", [1.0, 3.0])
def test_evidence_of_one_gaussian_component_is_that_of_quadrature(
    size: float, rng: np.random.Generator
) -> None:
    w = size * rng.choice([-1.0, 1.0], 4) * rng.uniform(0.8, 1.2, 4)
    X = rng.standard_normal((100, 1)) * w + rng.standard_normal((100, 4))
    settings = {"fit_intercept": False, "dispersion": 1.0, "resolution": 1e-3, "tol": 1e-6}
    model = fit(X, "gaussian", 1, **settings)
    assert model.n_components_ == 1
    assert model.evidence_ - X.size * np.log(1e-3) == pytest.approx(exact_evidence(X), abs=0.6)


@pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_bound_never_falls(family: str, missing: bool, rng: np.random.Generator) -> None:
    X = draw(family, rng)
    X = hide(X, rng) if missing else X
    model = fit(X, family)
    assert is_monotone(model.objective_trace_)
    assert_usable(model, X)
    assert model.n_components_ >= 2


# Standard errors


def test_intervals_of_loadings_cover_them(rng: np.random.Generator) -> None:
    """Nominally 90 %, of 320 loadings of eight tables; those of one table move together."""
    inside = []
    for _ in range(8):
        loadings = orthogonal(rng, 20, 2) * [1.0, 0.6]
        X = rng.standard_normal((100, 2)) @ loadings.T + rng.standard_normal((100, 20))
        model = fit(X, "gaussian", 2, dispersion="shared")
        truth = loadings.T * np.sign((loadings.T * model.components_).sum(axis=1, keepdims=True))
        inside.append(np.abs(model.components_ - truth) < 1.645 * model.components_std_)
    assert 0.78 < np.mean(inside) < 0.98


def test_intervals_of_scores_cover_them(rng: np.random.Generator) -> None:
    n = 500
    truth = rng.standard_normal((n, 1))
    X = rng.poisson(np.exp(1.0 + 0.4 * truth * rng.choice([-1.0, 1.0], 10))).astype(float)
    model = fit(X, "poisson", 1)
    scores, std = model.transform(X, return_std=True)
    scores *= np.sign((scores * truth).sum())
    covered = np.mean(np.abs(scores - truth) < 1.645 * std)
    assert 0.82 < covered < 0.96


# Rows


@pytest.mark.parametrize("family", ["gaussian", "poisson", "bernoulli", "mixed"])
def test_rows_are_seen_alone_as_in_the_fit(family: str, rng: np.random.Generator) -> None:
    X, names = draw_mixed(rng) if family == "mixed" else (draw(family, rng), family)
    X = hide(X, rng, 0.1)
    model = SePCA(4, family=names, n_jobs=1)
    scores = model.fit_transform(X)
    np.testing.assert_allclose(model.transform(X), scores, atol=1e-7)
    np.testing.assert_allclose(model.transform(X[:7]), scores[:7], atol=1e-7)
    np.testing.assert_allclose(model.score_samples(X[3:5]), model.score_samples(X)[3:5], rtol=1e-7)
    assert model.score(X) == pytest.approx(model.score_samples(X).mean())


def test_well_known_loadings_give_the_likelihood_of_a_normal_distribution(rng: np.random.Generator) -> None:
    X = draw("gaussian", rng, 800, 6)
    model = fit(X, "gaussian", 2, dispersion="shared")
    W = model.components_
    exact = multivariate_normal(model.intercept_, W.T @ W + np.diag(model.dispersion_)).logpdf(X)
    np.testing.assert_allclose(model.score_samples(X).mean(), exact.mean(), atol=0.05)
    precision = np.eye(2) + (W / model.dispersion_) @ W.T
    expected = np.linalg.solve(precision, (W / model.dispersion_) @ (X - model.intercept_).T).T
    np.testing.assert_allclose(model.transform(X), expected, atol=0.05)


def test_hidden_cells_are_predicted(rng: np.random.Generator) -> None:
    full = draw("gaussian", rng, 150, 12)
    X = hide(full, rng)
    gone = np.isnan(X)
    model = fit(X, "gaussian")
    filled, std = model.impute(X, return_std=True)
    np.testing.assert_array_equal(filled[~gone], X[~gone])
    error = (filled - full)[gone]
    assert np.mean(error**2) < 2.5 * DISPERSION < np.var(full)
    # Four standard errors of the mean of some 180 squares.
    assert 0.55 < np.mean((error / std[gone]) ** 2) < 1.6


# Offsets, covariates


def test_offsets_and_covariates_are_taken_out(rng: np.random.Generator) -> None:
    n, p = 150, 15
    exposure, covariate, slopes = rng.standard_normal(n), orthogonal(rng, n, 1), rng.uniform(0.3, 0.8, p)
    X = rng.poisson(np.exp(1.0 + exposure[:, None] + covariate * slopes)).astype(float)
    model = fit(X, "poisson", 4, {"offset": exposure, "covariates": covariate})
    none, shifted = (
        fit(X, "poisson", 0, {"offset": exposure + c, "covariates": covariate}) for c in (0.0, 2.0)
    )
    assert model.n_components_ <= 1 < 2 <= fit(X, "poisson").n_components_
    np.testing.assert_allclose(none.coef_.ravel(), slopes, atol=0.35)
    np.testing.assert_allclose(shifted.intercept_, none.intercept_ - 2.0, atol=1e-3)
    np.testing.assert_allclose(shifted.coef_, none.coef_, atol=1e-3)
    with pytest.raises(ValueError, match="offset"):
        model.transform(X)


# Hard tables


HARD: dict[str, Any] = {
    "third-missing": ("negative_binomial", lambda X, rng: hide(X, rng, 0.3)),
    "gaps-in-answers": ("bernoulli", lambda X, rng: hide(X, rng, 0.3)),
    "zero-columns": ("poisson", lambda X, rng: X * (np.arange(X.shape[1]) % 5 > 0)),
    "zero-answers": ("bernoulli", lambda X, rng: X * (np.arange(X.shape[1]) % 5 > 0)),
    "empty-row": ("gamma", lambda X, rng: np.vstack([X, np.full((1, X.shape[1]), np.nan)])),
    "huge-count": ("poisson", lambda X, rng: np.where(np.arange(X.size).reshape(X.shape) == 5, 1e6, X)),
    "wide": ("poisson", lambda X, rng: X.T[:12]),
    "few-rows": ("poisson", lambda X, rng: X[:3]),
    "two-rows": ("poisson", lambda X, rng: X[:2]),
    "repeated-answers": ("bernoulli", lambda X, rng: np.hstack([X, X[:, :2]])),
    "tiny": ("gamma", lambda X, rng: 1e-9 * X),
    "huge": ("gaussian", lambda X, rng: 1e7 + 1e5 * X),
}


@pytest.mark.filterwarnings("ignore::anypca.exceptions.ConvergenceWarning", "ignore:.*scaled_poisson")
@pytest.mark.parametrize("case", HARD)
def test_hard_tables(case: str, rng: np.random.Generator) -> None:
    family, change = HARD[case]
    X = change(draw(family, rng, 80, 20 if family == "bernoulli" else 12), rng)
    model = SePCA(500, family=family, n_jobs=1).fit(X)
    assert_usable(model, X)
    assert model.n_components_ < min(X.shape)
    never = np.nanmax(X, axis=0) == 0
    assert np.abs(model.inverse_transform(model.transform(X))[:, never]).max(initial=0.0) < 0.1


@pytest.mark.parametrize("family", ["poisson", "gamma"])
def test_precise_entries_keep_their_components(family: str, rng: np.random.Generator) -> None:
    """Components of a hundredth, in entries that are known to a third of that."""
    n, p, information = 120, 20, 1e5
    mean = np.exp(0.01 * orthogonal(rng, n, 2) @ orthogonal(rng, p, 2).T)
    draws = {
        "poisson": lambda: rng.poisson(information * mean),
        "gamma": lambda: rng.gamma(information, mean),
    }
    model = fit(draws[family]().astype(float), family, 6)
    assert model.n_components_ == 2
    if family == "gamma":
        assert np.median(model.dispersion_) == pytest.approx(1.0 / information, rel=0.3)

"""Criteria of fits against formulas worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from tests.draws import generator

from anypca import EPCA, PLNPCA, PPCA, PiecewisePCA, SePCA
from anypca.selection import Criterion, FitFacts, Likelihood, criteria, select_rank

RNG = generator("criteria")
N, P, K = 60, 7, 2
REALS = RNG.normal(size=(N, 2)) @ RNG.normal(size=(2, P)) + 0.5 * RNG.normal(size=(N, P)) + 3.0
COUNTS = RNG.poisson(np.exp(RNG.normal(size=(N, 2)) @ RNG.normal(size=(2, P)) * 0.5 + 1.0)).astype(float)
# The step of all columns, far below their noise, and what it adds to the log-probability of REALS.
STEP = 1e-3
LOG_STEPS = N * P * np.log(STEP)
EPCA_OF_REALS = EPCA(K, family="gaussian", ridge=1.0, resolution=STEP, n_jobs=1)


def row_of(estimator, X, rank=K, criterion="marginal_bic", **companions):
    """Criteria of one fit, and the fit."""
    found = select_rank(estimator, X, ranks=[rank], criterion=criterion, **companions)
    (row,) = found.rows
    return row, found.best_estimator_


def entropy_of(precisions):
    """Entropy of normal distributions with the given precision matrices."""
    return sum(0.5 * (len(a) * np.log(2 * np.pi * np.e) - np.linalg.slogdet(a)[1]) for a in precisions)


def test_formulas():
    plugged = Likelihood(-100.0, 30, 200.0, 70.0)
    integrated = Likelihood(-120.0, 10, 50.0, 20.0)
    facts = FitFacts(plugged, integrated, entropy=-4.0, evidence=-130.0)
    found = {name: criteria[name].evaluate(facts) for name in criteria}
    assert found == pytest.approx(
        {
            "aic": 260.0,
            "bic": 200.0 + 30 * np.log(200),
            "mdl": 170.0,
            "marginal_bic": 240.0 + 10 * np.log(50),
            "icl": 240.0 + 10 * np.log(50) - 8.0,
            "evidence": 260.0,
            "held_out": None,
        }
    )
    assert {criteria[name].evaluate(FitFacts()) for name in criteria} == {None}


def test_ppca_by_hand():
    """The likelihood of a normal distribution at the closed-form solution, d = p k - k (k - 1) / 2 + p + 1."""
    found, model = row_of(PPCA(n_jobs=1), REALS)
    values, axes = np.linalg.eigh(np.cov(REALS.T, bias=True))
    noise = values[: P - K].mean()
    covariance = axes[:, P - K :] * values[P - K :] @ axes[:, P - K :].T
    covariance += noise * axes[:, : P - K] @ axes[:, : P - K].T
    expected = stats.multivariate_normal.logpdf(REALS, REALS.mean(axis=0), covariance).sum()
    d = P * K - 1 + P + 1
    assert found["log_likelihood"] == pytest.approx(expected, rel=1e-10)
    assert found["n_parameters"] == d
    assert found["aic"] == pytest.approx(-2 * expected + 2 * d, rel=1e-10)
    assert found["bic"] == pytest.approx(-2 * expected + d * np.log(N), rel=1e-10)
    assert found["mdl"] == pytest.approx(found["bic"] / 2, rel=1e-12)
    assert found["marginal_bic"] == found["bic"]
    # The posterior of a unit-variance score has variance noise / explained variance.
    shrinkage = model.noise_variance_ / model.explained_variance_
    entropy = N * 0.5 * np.log(2 * np.pi * np.e * shrinkage).sum()
    assert found["icl"] == pytest.approx(found["bic"] + 2 * entropy, rel=1e-10)


def test_entropy_of_ppca_with_missing_entries():
    table = REALS.copy()
    table[4, 2] = table[9, :3] = np.nan
    found, model = row_of(PPCA(n_jobs=1), table)
    loadings = model.components_.T * np.sqrt(model.explained_variance_ - model.noise_variance_)
    seen = [loadings[~np.isnan(row)] for row in table]
    expected = entropy_of(np.eye(K) + part.T @ part / model.noise_variance_ for part in seen)
    assert found["icl"] - found["marginal_bic"] == pytest.approx(2 * expected, rel=1e-8)


def test_epca_by_hand():
    """Plugged-in scores are parameters: k (n - 1 + p - k) beside p intercepts and one noise variance."""
    found, model = row_of(EPCA_OF_REALS, REALS)
    means = model.inverse_transform(model.transform(REALS))
    log_likelihood = stats.norm.logpdf(REALS, means, np.sqrt(model.dispersion_[0])).sum() + LOG_STEPS
    d = K * (N - 1 + P - K) + P + 1
    assert found["n_parameters"] == d
    assert found["aic"] == pytest.approx(-2 * log_likelihood + 2 * d, rel=1e-9)
    assert found["bic"] == pytest.approx(-2 * log_likelihood + d * np.log(N * P), rel=1e-9)
    scores, loadings = K * (N - 1 - K), P * (K + 1) + 1
    length = 0.5 * (scores * np.log(P) + loadings * np.log(N))
    assert found["mdl"] == pytest.approx(-log_likelihood + length, rel=1e-9)


def test_the_marginal_of_gaussian_epca_is_exact():
    found, model = row_of(EPCA_OF_REALS, REALS)
    noise = model.dispersion_[0]
    loadings = model.components_.T * np.sqrt(model.explained_variance_)
    covariance = loadings @ loadings.T + noise * np.eye(P)
    expected = stats.multivariate_normal.logpdf(REALS, model.intercept_, covariance).sum() + LOG_STEPS
    entropy = N * entropy_of([np.eye(K) + loadings.T @ loadings / noise])
    d = P * K - 1 + P + 1
    assert found["marginal_bic"] == pytest.approx(-2 * expected + d * np.log(N), rel=1e-8)
    assert found["icl"] == pytest.approx(-2 * expected + d * np.log(N) + 2 * entropy, rel=1e-8)


def test_parameters_of_a_predictor_are_the_dimension_of_its_manifold():
    """The rank of the derivative of F B' + Z W' at a random point, with two fixed features."""
    rng, n, p, k, f = generator("manifold"), 9, 6, 2, 2
    fixed = np.column_stack([np.ones(n), rng.normal(size=n)])
    Z, W = rng.normal(size=(n, k)), rng.normal(size=(p, k))
    blocks = [
        np.einsum("ia,jb->ijab", np.eye(n), W).reshape(n * p, -1),
        np.einsum("ia,jb->ijab", Z, np.eye(p)).reshape(n * p, -1),
        np.einsum("ia,jb->ijab", fixed, np.eye(p)).reshape(n * p, -1),
    ]
    counts = 1.0 + rng.poisson(3.0, size=(n, p))
    model = EPCA(family="poisson", ridge=1.0, n_jobs=1)
    found, _ = row_of(model, counts, k, covariates=fixed[:, 1:])
    assert found["n_parameters"] == np.linalg.matrix_rank(np.hstack(blocks)) == k * (n - f + p - k) + p * f


@pytest.mark.parametrize(
    ("family", "expected"),
    [("poisson", 0), ("gaussian", 1), (["gaussian"] * 3 + ["poisson"] * 4, 3)],
    ids=["none", "shared", "by-column"],
)
def test_estimated_dispersions_are_counted(family, expected):
    table = COUNTS if isinstance(family, str) else np.column_stack([REALS[:, :3], COUNTS[:, 3:]])
    found, _ = row_of(EPCA(family=family, ridge=1.0, n_jobs=1), table, 1)
    assert found["n_parameters"] == N - 1 + P - 1 + P + expected


@pytest.mark.parametrize(
    ("estimator", "table", "names"),
    [
        (PLNPCA(n_jobs=1), COUNTS, {"aic", "bic", "mdl", "marginal_bic", "icl"}),
        (PiecewisePCA(n_pieces=1, n_init=1, n_jobs=1), REALS, {"aic", "bic", "mdl", "marginal_bic"}),
    ],
    ids=["plnpca", "piecewise"],
)
def test_models_with_criteria_of_their_own(estimator, table, names):
    found, model = row_of(estimator, table)
    assert found.keys() & set(criteria) == names
    for name in names & {"aic", "bic", "icl"}:
        if hasattr(model, f"{name}_"):
            assert found[name] == pytest.approx(getattr(model, f"{name}_"), rel=1e-12)
    assert found["bic"] == pytest.approx(model.bic_, rel=1e-12)


def test_evidence_is_that_of_the_fit():
    estimator = SePCA(family="gaussian", n_jobs=1)
    found, model = row_of(estimator, REALS, 3, "evidence")
    assert found["evidence"] == -2 * model.evidence_
    with pytest.raises(ValueError, match=r"'bic'.*SePCA.*'evidence', 'held_out'"):
        select_rank(estimator, REALS, ranks=[1], criterion="bic")


@pytest.mark.parametrize(
    "model",
    [PPCA(n_jobs=1), EPCA(family="poisson", ridge=1.0, tol=1e-8, n_jobs=1)],
    ids=["ppca", "epca"],
)
def test_a_row_of_weight_two_is_two_rows(model):
    weight = np.where(np.arange(N) < 5, 2.0, 1.0)
    once, _ = row_of(model, COUNTS, 1, sample_weight=weight)
    twice, _ = row_of(model, np.vstack([COUNTS, COUNTS[:5]]), 1)
    names = once.keys() & set(criteria)
    assert {name: once[name] for name in names} == pytest.approx(
        {name: twice[name] for name in names}, rel=1e-5
    )


def test_a_criterion_of_ones_own():
    entropy = Criterion("entropy", "entropy of the scores", lambda facts: -facts.entropy)
    found = select_rank(PPCA(n_jobs=1), REALS, ranks=[1, 2, 3], criterion=entropy)
    np.testing.assert_allclose(
        found.values, [(row["marginal_bic"] - row["icl"]) / 2 for row in found.rows], rtol=1e-9
    )
    assert found.criterion == "entropy"


@pytest.mark.parametrize(
    ("criterion", "error", "message"),
    [("bix", ValueError, "'bix'.*Did you mean 'bic'"), (3, TypeError, "criterion.*'aic'")],
    ids=["misspelt", "number"],
)
def test_unknown_criteria(criterion, error, message):
    with pytest.raises(error, match=message):
        select_rank(PPCA(), REALS, criterion=criterion)

"""Criteria against formulas worked out by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from anypca import EPCA, PLNPCA, PPCA, PiecewisePCA, SePCA
from anypca.models._criteria import evaluate_all, resolve_criterion
from anypca.selection import FitFacts, Likelihood, criteria, describe_fit, select_rank
from anypca.selection.facts import Companions

RNG = np.random.default_rng(3)
N, P, K = 60, 7, 2
REALS = RNG.normal(size=(N, 2)) @ RNG.normal(size=(2, P)) + 0.5 * RNG.normal(size=(N, P)) + 3.0
COUNTS = RNG.poisson(np.exp(RNG.normal(size=(N, 2)) @ RNG.normal(size=(2, P)) * 0.5 + 1.0)).astype(float)
NOTHING = Companions()
# The step of all columns, far below their noise, and what it adds to the log-probability of REALS.
STEP = 1e-3
LOG_STEPS = N * P * np.log(STEP)


def facts_of(model, X, **companions):
    given = Companions(**companions)
    return describe_fit(model.fit(X, **given.for_fit()), X, given)


def test_the_registry_names_the_criteria():
    assert list(criteria) == ["aic", "bic", "evidence", "held_out", "icl", "marginal_bic", "mdl"]


def test_formulas():
    plugged = Likelihood(-100.0, 30, 200.0, 70.0)
    integrated = Likelihood(-120.0, 10, 50.0, 20.0)
    found = evaluate_all(FitFacts(plugged, integrated, entropy=-4.0, evidence=-130.0))
    assert found == pytest.approx(
        {
            "aic": 260.0,
            "bic": 200.0 + 30 * np.log(200),
            "mdl": 170.0,
            "marginal_bic": 240.0 + 10 * np.log(50),
            "icl": 240.0 + 10 * np.log(50) - 8.0,
            "evidence": 260.0,
        }
    )


def test_ppca_by_hand():
    """The likelihood of a normal distribution at the closed-form solution, d = p k - k (k - 1) / 2 + p + 1."""
    model = PPCA(K, n_jobs=1)
    facts = facts_of(model, REALS)
    values, axes = np.linalg.eigh(np.cov(REALS.T, bias=True))
    noise = values[: P - K].mean()
    covariance = axes[:, P - K :] * values[P - K :] @ axes[:, P - K :].T
    covariance += noise * axes[:, : P - K] @ axes[:, : P - K].T
    expected = stats.multivariate_normal.logpdf(REALS, REALS.mean(axis=0), covariance).sum()
    d = P * K - 1 + P + 1
    found = evaluate_all(facts)
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
    model = PPCA(K, n_jobs=1)
    facts = facts_of(model, table)
    signal = model.explained_variance_ - model.noise_variance_
    loadings = model.components_.T * np.sqrt(signal)
    expected = 0.0
    for row in table:
        seen = loadings[~np.isnan(row)]
        precision = np.eye(K) + seen.T @ seen / model.noise_variance_
        expected += 0.5 * (K * np.log(2 * np.pi * np.e) - np.linalg.slogdet(precision)[1])
    assert facts.entropy == pytest.approx(expected, rel=1e-9)


def test_epca_by_hand():
    """Plugged-in scores are parameters: k (n - 1 + p - k) beside p intercepts and one noise variance."""
    model = EPCA(K, family="gaussian", resolution=STEP, n_jobs=1)
    facts = facts_of(model, REALS)
    means = model.inverse_transform(model.transform(REALS))
    log_likelihood = stats.norm.logpdf(REALS, means, np.sqrt(model.dispersion_[0])).sum() + LOG_STEPS
    d = K * (N - 1 + P - K) + P + 1
    found = evaluate_all(facts)
    assert found["aic"] == pytest.approx(-2 * log_likelihood + 2 * d, rel=1e-9)
    assert found["bic"] == pytest.approx(-2 * log_likelihood + d * np.log(N * P), rel=1e-9)
    scores, loadings = K * (N - 1 - K), P * (K + 1) + 1
    length = 0.5 * (scores * np.log(P) + loadings * np.log(N))
    assert found["mdl"] == pytest.approx(-log_likelihood + length, rel=1e-9)


def test_the_marginal_of_gaussian_epca_is_exact():
    model = EPCA(K, family="gaussian", resolution=STEP, n_jobs=1)
    facts = facts_of(model, REALS)
    noise = model.dispersion_[0]
    loadings = model.components_.T * np.sqrt(model.explained_variance_)
    covariance = loadings @ loadings.T + noise * np.eye(P)
    expected = stats.multivariate_normal.logpdf(REALS, model.intercept_, covariance).sum() + LOG_STEPS
    precision = np.eye(K) + loadings.T @ loadings / noise
    entropy = N * 0.5 * (K * np.log(2 * np.pi * np.e) - np.linalg.slogdet(precision)[1])
    d = P * K - 1 + P + 1
    found = evaluate_all(facts)
    assert found["marginal_bic"] == pytest.approx(-2 * expected + d * np.log(N), rel=1e-8)
    assert found["icl"] == pytest.approx(-2 * expected + d * np.log(N) + 2 * entropy, rel=1e-8)


def test_parameters_of_a_predictor_are_the_dimension_of_its_manifold():
    """The rank of the derivative of F B' + Z W' at a random point, with two fixed features."""
    rng = np.random.default_rng(0)
    n, p, k, f = 9, 6, 2, 2
    fixed = np.column_stack([np.ones(n), rng.normal(size=n)])
    Z, W = rng.normal(size=(n, k)), rng.normal(size=(p, k))
    blocks = [
        np.einsum("ia,jb->ijab", np.eye(n), W).reshape(n * p, -1),
        np.einsum("ia,jb->ijab", Z, np.eye(p)).reshape(n * p, -1),
        np.einsum("ia,jb->ijab", fixed, np.eye(p)).reshape(n * p, -1),
    ]
    dimension = np.linalg.matrix_rank(np.hstack(blocks))
    counts = rng.poisson(3.0, size=(n, p)).astype(float)
    facts = facts_of(EPCA(k, family="poisson", n_jobs=1), counts, covariates=fixed[:, 1:])
    assert facts.likelihood.n_parameters == dimension == k * (n - f + p - k) + p * f


@pytest.mark.parametrize(
    ("family", "expected"),
    [("poisson", 0), ("gaussian", 1), (["gaussian"] * 3 + ["poisson"] * 4, 3)],
    ids=["none", "shared", "by-column"],
)
def test_estimated_dispersions_are_counted(family, expected):
    table = np.column_stack([REALS[:, :3], COUNTS[:, 3:]])
    model = EPCA(1, family=family, n_jobs=1)
    facts = facts_of(model, table if not isinstance(family, str) else COUNTS)
    assert facts.likelihood.n_parameters == N - 1 + P - 1 + P + expected


def test_plnpca_has_its_own_criteria():
    model = PLNPCA(K, n_jobs=1)
    found = evaluate_all(facts_of(model, COUNTS))
    assert found["bic"] == pytest.approx(model.bic_, rel=1e-12)
    assert found["icl"] == pytest.approx(model.icl_, rel=1e-12)
    assert found["aic"] == pytest.approx(model.aic_, rel=1e-12)


def test_piecewise_has_its_own_criteria_and_no_entropy():
    model = PiecewisePCA(K, n_pieces=1, n_init=1, n_jobs=1)
    found = evaluate_all(facts_of(model, REALS))
    assert set(found) == {"aic", "bic", "mdl", "marginal_bic"}
    assert found["bic"] == pytest.approx(model.bic_, rel=1e-12)


def test_evidence_is_that_of_the_fit():
    model = SePCA(3, family="gaussian", n_jobs=1)
    assert evaluate_all(facts_of(model, REALS)) == {"evidence": -2 * model.evidence_}


def test_a_model_tells_its_own_numbers():
    model = SimpleNamespace(n_parameters_=4, log_likelihood_=0.0, objective_trace_=[-9.0], entropy_=1.0)
    found = evaluate_all(describe_fit(model, REALS, NOTHING))
    assert found["aic"] == 8.0
    assert found["icl"] == pytest.approx(4 * np.log(N) + 2.0)


@pytest.mark.parametrize(
    "model", [EPCA(1, family="poisson", n_jobs=1), PLNPCA(1, n_jobs=1)], ids=["epca", "plnpca"]
)
def test_a_row_of_weight_two_is_two_rows(model):
    weight = np.ones(N)
    weight[:5] = 2.0
    once = evaluate_all(facts_of(model, COUNTS, sample_weight=weight))
    twice = evaluate_all(facts_of(model, np.vstack([COUNTS, COUNTS[:5]])))
    assert once == pytest.approx(twice, rel=1e-5)


def test_names_resolve_and_objects_pass():
    chosen = resolve_criterion("bic")
    assert resolve_criterion(chosen) is chosen
    with pytest.raises(ValueError, match=r"unknown criterion 'bix'.*Did you mean 'bic'"):
        resolve_criterion("bix")
    with pytest.raises(TypeError, match="criterion must be one of 'aic'"):
        resolve_criterion(3)


def test_missing_criteria_name_those_there_are():
    with pytest.raises(
        ValueError, match=r"'bic' is not defined for a fit of SePCA\. It has 'evidence', 'held_out'"
    ):
        select_rank(SePCA(n_jobs=1, family="gaussian"), REALS, ranks=[1], criterion="bic")

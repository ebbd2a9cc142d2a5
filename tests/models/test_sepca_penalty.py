"""Penalties of the loadings beside the relevance, in SePCA's joint modes."""

from __future__ import annotations

import numpy as np
import pytest

from anypca import SePCA
from anypca.families import resolve_family
from anypca.models.sepca._loading_prior import LoadingPrior, relevance
from anypca.models.sepca._settings import ModeSettings
from anypca.priors import L1, Group, Scad

#: At which columns of noise leave and the others stay: poisson entries tell more.
STRENGTHS = {"gaussian": 80.0, "poisson": 120.0, "bernoulli": 15.0}
PRIORS = {"l1": L1(), "scad": Scad(), "group": Group()}


def sparse_table(family):
    """Two components, each behind a third of the 24 columns; the last third is noise."""
    rng = np.random.default_rng(0)
    W = np.zeros((2, 24))
    W[0, :8], W[1, 8:16] = (rng.uniform(0.6, 1.2, 8) * rng.choice([-1, 1], 8) for _ in range(2))
    eta = rng.normal(size=(120, 2)) @ W * (3.0 if family == "bernoulli" else 1.0)
    return resolve_family(family, 24).sample(eta + (family == "poisson"), 0.5, rng), W


def fit(X, family, name, strength=None, **options):
    strength = STRENGTHS[family] if strength is None else strength
    options = {"family": family, "inference": "map", "n_jobs": 1} | options
    return SePCA(4, loading_penalty=name, loading_strength=strength, **options).fit(X)


def made(name, nu=0.4, unit=0.7):
    return LoadingPrior(ModeSettings(3, penalty=PRIORS[name], strength=2.0), nu, unit)


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("family", ["gaussian", "poisson", "bernoulli"])
def test_objective_never_decreases_between_removals(family, name):
    trace = fit(sparse_table(family)[0], family, name).objective_trace_
    assert len(trace) >= 2
    assert np.diff(trace).min() >= -1e-12 * np.abs(trace).max()


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_zeros_are_exact_and_where_they_belong(family, name):
    X, W = sparse_table(family)
    model = fit(X, family, name)
    assert model.n_components_ == 2
    assert model.describe().has_sparse_loadings
    used = model.components_ != 0
    # Columns of noise leave all components; with penalties of single loadings each column has one at most.
    np.testing.assert_array_equal(used.any(axis=0), W.any(axis=0))
    if name != "group":
        assert {tuple(row) for row in used} == {tuple(row) for row in W != 0}
    assert np.isnan(model.evidence_)


@pytest.mark.parametrize("name", PRIORS)
def test_scale_is_the_best_one(name):
    loadings = np.random.default_rng(0).normal(size=(10, 3)) * np.array([0.5, 1.0, 3.0])
    loadings[:4, 1] = 0.0
    prior, size = made(name), np.array([30.0, 20.0, 50.0])

    def objective(scale):
        """With the relevance at its best, whose prior then is D / 2 log alpha and a constant."""
        new = loadings / scale
        held = 0.5 * prior.nu * (scale**2 * size).sum() + prior.nu * prior.penalty(new)
        return 0.5 * len(loadings) * np.log(relevance(new)).sum() - held

    scale = np.ones(3)
    for _ in range(30):
        scale = scale * prior.scale(loadings / scale, scale**2 * size, np.full(3, 10))
    for k in range(3):
        for factor in (0.99, 1.01):
            assert objective(np.where(np.arange(3) == k, factor * scale, scale)) < objective(scale)


@pytest.mark.parametrize("name", PRIORS)
def test_prior_is_relevance_and_penalty(name):
    """In units of the data's weight; the intercept is free."""
    u, alpha = np.random.default_rng(1).normal(size=(6, 4)), np.array([0.3, 1.0, 4.0])
    prior = made(name)
    expected = 0.5 * (alpha / prior.nu * u[:, :3] ** 2).sum() + 2.0 * PRIORS[name].value(0.7 * u[:, :3]).sum()
    assert prior.make(alpha, 1).value(u).sum() == pytest.approx(expected)
    assert prior.make(alpha, 0).value(u[:, :3]).sum() == pytest.approx(expected)
    assert prior.make(np.zeros(0), 1).value(u[:, :1]).sum() == 0.0


@pytest.mark.parametrize("name", ["l1", "group"])
def test_the_mode_is_stationary(name):
    """Where loadings are not zero: nu times the likelihood's slope is that of relevance and penalty."""
    X, nu = sparse_table("poisson")[0], 0.5
    model = fit(X, "poisson", name, nu=nu, tol=1e-7)
    # Back to the coordinates of the fit, where the scores' prior has unit precision.
    root = np.sqrt(model._row_model().problem.score_prior.precision)
    scores, W = model.transform(X) * root, model.components_ / root[:, None]
    alpha, unit = model.alpha_ * root**2, np.sqrt(24 / (nu * len(X)))
    pull = nu * scores.T @ (X - np.exp(scores @ W + model.intercept_))
    length = np.linalg.norm(W, axis=0, keepdims=True)
    slope = np.sign(W) if name == "l1" else np.divide(W, length, out=np.zeros_like(W), where=length > 0)
    held = alpha[:, None] * W + nu * STRENGTHS["poisson"] * unit * slope
    used = W != 0
    np.testing.assert_allclose(pull[used], held[used], atol=5e-3 * np.abs(held).max())
    # The scale is at its optimum: a factor on the scores gains what the penalty and the scores' prior lose.
    growth = (W * slope).sum(axis=1) * nu * STRENGTHS["poisson"] * unit
    np.testing.assert_allclose(nu * (scores**2).sum(axis=0), 24 + growth, rtol=5e-3)


def test_a_weak_penalty_is_nearly_none_and_a_strong_one_leaves_nothing():
    X = sparse_table("poisson")[0]
    plain = SePCA(4, family="poisson", inference="map", n_jobs=1).fit(X)
    weak = fit(X, "poisson", "group", 1e-6)
    assert weak.n_components_ == plain.n_components_
    assert weak.joint_log_likelihood_ == pytest.approx(plain.joint_log_likelihood_, rel=1e-4)
    assert fit(X, "poisson", "l1", 1e5).n_components_ == 0


def test_a_prior_may_be_given():
    X = sparse_table("poisson")[0]
    by_name, by_prior = (
        fit(X, "poisson", "l1", 20.0),
        SePCA(
            4, family="poisson", inference="map", loading_penalty=L1(20.0), loading_strength=1.0, n_jobs=1
        ).fit(X),
    )
    np.testing.assert_allclose(by_name.components_, by_prior.components_, atol=1e-8)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"inference": "vb"}, ValueError, "sparsity= with inference='vb'"),
        ({"inference": "hmc"}, ValueError, "inference='hmc' has posteriors"),
        ({"sparsity": 1.0}, ValueError, "two penalties of the same loadings"),
        ({"nu_path": "auto", "nu_criterion": "evidence"}, ValueError, "nu_criterion='held_out'"),
        ({"loading_penalty": "adaptive_l0"}, ValueError, "use sparsity="),
        ({"loading_penalty": "l7"}, ValueError, "loading_penalty='l7'"),
        ({"loading_penalty": 3}, TypeError, "loading_penalty must be the name of a penalty"),
        ({"loading_strength": 0.0}, ValueError, "'loading_strength' parameter"),
    ],
    ids=lambda value: str(value),
)
def test_bad_parameters(parameters, error, message):
    given = {"inference": "map", "loading_penalty": "l1"} | parameters
    with pytest.raises(error, match=message):
        SePCA(2, family="poisson", **given).fit(sparse_table("poisson")[0])

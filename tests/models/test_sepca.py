"""SePCA: the bound, the dimension, and the estimator contract."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.datasets import load_wine

from anypca import EPCA, SePCA
from anypca.datasets import make_low_rank
from anypca.engine import check_data, check_values, executor_for, summarise
from anypca.families import resolve_family
from anypca.linalg import pack_symmetric
from anypca.models.sepca import _sweeps
from anypca.models.sepca._posterior import Loadings
from anypca.models.sepca._problem import VariationalProblem
from anypca.models.sepca._scores import Affine
from anypca.solvers import Loop

FAMILIES = ["gaussian", "poisson", "bernoulli", "binomial(8)", "negative_binomial", "exponential", "gamma"]
N, P = 120, 25


def table(family, n_components, seed=0, missing=0.0):
    drawn = make_low_rank(
        N, P, n_components, family=family, signal=1.0, dispersion=0.3, missing=missing, random_state=seed
    )
    return drawn.X


def start(family, k, seed=0, fixed=1):
    rng = np.random.default_rng(seed)
    m = k + fixed
    precision = np.tile(pack_symmetric(50.0 * np.eye(m)), (P, 1))
    mean = rng.normal(size=(P, m)) * 0.3
    dispersion = np.full(P, 0.3 if family.fixed_dispersion is None else 1.0)
    return Loadings(mean, precision, np.ones(k), dispersion, np.zeros((P, fixed)))


def run(X, family, k, **options):
    data = check_data(X)
    with executor_for(data, 1) as executor:
        data = check_values(summarise(data, executor), data)
        problem = VariationalProblem(family)
        return Loop(problem, data, executor, max_iter=25, tol=1e-9, accelerate=False, **options).run(
            start(family, k)
        )


@pytest.mark.parametrize("missing", [0.0, 0.3], ids=["complete", "missing"])
@pytest.mark.parametrize("name", FAMILIES)
def test_bound_never_decreases(name, missing):
    family = resolve_family(name, P)
    result, _, _ = run(table(name, 2, missing=missing), family, 4)
    assert np.diff(result.trace).min() >= -1e-10 * np.abs(result.trace).max()


@pytest.mark.parametrize("name", FAMILIES)
def test_change_of_coordinates_keeps_the_predictor(name):
    family = resolve_family(name, P)
    problem = VariationalProblem(family)
    data = check_data(table(name, 2))
    with executor_for(data, 1) as executor:
        shared = start(family, 3)
        local, stats = executor.sweep(lambda b, z: problem.step(b, shared, z), data)
        changed = problem._change(shared, stats)
        back = problem._unchange(changed)
    assert_allclose(back.mean, shared.mean, atol=1e-10)
    assert_allclose(back.precision, shared.precision, rtol=1e-8, atol=1e-8)
    scores = executor.gather(local)[0]
    moved = changed.change.apply(scores)
    features = np.ones((len(scores.mean), 1))
    assert_allclose(
        np.hstack([moved.mean, features]) @ changed.mean.T,
        np.hstack([scores.mean, features]) @ shared.mean.T,
        atol=1e-9,
    )


@pytest.mark.parametrize("truth", [0, 2, 3])
@pytest.mark.parametrize("name", ["gaussian", "poisson", "bernoulli", "negative_binomial", "gamma"])
def test_finds_the_dimension(name, truth):
    signal = 2.0 if name == "bernoulli" else 1.0
    drawn = make_low_rank(200, 30, truth, family=name, signal=signal, dispersion=0.3, random_state=truth)
    model = SePCA(max_components=6, family=name).fit(drawn.X)
    assert model.n_components_ == truth
    assert model.converged_


def test_gaussian_bound_is_below_the_exact_evidence_of_the_loadings_mean():
    X = table("gaussian", 2)
    model = SePCA(max_components=4, family="gaussian").fit(X)
    W, b, phi = model.components_, model.intercept_, model.dispersion_
    covariance = W.T @ W + np.diag(phi)
    residual = X - b
    exact = -0.5 * (
        np.einsum("ij,ij->i", residual, np.linalg.solve(covariance, residual.T).T)
        + np.linalg.slogdet(2 * np.pi * covariance)[1]
    )
    # Uncertain loadings can only lower the bound of a row against the plug-in likelihood.
    assert (model.score_samples(X) <= exact + 1e-8).all()
    assert_allclose(model.score_samples(X).mean(), exact.mean(), rtol=0.05)


@pytest.mark.parametrize("excess", [3.2, 4.0, 8.0])
@pytest.mark.parametrize("shape", [(60, 20), (40, 80), (30, 30)], ids=str)
def test_signal_ratio_of_a_component_in_unit_noise(shape, excess):
    """A singular value g rests where g^2 = n + p + n / r + r p, with r the squared loadings over their variance.

    Of the two roots the larger one lasts, from r = sqrt(n / p) on.
    """
    n, p = shape
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.normal(size=(size, 1)))[0] for size in shape)
    squared = n + p + excess * np.sqrt(n * p)
    options = {"dispersion": 1.0, "fit_intercept": False, "tol": 1e-9}
    model = SePCA(2, family="gaussian", **options).fit(np.sqrt(squared) * left @ right.T)
    assert model.n_components_ == 1
    (ratio,) = model._rows.loadings.signal_ratio
    assert ratio == pytest.approx(np.sqrt(n / p) * 0.5 * (excess + np.sqrt(excess**2 - 4.0)), rel=1e-6)


@pytest.mark.parametrize("name", ["gaussian", "poisson", "bernoulli"])
def test_projection_of_training_rows_is_that_of_the_fit(name):
    X = table(name, 2)
    model = SePCA(max_components=5, family=name)
    scores = model.fit_transform(X)
    again, std = model.transform(X, return_std=True)
    assert_allclose(scores, again, atol=1e-8)
    assert scores.shape == std.shape == (N, model.n_components_)
    assert (std > 0).all()
    assert (std < 1 + 1e-9).all()
    assert_allclose(model.transform(X[:7]), scores[:7], atol=1e-7)


def test_sparse_dense_and_float32_agree():
    X = table("poisson", 2)
    options = {"max_components": 4, "family": "poisson", "tol": 1e-7}
    dense = SePCA(**options).fit(X)
    again = SePCA(**options).fit(sparse.csr_array(X))
    single = SePCA(**(options | {"tol": 1e-4})).fit(X.astype(np.float32))
    assert_allclose(again.components_, dense.components_, atol=1e-8)
    assert single.n_components_ == dense.n_components_
    assert_allclose(single.components_, dense.components_, atol=2e-2)


def test_offsets_and_covariates_are_taken_out():
    rng = np.random.default_rng(3)
    exposure = rng.normal(size=200)
    covariate = rng.normal(size=(200, 1))
    eta = exposure[:, None] + covariate @ rng.normal(size=(1, 20)) + 1.0
    X = rng.poisson(np.exp(eta)).astype(float)
    with_both = SePCA(max_components=4, family="poisson").fit(X, offset=exposure, covariates=covariate)
    without = SePCA(max_components=4, family="poisson").fit(X)
    assert with_both.n_components_ == 0
    assert without.n_components_ == 2


def test_no_component_gives_empty_scores():
    X = np.random.default_rng(0).normal(size=(60, 8))
    model = SePCA(family="gaussian").fit(X)
    assert model.n_components_ == 0
    assert model.transform(X).shape == (60, 0)
    assert model.components_.shape == (0, 8)
    assert_allclose(model.inverse_transform(np.zeros((60, 0))), np.tile(X.mean(axis=0), (60, 1)), atol=1e-6)


def test_degenerate_columns_and_missing_entries():
    rng = np.random.default_rng(1)
    drawn = make_low_rank(150, 20, 2, family="poisson", random_state=1)
    X = np.hstack([drawn.X, np.zeros((150, 2)), drawn.X[:, :2]])
    X[rng.random(X.shape) < 0.3] = np.nan
    model = SePCA(max_components=50, family="poisson").fit(X)
    assert model.n_components_ == 2
    for name in ("components_", "components_std_", "alpha_", "objective_trace_", "explained_deviance_ratio_"):
        assert np.isfinite(getattr(model, name)).all(), name
    assert model.explained_deviance_ratio_.sum() <= 1


def test_reports_what_left_and_why():
    model = SePCA(max_components=6, family="poisson").fit(table("poisson", 2))
    assert [r.n_components for r in model.pruning_path_] == [6, 5, 4, 3]
    assert {r.reason for r in model.pruning_path_} <= {"relevance", "evidence"}
    assert max(model.evidence_by_rank_, key=model.evidence_by_rank_.get) == model.n_components_
    assert model.evidence_by_rank_[model.n_components_] == model.evidence_


def test_subspace_agrees_with_epca():
    X = table("poisson", 2)
    ours = SePCA(max_components=5, family="poisson").fit(X)
    theirs = EPCA(2, family="poisson").fit(X)
    angles = np.linalg.svd(np.linalg.qr(ours.components_.T)[0].T @ theirs.components_.T)[1]
    assert angles.min() > 0.99


def test_intervals_of_scores_cover():
    drawn = make_low_rank(300, 40, 1, family="poisson", intercept=1.0, random_state=7)
    model = SePCA(max_components=3, family="poisson").fit(drawn.X)
    scores, std = model.transform(drawn.X, return_std=True)
    truth = drawn.scores[:, 0] - drawn.scores[:, 0].mean()
    truth *= np.sign(truth @ scores[:, 0]) * scores[:, 0].std() / truth.std()
    covered = np.abs(truth - scores[:, 0]) <= 1.645 * std[:, 0]
    assert 0.8 <= covered.mean() <= 0.97


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"max_components": -1}, "max_components"),
        ({"inference": "vbx"}, "inference"),
        ({"dispersion": 0.0}, "dispersion"),
        ({"family": "poison"}, "Did you mean 'poisson'"),
        ({"tol": 0}, "tol"),
    ],
    ids=lambda value: str(value),
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        SePCA(**parameters).fit(table("poisson", 1))


@pytest.mark.parametrize("family", ["gaussian", "poisson", "negative_binomial", "bernoulli", "exponential"])
def test_no_component_is_kept_that_has_faded(family):
    """On noise, whatever is kept has loadings; what left is on record, in order."""
    for seed in range(8):
        X = make_low_rank(60, 10, 0, family=family, dispersion=0.5, intercept=0.5, random_state=seed).X
        model = SePCA(6, family=family, n_jobs=1).fit(X)
        sizes = (model.components_**2).sum(axis=1)
        assert (sizes > 0.05 * (model.components_std_**2).sum(axis=1)).all()
        assert model.pruning_path_[-1].n_components == model.n_components_ + 1


@pytest.mark.parametrize("family", ["gaussian", "poisson", "negative_binomial", "bernoulli"])
def test_no_components_allowed_or_none_found(family):
    X = make_low_rank(200, 6, 0, family=family, dispersion=2.0, intercept=0.5, random_state=0).X
    none, found = (SePCA(k, family=family, n_jobs=1).fit(X) for k in (0, 4))
    assert none.n_components_ == found.n_components_ == 0
    assert none.evidence_ == pytest.approx(found.evidence_, abs=0.02)
    (mean, std), (_, again) = (model.entry_posterior(X, [0], [0]) for model in (none, found))
    assert std[0] == pytest.approx(again[0], rel=0.01)
    if family == "gaussian":
        assert mean[0] == pytest.approx(X[:, 0].mean())
        assert std[0] == pytest.approx(np.sqrt(none.dispersion_[0] / 200), rel=1e-6)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_what_loadings_know_of_themselves_survives_a_change(fit_intercept):
    """Second moments and determinants that are carried over are those of the new posterior."""
    rng = np.random.default_rng(0)
    k, m, p = 3, 3 + fit_intercept, 7
    factor = rng.normal(size=(p, m, m)) + 3.0 * np.eye(m)
    precision = np.stack([pack_symmetric(one @ one.T) for one in factor])
    loadings = Loadings(
        rng.normal(size=(p, m)), precision, np.ones(k), np.ones(p), np.zeros((p, int(fit_intercept)))
    )
    problem = VariationalProblem(resolve_family("gaussian", p), fit_intercept, 0.0, 1e-16)
    shift = rng.normal(size=k) if fit_intercept else np.zeros(k)
    change = Affine(shift, rng.normal(size=(k, k)) + 2.0 * np.eye(k))
    new = problem.mapped(loadings, change).with_relevance(np.full(k, 2.0))
    fresh = replace(new)
    assert {"packed_covariance", "log_determinant"} <= set(new.__dict__)
    assert not {"packed_covariance", "log_determinant"} & set(fresh.__dict__)
    assert_allclose(new.second_moment, fresh.second_moment, rtol=1e-9)
    assert_allclose(new.log_determinant, fresh.log_determinant, rtol=1e-9)
    assert_allclose(new.divergence, fresh.divergence, rtol=1e-9)
    before = new.divergence_from(problem.mapping_of(new), loadings.alpha)
    assert_allclose(before, loadings.divergence, rtol=1e-9)


def test_leaps_take_fewer_sweeps(monkeypatch):
    """Measurements of wines, whose components are of much the same size: plain sweeps crawl."""
    visits, visit = [], Loop._visit

    def counted(self, *args):
        visits[-1] += 1
        return visit(self, *args)

    def fitted():
        visits.append(0)
        return SePCA(family="gaussian", dispersion="feature", tol=1e-5).fit(load_wine().data)

    monkeypatch.setattr(Loop, "_visit", counted)
    model = fitted()
    assert (np.diff(model.objective_trace_) >= -1e-8 * abs(model.evidence_)).all()
    monkeypatch.setattr(_sweeps.Memory, "leap", lambda memory, to: None)
    plain = fitted()
    assert model.n_components_ == plain.n_components_
    assert model.evidence_ > plain.evidence_ - 0.01
    assert visits[0] < 0.75 * visits[1]

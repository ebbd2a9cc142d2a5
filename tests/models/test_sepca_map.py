"""SePCA by joint modes: the objective, its fixed points, the weight of the data, and the estimator's contract."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from anypca import SePCA
from anypca.datasets import make_low_rank, make_prototype_bits
from anypca.engine import check_data
from anypca.exceptions import ConvergenceWarning
from anypca.families import resolve_family
from anypca.models._session import open_session
from anypca.models.sepca._mode import fit_mode
from anypca.models.sepca._settings import ModeSettings
from anypca.models.sepca._weight import scaled_nu

N, P = 60, 12
FAMILIES = ["gaussian", "poisson", "bernoulli", "binomial(8)", "negative_binomial", "gamma"]
OPTIONS = {
    "max_components": 4,
    "fit_intercept": True,
    "dispersion": 0.3,
    "weights": (0.5,),
    "sparsity": 0.0,
    "threshold": None,
}


def table(family, rank=2, seed=0, n=N, p=P, missing=0.0):
    return make_low_rank(
        n, p, rank, family=family, signal=1.5, dispersion=0.3, missing=missing, random_state=seed
    ).X


def fit(X, family, **options):
    """The fit in the model's own layer."""
    with open_session(check_data(X), 1, max_iter=300, tol=1e-9) as session:
        settings = ModeSettings(**(OPTIONS | options))
        return fit_mode(session, resolve_family(family, X.shape[1]), settings)


@pytest.mark.parametrize("sparsity", [0.0, 0.3], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", FAMILIES)
def test_objective_never_decreases_between_removals(name, sparsity):
    trace = fit(table(name), name, sparsity=sparsity).result.trace
    assert len(trace) >= 2
    assert np.diff(trace).min() >= -1e-9 * np.abs(trace).max()


@pytest.mark.parametrize("name", ["gaussian", "poisson", "bernoulli"])
def test_the_mode_is_stationary(name):
    X = table(name)
    model = SePCA(4, family=name, inference="map", nu=0.5, dispersion=0.3, tol=1e-9).fit(X)
    assert model.n_components_ >= 1
    scores, W, b = model.transform(X), model.components_, model.intercept_
    family, phi = model.family_, model.dispersion_
    gradient = family.evaluate(X, scores @ W + b, phi, order=1).gradient
    # In reported coordinates the scores' prior has the precision that the profile's scale left.
    precision = model._row_model().problem.score_prior.precision
    assert_allclose(gradient @ W.T - precision * scores, 0.0, atol=1e-5)
    assert_allclose(0.5 * scores.T @ gradient, model.alpha_[:, None] * W, atol=2e-3 * np.abs(W).max())
    assert_allclose(gradient.sum(axis=0), 0.0, atol=1e-3 * len(X))


@pytest.mark.parametrize("nu", [0.3, 1.0], ids=str)
@pytest.mark.parametrize("name", ["gaussian", "poisson", "bernoulli"])
def test_fixed_point_of_scale_and_relevance(name, nu):
    """alpha = D / ||w||^2 and ||z||^2 = D / nu, whatever the number of rows."""
    X = table(name, n=90)
    model = SePCA(4, family=name, inference="map", nu=nu, dispersion=0.3, fit_intercept=False).fit(X)
    assert model.n_components_ >= 1
    assert_allclose(model.alpha_ * (model.components_**2).sum(axis=1), P, rtol=1e-8)
    # Reported scores have unit second moment: the prior's precision holds their size in the model, (D / nu) / N.
    assert_allclose(model._row_model().problem.score_prior.precision, P / nu / len(X), rtol=1e-8)
    assert_allclose((model.transform(X) ** 2).mean(axis=0), 1.0, rtol=1e-2)


@pytest.mark.parametrize(("size", "nu"), [(2.5, 1.0), (4.0, 1.0), (3.0, 0.4)], ids=str)
def test_gaussian_singular_values_shrink_to_the_fixed_point(size, nu):
    """g (sigma - g) = D / nu, and components with sigma below 2 sqrt(D / nu) leave."""
    n, p = 40, 10
    rng = np.random.default_rng(1)
    left, right = (np.linalg.qr(rng.normal(size=(m, 2)))[0] for m in (n, p))
    limit = 2.0 * np.sqrt(p / nu)
    sigma = np.array([size, 0.9]) * limit
    X = (left * sigma) @ right.T
    model = SePCA(
        2, family="gaussian", inference="map", nu=nu, dispersion=1.0, fit_intercept=False, tol=1e-10
    ).fit(X)
    assert model.n_components_ == 1
    fitted = np.linalg.norm(model.inverse_transform(model.transform(X)))
    assert_allclose(fitted, 0.5 * (sigma[0] + np.sqrt(sigma[0] ** 2 - 4 * p / nu)), rtol=1e-5)


def test_noise_stays_with_weight_one_but_not_with_the_scaled_weight():
    X = np.random.default_rng(2).normal(size=(200, 10))
    fits = {
        nu: SePCA(8, family="gaussian", inference="map", nu=nu, dispersion=1.0).fit(X).n_components_
        for nu in (1.0, "scaled")
    }
    assert fits[1.0] >= 5
    assert fits["scaled"] == 0


def test_scaled_weight():
    assert scaled_nu(50, 50) == pytest.approx(1.0)
    assert scaled_nu(10**8, 10) == pytest.approx(4e-7, rel=1e-2)
    X = table("gaussian")
    first, second = (SePCA(3, family="gaussian", inference="map", nu=nu).fit(X) for nu in ("auto", "scaled"))
    assert first.nu_ == second.nu_ == scaled_nu(N, P)


def test_the_published_path_takes_the_largest_joint_likelihood():
    X = make_prototype_bits(3, samples_per_prototype=20, flip=0.05, random_state=2).X
    weights = [0.1, 35 / 60, 1.0]
    options = {"family": "bernoulli", "inference": "map", "fit_intercept": False}
    model = SePCA(5, nu_path=weights, nu_criterion="joint", **options).fit(X)
    assert sorted(model.nu_path_) == weights
    assert model.nu_ == max(model.nu_path_, key=lambda nu: model.nu_path_[nu][0])
    assert model.nu_path_[model.nu_] == (model.joint_log_likelihood_, model.n_components_)
    alone = SePCA(5, nu=model.nu_, **options).fit(X)
    assert alone.joint_log_likelihood_ == pytest.approx(model.joint_log_likelihood_, rel=1e-9)
    assert model.n_components_ == 3


def test_joint_likelihood_is_that_of_the_definition():
    X = table("poisson")
    model = SePCA(3, family="poisson", inference="map", nu=0.4, tol=1e-8).fit(X)
    scores, W = model.transform(X), model.components_
    eta = scores @ W + model.intercept_
    precision = model._row_model().problem.score_prior.precision
    prior = -0.5 * (model.alpha_ * (W**2).sum(axis=1)).sum()
    # In the coordinates of the fit alpha is larger by the square of the scale that the report takes out.
    prior += 0.5 * P * np.log(model.alpha_ * precision).sum()
    likelihood = model.family_.log_likelihood(X, eta, 1.0).sum()
    expected = likelihood - 0.5 * (precision * scores**2).sum() + prior
    assert model.joint_log_likelihood_ == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("threshold", [1e-9, 1e12], ids=["low", "high"])
def test_threshold_decides_what_leaves(threshold):
    X = table("poisson")
    model = SePCA(3, family="poisson", inference="map", nu=1.0, threshold=threshold).fit(X)
    assert model.n_components_ == (0 if threshold < 1 else 3)
    assert [removal.n_components for removal in model.pruning_path_] == ([3, 2, 1] if threshold < 1 else [])


def test_a_component_may_leave_in_the_last_round():
    """What is left is then fitted once more, so that all that is reported has its dimension."""
    X = table("poisson")
    with pytest.warns(ConvergenceWarning):
        model = SePCA(3, family="poisson", inference="map", nu=1.0, threshold=1e-9, max_iter=2).fit(X)
    k = model.n_components_
    assert k < 3
    assert model.components_.shape == model.components_std_.shape == (k, P)
    assert model.transform(X).shape == (N, k)
    assert [removal.n_components for removal in model.pruning_path_] == list(range(3, k, -1))


@pytest.mark.parametrize("name", FAMILIES)
def test_finds_the_dimension(name):
    signal = 3.0 if name == "bernoulli" else 1.0
    X = make_low_rank(150, 25, 2, family=name, signal=signal, dispersion=0.2, random_state=3).X
    model = SePCA(6, family=name, inference="map").fit(X)
    assert model.n_components_ == 2
    assert model.converged_
    assert np.isfinite(model.evidence_)
    assert model.components_std_.shape == (2, 25)
    assert (model.components_std_ > 0).all()


@pytest.mark.parametrize("name", ["gaussian", "poisson", "bernoulli"])
def test_projection_of_training_rows_is_that_of_the_fit(name):
    X = table(name, missing=0.2)
    model = SePCA(3, family=name, inference="map", nu=1.0)
    scores = model.fit_transform(X)
    again, std = model.transform(X, return_std=True)
    assert_allclose(scores, again, atol=1e-8)
    assert std.shape == scores.shape
    assert (std > 0).all()
    assert_allclose(model.transform(X[:5]), scores[:5], atol=1e-7)


def test_missing_entries_do_not_change_the_dimension():
    X = table("poisson", n=100, missing=0.3)
    assert np.isnan(X).mean() > 0.2
    model = SePCA(4, family="poisson", inference="map").fit(X)
    assert model.n_components_ == 2
    assert np.isfinite(model.transform(X)).all()


def test_sparse_dense_and_threads_agree():
    X = table("poisson")
    options = {"max_components": 3, "family": "poisson", "inference": "map", "tol": 1e-6}
    dense = SePCA(**options, n_jobs=1).fit(X)
    threads = SePCA(**options, n_jobs=2).fit(X)
    assert_allclose(threads.components_, dense.components_, atol=1e-10)
    again = SePCA(**options, n_jobs=1).fit(sparse.csr_array(X))
    # Rounding is carried by the extrapolation of the sweeps to where the objective is flat to tol.
    assert_allclose(again.components_, dense.components_, atol=1e-3)
    assert again.joint_log_likelihood_ == pytest.approx(dense.joint_log_likelihood_, rel=1e-6)


def test_intervals_and_likelihood_of_new_rows():
    drawn = make_low_rank(160, 20, 1, family="poisson", intercept=1.0, random_state=5)
    model = SePCA(3, family="poisson", inference="map").fit(drawn.X[:120])
    marginal = model.score_samples(drawn.X[120:])
    assert marginal.shape == (40,)
    # Integrated over the scores a row is less likely than at the best ones.
    assert (marginal < model.plug_in_log_likelihood(drawn.X[120:]) + 1.0).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"nu": 0.5}, "needs no weight of the data"),
        ({"nu": "scaled"}, "needs no weight of the data"),
        ({"nu_path": [0.1, 1.0]}, "use inference='map'"),
        ({"inference": "map", "nu": 0.0}, "'nu' parameter"),
        ({"inference": "map", "nu": "large"}, "'nu' parameter"),
        ({"inference": "map", "threshold": -1.0}, "'threshold' parameter"),
    ],
    ids=lambda value: str(value),
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        SePCA(family="poisson", **parameters).fit(table("poisson", 1))

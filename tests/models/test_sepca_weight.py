"""The weight of the data in SePCA's joint modes: the path that is tried and what chooses among it."""

from __future__ import annotations

import numpy as np
import pytest

from anypca import SePCA
from anypca.datasets import make_low_rank, make_prototype_bits
from anypca.models.sepca._hidden import hide
from anypca.models.sepca._weight import scaled_nu, usual_path

OPTIONS = {"family": "gaussian", "inference": "map", "dispersion": 1.0, "n_jobs": 1}


def real_table(rank=2, seed=0, n=60, p=8):
    return make_low_rank(n, p, rank, family="gaussian", signal=2.0, random_state=seed).X


@pytest.mark.parametrize("shape", [(60, 8), (10**6, 20), (40, 40)], ids=str)
def test_the_usual_path_leads_from_half_the_scaled_weight_to_one(shape):
    path = usual_path(*shape)
    assert path[0] == pytest.approx(0.5 * scaled_nu(*shape))
    assert path[-1] == pytest.approx(1.0)
    assert len(path) == 7
    ratios = np.divide(path[1:], path[:-1])
    np.testing.assert_allclose(ratios, ratios[0])


def test_a_wide_table_has_weight_one_only():
    """Half the scaled weight is above 1: nothing is left between the two."""
    assert scaled_nu(10, 1000) > 2.0
    assert usual_path(10, 1000) == (1.0,)


@pytest.mark.parametrize("penalty", ["ridge", "l1"])
def test_a_row_of_weight_two_is_two_rows(penalty):
    """Also where the weight of the data follows from the number of rows."""
    X = real_table(n=40)
    weights = np.where(np.arange(40) < 15, 2.0, 1.0)
    options = OPTIONS | {"loading_penalty": penalty, "tol": 1e-8}
    by_weight = SePCA(3, **options).fit(X, sample_weight=weights)
    by_rows = SePCA(3, **options).fit(np.vstack([X, X[:15]]))
    assert by_weight.nu_ == pytest.approx(by_rows.nu_)
    assert by_weight.n_components_ == by_rows.n_components_ == 2
    assert by_weight.objective_trace_[-1] == pytest.approx(by_rows.objective_trace_[-1], rel=1e-8)


def test_hidden_entries_are_a_tenth_and_were_observed():
    X = real_table(n=200)
    X[::3, 2] = np.nan
    hidden = hide(X, 1, "nu_path")
    assert len(hidden.values) == pytest.approx(0.1 * np.isfinite(X).sum(), rel=0.2)
    np.testing.assert_array_equal(X[hidden.rows, hidden.columns], hidden.values)
    assert np.isfinite(hidden.values).all()
    assert np.isnan(hidden.table).sum() == np.isnan(X).sum() + len(hidden.values)


def test_a_distributed_table_has_no_hidden_entries():
    array = pytest.importorskip("dask.array")
    X = array.from_array(real_table(), chunks=(30, 8))
    with pytest.raises(TypeError, match=r"nu_path is chosen by hidden entries.*X\.compute\(\)"):
        hide(X, 1, "nu_path")


def test_hidden_entries_choose_the_weight():
    X = real_table(n=40)
    weights = [0.02, 0.3, 30.0]
    model = SePCA(4, nu_path=weights, **OPTIONS).fit(X)
    assert sorted(model.nu_path_) == weights
    assert model.nu_ == max(weights, key=lambda nu: model.nu_path_[nu][0])
    # Too small a weight loses the components, too large a one keeps the noise; both predict worse.
    assert model.nu_ == 0.3
    assert model.n_components_ == 2
    assert [model.nu_path_[nu][1] for nu in weights] == [0, 2, 4]
    alone = SePCA(4, nu=0.3, **OPTIONS).fit(X)
    np.testing.assert_array_equal(alone.components_, model.components_)


def test_the_figure_of_a_weight_is_the_likelihood_of_what_was_hidden(monkeypatch):
    monkeypatch.setattr("anypca.models.sepca._weight._SPLITS", 1)
    X = real_table()
    model = SePCA(3, nu_path=[0.3], **OPTIONS).fit(X)
    hidden = hide(X, 30, "nu_path")
    fit = SePCA(3, nu=0.3, **OPTIONS).fit(hidden.table)
    eta = fit.transform(hidden.table) @ fit.components_ + fit.intercept_
    residual = hidden.values - eta[hidden.rows, hidden.columns]
    density = -0.5 * residual**2 - 0.5 * np.log(2 * np.pi)
    expected = np.mean(density + np.log(fit.resolution_)[hidden.columns])
    assert model.nu_path_[0.3][0] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("criterion", ["evidence", "joint"])
def test_criteria_of_the_fits_themselves(criterion):
    X = make_prototype_bits(3, samples_per_prototype=20, flip=0.1, random_state=2).X
    weights = [0.25, 0.5, 2.0]
    options = {"family": "bernoulli", "inference": "map", "fit_intercept": False}
    model = SePCA(6, nu_path=weights, nu_criterion=criterion, **options).fit(X)
    fits = {nu: SePCA(6, nu=nu, **options).fit(X) for nu in weights}
    name = {"evidence": "evidence_", "joint": "joint_log_likelihood_"}[criterion]
    for nu, fit in fits.items():
        assert model.nu_path_[nu][0] == pytest.approx(getattr(fit, name), rel=1e-9)
        assert model.nu_path_[nu][1] == fit.n_components_
    assert model.nu_ == max(weights, key=lambda nu: getattr(fits[nu], name))
    # The joint log-likelihood takes the largest weight, and noise with it.
    assert (model.n_components_ > 3) == (criterion == "joint")


def test_evidence_is_laplaces_approximation_at_weight_one():
    """From the definition, for gaussian columns and one component, whose curvatures are sums of squares."""
    X = real_table(rank=1)
    model = SePCA(1, nu=0.4, fit_intercept=False, tol=1e-10, **OPTIONS).fit(X)
    z, w = model.transform(X)[:, 0], model.components_[0]
    # Back to the coordinates of the fit, where the scores' prior has unit precision.
    precision = float(model._row_model().problem.score_prior.precision[0])
    z, w, alpha = z * np.sqrt(precision), w / np.sqrt(precision), float(model.alpha_[0]) * precision
    columns = len(w) * np.log((z**2).sum() + alpha)
    rows = len(z) * np.log((w**2).sum() + 1.0)
    expected = model.joint_log_likelihood_ - 0.5 * (columns + rows)
    assert model.evidence_ == pytest.approx(expected, rel=1e-6)


def test_a_price_is_looked_for_at_the_weight_that_is_taken(monkeypatch):
    seen = []

    def choose(estimator, X, **companions):
        seen.append((estimator.nu, estimator.nu_path))
        return 0.5

    monkeypatch.setattr("anypca.models.sepca._choice.choose_sparsity", choose)
    model = SePCA(3, nu_path=[0.02, 0.3], sparsity="auto", **OPTIONS).fit(real_table())
    assert seen == [(0.3, None)]
    assert model.sparsity_ == 0.5


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"nu_path": []}, r"nu_path must hold weights above 0; got \[\]"),
        ({"nu_path": [0.1, 0.0]}, "nu_path='auto' for the usual ones"),
        ({"nu_path": "large"}, "'nu_path' parameter"),
        ({"nu_criterion": "bic"}, "'nu_criterion' parameter"),
    ],
    ids=str,
)
def test_bad_paths(parameters, message):
    with pytest.raises(ValueError, match=message):
        SePCA(2, **OPTIONS, **parameters).fit(real_table())

"""Survival curves of joint modes: fixed points, critical weights, derivatives, and the table in other forms."""

from __future__ import annotations

import numpy as np
import pytest
from tests.draws import seed

from anypca import EPCA, ModeOptions, SePCA
from anypca.datasets import make_low_rank
from anypca.selection import survival_curve

N, P = 40, 8


def fitted(X, family="poisson", **options):
    options = {"nu": 0.5, "dispersion": 0.3, "tol": 1e-8, "n_jobs": 1} | options
    given = {name: options.pop(name) for name in ("offset", "sample_weight") if name in options}
    return SePCA(3, family=family, inference=ModeOptions(nu=options.pop("nu")), **options).fit(X, **given)


def table(family, missing=0.0):
    given = {"family": family, "signal": 1.5, "dispersion": 0.3, "missing": missing}
    return make_low_rank(N, P, 2, **given, random_state=seed()).X


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("gaussian", {}),
        ("poisson", {"fit_intercept": False}),
        ("poisson", {"sparsity": 0.1}),
        ("bernoulli", {"tol": 1e-7}),
    ],
    ids=str,
)
def test_fitted_components_rest_where_pull_and_need_meet(family, options):
    X = table(family, missing=0.05)
    model = fitted(X, family, **options)
    curve = survival_curve(model, X)
    # Modes end where a round gains less than tol of the objective, hence roots of that.
    np.testing.assert_allclose(
        model.nu_ * curve.fitted_sizes * curve.fitted_pulls, curve.needs[:-1], rtol=5e-3
    )
    np.testing.assert_allclose(
        curve.needs,
        P * (1.0 + 2.0 * options.get("sparsity", 0.0)),
        rtol=0.5 if "sparsity" in options else 1e-3,
    )
    assert (np.diff(curve.pulls, axis=1) <= 1e-9).all()
    assert (curve.critical_nu[:-1] <= model.nu_ * 1.001).all()
    assert (curve.sizes[0], curve.sizes[-1]) < (curve.fitted_sizes.min(initial=np.inf), np.inf)


def test_pull_is_the_slope_of_the_log_likelihood_in_the_size():
    X = table("poisson", missing=0.1)
    model = fitted(X, nu=1.0, tol=1e-7)
    assert model.n_components_ >= 1
    curve, scores = survival_curve(model, X), model.transform(X)
    seen, j, step = np.isfinite(X), 0, 1e-4
    own = np.outer(scores[:, j], model.components_[j])

    def value(size):
        eta = scores @ model.components_ + model.intercept_ + own * (size / curve.fitted_sizes[j] - 1.0)
        return model.family_.log_likelihood(np.where(seen, X, 1.0), eta, 1.0)[seen].sum()

    place = np.searchsorted(curve.sizes, curve.fitted_sizes[j])
    size = curve.sizes[place]
    slope = (value(size + step) - value(size - step)) / (2.0 * step)
    assert curve.pulls[j, place] == pytest.approx(slope, rel=1e-4, abs=1e-4)
    assert curve.fitted_sizes[j] == pytest.approx(np.linalg.norm(own), rel=1e-9)


def test_gaussian_critical_weights_are_known(rng):
    """L(g) = sigma - g, so that g L(g) is largest at sigma / 2 and the critical weight is 4 D / sigma^2."""
    left, right = (np.linalg.qr(rng.normal(size=(m, 3)))[0] for m in (N, P))
    sigma = np.array([40.0, 25.0, 3.0])
    X = (left * sigma) @ right.T
    model = fitted(X, "gaussian", nu=1.0, dispersion=1.0, fit_intercept=False)
    assert model.n_components_ == 2
    curve = survival_curve(model, X)
    np.testing.assert_allclose(np.sort(curve.critical_nu), 4.0 * P / sigma**2, rtol=1e-4)
    # The fit shrinks what it keeps; the candidate is what it left.
    assert curve.pulls[-1, 0] == pytest.approx(3.0, rel=0.05)
    assert curve.nu == 1.0


def test_rows_twice_are_weights_of_two():
    X = table("poisson")
    weights = np.where(np.arange(N) < 15, 2.0, 1.0)
    model = fitted(X, sample_weight=weights, tol=1e-6)
    by_weight = survival_curve(model, X, sample_weight=weights)
    by_rows = survival_curve(model, np.vstack([X, X[:15]]))
    np.testing.assert_allclose(by_weight.pulls, by_rows.pulls, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(by_weight.critical_nu, by_rows.critical_nu, rtol=1e-8)


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (EPCA(1, family="poisson"), TypeError, "got EPCA"),
        (SePCA(2, family="poisson"), ValueError, "inference='vb'.*Fit inference='map'"),
    ],
    ids=["another model", "another inference"],
)
def test_models_that_are_no_modes(model, error, message):
    X = table("poisson")
    with pytest.raises(error, match=message):
        survival_curve(model.fit(X), X)

"""Dispersions of columns: degrees of freedom that scores take, and the pull to the mean, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from anypca import EPCA, SePCA
from anypca.engine import check_data
from anypca.families import Exponential, Gaussian, NegativeBinomial, Poisson, combine
from anypca.models._bilinear.dispersion import column_scales, estimate_dispersion
from anypca.models._bilinear.evaluator import Coefficients
from anypca.models._bilinear.passes import Pass
from anypca.models._session import open_session

N, P = 30, 5
# Prior observations that pull the logarithms of the columns' own dispersions to their mean.
PULL = 10.0


class Case:
    """A table, coefficients of one component and an intercept, scores, weights and holes."""

    def __init__(self, family, seed=0, missing=0.2):
        rng = np.random.default_rng(seed)
        self.family = family
        self.w, self.b, self.phi = rng.normal(size=P), rng.normal(size=P), rng.uniform(0.5, 2.0, P)
        self.z, self.weights = rng.normal(size=(N, 1)), rng.uniform(0.5, 2.0, N)
        self.X = family.sample(self.z @ self.w[None] + self.b, self.phi, rng).astype(float)
        self.X[rng.random((N, P)) < missing] = np.nan
        self.seen = ~np.isnan(self.X) * self.weights[:, None]
        self.eta = self.z @ self.w[None] + self.b

    def call(self, function, *options, **more):
        coefficients = Coefficients(self.w[:, None], self.b[:, None], self.phi)
        with open_session(check_data(self.X, sample_weight=self.weights), 1) as session:
            return function(self.family, coefficients, Pass(session, True), [self.z], *options, **more)

    @property
    def information(self):
        """Of each entry about its predictor, 0 where missing, without weights."""
        found = self.family.evaluate(np.nan_to_num(self.X, nan=1.0), self.eta, self.phi, order=2)
        return np.where(np.isnan(self.X), 0.0, found.curvature)

    @property
    def taken(self):
        """``sum_i s_i h_ij w_j^2 var(z_i)``, with ``var(z_i) = 1 / (1 + sum_j h_ij w_j^2)``."""
        variance = 1.0 / (1.0 + self.information @ self.w**2)
        return (self.weights * variance) @ self.information * self.w**2

    @property
    def residual(self):
        squares = self.family.pearson(np.nan_to_num(self.X, nan=1.0), self.eta, self.phi)
        return (self.seen * squares).sum(axis=0)


@pytest.mark.parametrize("family", [Gaussian(), Exponential()], ids=repr)
def test_scores_take_degrees_of_freedom_from_each_column(family):
    case = Case(family)
    scale, free = case.call(column_scales)
    assert_allclose(free, case.seen.sum(axis=0) - case.taken - 2, rtol=1e-12)
    assert_allclose(scale, case.residual / free, rtol=1e-12)
    assert case.taken.max() > 1.0, "what the scores take must show"


def test_own_scales_are_expected_squares_pulled_to_their_mean():
    """The squared residuals and what is unknown of the scores, over the entries less the coefficients."""
    case = Case(Gaussian())
    found = case.call(estimate_dispersion, np.ones(P), case.weights.sum(), by_column=True)
    count = case.seen.sum(axis=0)
    own = np.log(case.phi * (case.residual + case.taken) / (count - 2))
    typical = np.average(own, weights=count)
    assert_allclose(np.log(found), (count * own + PULL * typical) / (count + PULL), rtol=1e-12)
    assert np.abs(np.log(found) - own).max() > 0.05, "the pull must show"


def test_scales_beside_other_families_have_their_own_units_and_no_pull():
    """One real column beside counts: its scale is estimated without regard to anything else."""
    case = Case(combine([Gaussian()] * 2 + [Poisson()] * 3))
    found = case.call(estimate_dispersion, np.ones(P), case.weights.sum())
    own = case.phi * (case.residual + case.taken) / (case.seen.sum(axis=0) - 2)
    assert_allclose(found[:2], own[:2], rtol=1e-12)
    assert_allclose(found[2:], case.phi[2:])


def test_sizes_beside_other_families_solve_their_moment_equation():
    """``sum (x - mu)^2 / (mu + mu^2 phi)`` equals the entries less what coefficients and scores took."""
    case = Case(combine([NegativeBinomial()] * 4 + [Gaussian()]), seed=3, missing=0.0)
    found = case.call(estimate_dispersion, np.ones(P), case.weights.sum())
    size, mu = found[0], np.exp(case.eta[:, :4])
    assert_allclose(found[:4], size)
    statistic = (case.seen[:, :4] * (case.X[:, :4] - mu) ** 2 / (mu + mu**2 * size)).sum()
    wanted = (case.seen.sum(axis=0) - 2 - case.taken)[:4].sum()
    # The root lies between two points of a grid.
    assert statistic == pytest.approx(wanted, rel=0.01)
    assert case.taken[:4].sum() > 0.05 * wanted, "what the scores take must show"


@pytest.mark.parametrize("missing", [0.0, 0.3], ids=["complete", "missing"])
def test_own_scales_without_components_are_sample_variances_pulled_to_their_mean(missing):
    rng = np.random.default_rng(1)
    X = rng.poisson(10.0 * np.exp(0.5 * rng.normal(size=(20, 6)))).astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    model = SePCA(0, family="poisson", dispersion="feature").fit(X)
    count = (~np.isnan(X)).sum(axis=0)
    own = np.log(np.nanvar(X, axis=0, ddof=1) / np.nanmean(X, axis=0))
    pulled = (count * own + PULL * np.average(own, weights=count)) / (count + PULL)
    # Rounds of fit and dispersion end at a change of 2 %.
    assert_allclose(model.dispersion_, np.exp(pulled), rtol=0.02)


def test_a_shared_variance_has_the_degrees_of_freedom_of_a_low_rank_fit():
    """n p - k (n + p - k) - p: rotations of scores and loadings are free of charge."""
    rng = np.random.default_rng(4)
    n, p, k = 20, 6, 2
    X = rng.normal(size=(n, k)) @ rng.normal(size=(k, p)) + 0.3 * rng.normal(size=(n, p))
    model = EPCA(k, family="gaussian", ridge=0.0, n_jobs=1, tol=1e-8).fit(X)
    residuals = X - model.inverse_transform(model.transform(X))
    assert_allclose(model.dispersion_, (residuals**2).sum() / (n * p - k * (n + p - k) - p), rtol=1e-3)


def test_fit_and_dispersion_agree_with_each_other():
    """The penalty is in units of the noise, so that the residuals depend on the dispersion that they decide."""
    rng = np.random.default_rng(5)
    n, p, k = 60, 12, 2
    X = rng.normal(size=(n, k)) @ rng.normal(size=(k, p)) + 0.2 * rng.normal(size=(n, p))
    model = EPCA(k, family="gaussian", ridge=3.0, n_jobs=1).fit(X)
    residuals = X - model.inverse_transform(model.transform(X))
    wanted = (residuals**2).sum() / (n * p - k * (n + p - k) - p)
    assert_allclose(
        model.dispersion_, wanted, rtol=0.02
    )  # rounds end when it changes by less than a per cent

"""What the evidence gains from the coupling of scores and loadings, and close expectations of yes/no answers."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtr

from anypca import SePCA
from anypca.datasets import make_low_rank, make_prototype_bits
from anypca.families import Bernoulli, Binomial, Mixed, Poisson
from anypca.linalg import pack_symmetric, packed_products
from anypca.models.sepca._coupling import CouplingSums, coupling_gain
from anypca.models.sepca._posterior import Loadings
from anypca.special import normal_below

LOGISTIC = [Bernoulli(), Binomial(7)]


def moves(shape=(9, 6), seed=0):
    """mean, variance of predictors far and near."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape) * 4.0, rng.uniform(0.0, 4.0, shape)


@pytest.mark.parametrize("family", LOGISTIC, ids=repr)
def test_sharp_expectation_is_near_the_integral(family):
    mean, variance = moves()
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    eta = mean[..., None] + nodes * np.sqrt(variance)[..., None]
    integral = (np.logaddexp(0.0, eta) * weights).sum(axis=-1) / weights.sum() * family.trials
    found = family.sharp.expected_cumulant(mean, variance)
    assert_allclose(found.value, integral, atol=2e-4 * family.trials)
    # The bound is not that near.
    assert (family.expected_cumulant(mean, variance).value - integral).max() > 0.05


@pytest.mark.parametrize("family", LOGISTIC, ids=repr)
def test_sharp_expectation_has_consistent_derivatives(family):
    mean, variance = moves(seed=1)
    variance += 0.1
    step = 1e-4
    call = family.sharp.expected_cumulant
    found = call(mean, variance)
    slope = (call(mean + step, variance).value - call(mean - step, variance).value) / (2 * step)
    assert_allclose(found.gradient, slope, atol=1e-6 * family.trials)
    slope = (call(mean, variance + step).value - call(mean, variance - step).value) / step
    assert_allclose(found.curvature, slope, atol=2e-6 * family.trials)


def test_sharp_members_of_mixed_families():
    mixed = Mixed((Poisson(), Bernoulli()), (0, 1))
    assert mixed.sharp.columns(slice(0, 1)) == Poisson()
    assert mixed.sharp.columns(slice(1, 2)) == Bernoulli().sharp
    assert Poisson().sharp == Poisson()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_normal_below(dtype):
    x = np.linspace(-12, 12, 4001).astype(dtype)
    below, density = normal_below(x)
    assert below.dtype == density.dtype == dtype
    assert_allclose(below, ndtr(x), atol=2e-7)
    assert_allclose(density, np.exp(-(x.astype(float) ** 2) / 2) / np.sqrt(2 * np.pi), atol=1e-7)
    assert (below >= -1e-7).all()


def test_gain_is_what_two_coupled_normals_lose_when_held_apart():
    """One component, no intercept: the move is a scale, and all precisions are numbers."""
    rng = np.random.default_rng(3)
    v, z = rng.normal(size=(8, 1)), rng.normal(size=(30, 1))
    information = rng.uniform(0.5, 2.0, (30, 8))
    loadings = Loadings(
        v, np.tile(pack_symmetric(np.eye(1)), (8, 1)), np.array([0.7]), np.ones(8), np.zeros((8, 0))
    )
    likelihood = information.T @ packed_products(z)
    unknown = information.T @ np.full((30, 1), 0.2)
    rows_held = 1.0 + information @ np.full((8, 1), 0.3)
    found = coupling_gain(loadings, CouplingSums(likelihood, unknown, packed_products(z).T @ rows_held))
    N = float((v**2 * likelihood).sum())
    X = float((v**2 * (unknown + 0.7)).sum()) + 1.0 / (2.0 * np.pi)
    Y = float((z**2 * rows_held).sum())
    joint = np.array([[X + N, -N], [-N, Y + N]])
    apart = np.diag(np.diag(joint))
    expected = 0.5 * (np.linalg.slogdet(apart)[1] - np.linalg.slogdet(joint)[1])
    assert found == pytest.approx(np.log(2.0) + expected, rel=1e-12)


@pytest.mark.parametrize("family", ["gaussian", "poisson", "bernoulli"])
def test_gain_does_not_depend_on_the_order_of_rows_and_columns(family):
    X = make_low_rank(80, 20, 2, family=family, signal=2.0, random_state=4).X
    # Noise of the columns' own would have a prior in the evidence too.
    whole = SePCA(5, family=family, dispersion="shared", n_jobs=1).fit(X)
    turned = SePCA(5, family=family, dispersion="shared", n_jobs=2).fit(X[::-1, ::-1])
    assert whole.n_components_ == turned.n_components_ == 2
    assert whole.evidence_ == pytest.approx(turned.evidence_, abs=0.05)
    # More than the two signs, less than the moves of a table with as many components as columns.
    gain = whole.evidence_ - whole.objective_trace_[-1]
    assert 2 * np.log(2.0) < gain < 40.0


def test_three_prototypes_are_told_from_two():
    ranks = [
        SePCA(10, family="bernoulli", fit_intercept=False, n_jobs=1)
        .fit(make_prototype_bits(3, samples_per_prototype=40, flip=0.1, random_state=seed).X)
        .n_components_
        for seed in range(6)
    ]
    assert ranks.count(3) >= 5

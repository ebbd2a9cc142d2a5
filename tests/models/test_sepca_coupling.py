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
from anypca.models.sepca import _dimension, _sweeps
from anypca.models.sepca._coupling import CouplingSums, angle_precision, coupling_gain
from anypca.models.sepca._posterior import Loadings
from anypca.selection.spectra import minka_evidence
from anypca.special import mills_ratio

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


def test_answers_that_are_seldom_likely_are_like_others():
    """They are found by their places; entry by entry they are not."""
    mean, variance = moves((6, 40), seed=3)
    mean = np.where(np.arange(mean.size).reshape(mean.shape) % 50, -np.abs(mean), np.abs(mean))
    call = Bernoulli().sharp.expected_cumulant
    found = call(mean, variance)
    for at in np.ndindex(mean.shape):
        one = call(mean[at].reshape(1), variance[at].reshape(1))
        for part, wanted in zip(found, one, strict=True):
            assert part[at] == pytest.approx(wanted[0], rel=1e-12)


def test_sharp_members_of_mixed_families():
    mixed = Mixed((Poisson(), Bernoulli()), (0, 1))
    assert mixed.sharp.columns(slice(0, 1)) == Poisson()
    assert mixed.sharp.columns(slice(1, 2)) == Bernoulli().sharp
    assert Poisson().sharp == Poisson()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_mills_ratio(dtype):
    x = np.linspace(0, 12, 2001).astype(dtype)
    width = np.array([[1.0], [2.5]], dtype)
    found = mills_ratio(x, width)
    assert found.dtype == dtype
    at = x.astype(float) / width
    assert_allclose(found * np.exp(-0.5 * at**2) / np.sqrt(2 * np.pi), ndtr(-at), atol=2e-7)
    assert_allclose(mills_ratio(x), found[0], rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sharp_expectation_keeps_the_precision(dtype):
    mean, variance = (part.astype(dtype) for part in moves(seed=2))
    found = Bernoulli().sharp.expected_cumulant(mean, variance)
    exact = Bernoulli().sharp.expected_cumulant(mean.astype(float), variance.astype(float))
    for part, wanted in zip(found, exact, strict=True):
        assert part.dtype == dtype
        assert_allclose(part, wanted, atol=8 * np.finfo(dtype).eps)


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
    X = float((v**2 * (unknown + 0.7)).sum())
    Y = float((z**2 * rows_held).sum())
    K = min(X, Y)
    joint = np.array([[X + N, K - N], [K - N, Y + N]])
    apart = np.diag(np.diag(joint))
    expected = 0.5 * (np.linalg.slogdet(apart)[1] - np.linalg.slogdet(joint)[1])
    assert found == pytest.approx(np.log(2.0) + expected, rel=1e-12)


def equal_components(k, size=50.0, information=1e6):
    """k orthogonal components of one size, nearly known, with scores and loadings that weigh the same."""
    v = size * np.eye(k)
    alpha = np.full(k, k / size**2)
    loadings = Loadings(v, np.tile(pack_symmetric(np.eye(k)), (k, 1)), alpha, np.ones(k), np.zeros((k, 0)))
    likelihood = information * np.tile(pack_symmetric(np.eye(k)), (k, 1))
    rows = np.outer(pack_symmetric(np.eye(k)), k * pack_symmetric(np.eye(k)))
    return coupling_gain(loadings, CouplingSums(likelihood, np.zeros_like(likelihood), rows))


def test_rotations_of_equal_components_fill_the_orthogonal_group():
    """The angle between two of them lies in a half circle; scales and shears are held, twice as much as on one side."""
    N = 1e6 * 2500.0
    # Priors of both sides weigh 2 each; a rotation, of unit length in its two moves, has half the angle's precision.
    held = np.array([8.0, 8.0, 8.0, 0.5 * angle_precision(2)])
    expected = 2.0 * np.log(2.0) + 0.5 * (4.0 * np.log(N + 2.0) - np.log(held).sum())
    assert equal_components(2) == pytest.approx(expected, rel=1e-6)
    assert np.sqrt(2.0 * np.pi / angle_precision(2)) == pytest.approx(np.pi)
    # Of three components a direction on half a sphere, then an angle on half a circle.
    assert (2.0 * np.pi / angle_precision(3)) ** 1.5 == pytest.approx(2.0 * np.pi * np.pi)


@pytest.mark.parametrize("rank", [1, 4])
def test_evidence_of_strong_components_is_that_of_probabilistic_pca(rank):
    """Minka's evidence, with loadings integrated over all rotations, tells what each further component gains."""
    X = make_low_rank(150, 12, rank, family="gaussian", signal=1.2 * np.sqrt(rank), random_state=3).X
    found = SePCA(rank, family="gaussian", dispersion="shared", n_jobs=1).fit(X).evidence_
    none = SePCA(0, family="gaussian", dispersion="shared", n_jobs=1).fit(X).evidence_
    # A row less, for the intercepts. Its prior of the sizes is another one: three nats for each component.
    known = minka_evidence(np.linalg.eigvalsh(np.cov(X.T))[::-1], len(X) - 1)
    assert found - none == pytest.approx(known[rank] - known[0], abs=3.0 * rank)


@pytest.mark.parametrize("family", ["gaussian", "poisson", "bernoulli"])
def test_gain_does_not_depend_on_the_order_of_rows_and_columns(family):
    X = make_low_rank(80, 20, 2, family=family, signal=2.0, random_state=4).X
    # Noise of the columns' own would have a prior in the evidence too.
    whole = SePCA(5, family=family, dispersion="shared", n_jobs=1).fit(X)
    turned = SePCA(5, family=family, dispersion="shared", n_jobs=2).fit(X[::-1, ::-1])
    assert whole.n_components_ == turned.n_components_ == 2
    assert whole.evidence_ == pytest.approx(turned.evidence_, abs=0.05)
    # More than the two signs, less than the moves of a table with as many components as columns.
    gain = whole.evidence_ - whole.objective_trace_[-1] + np.log(X.shape[1])
    assert 2 * np.log(2.0) < gain < 40.0


def test_three_prototypes_are_told_from_two():
    ranks = [
        SePCA(10, family="bernoulli", fit_intercept=False, n_jobs=1)
        .fit(make_prototype_bits(3, samples_per_prototype=40, flip=0.1, random_state=seed).X)
        .n_components_
        for seed in range(6)
    ]
    assert ranks.count(3) >= 5


def test_each_relevance_costs_half_the_logarithm_of_its_loadings(monkeypatch):
    seen, compare = [], _dimension.judge
    monkeypatch.setattr(_dimension, "judge", lambda state: seen.append(state) or compare(state))
    X = make_low_rank(80, 12, 2, family="poisson", signal=1.5, random_state=0).X
    SePCA(3, family="poisson", n_jobs=1).fit(X)
    state = max(seen, key=lambda state: state.n_components)
    assert state.n_components >= 2
    with_cost = _sweeps.judge(state).evidence
    monkeypatch.setattr(_sweeps, "relevance_cost", lambda k, p: 0.0)
    without = _sweeps.judge(state).evidence
    assert without - with_cost == pytest.approx(0.5 * state.n_components * np.log(12.0), rel=1e-9)

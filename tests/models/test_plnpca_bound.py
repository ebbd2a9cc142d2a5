"""The variational bound: quadrature, finite differences, what holds at its maximum."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.special import gammaln
from scipy.stats import norm

from anypca.engine import check_data
from anypca.families import Poisson
from anypca.linalg import pack_symmetric, unpack_symmetric
from anypca.models._bilinear.evaluator import Coefficients
from anypca.models._opened import open_block
from anypca.models.plnpca import PLNPCA
from anypca.models.plnpca._problem import CountEvaluator, Divergence, Posterior, PosteriorGauge
from anypca.models.plnpca._rotation import diagonalise
from anypca.models.plnpca._start import _independent

N, P, K, D = 9, 6, 2, 2
RNG = np.random.default_rng(3)
COUNTS = RNG.poisson(np.exp(0.7 * RNG.normal(size=(N, P)) + 1.0)).astype(float)
OFFSET = 0.3 * RNG.normal(size=(N, P))
COVARIATES = RNG.normal(size=(N, 1))
WEIGHTS = RNG.uniform(0.5, 2.0, size=N)
HIDDEN = RNG.random((N, P)) < 0.2
HIDDEN[:, 0] = False
STATE = Posterior(RNG.normal(size=(N, K)), RNG.uniform(0.1, 0.8, size=(N, K)))
COEFFICIENTS = Coefficients(0.6 * RNG.normal(size=(P, K)), 0.3 * RNG.normal(size=(P, D)), np.ones(P))


def make_evaluator(
    *, missing: bool = False, stored: Any = np.asarray, offset: Any = OFFSET
) -> CountEvaluator:
    X = np.where(HIDDEN, np.nan, COUNTS) if missing else COUNTS.astype(int)
    data = check_data(stored(X), sample_weight=WEIGHTS, offset=offset, covariates=COVARIATES)
    rows = open_block(data.blocks[0], fit_intercept=True, family=Poisson())
    return CountEvaluator(Poisson(), COEFFICIENTS, rows)


def bound(
    state: Posterior,
    coefficients: Coefficients = COEFFICIENTS,
    *,
    missing: bool = False,
    offset: Any = OFFSET,
) -> np.ndarray:
    """The bound of each row without ``-log y!``, written out."""
    features = np.hstack([np.ones((N, 1)), COVARIATES])
    z = offset + features @ coefficients.fixed.T + state.mean @ coefficients.loadings.T
    rates = np.exp(z + 0.5 * state.variance @ (coefficients.loadings**2).T)
    terms = COUNTS * z - rates
    prior = 0.5 * (state.mean**2 + state.variance - np.log(state.variance) - 1.0).sum(axis=1)
    return np.where(HIDDEN & missing, 0.0, terms).sum(axis=1) - prior


def derivative(function: Any, point: np.ndarray, h: float = 1e-5) -> np.ndarray:
    """Central differences of a scalar function in every entry."""
    found = np.empty_like(point)
    for index in np.ndindex(point.shape):
        up, down = point.copy(), point.copy()
        up[index] += h
        down[index] -= h
        found[index] = (function(up) - function(down)) / (2.0 * h)
    return found


MISSING = pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])


def test_bound_is_its_definition_by_quadrature() -> None:
    nodes, quadrature = np.polynomial.hermite_e.hermegauss(40)
    quadrature = quadrature / quadrature.sum()
    features = np.array([1.0, COVARIATES[0, 0]])
    grid = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1).reshape(-1, K)
    weight = np.outer(quadrature, quadrature).ravel()
    w = STATE.mean[0] + np.sqrt(STATE.variance[0]) * grid
    z = OFFSET[0] + COEFFICIENTS.fixed @ features + w @ COEFFICIENTS.loadings.T
    joint = (COUNTS[0] * z - np.exp(z) - gammaln(COUNTS[0] + 1)).sum(axis=1) + norm.logpdf(w).sum(axis=1)
    posterior = norm.logpdf(w, STATE.mean[0], np.sqrt(STATE.variance[0])).sum(axis=1)
    evaluator = make_evaluator()
    ours = evaluator.row_values(STATE.points) - Divergence().value(STATE.points)
    base = Poisson().log_base(COUNTS[0]).sum()
    np.testing.assert_allclose(ours[0] + base, weight @ (joint - posterior), rtol=1e-11)


@pytest.mark.parametrize("wide", [True, False], ids=["offset by entry", "offset by row"])
@pytest.mark.parametrize(
    ("missing", "stored"),
    [(False, np.asarray), (True, np.asarray), (False, sparse.csr_array)],
    ids=["dense", "missing", "csr"],
)
def test_values_equal_the_written_out_bound(missing: bool, wide: bool, stored: Any) -> None:
    offset = OFFSET if wide else OFFSET[:, :1]
    evaluator = make_evaluator(missing=missing, stored=stored, offset=offset)
    wanted = bound(STATE, missing=missing, offset=offset) + Divergence().value(STATE.points)
    np.testing.assert_allclose(evaluator.row_values(STATE.points), wanted, rtol=1e-12)
    np.testing.assert_allclose(evaluator.row_sums(STATE.points).value, wanted, rtol=1e-12)
    sums = evaluator.column_sums(STATE.points)
    np.testing.assert_allclose(sums.rows, wanted, rtol=1e-12)
    total = WEIGHTS @ (wanted - evaluator.rows.offset_values)
    np.testing.assert_allclose(sums.value.sum(), total, rtol=1e-12)


@MISSING
def test_row_steps_use_gradient_and_hessian(missing: bool) -> None:
    sums = make_evaluator(missing=missing).row_sums(STATE.points)
    newton = Divergence().newton(STATE.points, sums.gradient, sums.curvature)

    def of_row(vector: np.ndarray, i: int) -> float:
        mean, log_variance = STATE.mean.copy(), np.log(STATE.variance)
        mean[i], log_variance[i] = vector[:K], vector[K:]
        return float(bound(Posterior(mean, np.exp(log_variance)), missing=missing)[i])

    for i in range(3):
        point = np.concatenate([STATE.mean[i], np.log(STATE.variance[i])])
        slope = derivative(lambda v, i=i: of_row(v, i), point)
        hessian = np.stack(
            [
                derivative(lambda v, i=i, a=a: derivative(lambda u: of_row(u, i), v, 1e-4)[a], point, 1e-4)
                for a in range(2 * K)
            ]
        )
        np.testing.assert_allclose(newton.step[i], -np.linalg.solve(hessian, slope), rtol=2e-4)
        np.testing.assert_allclose(newton.decrement[i], slope @ newton.step[i], rtol=1e-6)


@MISSING
def test_column_gradient(missing: bool) -> None:
    sums = make_evaluator(missing=missing).column_sums(STATE.points)

    def value(joint: np.ndarray) -> float:
        return float(WEIGHTS @ bound(STATE, COEFFICIENTS.with_joint(joint), missing=missing))

    np.testing.assert_allclose(
        sums.gradient, derivative(value, COEFFICIENTS.joint.copy()), rtol=1e-6, atol=1e-7
    )


def test_column_curvature_is_exact_for_equal_variances() -> None:
    state = Posterior(STATE.mean, np.broadcast_to(STATE.variance[0], (N, K)).copy())
    curvature = unpack_symmetric(make_evaluator().column_sums(state.points).curvature, K + D)

    def slope(row: np.ndarray, j: int) -> np.ndarray:
        joint = COEFFICIENTS.joint.copy()
        joint[j] = row
        changed = replace(make_evaluator(), coefficients=COEFFICIENTS.with_joint(joint))
        return changed.column_sums(state.points).gradient[j]

    for j in range(P):
        row = COEFFICIENTS.joint[j].copy()
        hessian = np.stack([derivative(lambda r, j=j, a=a: slope(r, j)[a], row) for a in range(K + D)])
        np.testing.assert_allclose(curvature[j], -hessian, rtol=1e-6, atol=1e-7)


def test_column_curvature_is_positive_definite() -> None:
    curvature = unpack_symmetric(make_evaluator().column_sums(STATE.points).curvature, K + D)
    assert np.linalg.eigvalsh(curvature).min() > 0


def test_gauge_keeps_the_rates() -> None:
    scale = np.array([0.5, 1.7])
    gauge = PosteriorGauge(RNG.normal(size=(D, K)), np.diag(1.0 / scale), np.diag(scale))
    evaluator = make_evaluator()
    moved = replace(evaluator, coefficients=gauge.forward(COEFFICIENTS))
    points = gauge.apply(STATE.points, evaluator.rows.features)
    found = moved.means(points, slice(None))
    np.testing.assert_allclose(found, evaluator.means(STATE.points, slice(None)), rtol=1e-12)
    back = gauge.backward(moved.coefficients)
    np.testing.assert_allclose(back.joint, COEFFICIENTS.joint, rtol=1e-12)


def test_rotation_diagonalises_commuting_matrices() -> None:
    rng = np.random.default_rng(0)
    truth = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    matrices = np.einsum("ak,ik,bk->iab", truth, rng.uniform(0.2, 9.0, size=(30, 4)), truth)
    rotation, gain = diagonalise(matrices, np.ones(30))
    np.testing.assert_allclose(rotation.T @ rotation, np.eye(4), atol=1e-12)
    turned = rotation.T @ matrices @ rotation
    largest = np.abs(turned - turned * np.eye(4)).max()
    assert largest < 0.02
    assert gain > 0


def test_rotation_weights_are_repetitions() -> None:
    rng = np.random.default_rng(1)
    factors = rng.normal(size=(6, 3, 3))
    matrices = np.eye(3) + factors @ factors.transpose(0, 2, 1)
    twice = diagonalise(np.concatenate([matrices, matrices[:2]]), np.ones(8))
    weighted = diagonalise(matrices, np.array([2.0, 2.0, 1.0, 1.0, 1.0, 1.0]))
    np.testing.assert_allclose(weighted[0], twice[0], atol=1e-9)


def test_dependent_features_are_found() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 2)) * [1e-3, 1e5]
    features = np.column_stack([np.ones(50), x, x @ [2.0, 1e-3], np.full(50, 0.1)])
    centred = features - np.r_[0.0, features[:, 1:].mean(axis=0)]
    kept = _independent(centred.T @ centred, (features**2).sum(axis=0))
    np.testing.assert_array_equal(kept, [True, True, True, False, False])


def test_what_holds_at_the_maximum() -> None:
    """Column sums of rates and counts agree, variances are inverse precisions, second moments are 1."""
    rng = np.random.default_rng(5)
    X = rng.poisson(np.exp(rng.normal(size=(40, 2)) @ rng.normal(size=(2, 7)) + 1.5))
    model = PLNPCA(2, tol=1e-8, max_iter=5000, n_jobs=1).fit(X)
    fit = model._fit
    rows = open_block(check_data(X).blocks[0], fit_intercept=True, family=Poisson(), dense=True)
    points = fit.problem.posteriors(fit.coefficients, rows).points
    state = Posterior.of(points)
    rates = fit.problem.evaluator(fit.coefficients, rows).means(points, slice(None))
    loadings = fit.coefficients.loadings
    np.testing.assert_allclose(rates.sum(axis=0), X.sum(axis=0), rtol=1e-6)
    np.testing.assert_allclose(state.variance, 1.0 / (1.0 + rates @ loadings**2), rtol=1e-7)
    np.testing.assert_allclose(state.mean, (X - rates) @ loadings, atol=1e-6)
    moment = (state.mean.T @ state.mean + np.diag(state.variance.sum(axis=0))) / len(X)
    np.testing.assert_allclose(np.diag(moment), 1.0, atol=1e-6)
    np.testing.assert_allclose(pack_symmetric(fit.second_moment), pack_symmetric(moment), atol=1e-6)
    np.testing.assert_allclose(rates.T @ state.variance * loadings, (X - rates).T @ state.mean, atol=1e-3)

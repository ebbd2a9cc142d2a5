"""What is made of a fit: unique coordinates, dispersions, shares of deviance."""

from __future__ import annotations

import numpy as np
import pytest

from anypca.datasets import make_low_rank
from anypca.engine import check_data
from anypca.families import Gamma, Gaussian, NegativeBinomial, combine
from anypca.linalg import pack_symmetric
from anypca.models._bilinear.alternating import SweepSums
from anypca.models._bilinear.canonical import orthonormal, reorder, unit_loadings
from anypca.models._bilinear.dispersion import estimate_dispersion, start_dispersion
from anypca.models._bilinear.evaluator import Coefficients
from anypca.models._bilinear.passes import Deviances, Pass
from anypca.models._session import open_session

N, P, K = 40, 6, 3
#: A one for the intercept and a covariate.
FEATURES = np.column_stack([np.ones(N), np.linspace(-1.0, 2.0, N)])


def _stats(scores: np.ndarray) -> SweepSums:
    """Only what a report needs: moments of the scores."""
    empty = np.zeros(P)
    gram = scores.T @ scores
    return SweepSums(
        exit_columns=empty,
        entry_columns=empty,
        linear=empty,
        offset_value=0.0,
        score_penalty=0.0,
        gradient=empty,
        curvature=pack_symmetric(gram),
        row_decrement=0.0,
        weight=float(len(scores)),
        n_entries=float(N * P),
        score_sum=scores.sum(axis=0),
        score_gram=gram,
    )


def _fit(size: float = 1.0, seed: int = 0) -> tuple[np.ndarray, Coefficients]:
    """Scores and coefficients in arbitrary coordinates; the last loadings are ``size`` times the others."""
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((N, K)) @ rng.standard_normal((K, K)) + 1.0
    loadings = rng.standard_normal((P, K))
    loadings[:, -1] *= size
    scores[:, -1] /= size
    return scores, Coefficients(loadings, rng.standard_normal((P, 2)), np.ones(P))


def _predictor(scores: np.ndarray, coefficients: Coefficients) -> np.ndarray:
    return scores @ coefficients.loadings.T + FEATURES @ coefficients.fixed.T


@pytest.mark.parametrize("size", [1.0, 1e-6, 1e-11], ids=["equal", "small", "vanishing"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_reported_coordinates_leave_the_predictor_as_it_is(size: float, fit_intercept: bool) -> None:
    scores, coefficients = _fit(size)
    found = orthonormal(coefficients, _stats(scores), fit_intercept=fit_intercept)
    new = found.gauge.apply(scores, FEATURES)
    expected = _predictor(scores, coefficients)
    np.testing.assert_allclose(_predictor(new, found.coefficients), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_reported_coordinates_are_a_singular_value_decomposition(fit_intercept: bool) -> None:
    scores, coefficients = _fit()
    found = orthonormal(coefficients, _stats(scores), fit_intercept=fit_intercept)
    new, loadings = found.gauge.apply(scores, FEATURES), found.coefficients.loadings
    np.testing.assert_allclose(loadings.T @ loadings, np.eye(K), atol=1e-12)
    moments = new.T @ new / N
    np.testing.assert_allclose(moments, np.diag(found.variance), atol=1e-10 * moments.max())
    assert np.all(np.diff(found.variance) <= 0)
    assert np.all(loadings[np.abs(loadings).argmax(axis=0), np.arange(K)] > 0)
    np.testing.assert_allclose(found.gauge.matrix @ found.gauge.inverse, np.eye(K), atol=1e-9)
    if fit_intercept:
        np.testing.assert_allclose(new.mean(axis=0), 0.0, atol=1e-10)


def test_unit_loadings_do_not_rotate() -> None:
    scores, coefficients = _fit()
    scores[:, 1] = 0.0
    found = unit_loadings(coefficients, _stats(scores))
    new, loadings = found.gauge.apply(scores, FEATURES), found.coefficients.loadings
    np.testing.assert_allclose(np.linalg.norm(loadings, axis=0), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(new[:, 1], 0.0)
    np.testing.assert_allclose(new @ loadings.T, scores @ coefficients.loadings.T, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found.variance, (new**2).mean(axis=0), rtol=1e-12)


def test_reorder_keeps_the_predictor() -> None:
    scores, coefficients = _fit()
    found = reorder(orthonormal(coefficients, _stats(scores), fit_intercept=True), np.array([2, 0, 1]))
    new = found.gauge.apply(scores, FEATURES)
    np.testing.assert_allclose(
        _predictor(new, found.coefficients), _predictor(scores, coefficients), rtol=1e-9
    )
    np.testing.assert_allclose(found.variance, (new**2).mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.gauge.matrix @ found.gauge.inverse, np.eye(K), atol=1e-9)


# Dispersions


@pytest.mark.parametrize(
    ("family", "dispersion"), [(Gaussian(), 2.0), (Gamma(), 0.3), (NegativeBinomial(), 0.5)], ids=repr
)
@pytest.mark.parametrize("missing", [0.0, 0.3], ids=["complete", "missing"])
def test_dispersion_of_a_known_model_is_recovered(family: object, dispersion: float, missing: float) -> None:
    drawn = make_low_rank(
        1500, 8, 1, family=family, dispersion=dispersion, intercept=1.0, missing=missing, random_state=0
    )
    coefficients = Coefficients(drawn.components.T, drawn.intercept[:, None], np.ones(8))
    data = check_data(drawn.X)
    with open_session(data, 1) as session:
        visit = Pass(session, True)
        found = estimate_dispersion(
            drawn.family, coefficients, visit, [drawn.scores], np.ones(8), float(data.n_samples)
        )
    # The truth was not fitted, so that counting its parameters as fitted overstates by their share.
    share = 1.0 - (1500 + 15) / np.isfinite(drawn.X).sum()
    np.testing.assert_allclose(found, dispersion / share, rtol=0.25 if family == NegativeBinomial() else 0.06)


def test_dispersion_stays_finite_where_means_vanish_or_explode() -> None:
    X = np.array([[0.0, 0.0], [0.0, 3.0], [0.0, 1.0], [np.nan, 2.0]])
    # Means of exp(-800) = 0 in the first column, and of exp(800) at its missing entry.
    scores = np.array([[-1.0], [-1.0], [-1.0], [1.0]])
    coefficients = Coefficients(np.array([[800.0], [0.0]]), np.zeros((2, 1)), np.full(2, 0.1))
    data = check_data(X)
    with open_session(data, 1) as session:
        found = estimate_dispersion(
            NegativeBinomial(), coefficients, Pass(session, True), [scores], np.ones(2), 4.0
        )
    assert np.all(np.isfinite(found))
    assert np.all(found >= 0)


def test_start_dispersion_is_shared_but_for_gaussian_columns_of_mixtures() -> None:
    mean, variance = np.array([1.0, 2.0, 3.0]), np.array([4.0, 2.0, 9.0])
    np.testing.assert_allclose(start_dispersion(Gaussian(), mean, variance), 5.0)
    np.testing.assert_allclose(start_dispersion(Gaussian(variance=7.0), mean, variance), 7.0)
    family = combine([Gaussian(), NegativeBinomial(), Gaussian()])
    found = start_dispersion(family, mean, variance)
    np.testing.assert_allclose(found[[0, 2]], [4.0, 9.0])


# Shares of deviance


def _explained(null: float, deviance: float, without: list[float]) -> np.ndarray:
    return Deviances(null, deviance, np.array(without)).shares


def test_shares_add_to_the_share_of_the_model() -> None:
    np.testing.assert_allclose(_explained(100.0, 40.0, [80.0, 60.0]), [0.4, 0.2])


def test_shares_without_anything_to_explain() -> None:
    np.testing.assert_array_equal(_explained(0.0, 0.0, [0.0, 0.0]), 0.0)
    np.testing.assert_array_equal(_explained(10.0, 10.0, [10.0, 10.0]), 0.0)


def test_shares_of_infinite_deviances() -> None:
    np.testing.assert_allclose(_explained(100.0, 40.0, [np.inf, 50.0]), [0.6, 0.0], atol=1e-12)
    np.testing.assert_allclose(_explained(100.0, 40.0, [np.inf, np.inf]), [0.3, 0.3])

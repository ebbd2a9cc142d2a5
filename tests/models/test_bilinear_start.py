"""Where fits start: leading directions of residuals and of the table on the scale of the predictor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import subspace_angles

from anypca import EPCA
from anypca.datasets import make_low_rank
from anypca.engine import check_data
from anypca.families import Poisson, resolve_family
from anypca.models._bilinear.evaluator import BlockEvaluator, Coefficients
from anypca.models._bilinear.passes import Pass
from anypca.models._bilinear.start import (
    BilinearFitter,
    _count_product,
    _residual_product,
    link_loadings,
    mean_coefficients,
    null_coefficients,
    residual_directions,
)
from anypca.models._opened import open_block
from anypca.models._session import open_session

N, P = 150, 20


class Start:
    """A table, its family, and a model without components."""

    def __init__(self, X, name, *, fit_intercept=True):
        self.opened = open_session(check_data(X), 1)
        session = self.opened.__enter__()
        self.family = resolve_family(name, X.shape[1])
        self.visit = Pass(session, fit_intercept)
        fixed = mean_coefficients(self.family, session.summary, 0, fit_intercept=fit_intercept)
        empty = Coefficients(np.zeros((X.shape[1], 0)), fixed, np.ones(X.shape[1]))
        self.null = null_coefficients(self.family, empty, self.visit, tol=1e-6)

    def residual(self, k, **options):
        return residual_directions(
            self.family, self.null, self.visit, k, np.random.default_rng(0), **options
        ).loadings

    def link(self, k):
        return link_loadings(self.family, self.null, self.visit, k, np.random.default_rng(0))


@pytest.fixture
def start():
    """Makes starts and closes their executors."""
    made = []

    def make(*arguments, **options):
        made.append(Start(*arguments, **options))
        return made[-1]

    yield make
    for one in made:
        one.opened.__exit__(None, None, None)


def widest_angle(first, second):
    return float(np.rad2deg(subspace_angles(first, second).max()))


@pytest.mark.parametrize("name", ["gaussian", "poisson", "bernoulli"])
def test_residual_directions_span_the_truth(name, start):
    # Residuals are linear in a predictor that varies little.
    signal = {"gaussian": 1.0, "poisson": 0.5, "bernoulli": 3.0}[name]
    drawn = make_low_rank(N, P, 2, family=name, signal=signal, intercept=1.0, random_state=0)
    found = start(drawn.X, name).residual(2)
    assert found.shape == (P, 2)
    assert widest_angle(found, drawn.components.T) < 30


def test_gaussian_residual_directions_are_those_of_pca(start):
    X = make_low_rank(N, P, 3, family="gaussian", signal=4.0, random_state=1).X
    # Small enough for no residual to be cut off.
    X = X / np.abs(X - X.mean(axis=0)).max()
    found = start(X, "gaussian").residual(3)
    right = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2][:3].T
    assert widest_angle(found, right) < 0.5


def test_residuals_of_a_fit_show_what_it_leaves(start):
    drawn = make_low_rank(N, P, 2, family="gaussian", signal=3.0, random_state=2)
    first = start(drawn.X, "gaussian")
    centred = drawn.X - drawn.X.mean(axis=0)
    left, sizes, right = np.linalg.svd(centred, full_matrices=False)
    fitted = Coefficients(right[:1].T, first.null.fixed, first.null.dispersion)
    scores = [left[:, :1] * sizes[0]]
    found = residual_directions(
        first.family, fitted, first.visit, 1, np.random.default_rng(0), scores
    ).loadings
    assert widest_angle(found, right[1:2].T) < 15


def test_link_loadings_take_the_mean_along(start):
    """Without an intercept the first direction is that of the columns' typical values."""
    rng = np.random.default_rng(3)
    centre = np.linspace(1.0, 4.0, P)
    X = rng.poisson(np.exp(centre + 0.1 * rng.normal(size=(N, P)))).astype(float)
    found = start(X, "poisson", fit_intercept=False).link(1)
    assert widest_angle(found, centre[:, None]) < 5
    # One unit of the score is a typical row.
    np.testing.assert_allclose(np.abs(found[:, 0]), centre, atol=0.3)


def test_link_loadings_of_gaussian_columns_are_the_singular_vectors(start):
    X = make_low_rank(N, P, 3, family="gaussian", signal=4.0, random_state=4).X
    found = start(X, "gaussian", fit_intercept=False).link(3)
    _, sizes, right = np.linalg.svd(X, full_matrices=False)
    assert widest_angle(found, right[:3].T) < 2
    np.testing.assert_allclose(np.linalg.norm(found, axis=0), sizes[:3] / np.sqrt(N), rtol=0.02)


def test_missing_entries_pull_nowhere(start):
    drawn = make_low_rank(N, P, 2, family="poisson", signal=0.7, intercept=1.5, random_state=5)
    X = drawn.X.copy()
    X[np.random.default_rng(6).random(X.shape) < 0.3] = np.nan
    for fit_intercept in (True, False):
        full, holed = (start(x, "poisson", fit_intercept=fit_intercept) for x in (drawn.X, X))
        first, second = ((one.residual if fit_intercept else one.link)(1) for one in (full, holed))
        assert widest_angle(first, second) < 20


@pytest.mark.parametrize("size", [0.1, 30.0], ids=["rare", "frequent"])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_products_of_rare_counts_are_those_of_all_residuals(container, size):
    rng = np.random.default_rng(0)
    X, offset = rng.poisson(size, (60, 12)) * (rng.random((60, 12)) < 0.2), rng.normal(size=60) * 0.3
    null = Coefficients(np.zeros((12, 0)), np.log(rng.uniform(0.5, 2.0, (12, 1)) * size), np.ones(12))
    X[0, 0] = 9  # clipped
    data = check_data(container(X.astype(float)), offset=offset, sample_weight=rng.uniform(0.5, 2.0, 60))
    data = replace(data.blocks[0], may_miss=False)
    basis = rng.normal(size=(12, 3))
    rows = open_block(data, fit_intercept=True)
    expected = _residual_product(Poisson(), null, rows, np.zeros((60, 0)), basis)
    rows = open_block(data, fit_intercept=True, family=Poisson())
    np.testing.assert_allclose(_count_product(null, rows, basis), expected, rtol=1e-10, atol=1e-10)
    rows = open_block(data, fit_intercept=True, family=Poisson(), precision="float32")
    np.testing.assert_allclose(_count_product(null, rows, basis), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("has_offset", [False, True], ids=["no offset", "offset"])
def test_intercepts_of_counts_in_closed_form_are_those_of_sweeps(has_offset, monkeypatch):
    rng = np.random.default_rng(0)
    X, given = rng.poisson(2.0, (50, 6)).astype(float), {"sample_weight": rng.uniform(0.5, 2.0, 50)}
    if has_offset:
        given["offset"] = rng.normal(size=50)
    found = EPCA(0, family="poisson", tol=1e-10, n_jobs=1).fit(X, **given)
    monkeypatch.setattr(BilinearFitter, "_closed_null", lambda self: None)
    expected = EPCA(0, family="poisson", tol=1e-10, n_jobs=1).fit(X, **given)
    np.testing.assert_allclose(found.intercept_, expected.intercept_, rtol=1e-8)
    np.testing.assert_allclose(found.null_deviance_, expected.null_deviance_, rtol=1e-10)


@pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])
@pytest.mark.parametrize("name", ["poisson", "gaussian", "gamma(2)"])
def test_values_without_a_component_are_those_with_its_scores_at_zero(name, missing):
    rng = np.random.default_rng(1)
    family = resolve_family(name, 8)
    X = make_low_rank(30, 8, 2, family=family, dispersion=0.5, random_state=0).X
    if missing:
        X[rng.random(X.shape) < 0.2] = np.nan
    data = check_data(X, offset=0.1 * rng.normal(size=X.shape), sample_weight=rng.uniform(0.5, 2.0, 30))
    coefficients = Coefficients(0.5 * rng.normal(size=(8, 3)), rng.normal(size=(8, 1)), np.full(8, 0.5))
    rows = open_block(data.blocks[0], fit_intercept=True, family=family, dense=True)
    evaluator, scores = BlockEvaluator(family, coefficients, rows), rng.normal(size=(30, 3))
    points = [scores, *(scores * (np.arange(3) != a) for a in range(3))]
    expected = [rows.weights @ evaluator.row_values(some) for some in points]
    np.testing.assert_allclose(evaluator.values_without(scores), expected, rtol=1e-10)


def test_deviances_in_single_precision_are_those_in_double():
    rng = np.random.default_rng(0)
    family, weight = resolve_family("poisson", 20), rng.uniform(0.5, 2.0, 400)
    X = make_low_rank(400, 20, 2, family=family, random_state=0).X
    null, full = (
        Coefficients(0.5 * rng.normal(size=(20, k)), np.zeros((20, 1)), np.ones(20)) for k in (0, 3)
    )
    scores = rng.normal(size=(400, 3))
    scores[:, 2] = 0.0
    with open_session(check_data(X, sample_weight=weight), 1) as session:
        visit = Pass(session, fit_intercept=True)
        exact, rough = (
            visit.deviances(family, full, [scores], null, rough=rough) for rough in (None, "float32")
        )
        far = visit.deviances(family, full, [100.0 * scores], null)
        overflowing = visit.deviances(family, full, [100.0 * scores], null, rough="float32")
    np.testing.assert_allclose((rough.full, rough.null), (exact.full, exact.null), rtol=1e-13)
    np.testing.assert_allclose(rough.without - rough.full, exact.without - exact.full, rtol=1e-5)
    assert rough.without[2] == rough.full
    # Beyond its range double precision takes the place of single precision.
    np.testing.assert_array_equal(overflowing.without, far.without)

"""Where fits start: leading directions of residuals and of the table on the scale of the predictor."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import subspace_angles

from anypca.datasets import make_low_rank
from anypca.engine import check_data
from anypca.families import resolve_family
from anypca.models._bilinear.evaluator import Coefficients
from anypca.models._bilinear.passes import Pass
from anypca.models._bilinear.start import (
    link_loadings,
    mean_coefficients,
    null_coefficients,
    residual_directions,
)
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

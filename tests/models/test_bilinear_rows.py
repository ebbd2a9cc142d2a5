"""Rows under frozen coefficients: their standard deviations, and a word where they do not converge."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from anypca import EPCA, SePCA
from anypca.datasets import make_low_rank
from anypca.exceptions import ConvergenceWarning
from anypca.models._bilinear.problem import BilinearProblem
from anypca.models._bilinear.row_model import warn_unsolved


def test_unsolved_rows_are_counted_and_named():
    with pytest.warns(ConvergenceWarning, match="2 rows, the first being row 11,"):
        warn_unsolved(np.array([True, False, True, False]), np.arange(10, 14))


def test_solved_rows_are_silent():
    warn_unsolved(np.ones(3, dtype=bool), np.arange(3))


@pytest.mark.parametrize("family", ["gaussian", "poisson", "binomial(50)"])
@pytest.mark.parametrize(
    "model",
    [
        EPCA(2, ridge=10.0, tol=1e-8),
        EPCA(2, ridge=0.1, tol=1e-8),
        SePCA(2, inference="map", nu=1.0, dispersion=0.3),
    ],
    ids=["EPCA ridge 10", "EPCA ridge 0.1", "SePCA map"],
)
def test_deviations_are_how_far_scores_follow_their_entries(model, family):
    """The inverse C of curvature and prior also says how the scores of a row move with its entries.

    With the link that belongs to the family the gradient of a row is ``W (x - mu) / phi - P z``, hence
    ``dz / dx_j = C w_j / phi_j`` at its mode. Without the prior P, C would be far too large where the ridge decides.
    """
    X = make_low_rank(60, 6, 2, family=family, signal=1.0, dispersion=0.3, intercept=1.5, random_state=0).X
    model.set_params(family=family).fit(X)
    row, step = X[3:4], 1e-4
    _, std = model.transform(row, return_std=True)
    up, down = (model.transform(row + sign * step * np.eye(6)) for sign in (1, -1))
    slopes = (up - down) / (2 * step) * model.dispersion_[:, None]
    covariance = np.linalg.lstsq(model.components_.T, slopes, rcond=None)[0]
    assert_allclose(std[0], np.sqrt(np.diag(covariance)), rtol=1e-5)


def test_rows_of_a_fit_that_has_ended_need_no_further_curvature(monkeypatch):
    """They are near their modes, where gradients alone lead, and as well as Newton's steps."""
    X = make_low_rank(300, 40, 3, family="poisson", signal=1.0, intercept=1.0, random_state=1).X
    offset = np.linspace(-1.0, 1.0, 300)
    model = EPCA(3, family="poisson", ridge=1.0, n_jobs=1)
    monkeypatch.setattr(BilinearProblem, "solve_rows", None)
    scores = model.fit_transform(X, offset=offset)
    monkeypatch.undo()
    assert_allclose(scores, model.transform(X, offset=offset), rtol=1e-8, atol=1e-9)


@pytest.mark.filterwarnings("ignore:.*max_iter")
def test_rows_far_from_their_modes_are_found_all_the_same():
    X = make_low_rank(300, 40, 3, family="poisson", signal=3.0, intercept=1.0, random_state=1).X
    model = EPCA(3, family="poisson", ridge=0.1, max_iter=1, n_jobs=1)
    assert_allclose(model.fit_transform(X), model.transform(X), rtol=1e-8, atol=1e-9)

"""Residuals and eigenvalues behind the methods for the number of components."""

from __future__ import annotations

import numpy as np
import pytest
from tests.draws import generator

from anypca.families import Binomial, Exponential, Gamma, Gaussian, NegativeBinomial, Poisson, StudentT
from anypca.selection._residuals import deviance
from anypca.selection.diagnostics import leverages
from anypca.selection.rank_methods import eigenvalues


@pytest.mark.parametrize(
    "family",
    [Poisson(), NegativeBinomial(), Gamma(), Exponential(), StudentT(), Binomial(9), Gaussian()],
    ids=str,
)
def test_residuals_rise_with_the_entries(family):
    x = np.arange(1.0, 9.0)[:, None]
    eta = np.zeros_like(x) + (0.5 if family.link_kind != "identity" else 4.0)
    found = deviance(family, x, eta, 0.5)[:, 0]
    assert (np.diff(found) > 0).all()
    assert found[0] < 0 < found[-1]


def test_eigenvalues_of_wide_and_tall_tables_are_squared_singular_values(rng):
    X = rng.normal(size=(12, 5))
    for table in (X, X.T):
        expected = np.linalg.svd(X, compute_uv=False) ** 2
        np.testing.assert_allclose(eigenvalues(table), np.r_[expected], rtol=1e-10)


def test_leverages_are_those_of_the_hat_matrix():
    rng = generator("hat")
    scores, fixed = rng.normal(size=(30, 2)), np.ones((30, 1))
    features = np.hstack([fixed, scores])
    hat = features @ np.linalg.pinv(features)
    own, following = leverages(fixed, scores, 0.9)
    np.testing.assert_allclose(own, np.minimum(np.diag(hat), 0.9))
    np.testing.assert_allclose(following[:-1], np.diag(hat, 1), atol=1e-12)

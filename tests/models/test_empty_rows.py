"""Rows without any observed cell: they get the score and width of the distribution of scores, and change nothing."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from anypca import EPCA, GPCA, PLNPCA, PPCA, SePCA

N, EMPTY = 50, 7
RNG = np.random.default_rng(0)
REALS = RNG.normal(size=(N, 1)) @ RNG.normal(size=(1, 5)) + 0.3 * RNG.normal(size=(N, 5))
COUNTS = RNG.poisson(np.exp(0.5 * REALS + 1.0)).astype(float)

MODELS = [
    pytest.param(PPCA(1, tol=1e-8), REALS, id="PPCA"),
    pytest.param(EPCA(1, family="poisson", tol=1e-8), COUNTS, id="EPCA"),
    pytest.param(SePCA(2, family="poisson", tol=1e-6), COUNTS, id="SePCA"),
    pytest.param(GPCA(1, family="poisson"), COUNTS, id="GPCA"),
    pytest.param(PLNPCA(1), COUNTS, id="PLNPCA"),
]


@pytest.mark.parametrize(("model", "X"), MODELS)
def test_empty_rows(model, X):
    holes = X.copy()
    holes[EMPTY] = np.nan
    holes[3, 2] = np.nan
    found, without = clone(model).fit(holes), clone(model).fit(np.delete(holes, EMPTY, axis=0))
    # The empty row may add a sweep of its own: both end within the stop of the same optimum.
    assert_allclose(found.components_, without.components_, rtol=2e-3, atol=2e-3)
    scores = found.transform(holes)
    assert_allclose(scores[EMPTY], 0.0, atol=1e-10)
    assert_allclose(found.score_samples(holes)[EMPTY], 0.0, atol=1e-10)
    filled = found.impute(holes)
    assert np.isfinite(filled).all()


@pytest.mark.parametrize(
    ("model", "X"), [param.values for param in MODELS[:3]], ids=["PPCA", "EPCA", "SePCA"]
)
def test_nothing_is_known_of_them(model, X):
    holes = X.copy()
    holes[EMPTY] = np.nan
    _, std = clone(model).fit(X).transform(holes, return_std=True)
    assert std[EMPTY] == pytest.approx(std.max(axis=0))
    assert (std[EMPTY] > 1.2 * np.median(std, axis=0)).all()


def test_a_table_with_few_columns_can_be_split():
    X = COUNTS[:, :3].copy()
    X[np.random.default_rng(1).random(X.shape) < 0.3] = np.nan
    assert np.isnan(X).all(axis=1).any()
    assert np.isfinite(SePCA(1, family="poisson").fit(X).transform(X)).all()

"""Correlation circles of any model: what is correlated with what."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.quiver import Quiver
from scipy import sparse

from anypca import SPCA, KernelPCA
from anypca.plotting import plot_correlation_circle
from anypca.plotting._reading import correlate, read_table

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 3)) @ RNG.normal(size=(3, 7)) + 100 + 0.1 * RNG.normal(size=(90, 7))


def tips(ax):
    """Where the columns are drawn, in no particular order."""
    parts = [np.column_stack([q.U, q.V]) for q in ax.get_children() if isinstance(q, Quiver)]
    parts += [c.get_offsets() for c in ax.collections if isinstance(c, PathCollection)]
    points = np.concatenate(parts)
    return points[np.lexsort(points.T)]


def correlations(columns, scores):
    n = columns.shape[1]
    points = np.corrcoef(columns.T, scores.T)[:n, n:]
    return points[np.lexsort(points.T)]


def test_predictors_with_correlated_scores():
    model = SPCA(2, penalty=[20.0, 20.0]).fit(X)
    scores = model.transform(X)
    assert abs(np.corrcoef(scores.T)[0, 1]) > 0.01
    predictors = scores @ model.components_
    varying = predictors.std(axis=0) > 1e-9
    found = tips(plot_correlation_circle(model, scores))
    wanted = correlations(predictors[:, varying], scores)
    np.testing.assert_allclose(found[np.hypot(*found.T) > 0], wanted, atol=1e-6)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_columns_of_a_model_without_loadings(form):
    model = KernelPCA(2).fit(X)
    scores = model.transform(X)
    found = tips(plot_correlation_circle(model, scores, form(X)))
    np.testing.assert_allclose(found, correlations(X, scores), atol=1e-8)


def test_correlations_with_missing_entries_over_blocks():
    n = 3000
    table = RNG.normal(size=(n, 4)) + 1e4
    scores = table[:, :2] - 1e4 + RNG.normal(size=(n, 2)) + 5
    table[RNG.uniform(size=table.shape) < 0.3] = np.nan
    table[:, 3] = 7.0
    found, sizes = correlate(table, scores)
    for j in range(3):
        seen = ~np.isnan(table[:, j])
        wanted = np.corrcoef(table[seen, j], scores[seen].T)[0, 1:]
        np.testing.assert_allclose(found[:, j], wanted, atol=1e-10)
        assert sizes[j] == pytest.approx(table[seen, j].std(), rel=1e-10)
    np.testing.assert_array_equal(found[:, 3], 0.0)
    np.testing.assert_array_equal(read_table(table), table)


@pytest.mark.parametrize("n_features", [5, 5000])
def test_columns_without_names_are_points_when_many(n_features):
    components = RNG.normal(size=(2, n_features))
    model = SimpleNamespace(components_=components, explained_variance_=np.array([3.0, 1.0]))
    ax = plot_correlation_circle(model)
    clouds = [part for part in ax.collections if isinstance(part, PathCollection)]
    assert sum(len(cloud.get_offsets()) for cloud in clouds) == (0 if n_features == 5 else 5000 - 12)
    # All columns are drawn, on the circle since there are only two components.
    points = tips(ax)
    assert len(points) == n_features
    np.testing.assert_allclose(np.hypot(*points.T), 1.0)
    assert len([text for text in ax.texts if text.get_text()]) == min(n_features, 12)


def test_columns_that_hardly_vary_are_named_last():
    # The first columns are as correlated as can be, and tiny.
    components = np.array([[1e-3] * 5 + [1.0] * 5, [0.0] * 5 + [1.0] * 5, [0.0] * 5 + [0.5] * 5])
    model = SimpleNamespace(components_=components, explained_variance_=np.ones(3))
    named = {text.get_text() for text in plot_correlation_circle(model, top=5).texts}
    assert named == {f"x{j}" for j in range(5, 10)}


def test_bad_input():
    model = KernelPCA(2).fit(X)
    with pytest.raises(ValueError, match="Pass scores="):
        plot_correlation_circle(model, X=X)
    with pytest.raises(ValueError, match="X must hold 90 values, one for each row of scores; got 80"):
        plot_correlation_circle(model, model.transform(X), X[:80])

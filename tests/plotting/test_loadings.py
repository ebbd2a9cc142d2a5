"""Loadings: bars, whiskers, names."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.collections import LineCollection

from anypca import PPCA, SePCA
from anypca.plotting import plot_loadings


def fitted(n_features, *, with_std=False):
    rng = np.random.default_rng(n_features)
    model = SimpleNamespace(
        components_=rng.normal(size=(2, n_features)), explained_deviance_ratio_=np.array([0.5, 0.125])
    )
    if with_std:
        model.components_std_ = rng.uniform(0.1, 0.5, size=(2, n_features))
    return model


def names_of(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


@pytest.mark.parametrize("n_features", [5, 5000])
def test_bars_are_the_largest_loadings(n_features):
    model = fitted(n_features)
    ax = plot_loadings(model, 2, top=8)
    order = np.argsort(-np.abs(model.components_[1]))[:8]
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], model.components_[1, order])
    assert names_of(ax) == [f"x{j}" for j in order]
    assert ax.get_xlabel() == "loading on component 2 (12.5 % of deviance)"
    share = 100 * (model.components_[1, order] ** 2).sum() / (model.components_[1] ** 2).sum()
    shown = min(n_features, 8)
    assert ax.get_title() == f"{shown} of {n_features} columns, {share:.0f} % of the squared loadings"
    # The largest is on top.
    assert ax.yaxis_inverted()


def test_signs_have_colours():
    ax = plot_loadings(SimpleNamespace(components_=np.array([[3.0, -2.0, 1.0]])))
    first, second, third = (bar.get_facecolor() for bar in ax.patches)
    assert first == third != second


def test_whiskers_are_posterior_deviations():
    model = fitted(30, with_std=True)
    ax = plot_loadings(model, 1, top=5)
    order = np.argsort(-np.abs(model.components_[0]))[:5]
    (whiskers,) = [part for part in ax.collections if isinstance(part, LineCollection)]
    ends = np.array([segment[:, 0] for segment in whiskers.get_segments()])
    middle, half = model.components_[0, order], model.components_std_[0, order]
    np.testing.assert_allclose(ends, np.column_stack([middle - half, middle + half]))
    assert ax.get_title().endswith("whiskers: ± 1 posterior sd")
    assert not plot_loadings(fitted(30)).collections


def test_zeros_of_sparse_components_are_left_out():
    ax = plot_loadings(SimpleNamespace(components_=np.array([[0.0, 0.6, 0.0, -0.8]])))
    assert names_of(ax) == ["x3", "x1"]
    assert ax.get_title() == "2 of 2 non-zero, 100 % of the squared loadings"
    assert len(plot_loadings(SimpleNamespace(components_=np.zeros((1, 4)))).patches) == 0


def test_names_are_cut_and_never_parsed():
    names = ["$x_{", "b" * 100, "two\nlines"]
    ax = plot_loadings(SimpleNamespace(components_=np.array([[3.0, 2.0, 1.0]])), feature_names=names)
    assert names_of(ax)[0] == "$x_{"
    assert len(names_of(ax)[1]) == 24
    assert names_of(ax)[2] == "two lines"
    ax.figure.draw_without_rendering()


def test_names_do_not_touch():
    ax = plot_loadings(fitted(5000), top=40)
    ax.figure.draw_without_rendering()
    boxes = sorted((label.get_window_extent() for label in ax.get_yticklabels()), key=lambda box: box.y0)
    assert all(below.y1 <= above.y0 for below, above in pairwise(boxes))


def test_fitted_models():
    rng = np.random.default_rng(0)
    counts = rng.poisson(np.exp(rng.normal(size=(60, 1)) @ rng.normal(size=(1, 8)) + 1))
    model = SePCA(max_components=2, family="poisson").fit(counts)
    assert model.n_components_ == 1
    assert any(isinstance(part, LineCollection) for part in plot_loadings(model).collections)
    assert len(plot_loadings(PPCA(2).fit(counts), 2).patches) == 8


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"component": 0}, "component must be from 1 to 2; got 0"),
        ({"component": 3}, "component must be from 1 to 2; got 3"),
        ({"top": 0}, "top must be at least 1.*got 0"),
        ({"feature_names": ["a"]}, "must hold 5 names"),
    ],
    ids=["zero", "beyond", "none", "names"],
)
def test_bad_input(arguments, complaint):
    with pytest.raises(ValueError, match=complaint):
        plot_loadings(fitted(5), **arguments)


def test_a_column_in_large_units_does_not_dwarf_the_others():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 1)) * np.ones(5) + 0.3 * rng.normal(size=(80, 5))
    bars = [
        sorted(bar.get_width() for bar in plot_loadings(SePCA(random_state=0).fit(table)).patches)
        for table in (X * np.r_[1e5, 1, 1, 1, 2], X)
    ]
    np.testing.assert_allclose(*bars, rtol=1e-3)
    ax = plot_loadings(SePCA(random_state=0).fit(X * np.r_[1e5, 1, 1, 1, 1]))
    assert ax.get_xlabel().startswith("loading, over its column's noise, on component 1")

"""Names are never over each other nor beyond the frame."""

from __future__ import annotations

from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.text import Annotation
from tests.draws import generator

from anypca.plotting import (
    plot_biplot,
    plot_correlation_circle,
    plot_loadings,
    plot_scores,
    save_figure,
)


def text_boxes(ax):
    """Extents of the texts themselves: an annotation's would also count the line to its point."""
    ax.figure.draw_without_rendering()
    notes = [text for text in ax.texts if isinstance(text, Annotation)]
    return [super(Annotation, note).get_window_extent() for note in notes]


def assert_apart(ax, boxes):
    assert not [pair for pair in combinations(boxes, 2) if pair[0].overlaps(pair[1])]
    frame = ax.get_window_extent()
    for box in boxes:
        assert frame.x0 - 1 <= box.x0 <= box.x1 <= frame.x1 + 1
        assert frame.y0 - 1 <= box.y0 <= box.y1 <= frame.y1 + 1


CLOUDS = {
    "spread": lambda rng, n: rng.uniform(-1, 1, (n, 2)),
    "all in one place": lambda rng, n: np.full((n, 2), 0.6) + 1e-3 * rng.normal(size=(n, 2)),
    "on a line": lambda rng, n: np.column_stack([np.linspace(0.2, 0.9, n), np.zeros(n)]),
    "at the corner": lambda rng, n: np.vstack([1.0 - 0.02 * rng.uniform(size=(n - 1, 2)), -np.ones((1, 2))]),
}


@pytest.mark.parametrize("dpi", [72, 200])
@pytest.mark.parametrize("cloud", CLOUDS)
def test_names_of_rows_stay_apart(cloud, dpi, rng):
    model = SimpleNamespace(components_=np.eye(2, 4))
    points = CLOUDS[cloud](rng, 30)
    names = ["W" * rng.integers(1, 15) for _ in range(30)]
    ax = plot_scores(model, points, row_names=names)
    ax.figure.set_dpi(dpi)
    boxes = text_boxes(ax)
    assert 2 <= len(boxes) <= 30
    assert_apart(ax, boxes)


@pytest.mark.parametrize("n_features", [5, 5000])
@pytest.mark.parametrize("draw", [plot_biplot, plot_correlation_circle])
def test_names_of_columns_that_point_the_same_way_stay_apart(draw, n_features, rng):
    model = SimpleNamespace(
        components_=rng.normal([[2.0], [0.1]], 0.05, size=(2, n_features)),
        explained_variance_=np.array([4.0, 1.0]),
        feature_names_in_=np.array([f"A long and dull name of column {j}" for j in range(n_features)]),
    )
    ax = draw(model, rng.normal(size=(30, 2)) * [2.0, 1.0])
    boxes = text_boxes(ax)
    assert len(boxes) >= 4
    assert_apart(ax, boxes)
    assert all(len(text.get_text()) <= 20 for text in ax.texts)


def test_names_are_cut_and_never_parsed(tmp_path):
    names = ["$x_{", "b" * 100, "two\nlines", "数"]
    components = np.array([[3.0, 2.0, 1.0, 0.5], [1.0, -2.0, 1.0, 3.0]])
    model = SimpleNamespace(components_=components, feature_names_in_=names)
    labels = [label.get_text() for label in plot_loadings(model).get_yticklabels()]
    assert labels[0] == "$x_{"
    assert (len(labels[1]), labels[2]) == (24, "two lines")
    ax = plot_biplot(model, generator("names").normal(size=(20, 2)))
    assert {"$x_{", "two lines", "数"} <= {text.get_text() for text in ax.texts}
    save_figure(ax, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")

"""Names are never over each other nor beyond the frame, and colours are told apart by everybody."""

from __future__ import annotations

from itertools import combinations, pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.colors import to_rgb
from matplotlib.text import Annotation
from tests.draws import generator

from anypca.plotting import (
    plot_biplot,
    plot_correlation_circle,
    plot_loadings,
    plot_pruning_path,
    plot_scores,
    plot_scree,
    plot_trace,
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


def test_names_of_bars_do_not_touch(rng):
    ax = plot_loadings(SimpleNamespace(components_=rng.normal(size=(1, 500))), top=40)
    ax.figure.draw_without_rendering()
    boxes = sorted((label.get_window_extent() for label in ax.get_yticklabels()), key=lambda box: box.y0)
    assert all(below.y1 <= above.y0 for below, above in pairwise(boxes))


@pytest.mark.parametrize("n", [1, 2, 60])
def test_counted_things_have_whole_numbers(n):
    model = SimpleNamespace(
        explained_deviance_ratio_=np.full(n, 0.9 / n), objective_trace_=np.arange(n), converged_=False
    )
    for ax in (plot_scree(model), plot_trace(model)):
        ax.figure.draw_without_rendering()
        assert all(float(tick).is_integer() for tick in ax.get_xticks())


def test_legends_and_words_stay_within_the_picture():
    evidence = {0: -50.0, 2: -10.0, 3: -12.0}
    ax = plot_scree(
        SimpleNamespace(explained_deviance_ratio_=np.array([0.5, 0.1]), evidence_by_rank_=evidence)
    )
    ax.figure.draw_without_rendering()
    box, figure = ax.get_legend().get_window_extent(), ax.figure.bbox
    assert figure.x0 <= box.x0 <= box.x1 <= figure.x1
    assert figure.y0 <= box.y0 <= box.y1 <= figure.y1
    for n in (3, 12, 40):
        path = tuple(
            SimpleNamespace(iteration=4 * i, n_components=50 - i, alpha=9.0, ratio=0.01, reason="relevance")
            for i in range(1, n + 1)
        )
        ax = plot_pruning_path(SimpleNamespace(pruning_path_=path, n_components_=49 - n))
        ax.figure.draw_without_rendering()
        frame = ax.get_window_extent()
        assert all(text.get_window_extent().x0 >= frame.x0 for text in ax.texts)
        assert len(ax.texts) in (0, n)


# Machado, Oliveira and Fernandes (2009): what is seen, in linear RGB, without one kind of cone.
DICHROMATS = {
    "none": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
}


def to_lab(rgb):
    """CIE L*a*b* of linear RGB under D65."""
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ rgb
    f = np.cbrt(xyz / [0.9505, 1.0, 1.089])
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("kind", DICHROMATS)
def test_colours_of_ten_groups_are_told_apart(kind):
    model = SimpleNamespace(components_=np.eye(2, 4))
    ax = plot_scores(model, generator("colours").normal(size=(60, 2)), color=np.arange(60) % 10)
    colors = []
    for cloud in (part for part in ax.collections if isinstance(part, PathCollection)):
        srgb = np.array(to_rgb(cloud.get_facecolor()[0][:3]))
        linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
        colors.append(to_lab(np.clip(np.asarray(DICHROMATS[kind]) @ linear, 1e-6, 1.0)))
    assert len(colors) == 10
    # A difference of 2.3 is just noticeable side by side; points in a cloud need several times that.
    assert min(np.linalg.norm(a - b) for a, b in combinations(colors, 2)) > 10

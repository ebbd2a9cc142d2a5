"""Names beside points: never over each other, never beyond the frame; colours that everybody tells apart."""

from __future__ import annotations

from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from anypca.plotting import plot_biplot, plot_correlation_circle, plot_scores
from anypca.plotting._common import MARKERS, PALETTE
from anypca.plotting._points import place_labels


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
    "at the corner": lambda rng, n: 1.0 - 0.02 * rng.uniform(size=(n, 2)),
}


LEAST = {"spread": 14, "all in one place": 10, "on a line": 12, "at the corner": 5}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("cloud", CLOUDS)
def test_texts_stay_apart(cloud, seed):
    rng = np.random.default_rng(seed)
    ax = Figure(figsize=(5, 4)).add_subplot()
    ax.set(xlim=(-1, 1), ylim=(-1, 1))
    names = ["W" * rng.integers(1, 20) for _ in range(15)]
    place_labels(ax, CLOUDS[cloud](rng, 15), names, color="k")
    boxes = text_boxes(ax)
    # Most find a place even in the worst cloud, nearly all where there is room.
    assert len(boxes) >= LEAST[cloud]
    assert_apart(ax, boxes)


@pytest.mark.parametrize("dpi", [72, 150, 300])
def test_texts_stay_apart_at_any_resolution(dpi):
    rng = np.random.default_rng(0)
    ax = Figure(figsize=(5, 4)).add_subplot()
    ax.set(xlim=(-1, 1), ylim=(-1, 1))
    place_labels(ax, rng.uniform(0.2, 0.6, (12, 2)), [f"feature {j}" for j in range(12)], color="k")
    ax.figure.set_dpi(dpi)
    assert_apart(ax, text_boxes(ax))


def similar_columns(n_features):
    """A model whose strongest columns all point the same way, and scores."""
    rng = np.random.default_rng(1)
    components = rng.normal([[2.0], [0.1]], 0.05, size=(2, n_features))
    model = SimpleNamespace(
        components_=components,
        explained_variance_=np.array([4.0, 1.0]),
        explained_deviance_ratio_=np.array([0.5, 0.2]),
        feature_names_in_=np.array([f"A long and dull name of column {j}" for j in range(n_features)]),
    )
    return model, rng.normal(size=(30, 2)) * [2.0, 1.0]


@pytest.mark.parametrize("n_features", [5, 5000])
@pytest.mark.parametrize("draw", [plot_biplot, plot_correlation_circle])
def test_columns_that_point_the_same_way(draw, n_features):
    ax = draw(*similar_columns(n_features))
    boxes = text_boxes(ax)
    assert len(boxes) >= 5
    assert_apart(ax, boxes)
    assert all(len(text.get_text()) <= 20 for text in ax.texts)


def test_names_of_rows_stay_apart():
    model, scores = similar_columns(5)
    ax = plot_scores(model, 0.1 * scores, row_names=[f"patient number {i}" for i in range(30)])
    boxes = text_boxes(ax)
    assert len(boxes) >= 5
    assert_apart(ax, boxes)


# Machado, Oliveira and Fernandes (2009): what is seen, in linear RGB, without one kind of cone.
DICHROMATS = {
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
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
    "none": np.eye(3),
}


def to_lab(rgb):
    """CIE L*a*b* of linear RGB under D65."""
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ rgb
    f = np.cbrt(xyz / [0.9505, 1.0, 1.089])
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("kind", DICHROMATS)
def test_colours_are_told_apart(kind):
    colors = []
    for color in PALETTE:
        srgb = np.array(to_rgb(color))
        linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
        colors.append(to_lab(np.clip(np.asarray(DICHROMATS[kind]) @ linear, 1e-6, 1.0)))
    distances = [np.linalg.norm(a - b) for a, b in combinations(colors, 2)]
    # A difference of 2.3 is just noticeable side by side; points in a cloud need several times that.
    assert min(distances) > 10
    assert len(set(MARKERS)) == len(MARKERS)

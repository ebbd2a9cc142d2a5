"""What the pictures show: artists, data, labels."""

from __future__ import annotations

from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.quiver import Quiver
from matplotlib.text import Annotation

from anypca._words import shorten
from anypca.exceptions import NotFittedError
from anypca.plotting import plot_biplot, plot_scree, plot_trace, save_figure
from anypca.plotting._points import Box, place_labels


def fitted(n_features=5, n_components=2, n_samples=50, seed=0):
    """A fitted model as the pictures see it, and scores."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_t(3, size=(n_features, n_components)))[0]
    model = SimpleNamespace(
        components_=basis.T,
        explained_deviance_ratio_=np.sort(rng.dirichlet(np.ones(n_components + 1))[:-1])[::-1],
        objective_trace_=-np.exp(-np.arange(12.0)),
        converged_=True,
    )
    return model, rng.normal(size=(n_samples, n_components)) * np.arange(n_components, 0, -1)


def arrows(ax):
    (quiver,) = [artist for artist in ax.get_children() if isinstance(artist, Quiver)]
    return np.column_stack([quiver.U, quiver.V])


def labels(ax):
    return [text for text in ax.texts if isinstance(text, Annotation)]


def test_scree_shows_each_share_and_the_sum():
    model, _ = fitted(n_components=4)
    ax = plot_scree(model)
    heights = [bar.get_height() for bar in ax.patches]
    np.testing.assert_allclose(heights, 100 * model.explained_deviance_ratio_)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), 100 * model.explained_deviance_ratio_.cumsum())
    assert ax.get_ylabel() == "explained deviance (%)"
    assert [text.get_text() for text in ax.texts] == [f"{height:.1f}" for height in heights]


@pytest.mark.parametrize("n_components", [1, 2, 60])
def test_scree_of_few_and_many(n_components):
    ax = plot_scree(fitted(n_features=100, n_components=n_components)[0])
    assert len(ax.patches) == n_components
    assert all(float(tick).is_integer() for tick in ax.get_xticks())
    assert len(ax.texts) == (n_components if n_components <= 10 else 0)


def test_scree_of_a_model_that_knows_variances():
    ax = plot_scree(SimpleNamespace(explained_variance_ratio_=[0.7, 0.2]))
    assert ax.get_ylabel() == "explained variance (%)"


def test_trace():
    model, _ = fitted()
    ax = plot_trace(model)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), model.objective_trace_)
    assert ax.get_title() == "converged after 12 iterations"
    model.converged_, model.objective_trace_ = False, [1.0]
    assert plot_trace(model).get_title() == "not converged after 1 iteration"


def test_biplot_draws_scores_and_the_strongest_loadings():
    model, scores = fitted(n_features=64)
    ax = plot_biplot(model, scores, top=7)
    np.testing.assert_array_equal(ax.collections[0].get_offsets(), scores)
    length = np.linalg.norm(model.components_, axis=0)
    strongest = np.argsort(-length)[:7]
    assert [label.get_text() for label in labels(ax)] == [f"x{j}" for j in strongest]
    # One common stretch: arrows keep their directions and relative lengths.
    stretch = arrows(ax) / model.components_[:, strongest].T
    np.testing.assert_allclose(stretch, stretch[0, 0], rtol=1e-12)
    ratio = 100 * model.explained_deviance_ratio_
    assert ax.get_xlabel() == f"component 1 ({ratio[0]:.1f} % of deviance)"
    assert ax.get_ylabel() == f"component 2 ({ratio[1]:.1f} % of deviance)"


def test_biplot_scaled_for_columns():
    model, scores = fitted(n_components=3)
    ax = plot_biplot(model, scores, scaling="columns", top=5)
    deviation = scores[:, :2].std(axis=0)
    np.testing.assert_allclose(ax.collections[0].get_offsets().std(axis=0), 1.0)
    loadings = model.components_[:2].T * deviation
    loadings = loadings[np.argsort(-np.linalg.norm(loadings, axis=1))]
    stretch = arrows(ax) / loadings
    np.testing.assert_allclose(stretch, stretch[0, 0], rtol=1e-12)


def test_biplot_of_scores_without_spread():
    model, scores = fitted()
    for scaling in ("rows", "columns"):
        ax = plot_biplot(model, np.zeros_like(scores), scaling=scaling)
        assert np.isfinite(ax.get_xlim()).all()


@pytest.mark.parametrize("n_features", [5, 64, 5000])
def test_labels_do_not_overlap(n_features):
    model, scores = fitted(n_features=n_features)
    names = [f"A rather long name of feature {j}" for j in range(n_features)]
    ax = plot_biplot(model, scores, feature_names=names)
    ax.figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in labels(ax)]
    assert len(boxes) == min(n_features, 10)
    # The text itself: an annotation's extent would also count the line to its point.
    texts = [super(Annotation, label).get_window_extent() for label in labels(ax)]
    assert not any(a.overlaps(b) for a, b in combinations(texts, 2))
    assert all(len(label.get_text()) <= 20 for label in labels(ax))


def test_biplot_with_one_component():
    model, scores = fitted(n_components=1)
    ax = plot_biplot(model, scores)
    np.testing.assert_array_equal(ax.collections[0].get_offsets()[:, 0], scores[:, 0])
    assert len(labels(ax)) == 5
    assert np.all(arrows(ax)[:, 1] == 0)
    assert list(ax.get_yticks()) == []


def test_row_names_are_written_for_the_outermost_of_many_rows():
    model, scores = fitted(n_samples=6)
    ax = plot_biplot(model, 100 * scores, row_names=list("abcdef"), top=0)
    assert {label.get_text() for label in labels(ax)} == set("abcdef")
    model, scores = fitted(n_samples=41)
    ax = plot_biplot(model, scores, row_names=[f"r{i}" for i in range(41)], top=0)
    named = {label.get_text() for label in labels(ax)}
    pixels = ax.transData.transform(scores[:, :2])
    distance = np.linalg.norm(pixels - np.median(pixels, axis=0), axis=1)
    assert f"r{np.argmax(distance)}" in named
    assert f"r{np.argmin(distance)}" not in named
    assert len(named) <= 40


def test_groups_have_distinct_looks_and_a_legend():
    model, scores = fitted(n_samples=60)
    ax = plot_biplot(model, scores, color=np.arange(60) % 10, top=0)
    points = [c for c in ax.collections if not isinstance(c, Quiver)]
    looks = {(tuple(c.get_facecolor()[0]), c.get_paths()[0].vertices.tobytes()) for c in points}
    assert len(looks) == 10
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [str(i) for i in range(10)]


def test_names_of_the_fitted_model_are_used_and_never_parsed(tmp_path):
    model, scores = fitted(n_features=3)
    model.feature_names_in_ = ["$x_{", "new\nline", "数"]
    ax = plot_biplot(model, scores)
    assert {label.get_text() for label in labels(ax)} == {"$x_{", "new line", "数"}
    save_figure(ax, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_pictures_are_the_same_bytes_each_time(tmp_path):
    for name in ("a.png", "b.png"):
        save_figure(plot_biplot(*fitted()), tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_given_axes_are_used():
    axes = Figure().subplots(1, 3)
    model, scores = fitted()
    assert plot_scree(model, ax=axes[0]) is axes[0]
    assert plot_trace(model, axes[1]) is axes[1]
    assert plot_biplot(model, scores, ax=axes[2]) is axes[2]


@pytest.mark.parametrize("plot", [plot_scree, plot_trace, lambda model: plot_biplot(model, [[0.0]])])
def test_unfitted_models_are_refused(plot):
    with pytest.raises(NotFittedError, match="call fit before plotting"):
        plot(SimpleNamespace())


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"scores": np.zeros((5, 3))}, r"shape \(n_samples, 2\).*got shape \(5, 3\)"),
        ({"scores": np.zeros(5)}, r"got shape \(5,\)"),
        ({"feature_names": ["a"]}, "must hold 5 names, one for each column; got 1"),
        ({"row_names": ["a"]}, "row_names must hold 50 values"),
        ({"color": ["a"]}, "color must hold 50 values"),
        ({"scaling": "both"}, "scaling must be .rows., .symmetric. or .columns.; got .both."),
    ],
)
def test_biplot_refuses(arguments, complaint):
    model, scores = fitted()
    with pytest.raises(ValueError, match=complaint):
        plot_biplot(model, **({"scores": scores} | arguments))


def test_a_label_without_room_is_left_out():
    ax = Figure().add_subplot()
    ax.set(xlim=(-1, 1), ylim=(-1, 1))
    everything = [Box(-1e4, -1e4, 1e4, 1e4)]
    point = np.array([[0.5, 0.5]])
    assert place_labels(ax, point, ["a"], color="k", taken=everything) == everything
    assert not labels(ax)
    # Its neighbourhood taken, a label goes further away or is left out.
    anchor = ax.transData.transform(point[0])
    near = [Box(*(anchor - 30), *(anchor + 30))]
    assert place_labels(ax, point, ["a"], color="k", taken=near, reach_far=False) == near
    assert len(place_labels(ax, point, ["a"], color="k", taken=near)) == 2
    assert len(labels(ax)) == 1


@pytest.mark.parametrize(
    ("name", "short"),
    [("abc", "abc"), ("a" * 12, "a" * 12), ("abcdefghijklmnop", "abcdefgh…nop"), ("a \n b", "a b"), (7, "7")],
)
def test_shorten(name, short):
    assert shorten(name, most=12) == short

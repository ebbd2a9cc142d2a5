"""Pruning paths: steps, marks, words."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from anypca import SePCA
from anypca.plotting import plot_pruning_path


def removal(iteration, n_components, reason="relevance", alpha=1234.5):
    return SimpleNamespace(
        iteration=iteration, n_components=n_components, alpha=alpha, ratio=0.01, reason=reason
    )


PATH = (removal(4, 5), removal(8, 4, alpha=2.345), removal(20, 3, "evidence"))


def test_steps_lead_from_the_first_number_to_the_last():
    ax = plot_pruning_path(SimpleNamespace(pruning_path_=PATH, n_components_=2))
    steps, by_relevance, by_evidence = ax.lines
    assert steps.get_drawstyle() == "steps-post"
    np.testing.assert_allclose(steps.get_xdata(), [0, 4, 8, 20, 1.12 * 20])
    np.testing.assert_array_equal(steps.get_ydata(), [5, 4, 3, 2, 2])
    np.testing.assert_array_equal(by_relevance.get_xydata(), [(4, 4), (8, 3)])
    np.testing.assert_array_equal(by_evidence.get_xydata(), [(20, 2)])
    assert by_relevance.get_color() != by_evidence.get_color()
    assert by_relevance.get_marker() != by_evidence.get_marker()
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["removed for lack of relevance", "removed for lack of evidence"]
    assert [text.get_text() for text in ax.texts] == ["α = 1,234", "α = 2.3", "α = 1,234"]
    assert ax.get_title() == "5 pruned to 2 components"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("sweeps over the table", "number of components")
    assert min(ax.get_xticks()) >= 0


def test_nothing_removed():
    ax = plot_pruning_path(SimpleNamespace(pruning_path_=(), n_components_=1))
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [1, 1])
    assert ax.get_title() == "no component removed: 1 component"
    assert ax.get_legend() is None


def test_many_removals_are_marked_without_words():
    path = tuple(removal(4 * i, 60 - i) for i in range(1, 50))
    ax = plot_pruning_path(SimpleNamespace(pruning_path_=path, n_components_=10))
    assert len(ax.lines[1].get_xdata()) == 49
    assert not ax.texts


@pytest.mark.parametrize("n_removals", [3, 12])
def test_words_stay_within_the_picture(n_removals):
    path = tuple(removal(4 * i, 20 - i) for i in range(1, n_removals + 1))
    ax = plot_pruning_path(SimpleNamespace(pruning_path_=path, n_components_=19 - n_removals))
    ax.figure.draw_without_rendering()
    frame = ax.get_window_extent()
    assert all(text.get_window_extent().x0 >= frame.x0 for text in ax.texts)


def test_a_fitted_model():
    rng = np.random.default_rng(0)
    counts = rng.poisson(np.exp(rng.normal(size=(60, 1)) @ rng.normal(size=(1, 8)) + 1))
    model = SePCA(max_components=4, family="poisson").fit(counts)
    ax = plot_pruning_path(model)
    assert ax.lines[0].get_ydata()[-1] == model.n_components_
    assert ax.lines[0].get_ydata()[0] == model.pruning_path_[0].n_components

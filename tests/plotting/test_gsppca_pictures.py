"""Pictures of globally sparse models: artists, data, labels."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure

from anypca.exceptions import NotFittedError
from anypca.plotting import plot_evidence_path, plot_support, save_figure


def fitted(n_features=12, n_selected=4, probability=0.5, seed=0):
    """A fitted model as the pictures see it."""
    rng = np.random.default_rng(seed)
    relevance = rng.uniform(size=n_features)
    ranking = np.argsort(-relevance)
    support = np.zeros(n_features, dtype=bool)
    support[ranking[:n_selected]] = True
    return SimpleNamespace(
        support_=support,
        relevance_=relevance,
        ranking_=ranking,
        evidence_path_=-((np.arange(1.0, n_features + 1) - n_selected) ** 2),
        n_features_selected_=n_selected,
        inclusion_probability_=probability,
    )


def test_evidence_path_marks_the_choice():
    model = fitted()
    ax = plot_evidence_path(model)
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), np.arange(1, 13))
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), model.evidence_path_)
    np.testing.assert_array_equal(ax.lines[1].get_xdata(), [4, 4])
    assert ax.get_title() == "4 of 12 variables selected"
    assert ax.get_ylabel() == "composite evidence"


def test_evidence_path_shows_what_is_maximised():
    model = fitted(probability=0.1)
    ax = plot_evidence_path(model)
    expected = model.evidence_path_ + np.arange(1, 13) * np.log(0.1 / 0.9)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), expected)
    assert ax.get_ylabel() == "composite evidence + log prior"


def test_support_as_an_image():
    model = fitted()
    ax = plot_support(model, shape=(3, 4))
    np.testing.assert_array_equal(ax.images[0].get_array(), model.support_.reshape(3, 4))
    with pytest.raises(ValueError, match=r"shape=\(5, 5\) has 25 pixels; the model has 12"):
        plot_support(model, shape=(5, 5))


def test_support_as_bars():
    model = fitted()
    ax = plot_support(model, feature_names=[f"gene {j}" for j in range(12)])
    heights = [bar.get_height() for bar in ax.patches]
    np.testing.assert_allclose(heights, model.relevance_[model.ranking_])
    labels = [tick.get_text() for tick in ax.get_xticklabels()]
    assert labels == [f"gene {j}" for j in model.ranking_]
    assert len({bar.get_facecolor() for bar in ax.patches[:4]}) == 1
    assert ax.patches[3].get_facecolor() != ax.patches[4].get_facecolor()
    with pytest.raises(ValueError, match=r"must hold 12 names.*got 1"):
        plot_support(model, feature_names=["a"])


def test_names_come_from_the_model():
    model = fitted()
    assert plot_support(model).get_xticklabels()[0].get_text() == f"x{model.ranking_[0]}"
    model.feature_names_in_ = np.array([f"pixel {j}" for j in range(12)])
    assert plot_support(model).get_xticklabels()[0].get_text() == f"pixel {model.ranking_[0]}"


def test_many_variables_have_no_names(tmp_path):
    model = fitted(n_features=300, n_selected=100)
    ax = plot_support(model)
    chosen, left_out = (patch.get_data().values for patch in ax.patches)
    np.testing.assert_array_equal(chosen + left_out, model.relevance_[model.ranking_])
    assert np.count_nonzero(chosen) == 100
    assert not any(tick.get_text().startswith("x") for tick in ax.get_xticklabels())
    save_figure(ax, tmp_path / "bars.png")
    assert (tmp_path / "bars.png").stat().st_size > 5000


@pytest.mark.parametrize("draw", [plot_evidence_path, plot_support])
def test_draws_into_given_axes_and_needs_a_fit(draw):
    ax = Figure().add_subplot()
    assert draw(fitted(), ax=ax) is ax
    with pytest.raises(NotFittedError, match="call fit"):
        draw(SimpleNamespace())

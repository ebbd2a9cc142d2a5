"""Scores: points, colours, ellipses."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.collections import EllipseCollection, LineCollection, PathCollection
from scipy.stats import chi2

from anypca import PPCA, KernelPCA
from anypca.plotting import plot_scores

RNG = np.random.default_rng(0)
MODEL = SimpleNamespace(components_=np.eye(3, 4), explained_variance_ratio_=np.array([0.6, 0.3, 0.05]))
SCORES = RNG.normal(size=(60, 3))


def clouds(ax):
    """Scatters that are drawn."""
    return [part for part in ax.collections if isinstance(part, PathCollection)]


def ellipses(ax):
    (found,) = [part for part in ax.collections if isinstance(part, EllipseCollection)]
    return found


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_points_are_the_scores_and_axes_tell_shares():
    ax = plot_scores(MODEL, SCORES, axes=(3, 1))
    (cloud,) = clouds(ax)
    np.testing.assert_array_equal(cloud.get_offsets(), SCORES[:, [2, 0]])
    assert ax.get_xlabel() == "component 3 (5.0 % of variance)"
    assert ax.get_ylabel() == "component 1 (60.0 % of variance)"
    assert ax.get_legend() is None


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (np.arange(60) % 3, ["0", "1", "2"]),
        (np.arange(60) % 2 == 0, ["False", "True"]),
        ((np.arange(60) % 12).astype(float), [str(i) for i in range(12)]),
        (["b", "a"] * 30, ["a", "b"]),
        (np.array(["a", None] * 30, dtype=object), ["a", "not known"]),
    ],
    ids=["integers", "truth values", "whole floats", "text", "missing"],
)
def test_groups(values, names):
    ax = plot_scores(MODEL, SCORES, color=values)
    assert legend(ax) == names
    assert sum(len(cloud.get_offsets()) for cloud in clouds(ax)) == 60
    looks = {(tuple(c.get_facecolor()[0]), c.get_paths()[0].vertices.tobytes()) for c in clouds(ax)}
    assert len(looks) == len(names)


def test_the_smallest_of_too_many_groups_share_a_look():
    values = [f"group {i:02d}" for i in range(30)] + ["group 29"] * 30
    ax = plot_scores(MODEL, SCORES, color=values)
    names = legend(ax)
    assert len(names) == 24
    assert names[-1] == "others"
    assert "group 29" in names
    assert sum(len(cloud.get_offsets()) for cloud in clouds(ax)) == 60


def test_numbers_get_a_scale_named_after_the_column():
    pandas = pytest.importorskip("pandas")
    values = pandas.Series(RNG.normal(size=60), name="age in years")
    values[3] = np.nan
    ax = plot_scores(MODEL, SCORES, color=values)
    unknown, cloud = clouds(ax)
    np.testing.assert_array_equal(unknown.get_offsets(), SCORES[[3], :2])
    np.testing.assert_array_equal(cloud.get_array(), values.dropna())
    assert cloud.get_cmap().name == "viridis"
    assert cloud.get_clim() == pytest.approx(tuple(np.percentile(values.dropna(), [1, 99])))
    assert ax.figure.axes[1].get_ylabel() == "age in years"
    assert legend(ax) == ["not known"]


def test_ellipses_have_the_coverage_asked_for():
    std = RNG.uniform(0.1, 0.2, size=(60, 3))
    ax = plot_scores(MODEL, SCORES, std, axes=(1, 3), coverage=0.5)
    found = ellipses(ax)
    radius = np.sqrt(chi2.ppf(0.5, 2))
    np.testing.assert_array_equal(found.get_offsets(), SCORES[:, [0, 2]])
    np.testing.assert_allclose(found.get_widths(), 2 * radius * std[:, 0])
    np.testing.assert_allclose(found.get_heights(), 2 * radius * std[:, 2])
    assert ax.get_title() == "50 % posterior ellipses"
    # All of them are in sight.
    (low, high), reach = ax.get_xlim(), radius * std[:, 0]
    assert low <= (SCORES[:, 0] - reach).min() <= (SCORES[:, 0] + reach).max() <= high


@pytest.mark.parametrize("width", [0.01, 3.0], ids=["narrow", "wide"])
def test_many_rows_have_ellipses_for_some_and_say_so(width):
    scores = RNG.normal(size=(1000, 3))
    ax = plot_scores(MODEL, scores, np.full_like(scores, width))
    n = len(ellipses(ax).get_offsets())
    assert n == (200 if width < 1 else 12)
    assert ax.get_title() == f"95 % posterior ellipses of {n} of 1000 rows"
    (cloud,) = clouds(ax)
    assert len(cloud.get_offsets()) == 1000
    # Equal rows are one ellipse: a thousand would pile up to black.
    ax = plot_scores(MODEL, np.ones((1000, 3)), np.full((1000, 3), 0.1))
    assert len(ellipses(ax).get_offsets()) == 1


def test_one_component_is_a_line_with_intervals():
    model = SimpleNamespace(components_=np.ones((1, 4)))
    scores, std = SCORES[:, :1], np.full((60, 1), 0.5)
    ax = plot_scores(model, scores, std)
    np.testing.assert_array_equal(clouds(ax)[0].get_offsets()[:, 0], scores[:, 0])
    (bars,) = [part for part in ax.collections if isinstance(part, LineCollection)]
    lengths = [segment[1, 0] - segment[0, 0] for segment in bars.get_segments()]
    np.testing.assert_allclose(lengths, 2 * 1.959964 * 0.5, rtol=1e-6)
    assert ax.get_xlabel() == "component 1"
    assert list(ax.get_yticks()) == []


def test_models_with_posterior_and_without_loadings():
    X = RNG.normal(size=(40, 5))
    model = PPCA(2).fit(X)
    ax = plot_scores(model, *model.transform(X, return_std=True))
    assert 12 <= len(ellipses(ax).get_offsets()) <= 40
    kernel = KernelPCA(2).fit(X)
    np.testing.assert_array_equal(
        clouds(plot_scores(kernel, kernel.transform(X)))[0].get_offsets(), kernel.transform(X)
    )


@pytest.mark.parametrize("coverage", [0.0, 1.0, 95])
def test_coverage_is_a_probability(coverage):
    with pytest.raises(ValueError, match=f"coverage must be between 0 and 1.*got {coverage}"):
        plot_scores(MODEL, SCORES, SCORES**2, coverage=coverage)


def test_a_title_of_ones_own_replaces_ours():
    ax = plot_scores(MODEL, SCORES, np.full_like(SCORES, 0.1))
    ax.set_title("mine")
    assert [ax.get_title(loc=loc) for loc in ("left", "center", "right")] == ["", "mine", ""]


def test_groups_have_means_and_ellipses():
    color = np.where(SCORES[:, 0] > 0, "right", "left")
    ax = plot_scores(MODEL, SCORES, color=color, groups="rows", coverage=0.9)
    left, right = ax.patches
    np.testing.assert_allclose(right.center, SCORES[color == "right", :2].mean(axis=0))
    # The principal axes of a group, scaled to hold nine tenths of it if it is normal.
    variances = np.linalg.eigvalsh(np.cov(SCORES[color == "left", :2].T))
    np.testing.assert_allclose([left.height, left.width], 2 * np.sqrt(chi2.ppf(0.9, 2) * variances))
    small = plot_scores(MODEL, SCORES, color=color, groups="means", coverage=0.9).patches[0]
    assert small.width == pytest.approx(left.width / np.sqrt((color == "left").sum()))


def test_ellipses_of_many_groups_are_outlines_below_the_points():
    def looks(n_groups):
        names = np.resize(list("abcdefghij")[:n_groups], len(SCORES))
        ax = plot_scores(MODEL, SCORES, color=names, groups="rows")
        assert len(ax.patches) == n_groups
        assert all(patch.zorder < cloud.zorder for patch in ax.patches for cloud in clouds(ax))
        return [patch.get_facecolor()[3] for patch in ax.patches]

    assert min(looks(4)) > 0
    assert looks(5) == [0.0] * 5


def test_groups_need_names():
    with pytest.raises(ValueError, match="needs color= with the group of each row"):
        plot_scores(MODEL, SCORES, groups="rows")
    with pytest.raises(ValueError, match="groups must be 'rows', 'means' or None; got 'all'"):
        plot_scores(MODEL, SCORES, color=["a", "b"] * 30, groups="all")


def test_supplementary_rows_are_open_diamonds():
    more = RNG.normal(size=(5, 3))
    ax = plot_scores(MODEL, SCORES, supplementary=more)
    _, extra = clouds(ax)
    np.testing.assert_array_equal(extra.get_offsets(), more[:, :2])
    assert extra.get_facecolor().size == 0
    assert (
        len(
            clouds(
                plot_scores(
                    SimpleNamespace(components_=np.ones((1, 4))), SCORES[:, :1], supplementary=more[:, :1]
                )
            )
        )
        == 2
    )


def test_ten_groups_have_ten_colours():
    ax = plot_scores(MODEL, SCORES, color=np.arange(60) % 10)
    assert len({tuple(cloud.get_facecolor()[0]) for cloud in clouds(ax)}) == 10

"""What is drawn is what the model and the table hold."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import EllipseCollection, LineCollection, PathCollection
from matplotlib.quiver import Quiver
from scipy import sparse
from scipy.stats import chi2
from tests.draws import generator

from anypca import EPCA, PPCA, KernelPCA, PiecewisePCA
from anypca.plotting import (
    plot_biplot,
    plot_correlation_circle,
    plot_fitted,
    plot_hinge,
    plot_latent_pieces,
    plot_loadings,
    plot_predicted,
    plot_rank_comparison,
    plot_rank_selection,
    plot_scores,
    plot_scree,
    plot_trace,
)
from anypca.selection import compare_ranks, select_rank

RNG = generator("pictures")
SCORES = np.linalg.qr(np.column_stack([np.ones(60), RNG.normal(size=(60, 3))]))[0][:, 1:]
SCORES *= np.sqrt(60) * np.array([3.0, 2.0, 1.0])
MODEL = SimpleNamespace(
    components_=np.linalg.qr(RNG.normal(size=(8, 3)))[0].T,
    explained_variance_=np.array([9.0, 4.0, 1.0]),
    explained_deviance_ratio_=np.array([0.5, 0.2, 0.05]),
    objective_trace_=[-100.0, -10.0, -1.0, -0.5, -0.5],
    converged_=True,
)
X = RNG.normal(size=(80, 2)) @ RNG.normal(size=(2, 6)) + 0.3 * RNG.normal(size=(80, 6))


def parts(ax, kind):
    return [part for part in ax.get_children() if isinstance(part, kind)]


def clouds(ax):
    return [np.asarray(part.get_offsets()) for part in parts(ax, PathCollection)]


def in_order(points):
    return np.asarray(points)[np.lexsort(np.round(points, 9).T)]


def tips(ax):
    """Ends of all arrows, and points of a circle with many columns."""
    found = [np.column_stack([arrow.U, arrow.V]) for arrow in parts(ax, Quiver)] + clouds(ax)
    return in_order(np.concatenate(found))


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


# ------------------------------------------------------------------------------------------------ rows


def test_points_are_the_scores_and_axes_have_the_shares():
    ax = plot_scores(MODEL, SCORES, axes=(3, 1))
    np.testing.assert_array_equal(clouds(ax)[0], SCORES[:, [2, 0]])
    assert "component 3 (5.0 %" in ax.get_xlabel()
    assert "component 1 (50.0 %" in ax.get_ylabel()
    more = SCORES[:5] + 1.0
    np.testing.assert_array_equal(clouds(plot_scores(MODEL, SCORES, supplementary=more))[1], more[:, :2])


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (np.arange(60) % 3, ["0", "1", "2"]),
        (np.array(["a", None] * 30, dtype=object), ["a", "not known"]),
        (
            [f"g{i:02d}" for i in range(30)] + ["g29"] * 30,
            [f"g{i:02d}" for i in range(22)] + ["g29", "others"],
        ),
    ],
    ids=["integers", "missing", "too many"],
)
def test_groups_have_looks_of_their_own(values, names):
    ax = plot_scores(MODEL, SCORES, color=values)
    assert legend(ax) == names
    assert sum(map(len, clouds(ax))) == 60
    looks = {
        (tuple(c.get_facecolor()[0]), c.get_paths()[0].vertices.tobytes()) for c in parts(ax, PathCollection)
    }
    assert len(looks) == len(names)


def test_numbers_get_a_scale_named_after_the_column():
    values = pd.Series(RNG.normal(size=60), name="age in years")
    values[3] = np.nan
    ax = plot_scores(MODEL, SCORES, color=values)
    unknown, cloud = parts(ax, PathCollection)
    np.testing.assert_array_equal(unknown.get_offsets(), SCORES[[3], :2])
    np.testing.assert_array_equal(cloud.get_array(), values.dropna())
    assert cloud.get_clim() == pytest.approx(tuple(np.percentile(values.dropna(), [1, 99])))
    assert ax.figure.axes[1].get_ylabel() == "age in years"


def test_ellipses_have_the_coverage_asked_for():
    std = RNG.uniform(0.1, 0.2, size=(60, 3))
    ax = plot_scores(MODEL, SCORES, std, axes=(1, 3), coverage=0.5)
    (found,), radius = parts(ax, EllipseCollection), np.sqrt(chi2.ppf(0.5, 2))
    np.testing.assert_array_equal(found.get_offsets(), SCORES[:, [0, 2]])
    np.testing.assert_allclose(found.get_widths(), 2 * radius * std[:, 0])
    np.testing.assert_allclose(found.get_heights(), 2 * radius * std[:, 2])
    (low, high), reach = ax.get_xlim(), radius * std[:, 0]
    assert low <= (SCORES[:, 0] - reach).min() <= (SCORES[:, 0] + reach).max() <= high
    line = SimpleNamespace(components_=np.ones((1, 4)))
    (bars,) = parts(plot_scores(line, SCORES[:, :1], std[:, :1]), LineCollection)
    lengths = [segment[1, 0] - segment[0, 0] for segment in bars.get_segments()]
    np.testing.assert_allclose(lengths, 2 * 1.959964 * std[:, 0], rtol=1e-6)


# --------------------------------------------------------------------------------------------- columns


@pytest.mark.parametrize(("scaling", "power"), [("rows", 0.0), ("symmetric", 0.5), ("columns", 1.0)])
def test_products_of_points_and_arrows_of_a_biplot_are_the_fitted_entries(scaling, power):
    """Up to the common factor by which arrows are stretched."""
    ax = plot_biplot(MODEL, SCORES, scaling=scaling, top=5)
    spread = SCORES[:, :2].std(axis=0) ** power
    np.testing.assert_allclose(clouds(ax)[0], SCORES[:, :2] / spread)
    loadings = MODEL.components_[:2].T * spread
    strongest = np.argsort(-np.linalg.norm(loadings, axis=1))[:5]
    (arrows,) = parts(ax, Quiver)
    stretch = np.column_stack([arrows.U, arrows.V]) / loadings[strongest]
    np.testing.assert_allclose(stretch, stretch[0, 0], rtol=1e-9)
    assert {text.get_text() for text in ax.texts} == {f"x{j}" for j in strongest}


@pytest.mark.parametrize("axes", [(1, 2), (3, 1)], ids=str)
def test_arrows_of_a_circle_are_correlations(axes):
    table = np.column_stack([SCORES, SCORES @ MODEL.components_])
    wanted = np.corrcoef(table.T)[3:, [axes[0] - 1, axes[1] - 1]]
    np.testing.assert_allclose(tips(plot_correlation_circle(MODEL, axes=axes)), in_order(wanted), atol=1e-6)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_a_circle_of_the_columns_themselves(form):
    """Correlations with the scores over the observed entries, also of models without loadings."""
    table = X + 100.0
    model = KernelPCA(2).fit(table)
    scores = model.transform(table)
    ax = plot_correlation_circle(model, scores, form(table))
    np.testing.assert_allclose(tips(ax), in_order(np.corrcoef(table.T, scores.T)[:6, 6:]), atol=1e-8)
    holes = table.copy()
    holes[RNG.random(X.shape) < 0.2] = np.nan
    seen = ~np.isnan(holes)
    wanted = [np.corrcoef(holes[s, j], scores[s].T)[0, 1:] for j, s in enumerate(seen.T)]
    np.testing.assert_allclose(
        tips(plot_correlation_circle(model, scores, holes)), in_order(wanted), atol=1e-8
    )


@pytest.mark.parametrize("n_features", [5, 5000])
def test_bars_are_the_largest_loadings(n_features):
    components = RNG.normal(size=(2, n_features))
    std = RNG.uniform(0.1, 0.5, size=(2, n_features))
    ax = plot_loadings(SimpleNamespace(components_=components, components_std_=std), 2, top=4)
    order = np.argsort(-np.abs(components[1]))[:4]
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], components[1, order])
    assert [label.get_text() for label in ax.get_yticklabels()] == [f"x{j}" for j in order]
    share = 100 * (components[1, order] ** 2).sum() / (components[1] ** 2).sum()
    assert f"4 of {n_features} columns, {share:.0f} %" in ax.get_title()
    (whiskers,) = parts(ax, LineCollection)
    ends = np.array([segment[:, 0] for segment in whiskers.get_segments()])
    expected = components[1, order, None] + np.array([-1, 1]) * std[1, order, None]
    np.testing.assert_allclose(ends, expected)
    signs = {(bar.get_width() > 0, bar.get_facecolor()) for bar in ax.patches}
    assert len({color for _, color in signs}) == len(signs)


# ------------------------------------------------------------------------------- the fit, and its rank


def test_scree_and_trace():
    ratio = MODEL.explained_deviance_ratio_
    ax = plot_scree(MODEL)
    np.testing.assert_allclose([bar.get_height() for bar in ax.patches], 100 * ratio)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), 100 * ratio.cumsum())
    with_evidence = SimpleNamespace(**vars(MODEL), evidence_by_rank_={4: -12.0, 0: -50.0, 3: -10.0})
    for ax, points in (
        (plot_scree(with_evidence), [(0, -50), (3, -10), (4, -12)]),
        (plot_scree(MODEL, criterion={1: 3.0, 5: 2.0}, criterion_name="ICL"), [(1, 3), (5, 2)]),
    ):
        (right,) = [other for other in ax.figure.axes if other is not ax]
        np.testing.assert_array_equal(right.lines[0].get_xydata(), points)
    assert right.get_ylabel() == "ICL"
    ax = plot_trace(MODEL)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), MODEL.objective_trace_)
    assert "converged after 5" in ax.get_title()
    np.testing.assert_allclose(
        plot_trace(MODEL, gap=True).lines[0].get_xydata(), [(1, 99.5), (2, 9.5), (3, 0.5)]
    )
    with pytest.raises(ValueError, match="gap=False"):
        plot_trace(SimpleNamespace(objective_trace_=[1.0, 1.0], converged_=True), gap=True)


def test_ranks_show_values_splits_errors_and_the_choice():
    given = {"ranks": [1, 2, 3], "criterion": "held_out", "cv": 4, "one_standard_error": True}
    found = select_rank(PPCA(n_jobs=1), X, **given)
    ax = found.plot()
    assert plot_rank_selection(found, ax) is ax
    drawn = [line.get_ydata() for line in found.plot().lines]
    for values in (found.values, *found.fold_losses, found.values[[found.best_rank - 1]]):
        assert any(np.array_equal(values, line) for line in drawn)
    heights = [
        segment[1, 1] - segment[0, 1] for segment in parts(found.plot(), LineCollection)[0].get_segments()
    ]
    np.testing.assert_allclose(heights, 2 * found.standard_errors, rtol=1e-9)
    limit = (found.values + found.standard_errors)[found.values.argmin()]
    assert any(np.allclose(line, limit) for line in drawn), "the line of the rule"


def test_a_comparison_has_a_dot_for_each_answer():
    found = compare_ranks(X, ["parallel", "minka"], family="gaussian", max_rank=4)
    ax = found.plot()
    assert [line.get_xdata()[0] for line in ax.lines if line.get_marker() == "o"] == [*found.ranks.values()]
    assert [label.get_text() for label in ax.get_yticklabels()] == list(found.labels)
    assert plot_rank_comparison(found, ax) is ax
    nothing = compare_ranks(X[:6], "minka", family="gaussian").plot()
    assert not [line for line in nothing.lines if line.get_marker() == "o"]


# ------------------------------------------------------------------------------- entries, rows of pieces


def test_every_observed_entry_is_drawn_with_its_mean():
    holes = X.copy()
    holes[::7, 2] = np.nan
    model, seen = PPCA(2).fit(holes), np.isfinite(holes)
    ax = plot_fitted(model, holes)
    means = model.inverse_transform(model.transform(holes))
    np.testing.assert_allclose(clouds(ax)[0], np.column_stack([means[seen], holes[seen]]))
    diagonal, groups = ax.lines
    np.testing.assert_array_equal(diagonal.get_xdata(), diagonal.get_ydata())
    assert np.all(np.diff(groups.get_xdata()) > 0)
    table = pd.DataFrame(X, columns=list("abcdef"))
    some = clouds(plot_fitted(PPCA(2).fit(table), table, features=["b", 3]))[0]
    np.testing.assert_array_equal(np.sort(some[:, 1]), np.sort(X[:, [1, 3]].ravel()))
    for options, message in (
        ({"scale": "cubic"}, "'log'.*cubic"),
        ({"features": [6]}, "6 columns"),
        ({"features": ["q"]}, "'q'"),
    ):
        with pytest.raises(ValueError, match=message):
            plot_fitted(PPCA(2).fit(X), X, **options)


def test_counts_with_offsets_have_a_scale_that_shows_zeros():
    offset = RNG.normal(size=(70, 1)) * np.ones(9)
    counts = RNG.poisson(np.exp(offset + 3.0)).astype(float)
    model = EPCA(1, family="poisson").fit(counts, offset=offset)
    ax = plot_fitted(model, counts, offset=offset)
    means = model.inverse_transform(model.transform(counts, offset=offset), offset=offset)
    np.testing.assert_allclose(clouds(ax)[0], np.column_stack([means.ravel(), counts.ravel()]))
    # 0 and 1 are as far apart as 1 and 3.
    places = ax.yaxis.get_transform().transform(np.array([0.0, 1.0, 3.0]))
    assert places[1] - places[0] == pytest.approx(places[2] - places[1])
    assert ax.get_ylim()[0] < 0 < counts.max() < ax.get_ylim()[1]
    # Rows are sampled with their offsets; a sparse table is the same table.
    everything = {tuple(pair) for pair in np.round(clouds(ax)[0], 6)}
    some = clouds(plot_fitted(model, sparse.csr_array(counts), offset=offset, max_rows=20, max_cells=100))[0]
    assert len(some) == 100
    assert {tuple(pair) for pair in np.round(some, 6)} <= everything


def test_pieces():
    latent = RNG.normal(size=(150, 2))
    bent = np.column_stack([latent, np.abs(latent[:, 0])]) + 0.1 * RNG.normal(size=(150, 3))
    model = PiecewisePCA(n_init=2, n_jobs=1).fit(bent)
    piece, scores = model.predict_piece(bent), model.transform(bent)
    ax, plane = plot_hinge(model, sparse.csr_array(bent), (0, 2)), plot_latent_pieces(model, bent, (-1, 0))
    for k in range(2):
        np.testing.assert_allclose(ax.lines[k].get_xydata(), bent[piece == k][:, [0, 2]])
        np.testing.assert_allclose(plane.lines[k].get_xydata(), scores[piece == k][:, [-1, 0]])
    # The path has no gap, and the breakpoint is where the model has it.
    first, second = (drawn.get_xydata() for drawn in ax.lines if drawn.get_linewidth() == 2.0)
    np.testing.assert_allclose(first[-1], second[0], atol=1e-6)
    np.testing.assert_allclose(plane.lines[2].get_xdata(), model.breakpoints_[0])
    observed, generated = plot_predicted(model, bent, (0, 2), n_samples=40, random_state=3).lines
    np.testing.assert_array_equal(observed.get_xydata(), bent[:, [0, 2]])
    np.testing.assert_allclose(generated.get_xydata(), model.sample(40, random_state=3)[:, [0, 2]])
    with pytest.raises(ValueError, match=r"2 latent coordinates.*got 2"):
        plot_latent_pieces(model, bent, (2, 0))


# --------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plot_scores(MODEL, SCORES[:, :2]), r"scores.*\(n_samples, 3\).*\(60, 2\)"),
        (lambda: plot_scores(MODEL, SCORES, SCORES**2, coverage=95), "coverage.*got 95"),
        (lambda: plot_scores(MODEL, SCORES, axes=(1, 1)), r"from 1 to 3.*\(1, 1\)"),
        (lambda: plot_scores(MODEL, SCORES, groups="rows"), "color="),
        (lambda: plot_biplot(MODEL, SCORES, color=["a"]), "color.*60 values.*got 1"),
        (lambda: plot_correlation_circle(MODEL, X=X), "scores="),
        (lambda: plot_correlation_circle(MODEL, SCORES, X), "60.*got 80"),
        (lambda: plot_correlation_circle(PPCA(1).fit(X)), "two components"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()

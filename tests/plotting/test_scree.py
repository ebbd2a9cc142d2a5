"""Scree plots with the evidence, and traces."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from anypca import PLNPCA, SePCA
from anypca.plotting import plot_scree, plot_trace

RATIO = np.array([0.4, 0.2, 0.1])


def model_with(**more):
    return SimpleNamespace(explained_deviance_ratio_=RATIO, **more)


def right_axis(ax):
    (right,) = [other for other in ax.figure.axes if other is not ax]
    return right


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


CARRIED = {
    "by rank": {"evidence_by_rank_": {4: -12.0, 0: -50.0, 3: -10.0}},
    "on a grid": {
        "n_components_grid_": np.array([0, 3, 4]),
        "evidence_grid_": np.array([-50.0, -10.0, -12.0]),
    },
}


@pytest.mark.parametrize("carried", CARRIED.values(), ids=CARRIED.keys())
def test_the_evidence_has_an_axis_of_its_own(carried):
    ax = plot_scree(model_with(**carried))
    curve, chosen = right_axis(ax).lines
    np.testing.assert_array_equal(curve.get_xydata(), [(0, -50), (3, -10), (4, -12)])
    np.testing.assert_array_equal(chosen.get_xydata(), [(3, -10)])
    assert right_axis(ax).get_ylabel() == "log evidence"
    assert legend(ax) == ["each component", "together", "log evidence", "this model"]
    assert ax.get_xlim()[0] < 0 < 4 < ax.get_xlim()[1]
    assert [bar.get_height() for bar in ax.patches] == pytest.approx(list(100 * RATIO))


def test_a_given_criterion():
    ax = plot_scree(model_with(), criterion={1: 30.0, 2: 20.0, 5: 25.0}, criterion_name="ICL")
    (curve,) = right_axis(ax).lines
    np.testing.assert_array_equal(curve.get_xydata(), [(1, 30), (2, 20), (5, 25)])
    assert right_axis(ax).get_ylabel() == "ICL"


def test_criteria_of_one_fit_are_told():
    ax = plot_scree(model_with(bic_=1234.56, icl_=1300.0))
    assert ax.figure.axes == [ax]
    assert ax.get_legend().get_title().get_text() == "ICL 1,300.0, BIC 1,234.6"
    assert plot_scree(model_with()).get_legend().get_title().get_text() == ""


def test_the_legend_is_within_the_figure():
    ax = plot_scree(model_with(**CARRIED["by rank"]))
    ax.figure.draw_without_rendering()
    box, figure = ax.get_legend().get_window_extent(), ax.figure.bbox
    assert figure.x0 <= box.x0 <= box.x1 <= figure.x1
    assert figure.y0 <= box.y0 <= box.y1 <= figure.y1


def test_no_components_leave_the_evidence():
    model = SimpleNamespace(explained_deviance_ratio_=np.zeros(0), evidence_by_rank_={0: -5.0, 1: -7.0})
    ax = plot_scree(model)
    assert not ax.patches
    np.testing.assert_array_equal(right_axis(ax).lines[1].get_xydata(), [(0, -5)])


def test_fitted_models():
    rng = np.random.default_rng(0)
    counts = rng.poisson(np.exp(rng.normal(size=(60, 2)) @ rng.normal(size=(2, 8)) + 2))
    sepca = SePCA(max_components=4, family="poisson").fit(counts)
    curve = right_axis(plot_scree(sepca)).lines[0]
    assert dict(zip(*curve.get_data(), strict=True)) == sepca.evidence_by_rank_
    path = PLNPCA(n_jobs=1).path(counts, [1, 2, 3])
    assert "BIC" in plot_scree(path.models[1]).get_legend().get_title().get_text()
    ax = plot_scree(path.best(), criterion=dict(zip(path.ranks, path.icl, strict=True)), criterion_name="ICL")
    np.testing.assert_array_equal(right_axis(ax).lines[0].get_ydata(), path.icl)


def test_the_gap_of_a_trace_is_logarithmic():
    model = SimpleNamespace(objective_trace_=[-100.0, -10.0, -1.0, -0.5, -0.5], converged_=True)
    ax = plot_trace(model, gap=True)
    assert ax.get_yscale() == "log"
    np.testing.assert_allclose(ax.lines[0].get_xydata(), [(1, 99.5), (2, 9.5), (3, 0.5)])
    assert ax.get_ylabel() == "objective, below the last value"
    model.objective_trace_ = [1.0, 1.0]
    with pytest.raises(ValueError, match=r"never changed.*gap=False"):
        plot_trace(model, gap=True)


@pytest.mark.parametrize("n_iter", [1, 2, 5000])
def test_iterations_are_whole_numbers(n_iter):
    ax = plot_trace(SimpleNamespace(objective_trace_=np.arange(n_iter), converged_=False))
    ax.figure.draw_without_rendering()
    assert all(float(tick).is_integer() for tick in ax.get_xticks())

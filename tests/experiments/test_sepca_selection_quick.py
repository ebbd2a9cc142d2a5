"""The quick forms of the experiments on the dimension and the posterior of SePCA, and the parts they are made of."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from experiments._held_out import Choice, mask, mean_curve, median_curve, way_to_worst

from experiments import (
    sepca_analytic,
    sepca_bayes,
    sepca_coverage,
    sepca_newsgroups,
    sepca_robust,
    sepca_selection,
    sepca_uci,
    truth_cases,
)

needs_data = pytest.mark.skipif(
    "ANYPCA_DATA" not in os.environ, reason="ANYPCA_DATA names no folder of data files"
)


@pytest.mark.parametrize(
    "experiment",
    [
        sepca_analytic,
        pytest.param(sepca_bayes, marks=pytest.mark.conformance),
        sepca_robust,
        sepca_selection,
        truth_cases,
        pytest.param(sepca_newsgroups, marks=needs_data),
    ],
    ids=lambda module: module.__name__,
)
def test_quick_form(experiment, tmp_path, capsys):
    status = experiment.main(["--quick", "--pictures", str(tmp_path), "--out", str(tmp_path / "out.json")])
    assert status == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    "experiment",
    [sepca_coverage, pytest.param(sepca_uci, marks=needs_data)],
    ids=lambda module: module.__name__,
)
def test_quick_form_runs(experiment, tmp_path):
    """One draw cannot judge these; that the figures are there and make sense can be seen."""
    status = experiment.main(["--quick", "--out", str(tmp_path / "out.json")])
    record = json.loads((tmp_path / "out.json").read_text())
    assert status == (0 if record["met"] else 1)
    assert record["targets"]
    assert all(np.isfinite(target["ours"]) for target in record["targets"])


@pytest.mark.parametrize(("ratio", "tau"), [(1.0, 2.51286), (0.25, 2.51 * 0.5)], ids=["square", "oblong"])
def test_analytic_threshold(ratio, tau):
    # The root is about 2.51 times the square root of the ratio, and exactly symmetric for square tables.
    expected = (1.0 + tau) * (1.0 + ratio / tau)
    assert sepca_analytic.smallest_square(ratio) == pytest.approx(expected, rel=0.02)


def test_analytic_noise_variance():
    X = 2.0 * np.random.default_rng(0).standard_normal((200, 80))
    squared = np.linalg.svd(X, compute_uv=False) ** 2 / 200
    ratio = 80 / 200
    found = sepca_analytic.analytic_noise(squared, ratio, sepca_analytic.smallest_square(ratio))
    assert found == pytest.approx(4.0, rel=0.03)
    assert sepca_analytic.analytic_rank(X) == 0


def test_analytic_rank_counts_strong_spikes():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((100, 3)) @ rng.standard_normal((3, 40)) + rng.standard_normal((100, 40))
    assert sepca_analytic.analytic_rank(X) == 3
    assert sepca_analytic.analytic_rank(X, 1.0) == 3


@pytest.mark.parametrize("name", list(sepca_robust.DESIGNS))
def test_designs_draw_what_they_say(name):
    cell = sepca_robust.Cell(name, 2, 100)
    drawn, again = (sepca_robust.draw(cell, seed=3) for _ in range(2))
    np.testing.assert_array_equal(drawn.X, again.X)
    assert np.isnan(drawn.X).mean() == pytest.approx(sepca_robust.DESIGNS[name].missing, abs=0.02)
    assert np.linalg.matrix_rank(drawn.eta - drawn.intercept) == 2


def test_masked_entries_are_the_hidden_ones():
    X = np.arange(60.0).reshape(6, 10)
    masked = mask(X, seed=0)
    np.testing.assert_array_equal(X[masked.rows, masked.columns], masked.values)
    assert np.isnan(masked.X).sum() == len(masked.values) > 0


def test_way_from_the_best_rank_to_the_worst():
    choices = [
        Choice({0: -4.0, 1: -2.0, 2: -3.0}, 1, -2.0),
        Choice({0: -4.0, 1: -2.0, 2: -3.0, 3: -9.0}, 2, -2.0),
    ]
    assert mean_curve(choices) == {0: -4.0, 1: -2.0, 2: -3.0}
    assert way_to_worst(choices) == pytest.approx(0.25)


def test_one_table_does_not_decide_the_median():
    choices = [Choice({1: -1.0, 2: value}, 1, 0.0) for value in (-2.0, -2.2, -90.0)]
    assert median_curve(choices) == {1: -1.0, 2: -2.2}
    assert mean_curve(choices)[2] < -30

"""The quick forms of the experiments on simple Poisson PCA reach their targets."""

from __future__ import annotations

import os

import numpy as np
import pytest
from experiments._cells import Cells
from experiments._common import Options
from experiments._sppca import silhouette
from experiments._sppca_printed import State, n_components, value_and_gradient
from scipy.optimize import approx_fprime

from experiments import (
    sppca_classes,
    sppca_loadings,
    sppca_newsgroups,
    sppca_order,
    sppca_text,
    ssppca_support,
)

needs_data = pytest.mark.skipif(
    "ANYPCA_DATA" not in os.environ, reason="ANYPCA_DATA names no folder of data files"
)
DRAWN = {sppca_loadings, sppca_classes, sppca_text}


@pytest.mark.parametrize(
    "experiment",
    [
        sppca_loadings,
        sppca_order,
        sppca_classes,
        ssppca_support,
        pytest.param(sppca_text, marks=needs_data),
        pytest.param(sppca_newsgroups, marks=needs_data),
    ],
    ids=lambda module: module.__name__,
)
def test_quick_form(experiment, tmp_path, capsys):
    status = experiment.main(["--quick", "--pictures", str(tmp_path), "--out", str(tmp_path / "out.json")])
    assert status == 0, capsys.readouterr().out
    assert (tmp_path / "out.json").exists()
    assert bool(list(tmp_path.glob("*.png"))) == (experiment in DRAWN)


def test_plan_has_every_published_cell():
    plan = sppca_order._plan(Options())
    published = [cell for cell in plan if cell.noise == "as published" and cell.n_samples <= 200]
    assert len(published) == 2 * 4 * 3
    assert {plan[cell] for cell in published if cell.n_features == 20} == {20}
    assert set(sppca_order._plan(Options(seed=7))) < set(published)
    assert {cell.n_samples for cell in plan if cell.noise == "Poisson"} == {25, 50, 100, 200, 400, 1000}
    assert set(sppca_order.TARGETS) == {(n, d) for n in sppca_order.SIZES for d in sppca_order.TRUTHS}


def test_poisson_noise_grows_with_the_mean():
    cell = sppca_order.Cell("Poisson", 20, 1000, 1)
    X = sppca_order.draw(cell, 0)
    again = sppca_order.draw(cell._replace(noise="as published"), 0)
    # Columns 3 to 20 have mean 40; their differences have no factor in them.
    assert abs(np.var(X[:, 5] - X[:, 6]) / 80.0 - 1.0) < 0.15
    assert abs(np.var(again[:, 5] - again[:, 6]) / 12.0 - 1.0) < 0.15


def test_gradient_of_the_printed_objective():
    rng = np.random.default_rng(0)
    X, alpha = rng.poisson(3.0, size=(6, 4)), np.array([0.5, 2.0])
    at = rng.normal(size=(6 + 4) * 2)

    def state(vector):
        return State(vector[:12].reshape(6, 2), vector[12:].reshape(4, 2), alpha)

    numeric = approx_fprime(at, lambda vector: value_and_gradient(state(vector), X)[0], 1e-7)
    np.testing.assert_allclose(value_and_gradient(state(at), X)[1], numeric, rtol=1e-4, atol=1e-4)


def test_printed_algorithm_finds_one_factor_in_few_rows():
    assert n_components(sppca_order.draw(sppca_order.Cell("as published", 20, 25, 1), 0)) == 1


def test_order_that_is_reversed_is_said():
    clusters = {"SPPCA": 0.1, "SSPPCA": 0.5, "GPCA": 0.4, "PCA": 0.3, "SGPCA": 0.2}
    found = {name: sppca_text.Row(None, np.zeros((2, 1)), value, 0.0) for name, value in clusters.items()}
    said = sppca_text._reversals("posts", found)
    assert "reversed: SSPPCA above SPPCA, GPCA above SPPCA, PCA above SPPCA, SGPCA above SPPCA." in said
    assert "nothing is reversed" in sppca_text._reversals(
        "posts", {name: row._replace(clusters=sppca_text.PAPER[name]) for name, row in found.items()}
    )


def test_f_score_pairs_components():
    truth = np.zeros((2, 8), dtype=bool)
    truth[0, :3] = truth[1, 3:6] = True
    assert ssppca_support.f_score(truth[::-1], truth) == 1.0
    assert ssppca_support.f_score(truth[:1], truth) == pytest.approx(2 * 3 / (3 + 6))
    extra = np.vstack([truth, np.ones((1, 8), dtype=bool)])
    assert ssppca_support.f_score(extra, truth) == pytest.approx(2 * 6 / (14 + 6))
    assert ssppca_support.f_score(np.zeros((0, 8), dtype=bool), truth) == 0.0


def test_silhouette_of_two_heaps():
    rng = np.random.default_rng(0)
    heaps = rng.normal(size=(40, 2)) + np.repeat([[0.0], [50.0]], 20, axis=0)
    assert silhouette(heaps, 2) > 0.95
    assert np.isnan(silhouette(np.zeros((40, 0)), 2))


def _add(first, second, seed):
    return first + second + seed


def test_cells_are_kept_and_continued(tmp_path, monkeypatch):
    path = tmp_path / "cells.json"
    monkeypatch.setenv("ANYPCA_CELLS", str(path))
    assert Cells("study", Options(seed=2)).get(_add, (10, 20), 2) == [32, 33]
    calls = []

    def count(first, second, seed):
        calls.append(seed)
        return _add(first, second, seed)

    again = Cells("study", Options(seed=2))
    assert again.get(count, (10, 20), 3) == [32, 33, 34]
    assert calls == [4]
    assert again.get(count, (10, 20), 1) == [32]
    assert Cells("study", Options(quick=True)).path is None

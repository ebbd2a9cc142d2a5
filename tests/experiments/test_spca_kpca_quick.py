"""The experiments on sparse and kernel PCA, in their reduced form."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from experiments._common import Options, load_experiment
from experiments.kpca_swissroll import best_split, kept_distances, make_roll

needs_data = pytest.mark.skipif(
    not Path(os.environ.get("ANYPCA_DATA", "") or "/nonexistent").is_dir(),
    reason="ANYPCA_DATA names no folder of data files",
)


@pytest.mark.parametrize(
    "name", [pytest.param("spca_pitprops", marks=needs_data), "kpca_swissroll", "kpca_scaling"]
)
def test_targets_are_met(name, tmp_path):
    _, run = load_experiment(name)
    outcome = run(Options(quick=True, pictures=tmp_path))
    assert [target.as_text() for target in outcome.targets if not target.is_met] == []
    assert outcome.targets
    assert [path.name for path in tmp_path.glob("*.png")] == list(outcome.pictures)


def test_distances_along_the_roll():
    """Small steps in space are as long as on the rectangle."""
    roll = make_roll(4000, 0)
    order = np.lexsort((roll.flat[:, 1], np.round(roll.flat[:, 0] / 0.05)))
    in_space = np.linalg.norm(np.diff(roll.X[order], axis=0), axis=1)
    on_surface = np.linalg.norm(np.diff(roll.flat[order], axis=0), axis=1)
    near = on_surface < 0.5
    assert near.sum() > 100
    np.testing.assert_allclose(in_space[near], on_surface[near], rtol=0.01)
    assert kept_distances(roll.flat, roll.flat) == pytest.approx(1.0)


def test_best_cut():
    score, ring = np.arange(6.0), np.array([1, 1, 1, 0, 0, 0])
    assert best_split(score, ring) == 1.0
    assert best_split(-score, ring) == 1.0
    assert best_split(score, np.array([1, 0, 1, 0, 0, 0])) == pytest.approx(5 / 6)

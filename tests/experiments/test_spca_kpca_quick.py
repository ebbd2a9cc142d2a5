"""The experiments on sparse and kernel PCA, in their reduced form."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from experiments._common import Options, load_experiment
from experiments.kpca_swissroll import best_split, kept_distances

from anypca.datasets import make_swiss_roll

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


def test_the_surface_keeps_its_own_distances():
    flat = make_swiss_roll(100, random_state=0).flat
    assert kept_distances(flat, flat) == pytest.approx(1.0)


def test_best_cut():
    score, ring = np.arange(6.0), np.array([1, 1, 1, 0, 0, 0])
    assert best_split(score, ring) == 1.0
    assert best_split(-score, ring) == 1.0
    assert best_split(score, np.array([1, 0, 1, 0, 0, 0])) == pytest.approx(5 / 6)

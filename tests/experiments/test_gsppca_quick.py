"""The quick forms of the experiments on globally sparse PCA reach their targets."""

from __future__ import annotations

import os

import pytest

from experiments import gsppca_digits, gsppca_intro, gsppca_leukemia, gsppca_noise, gsppca_selection

needs_data = pytest.mark.skipif(
    "ANYPCA_DATA" not in os.environ, reason="ANYPCA_DATA names no folder of data files"
)


@pytest.mark.parametrize(
    "experiment",
    [
        gsppca_intro,
        gsppca_noise,
        pytest.param(gsppca_selection, marks=pytest.mark.conformance),
        pytest.param(gsppca_leukemia, marks=needs_data),
        pytest.param(gsppca_digits, marks=needs_data),
    ],
    ids=lambda module: module.__name__,
)
def test_quick_form(experiment, tmp_path, capsys):
    status = experiment.main(["--quick", "--pictures", str(tmp_path), "--out", str(tmp_path / "out.json")])
    assert status == 0, capsys.readouterr().out
    assert (tmp_path / "out.json").exists()
    is_drawn = experiment is not gsppca_selection
    assert bool(list(tmp_path.glob("*.png"))) == is_drawn

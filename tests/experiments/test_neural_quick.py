"""The experiments with nets run in their quick form and meet its targets."""

from __future__ import annotations

import importlib
import os

import pytest
from experiments._common import Options

from anypca.datasets._dataset import FOLDER_VARIABLE


@pytest.mark.parametrize(
    "name", ["neural_digits", pytest.param("bibliometrics_nets", marks=pytest.mark.conformance)]
)
def test_quick_form_meets_its_targets(name, tmp_path):
    if name == "bibliometrics_nets" and FOLDER_VARIABLE not in os.environ:
        pytest.skip(f"{FOLDER_VARIABLE} does not name a folder with the data")
    outcome = importlib.import_module(f"experiments.{name}").run(Options(quick=True, pictures=tmp_path))
    assert outcome.is_met, [target.as_text() for target in outcome.targets if not target.is_met]
    assert outcome.tables
    assert all((tmp_path / picture).stat().st_size > 10_000 for picture in outcome.pictures)

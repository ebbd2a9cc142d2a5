"""The experiment on oaks in its reduced form, with its picture."""

from __future__ import annotations

import os

import pytest
from experiments._common import Options

from experiments import plnpca_oaks


@pytest.mark.skipif(not os.environ.get("ANYPCA_DATA"), reason="ANYPCA_DATA does not name the data folder")
def test_quick_run_meets_its_targets(tmp_path):
    outcome = plnpca_oaks.run(Options(quick=True, pictures=tmp_path))
    assert outcome.is_met, [target.as_text() for target in outcome.targets]
    assert [path.name for path in tmp_path.iterdir()] == list(outcome.pictures)

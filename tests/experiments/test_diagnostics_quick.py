"""The quick form of the experiment on detectors of false components."""

from __future__ import annotations

import json

import pytest

from experiments import diagnostics


@pytest.mark.conformance
def test_quick_form_runs(tmp_path, capsys):
    """Two tables of a design cannot judge correlated noise, which is found in two thirds of them."""
    status = diagnostics.main(["--quick", "--out", str(tmp_path / "out.json")])
    record = json.loads((tmp_path / "out.json").read_text())
    missed = [target["name"] for target in record["targets"] if not target["met"]]
    assert status == (1 if missed else 0)
    assert all("correlated noise" in name for name in missed), capsys.readouterr().out

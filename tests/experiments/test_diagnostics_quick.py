"""The detectors of false components reach their targets in the quick form of their experiment."""

from __future__ import annotations

from experiments import diagnostics


def test_quick_form(tmp_path, capsys):
    assert diagnostics.main(["--quick", "--out", str(tmp_path / "out.json")]) == 0, capsys.readouterr().out
    assert (tmp_path / "out.json").exists()

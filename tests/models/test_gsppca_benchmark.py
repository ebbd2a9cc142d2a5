"""The benchmark of globally sparse PCA runs in small and judges as it says."""

from __future__ import annotations

import pytest
from benchmarks import gsppca


@pytest.mark.parametrize(("target", "status"), [(1e9, 0), (0.0, 1)], ids=["met", "missed"])
def test_benchmark(monkeypatch, capsys, target, status):
    monkeypatch.setattr("sys.argv", ["gsppca", "--rows", "20", "--features", "300", "--components", "2"])
    monkeypatch.setattr(gsppca, "TARGET", target)
    assert gsppca.main() == status
    out = capsys.readouterr().out
    assert "ratio" in out
    assert "converged: True" in out

"""The comparison with pyPLNmodels: what it does without it, and its own part of the work."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from benchmarks.peers import plnpca


def test_says_what_is_missing(capsys, monkeypatch):
    monkeypatch.setattr(plnpca, "can_import", lambda python: "No module named 'pyPLNmodels'")
    assert plnpca.main(["--quick"]) == 2
    assert "--python" in capsys.readouterr().out


def test_worker_notes_bound_and_memory(tmp_path):
    options = plnpca.parse(["--quick"])
    np.savez(tmp_path / "table.npz", **plnpca.simulate(40, 8, 1))
    run = plnpca.start_worker("anypca", sys.executable, tmp_path / "table.npz", options)
    assert np.diff(run.bounds).min() > -1e-8
    assert run.reach(run.best) == pytest.approx(run.total, abs=1.0)
    assert run.reach(run.best + 1.0) is None
    assert run.megabytes > 10

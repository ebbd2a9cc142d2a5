"""The option --checkpoint: a fit that was stopped goes on; models without checkpoints say so."""

from __future__ import annotations

from typing import Any

import numpy as np

from anypca.cli import main
from anypca.solvers import checkpoint as checkpoint_module


def test_a_stopped_fit_goes_on(tmp_path: Any, capsys: Any, monkeypatch: Any) -> None:
    table, path, out = tmp_path / "counts.csv", tmp_path / "progress", tmp_path / "out"
    counts = np.random.default_rng(0).poisson(3.0, (40, 5))
    np.savetxt(table, counts, fmt="%d", delimiter=",", header="a,b,c,d,e", comments="")
    command = ["fit", str(table), "--model", "epca", "--family", "poisson", "--checkpoint", str(path)]
    command += ["--out", str(out), "--threads", "1", "--json"]

    def stop(journal: Any, shared: Any, trace: list[float]) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_module.Journal, "note", stop)
        assert main(command) == 130
    assert path.exists()
    assert not out.exists()
    assert main(command) == 0
    assert out.exists()
    assert not path.exists()
    assert main([*command, "--model", "spca"]) == 2
    assert "has no checkpoints" in capsys.readouterr().err

"""Files of equal models are equal."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from anypca.io._plain import _Writer, decode, encode


@pytest.mark.parametrize("name", ["SePCA", "KernelPCA", "BEPCA"])
@pytest.mark.filterwarnings("ignore::anypca.exceptions.ConvergenceWarning")
def test_equal_fits_of_different_processes_have_equal_files(name, tmp_path):
    path = tmp_path / "model.anypca"
    if name == "BEPCA":
        pytest.importorskip("arviz")
    code = (
        "import sys, warnings, numpy as np, anypca; warnings.simplefilter('ignore');"
        "X = np.random.default_rng(0).poisson(3.0, (30, 4)).astype(float);"
        "state = {} if sys.argv[1] == 'KernelPCA' else {'random_state': np.random.RandomState(3)};"
        "draws = {'n_draws': 10, 'n_tune': 10, 'n_chains': 1} if sys.argv[1] == 'BEPCA' else {};"
        "anypca.save(getattr(anypca, sys.argv[1])(2, **state, **draws).fit(X), sys.argv[2])"
    )
    written = []
    for seed in ("1", "2"):
        subprocess.run(
            [sys.executable, "-c", code, name, path], check=True, env={**os.environ, "PYTHONHASHSEED": seed}
        )
        written.append(path.read_bytes())
    assert written[0] == written[1]


def test_arrays_that_live_for_a_moment_are_not_taken_for_each_other():
    writer = _Writer()
    for value in range(50):  # the next one often gets the address of the last
        writer.encode(np.full(3, float(value)), "x")
    assert [leaf[0] for leaf in writer.leaves] == list(range(50))


def test_sets_are_written_in_one_order():
    # 8 and 0 fall on the same place of a small table of hashes, in the order of their coming.
    assert list({0, 8}) != list({8, 0})
    assert encode({0, 8})[0] == encode({8, 0})[0]
    assert decode(*encode({0, 8})) == {0, 8}

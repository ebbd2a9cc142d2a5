"""Files of equal models are equal."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np

from anypca.io._plain import _Writer, decode, encode

#: Fits models and stores each in a folder.
PROGRAM = """
import pathlib, sys, warnings, numpy as np, anypca
warnings.simplefilter("ignore")
X = np.random.default_rng(0).poisson(3.0, (30, 4)).astype(float)
for name in sys.argv[2:]:
    state = {} if name == "KernelPCA" else {"random_state": np.random.RandomState(3)}
    draws = {"n_draws": 10, "n_tune": 10, "n_chains": 1} if name == "BEPCA" else {}
    model = getattr(anypca, name)(2, **state, **draws).fit(X)
    anypca.save(model, pathlib.Path(sys.argv[1], name))
"""


def test_equal_fits_of_different_processes_have_equal_files(tmp_path):
    names = ["SePCA", "KernelPCA", *(["BEPCA"] if find_spec("arviz") else [])]
    written = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", PROGRAM, tmp_path, *names]
        subprocess.run(command, check=True, env=environment)
        written.append({path.name: path.read_bytes() for path in tmp_path.iterdir()})
    assert len(written[0]) == len(names)
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

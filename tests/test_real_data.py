"""Memory and likelihood of Poisson EPCA on sorted blood cells (pbmc_facs), the larger data set."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from anypca import EPCA
from anypca.datasets import load_pbmc_facs

pytestmark = pytest.mark.data

MEMORY_PROGRAM = """
import json, pathlib, resource, sys, warnings
import numpy as np
from anypca import EPCA
from anypca.datasets import load_pbmc_facs
from anypca.exceptions import ConvergenceWarning

def peak():
    # A child's ru_maxrss starts at its parent's size on Linux; the high-water mark of its own memory does not.
    status = pathlib.Path("/proc/self/status")
    if status.exists():
        return 1024 * int(next(line for line in status.open() if line.startswith("VmHWM")).split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

counts = load_pbmc_facs().X
warnings.simplefilter("ignore", ConvergenceWarning)
model = EPCA(10, family="poisson", max_iter=2)
model.fit(counts, offset=np.log(np.asarray(counts.sum(axis=1)).ravel()))
print(json.dumps({"peak": peak(), "shape": model.components_.shape, "trace": model.objective_trace_.tolist()}))
"""


def test_peak_memory_of_rank_10_on_all_genes():
    """Every sweep visits the same blocks, so two of them show the memory of any number."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", MEMORY_PROGRAM], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["shape"] == [10, 16791]
    assert np.all(np.diff(found["trace"]) > 0)
    assert found["peak"] < 600 * 2**20, f"{found['peak'] / 2**20:.0f} MB"


@pytest.mark.filterwarnings("ignore::anypca.exceptions.ConvergenceWarning")
def test_rank_2_reaches_the_published_likelihood():
    """Without ridge the objective is the log-likelihood with all constants; its maximum lies above the published one.

    The fit of the authors of fastglmpca, rank 2 on 3000 genes, in about twice the sweeps that are needed.
    """
    with np.load(Path(os.environ["ANYPCA_DATA"]) / "pbmc_facs_fastglmpca_fit.npz") as stored:
        genes, published = stored["gene_idx"], float(stored["loglik"])
    counts = load_pbmc_facs().X[:, genes]
    totals = np.asarray(counts.sum(axis=1)).ravel()
    model = EPCA(2, family="poisson", ridge=0.0, max_iter=24).fit(counts, offset=np.log(totals))
    assert np.all(np.diff(model.objective_trace_) > 0)
    assert model.objective_trace_[-1] >= published

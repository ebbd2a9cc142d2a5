"""Fits on a cluster whose workers are lost on the way end where those that lose none do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

pytest.importorskip("distributed")
import dask
import dask.array as da
import distributed
from sklearn.base import clone

from anypca import EPCA, GPCA, PLNPCA, PPCA, PiecewisePCA, SePCA
from anypca.datasets import make_low_rank_counts
from anypca.engine import dask as engine

COUNTS = make_low_rank_counts(90, 8, 2, typical_mean=3.0, random_state=0).X.astype(float)
GAPS = np.where(np.random.default_rng(0).random(COUNTS.shape) < 0.1, np.nan, np.log1p(COUNTS))
# A few sweeps: what is lost is lost on the way, and both fits stop at the same sweep.
FEW = {"max_iter": 4, "n_jobs": 1}
MODELS = {
    "EPCA": (EPCA(2, family="poisson", **FEW), COUNTS),
    "PPCA": (PPCA(2, **FEW), GAPS),
    "PLNPCA": (PLNPCA(2, **FEW), COUNTS),
    "SePCA": (SePCA(1, family="poisson", **FEW), COUNTS),
    "GPCA": (GPCA(2, family="poisson", **FEW), COUNTS),
    "PiecewisePCA": (PiecewisePCA(1, **FEW), np.log1p(COUNTS)),
}
SLOWER = [
    pytest.param(name, marks=pytest.mark.conformance) for name in ("PLNPCA", "SePCA", "GPCA", "PiecewisePCA")
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    options = {"threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(n_workers=2, **options) as cluster, distributed.Client(cluster):
        yield cluster


@contextmanager
def _losing(cluster: Any, monkeypatch: Any, n_lost: int) -> Iterator[None]:
    """Workers leave before the fifth visit of the blocks, with all that they hold; then others come."""
    original, visits = engine._visits, []

    def visit(*arguments: Any) -> Any:
        visits.append(1)
        if len(visits) == 5:
            running = [worker for worker in cluster.workers.values() if worker.status.name == "running"]
            for worker in running[:n_lost]:
                cluster.sync(worker.close)
            # Those that left count as well.
            cluster.scale(len(cluster.worker_spec) + n_lost)
        return original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(engine, "_visits", visit)
        yield
    assert len(visits) > 5


@pytest.mark.filterwarnings("ignore")  # of four sweeps, and of workers that left
@pytest.mark.parametrize("n_lost", [1, 2], ids=["one", "all"])
@pytest.mark.parametrize("name", ["EPCA", "PPCA", *SLOWER])
def test_lost_workers_change_nothing(name: str, n_lost: int, cluster: Any, monkeypatch: Any) -> None:
    plain, table = MODELS[name][0], da.from_array(MODELS[name][1], chunks=(30, 8))
    with dask.config.set(scheduler="synchronous"):
        expected = clone(plain).fit(table)
    with _losing(cluster, monkeypatch, n_lost):
        model = clone(plain).fit(table)
    # The same sums in the same order: only what is added on several workers may round otherwise.
    np.testing.assert_allclose(model.objective_trace_[-1], expected.objective_trace_[-1], rtol=1e-9)
    np.testing.assert_allclose(model.components_, expected.components_, atol=1e-6)

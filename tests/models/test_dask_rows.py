"""Scores of Dask arrays are Dask arrays; a fit on a cluster goes on from the checkpoint of a client that is gone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("distributed")
import dask.array as da
import distributed

from anypca import EPCA, PPCA
from anypca.datasets import make_low_rank_counts
from anypca.solvers import checkpoint as checkpoint_module

COUNTS = make_low_rank_counts(90, 8, 2, typical_mean=3.0, random_state=0).X.astype(float)


@pytest.mark.parametrize(
    "model", [EPCA(2, family="poisson", n_jobs=1), PPCA(2, n_jobs=1)], ids=["EPCA", "PPCA"]
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["double", "single"])
def test_scores_of_a_dask_array_are_one(model: Any, dtype: Any) -> None:
    table = COUNTS.astype(dtype)
    chunks = da.from_array(table, chunks=((40, 0, 50), 8))
    scores = model.fit(table).transform(chunks)
    assert isinstance(scores, da.Array)
    assert scores.shape == (90, 2)
    assert scores.chunks[0] == (40, 50)
    assert scores.dtype == dtype
    expected = model.transform(table)
    found = scores.compute(scheduler="synchronous")
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 if dtype == np.float32 else 1e-9)


def test_a_new_client_goes_on_from_the_checkpoint(tmp_path: Any, monkeypatch: Any) -> None:
    path, model = tmp_path / "fit.checkpoint", EPCA(2, family="poisson", n_jobs=1)
    original = checkpoint_module.Journal.note

    def note(journal: Any, shared: Any, trace: list[float]) -> None:
        original(journal, shared, trace)
        if len(trace) == 4:
            raise KeyboardInterrupt

    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster),
        monkeypatch.context() as patch,
    ):
        patch.setattr(checkpoint_module.Journal, "note", note)
        with pytest.raises(KeyboardInterrupt):
            model.fit(da.from_array(COUNTS, chunks=(30, 8)), checkpoint=path)
    assert path.exists()
    # Cluster and client are gone; another one has the same table.
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster):
        model.fit(da.from_array(COUNTS, chunks=(30, 8)), checkpoint=path)
    expected = EPCA(2, family="poisson", n_jobs=1).fit(COUNTS).objective_trace_[-1]
    np.testing.assert_allclose(model.objective_trace_[-1], expected, rtol=1e-6)

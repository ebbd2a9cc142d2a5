"""Fits that start where another one ended: warm starts, checkpoints of killed fits, workers that are lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from tests.draws import SHIFT, generator
from tests.models.estimators import COUNTS, GAPS, REALS, Interrupted, each_iteration, interrupted, make
from tests.models.tables import is_monotone, punch

from anypca import PPCA, Checkpoint, SePCA

HOLES = punch(REALS, 0.1, generator("holes of restarts"))
MODELS: dict[str, tuple[Any, np.ndarray]] = {
    "PPCA": (make("PPCA"), HOLES),
    "EPCA": (make("EPCA"), COUNTS),
    "EPCA with dispersions": (make("EPCA", family="negative_binomial"), COUNTS),
    "SePCA": (make("SePCA"), COUNTS),
    "SePCA map": (make("SePCA", inference="map"), COUNTS),
    "SSPPCA": (make("SSPPCA"), COUNTS),
    "GPCA": (make("GPCA"), COUNTS),
    "GSPPCA": (make("GSPPCA"), REALS),
    "PLNPCA": (make("PLNPCA"), COUNTS),
    "PiecewisePCA": (make("PiecewisePCA"), HOLES),
}
WARM = ("PPCA", "EPCA", "GPCA", "GSPPCA", "PLNPCA")


@pytest.mark.parametrize("name", WARM)
@pytest.mark.parametrize("way", ["warm_start", "init"])
def test_a_warm_fit_starts_at_the_end(name: str, way: str) -> None:
    plain, table = MODELS[name]
    plain = clone(plain).set_params(tol=1e-6)
    model = clone(plain).set_params(warm_start=True).fit(table)
    cold, end = model.n_iter_, model.objective_trace_[-1]
    again = model.fit(table) if way == "warm_start" else clone(plain).set_params(init=model).fit(table)
    assert again.n_iter_ <= max(2, (cold + 1) // 2)
    # Both are stationary to tol; what is left to gain is its square.
    np.testing.assert_allclose(again.objective_trace_[[0, -1]], end, rtol=1e-6)


@pytest.mark.parametrize("name", ["SePCA", "SSPPCA"])
def test_models_that_choose_their_dimension_start_near_the_end(name: str) -> None:
    plain, table = MODELS[name]
    model = clone(plain).set_params(warm_start=True).fit(table)
    again = clone(plain).set_params(init=model).fit(table)
    assert again.n_components_ == model.n_components_
    np.testing.assert_allclose(again.evidence_, model.evidence_, rtol=1e-3)
    wider = clone(plain).set_params(init=model).fit(np.hstack([table, table[:, :1]]))
    assert wider.components_.shape[1] == table.shape[1] + 1


def test_starts_that_do_not_fit() -> None:
    model = make("EPCA", warm_start=True).fit(COUNTS)
    plain = make("EPCA", n_components=3).fit(COUNTS)
    np.testing.assert_array_equal(model.set_params(n_components=3).fit(COUNTS).components_, plain.components_)
    for init, error in ((PPCA(2), TypeError), (make("EPCA"), ValueError)):
        with pytest.raises(error, match="init must be a"):
            make("EPCA", init=init).fit(COUNTS)
    assert make("EPCA", n_components=1, ridge="cv", init=model).fit(COUNTS).ridge_trials_
    with pytest.raises(ValueError, match="inference='vb'"):
        SePCA(inference="map", warm_start=True).fit(COUNTS)


@pytest.mark.parametrize("name", MODELS)
def test_killed_fits_end_at_the_same_optimum(name: str, tmp_path: Path, rng: np.random.Generator) -> None:
    model, table = MODELS[name]
    path = tmp_path / "fit.checkpoint"
    plain, kills = clone(model).fit(table), 0
    while True:
        attempt = clone(model).set_params(verbose=1)
        try:
            # Growing gaps between kills: an attempt that repeats work still comes further than the last.
            with interrupted(int(rng.integers(2, 20)) + 15 * kills):
                found = attempt.fit(table, checkpoint=Checkpoint(path, every=0.0))
            break
        except Interrupted:
            kills += 1
            assert path.exists()
            assert not hasattr(attempt, "components_")
    assert found.converged_ == plain.converged_
    assert found.n_components_ == plain.n_components_
    if not isinstance(model, SePCA):  # which ends by the gain of a sweep, wherever that is on its path
        # What remains to be gained at a scaled gradient of tol <= 1e-3 per entry is its square.
        np.testing.assert_allclose(found.objective_trace_[-1], plain.objective_trace_[-1], rtol=1e-5)
    assert is_monotone(found.objective_trace_, 1e-9)
    assert not path.exists()


SCRIPT = """
import os, signal, sys, time
import numpy as np
from anypca import Checkpoint, EPCA
from anypca.datasets import make_low_rank_counts

path, seed = sys.argv[1], int(sys.argv[2])
X = make_low_rank_counts(80, 20, 3, typical_mean=1.0, random_state=seed).X.astype(float)
model = EPCA(3, family="poisson", tol=1e-7, n_jobs=1)
expected = model.fit(X).objective_trace_[-1]
rng, kills = np.random.default_rng(seed), 0
for _ in range(6):
    child = os.fork()
    if child == 0:
        while True:  # whenever the signal comes, a fit is under way
            model.fit(X, checkpoint=Checkpoint(path, every=0.0))
    time.sleep(rng.uniform(0.0, 0.3))
    os.kill(child, signal.SIGKILL)
    kills += os.WIFSIGNALED(os.waitpid(child, 0)[1])
found = model.fit(X, checkpoint=path).objective_trace_[-1]
print(kills, abs(found / expected - 1.0) <= 1e-6, os.path.exists(path))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")
def test_fits_killed_by_the_system_go_on(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "fit.checkpoint"), str(SHIFT)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.split() == ["6", "True", "False"]


def interrupt(table: Any, path: Path, **settings: Any) -> None:
    with interrupted(3), pytest.raises(Interrupted):
        make("EPCA", verbose=1, **settings).fit(table, checkpoint=Checkpoint(path, every=0.0))


@pytest.mark.parametrize(
    ("model", "table", "complaint"),
    [
        (make("EPCA"), COUNTS[:-1], "another table: the number of rows differs: 80 then, 79 now"),
        (make("EPCA"), COUNTS + (np.arange(80) == 5)[:, None], "another table"),
        (make("EPCA", ridge=2.0), COUNTS, "ridge differs: auto then, 2.0 now"),
        (make("PLNPCA"), COUNTS, "another model: name differs: EPCA then, PLNPCA now"),
    ],
    ids=["rows", "values", "settings", "model"],
)
def test_a_checkpoint_of_something_else_is_refused(
    model: Any, table: Any, complaint: str, tmp_path: Path
) -> None:
    path = tmp_path / "fit.checkpoint"
    interrupt(COUNTS, path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=complaint):
        model.fit(table, checkpoint=path)
    assert path.read_bytes() == before
    # The number of threads may change.
    make("EPCA", n_jobs=2).fit(COUNTS, checkpoint=path)
    assert not path.exists()


def test_a_torn_file_counts_as_far_as_it_is_whole(tmp_path: Path) -> None:
    path, settings = tmp_path / "fit.checkpoint", {"tol": 1e-8, "max_iter": 5000}
    interrupt(COUNTS, path, **settings)
    whole, expected = path.read_bytes(), make("EPCA", **settings).fit(COUNTS)
    for cut in (1, 9, 100, len(whole) // 2):
        path.write_bytes(whole[:-cut])
        found = make("EPCA", **settings).fit(COUNTS, checkpoint=path)
        np.testing.assert_allclose(found.components_, expected.components_, atol=1e-4)
    path.write_text("my notes")
    with pytest.raises(ValueError, match=r"fit\.checkpoint is not a checkpoint"):
        make("EPCA").fit(COUNTS, checkpoint=path)
    assert path.read_text() == "my notes"


def test_random_starts_are_the_same_in_every_attempt(tmp_path: Path) -> None:
    """Without a seed the checkpoint keeps the state of the generator."""
    path, settings = tmp_path / "fit.checkpoint", {"random_state": None, "init": None}
    interrupt(GAPS, path, **settings)
    content = path.read_bytes()
    found = []
    for _ in range(2):
        path.write_bytes(content)
        found.append(make("EPCA", **settings).fit(GAPS, checkpoint=path).components_)
    np.testing.assert_array_equal(*found)


# ------------------------------------------------------------------------------------------------ clusters


@pytest.fixture(scope="module")
def distributed() -> Any:
    return pytest.importorskip("distributed")


def local_cluster(distributed: Any, n_workers: int) -> Any:
    options = {"threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    return distributed.LocalCluster(n_workers=n_workers, **options)


@pytest.mark.parametrize("name", ["EPCA", "PPCA"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["double", "single"])
def test_scores_of_a_dask_array_are_one(name: str, dtype: Any) -> None:
    da = pytest.importorskip("dask.array")
    table = COUNTS.astype(dtype)
    model = make(name).fit(table)
    scores = model.transform(da.from_array(table, chunks=((30, 0, 50), 8)))
    assert isinstance(scores, da.Array)
    assert scores.chunks[0] == (30, 50)
    found = scores.compute(scheduler="synchronous")
    assert found.dtype == scores.dtype == dtype
    np.testing.assert_allclose(
        found, model.transform(table), rtol=0, atol=1e-4 if dtype == np.float32 else 1e-9
    )


@pytest.mark.filterwarnings("ignore")  # of four sweeps, and of workers that left
@pytest.mark.parametrize(
    ("name", "n_lost"),
    [
        ("EPCA", 1),
        ("PPCA", 2),
        *(
            pytest.param(name, 2, marks=pytest.mark.conformance)
            for name in ("PLNPCA", "SePCA", "GPCA", "PiecewisePCA")
        ),
    ],
)
def test_lost_workers_change_nothing(name: str, n_lost: int, distributed: Any) -> None:
    import dask
    import dask.array as da

    model = make(name, max_iter=4, verbose=1)
    table = da.from_array(MODELS[name][1], chunks=(30, 8))
    with dask.config.set(scheduler="synchronous"):
        expected = clone(model).fit(table)
    with local_cluster(distributed, 2) as cluster, distributed.Client(cluster):

        def lose(count: int) -> None:
            """After the first iteration workers leave with all that they hold, then others come."""
            if count == 1:
                workers = [worker for worker in cluster.workers.values() if worker.status.name == "running"]
                for worker in workers[:n_lost]:
                    cluster.sync(worker.close)
                cluster.scale(len(cluster.worker_spec) + n_lost)  # workers that were closed count as well

        with each_iteration(lose):
            found = clone(model).fit(table)
    # The same sums; only what is added on several workers may round otherwise.
    np.testing.assert_allclose(found.objective_trace_[-1], expected.objective_trace_[-1], rtol=1e-9)
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-6)

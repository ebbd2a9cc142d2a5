"""Fits that are killed and go on: the same optimum, whatever the moment; files of something else."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from anypca import EPCA, GPCA, GSPPCA, PLNPCA, PPCA, SSPPCA, Checkpoint, PiecewisePCA, SePCA
from anypca.datasets import make_low_rank_counts
from anypca.solvers import checkpoint as checkpoint_module

COUNTS = make_low_rank_counts(80, 10, 2, typical_mean=3.0, random_state=0).X.astype(float)
REALS = np.random.default_rng(0).normal(size=(80, 2)) @ np.random.default_rng(1).normal(size=(2, 10))
REALS = REALS + np.random.default_rng(2).normal(size=REALS.shape)
GAPS = np.where(np.random.default_rng(3).random(REALS.shape) < 0.1, np.nan, REALS)

PLAIN = EPCA(2, family="poisson", n_jobs=1)
MODELS = {
    "PPCA": (PPCA(2, n_jobs=1), GAPS),
    "EPCA": (PLAIN, COUNTS),
    "EPCA, rounds": (EPCA(2, family="negative_binomial", n_jobs=1), COUNTS),
    "SePCA": (SePCA(3, family="poisson", n_jobs=1), COUNTS),
    "SePCA, mode": (SePCA(3, family="poisson", inference="map", n_jobs=1), COUNTS),
    "SSPPCA": (SSPPCA(3, sparsity=0.5, n_jobs=1), COUNTS),
    "GPCA": (GPCA(2, family="poisson", n_jobs=1), COUNTS),
    "GSPPCA": (GSPPCA(2, n_jobs=1), REALS),
    "PLNPCA": (PLNPCA(2, n_jobs=1), COUNTS),
    "PiecewisePCA": (PiecewisePCA(1, n_pieces=2, n_jobs=1), GAPS),
}


class Killed(BaseException):
    """What a kill looks like from inside."""


def _fit_with_kills(model: Any, table: Any, path: Any, monkeypatch: Any, seed: int) -> tuple[Any, int]:
    """Fit in as many attempts as it takes when each is killed after some writes; also how often it was killed."""
    rng, flush = np.random.default_rng(seed), checkpoint_module.Journal.flush
    kills = 0
    while True:
        left = int(rng.integers(3, 40))

        def write(journal: Any) -> None:
            nonlocal left
            flush(journal)
            left -= 1
            if left == 0:
                raise Killed

        monkeypatch.setattr(checkpoint_module.Journal, "flush", write)
        try:
            return clone(model).fit(table, checkpoint=Checkpoint(path, every=0.0)), kills
        except Killed:
            kills += 1


@pytest.mark.parametrize("name", MODELS)
def test_killed_fits_end_at_the_same_optimum(name: str, tmp_path: Any, monkeypatch: Any) -> None:
    model, table = MODELS[name]
    path = tmp_path / "fit.checkpoint"
    plain = clone(model).fit(table)
    found, kills = _fit_with_kills(model, table, path, monkeypatch, seed=4)
    assert kills > 0 or plain.n_iter_ < 40
    # What remains to be gained at a scaled gradient of tol <= 1e-4 per entry is its square.
    np.testing.assert_allclose(found.objective_trace_[-1], plain.objective_trace_[-1], rtol=1e-6)
    assert found.n_components_ == plain.n_components_
    assert np.diff(found.objective_trace_).min(initial=0.0) >= -1e-9 * abs(plain.objective_trace_[-1])
    assert not path.exists()


SCRIPT = """
import os, signal, sys, time
import numpy as np
from anypca import Checkpoint, EPCA
from anypca.datasets import make_low_rank_counts

X = make_low_rank_counts(150, 30, 3, typical_mean=1.0, random_state=1).X.astype(float)
model, path = EPCA(3, family="poisson", tol=1e-7, n_jobs=1), sys.argv[1]
start = time.perf_counter()
expected = model.fit(X).objective_trace_[-1]
whole = time.perf_counter() - start
rng, kills = np.random.default_rng(0), 0
for _ in range(20):
    child = os.fork()
    if child == 0:
        model.fit(X, checkpoint=Checkpoint(path, every=0.0))
        os._exit(0)
    time.sleep(rng.uniform(0.0, 0.8 * whole))
    os.kill(child, signal.SIGKILL)
    kills += os.WIFSIGNALED(os.waitpid(child, 0)[1])
found = model.fit(X, checkpoint=path).objective_trace_[-1]
print(kills, abs(found / expected - 1.0) <= 1e-6, os.path.exists(path))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")
def test_killed_at_random_moments(tmp_path: Any) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "fit.checkpoint")]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.split()
    # A fit that goes on may end before its time has come; then there was nothing to kill.
    assert int(said[0]) >= 5
    assert said[1:] == ["True", "False"]


def test_random_starts_are_those_of_the_first_attempt(tmp_path: Any, monkeypatch: Any) -> None:
    path = tmp_path / "fit.checkpoint"
    drawn = []

    def choose(family: Any, session: Any) -> Any:
        drawn.append(session.rng.random())
        raise KeyboardInterrupt

    monkeypatch.setattr("anypca.models.epca._estimator.choose_family", choose)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            EPCA(2, n_jobs=1, random_state=None).fit(COUNTS, checkpoint=path)
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize(
    ("model", "table", "complaint"),
    [
        (PLAIN, COUNTS[:-1], "another table: the number of rows differs: 80 then, 79 now"),
        (PLAIN, COUNTS + (np.arange(80) == 5)[:, None], "another table: the (largest|mean)"),
        (
            clone(PLAIN).set_params(ridge=2.0),
            COUNTS,
            "another set of parameters: ridge differs: auto then, 2.0 now",
        ),
        (PLNPCA(2, n_jobs=1), COUNTS, "another model: name differs: EPCA then, PLNPCA now"),
    ],
    ids=["rows", "values", "settings", "model"],
)
def test_a_checkpoint_of_something_else_is_refused(
    tmp_path: Any, monkeypatch: Any, model: Any, table: Any, complaint: str
) -> None:
    path = tmp_path / "fit.checkpoint"
    _interrupt(PLAIN, COUNTS, path, monkeypatch)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=complaint):
        model.fit(table, checkpoint=path)
    assert path.read_bytes() == before


def _interrupt(model: Any, table: Any, path: Any, monkeypatch: Any) -> None:
    """Ctrl-C in the third iteration."""

    def note(journal: Any, shared: Any, trace: list[float]) -> None:
        original(journal, shared, trace)
        if len(trace) == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        original = checkpoint_module.Journal.note
        patch.setattr(checkpoint_module.Journal, "note", note)
        with pytest.raises(KeyboardInterrupt):
            model.fit(table, checkpoint=path)


def test_an_interrupt_keeps_the_last_state(tmp_path: Any, monkeypatch: Any) -> None:
    path = tmp_path / "fit.checkpoint"
    model = EPCA(2, family="poisson", n_jobs=1)
    _interrupt(model, COUNTS, path, monkeypatch)
    assert not hasattr(model, "components_")
    expected = clone(model).fit(COUNTS).objective_trace_
    np.testing.assert_allclose(model.fit(COUNTS, checkpoint=path).objective_trace_[:2], expected[:2])


def test_the_number_of_threads_may_change(tmp_path: Any, monkeypatch: Any) -> None:
    path = tmp_path / "fit.checkpoint"
    _interrupt(PLAIN, COUNTS, path, monkeypatch)
    EPCA(2, family="poisson", n_jobs=2).fit(COUNTS, checkpoint=path)
    assert not path.exists()

"""Checkpoints: records that are whole or do not count, runs that go on, files of something else."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

from anypca.engine import Block, check_data, executor_for
from anypca.models._bilinear.alternating import Gauge, Shared
from anypca.models._bilinear.evaluator import Coefficients
from anypca.solvers import BlockProblem, Checkpoint, Loop, Status, Update
from anypca.solvers._records import pack, unpack
from anypca.solvers.checkpoint import Journal

IDENTITY = {"table": {"the mean": np.array([1.0, 2.0]), "the number of rows": 3}}


class Halving(BlockProblem[np.ndarray, float, np.ndarray]):
    """Minimises ``(x - 1)^2 + (row - x)^2`` by steps of half the way, of the rows too."""

    def step(self, block: Block, shared: np.ndarray, local: float | None) -> tuple[float, np.ndarray]:
        row = 0.5 * ((0.0 if local is None else local) + float(shared[0]))
        return row, np.array([(row - shared[0]) ** 2, block.n_rows])

    def update(self, shared: np.ndarray, stats: np.ndarray) -> Update[np.ndarray]:
        return Update(0.5 * (shared + 1.0), float(abs(shared[0] - 1.0)))

    def objective(self, shared: np.ndarray, stats: np.ndarray) -> float:
        return float(-((shared[0] - 1.0) ** 2) - stats[0])


class Killed(BaseException):
    """What a kill looks like from inside."""


@dataclass
class Bomb:
    """A clock that kills at a given look; each look takes a second."""

    left: int

    def __call__(self) -> float:
        self.left -= 1
        if self.left < 0:
            raise Killed
        return float(-self.left)


def _loop(journal: Any, tol: float = 1e-10) -> Loop[Any, Any, Any]:
    data = check_data(np.zeros((6, 2)), block_rows=2)
    return Loop(Halving(), data, executor_for(data, 1), max_iter=200, tol=tol, journal=journal)


def _two_runs(path: Any, clock: Any, every: float = 0.0) -> tuple[Any, Any]:
    """A fit of two runs, the second from where the first ended."""
    with Journal(Checkpoint(path, every), IDENTITY, clock=clock) as journal:
        first, local, _ = _loop(journal, 1e-3).run(np.array([5.0]))
        return first, _loop(journal).run(first.shared, local)


class Pair(NamedTuple):
    left: Any
    right: Any


@pytest.mark.parametrize(
    "value",
    [None, True, 3, -0.0, float("inf"), "word", [1, (2.0, None)], {"a": {"b": 2**100}}, Status.CONVERGED],
    ids=str,
)
def test_values_come_back(value: Any) -> None:
    assert unpack(pack(value)) == value


def test_dataclasses_with_arrays_come_back() -> None:
    arrays = np.arange(6.0).reshape(3, 2)
    shared = Shared(Coefficients(arrays, arrays[:, :1], arrays[:, 0]), Gauge(arrays, arrays[:2], arrays[:2]))
    back = unpack(pack(shared))
    assert isinstance(back, Shared)
    assert isinstance(back.gauge, Gauge)
    np.testing.assert_array_equal(back.coefficients.loadings, arrays)


def test_only_values_of_the_package_are_read() -> None:
    for name, complaint in (
        ("subprocess:Popen", "no class of anypca"),
        ("anypca.engine:check_data", "no value"),
    ):
        buffer = io.BytesIO()
        np.savez(buffer, tree=np.array(json.dumps({"type": name, "fields": {"args": "true"}})))
        with pytest.raises(ValueError, match=complaint):
            unpack(buffer.getvalue())
    with pytest.raises(TypeError, match="got function"):
        pack(lambda: None)


@pytest.mark.parametrize("moment", range(2, 50, 3))
def test_a_killed_chain_of_runs_ends_as_if_it_had_not_been(tmp_path: Any, moment: int) -> None:
    path = tmp_path / "fit.checkpoint"
    expected, (last, _, _) = _two_runs(tmp_path / "other", Bomb(10**6))
    with pytest.raises(Killed):
        _two_runs(path, Bomb(moment))
    first, (result, local, stats) = _two_runs(path, Bomb(10**6))
    assert result.status is last.status
    np.testing.assert_allclose(first.shared, expected.shared, rtol=0, atol=1e-12)
    np.testing.assert_allclose(result.shared, last.shared, rtol=0, atol=1e-9)
    assert np.diff(result.trace).min(initial=0) >= 0
    assert (len(local), stats[1]) == (3, 6)
    assert not path.exists()


def test_what_was_done_is_not_done_again(tmp_path: Any) -> None:
    path = tmp_path / "fit.checkpoint"
    with pytest.raises(Killed):
        _two_runs(path, Bomb(60))
    with Journal(Checkpoint(path), IDENTITY) as journal:
        loop = _loop(journal, 1e-3)
        loop.problem.update = None  # type: ignore[assignment]  # an iteration would call it
        result, local, _ = loop.run(np.array([5.0]))
        assert result.status is Status.CONVERGED
        # Rows are made when they are asked for: solved to their optimum, the shared parameter.
        np.testing.assert_allclose(local[0], result.shared[0], atol=1e-6)


def test_a_torn_record_does_not_count(tmp_path: Any) -> None:
    path = tmp_path / "fit.checkpoint"
    with pytest.raises(Killed):
        _two_runs(path, Bomb(20))
    whole = path.read_bytes()
    for cut in (1, 9, 100):
        path.write_bytes(whole[:-cut])
        with pytest.raises(Killed):
            _two_runs(path, Bomb(3))
    _, (result, _, _) = _two_runs(path, Bomb(10**6))
    np.testing.assert_allclose(result.shared, 1.0, atol=1e-9)


def test_a_run_that_starts_otherwise_is_not_taken_from_the_file(tmp_path: Any) -> None:
    path = tmp_path / "fit.checkpoint"
    with pytest.raises(Killed):
        _two_runs(path, Bomb(60))
    with Journal(Checkpoint(path), IDENTITY) as journal:
        assert journal.begin(Halving(), np.zeros(2)) is None
        assert journal.begin(Halving(), np.zeros(1)) is None


def test_writes_once_in_a_while_and_on_interrupts(tmp_path: Any) -> None:
    path, now = tmp_path / "fit.checkpoint", [0.0]
    journal = Journal(Checkpoint(path, 10.0), IDENTITY, clock=lambda: now[0])
    journal.begin(Halving(), np.zeros(1))
    empty = path.stat().st_size
    journal.note(np.zeros(1), [1.0])
    assert path.stat().st_size == empty
    now[0] = 10.0
    journal.note(np.ones(1), [1.0, 2.0])
    written = path.stat().st_size
    assert written > empty
    journal.note(np.ones(1), [1.0, 2.0, 3.0])
    with pytest.raises(KeyboardInterrupt), journal:
        raise KeyboardInterrupt
    assert path.stat().st_size > written
    with Journal(Checkpoint(path), IDENTITY) as journal:
        found = journal.begin(Halving(), np.zeros(1))
        assert found is not None
        np.testing.assert_array_equal(found.trace, [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"the number of rows": 4}, "the number of rows differs: 3 then, 4 now"),
        ({"the mean": np.array([1.0, 2.1])}, "the mean differs"),
        ({"the mean": np.ones(3)}, "the mean differs"),
    ],
    ids=["number", "array", "shape"],
)
def test_a_file_of_something_else_is_refused(tmp_path: Any, change: Any, complaint: str) -> None:
    path = tmp_path / "fit.checkpoint"
    with pytest.raises(Killed), Journal(Checkpoint(path), IDENTITY):
        raise Killed
    with pytest.raises(ValueError, match=f"another table: {complaint}"):
        Journal(Checkpoint(path), {"table": {**IDENTITY["table"], **change}})
    # Rounding is no difference.
    nearly = {"table": {**IDENTITY["table"], "the mean": np.array([1.0, 2.0 + 1e-12])}}
    Journal(Checkpoint(path), nearly)


def test_other_files_are_left_alone(tmp_path: Any) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my notes")
    with pytest.raises(ValueError, match="not a checkpoint"):
        Journal(Checkpoint(path), IDENTITY)
    assert path.read_text() == "my notes"

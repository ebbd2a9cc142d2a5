"""What belongs to rows of tables in files lies in a file, and is what it would be in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from anypca import SePCA
from anypca.datasets import make_low_rank
from anypca.engine import check_data, executor_for
from anypca.engine._shelf import Shelf
from anypca.models.sepca import _sample


@dataclass(frozen=True)
class Piece:
    mean: np.ndarray
    name: str


def is_mapped(array: Any) -> bool:
    """Whether the memory of an array is that of a mapped file: the base of bases is no array."""
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, memoryview) and type(array.obj).__name__ == "mmap"


@pytest.fixture
def table(tmp_path: Any) -> np.ndarray:
    X = make_low_rank(600, 5, 1, family="poisson", random_state=0).X.astype(float)
    np.save(tmp_path / "table.npy", X)
    return np.load(tmp_path / "table.npy", mmap_mode="r")


def test_pieces_come_back_in_order_and_from_the_file() -> None:
    rng = np.random.default_rng(0)
    pieces = [Piece(rng.normal(size=(n, 3)), str(n)) for n in (7, 0, 1)]
    with Shelf() as shelf:
        for piece in (*pieces, None, (rng.normal(size=(3, 4)).T, np.arange(5, dtype=np.uint8))):
            shelf.append(piece)
        *found, nothing, (turned, bytes_) = shelf.take()
    for piece, back in zip(pieces, found, strict=True):
        np.testing.assert_array_equal(back.mean, piece.mean)
        assert back.name == piece.name
    assert nothing is None
    assert turned.shape == (4, 3)
    np.testing.assert_array_equal(bytes_, np.arange(5))
    assert is_mapped(found[0].mean)
    assert is_mapped(turned)
    assert found[0].mean.ctypes.data % 64 == 0
    found[0].mean[:] = 0.0  # they may be written to, as those in memory


def test_nothing_takes_no_file() -> None:
    with Shelf() as shelf:
        shelf.append(None)
        assert shelf.take() == [None]
        assert shelf._file is None


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_locals_of_a_mapped_table_lie_in_a_file(table: np.ndarray, n_jobs: int) -> None:
    results = []
    for X in (table, table[:, ::-1][:, ::-1], np.array(table)):
        data = check_data(X, block_rows=100)
        with executor_for(data, n_jobs) as executor:
            local, _ = executor.sweep(lambda block, _: (block.values(), 0.0), data)
            local, total = executor.sweep(lambda block, rows: (rows + 1.0, rows.sum()), data, local)
            assert executor.sum(lambda block, rows: rows.sum(), data, local) == total + data.n_samples * 5
        assert all(is_mapped(rows) == data.is_in_file for rows in local)
        results.append(np.concatenate(local))
    assert not data.is_in_file
    np.testing.assert_array_equal(results[0], table + 1.0)
    np.testing.assert_array_equal(results[1], table + 1.0)


def test_an_error_closes_the_file(table: np.ndarray) -> None:
    data = check_data(table, block_rows=100)

    def fail(block: Any, _: Any) -> Any:
        if block.start > 200:
            raise RuntimeError("no")
        return block.values(), 0.0

    with executor_for(data, 1) as executor, pytest.raises(RuntimeError, match="no"):
        executor.sweep(fail, data)


def test_a_fit_is_the_same_from_a_file(table: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it begins on a sample, which then lies in a file too."""
    monkeypatch.setattr(_sample, "_FEWEST", 100)
    kinds, stored = [], _sample.store
    monkeypatch.setattr(_sample, "store", lambda *args: kinds.append(args[1]) or stored(*args))
    mapped, plain = (SePCA(1, family="poisson", n_jobs=1).fit(X) for X in (table, np.array(table)))
    assert kinds == [np.float64]
    np.testing.assert_array_equal(mapped.components_, plain.components_)
    np.testing.assert_array_equal(mapped.transform(table), plain.transform(np.array(table)))
